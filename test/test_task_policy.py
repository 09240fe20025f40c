"""The task policy against Algorithm 2 taken literally, in dense linear algebra.

The reference indexes z by (sigma, node, option) as in eq. TLMDP. The policy keeps
v(sigma, node) = -log E_{p_o} z(sigma, node, o), so every value is compared through this mean.
"""

import itertools
import math

from hypothesis import example, given, settings
import hypothesis.strategies as st
import mpmath
import numpy as np
import pytest
from random_tasks import cheapest, random_costs, random_task

from gk_planner import task_table
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.errors import InfeasibleError, LimitError, NotConvergedError
from gk_planner.full_task_mdp import accepts, flip_allowed, flipped, start_bits
from gk_planner.goal_kernel import Legs
from gk_planner.task_policy import solve_task_policy
from gk_planner.task_solver import solve_task
from gk_planner.task_states import reachable_states, subset_states, SubsetStates

seeds = st.integers(0, 2**32 - 1)
BYTES = 10_000_000


class Algorithm2:
    """Paper, Algorithm 2 on the affordance subspace: dense matrices over (sigma, node, option)."""

    def __init__(self, task, legs, q_sigma):
        self.task, self.node_goal = task, legs.node_goal.tolist()
        n_nodes = len(self.node_goal)
        goals = sorted(set(self.node_goal))
        initial = start_bits(task)
        self.sigmas = [
            tuple(dict(zip(goals, bits, strict=True)).get(goal, initial[goal])
                  for goal in range(len(initial)))
            for bits in itertools.product((0, 1), repeat=len(goals))]
        row_of = {sigma: row for row, sigma in enumerate(self.sigmas)}
        shape = (len(self.sigmas), n_nodes, n_nodes)
        self.terminal = np.zeros(shape, bool)
        cost = np.full(shape, np.inf)                       # q_sigma_alpha + q_sigma + q_o
        g_so = np.zeros((*shape, *shape))
        for (row, sigma), node, option in itertools.product(
                enumerate(self.sigmas), range(n_nodes), range(n_nodes)):
            self.terminal[row, node, option] = accepts(task, sigma)
            if flip_allowed(task, sigma, self.node_goal[option]):
                cost[row, node, option] = q_sigma + legs.flip[node, option]
                there = row_of[flipped(sigma, self.node_goal[option])]
                g_so[row, node, option, there, option, :] = 1 / n_nodes      # p_o is uniform
        size = self.terminal.size
        inner = ~self.terminal.ravel()
        matrix = (np.exp(-cost).ravel()[:, None] * g_so.reshape(size, size))[inner]
        self.inner_matrix = matrix[:, inner]
        self.exit = matrix[:, ~inner].sum(axis=1)           # z is 1 on terminals
        self.row_of, self.inner = row_of, inner

    def spread(self, z_inner):
        z = np.ones(self.terminal.size)
        z[self.inner] = z_inner
        return z.reshape(self.terminal.shape)

    def linear_solve(self):
        size = len(self.exit)
        return self.spread(np.linalg.solve(np.eye(size) - self.inner_matrix, self.exit))

    def z_iteration(self):
        """Return z and the number of rounds that changed it."""
        z, rounds = np.zeros(len(self.exit)), 0
        while True:
            new = self.inner_matrix @ z + self.exit
            if (new == z).all():
                return self.spread(z), rounds
            z, rounds = new, rounds + 1


def solve(task, legs, *, completion_cost=0.0, soft=True, max_sweeps=10_000, listed=False):
    """Solve with the states as sets of bits where that is possible, or with a list of them."""
    goals = tuple(sorted(set(legs.node_goal.tolist())))
    states = None if listed else subset_states(task, goals, BYTES)
    return solve_task_policy(states or reachable_states(task, goals, BYTES), legs, soft=soft,
                             completion_cost=completion_cost, max_sweeps=max_sweeps,
                             max_bytes=BYTES)


def draw(seed, *, reversible=None, low=0.05, high=3.0):
    """Draw a small task with at most five nodes and legs, a few of them impossible."""
    rng = np.random.default_rng(seed)
    task = random_task(rng, max_goals=4, reversible=reversible)
    while not task.sites:
        task = random_task(rng, max_goals=4, reversible=reversible)
    node_goal = np.array(sorted(task.site_goals)[:5], dtype=np.int64)
    flip = rng.uniform(low, high, (len(node_goal),) * 2)
    flip[rng.random(flip.shape) < 0.15] = np.inf
    entry = rng.uniform(low, high, len(node_goal))
    return task, Legs(node_goal, flip, flip, entry), float(rng.choice([0, 0.5]))


