"""The paper's Algorithm 2 taken literally: a sparse matrix over all task states, z-iteration."""

import numpy as np
from scipy import sparse

from gk_planner.boolean_task import Task


def solve(task: Task, site_costs: np.ndarray, start_costs: np.ndarray,
          tolerance: float = 1e-300) -> float:
    """Return -log z of the entry; costs are -log z of the options, one site per goal."""
    n_goals = len(task.goals)
    n_states = 2 ** n_goals
    forbidden = np.zeros((n_states, n_goals), dtype=bool)
    sigma = np.arange(n_states)
    for goal in range(n_goals):
        forbidden[:, goal] = (sigma >> goal) & 1
    for rule in task.bit_constraints:
        forbidden[:, rule.control] |= (((sigma >> rule.control) & 1) == rule.control_value) & (
            ((sigma >> rule.condition) & 1) == rule.condition_value)
    # Index (sigma, site, option); G_so jumps to (sigma', site of the option, any option).
    state, site, option = (axis.ravel() for axis in np.meshgrid(
        sigma, np.arange(n_goals), np.arange(n_goals), indexing='ij'))
    final = state == n_states - 1
    allowed = ~forbidden[state, option] & ~final
    gain = np.where(allowed, np.exp(-site_costs[site, option]), 0.0)
    next_state = state | (1 << option)
    rows = np.repeat(np.flatnonzero(allowed), n_goals)
    columns = ((next_state[allowed] * n_goals + option[allowed])[:, None] * n_goals
               + np.arange(n_goals)).ravel()
    matrix = sparse.csr_matrix((np.repeat(gain[allowed], n_goals) / n_goals, (rows, columns)),
                               shape=(len(state),) * 2)
    z = final.astype(float)
    while True:
        new = matrix @ z
        new[final] = 1.0
        if np.abs(new - z).sum() <= tolerance:
            break
        z = new
    # Desirability to enter, from the start in task state 0.
    mean = z.reshape(n_states, n_goals, n_goals).mean(axis=2)
    enter = [np.exp(-start_costs[goal]) * mean[1 << goal, goal]
             for goal in range(n_goals) if not forbidden[0, goal]]
    return -float(np.log(np.sum(enter) / n_goals))
