"""Where the robot can stand in which task state, against a search over sets."""

from hypothesis import given, settings
import hypothesis.strategies as st
import numpy as np
import pytest
from random_tasks import random_task

from gk_planner.boolean_task import Task
from gk_planner.errors import CanceledError
from gk_planner.feasibility import can_be_accepted
from gk_planner.full_task_mdp import accepts, flip_allowed, flipped, start_bits
from gk_planner.task_states import reachable_states


def naive(task, goals, place_goal, flip, through, on_the_spot, passes_done):
    """Search all pairs of a task state and a place, one by one."""
    first = (start_bits(task), len(place_goal) - 1)
    found, pending = {first}, [first]
    for bits, place in pending:
        if accepts(task, bits):
            return True
        following = set()
        for goal in goals:
            nodes = [node for node in range(len(place_goal) - 1) if place_goal[node] == goal]
            if flip_allowed(task, bits, goal):
                there = flipped(bits, goal)
                following |= {(there, node) for node in nodes if flip[place, node]}
                if goal in on_the_spot and on_the_spot[goal][place]:
                    following.add((there, place))
            if passes_done and bits[goal] and goal not in task.reversible:
                following |= {(bits, node) for node in nodes if through[place, node]}
        pending += sorted(following - found)
        found |= following
    return False


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([3, 90]))
def test_equals_a_search_over_pairs(seed, passes_done, most_nodes):
    rng = np.random.default_rng(seed)
    task = random_task(rng, max_goals=4)
    takes_part = rng.random(len(task.goals)) < 0.8
    goals = tuple(np.flatnonzero(takes_part).tolist())
    # Nodes of goals that take no part are places too; sets of places may need several words.
    counts = rng.integers(0, most_nodes + 1, len(task.goals))
    place_goal = np.append(np.repeat(np.arange(len(task.goals)), counts), -1)
    shape = (len(place_goal), len(place_goal) - 1)
    density = rng.choice([0.02, 0.3, 1.0])
    flip, through = rng.random((2, *shape)) < density
    on_the_spot = {goal: rng.random(len(place_goal)) < 0.5
                   for goal in goals if rng.random() < 0.3}
    states = reachable_states(task, goals, 100_000_000)
    assert can_be_accepted(states, place_goal, flip, through, on_the_spot,
                           passes_done=passes_done) == naive(
                               task, goals, place_goal, flip, through, on_the_spot, passes_done)


def test_it_can_be_stopped():
    task = Task.from_dict({'sites': [{'name': 'a', 'features': ['a']}]})

    def stop():
        raise CanceledError('enough')

    with pytest.raises(CanceledError):
        can_be_accepted(reachable_states(task, (0,), 1_000_000), np.array([0, -1]),
                        np.ones((2, 1), dtype=bool), np.ones((2, 1), dtype=bool), {},
                        passes_done=False, checkpoint=stop)
