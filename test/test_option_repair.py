"""Repaired fields against fields solved from nothing, to the last byte."""

from hypothesis import given, settings
import hypothesis.strategies as st
import numpy as np
import pytest

from gk_planner import BaseSpace, Config
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.option_repair import changed_cells, repaired
from gk_planner.options import grid_of, solve_option

seeds = st.integers(0, 2**32 - 1)


def grid(data, **fields):
    space = BaseSpace(OccupancyMap(data, 1.0), Config(**fields))
    return space, grid_of(space)


def change(rng, data):
    """Block or free a few cells, single ones or boxes."""
    new = data.copy()
    for _ in range(int(rng.integers(1, 4))):
        row, col = rng.integers(0, data.shape)
        height, width = rng.integers(1, 4, 2)
        new[row:row + height, col:col + width] = rng.choice([0, 100])
    return new


@settings(max_examples=400, deadline=None)
@given(seeds)
def test_a_repaired_field_is_the_field_of_the_new_map(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, int(rng.choice([6, 14, 30])), 2)
    data = np.where(rng.random(shape) < rng.choice([0.0, 0.15, 0.4]), 100, 0).astype(np.int8)
    fields = {'connectivity': int(rng.choice([4, 8]))}
    if rng.random() < 0.4:  # weights change around every change of the map
        fields |= {'clearance_distance': 3.0, 'clearance_weight': float(rng.uniform(1, 9))}
    for _ in range(3):
        new_data = change(rng, data)
        old_space, old = grid(data, **fields)
        new_space, new = grid(new_data, **fields)
        both = np.flatnonzero(old_space.free.ravel() & new_space.free.ravel())
        if not both.size:
            return
        target = int(rng.choice(both))
        before = solve_option(old, old_space, target).direction
        found = repaired(before, target, old, new, changed_cells(old, new), part=1.0)
        expected = solve_option(new, new_space, target).direction
        assert found.tolist() == expected.tolist()
        data = new_data


def test_nothing_has_changed():
    space, same = grid(np.zeros((4, 5), dtype=np.int8))
    field = solve_option(same, space, 7).direction
    assert changed_cells(same, same).size == 0
    found = repaired(field, 7, same, same, changed_cells(same, same))
    assert found is not field and found.tolist() == field.tolist()


@pytest.mark.parametrize('blocked', [True, False])
def test_a_change_that_concerns_too_much_is_given_up(blocked):
    # A wall with one door: closing or opening it concerns half of the floor.
    wall = np.zeros((20, 41), dtype=np.int8)
    wall[:, 20] = 100
    door = wall.copy()
    door[10, 20] = 0
    data = (door, wall) if blocked else (wall, door)
    (old_space, old), (_, new) = (grid(each) for each in data)
    field = solve_option(old, old_space, 0).direction
    assert repaired(field, 0, old, new, changed_cells(old, new)) is None
    assert repaired(field, 0, old, new, changed_cells(old, new), part=1.0) is not None
    everything = np.arange(old.moves.size)
    assert repaired(field, 0, old, new, everything) is None


def test_changed_weights_are_changed_cells():
    _, plain = grid(np.zeros((3, 3), dtype=np.int8))
    weight = np.ones(9)
    weight[4] = 2.0
    assert changed_cells(plain, plain._replace(weight=weight)).tolist() == [4]
    assert changed_cells(plain._replace(weight=weight), plain).tolist() == [4]
    assert changed_cells(plain._replace(weight=np.ones(9)), plain).size == 0
