"""solve_task against Dijkstra's algorithm over (task state, site), on any cost matrix."""

import itertools
import math

from hypothesis import given, settings
import hypothesis.strategies as st
import numpy as np
import pytest
from random_tasks import cheapest, cost_of, random_costs, random_task

from gk_planner import solve_task, Task
from gk_planner.config import Config
from gk_planner.errors import InfeasibleError, InputError

seeds = st.integers(0, 2**32 - 1)
INF = math.inf


def letters(names, **fields):
    """A task with one site per word; the first letter is its feature."""
    return Task.from_dict({'sites': [{'name': name, 'features': [name[0]]}
                                     for name in names.split()], **fields})


def check_against_dijkstra(task, rng, *, metric, whole, option_cost):
    site_costs, start_costs = random_costs(rng, len(task.sites), metric=metric, whole=whole)
    cost, n_flips = cheapest(task, site_costs, start_costs, option_cost)
    config = Config(option_cost=option_cost)
    if math.isinf(cost):
        with pytest.raises(InfeasibleError):
            solve_task(task, site_costs, start_costs, config)
        return
    solution = solve_task(task, site_costs, start_costs, config)
    assert math.isclose(solution.cost, cost, rel_tol=1e-12, abs_tol=1e-12)
    assert solution.optimal
    assert solution.bound == solution.cost
    assert solution.value is None
    assert solution == solve_task(task, site_costs.copy(), start_costs.copy(), config)
    if task.trigger == 'action':
        assert math.isclose(cost_of(task, solution.sequence, site_costs, start_costs,
                                    option_cost), cost, rel_tol=1e-12, abs_tol=1e-12)
        if whole:
            # Sums are exact, so ties are ties, and the fewest options win.
            assert len(solution.sequence) == n_flips


@pytest.mark.parametrize('metric', [False, True])
@pytest.mark.parametrize('reversible', [False, True])
def test_cost_equals_dijkstra(metric, reversible):
    @settings(max_examples=200, deadline=None)
    @given(seeds, st.booleans(), st.sampled_from([0.0, 0.75]))
    def check(seed, whole, option_cost):
        rng = np.random.default_rng(seed)
        task = random_task(rng, reversible=reversible)
        check_against_dijkstra(task, rng, metric=metric, whole=whole, option_cost=option_cost)

    check()


@settings(max_examples=300, deadline=None)
@given(seeds, st.booleans(), st.sampled_from([0.0, 0.75]))
def test_contact_joins_legs_at_done_sites(seed, whole, option_cost):
    rng = np.random.default_rng(seed)
    task = random_task(rng, trigger='contact')
    check_against_dijkstra(task, rng, metric=False, whole=whole, option_cost=option_cost)


def test_contact_by_hand():
    # Sites in a corridor a - b - c: a leg that avoids other sites exists between neighbours only.
    costs = np.array([[0, 1, INF], [1, 0, 1], [INF, 1, 0]])
    fields = {'formula': 'a & c', 'trigger': 'contact'}
    through = solve_task(letters('a b c', **fields), costs, [1, INF, INF])
    assert (through.cost, through.sequence) == (3.0, ('a', 'b', 'c'))
    # b is done and irreversible: free floor, and so it is from the start on.
    over = solve_task(letters('a b c', done=['b'], **fields), costs, [1, INF, INF])
    assert (over.cost, over.sequence) == (3.0, ('a', 'c'))
    from_b = solve_task(letters('a b c', done=['b'], **fields), costs, [INF, 0.5, INF])
    assert (from_b.cost, from_b.sequence) == (0.5 + 1 + 2, ('a', 'c'))
    # Reversible, it flips back on every touch, which the formula may not want.
    with pytest.raises(InfeasibleError):
        solve_task(letters('a b c', done=['b'], reversible=['b'], trigger='contact',
                           constraints=['c(b^1, a^0)', 'c(b^1, c^0)']), costs, [1, INF, INF])
    # Under trigger action every leg ends in a completion; there is nothing to pass over.
    with pytest.raises(InfeasibleError):
        solve_task(letters('a b c', done=['b'], formula='a & c'), costs, [1, INF, INF])


def brute_force_tour(costs, start_costs):
    n_sites = len(start_costs)
    return min(start_costs[order[0]] + sum(costs[a, b] for a, b in itertools.pairwise(order))
               for order in itertools.permutations(range(n_sites)))


def test_open_tour_over_eight_sites():
    rng = np.random.default_rng(8)
    costs, start_costs = rng.random((8, 8)), rng.random(8)
    task = letters('a b c d e f g h')
    assert math.isclose(solve_task(task, costs, start_costs).cost,
                        brute_force_tour(costs, start_costs))


