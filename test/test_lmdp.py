"""The state-action LMDP against hand-solved chains, 50-digit arithmetic and the paper's facts."""

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st
import mpmath
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import shortest_path

from gk_planner.errors import InputError, NotConvergedError
from gk_planner.lmdp import (
    compose,
    controlled_chain,
    nonlinear_iteration,
    option_policy,
    solve_eigenvector,
    solve_linear,
    state_policy,
    StateActionLMDP,
    support,
    z_iteration,
)

SEEDS = st.integers(0, 2**32 - 1)
LINEAR_SOLVERS = [z_iteration, solve_linear, solve_eigenvector]


def random_problem(seed, *, deterministic=True, max_states=6, max_actions=3):
    """Return a problem with infinite costs, failure terminals, zero priors and islands."""
    rng = np.random.default_rng(seed)
    n_states = int(rng.integers(2, max_states + 1))
    n_actions = int(rng.integers(1, max_actions + 1))
    size = n_states * n_actions
    outcomes = np.zeros((size, n_states))
    n_outcomes = 1 if deterministic else min(2, n_states)
    for row in outcomes:
        row[rng.choice(n_states, n_outcomes, replace=False)] = rng.dirichlet(
            np.full(n_outcomes, 2.0))
    passive = rng.uniform(0.2, 1, (n_states, n_actions))
    passive[:, 1:][rng.random((n_states, n_actions - 1)) < 0.2] = 0
    cost = rng.uniform(0.3, 2.0, (n_states, n_actions))
    cost[rng.random(cost.shape) < 0.15] = np.inf
    terminal = np.zeros(size, dtype=bool)
    terminal[rng.choice(size, min(size, int(rng.integers(1, 4))), replace=False)] = True
    terminal = terminal.reshape(cost.shape)
    cost[terminal & (rng.random(cost.shape) < 0.5)] = 0.0
    return StateActionLMDP(transition=outcomes, passive=passive / passive.sum(1, keepdims=True),
                           cost=cost, terminal=terminal)


def dense_reference(problem):
    """Solve z = Q P z with 50 digits by elimination over all non-terminals."""
    cost, terminal = problem.cost.ravel(), problem.terminal.ravel()
    chain = problem.transition.toarray() @ np.kron(
        np.eye(problem.n_states), np.ones(problem.n_actions)) * problem.passive.ravel()
    with mpmath.workdps(50):
        size = cost.size
        matrix, source = mpmath.eye(size), mpmath.zeros(size, 1)
        for i in range(size):
            weight = mpmath.exp(-mpmath.mpf(float(cost[i]))) if np.isfinite(cost[i]) else 0
            if terminal[i]:
                source[i] = weight
                continue
            for j in range(size):
                matrix[i, j] -= weight * mpmath.mpf(float(chain[i, j]))
        return np.array([float(value) for value in mpmath.lu_solve(matrix, source)])


def chain_with_stay(cost=1.0):
    """Return 0 -> 1 -> 2 (terminal) with the actions stay and go, each of probability 1/2."""
    return StateActionLMDP(
        transition=np.eye(3)[[0, 1, 1, 2, 2, 2]], passive=np.full((3, 2), 0.5),
        cost=[[cost, cost], [cost, cost], [0, 0]],
        terminal=[[False, False], [False, False], [True, True]])


def corridor(length, cost):
    """Return a one-action corridor that ends in its last cell."""
    after = np.minimum(np.arange(length) + 1, length - 1)
    q = np.full((length, 1), float(cost))
    q[-1] = 0
    return StateActionLMDP(transition=np.eye(length)[after], passive=np.ones((length, 1)), cost=q,
                           terminal=np.arange(length)[:, None] == length - 1)


def slippery(probability=0.5, cost=1.0):
    """Return one state that leaves for the terminal with a probability and else stays."""
    return StateActionLMDP(
        transition=[[1 - probability, probability], [0, 1]], passive=np.ones((2, 1)),
        cost=[[cost], [0]], terminal=[[False], [True]])


