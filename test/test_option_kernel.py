"""Where options end: gambler's ruin, the hitting theorem and the fundamental matrix."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy import sparse
from test_lmdp import chain_with_stay, random_problem, SEEDS

from gk_planner.errors import InputError
from gk_planner.lmdp import controlled_chain, nonlinear_iteration, solve_linear, StateActionLMDP
from gk_planner.option_kernel import (
    absorbing_kernel,
    feasibility,
    feasibility_matrix,
    option_kernel,
    option_kernel_deterministic,
    spectral_radius,
    termination,
)


def ruin_chain(size, up):
    """Return a walk on 0..size that stops at both ends."""
    chain = up * np.eye(size + 1, k=1) + (1 - up) * np.eye(size + 1, k=-1)
    chain[[0, -1]] = np.eye(size + 1)[[0, -1]]
    return chain


def ruin_success(size, up):
    if up == 0.5:
        return np.arange(size + 1) / size
    ratio = (1 - up) / up
    return (1 - ratio ** np.arange(size + 1)) / (1 - ratio**size)


def ends(size):
    return np.isin(np.arange(size + 1), [0, size])


def single_goal(problem):
    """Return the problem with its first terminal as goal and the others as failures."""
    goal = int(np.flatnonzero(problem.terminal)[0])
    cost = np.where(problem.terminal, np.inf, problem.cost)
    cost.flat[goal] = 0.0
    return goal, StateActionLMDP(transition=problem.transition, passive=problem.passive, cost=cost,
                                 terminal=problem.terminal)


@given(st.integers(2, 12), st.sampled_from([0.3, 0.5, 0.6, 0.9]))
@settings(max_examples=30, deadline=None)
def test_gamblers_ruin(size, up):
    kernel = absorbing_kernel(sparse.csr_array(ruin_chain(size, up)), ends(size)).toarray()
    success = ruin_success(size, up)
    np.testing.assert_allclose(kernel[:, size], success, atol=1e-12)
    np.testing.assert_allclose(kernel[:, 0], 1 - success, atol=1e-12)
    assert np.all(kernel[:, 1:size] == 0)


def test_stochastic_option_succeeds_or_fails():
    size, up = 6, 0.6
    cost = np.ones((size + 1, 1))
    cost[0], cost[-1] = 20.0, 0.0
    problem = StateActionLMDP(transition=ruin_chain(size, up), passive=np.ones((size + 1, 1)),
                              cost=cost, terminal=ends(size)[:, None])
    kernel = option_kernel(problem, nonlinear_iteration(problem).z).toarray()
    np.testing.assert_allclose(kernel[:, size], ruin_success(size, up), atol=1e-12)
    np.testing.assert_allclose(kernel[:, [0, size]].sum(axis=1), 1, atol=1e-12)


def test_spectral_radius_in_closed_form():
    # The inner walk on 1..n-1 has the eigenvalues 2 sqrt(p q) cos(k pi / n).
    inner = ruin_chain(8, 0.7)[1:8, 1:8]
    expected = 2 * math.sqrt(0.7 * 0.3) * math.cos(math.pi / 8)
    assert spectral_radius(inner) == pytest.approx(expected, rel=1e-12)
    large = ruin_chain(600, 0.5)[1:600, 1:600]
    assert spectral_radius(large) == pytest.approx(math.cos(math.pi / 600), rel=1e-9)
    assert spectral_radius(np.eye(40, k=1)) == 0.0
    assert spectral_radius(np.diag([0.25, 0.5])) == 0.5


@given(SEEDS, st.booleans())
@settings(max_examples=50, deadline=None)
def test_non_terminals_are_transient(seed, deterministic):
    problem = random_problem(seed, deterministic=deterministic)
    z = nonlinear_iteration(problem).z
    inner = ~problem.terminal.ravel() & (z > 0)
    chain = controlled_chain(problem, z)
    assert spectral_radius(chain[inner][:, inner]) < 1
    kernel = option_kernel(problem, z)
    np.testing.assert_allclose(kernel.sum(axis=1), 1, rtol=1e-9)
    assert kernel.data.min() >= 0
    np.testing.assert_array_equal(kernel[~inner].toarray(), np.eye(z.size)[~inner])


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_hitting_theorem_equals_the_fundamental_matrix(seed):
    goal, problem = single_goal(random_problem(seed))
    z = solve_linear(problem).z
    theorem = option_kernel_deterministic(z, goal).toarray()
    fundamental = absorbing_kernel(controlled_chain(problem, z), termination(z)).toarray()
    np.testing.assert_allclose(theorem, fundamental, atol=1e-9)
    np.testing.assert_array_equal(option_kernel(problem, z).toarray(), theorem)


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_kernel_is_the_limit_of_powers(seed):
    problem = random_problem(seed)
    z = solve_linear(problem).z
    stop = problem.terminal.ravel() | (z == 0)
    chain = np.where(stop[:, None], np.eye(z.size), controlled_chain(problem, z).toarray())
    np.testing.assert_allclose(option_kernel(problem, z).toarray(),
                               np.linalg.matrix_power(chain, 2**10), atol=1e-9)


def test_termination_is_success_or_failure():
    z = np.array([0.0, 0.3, math.exp(-0.5), 0.1])
    np.testing.assert_array_equal(termination(z, math.exp(-0.5)), [True, False, True, False])
    goal, problem = single_goal(chain_with_stay())
    z = solve_linear(problem).z
    np.testing.assert_array_equal(termination(z), problem.terminal.ravel() | (z == 0))
    assert z[goal] == 1


def test_feasibility_of_a_cliff():
    """Going down a cliff is possible, coming back is not."""
    after = np.array([[0, 1], [1, 1]])
    kernels, goals = [], [0, 2]
    for goal in goals:
        terminal = np.arange(4).reshape(2, 2) == goal
        problem = StateActionLMDP(transition=np.eye(2)[after.ravel()],
                                  passive=np.full((2, 2), 0.5), cost=np.where(terminal, 0, 1.0),
                                  terminal=terminal)
        kernels.append(option_kernel(problem, solve_linear(problem).z))
    matrix = feasibility_matrix(kernels, goals)
    np.testing.assert_array_equal(matrix[goals], [[1, 1], [0, 1]])
    np.testing.assert_array_equal(matrix[goals] > 0, feasibility([[0, 3.5], [np.inf, 0]]))


@pytest.mark.parametrize(('call', 'message'), [
    (lambda: absorbing_kernel(np.eye(3), np.ones(2, dtype=bool)), 'chain: expected shape'),
    (lambda: absorbing_kernel(np.eye(2) / 2, np.array([True, False])), 'chain: row 1 must sum'),
    (lambda: absorbing_kernel(np.eye(2), np.array([True, False])), 'terminal: index 1 never'),
    (lambda: option_kernel_deterministic(np.ones(3), 3), 'goal_idx: must be from 0 to 2'),
    (lambda: option_kernel_deterministic(np.array([0, 1.0]), 0), 'goal_idx: 0 is not the goal'),
    (lambda: feasibility_matrix([np.eye(2)], [0, 1]), 'goal_idx: expected one goal'),
    (lambda: feasibility([[-1.0]]), 'costs'),
    (lambda: feasibility([[np.nan]]), 'costs'),
])
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