@pytest.mark.parametrize(('formula', 'expected'), [
    ('a ^ b ^ c', ('b',)), ('!a & c', ('c',)), ('a -> b', ()), ('a <-> b', ()),
    ('a & !(b | c)', ('a',)), ('a xor b and c', ('a',)), ('(a xor b) and c', ('b', 'c'))])
def test_formulas_with_known_answers(formula, expected):
    costs = np.array([[0, 2, 6], [2, 0, 1], [6, 1, 0.0]])
    solution = solve_task(letters('a b c', formula=formula), costs, [4, 3, 4])
    assert solution.sequence == expected


def test_counts_over_features():
    sites = [{'name': f'r{i}', 'features': ['red', f'id{i}']} for i in range(5)]
    costs = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    for formula, expected in [('atleast(2, red)', ('r0', 'r1')), ('exactly(1, red)', ('r0',)),
                              ('atmost(2, red)', ()), ('any(red)', ('r0',)),
                              ('all(red)', ('r0', 'r1', 'r2', 'r3', 'r4'))]:
        task = Task.from_dict({'sites': sites, 'formula': formula})
        assert solve_task(task, costs, 1 + np.arange(5.0)).sequence == expected


def test_alternatives_share_one_bit():
    task = letters('coffee_north coffee_south mail')
    costs = np.array([[0, 9, 9], [9, 0, 1], [9, 1, 0.0]])
    solution = solve_task(task, costs, [1, 3, 9])
    assert (solution.cost, solution.sequence) == (4.0, ('coffee_south', 'mail'))


def test_an_idle_stop_is_used_only_where_it_makes_the_way_cheaper():
    # b matters to nothing, but completing it on the way to c saves 8.
    costs = np.array([[0, 1, 10], [1, 0, 1], [10, 1, 0.0]])
    task = letters('a b c', formula='a & c')
    assert solve_task(task, costs, [0, 20, 20]).sequence == ('a', 'b', 'c')
    costs[0, 2] = 2.0
    assert solve_task(task, costs, [0, 20, 20]).sequence == ('a', 'c')


def test_rounding_and_the_diagonal_do_not_hide_a_metric_matrix():
    # 40 idle goals: without leaving them out there would be 2^40 task states.
    rng = np.random.default_rng(3)
    places = rng.random((42, 2))
    costs = np.hypot(*(places[:, None] - places).T)
    costs = np.minimum(costs, costs[:, 0, None] + costs[0]) * (1 + 1e-15)
    start_costs = costs[0].copy()
    np.fill_diagonal(costs, INF)
    sites = [{'name': f's{i}', 'features': [f'g{i}']} for i in range(42)]
    task = Task.from_dict({'sites': sites, 'formula': 'g0 & g1'})
    assert solve_task(task, costs, start_costs).sequence == ('s0', 's1')


def test_zero_costs_and_reversible_bits_end():
    task = letters('a b c', reversible=['a', 'b', 'c'], formula='c & !a')
    solution = solve_task(task, np.zeros((3, 3)), np.zeros(3))
    assert (solution.cost, solution.sequence) == (0.0, ('c',))
    back = letters('a b', reversible=['a', 'b'], done=['a'], constraints=['c(b^0, a^0)'],
                   formula='b & !a')
    assert solve_task(back, np.zeros((2, 2)), np.zeros(2)).sequence == ('b', 'a')


def test_ties_are_broken_by_goal_then_site():
    task = letters('b a a2 c')  # goals in the order of the sites: b, a, c
    solution = solve_task(task, np.ones((4, 4)), np.ones(4))
    assert solution.sequence == ('b', 'a', 'c')


def test_satisfied_formula_costs_nothing():
    task = letters('a b', formula='a | !b', done=['a'])
    solution = solve_task(task, np.full((2, 2), INF), np.full(2, INF))
    assert (solution.cost, solution.sequence, solution.optimal, solution.bound,
            solution.value) == (0.0, (), True, 0.0, None)
    assert solve_task(task, np.ones((2, 2)), np.ones(2), Config(temperature=1)).value == 0.0


def test_results_are_python_scalars():
    solution = solve_task(letters('a b'), np.ones((2, 2)), np.ones(2), Config(temperature=0.5))
    assert [type(field) for field in (solution.cost, solution.sequence, solution.optimal,
                                      solution.bound, solution.value)] == [
        float, tuple, bool, float, float]
    assert all(type(name) is str for name in solution.sequence)


