"""Task states against breadth-first search over all bit vectors, and beyond 64 goals."""

from functools import cache
from itertools import combinations
import tracemalloc

from hypothesis import given, settings
import hypothesis.strategies as st
import numpy as np
import pytest
from random_tasks import cheapest, random_costs, random_task

from gk_planner import task_states
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.errors import InfeasibleError, LimitError
from gk_planner.full_task_mdp import accepts, flip_allowed, flipped, start_bits
from gk_planner.task_solver import legs_of_sites, solve_on_legs
from gk_planner.task_states import (
    most_states,
    reachable_states,
    relevant_goals,
    subset_states,
)

seeds = st.integers(0, 2**32 - 1)
BYTES = 100_000_000


def plain_task(n_goals, constraints=(), **fields):
    sites = [{'name': f's{goal}', 'features': [f'g{goal}']} for goal in range(n_goals)]
    return Task.from_dict({'sites': sites, 'constraints': list(constraints), **fields})


def all_goals(task):
    return tuple(range(len(task.goals)))


def breadth_first(task, goals):
    """Return the depth of every task state, and all flips as (bits, goal, bits after)."""
    depth, flips = {start_bits(task): 0}, set()
    pending = [start_bits(task)]
    for bits in pending:
        for goal in () if accepts(task, bits) else goals:
            if flip_allowed(task, bits, goal):
                there = flipped(bits, goal)
                flips.add((bits, goal, there))
                if there not in depth:
                    depth[there] = depth[bits] + 1
                    pending.append(there)
    return depth, flips


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_states_and_flips_equal_breadth_first_search(seed):
    task = random_task(seed, max_goals=6)
    states = reachable_states(task, all_goals(task), BYTES)
    depth, flips = breadth_first(task, all_goals(task))
    listed = [tuple(int(bit) for bit in states.bits(state)) for state in range(len(states))]
    assert sorted(listed) == sorted(depth)
    assert [depth[bits] for bits in listed] == sorted(depth.values())
    assert [bool(flag) for flag in states.accepting] == [accepts(task, bits) for bits in listed]
    found = list(zip(states.flip_source.tolist(), states.flip_bit.tolist(),
                     states.flip_target.tolist(), strict=True))
    assert found == sorted(found)
    assert {(listed[a], states.goals[bit], listed[b]) for a, bit, b in found} == flips
    assert len(found) == len(flips)
    assert states.is_acyclic == (not task.reversible)
    if states.is_acyclic:
        assert (states.flip_target > states.flip_source).all()

@settings(max_examples=300, deadline=None)
@given(seeds)
def test_marked_sets_equal_breadth_first_search(seed):
    task = random_task(seed, max_goals=6, reversible=False)
    takes_part = np.random.default_rng(seed).random(len(task.goals)) < 0.7
    check_marks(task, tuple(np.flatnonzero(takes_part).tolist()))


@pytest.mark.parametrize('formula', [
    'true', 'false', 'g0', '!g0', 'true ^ g0', 'g0 ^ g1', 'g0 ^ g1 ^ true', 'g0 ^ !g1', 'g0 -> g1',
    'g0 <-> g1', 'g0 & g1', 'g0 & !g1', '!(g0 & g1)', 'g0 & (g1 | g2)', 'g0 & (g1 ^ g2)',
    'g0 & true', 'g0 & false', 'g0 | false', 'all(f)', 'atleast(2, f)', 'exactly(2, f)',
    'atmost(1, f)', 'g0 & !all(f)', 'atleast(3, f) ^ g0'])
@pytest.mark.parametrize('done', [[], ['g1']])
def test_marked_sets_of_every_operator(formula, done):
    goals = {f'g{goal}': ['f', f'g{goal}'] for goal in range(3)}
    task = Task.from_dict({
        'sites': [{'name': name, 'features': features} for name, features in goals.items()],
        'goals': goals, 'formula': formula, 'done': done})
    for n_goals in range(4):
        for taking_part in combinations(range(3), n_goals):
            check_marks(task, taking_part)


def check_marks(task, goals):
    states = subset_states(task, goals, BYTES)
    depth, flips = breadth_first(task, goals)
    marked = {tuple(int(bit) for bit in states.bits(state)): state
              for state in states.numbers().tolist()}
    assert marked.keys() == depth.keys() and len(states) == len(depth)
    assert {(bits, goal) for bits, state in marked.items() for bit, goal in enumerate(goals)
            if int(states.masks.next[state]) >> bit & 1} == {
                (bits, goal) for bits, goal, _ in flips}
    assert all(states.accepting[state] == accepts(task, bits) for bits, state in marked.items())


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_bits_left_out_keep_their_value(seed):
    task = random_task(seed, max_goals=6)
    rng = np.random.default_rng(seed)
    goals = tuple(goal for goal in all_goals(task) if rng.random() < 0.6)
    states = reachable_states(task, goals, BYTES)
    depth, _ = breadth_first(task, goals)
    assert {states.bits(state) for state in range(len(states))} == set(depth)


