"""State-action LMDP: optimal control of actions, linear in the desirability z = exp(-v).

The Bellman equation of the paper's Section "State-Action LMDP" is ``z = Q exp(M log(W z))`` (eq.
nonlinear_z); for a deterministic p_x it is the linear ``z = Q P z`` with ``P = M W`` (eq.
salmdp_eig). Terminal state-actions keep ``z_T = exp(-q_T)`` (first exit). The optimal actions are
the passive ones, weighted by the desirability of where they lead (eq. salmdp_pol).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from gk_planner.errors import InputError, NotConvergedError
from gk_planner.state_action_lmdp import FloatArray, IntArray, StateActionLMDP, support

__all__ = [
    'Composite', 'Desirability', 'StateActionLMDP', 'compose', 'controlled_chain',
    'nonlinear_iteration', 'option_policy', 'solve_eigenvector', 'solve_linear',
    'solve_transient', 'state_policy', 'support', 'z_iteration']


@dataclass(frozen=True, eq=False)
class Desirability:
    """Solution of a state-action LMDP.

    Parameters
    ----------
    problem : StateActionLMDP
        What was solved.
    z : array, shape (n_states * n_actions,)
        Desirability; exactly zero where the terminals cannot be reached at finite cost.
    iterations : int
        Sweeps made; 0 for a direct solver.

    """

    problem: StateActionLMDP
    z: FloatArray
    iterations: int


def z_iteration(problem: StateActionLMDP, tolerance: float = 1e-12,
                max_iterations: int = 10_000) -> Desirability:
    """Solve by Algorithm 1 (saLMDP_solve): ``z_N <- Q P_NN z_N + Q P_NT z_T`` (eq. z-iter).

    The sweep stops when no entry changed by more than ``tolerance`` relative to itself. The sum
    of absolute changes in Algorithm 1 would stop before z has reached far state-actions, whose
    desirability is smaller than any fixed tolerance, and call them unreachable.

    Raises
    ------
    InputError
        If p_x is stochastic or z underflows.
    NotConvergedError
        If ``max_iterations`` sweeps do not suffice.

    """
    z, inner, block, source = _first_exit_blocks(problem)
    z_inner = np.zeros(inner.size)
    for sweep in range(1, max_iterations + 1):
        swept = block @ z_inner + source
        settled = np.all(np.abs(swept - z_inner) <= tolerance * swept)
        z_inner = swept
        if settled:
            return _desirability(problem, z, inner, z_inner, sweep)
    raise NotConvergedError(_gave_up('z_iteration', tolerance, max_iterations))


def solve_linear(problem: StateActionLMDP) -> Desirability:
    """Solve eq. z-linsys, row-scaled to ``(I - Q P_NN) z_N = Q P_NT z_T``, by sparse LU.

    Scaling by Q keeps infinite and large costs representable. Only rows of the support enter, on
    which the matrix is a non-singular M-matrix.

    Raises
    ------
    InputError
        If p_x is stochastic or z underflows.

    """
    z, inner, block, source = _first_exit_blocks(problem)
    return _desirability(problem, z, inner, solve_transient(block, source), 0)


def solve_transient(block: Any, source: Any) -> FloatArray:
    """Return ``(I - block)^-1 source`` for a sub-stochastic block of transient indices."""
    if block.shape[0] == 0:
        return np.asarray(source, dtype=float)
    matrix = sparse.csc_array(sparse.eye_array(block.shape[0]) - block)
    # Diagonal pivots on an M-matrix never cancel, so that tiny entries keep their digits.
    factors = linalg.splu(matrix, diag_pivot_thresh=0.0)
    return np.asarray(factors.solve(np.asarray(source)), dtype=float)


def solve_eigenvector(problem: StateActionLMDP) -> Desirability:
    """Solve ``lambda_1 z = Q P z`` (eq. salmdp_eig) with the principal eigenvalue 1.

    All terminals are one absorbing index, which makes the eigenvalue simple; the eigenvector is
    scaled to 1 there. Entries are accurate to the rounding of the largest, not each to its own.

    Raises
    ------
    InputError
        If p_x is stochastic or z underflows.
    NotConvergedError
        If the eigenvalue iteration fails.

    """
    z, inner, block, source = _first_exit_blocks(problem)
    exit_row = sparse.csr_array(([1.0], ([0], [inner.size])), shape=(1, inner.size + 1))
    matrix = sparse.vstack([sparse.hstack([block, source[:, None]]), exit_row], format='csr')
    if inner.size < 50:
        values, vectors = np.linalg.eig(matrix.toarray())
        vector = vectors[:, np.argmax(values.real)].real
    else:
        try:
            _, vectors = linalg.eigs(matrix, k=1, which='LM', v0=np.ones(inner.size + 1))
        except linalg.ArpackNoConvergence as error:
            raise NotConvergedError(f'solve_eigenvector: {error}') from error
        vector = (vectors[:, 0] / vectors[-1, 0]).real
    return _desirability(problem, z, inner, np.abs(vector[:-1] / vector[-1]), 0)


def nonlinear_iteration(problem: StateActionLMDP, tolerance: float = 1e-12,
                        max_iterations: int = 10_000) -> Desirability:
    """Solve ``z = Q exp(M log(W z))`` (eq. nonlinear_z) for any, also stochastic, p_x.

    Starts from z = 1 on the support: with a chance to stay where it is, a state-action that
    starts at zero would remain there, since log 0 outweighs everything.

    Raises
    ------
    InputError
        If z underflows.
    NotConvergedError
        If ``max_iterations`` sweeps do not suffice.

    """
    alive, terminal = support(problem), problem.terminal.ravel()
    inner = np.flatnonzero(alive & ~terminal)
    triples = np.flatnonzero((alive & ~terminal)[problem.triple_state_action_idx])
    outcome = problem.outcome_matrix[inner][:, triples]
    passive, cost = problem.passive_matrix[triples], problem.cost.ravel()
    z = np.where(terminal, np.exp(-cost), 0.0)
    z[inner] = 1.0
    for sweep in range(1, max_iterations + 1):
        with np.errstate(divide='ignore'):
            swept = np.exp(outcome @ np.log(passive @ z) - cost[inner])
        settled = np.all(np.abs(swept - z[inner]) <= tolerance * swept)
        z[inner] = swept
        if settled:
            return _desirability(problem, z, inner, swept, sweep)
    raise NotConvergedError(_gave_up('nonlinear_iteration', tolerance, max_iterations))


def option_policy(problem: StateActionLMDP, z: FloatArray) -> sparse.csr_array:
    """Return u_a(a'|x';x,a) of eq. salmdp_pol, shape (n_triples, n_states * n_actions).

    A row sums to 1 where the normalization is positive and is empty elsewhere.
    """
    policy = sparse.csr_array(problem.passive_matrix @ sparse.diags_array(z))
    policy.eliminate_zeros()
    policy.data /= np.repeat(policy.sum(axis=1), np.diff(policy.indptr))
    return policy


def state_policy(problem: StateActionLMDP, z: FloatArray) -> FloatArray:
    """Return u_a(a'|x'), shape (n_states, n_actions), for a p_a that depends on x' only.

    Raises
    ------
    InputError
        If the passive dynamics depend on the previous state-action.

    """
    if sparse.issparse(problem.passive):
        raise InputError('passive: a state policy needs p_a of shape (n_states, n_actions)')
    weight = problem.passive * np.reshape(z, problem.cost.shape)
    total = weight.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weight, total, out=np.zeros_like(weight), where=total > 0))


def controlled_chain(problem: StateActionLMDP, z: FloatArray) -> sparse.csr_array:
    """Return U: u_xa(x',a'|x,a) = u_a(a'|x';x,a) p_x(x'|x,a), before any termination."""
    return sparse.csr_array(problem.outcome_matrix @ option_policy(problem, z))


@dataclass(frozen=True, eq=False)
class Composite:
    """Composition of solutions that share all but their terminal costs.

    Parameters
    ----------
    z : array, shape (n_states * n_actions,)
        Sum of c_k z_k.
    mixture : array, shape (n_components, n_states * n_actions)
        m_k(x,a); columns sum to 1 where z > 0 and are zero elsewhere.
    option_policy : sparse, shape (n_triples, n_states * n_actions)
        Sum of m_k(x,a) u_k(a'|x';x,a); it is u* on every non-terminal (x,a) with z > 0.

    """

    z: FloatArray
    mixture: FloatArray
    option_policy: sparse.csr_array


def compose(problem: StateActionLMDP, components: Sequence[FloatArray],
            weights: Sequence[float]) -> Composite:
    """Compose solutions by the composition law (Section DNF_compo): z = sum of c_k z_k.

    Parameters
    ----------
    problem : StateActionLMDP
        The shared p_x, p_a and non-terminal cost.
    components : sequence of array
        The z_k, one for each set of terminal costs.
    weights : sequence of float
        The c_k, at least 0 and not all zero.

    Raises
    ------
    InputError
        If p_x is stochastic, or components and weights do not fit.

    """
    _refuse_stochastic(problem)
    z_k, c = np.array(components, dtype=float), np.array(weights, dtype=float)
    if z_k.ndim != 2 or z_k.shape[1] != problem.cost.size:
        raise InputError(f'components: expected arrays of length {problem.cost.size}, got '
                         f'shape {z_k.shape}')
    if c.shape != z_k.shape[:1] or not (np.all(c >= 0) and 0 < c.sum() < np.inf):
        raise InputError(f'weights: expected {len(z_k)} numbers >= 0, not all zero, got {weights}')
    z = c @ z_k
    mixture = np.divide(c[:, None] * z_k, z, out=np.zeros_like(z_k), where=z > 0)
    share = mixture[:, problem.triple_state_action_idx]
    mixed = sum((sparse.diags_array(share[k]) @ option_policy(problem, z_k[k])
                 for k in range(len(c))), start=sparse.csr_array(problem.passive_matrix.shape))
    return Composite(z, mixture, sparse.csr_array(mixed))


def _first_exit_blocks(problem: StateActionLMDP) -> tuple[FloatArray, IntArray, Any, FloatArray]:
    """Return z at the terminals, the live non-terminal indices N, Q P_NN and Q P_NT z_T."""
    _refuse_stochastic(problem)
    cost, terminal = problem.cost.ravel(), problem.terminal.ravel()
    z = np.where(terminal, np.exp(-cost), 0.0)
    inner = np.flatnonzero(support(problem) & ~terminal)
    rows = sparse.csr_array(
        sparse.diags_array(np.exp(-cost[inner])) @ problem.passive_chain[inner])
    return z, inner, rows[:, inner], np.asarray(rows @ z)


def _desirability(problem: StateActionLMDP, z: FloatArray, inner: IntArray, z_inner: FloatArray,
                  iterations: int) -> Desirability:
    z[inner] = z_inner
    exits = np.flatnonzero(problem.terminal.ravel() & np.isfinite(problem.cost.ravel()))
    alive = np.concatenate([exits, inner])
    lost = alive[z[alive] == 0]
    if lost.size:
        state, action = divmod(int(lost[0]), problem.n_actions)
        raise InputError(f'cost: the desirability of state {state}, action {action} underflows to '
                         'zero although a terminal is reachable; scale the costs down')
    z.flags.writeable = False
    return Desirability(problem, z, iterations)


def _refuse_stochastic(problem: StateActionLMDP) -> None:
    if not problem.is_deterministic:
        raise InputError('transition: this solution is linear for a deterministic p_x only; use '
                         'nonlinear_iteration')


def _gave_up(solver: str, tolerance: float, max_iterations: int) -> str:
    return f'{solver}: not within {tolerance} after {max_iterations} iterations'
