"""The log-sum-exp kernel against the general solvers, sparse LU, mpmath and closed forms."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import splu
from test_base_space import drawn, SEEDS
from test_grid_shortest_path import edges, free_cell, random_grid

from gk_planner import BaseSpace, Config
from gk_planner.annotations import Annotations
from gk_planner.errors import InputError, NotConvergedError
from gk_planner.grid_desirability import log_desirability
from gk_planner.grid_shortest_path import descend, shortest_paths
from gk_planner.lmdp import solve_linear, z_iteration
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.options import grid_of
from gk_planner.state_action_lmdp import StateActionLMDP

TEMPERATURES = (0.01, 0.1, 1.0, 10.0, 100.0)
ONE = np.uint8(1)


def solve(grid, target, temperature, **options):
    return log_desirability(grid, target, n_actions=grid.offsets.size + 2,
                            temperature=temperature, **options)


def as_lmdp(grid, target, temperature):
    """The State-Action LMDP of one option with all its actions, as the contract says it."""
    n_cells, n_moves = grid.moves.size, grid.offsets.size
    cost = np.full((n_cells, n_moves + 2), np.inf)
    cost[:, n_moves:] = 1 / temperature
    cost[target, n_moves + 1] = 0.0
    arrival = np.repeat(np.arange(n_cells)[:, None], n_moves + 2, axis=1)
    source, end, move, step = edges(grid)
    cost[source, move] = step / temperature
    arrival[source, move] = end
    terminal = np.zeros(cost.shape, dtype=bool)
    terminal[target, n_moves + 1] = True
    transition = sparse.csr_array((np.ones(cost.size), (np.arange(cost.size), arrival.ravel())),
                                  shape=(cost.size, n_cells))
    return StateActionLMDP(transition=transition, passive=np.full(cost.shape, 1 / (n_moves + 2)),
                           cost=cost, terminal=terminal)


def linear_system(grid, target, temperature, cells):
    """Return (A, b) of A z = b on the given cells, which must be those with z > 0."""
    n_actions = grid.offsets.size + 2
    source, end, step = steps(grid)
    stay = math.exp(-1 / temperature) / n_actions
    gain = sparse.csr_array((np.exp(-step / temperature) / n_actions, (source, end)),
                            shape=(grid.moves.size,) * 2)
    diagonal = np.full(grid.moves.size, 1 - 2 * stay)
    diagonal[target] = 1 - stay
    right = np.zeros(grid.moves.size)
    right[target] = 1 / n_actions
    matrix = sparse.diags_array(diagonal[cells]) - gain[cells][:, cells]
    return sparse.csc_array(matrix), right[cells]


def steps(grid):
    """Return sources, ends and costs of all steps, on large grids too."""
    weight = grid.weight if grid.weight.size else np.ones(grid.moves.size)
    source = [np.flatnonzero(grid.moves >> np.uint8(move) & ONE)
              for move in range(grid.offsets.size)]
    end = [cells + offset for cells, offset in zip(source, grid.offsets, strict=True)]
    cost = [(1 if move < 4 else math.sqrt(2)) * (weight[source[move]] + weight[end[move]]) / 2
            for move in range(grid.offsets.size)]
    return np.concatenate(source), np.concatenate(end), np.concatenate(cost)


def lu_error(grid, target, temperature, log_z):
    """Return the largest error of log z against sparse LU, where LU does not underflow."""
    cells = np.flatnonzero(np.isfinite(log_z))
    matrix, right = linear_system(grid, target, temperature, cells)
    # Diagonal pivots on an M-matrix do not cancel: small entries keep their digits.
    z = splu(matrix, permc_spec='MMD_AT_PLUS_A', diag_pivot_thresh=0.0).solve(right)
    held = z > 1e-290
    assert held.any()
    return float(np.abs(log_z[cells[held]] - np.log(z[held])).max())


def residual(grid, target, temperature, log_z):
    """Return the largest |log right - log left| of the fixed-point equation over all cells."""
    n_actions = grid.offsets.size + 2
    weight = grid.weight if grid.weight.size else np.ones(grid.moves.size)
    stay = math.exp(-1 / temperature) / n_actions
    log_sum, log_left = np.full(log_z.size, -np.inf), np.full(log_z.size, math.log1p(-2 * stay))
    log_sum[target], log_left[target] = -math.log(n_actions), math.log1p(-stay)
    for move, offset in enumerate(grid.offsets):
        source = np.flatnonzero(grid.moves >> np.uint8(move) & ONE)
        mean = (weight[source] + weight[source + offset]) / 2
        cost = (1 if move < 4 else math.sqrt(2)) * mean / temperature
        log_sum[source] = np.logaddexp(
            log_sum[source], log_z[source + offset] - cost - math.log(n_actions))
    alive = np.isfinite(log_z)
    assert (np.isfinite(log_sum) == alive).all()
    return float(np.abs((log_sum - log_left)[alive] - log_z[alive]).max())


def check_support(grid, target, log_z):
    """Finite on every cell with a way to the target, -inf exactly on the others."""
    reachable = np.isfinite(shortest_paths(grid, target)[0])
    assert np.isfinite(log_z[reachable]).all()
    assert (log_z[~reachable] == -np.inf).all()


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from([0.5, 1.0, 10.0, 100.0]))
def test_state_action_lmdp(seed, temperature):
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng, max_side=6, heaviest=float(rng.choice([1, 3])))
    target = free_cell(rng, space)
    log_z = solve(grid, target, temperature)
    problem = as_lmdp(grid, target, temperature)
    z = (problem.passive * solve_linear(problem).z.reshape(problem.cost.shape)).sum(axis=1)
    np.testing.assert_allclose(np.exp(log_z), z, rtol=1e-9)


def test_z_iteration_agrees():
    grid = grid_of(drawn('.... .##. ....'))
    problem = as_lmdp(grid, 0, 2.0)
    z = z_iteration(problem).z.reshape(problem.cost.shape).mean(axis=1)
    np.testing.assert_allclose(np.exp(solve(grid, 0, 2.0)), z, rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from([0.5, 1.0, 10.0, 100.0]))
def test_ends_on_entry(seed, temperature):
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng, max_side=6, heaviest=float(rng.choice([1, 3])))
    target = free_cell(rng, space)
    log_z = solve(grid, target, temperature, ends_on_entry=True)
    check_support(grid, target, log_z)
    assert log_z[target] == 0
    others = np.flatnonzero(np.isfinite(log_z) & (np.arange(log_z.size) != target))
    n_actions = grid.offsets.size + 2
    gain = np.zeros((log_z.size,) * 2)
    source, end, step = steps(grid)
    gain[source, end] = np.exp(-step / temperature) / n_actions
    stay = 2 * math.exp(-1 / temperature) / n_actions
    matrix = (1 - stay) * np.eye(others.size) - gain[np.ix_(others, others)]
    z = np.linalg.solve(matrix, gain[others, target])
    np.testing.assert_allclose(np.exp(log_z[others]), z, rtol=1e-9)


def mp_log_z(grid, target, temperature, cells):
    """Log z by elimination with 60 digits; the exponents of mpmath have no limits."""
    mp.dps = 60
    n_actions, number = grid.offsets.size + 2, {cell: i for i, cell in enumerate(cells)}
    weight = grid.weight if grid.weight.size else np.ones(grid.moves.size)
    stay = mp.exp(-1 / mp.mpf(temperature)) / n_actions
    rows = [{i: 1 - 2 * stay} for i in range(len(cells))]
    right = [mp.mpf(0)] * len(cells)
    rows[number[target]] = {number[target]: 1 - stay}
    right[number[target]] = mp.mpf(1) / n_actions
    for source, end, move, _ in zip(*edges(grid), strict=True):
        if source in number and end in number:
            mean = (mp.mpf(float(weight[source])) + mp.mpf(float(weight[end]))) / 2
            length = (1 if move < 4 else mp.sqrt(2)) * mean
            rows[number[source]][number[end]] = -mp.exp(-length / temperature) / n_actions
    for pivot, row in enumerate(rows):
        for other in range(pivot + 1, len(rows)):
            factor = rows[other].pop(pivot, None)
            if factor is not None:
                factor /= row[pivot]
                for column, entry in row.items():
                    if column > pivot:
                        rows[other][column] = rows[other].get(column, 0) - factor * entry
                right[other] -= factor * right[pivot]
    for pivot in reversed(range(len(rows))):
        known = sum(entry * right[column] for column, entry in rows[pivot].items()
                    if column > pivot)
        right[pivot] = (right[pivot] - known) / rows[pivot][pivot]
    return np.array([float(mp.log(z)) for z in right])


@pytest.mark.parametrize('temperature', TEMPERATURES)
@pytest.mark.parametrize('target', [0, 399, 123])
def test_corridor_where_doubles_underflow(temperature, target):
    grid = grid_of(drawn('.' * 400, connectivity=4))
    log_z = solve(grid, target, temperature)
    if temperature <= 0.1:
        assert math.exp(log_z.min()) == 0
    np.testing.assert_allclose(log_z, mp_log_z(grid, target, temperature, range(400)), atol=1e-6)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from(TEMPERATURES))
def test_mazes_with_many_digits(seed, temperature):
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng, max_side=9)
    target = free_cell(rng, space)
    log_z = solve(grid, target, temperature)
    cells = np.flatnonzero(np.isfinite(log_z)).tolist()
    if cells:
        expected = mp_log_z(grid, target, temperature, cells)
        np.testing.assert_allclose(log_z[cells], expected, rtol=1e-14, atol=1e-6)


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.sampled_from(TEMPERATURES), st.booleans())
def test_finite_exactly_where_there_is_a_way(seed, temperature, ends_on_entry):
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng, max_side=25)
    target = free_cell(rng, space)
    log_z = solve(grid, target, temperature, ends_on_entry=ends_on_entry)
    check_support(grid, target, log_z)
    if not ends_on_entry:
        assert residual(grid, target, temperature, log_z) < 1e-6


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from([1e-6, 1e-3, 0.01, 0.1, 1.0]))
def test_low_temperatures_approach_shortest_paths(seed, temperature):
    """The bounds 0 <= T v - c <= T (m + 1) log n for a shortest path of m steps and cost c.

    No sequence of actions costs less than c, and their probabilities sum to at most 1; the
    shortest path with its a_g alone has probability n^-(m + 1).
    """
    rng = np.random.default_rng(seed)
    grid, space = random_grid(rng, max_side=15)
    target = free_cell(rng, space)
    cost, _ = shortest_paths(grid, target)
    alive = np.isfinite(cost)
    excess = -temperature * solve(grid, target, temperature)[alive] - cost[alive]
    rounding = 1e-12 * (1 + cost[alive])
    n_actions = grid.offsets.size + 2
    # A step costs at least 1, so a shortest path has at most c steps.
    assert (excess >= -rounding).all()
    assert (excess <= temperature * (cost[alive] + 1) * math.log(n_actions) + rounding).all()


@pytest.mark.parametrize('temperature', [0.01, 1.0, 100.0, 1000.0])
def test_single_free_cell(temperature):
    for text in ('.', '### #.# ###'):
        space = drawn(text)
        target = int(np.flatnonzero(space.free)[0])
        log_z = solve(grid_of(space), target, temperature)
        # z = 1/n + exp(-1/T)/n z: complete at once, or after neutral actions.
        expected = -math.log(10 - math.exp(-1 / temperature))
        assert math.isclose(log_z[target], expected, rel_tol=1e-12)
        assert np.isfinite(log_z).sum() == 1


@pytest.mark.parametrize('temperature', TEMPERATURES)
def test_one_way_spiral_has_a_closed_form(temperature):
    """Where every cell has one move only, z falls by the same factor with every step."""
    free = np.zeros((31, 31), dtype=bool)
    row, col, length = 15, 15, 2
    for arm in range(14):
        drow, dcol = ((0, 1), (1, 0), (0, -1), (-1, 0))[arm % 4]
        for _ in range(length):
            free[row, col] = True
            row, col = row + drow, col + dcol
        length += 2 * (arm % 2)
    grid = grid_of(BaseSpace(OccupancyMap(np.where(free, 0, 100), 1.0), Config(connectivity=4)))
    target = 15 * 31 + 15
    steps_to_go, _ = shortest_paths(grid, target)
    forward = descend(grid, steps_to_go, 1.0)
    forward[target] = 255
    one_way = np.where(forward < 4, ONE << np.minimum(forward, 7), 0).astype(np.uint8)
    log_z = solve(grid._replace(moves=one_way), target, temperature)
    stay = math.exp(-1 / temperature)
    expected = -math.log(6 - stay) - steps_to_go * (1 / temperature + math.log(6 - 2 * stay))
    assert np.isfinite(expected).sum() > 100
    np.testing.assert_allclose(log_z, expected, rtol=1e-12)


def serpentine(side, width):
    free = np.ones((side, side), dtype=bool)
    for turn, row in enumerate(range(width, side, width + 1)):
        free[row] = False
        free[row, slice(0, width) if turn % 2 else slice(-width, None)] = True
    return free


def halls():
    """Two halls, a corridor between them and a dead end; targets in each of them."""
    free = np.zeros((80, 200), dtype=bool)
    free[2:78, 2:78] = free[20:60, 120:160] = free[40, 78:195] = True
    return free


@pytest.mark.parametrize('temperature', [0.01, 1.0, 100.0, 1000.0])
@pytest.mark.parametrize('free, target', [
    (serpentine(61, 1), 0), (serpentine(61, 5), 61 * 30), (halls(), 40 * 200 + 194),
    (halls(), 2 * 200 + 2), (halls(), 40 * 200 + 100), (np.ones((3, 900), dtype=bool), 0)],
    ids=['corridor', 'wide_corridor', 'dead_end', 'hall', 'doorway', 'strip'])
@pytest.mark.parametrize('heaviest', [1, 1e3])
def test_nasty_worlds(free, target, temperature, heaviest):
    grid = grid_of(BaseSpace(OccupancyMap(np.where(free, 0, 100), 1.0)))
    if heaviest > 1:
        rng = np.random.default_rng(3)
        grid = grid._replace(weight=np.where(rng.random(free.size) < 0.3, heaviest, 1.0))
    log_z = solve(grid, target, temperature)
    check_support(grid, target, log_z)
    assert residual(grid, target, temperature, log_z) < 1e-6
    if temperature >= 1:
        assert lu_error(grid, target, temperature, log_z) < 1e-7


def test_one_way_lines_and_weights_in_the_open():
    area = ((5.0, 5.0), (35.0, 5.0), (35.0, 20.0), (5.0, 20.0))
    cliff = ((0.0, 10.0), (20.0, 12.0), (33.0, 31.0))
    space = BaseSpace(OccupancyMap(np.zeros((40, 40), dtype=int), 1.0),
                      annotations=Annotations(weights=((area, 7.0),), one_way=(cliff,)))
    for temperature in (1.0, 100.0):
        log_z = solve(grid_of(space), 820, temperature)
        assert lu_error(grid_of(space), 820, temperature, log_z) < 1e-8


@pytest.mark.parametrize('temperature', [0.01, 1.0, 100.0])
def test_a_million_cells(temperature):
    free = np.random.default_rng(1).random((1000, 1000)) > 0.2
    free[500, 500] = True
    free[100:130, 100:200] = True
    grid = grid_of(BaseSpace(OccupancyMap(np.where(free, 0, 100), 0.05)))
    log_z = solve(grid, 500_500, temperature)
    check_support(grid, 500_500, log_z)
    assert np.isfinite(log_z).sum() > 500_000
    assert residual(grid, 500_500, temperature, log_z) < 1e-6


@pytest.mark.parametrize('temperature', [1.0, 10.0, 100.0])
@pytest.mark.parametrize('share', [0.0, 0.15])
def test_sparse_lu(temperature, share):
    free = np.random.default_rng(2).random((150, 150)) >= share
    free[0, 0] = True
    grid = grid_of(BaseSpace(OccupancyMap(np.where(free, 0, 100), 1.0)))
    assert lu_error(grid, 0, temperature, solve(grid, 0, temperature)) < 1e-8


def test_large_open_floor_keeps_a_margin():
    """Smooth errors are the slow ones: the open floor at high temperature is the worst case."""
    grid = grid_of(BaseSpace(OccupancyMap(np.zeros((300, 300), dtype=int), 1.0)))
    assert lu_error(grid, 0, 100.0, solve(grid, 0, 100.0)) < 1e-8


def test_same_input_same_bytes():
    grid = grid_of(drawn(' '.join(['..........'] * 10)))
    assert solve(grid, 34, 5.0).tobytes() == solve(grid, 34, 5.0).tobytes()


def test_gives_up():
    grid = grid_of(drawn(' '.join(['.' * 20] * 20)))
    with pytest.raises(NotConvergedError) as caught:
        solve(grid, 7, 100.0, max_rounds=1)
    assert caught.value.message.startswith('desirability of cell 7 at temperature 100: z ')
    assert caught.value.message.endswith('after 1 rounds')


def test_temperature_beyond_the_exponents():
    grid = grid_of(drawn('..........'))
    assert np.isfinite(solve(grid, 0, 1e-12)).all()
    with pytest.raises(InputError, match=r'temperature: must be 0 or at least .* got 1e-300'):
        solve(grid, 0, 1e-300)


def test_checkpoint_stops():
    class StopError(Exception):
        pass

    def stop():
        raise StopError

    with pytest.raises(StopError):
        solve(grid_of(drawn('....')), 0, 1.0, checkpoint=stop)