def minus_log(z):
    with np.errstate(divide='ignore'):
        return -np.log(z)


def close(actual, expected, tolerance=1e-9):
    return actual == expected or math.isclose(actual, expected, rel_tol=tolerance,
                                              abs_tol=tolerance)


@settings(max_examples=100, deadline=None)
@given(seeds)
@example(1807)  # An accepting state comes before the states that lead to it.
def test_desirability_and_policy_equal_algorithm_2(seed):
    task, legs, q_sigma = draw(seed)
    policy = solve(task, legs, completion_cost=q_sigma, listed=seed % 2 == 0)
    reference = Algorithm2(task, legs, q_sigma)
    z = reference.linear_solve()
    for state in policy.states.numbers().tolist():
        row = reference.row_of[tuple(int(bit) for bit in policy.states.bits(state))]
        for node in range(len(legs.node_goal)):
            assert close(policy.value(state, node), minus_log(z[row, node].mean()))
            if policy.states.accepting[state]:
                continue
            mu = {jump.node: probability for jump, probability in policy.mu(state, node)}
            if not mu:
                assert (z[row, node] == 0).all()
                continue
            assert math.isclose(sum(mu.values()), 1, rel_tol=1e-12)
            expected = z[row, node] / z[row, node].sum()
            for option, probability in enumerate(expected):
                assert close(mu.get(option, 0.0), probability)


@settings(max_examples=80, deadline=None)
@given(seeds)
def test_irreversible_bits_take_as_many_rounds_as_goals_and_one_sweep(seed):
    task, legs, q_sigma = draw(seed, reversible=False)
    policy = solve(task, legs, completion_cost=q_sigma)
    reference = Algorithm2(task, legs, q_sigma)
    z, rounds = reference.z_iteration()
    assert rounds <= len(set(reference.node_goal))
    assert policy.sweeps == 1
    row = reference.row_of[start_bits(task)]
    for node in range(len(legs.node_goal)):
        assert close(policy.value(None, node), minus_log(z[row, node].mean()))


def test_rounds_reach_the_number_of_goals():
    task = Task.from_dict({'sites': [{'name': n, 'features': [n]} for n in 'abcd'],
                           'constraints': ['a before b', 'b before c', 'c before d']})
    legs = Legs(np.arange(4), np.ones((4, 4)), np.ones((4, 4)), np.ones(4))
    _, rounds = Algorithm2(task, legs, 0.0).z_iteration()
    assert rounds == 4
    # One way of four options out of 4^4, each at cost 1.
    assert math.isclose(solve(task, legs).value(), 4 + 4 * math.log(4), rel_tol=1e-14)


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_desirability_to_enter(seed):
    task, legs, q_sigma = draw(seed)
    reference = Algorithm2(task, legs, q_sigma)
    mean_z = reference.linear_solve().mean(axis=2)
    bits = start_bits(task)
    if not accepts(task, bits):
        # z_DTE = Q_bar G_bar z_AS, one product with the rows of the start.
        z_dte = np.array([
            math.exp(-q_sigma - legs.entry[option])
            * mean_z[reference.row_of[flipped(bits, goal)], option]
            if flip_allowed(task, bits, goal) else 0.0
            for option, goal in enumerate(legs.node_goal.tolist())])
        policy = solve(task, legs, completion_cost=q_sigma)
        assert close(policy.value(), minus_log(z_dte.mean()))
    for node in range(len(legs.node_goal)):
        at_node = Legs(legs.node_goal, legs.flip, legs.through, legs.flip[node])
        for soft in (True, False):
            policy = solve(task, at_node, completion_cost=q_sigma, soft=soft)
            assert policy.value() == policy.value(None, node)
            assert policy.jumps() == policy.jumps(None, node)


