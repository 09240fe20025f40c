"""The paper's Algorithm 2 (TLMDP_solve) taken literally, from the option values on.

All matrices have the index (sigma, goal, option): the task state, the goal where the robot stands
and the option it calls; each goal has one site. G_so jumps to the state with the option's bit
flipped, at the option's goal, from where p_o calls any option.
"""

import numpy as np
from product_space import terminal_states
from scipy import sparse

from gk_planner.boolean_task import Task


def solve(task: Task, site_costs: np.ndarray, start_costs: np.ndarray,
          epsilon: float = 1e-300) -> tuple[float, np.ndarray]:
    """Return -log z of the entry and mu*(o' | sigma, goal), shape (n_states, n, n).

    ``site_costs[i, j]`` and ``start_costs[j]`` are -log z of the options, in the order of goals.
    """
    n = len(task.goals)
    sigma, _, option = (axis.ravel() for axis in np.meshgrid(
        np.arange(2 ** n), np.arange(n), np.arange(n), indexing='ij'))
    terminal = terminal_states(task)[sigma]

    # Lines 16-17: G = P_sigma o F o J, and G_so = G o p_o with p_o uniform.
    lands_on = ((sigma | (1 << option)) * n + option) * n
    rows = np.repeat(np.arange(sigma.size), n)
    columns = (lands_on[:, None] + np.arange(n)).ravel()
    g_so = sparse.csr_matrix((np.full(rows.size, 1 / n), (rows, columns)), shape=(sigma.size,) * 2)

    # Lines 18-23: the costs as diagonal matrices.
    is_forbidden = (sigma >> option) & 1 == 1
    for rule in task.bit_constraints:
        is_forbidden |= ((option == rule.control)
                         & ((sigma >> rule.control) & 1 == rule.control_value)
                         & ((sigma >> rule.condition) & 1 == rule.condition_value))
    q_sigma_alpha = sparse.diags(np.where(is_forbidden, 0.0, 1.0))
    q_option = sparse.diags(np.tile(np.exp(-site_costs).ravel(), 2 ** n))
    operator = q_sigma_alpha @ q_option @ g_so

    # Lines 24-30: z-iteration.
    inner = operator[~terminal]
    z = terminal.astype(float)
    delta = np.inf
    while delta > epsilon:
        new = inner @ z
        delta = np.abs(new - z[~terminal]).sum()
        z[~terminal] = new

    # Line 31: mu*, and the desirability to enter.
    z = z.reshape(2 ** n, n, n)
    total = z.sum(axis=2, keepdims=True)
    mu = np.divide(z, total, out=np.zeros_like(z), where=total > 0)
    opening = [goal for goal in range(n) if not is_forbidden[goal]]
    enter = sum(np.exp(-start_costs[goal]) * z[1 << goal, goal].mean() for goal in opening)
    return -float(np.log(enter / n)), mu