@pytest.mark.parametrize('solve', [*LINEAR_SOLVERS, nonlinear_iteration])
def test_hand_solved_chain(solve):
    e = math.e
    stay1, go1 = 1 / (2 * e**2 - e), 1 / e
    go0 = (stay1 + go1) / 2 / e
    stay0 = go0 / (2 * e - 1)
    solution = solve(chain_with_stay())
    np.testing.assert_allclose(solution.z, [stay0, go0, stay1, go1, 1, 1], rtol=1e-10)
    policy = state_policy(solution.problem, solution.z)
    np.testing.assert_allclose(policy[1], [stay1 / (stay1 + go1), go1 / (stay1 + go1)])


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_linear_solvers_agree_with_fifty_digits(seed):
    problem = random_problem(seed)
    reference = dense_reference(problem)
    for solve in LINEAR_SOLVERS:
        np.testing.assert_allclose(solve(problem).z, reference, rtol=0, atol=1e-9)
    np.testing.assert_allclose(solve_linear(problem).z, reference, rtol=1e-9)
    np.testing.assert_array_equal(support(problem), reference > 0)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_nonlinear_equals_linear_when_deterministic(seed):
    problem = random_problem(seed)
    np.testing.assert_allclose(
        nonlinear_iteration(problem).z, solve_linear(problem).z, rtol=1e-9)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_jensen_bounds_the_stochastic_solution(seed):
    problem = random_problem(seed, deterministic=False)
    z = nonlinear_iteration(problem).z
    inner = ~problem.terminal.ravel()
    once = (np.exp(-problem.cost.ravel()) * (problem.passive_chain @ z))[inner]
    assert np.all(z[inner] <= once * (1 + 1e-9))
    assert np.all(z <= dense_reference(problem) * (1 + 1e-9))


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_nonlinear_solves_its_equation(seed):
    problem = random_problem(seed, deterministic=False)
    z = nonlinear_iteration(problem).z
    np.testing.assert_array_equal(z > 0, support(problem))
    for index in np.flatnonzero(~problem.terminal.ravel() & (z > 0)):
        expected = problem.cost.ravel()[index]
        for after, probability in enumerate(problem.transition.toarray()[index]):
            if probability > 0:
                ahead = z.reshape(problem.cost.shape)[after]
                expected -= probability * math.log(problem.passive[after] @ ahead)
        assert -math.log(z[index]) == pytest.approx(expected, rel=1e-9)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_support_is_almost_sure_reachability(seed):
    """Try every deterministic choice of actions; z > 0 iff one of them surely arrives."""
    problem = random_problem(seed, deterministic=False, max_states=4, max_actions=2)
    cost, terminal = problem.cost.ravel(), problem.terminal.ravel()
    choices = [np.flatnonzero(row) for row in problem.passive]
    surely = np.zeros(cost.size, dtype=bool)
    for choice in itertools.product(*choices):
        chain = np.zeros((cost.size, cost.size))
        chain[:, np.arange(problem.n_states) * problem.n_actions + choice] = (
            problem.transition.toarray())
        chain[terminal | np.isinf(cost)] = 0
        chain[np.diag_indices(cost.size)] += terminal | np.isinf(cost)
        arrived = np.linalg.matrix_power(chain, 2**14) @ (terminal & np.isfinite(cost))
        surely |= arrived > 1 - 1e-9
    np.testing.assert_array_equal(support(problem), surely)


def test_slip_in_closed_form():
    # v = 1 + v / 2, whereas the linear equation would give z = 1 / (2 e - 1).
    problem = slippery()
    assert nonlinear_iteration(problem).z[0] == pytest.approx(math.exp(-2), rel=1e-10)
    assert dense_reference(problem)[0] == pytest.approx(1 / (2 * math.e - 1))


def test_a_possible_failure_leaves_no_desirability():
    problem = StateActionLMDP(
        transition=[[0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]], passive=np.ones((3, 1)),
        cost=[[1], [0], [np.inf]], terminal=[[False], [True], [True]])
    np.testing.assert_array_equal(nonlinear_iteration(problem).z, [0, 1, 0])


@pytest.mark.parametrize('solve', [*LINEAR_SOLVERS, lambda p: compose(p, [np.ones(2)], [1])])
def test_linear_solutions_refuse_a_stochastic_kernel(solve):
    with pytest.raises(InputError, match=r'transition: .*deterministic'):
        solve(slippery())