def test_index_inverts_bits():
    task = plain_task(3, ['g0 before g1', 'g1 before g2'])
    states = reachable_states(task, all_goals(task), BYTES)
    assert [states.index(states.bits(state)) for state in range(4)] == [0, 1, 2, 3]
    assert states.index((False, True, False)) is None
    assert states.index((1, 1, 0)) == 2


def test_accepting_states_end_the_task():
    task = plain_task(3, formula='g0 | g1')
    states = reachable_states(task, all_goals(task), BYTES)
    # 000, the three single flips, and g2 with one more; nothing follows an accepting state.
    assert len(states) == 6
    assert not states.accepting[states.flip_source].any()


def test_a_task_that_starts_done_has_one_state():
    task = plain_task(2, formula='!g0')
    states = reachable_states(task, all_goals(task), BYTES)
    assert len(states) == 1
    assert states.accepting.tolist() == [True]


def test_constraint_on_a_goal_left_out_uses_its_initial_value():
    task = plain_task(2, ['g1 before g0'])
    assert len(reachable_states(task, (0,), BYTES)) == 1
    done = plain_task(2, ['g1 before g0'], done=['g1'])
    assert len(reachable_states(done, (0,), BYTES)) == 2


def count_order_ideals(n_goals, precedes):
    """Count downward closed sets by branching on one maximal element at a time."""
    below = [frozenset(i for i in range(n_goals) if precedes(i, j)) for j in range(n_goals)]
    above = [frozenset(j for j in range(n_goals) if precedes(i, j)) for i in range(n_goals)]

    @cache
    def count(left):
        if not left:
            return 1
        element = max(left)
        # Without the element nothing above it is in the ideal; with it, all below is.
        return count(left - above[element] - {element}) + count(left - below[element] - {element})

    return count(frozenset(range(n_goals)))


