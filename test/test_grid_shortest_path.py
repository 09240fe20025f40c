"""The min-plus kernel against scipy's Dijkstra on the same graph."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from test_base_space import drawn, SEEDS

from gk_planner import BaseSpace, Config
from gk_planner.annotations import Annotations
from gk_planner.grid_shortest_path import (
    ARRIVED,
    descend,
    follow,
    Grid,
    NO_WAY,
    path_costs,
    shortest_paths,
    shortest_values,
    step_cost,
)
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.options import grid_of


def random_grid(rng, max_side=12, heaviest=None, connectivity=None):
    """Draw a grid with obstacles, weights up to ``heaviest`` and one-way lines."""
    rows, cols = rng.integers(1, max_side, 2, endpoint=True)
    data = np.where(rng.random((rows, cols)) < rng.choice([0, 0.2, 0.4]), 100, 0)
    lines = [tuple(map(tuple, rng.uniform(0, (cols, rows), (3, 2)).tolist()))
             for _ in range(rng.integers(0, 3))]
    space = BaseSpace(OccupancyMap(data, 1.0),
                      Config(connectivity=connectivity or int(rng.choice([4, 8]))),
                      Annotations(one_way=tuple(lines)))
    grid = grid_of(space)
    if heaviest is None:
        heaviest = float(rng.choice([1, 10, 1e4]))
    if heaviest > 1:
        grid = grid._replace(weight=heaviest ** rng.random(data.size))
    return grid, space


def free_cell(rng, space):
    cells = np.flatnonzero(space.free)
    return int(rng.choice(cells)) if cells.size else 0


def edges(grid):
    """Return sources, ends, moves and costs of all steps, by the sentence of the contract."""
    weight = grid.weight if grid.weight.size else np.ones(grid.moves.size)
    found = [(cell, cell + int(offset), move,
              math.hypot(*((1, 0) if move < 4 else (1, 1)))
              * (weight[cell] + weight[cell + offset]) / 2)
             for cell in range(grid.moves.size) for move, offset in enumerate(grid.offsets)
             if grid.moves[cell] >> move & 1]
    return tuple(np.array(column) for column in zip(*found, strict=True)) if found else (
        np.empty(0, int),) * 3 + (np.empty(0),)


def reference(grid, target):
    """Distances to the target by scipy, on the reversed graph."""
    source, end, _, cost = edges(grid)
    graph = sparse.csr_array((cost, (end, source)), shape=(grid.moves.size,) * 2)
    return dijkstra(graph, indices=target)


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_values_equal_scipy(seed):
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng)
    target = free_cell(rng, space)
    value, settled = shortest_paths(grid, target)
    np.testing.assert_allclose(value, reference(grid, target), rtol=1e-12)
    assert sorted(settled) == np.flatnonzero(np.isfinite(value)).tolist()
    assert (np.diff(value[settled]) >= 0).all()


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_field_descends_and_costs_are_sums_along_the_way(seed):
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng)
    target = free_cell(rng, space)
    value, _ = shortest_paths(grid, target)
    direction = descend(grid, value, 1.0)
    direction[target] = ARRIVED
    costs = path_costs(grid, direction, np.arange(value.size), target)
    np.testing.assert_allclose(costs, value, rtol=1e-10)
    for cell in range(value.size):
        if value[cell] == np.inf:
            assert direction[cell] == NO_WAY
            assert follow(direction, grid.offsets, cell, target).tolist() == [cell]
            continue
        path = follow(direction, grid.offsets, cell, target)
        assert path[0] == cell and path[-1] == target
        assert (np.diff(value[path]) <= -0.999).all()
        steps = [step_cost(grid, here, direction[here]) for here in path[:-1]]
        assert math.isclose(math.fsum(steps), costs[cell], rel_tol=1e-12)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_first_of_equal_moves(seed):
    """Without diagonals values are whole numbers, so that ties are exact."""
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng, heaviest=1, connectivity=4)
    target = free_cell(rng, space)
    value, _ = shortest_paths(grid, target)
    direction = descend(grid, value, 1.0)
    again = descend(grid, shortest_paths(grid, target)[0], 1.0)
    assert direction.tobytes() == again.tobytes()
    for cell in np.flatnonzero(np.isfinite(value) & (value > 0)):
        best = [move for move, offset in enumerate(grid.offsets)
                if grid.moves[cell] >> move & 1 and value[cell + offset] == value[cell] - 1]
        assert direction[cell] == best[0]


@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_buckets_and_heap_agree_to_the_last_bit(seed):
    """Weights of every kind, one-way lines, and moves that only lead one way."""
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng, max_side=int(rng.choice([3, 12, 40])),
                              heaviest=float(rng.choice([1, 1.0001, 3, 99, 100, 101, 1e5])))
    if grid.weight.size and rng.random() < 0.5:
        # Few values of weight make many ties.
        grid = grid._replace(weight=np.minimum(np.rint(grid.weight * 2) / 2, 100.0))
    if rng.random() < 0.5:
        lost = rng.integers(0, 256, grid.moves.size) | rng.integers(0, 256, grid.moves.size)
        grid = grid._replace(moves=grid.moves & lost.astype(np.uint8))
    target = free_cell(rng, space)
    expected, _ = shortest_paths(grid, target)
    assert shortest_values(grid, target).tobytes() == expected.tobytes()


@pytest.mark.parametrize('hundredths', [range(100, 2000, 7), range(2000, 10_001, 61)])
def test_no_border_between_buckets_loses_a_cell(hundredths):
    """On a corridor of one weight the values fall on, just below and just above the borders."""
    corridor = grid_of(drawn('.' * 1000))
    for weight in hundredths:
        grid = corridor._replace(weight=np.full(1000, weight / 100))
        expected, _ = shortest_paths(grid, 0)
        assert np.isfinite(expected).all()
        assert shortest_values(grid, 0).tobytes() == expected.tobytes(), weight


def test_buckets_that_hold_more_than_at_first():
    """A large open floor with weights in a wide range: thousands of cells wait at a time."""
    rng = np.random.default_rng(7)
    grid = grid_of(drawn(' '.join(['.' * 300] * 300)))
    grid = grid._replace(weight=rng.uniform(1, 100, grid.moves.size))
    expected, _ = shortest_paths(grid, 45_150)
    assert shortest_values(grid, 45_150).tobytes() == expected.tobytes()


def test_known_values():
    grid = grid_of(drawn('..# .#. ...'))
    value, _ = shortest_paths(grid, 0)
    # No diagonal leads past an obstacle, so all ways are straight.
    assert value.tolist() == [0, 1, 2, 1, np.inf, 3, 2, 3, np.inf]
    open_value, _ = shortest_paths(grid_of(drawn('... ...')), 0)
    root = math.sqrt(2)
    np.testing.assert_allclose(open_value, [0, 1, 2, 1, root, 1 + root], rtol=1e-15)


def test_equal_ways_cost_the_same_to_the_last_bit():
    """Fifty straight and fifty diagonal steps, in whatever order they come."""
    rng = np.random.default_rng(5)
    grid = grid_of(drawn(' '.join(['.' * 110] * 60)))
    costs = set()
    for _ in range(20):
        direction = np.full(grid.moves.size, NO_WAY, dtype=np.uint8)
        cell = 0
        for move in rng.permutation([0] * 50 + [4] * 50):
            direction[cell] = move
            cell += int(grid.offsets[move])
        costs.add(float(path_costs(grid, direction, np.array([0]), cell)[0]))
    assert costs == {50 + math.sqrt(2) * 50}


def test_long_sums_do_not_gather_rounding():
    rng = np.random.default_rng(6)
    grid = grid_of(drawn('.' * 5000))._replace(weight=rng.uniform(1, 3, 5000))
    direction = np.zeros(5000, dtype=np.uint8)
    exact = math.fsum((grid.weight[:-1] + grid.weight[1:]) / 2)
    cost = float(path_costs(grid, direction, np.array([0]), 4999)[0])
    assert abs(cost - exact) <= math.ulp(exact)


def test_leaving_the_target_and_coming_back():
    grid = grid_of(drawn('...'))
    value, _ = shortest_paths(grid, 1)
    direction = descend(grid, value, 1.0)
    assert follow(direction, grid.offsets, 1, 1).tolist() == [1, 2, 1]
    assert path_costs(grid, direction, np.array([1]), 1).tolist() == [2.0]


def test_single_cell_and_wall():
    grid = grid_of(drawn('.#.'))
    value, settled = shortest_paths(grid, 2)
    assert value.tolist() == [np.inf, np.inf, 0] and settled.tolist() == [2]
    assert descend(grid, value, 1.0).tolist() == [NO_WAY] * 3


@pytest.mark.parametrize('heaviest', [1e4, 1e6, 1e9])
def test_heavy_weights_cost_neither_time_nor_digits(heaviest):
    """A serpentine of heavy cells beside light ones: values near 1e13 still fall by 1."""
    free = np.ones((99, 99), dtype=bool)
    free[1::4, 1:] = free[3::4, :-1] = False
    space = BaseSpace(OccupancyMap(np.where(free, 0, 100), 1.0))
    weight = np.where(np.arange(free.size) % 3 == 0, heaviest, 1.0)
    grid = Grid(space.moves, space.offsets, weight)
    value, settled = shortest_paths(grid, 0)
    assert settled.size == free.sum()
    direction = descend(grid, value, 1.0)
    direction[0] = ARRIVED
    last = int(np.flatnonzero(free)[-1])
    path = follow(direction, grid.offsets, last, 0)
    assert path[-1] == 0 and (np.diff(value[path]) < 0).all()
    np.testing.assert_allclose(value, reference(grid, 0), rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.floats(1, 100))
def test_values_scale_with_the_weights(seed, factor):
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng, heaviest=5)
    target = free_cell(rng, space)
    value, _ = shortest_paths(grid, target)
    scaled, _ = shortest_paths(grid._replace(weight=grid.weight * factor), target)
    np.testing.assert_allclose(scaled, value * factor, rtol=1e-12)
