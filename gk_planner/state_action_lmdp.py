"""The state-action LMDP (X, A, p_x, p_a, q), as the sparse matrices of its Bellman equation.

``z = Q exp(M log(W z))`` (eq. nonlinear_z): M takes the expectation over the next state x' and W
over the next action a'; ``P = M W`` is the passive chain over state-actions. State-action (x, a)
has the index ``x * n_actions + a``. The columns of M, which are the rows of W, are the triples
(x, a, x') with p_x(x'|x,a) > 0 in the order of the transition matrix, so that nothing is cubic in
the number of states.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gk_planner.errors import InputError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class StateActionLMDP:
    """The tuple (X, A, p_x, p_a, q) of the paper's Definition saLMDP with its terminals.

    Parameters
    ----------
    transition : sparse or dense matrix, shape (n_states * n_actions, n_states)
        p_x(x'|x,a); every row sums to 1.
    passive : array, shape (n_states, n_actions), or sparse matrix
        p_a(a'|x'); or the general p_a(a'|x';x,a) as the paper's W, sparse, of shape
        (n_states * n_actions * n_states, n_states * n_actions), row (x, a, x').
    cost : array, shape (n_states, n_actions)
        q(x,a) >= 0; infinity forbids the state-action.
    terminal : bool array, shape (n_states, n_actions)
        Where the first exit happens; an infinite cost there is a failure.

    Raises
    ------
    InputError
        If a shape, a range or a sum is wrong.

    """

    transition: Any
    passive: Any
    cost: FloatArray
    terminal: BoolArray

    def __post_init__(self) -> None:
        cost = np.array(self.cost, dtype=float)
        if cost.ndim != 2 or cost.size == 0:
            raise InputError(f'cost: expected shape (n_states, n_actions), got {cost.shape}')
        if not np.all(cost >= 0):
            raise InputError('cost: entries must be at least 0 (infinity forbids), got '
                             f'{float(cost[~(cost >= 0)][0])}')
        terminal = np.array(self.terminal, dtype=bool)
        if terminal.shape != cost.shape or not terminal.any():
            raise InputError(f'terminal: expected a mask of shape {cost.shape} with at least one '
                             f'true entry, got shape {terminal.shape}')
        cost.flags.writeable = terminal.flags.writeable = False
        transition = sparse.csr_array(self.transition, dtype=float, copy=True)
        transition.sum_duplicates()
        transition.eliminate_zeros()
        _check_shape('transition', transition, (cost.size, cost.shape[0]))
        _check_rows('transition', transition.data, transition.sum(axis=1))
        for name, value in (('cost', cost), ('terminal', terminal), ('transition', transition)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, 'passive', self._checked_passive())
        _check_rows('passive', self.passive_matrix.data, self.passive_matrix.sum(axis=1))

    def _checked_passive(self) -> Any:
        if sparse.issparse(self.passive):
            given = sparse.coo_array(self.passive, dtype=float)
            _check_shape('passive', given, (self.cost.size * self.n_states, self.cost.size))
            if np.any(given.row % self.n_states != given.col // self.n_actions):
                raise InputError("passive: row (x, a, x') may only lead to actions of x'")
            return given
        prior = np.array(self.passive, dtype=float)
        _check_shape('passive', prior, self.cost.shape)
        _check_rows('passive', prior, prior.sum(axis=1))
        prior.flags.writeable = False
        return prior

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.cost.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.cost.shape[1])

    @property
    def is_deterministic(self) -> bool:
        """Whether every state-action has one next state."""
        return bool(self.transition.nnz == self.cost.size)

    @cached_property
    def triple_state_action_idx(self) -> IntArray:
        """The (x, a) of every triple (x, a, x')."""
        return np.repeat(np.arange(self.cost.size), np.diff(self.transition.indptr))

    @cached_property
    def outcome_matrix(self) -> sparse.csr_array:
        """M of eq. nonlinear_z, shape (n_states * n_actions, n_triples)."""
        n_triples = self.transition.nnz
        return sparse.csr_array(
            (self.transition.data, np.arange(n_triples), self.transition.indptr),
            shape=(self.cost.size, n_triples))

    @cached_property
    def passive_matrix(self) -> sparse.csr_array:
        """W of eq. nonlinear_z, shape (n_triples, n_states * n_actions)."""
        if sparse.issparse(self.passive):
            triple = self.triple_state_action_idx * self.n_states + self.transition.indices
            row = np.searchsorted(triple, self.passive.row).clip(max=triple.size - 1)
            used = triple[row] == self.passive.row
            return sparse.csr_array(
                (self.passive.data[used], (row[used], self.passive.col[used])),
                shape=(triple.size, self.cost.size))
        by_state = sparse.csr_array(
            (self.passive.ravel(), np.arange(self.cost.size),
             np.arange(0, self.cost.size + 1, self.n_actions)),
            shape=(self.n_states, self.cost.size))
        return by_state[self.transition.indices]

    @cached_property
    def passive_chain(self) -> sparse.csr_array:
        """P = M W: the joint passive dynamics p_xa(x',a'|x,a)."""
        return sparse.csr_array(self.outcome_matrix @ self.passive_matrix)


def backward_reach(chain: Any, through: BoolArray, targets: BoolArray) -> BoolArray:
    """Return which indices lead to the targets along the chain, passing ``through`` only."""
    reached = targets
    while True:
        grown = reached | (through & (chain @ reached.astype(float) > 0))
        if np.array_equal(grown, reached):
            return reached
        reached = grown


def support(problem: StateActionLMDP) -> BoolArray:
    """Return where z > 0: a terminal of finite cost can be reached with probability one.

    The expected log in eq. app_nonlinear_z makes z vanish as soon as one possible next state has
    no way on, hence "probability one"; for a deterministic p_x it is plain reachability.
    """
    alive = np.isfinite(problem.cost.ravel())
    terminal = problem.terminal.ravel()
    outcome, passive = problem.outcome_matrix, problem.passive_matrix
    while True:
        stuck = ~(passive @ alive.astype(float) > 0)
        safe = alive & (terminal | ~(outcome @ stuck.astype(float) > 0))
        reached = backward_reach(problem.passive_chain, safe & ~terminal, safe & terminal)
        if np.array_equal(reached, alive):
            return reached
        alive = reached


def _check_shape(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if value.shape != shape:
        raise InputError(f'{name}: expected shape {shape}, got {value.shape}')


def _check_rows(name: str, entries: FloatArray, sums: FloatArray) -> None:
    if not np.all(entries >= 0):
        raise InputError(f'{name}: probabilities must be at least 0')
    wrong = np.flatnonzero(~(np.abs(sums - 1) <= _SUM_TOLERANCE))
    if wrong.size:
        raise InputError(f'{name}: rows must sum to 1, row {int(wrong[0])} sums to '
                         f'{float(sums[wrong[0]])}')