@pytest.mark.parametrize('n_goals', [63, 64, 65, 100, 128, 150])
def test_a_total_order_has_one_state_more_than_goals(n_goals):
    task = plain_task(n_goals, [f'g{goal} before g{goal + 1}' for goal in range(n_goals - 1)])
    states = reachable_states(task, all_goals(task), BYTES)
    assert len(states) == n_goals + 1
    assert states.words.shape[1] == -(-n_goals // 64)
    assert states.flip_bit.tolist() == list(range(n_goals))
    assert states.accepting.tolist() == [False] * n_goals + [True]
    assert states.bits(n_goals // 2) == tuple(goal < n_goals // 2 for goal in range(n_goals))


@pytest.mark.parametrize('n_goals', [100, 150])
@pytest.mark.parametrize('window', [3, 6])
def test_dense_partial_orders_beyond_64_goals(n_goals, window):
    # i comes before j when it stands at least `window` places ahead in a shuffled list. Pairs up
    # to twice the window apart imply the rest; the states are the order ideals.
    place = np.random.default_rng(n_goals + window).permutation(n_goals)
    task = plain_task(n_goals, [f'g{i} before g{j}' for i in range(n_goals)
                                for j in range(n_goals)
                                if window <= place[j] - place[i] <= 2 * window])
    states = reachable_states(task, all_goals(task), BYTES)
    expected = count_order_ideals(n_goals, lambda i, j: j - i >= window)
    assert len(states) == expected
    assert states.accepting.sum() == 1


def test_reversible_bits_beyond_64_goals():
    task = plain_task(70, [f'g{goal} before g{goal + 1}' for goal in range(69)],
                      reversible=['g0', 'g69'])
    states = reachable_states(task, all_goals(task), BYTES)
    depth, flips = breadth_first(task, all_goals(task))
    assert len(states) == len(depth)
    assert len(states.flip_bit) == len(flips)


def test_limit_error_names_the_limit_and_what_would_help():
    task = plain_task(5, formula='g0 | g1')
    with pytest.raises(LimitError) as caught:
        reachable_states(task, all_goals(task), 45)
    assert caught.value.message == (
        'task: more than 1 task states can be reached over 5 goals; '
        'add constraints or raise task_memory')


@pytest.mark.parametrize('reversible', [False, True])
def test_the_listing_stops_near_its_limit(reversible):
    names = [f'g{goal}' for goal in range(100)]
    task = plain_task(100, reversible=names if reversible else [],
                      formula=f'{" & ".join(names[:60])} | {" & ".join(names[40:])}')
    tracemalloc.start()
    with pytest.raises(LimitError):
        reachable_states(task, all_goals(task), BYTES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # While lists grow, the old ones are still there.
    assert peak < 4 * BYTES


@settings(max_examples=400, deadline=None)
@given(seeds)
def test_leaving_goals_out_never_changes_the_optimum(seed):
    rng = np.random.default_rng(seed)
    task = random_task(rng, max_goals=6)
    if task.formula.holds(task.initial_bits):
        return
    site_costs, start_costs = random_costs(rng, len(task.sites), metric=True, whole=True)
    legs, site_nodes = legs_of_sites(task, site_costs, start_costs)
    values = []
    for prune in (True, False):
        try:
            run = solve_on_legs(task, legs, site_nodes, Config(), completion_cost=1.0, prune=prune)
            values.append(run.policy.value())
        except InfeasibleError:
            values.append(np.inf)
    assert values[0] == values[1] == cheapest(task, site_costs, start_costs, 1.0)[0]


def test_relevant_goals_by_hand():
    task = plain_task(6, ['g1 before g0', 'g2 forbids g0', 'g3 before g2'],
                      formula='g0 & !g4')
    everything = all_goals(task)
    # g4 would only hurt the formula, g2 would only forbid, g3 only serves g2, g5 is idle.
    assert relevant_goals(task, everything, drop_harmful=True) == (0, 1)
    assert relevant_goals(task, everything, drop_harmful=False) == (0, 1, 2, 3, 4)
    assert relevant_goals(task, (0, 5), drop_harmful=True) == (0,)
    undone = plain_task(3, ['c(g0^1, g1^0)'], formula='!g0', done=['g0'], reversible=['g0'])
    assert relevant_goals(undone, (0, 1, 2), drop_harmful=True) == (0, 1)


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_there_are_never_more_states_than_the_bound(seed):
    task = random_task(seed, max_goals=6, n_constraints=4)
    assert most_states(task, all_goals(task)) >= len(
        reachable_states(task, all_goals(task), BYTES))


@pytest.mark.parametrize(('constraints', 'bound'), [
    ([], 2 ** 6), (['g0 before g1'], 3 * 2 ** 4), (['g0 before g1', 'g1 before g2'], 4 * 2 ** 3),
    (['g0 before g1', 'g2 before g3', 'g3 before g4'], 3 * 4 * 2),
    (['g0 before g1', 'g1 before g0'], 2 ** 6), (['g0 forbids g1'], 2 ** 6)])
def test_bound_on_the_number_of_states(constraints, bound):
    assert most_states(plain_task(6, constraints), tuple(range(6))) == bound


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_free_bits_make_no_more_states_and_flips_than_there_are(seed):
    task = random_task(seed, max_goals=6, n_constraints=int(seed % 4))
    states = reachable_states(task, all_goals(task), BYTES)
    n_free = task_states._fewest_free(task, all_goals(task))
    assert len(states) >= 2 ** n_free and 2 * len(states.flip_bit) >= n_free * 2 ** n_free


def test_free_bits_are_counted_not_listed(monkeypatch):
    monkeypatch.delattr(task_states, 'list_states')
    task = plain_task(45, [f'g{goal} before g{goal + 1}' for goal in range(5)], done=['g9'])
    assert task_states._fewest_free(task, all_goals(task)) == 39
    with pytest.raises(LimitError, match=r'at least 2\^39 task states can be reached over 45'):
        reachable_states(task, all_goals(task), BYTES)


def test_sets_of_bits_start_where_the_task_does():
    task = plain_task(3, ['g0 before g1'], done=['g0'])
    states = subset_states(task, (0, 1, 2), BYTES)
    assert states.initial == 1 and states.bits(1) == (True, False, False)
    assert states.numbers().tolist() == [1, 3, 5, 7] and len(states) == 4
    assert states.index((False, False, False)) is None
    assert states.index((True, True, False)) == 3


def test_bits_that_may_flip_back_are_listed():
    task = plain_task(3, reversible=['g1'])
    assert subset_states(task, (0, 1, 2), BYTES) is None
    assert subset_states(task, (0, 2), BYTES) is not None
    assert subset_states(plain_task(30), tuple(range(30)), 10 ** 12) is None