def exact_values(task, legs, rounds):
    """z-iteration with 60 digits from the start's task state; returns -log z_DTE."""
    mpmath.mp.dps = 60
    goals = legs.node_goal.tolist()

    @mpmath.memoize
    def z(bits, node, left):
        if accepts(task, bits):
            return mpmath.mpf(1)
        if not left:
            return mpmath.mpf(0)
        row = legs.entry if node is None else legs.flip[node]
        return mpmath.fsum(
            mpmath.exp(-mpmath.mpf(row[other])) * z(flipped(bits, goal), other, left - 1)
            for other, goal in enumerate(goals)
            if np.isfinite(row[other]) and flip_allowed(task, bits, goal)) / len(goals)

    total = z(start_bits(task), None, rounds)
    return float(-mpmath.log(total)) if total else math.inf


@pytest.mark.parametrize('scale', [1e4, 1e5, 1e6])
@pytest.mark.parametrize('reversible', [False, True])
@pytest.mark.parametrize('seed', range(6))
def test_values_where_doubles_underflow(scale, reversible, seed):
    assert math.exp(-1e4) == 0.0
    task, legs, _ = draw(seed, reversible=reversible, low=scale, high=1.01 * scale)
    if accepts(task, start_bits(task)):
        return
    policy = solve(task, legs)
    # Ways of more than eight options weigh less than exp(-scale) against the best one.
    expected = exact_values(task, legs, rounds=8)
    assert close(policy.value(), expected, 1e-13)


def test_many_equal_ways_far_below_underflow():
    # All 5! orders of five goals at 1e6 nats a leg: v = 5e6 + 5 log 5 - log 5!.
    task = Task.from_dict({'sites': [{'name': n, 'features': [n]} for n in 'abcde']})
    legs = Legs(np.arange(5), np.full((5, 5), 1e6), np.full((5, 5), 1e6), np.full(5, 1e6))
    expected = 5e6 + 5 * math.log(5) - math.log(120)
    assert math.isclose(solve(task, legs).value(), expected, rel_tol=1e-15)


