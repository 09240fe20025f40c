"""The goal kernel lists exactly the jumps that the task rules allow."""

from hypothesis import given, settings
import hypothesis.strategies as st
import numpy as np
from random_tasks import random_task

from gk_planner.boolean_task import Task
from gk_planner.full_task_mdp import accepts, flip_allowed, flipped
from gk_planner.goal_kernel import build_goal_kernel, Legs
from gk_planner.task_states import reachable_states

INF = np.inf
BYTES = 1_000_000


def random_legs(rng, goals, passes_done=False):
    """Draw one to three nodes per goal and finite costs between them."""
    node_goal = np.repeat(goals, rng.integers(1, 4, len(goals))).astype(np.int64)
    n_nodes = len(node_goal)
    flip = rng.uniform(0.1, 3, (n_nodes, n_nodes))
    return Legs(node_goal, flip, flip, rng.uniform(0.1, 3, n_nodes), passes_done)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_jumps_are_the_allowed_flips_and_the_done_sites(seed, passes_done):
    rng = np.random.default_rng(seed)
    task = random_task(rng)
    goals = tuple(range(len(task.goals)))
    legs = random_legs(rng, goals, passes_done)
    states = reachable_states(task, goals, BYTES)
    graph = build_goal_kernel(states, legs)
    stood = set()
    for state in range(len(states)):
        bits = tuple(int(bit) for bit in states.bits(state))
        expected = []
        if not accepts(task, bits):
            expected = [(True, goal, states.index(flipped(bits, goal))) for goal in goals
                        if flip_allowed(task, bits, goal)]
            expected += [(False, goal, state) for goal in goals
                         if passes_done and bits[goal] and goal not in task.reversible]
        jumps = range(graph.jump_start[state], graph.jump_start[state + 1])
        assert [(bool(graph.jump_state[jump] != state), int(graph.jump_bit[jump]),
                 int(graph.jump_state[jump])) for jump in jumps] == expected
        stood |= {(there, goal) for _, goal, there in expected}
    check_stands(graph, stood, legs)


def check_stands(graph, stood, legs):
    """Every jump has a stand where it ends, with one value per node of its goal."""
    sizes = [int(np.sum(legs.node_goal == bit)) for bit in range(len(graph.node_start) - 1)]
    found, place = {}, 0
    for state in range(len(graph.accepting)):
        assert graph.state_places[state] == place
        for bit in graph.stand_bit[graph.state_stands[state]:graph.state_stands[state + 1]]:
            found[place] = state, int(bit)
            place += sizes[bit]
    assert graph.state_places[-1] == place
    assert set(found.values()) == stood
    assert sorted(graph.jump_place.tolist()) == sorted(found)
    for state, bit, start in zip(graph.jump_state.tolist(), graph.jump_bit.tolist(),
                                 graph.jump_place.tolist(), strict=True):
        assert found[start] == (state, bit)


def test_nodes_of_one_goal_stand_together():
    task = Task.from_dict({'sites': [
        {'name': 'north', 'features': ['coffee']}, {'name': 'south', 'features': ['coffee']},
        {'name': 'room', 'features': ['mail']}]})
    legs = Legs(np.array([0, 0, 1]), np.ones((3, 3)), np.ones((3, 3)), np.ones(3))
    graph = build_goal_kernel(reachable_states(task, (0, 1), BYTES), legs)
    assert graph.node_start.tolist() == [0, 2, 3]
    assert graph.jump_start.tolist() == [0, 2, 3, 4, 4]
    # Stands: coffee done (2 nodes), mail done (1), both done by coffee (2) or by mail (1).
    assert graph.state_places.tolist() == [0, 0, 2, 3, 6]
    assert graph.jump_place.tolist() == [0, 2, 3, 4]


def test_a_task_without_goals_that_matter_has_no_jumps():
    task = Task.from_dict({'sites': [{'name': 'a', 'features': ['a']}]})
    legs = Legs(np.zeros(0, np.int64), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0))
    graph = build_goal_kernel(reachable_states(task, (), BYTES), legs)
    assert graph.jump_start.tolist() == [0, 0]
    assert graph.state_places.tolist() == [0, 0]


def test_reachable_nodes_follow_chains_of_jumps():
    flip = np.array([[0, 1, INF, INF], [INF, 0, 2, INF], [INF, INF, 0, INF], [1, 1, 1, 0]])
    entry = np.array([1, INF, INF, INF])
    legs = Legs(np.arange(4), flip, flip, entry)
    assert legs.reachable().tolist() == [True, True, True, False]
    # Over a done site the way may be open where completing it is not.
    through = np.full_like(flip, INF)
    through[2, 3] = 1
    assert Legs(np.arange(4), flip, through, entry).reachable().all()
    assert not Legs(np.arange(4), flip, flip, np.full(4, INF)).reachable().any()


def test_restricted_legs_keep_costs():
    legs = random_legs(np.random.default_rng(0), (0, 1, 2))
    kept = np.flatnonzero(legs.node_goal != 1)
    small = legs.restricted(kept)
    assert set(small.node_goal.tolist()) == {0, 2}
    assert small.flip[0, -1] == legs.flip[kept[0], kept[-1]]
    assert small.entry.tolist() == legs.entry[kept].tolist()
