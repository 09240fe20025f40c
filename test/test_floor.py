"""The kernels of the floor against scipy's distance transform and a loop over cells."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy import ndimage
from test_base_space import naive_moves, SEEDS

from gk_planner.floor import inflated, possible_moves


@settings(max_examples=200, deadline=None)
@given(SEEDS, st.one_of(st.floats(0, 60), st.integers(0, 9).map(float), st.just(1e9)))
def test_inflation_equals_the_distance_transform(seed, reach):
    rng = np.random.default_rng(seed)
    occupied = rng.random(rng.integers(1, 40, 2)) < rng.choice([0.0, 0.002, 0.05, 0.5, 1.0])
    distance = (ndimage.distance_transform_edt(~occupied) if occupied.any()
                else np.full(occupied.shape, np.inf))
    np.testing.assert_array_equal(inflated(occupied, reach), distance <= reach)


@pytest.mark.parametrize('reach', [math.sqrt(2), math.sqrt(5), 5.0])
def test_a_disc(reach):
    occupied = np.zeros((15, 17), dtype=bool)
    occupied[7, 8] = True
    rows, cols = np.indices(occupied.shape)
    disc = (rows - 7) ** 2 + (cols - 8) ** 2 <= round(reach ** 2)
    np.testing.assert_array_equal(inflated(occupied, reach + 1e-9), disc)


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.sampled_from([4, 8]))
def test_moves_equal_a_loop_over_cells(seed, connectivity):
    rng = np.random.default_rng(seed)
    free = rng.random(rng.integers(1, 12, 2)) < rng.choice([0.5, 0.8, 1.0])
    expected = np.zeros(free.shape, dtype=np.uint8)
    for (start, _), move in naive_moves(free, connectivity, np.zeros(free.shape, int)).items():
        expected[start] |= 1 << move
    np.testing.assert_array_equal(possible_moves(free, connectivity), expected)