@given(SEEDS, st.booleans())
@settings(max_examples=40, deadline=None)
def test_policy_rows_sum_to_one_on_the_support(seed, deterministic):
    problem = random_problem(seed, deterministic=deterministic)
    z = nonlinear_iteration(problem).z
    policy = option_policy(problem, z)
    norm = problem.passive_matrix @ z
    np.testing.assert_allclose(policy.sum(axis=1), norm > 0, atol=1e-12)
    chain = controlled_chain(problem, z)
    inner = support(problem) & ~problem.terminal.ravel()
    np.testing.assert_allclose(chain.sum(axis=1)[inner], 1, rtol=1e-12)
    assert chain[inner][:, z == 0].nnz == 0
    by_state = state_policy(problem, z)
    np.testing.assert_allclose(by_state.sum(axis=1), (problem.passive * z.reshape(
        problem.cost.shape)).sum(axis=1) > 0, atol=1e-12)
    after = problem.transition.indices
    blocks = policy.toarray().reshape(after.size, problem.n_states, problem.n_actions)
    np.testing.assert_allclose(blocks[np.arange(after.size), after], by_state[after])


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_composition_law(seed):
    rng = np.random.default_rng(seed)
    shared = random_problem(seed)
    weights = rng.dirichlet(np.ones(3))
    finals = rng.uniform(0, 3, (3, int(shared.terminal.sum())))
    finals[rng.random(finals.shape) < 0.3] = np.inf

    def with_final(final):
        cost = shared.cost.copy()
        cost[shared.terminal] = final
        return StateActionLMDP(transition=shared.transition, passive=shared.passive, cost=cost,
                               terminal=shared.terminal)

    with np.errstate(divide='ignore'):
        direct = solve_linear(with_final(np.maximum(0, -np.log(weights @ np.exp(-finals)))))
    composite = compose(shared, [solve_linear(with_final(f)).z for f in finals], weights)
    np.testing.assert_allclose(composite.z, direct.z, rtol=1e-9)
    np.testing.assert_allclose(composite.mixture.sum(axis=0), composite.z > 0, atol=1e-12)
    ruled = ((composite.z > 0) & ~shared.terminal.ravel())[shared.triple_state_action_idx]
    np.testing.assert_allclose(composite.option_policy.toarray()[ruled],
                               option_policy(shared, direct.z).toarray()[ruled], atol=1e-9)


def test_compose_names_what_does_not_fit():
    problem = chain_with_stay()
    z = solve_linear(problem).z
    with pytest.raises(InputError, match='weights'):
        compose(problem, [z, z], [1.0])
    with pytest.raises(InputError, match='weights'):
        compose(problem, [z], [-1.0])
    with pytest.raises(InputError, match='components'):
        compose(problem, [z[:-1]], [1.0])


def as_general_prior(problem):
    """Write p_a(a'|x') as the paper's W over all triples (x, a, x')."""
    by_state = np.kron(np.eye(problem.n_states), np.ones(problem.n_actions)) * (
        problem.passive.ravel())
    return sparse.coo_array(np.tile(by_state, (problem.cost.size, 1)))


@given(SEEDS, st.booleans())
@settings(max_examples=20, deadline=None)
def test_general_prior_contains_the_simple_one(seed, deterministic):
    problem = random_problem(seed, deterministic=deterministic)
    general = StateActionLMDP(transition=problem.transition, passive=as_general_prior(problem),
                              cost=problem.cost, terminal=problem.terminal)
    np.testing.assert_array_equal(general.passive_matrix.toarray(),
                                  problem.passive_matrix.toarray())
    np.testing.assert_array_equal(nonlinear_iteration(general).z, nonlinear_iteration(problem).z)


def test_prior_that_keeps_the_last_action():
    n = 4
    after = np.stack([np.maximum(np.arange(n) - 1, 0), np.minimum(np.arange(n) + 1, n - 1)], 1)
    xa = np.arange(2 * n)
    row = xa * n + after.ravel()
    keep = sparse.coo_array((np.ones(2 * n), (row, after.ravel() * 2 + xa % 2)),
                            shape=(2 * n * n, 2 * n))
    cost = np.ones((n, 2))
    cost[-1] = 0
    problem = StateActionLMDP(transition=np.eye(n)[after.ravel()], passive=keep, cost=cost,
                              terminal=np.arange(n)[:, None].repeat(2, 1) == n - 1)
    z = solve_linear(problem).z.reshape(n, 2)
    np.testing.assert_allclose(z[:, 1], np.exp([-3.0, -2, -1, 0]))
    np.testing.assert_array_equal(z[:, 0], [0, 0, 0, 1])
    with pytest.raises(InputError, match='passive'):
        state_policy(problem, z.ravel())