@settings(max_examples=80, deadline=None)
@given(seeds)
def test_limit_of_low_temperature_is_the_task_mdp(seed):
    rng = np.random.default_rng(seed)
    task = random_task(rng, max_goals=4)
    site_costs, start_costs = random_costs(rng, len(task.sites), metric=True)
    cost, n_flips = cheapest(task, site_costs, start_costs)
    for temperature in (1e-2, 1e-5):
        config = Config(temperature=temperature)
        if math.isinf(cost):
            with pytest.raises(InfeasibleError):
                solve_task(task, site_costs / temperature, start_costs / temperature, config)
            continue
        soft = solve_task(task, site_costs / temperature, start_costs / temperature, config)
        # Of all ways the best one alone has the weight exp(-cost / T) / n_options^length.
        slack = temperature * n_flips * math.log(max(len(task.sites), 1))
        assert cost - 1e-9 <= soft.value * temperature <= cost + slack + 1e-9


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_temperature_zero_policy_is_greedy_for_its_values(seed):
    task, legs, q_sigma = draw(seed)
    policy = solve(task, legs, completion_cost=q_sigma, soft=False)
    for state in policy.states.numbers().tolist():
        for node in range(len(legs.node_goal)):
            jumps = policy.jumps(state, node)
            assert [jump.total for jump in jumps] == sorted(jump.total for jump in jumps)
            if jumps and not policy.states.accepting[state]:
                assert policy.mu(state, node) == [(jumps[0], 1.0)]
                assert policy.value(state, node) == jumps[0].total
    if math.isfinite(policy.value()):
        legs_driven = [policy.legs.entry, *(policy.legs.flip[jump.node]
                                            for jump in policy.rollout())]
        total = sum(leg[jump.node] + q_sigma
                    for leg, jump in zip(legs_driven, policy.rollout(), strict=False))
        assert math.isclose(total, policy.value(), rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize('soft', [False, True])
@pytest.mark.parametrize('n_free', [1, 2, 4])
def test_free_cycles_of_reversible_bits_do_not_loop(soft, n_free):
    # Before the far goal, all flips of the free ones are as desirable as going there.
    names = [f'a{number}' for number in range(n_free)]
    task = Task.from_dict({
        'sites': [{'name': n, 'features': [n]} for n in (*names, 'far')], 'reversible': names,
        'formula': ' & '.join(['far', *(f'({n} | !{n})' for n in names)])})
    for distance in 10 ** np.random.default_rng(n_free).uniform(0, 7, 40):
        flip = np.zeros((n_free + 1,) * 2)
        flip[:n_free, n_free] = distance
        policy = solve(task, Legs(np.arange(n_free + 1), flip, flip, flip[0]), soft=soft)
        # One step of the rollout, so that a failure does not run forever.
        assert policy.jumps()[0].node == n_free
        assert [jump.node for jump in policy.rollout()] == [n_free]
        assert math.isclose(policy.value(), distance)


@pytest.mark.parametrize('soft', [False, True])
def test_free_legs_everywhere_still_end(soft):
    names = list('abcd')
    task = Task.from_dict({'sites': [{'name': n, 'features': [n]} for n in names],
                           'reversible': names})
    legs = Legs(np.arange(4), np.zeros((4, 4)), np.zeros((4, 4)), np.zeros(4))
    policy = solve(task, legs, soft=soft)
    assert [jump.node for jump in policy.rollout()] == [0, 1, 2, 3]


def test_ties_take_the_fewest_options_then_the_lowest_goal_then_the_lowest_node():
    task = Task.from_dict({'sites': [{'name': n, 'features': [n[0]]} for n in ('a', 'b', 'b2')],
                           'formula': 'a & b | b & !a'})
    free = Legs(np.array([0, 1, 1]), np.zeros((3, 3)), np.zeros((3, 3)), np.zeros(3))
    # One option (b) is as cheap as two (a, b); of its two nodes the lower one is taken.
    assert [jump.node for jump in solve(task, free, soft=False).rollout()] == [1]
    both = Task.from_dict({'sites': [{'name': n, 'features': [n[0]]} for n in ('a', 'b', 'b2')]})
    assert [jump.node for jump in solve(both, free, soft=False).rollout()] == [0, 1]


def test_too_few_sweeps_raise():
    task = Task.from_dict({'sites': [{'name': n, 'features': [n]} for n in 'ab'],
                           'reversible': ['a', 'b']})
    legs = Legs(np.arange(2), np.full((2, 2), 0.1), np.full((2, 2), 0.1), np.full(2, 0.1))
    with pytest.raises(NotConvergedError, match='after 2 sweeps'):
        solve(task, legs, max_sweeps=2)


@settings(max_examples=200, deadline=None)
@given(seeds, st.booleans())
def test_sets_of_bits_and_listed_states_are_one_policy(seed, soft):
    task, legs, q_sigma = draw(seed, reversible=False)
    subsets = solve(task, legs, completion_cost=q_sigma, soft=soft)
    listed = solve(task, legs, completion_cost=q_sigma, soft=soft, listed=True)
    assert isinstance(subsets.states, SubsetStates) and not isinstance(listed.states, SubsetStates)
    assert len(subsets.states) == len(listed.states)
    for state in listed.states.numbers().tolist():
        bits = listed.states.bits(state)
        same = subsets.states.index(bits)
        assert subsets.states.bits(same) == bits
        assert subsets.states.accepting[same] == listed.states.accepting[state]
        for node in (None, *range(len(legs.node_goal))):
            assert subsets.value(same, node) == listed.value(state, node)
            assert [(jump.node, jump.total) for jump in subsets.jumps(same, node)] == [
                (jump.node, jump.total) for jump in listed.jumps(state, node)]
            assert [jump.node for jump in subsets.rollout(same, node)] == [
                jump.node for jump in listed.rollout(state, node)]
    for state in subsets.states.numbers().tolist():
        assert listed.states.index(subsets.states.bits(state)) is not None


def test_a_table_that_does_not_fit():
    task = Task.from_dict({'sites': [{'name': n, 'features': [n]} for n in 'abcd']})
    legs = Legs(np.arange(4), np.ones((4, 4)), np.ones((4, 4)), np.ones(4))
    for states in (subset_states(task, (0, 1, 2, 3), BYTES),
                   reachable_states(task, (0, 1, 2, 3), BYTES)):
        with pytest.raises(LimitError, match='32 values'):
            solve_task_policy(states, legs, completion_cost=0.0, soft=False, max_sweeps=1,
                              max_bytes=200)
    assert subset_states(task, (0, 1, 2, 3), 200) is None


def test_values_are_numbered_by_32_bits():
    task_table._check_size(2**32 - 1, 1, 2**40)
    with pytest.raises(LimitError, match='would have 4294967296 values'):
        task_table._check_size(2**32, 1, 2**40)
