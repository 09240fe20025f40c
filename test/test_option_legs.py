"""Legs between nodes against scipy's Dijkstra on the floor that the trigger leaves open."""

from itertools import pairwise
import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from random_worlds import random_world
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from test_base_space import drawn, SEEDS
from test_grid_shortest_path import edges
from test_grounding import ROOM, SQUARE, task_of

from gk_planner import BaseSpace
from gk_planner.errors import CanceledError
from gk_planner.grounding import ground
from gk_planner.option_legs import OptionLegs
from gk_planner.option_library import OptionLibrary


def legs_of(space, task, start=(0.5, 0.5), goals=None):
    grounding = ground(task, space, start)
    goals = range(len(task.goals)) if goals is None else goals
    return OptionLegs(OptionLibrary(space), grounding, goals)


def random_legs(seed, trigger):
    world = random_world(seed, trigger=trigger)
    space = BaseSpace(world.grid_map, world.config, world.annotations)
    return legs_of(space, world.task, world.start), OptionLibrary(space).grid


def distances(grid, resolution, target, may_enter):
    """Metres to the target by at least one step, entering only cells that may be entered.

    The target is split: steps into it end at a copy, so that leaving and coming back counts.
    """
    source, end, _, cost = edges(grid)
    n_cells = grid.moves.size
    kept = may_enter[end] | (end == target)
    end = np.where(end == target, n_cells, end)
    graph = sparse.csr_array((cost[kept] * resolution, (end[kept], source[kept])),
                             shape=(n_cells + 1,) * 2)
    return dijkstra(graph, indices=n_cells)[:n_cells]


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_action_legs_are_shortest_ways(seed):
    legs, grid = random_legs(seed, 'action')
    table, resolution = legs.legs, legs.grounding.space.resolution
    assert not table.passes_done and table.through is table.flip
    everywhere = np.ones(grid.moves.size, dtype=bool)
    for node, target in enumerate(legs.node_cell.tolist()):
        expected = distances(grid, resolution, target, everywhere)
        expected[target] = 0.0
        np.testing.assert_allclose(table.flip[:, node], expected[legs.node_cell], rtol=1e-9,
                                   atol=1e-10)
        np.testing.assert_allclose(table.entry[node], expected[legs.grounding.start_cell],
                                   rtol=1e-9, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_contact_legs_touch_nothing_else(seed):
    legs, grid = random_legs(seed, 'contact')
    grounding, table = legs.grounding, legs.legs
    resolution = grounding.space.resolution
    floor = ~np.isin(np.arange(grid.moves.size), grounding.walls)
    assert table.passes_done
    for node, target in enumerate(legs.node_cell.tolist()):
        flip = distances(grid, resolution, target, floor)
        np.testing.assert_allclose(table.flip[:, node], flip[legs.node_cell], rtol=1e-9)
        np.testing.assert_allclose(table.entry[node], flip[grounding.start_cell], rtol=1e-9)
        # A done, irreversible goal is free floor: ways inside it join its nodes.
        goal = legs.node_goal[node]
        through = flip[legs.node_cell]
        if goal not in grounding.task.reversible:
            own = np.isin(np.arange(grid.moves.size), grounding.goal_cells[goal])
            inside = distances(grid._replace(moves=np.where(own, grid.moves, np.uint8(0))),
                               resolution, target, own)
            mates = legs.node_goal == goal
            through = np.where(mates, np.minimum(through, inside[legs.node_cell]), through)
        np.testing.assert_allclose(table.through[:, node], through, rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(['action', 'contact']))
def test_ways_cost_what_the_legs_say(seed, trigger):
    legs, grid = random_legs(seed, trigger)
    table, nodes = legs.legs, range(len(legs.node_cell))
    possible = {(int(a), int(b)): cost for a, b, _, cost in zip(*edges(grid), strict=True)}
    jumps = [(None, node, True, table.entry[node]) for node in nodes]
    jumps += [(a, b, True, table.flip[a, b]) for a in nodes for b in nodes]
    jumps += [(a, b, False, table.through[a, b]) for a in nodes for b in nodes]
    for origin, node, flips, cost in jumps:
        if not np.isfinite(cost):
            continue
        cells, metres = legs.way(origin, node, flips)
        first = legs.grounding.start_cell if origin is None else legs.node_cell[origin]
        assert cells[0] == first and cells[-1] == legs.node_cell[node]
        steps = math.fsum(possible[step] for step in pairwise(cells.tolist()))
        assert type(metres) is float
        assert math.isclose(metres, steps * legs.grounding.space.resolution, rel_tol=1e-9)
        assert math.isclose(metres, cost, rel_tol=1e-9, abs_tol=1e-9)


def test_nodes_stand_together_by_goal():
    space = drawn(ROOM)
    task = task_of(('a', 'a', (0.5, 4.5)), ('b', 'b', SQUARE), ('c', 'a', (5.5, 4.5)))
    legs = legs_of(space, task)
    assert legs.node_goal.tolist() == [0, 0] + [1] * 8
    assert legs.node_cell.tolist()[:2] == [24, 29]
    assert [nodes.tolist() for nodes in legs.site_nodes()] == [[0], list(range(2, 10)), [1]]
    assert legs.option_to(1).target == 29


def test_only_the_goals_that_take_part():
    space = drawn(ROOM)
    task = task_of(('a', 'a', (0.5, 4.5)), ('b', 'b', (5.5, 4.5)))
    legs = legs_of(space, task, goals=[1])
    assert legs.node_goal.tolist() == [1] and legs.legs.entry.shape == (1,)
    none = legs_of(space, task, goals=[])
    assert none.legs.flip.shape == (0, 0) and none.legs.entry.shape == (0,)


@pytest.mark.parametrize('temperature', [0.1, 1.0, 100.0])
def test_soft_legs_are_values_of_the_options(temperature):
    space = drawn(ROOM, temperature=temperature)
    task = task_of(('a', 'a', (0.5, 4.5)), ('b', 'b', (5.5, 4.5)))
    legs = legs_of(space, task)
    to_a, to_b = OptionLibrary(space).get([24, 29])
    assert legs.legs.entry.tolist() == [-to_a.log_z[0], -to_b.log_z[0]]
    assert legs.legs.flip.tolist() == [[-to_a.log_z[24], -to_b.log_z[24]],
                                       [-to_a.log_z[29], -to_b.log_z[29]]]


def test_contact_goes_around_a_pending_site():
    space = drawn('... ... ...', connectivity=4)
    task = task_of(('a', 'a', (2.5, 1.5)), ('b', 'b', (1.5, 1.5)), trigger='contact')
    legs = legs_of(space, task, start=(0.5, 1.5))
    assert legs.legs.entry.tolist() == [4.0, 1.0]
    cells, metres = legs.way(None, 0, True)
    assert 4 not in cells and metres == 4.0
    # Touched already, the site is left and entered again.
    assert legs.legs.flip.tolist() == [[2.0, 1.0], [1.0, 2.0]]


def test_checkpoint_stops_between_options():
    def stop():
        raise CanceledError('stop')

    space = drawn(ROOM)
    grounding = ground(task_of(('a', 'a', (0.5, 4.5))), space, (0.5, 0.5))
    with pytest.raises(CanceledError):
        OptionLegs(OptionLibrary(space), grounding, [0], stop)
