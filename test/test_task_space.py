"""The task-space policy: constraints kept, exact after one sweep a bit."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from gk_planner.errors import InputError, NotConvergedError
from gk_planner.lmdp import solve_linear, state_policy, z_iteration
from gk_planner.task_space import forbidden_flips, task_space_lmdp

AXE, WOOD, WATER = range(3)
WOOD_NEEDS_AXE = (WOOD, 0, AXE, 0)
ALL_DONE = 0b111


def bit(sigma, i):
    return sigma >> i & 1


def constraint_sets(n_bits):
    index, value = st.integers(0, n_bits - 1), st.integers(0, 1)
    return st.lists(st.tuples(index, value, index, value), max_size=6)


def test_running_example_never_chops_without_the_axe():
    problem = task_space_lmdp(3, [WOOD_NEEDS_AXE], [ALL_DONE])
    policy = state_policy(problem, solve_linear(problem).z)
    for sigma in range(ALL_DONE):
        for i in range(3):
            forbidden = bit(sigma, i) == 1 or (i == WOOD and bit(sigma, AXE) == 0)
            if forbidden:
                assert policy[sigma, i + 1] == 0
        # Wood without the axe cannot arise, and ends well all the same: the axe may still come.
        assert policy[sigma].sum() == pytest.approx(1)
    # Three orders keep "axe before wood"; two of them begin with the axe.
    np.testing.assert_allclose(policy[0], [0, 2 / 3, 0, 1 / 3])


def test_desirability_counts_the_allowed_orders():
    problem = task_space_lmdp(3, [WOOD_NEEDS_AXE], [ALL_DONE], cost=2.0)
    z = solve_linear(problem).z.reshape(8, 4)
    assert z[0, 0] == pytest.approx(3 * (np.exp(-2.0) / 3) ** 3 * np.exp(-2.0))
    assert z[0, AXE + 1] == pytest.approx(np.exp(-2.0) * 2 * (np.exp(-2.0) / 3) ** 2)
    np.testing.assert_array_equal(z[ALL_DONE], 1)


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), constraint_sets(n))))
@settings(max_examples=40, deadline=None)
def test_exact_after_one_sweep_a_bit(case):
    n_bits, constraints = case
    problem = task_space_lmdp(n_bits, constraints, [2**n_bits - 1])
    solution = z_iteration(problem, tolerance=0.0)
    assert solution.iterations <= n_bits + 2
    weight = np.exp(-problem.cost.ravel())
    z = np.where(problem.terminal.ravel(), weight, 0.0)
    sweeps = []
    for _ in range(n_bits + 2):
        z = np.where(problem.terminal.ravel(), weight, weight * (problem.passive_chain @ z))
        sweeps.append(z.reshape(problem.cost.shape))
    np.testing.assert_array_equal(sweeps[n_bits - 1][:, 1:], sweeps[n_bits][:, 1:])
    np.testing.assert_array_equal(sweeps[n_bits], sweeps[n_bits + 1])
    np.testing.assert_allclose(solution.z.reshape(problem.cost.shape), sweeps[-1], rtol=1e-12)


@given(constraint_sets(3), st.lists(st.booleans(), min_size=3, max_size=3),
       st.sets(st.integers(0, 7), min_size=1))
@settings(max_examples=60, deadline=None)
def test_policy_keeps_every_constraint(constraints, irreversible, accepting):
    problem = task_space_lmdp(3, constraints, sorted(accepting), irreversible=irreversible,
                              epsilon_probability=0.1)
    policy = state_policy(problem, solve_linear(problem).z)
    open_states = [s for s in range(8) if s not in accepting]
    for sigma in open_states:
        for i in range(3):
            broken = any(c == i and bit(sigma, c) == a and bit(sigma, j) == b
                         for c, a, j, b in constraints)
            if broken or (irreversible[i] and bit(sigma, i)):
                assert policy[sigma, i + 1] == 0


def test_reversible_bits_need_more_sweeps():
    problem = task_space_lmdp(3, [], [ALL_DONE], irreversible=[False] * 3, cost=0.1)
    with pytest.raises(NotConvergedError):
        z_iteration(problem, max_iterations=5)
    assert z_iteration(problem).iterations > 5


def test_reversible_bit_is_undone_where_that_is_the_only_way():
    # Water may flip only while the axe is down; all start with the axe up.
    problem = task_space_lmdp(3, [(WATER, 0, AXE, 1)], [0b100],
                              irreversible=[False, True, True])
    policy = state_policy(problem, solve_linear(problem).z)
    assert policy[0b001, AXE + 1] == pytest.approx(1)


def test_mask_and_list_of_accepting_states_agree():
    mask = np.zeros(8, dtype=bool)
    mask[[3, 7]] = True
    by_mask, by_list = (task_space_lmdp(3, [], given) for given in (mask, [3, 7]))
    np.testing.assert_array_equal(by_mask.terminal, by_list.terminal)


def test_forbidden_flips_of_the_four_polarities():
    for control_value in (0, 1):
        for condition_value in (0, 1):
            forbidden = forbidden_flips(2, [(0, control_value, 1, condition_value)],
                                        irreversible=[False, False])
            expected = np.zeros((4, 2), dtype=bool)
            expected[control_value + 2 * condition_value, 0] = True
            np.testing.assert_array_equal(forbidden, expected)


@pytest.mark.parametrize(('arguments', 'message'), [
    ({'n_bits': 0}, 'n_bits: must be from 1 to 16'),
    ({'constraints': [(0, 0, 3, 0)]}, 'constraints: expected bits from 0 to 2'),
    ({'constraints': [(0, 2, 1, 0)]}, 'constraints: .*values 0 or 1'),
    ({'accepting': [8]}, 'accepting: expected a mask of length 8'),
    ({'accepting': np.zeros(8, dtype=bool)}, 'accepting: at least one'),
    ({'irreversible': [True]}, 'irreversible: expected 3 flags'),
    ({'cost': 0.0}, 'cost: must be finite and above 0'),
    ({'epsilon_probability': 1.0}, 'epsilon_probability'),
])
def test_wrong_input_is_named(arguments, message):
    good = {'n_bits': 3, 'constraints': [], 'accepting': [7]}
    with pytest.raises(InputError, match=message):
        task_space_lmdp(**{**good, **arguments})
