"""Option kernel: where an option ends, from where it starts.

Run to its end, the chain U of an option with terminals T (goal reached, or no way on) maps starts
to terminations by the fundamental matrix, ``X_NT = (I - A_NN)^-1 B_NT`` (Section "Option Kernel").
For a deterministic p_x and a single goal the desirability says the same (Theorem simple_thm):
``J(j|i, o_g) = 1`` if z(i) > 0 and j = g, or if z(i) = 0 and i = j.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import linalg
from scipy.sparse.csgraph import connected_components

from gk_planner.errors import InputError, NotConvergedError
from gk_planner.lmdp import controlled_chain, solve_transient
from gk_planner.state_action_lmdp import backward_reach, BoolArray, FloatArray, StateActionLMDP

_DENSE_SIZE = 500


def termination(z: FloatArray, terminal_value: float = 1.0) -> BoolArray:
    """Return beta(x,a) of eq. termination: failure (z = 0) or success (z = exp(-c_g)).

    Parameters
    ----------
    z : array
        Desirability of an option with a single goal.
    terminal_value : float
        exp(-c_g), that is z at the goal itself; no other entry can equal it, since every
        step on the way costs more than nothing.

    """
    return np.asarray((z == 0) | (z == terminal_value))


def absorbing_kernel(chain: Any, terminal: BoolArray) -> sparse.csr_array:
    """Return X = lim U^t, the probabilities of ending in each terminal (Section Option Kernel).

    Parameters
    ----------
    chain : sparse matrix, shape (n, n)
        U; rows of non-terminal indices sum to 1, rows of terminals are not read.
    terminal : bool array, shape (n,)
        T, of success and of failure.

    Returns
    -------
    sparse matrix, shape (n, n)
        Terminal rows are the identity; columns of non-terminals are empty.

    Raises
    ------
    InputError
        If a row does not sum to 1 or never ends in a terminal (I - A_NN is then singular).

    """
    chain, terminal = sparse.csr_array(chain), np.asarray(terminal, dtype=bool)
    size = terminal.size
    if terminal.ndim != 1 or chain.shape != (size, size):
        raise InputError(f'chain: expected shape {(size, size)} for a terminal mask of shape '
                         f'{terminal.shape}, got {chain.shape}')
    inner = np.flatnonzero(~terminal)
    wrong = inner[~(np.abs(chain[inner].sum(axis=1) - 1) <= 1e-9)]
    if wrong.size:
        raise InputError(f'chain: row {int(wrong[0])} must sum to 1 or be terminal')
    trapped = np.flatnonzero(~backward_reach(chain, ~terminal, terminal))
    if trapped.size:
        raise InputError(f'terminal: index {int(trapped[0])} never reaches a terminal')
    rows = chain[inner]
    # Only terminals entered from outside have a column to solve for.
    entered = np.flatnonzero(terminal & (rows.sum(axis=0) > 0))
    ending = sparse.coo_array(solve_transient(rows[:, inner], rows[:, entered].toarray()))
    ended = np.flatnonzero(terminal)
    return sparse.csr_array(
        (np.concatenate([ending.data, np.ones(ended.size)]),
         (np.concatenate([inner[ending.row], ended]),
          np.concatenate([entered[ending.col], ended]))), shape=(size, size))


def spectral_radius(matrix: Any) -> float:
    """Return the spectral radius of a non-negative matrix, below 1 for A_NN (sec:invertability).

    It is the largest one of the strongly connected blocks, each of which is well conditioned
    where the whole, often nilpotent, matrix is not.

    Raises
    ------
    NotConvergedError
        If the eigenvalue iteration of a large block fails.

    """
    matrix = sparse.csr_array(matrix)
    _, block_of = connected_components(matrix, directed=True, connection='strong')
    radius = float(matrix.diagonal().max(initial=0.0))
    for block in np.flatnonzero(np.bincount(block_of) > 1):
        members = np.flatnonzero(block_of == block)
        radius = max(radius, _block_radius(matrix[members][:, members]))
    return radius


def _block_radius(block: sparse.csr_array) -> float:
    if block.shape[0] <= _DENSE_SIZE:
        return float(np.abs(np.linalg.eigvals(block.toarray())).max())
    # The Perron root is the eigenvalue nearest to any bound above it, such as the row sums.
    bound = 1.001 * float(block.sum(axis=1).max())
    try:
        values = linalg.eigs(sparse.csc_array(block), k=1, sigma=bound,
                             v0=np.ones(block.shape[0]), return_eigenvectors=False)
    except linalg.ArpackNoConvergence as error:
        raise NotConvergedError(f'spectral_radius: {error}') from error
    return float(np.abs(values[0]))


def option_kernel_deterministic(z: FloatArray, goal_idx: int) -> sparse.csr_array:
    """Return J by Theorem simple_thm, for a deterministic p_x and a single goal.

    Parameters
    ----------
    z : array, shape (n,)
        Desirability of the option.
    goal_idx : int
        Index of (x,a)_g.

    Raises
    ------
    InputError
        If ``goal_idx`` is no index of z, or the goal is not desirable where other entries are.

    """
    z = np.asarray(z)
    if not 0 <= goal_idx < z.size:
        raise InputError(f'goal_idx: must be from 0 to {z.size - 1}, got {goal_idx}')
    if z[goal_idx] == 0 and np.any(z > 0):
        raise InputError(f'goal_idx: {goal_idx} is not the goal, its desirability is zero')
    end = np.where(z > 0, goal_idx, np.arange(z.size))
    return sparse.csr_array((np.ones(z.size), (np.arange(z.size), end)), shape=(z.size, z.size))


def option_kernel(problem: StateActionLMDP, z: FloatArray) -> sparse.csr_array:
    """Return J of an option: by the theorem where it holds, else by the fundamental matrix.

    Parameters
    ----------
    problem : StateActionLMDP
        The first-exit problem of the option.
    z : array, shape (n_states * n_actions,)
        Its desirability; where it is zero the option fails at once.

    """
    z, terminal = np.asarray(z), problem.terminal.ravel()
    goals = np.flatnonzero(terminal & (z > 0))
    if problem.is_deterministic and goals.size == 1:
        return option_kernel_deterministic(z, int(goals[0]))
    return absorbing_kernel(controlled_chain(problem, z), terminal | (z == 0))


def feasibility_matrix(kernels: Sequence[Any], goal_idx: Sequence[int]) -> FloatArray:
    """Return K(i, g) = J((x,a)_g | (x,a)_i, o_g), shape (n, n_options).

    Parameters
    ----------
    kernels : sequence of sparse matrix, each of shape (n, n)
        J of every option.
    goal_idx : sequence of int
        Index of (x,a)_g of every option.

    Raises
    ------
    InputError
        If there is not one goal for each kernel.

    """
    if len(kernels) != len(goal_idx) or not kernels:
        raise InputError(f'goal_idx: expected one goal for each of {len(kernels)} kernels, at '
                         f'least one, got {len(goal_idx)}')
    return np.column_stack([sparse.csc_array(kernel)[:, [goal]].toarray().ravel()
                            for kernel, goal in zip(kernels, goal_idx, strict=True)])


def feasibility(costs: npt.ArrayLike) -> BoolArray:
    """Return K as booleans from option costs, infinite where the option does not arrive.

    Parameters
    ----------
    costs : array
        Cost, that is -log z or shortest path length, from each start (row) to each goal (column).

    Raises
    ------
    InputError
        If an entry is negative or not a number.

    """
    costs = np.asarray(costs, dtype=float)
    if not np.all(costs >= 0):
        raise InputError('costs: entries must be at least 0, infinity where there is no way')
    return np.asarray(np.isfinite(costs))
