"""Options: policies, values and the hitting theorem."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from test_base_space import drawn, SEEDS
from test_grid_shortest_path import edges, free_cell, random_grid, reference

from gk_planner import BaseSpace, Config
from gk_planner.grid_shortest_path import ARRIVED, NO_WAY
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.option_kernel import absorbing_kernel
from gk_planner.options import grid_of, solve_option

TEMPERATURES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)


def random_option(seed, temperature, ends_on_entry=False, max_side=10):
    """Solve an option on a random grid with weights and one-way lines."""
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng, max_side=max_side)
    config = Config(temperature=temperature, connectivity=space.config.connectivity)
    space = BaseSpace(space.grid_map, config, space.annotations)
    target = free_cell(rng, space)
    return solve_option(grid, space, target, ends_on_entry=ends_on_entry)


def cells_of(option):
    return np.arange(option.direction.size)


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.sampled_from(TEMPERATURES), st.booleans())
def test_policy_rows_and_beta(seed, temperature, ends_on_entry):
    option = random_option(seed, temperature, ends_on_entry)
    reachable = np.isfinite(reference(option.grid, option.target))
    n_moves = option.grid.offsets.size
    for cell in cells_of(option).tolist():
        u = option.move_probabilities(cell)
        assert u.shape == (n_moves + 2,)
        at_target = cell == option.target
        if not (at_target and ends_on_entry):
            assert option.is_feasible(cell) == reachable[cell]
        assert option.termination(cell) == float(at_target or not reachable[cell])
        assert type(option.termination(cell)) is float and type(option.is_feasible(cell)) is bool
        if not option.is_feasible(cell):
            assert not u.any()
            continue
        assert math.isclose(u.sum(), 1, rel_tol=1e-12) and (u >= 0).all()
        impossible = [move for move in range(n_moves) if not option.grid.moves[cell] >> move & 1]
        assert not u[impossible].any()
        if temperature > 0:
            # u(a_n|x) = p_a exp(-1/T) z(x) / z(x): the same in every cell.
            stay = math.exp(-1 / temperature) / (n_moves + 2)
            assert math.isclose(u[n_moves], stay, rel_tol=1e-6, abs_tol=1e-300)
        if option.direction[cell] != ARRIVED:
            assert u[option.direction[cell]] >= u[:n_moves].max() - 1e-6


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.sampled_from((*TEMPERATURES, 1e3, 1e6)), st.booleans())
def test_most_probable_path_ends_at_the_target(seed, temperature, ends_on_entry):
    option = random_option(seed, temperature, ends_on_entry, max_side=20)
    metres = option.metres(cells_of(option))
    for cell in cells_of(option).tolist():
        path = option.path(cell).tolist()
        if not option.is_feasible(cell):
            assert path == [cell] and metres[cell] == math.inf
            continue
        assert path[0] == cell and path[-1] == option.target
        inner = path[1:] if ends_on_entry and cell == option.target else path
        assert len(set(inner)) == len(inner)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from([0.5, 1.0, 10.0, 100.0]))
def test_hitting_theorem(seed, temperature):
    """The controlled chain ends at the goal with probability 1 from where z > 0, else nowhere."""
    option = random_option(seed, temperature, max_side=6)
    n_cells, n_moves = option.direction.size, option.grid.offsets.size
    chain = np.zeros((n_cells + 1, n_cells + 1))
    for cell in cells_of(option):
        u = option.move_probabilities(cell)
        for move, offset in enumerate(option.grid.offsets):
            if u[move] > 0:
                chain[cell, cell + offset] += u[move]
        chain[cell, cell] += u[n_moves]
        chain[cell, n_cells if cell == option.target else cell] += u[n_moves + 1]
    failed = [not option.is_feasible(cell) for cell in cells_of(option)]
    kernel = absorbing_kernel(chain, np.array([*failed, True])).toarray()
    expected = np.where([*failed, False], 0.0, 1.0)
    np.testing.assert_allclose(kernel[:, n_cells], expected, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.sampled_from([0.25, 0.05, 1.0]))
def test_values_at_temperature_zero_are_metres(seed, resolution):
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng)
    space = BaseSpace(OccupancyMap(space.grid_map.data, resolution), space.config)
    target = free_cell(rng, space)
    option = solve_option(grid, space, target)
    expected = reference(grid, target) * resolution
    np.testing.assert_allclose(option.values(cells_of(option)), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(option.metres(cells_of(option)), expected, rtol=1e-10)


def test_values_are_multiples_of_one_unit():
    option = solve_option(grid_of(drawn('..... .....', resolution=0.05)),
                          drawn('..... .....', resolution=0.05), 0)
    scaled = option.values(np.arange(10)) * 2**36
    assert (scaled == np.rint(scaled)).all()


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from([0.5, 1.0, 10.0, 100.0]))
def test_leaving_the_target_and_entering_it_again(seed, temperature):
    """The value at the target itself is that of a copy of the cell which can only be left."""
    option = random_option(seed, temperature, ends_on_entry=True, max_side=6)
    target, n_actions = option.target, option.grid.offsets.size + 2
    source, end, _, step = edges(option.grid)
    leaving = source == target
    gains = option.log_z[end[leaving]] - step[leaving] / temperature
    log_z = np.logaddexp.reduce(gains, initial=-np.inf)
    log_z -= math.log(n_actions * (1 - 2 * math.exp(-1 / temperature) / n_actions))
    value = float(option.values(np.array([target]))[0])
    assert option.is_feasible(target) == np.isfinite(log_z)
    assert value == -log_z or math.isclose(value, -log_z, rel_tol=1e-12, abs_tol=1e-9)
    others = cells_of(option)[cells_of(option) != target]
    assert (option.values(others) == -option.log_z[others]).all()


def test_return_at_temperature_zero():
    option = solve_option(grid_of(drawn('...')), drawn('...'), 0, ends_on_entry=True)
    assert option.path(0).tolist() == [0, 1, 0]
    assert option.values(np.array([0, 1, 2])).tolist() == [2, 1, 2]
    alone = solve_option(grid_of(drawn('.#.')), drawn('.#.'), 0, ends_on_entry=True)
    assert not alone.is_feasible(0) and alone.values(np.array([0, 2])).tolist() == [np.inf] * 2


def test_option_on_arrival():
    option = solve_option(grid_of(drawn('..#')), drawn('..#'), 1)
    assert option.direction.tolist() == [0, ARRIVED, NO_WAY]
    assert option.move_probabilities(1).tolist() == [0] * 9 + [1]
    assert option.path(1).tolist() == [1] and option.values(np.array([1])).tolist() == [0]
    with pytest.raises(ValueError, match='read-only'):
        option.direction[0] = 3