def test_shortest_path_limit():
    """c S <= v_c <= S (c + log |A|), hence S = lim v_c / c (Todorov)."""
    world = ['....',
             '.##.',
             '...G']
    cells = [(r, c) for r in range(3) for c in range(4) if world[r][c] != '#']
    moves = [(-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)]
    free = np.array([[(r + dr, c + dc) in cells for dr, dc in moves] for r, c in cells])
    after = np.array([[cells.index((r + dr, c + dc)) if (r + dr, c + dc) in cells else i
                       for dr, dc in moves] for i, (r, c) in enumerate(cells)])
    terminal = np.zeros(free.shape, dtype=bool)
    terminal[cells.index((2, 3)), 4] = True
    for c in (5.0, 20.0, 80.0):
        problem = StateActionLMDP(
            transition=np.eye(len(cells))[after.ravel()], passive=np.full(free.shape, 0.2),
            cost=np.where(terminal, 0, np.where(free, c, np.inf)), terminal=terminal)
        allowed = free.ravel()
        graph = problem.passive_chain.toarray() > 0
        graph[~allowed] = graph[terminal.ravel()] = False
        graph[:, ~allowed] = False
        steps = shortest_path(graph, unweighted=True)[:, np.flatnonzero(terminal)[0]][allowed]
        v = -np.log(solve_linear(problem).z[allowed])
        assert steps.max() == 6
        assert np.all(c * steps <= v * (1 + 1e-12) + 1e-12)
        assert np.all(v <= steps * (c + math.log(5)) + 1e-9)


def test_z_iteration_does_not_stop_before_the_wave_arrives():
    problem = corridor(20, 10.0)
    np.testing.assert_allclose(z_iteration(problem, tolerance=1e-3).z,
                               np.exp(-10.0 * np.arange(19, -1, -1)), rtol=1e-12)


@pytest.mark.parametrize('solve', [z_iteration, solve_linear, nonlinear_iteration])
def test_underflow_is_an_error_and_not_unreachable(solve):
    with pytest.raises(InputError, match=r'cost: .*state 0, action 0 underflows'):
        solve(corridor(4, 300.0))


@pytest.mark.parametrize('solve', [z_iteration, nonlinear_iteration])
def test_no_convergence_is_an_error(solve):
    with pytest.raises(NotConvergedError, match='3 iterations'):
        solve(chain_with_stay(), 0.0, 3)


@pytest.mark.parametrize(('field', 'value', 'message'), [
    ('cost', [[1, -1], [1, 1], [0, 0]], 'cost: entries must be at least 0'),
    ('cost', [[1, np.nan], [1, 1], [0, 0]], 'cost: entries must be at least 0'),
    ('cost', [1, 2], 'cost: expected shape'),
    ('terminal', [[False] * 2] * 3, 'terminal: .*at least one'),
    ('terminal', [True], 'terminal: expected a mask of shape'),
    ('transition', np.eye(3), 'transition: expected shape'),
    ('transition', np.full((6, 3), 0.3), 'transition: rows must sum to 1, row 0'),
    ('transition', np.tile([2.0, -1, 0], (6, 1)), 'transition: probabilities'),
    ('passive', np.full((3, 2), 0.4), 'passive: rows must sum to 1, row 0'),
    ('passive', np.ones((2, 2)), 'passive: expected shape'),
    ('passive', sparse.coo_array((18, 6)), 'passive: rows must sum to 1'),
    ('passive', sparse.coo_array(([1.0], ([0], [5])), shape=(18, 6)), "passive: row \\(x, a, x'"),
])
def test_wrong_input_is_named(field, value, message):
    good = chain_with_stay()
    fields = {name: getattr(good, name) for name in ('transition', 'passive', 'cost', 'terminal')}
    with pytest.raises(InputError, match=message):
        StateActionLMDP(**{**fields, field: value})


def test_large_problem_through_the_sparse_paths():
    problem = corridor(400, 0.5)
    expected = np.exp(-0.5 * np.arange(399, -1, -1))
    np.testing.assert_allclose(solve_linear(problem).z, expected, rtol=1e-9)
    np.testing.assert_allclose(solve_eigenvector(problem).z, expected, atol=1e-9)