def test_above_temperature_zero_an_idle_stop_may_open_the_way():
    costs = [[0, 1, INF], [INF, 0, 1], [INF, INF, 0]]
    for temperature in (0.0, 1.0):
        solution = solve_task(letters('a b c', formula='a & c'), costs, [0, INF, INF],
                              Config(temperature=temperature))
        assert solution.sequence == ('a', 'b', 'c')


def test_a_number_beyond_all_floats_is_named():
    with pytest.raises(InputError, match='site_costs: must be an array of numbers'):
        solve_task(letters('a'), [[10 ** 400]], [1])


def test_above_temperature_zero_the_most_probable_way_is_told():
    costs = np.array([[0, 1], [5, 0.0]])
    solution = solve_task(letters('a b'), costs, [2, 3], Config(temperature=1))
    assert solution.sequence == ('a', 'b')
    assert solution.cost == 3.0
    assert not solution.optimal
    # Two ways, a b at 3 and b a at 8, each chosen by p_o with probability 1/4.
    assert math.isclose(solution.value, -math.log((math.exp(-3) + math.exp(-8)) / 4))
    assert solution.bound <= solution.cost


def test_soft_value_does_not_depend_on_idle_goals():
    costs = np.array([[0, 1, 9], [1, 0, 1], [9, 1, 0.0]])  # not metric
    idle = solve_task(letters('a b c', formula='a & c'), costs, [1, 1, 1], Config(temperature=1))
    keep = [0, 2]
    alone = solve_task(letters('a c'), costs[np.ix_(keep, keep)], [1, 1], Config(temperature=1))
    assert idle == alone


@pytest.mark.parametrize(('site_costs', 'start_costs', 'message'), [
    (np.ones((2, 3)), np.ones(2), r'site_costs: expected shape \(2, 2\) for 2 sites'),
    (np.ones((3, 3)), np.ones(2), r'site_costs: .* got \(3, 3\)'),
    (np.ones((2, 2)), np.ones(3), r'start_costs: expected shape \(2,\) for 2 sites'),
    (np.ones((2, 2)), np.ones((1, 2)), r'start_costs: .* got \(1, 2\)'),
    ([[0, math.nan], [1, 0]], [1, 1], 'site_costs: entries must be >= 0 or inf'),
    ([[0, 1], [1, 0]], [1, math.nan], 'start_costs: entries must be >= 0 or inf'),
    ([[0, -1], [1, 0]], [1, 1], 'site_costs: .*negative'),
    ([[0, 1], [1, 0]], [-INF, 1], 'start_costs: .*negative'),
    ([[0, 'far'], [1, 0]], [1, 1], 'site_costs: .*numbers'),
    ([[0, 1], [1]], [1, 1], 'site_costs: .*numbers')])
def test_bad_matrices_are_named(site_costs, start_costs, message):
    with pytest.raises(InputError, match=message):
        solve_task(letters('a b'), site_costs, start_costs)


def test_the_callers_matrices_are_left_alone():
    costs, start_costs = np.full((3, 3), INF), np.ones(3)
    costs[:] = 2.0
    before = costs.copy()
    solve_task(letters('a b c', formula='a & b'), costs, start_costs)
    assert (costs == before).all()


def test_the_policy_answers_from_every_task_state():
    task = letters('a b c')
    costs = np.array([[0.0, 1, 4], [1, 0, 1], [4, 1, 0]])
    policy = solve_task(task, costs, [0.0, 5, 5]).policy
    # In c, with only b done: a is four away.
    state = policy.states.index((False, True, True))
    assert policy.value(state, 2) == 4.0
    assert [jump.node for jump in policy.rollout(state, 2)] == [0]
    assert policy.states.index((True, True, True)) is not None


def test_nodes_of_the_policy_are_named():
    # c comes first in the order of goals; b matters to nothing and gets no node.
    task = letters('c1 b a1 c2 a2', formula='a & c')
    x = np.array([1.0, 9.0, 5.0, 8.0, 2.0])
    solution = solve_task(task, np.abs(np.subtract.outer(x, x)), x)
    assert solution.nodes == ('c1', 'c2', 'a1', 'a2')
    jumps = solution.policy.rollout()
    assert tuple(solution.nodes[jump.node] for jump in jumps) == solution.sequence == ('c1', 'a2')
    assert solution.policy.legs.entry.tolist() == [1.0, 8.0, 5.0, 2.0]
    assert solve_task(letters('a', done=['a']), [[0.0]], [1.0]).nodes == ()
