"""The base space against naive loops over cells and pairs of cells."""

from itertools import product
import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from random_worlds import random_annotations, random_config, random_map

from gk_planner import BaseSpace, Config
from gk_planner.annotations import Annotations, keep_out_mask, one_way_forbidden, weight_field
from gk_planner.errors import AnnotationsError, ConfigError, InputError, MapError, StartError
from gk_planner.grid_shortest_path import step_cost
from gk_planner.moves import MOVES
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.options import grid_of

SEEDS = st.integers(0, 2**32 - 1)


def drawn(text, resolution=1.0, origin=(0.0, 0.0, 0.0), **config):
    """Build a space from a drawing, top row first: '#' occupied, '?' unknown, else free."""
    value = {'#': 100, '?': -1}
    rows = [[value.get(mark, 0) for mark in line] for line in text.split()]
    grid_map = OccupancyMap(np.array(rows[::-1]), resolution, origin)
    return BaseSpace(grid_map, Config(**config))


def sketch(space):
    """Draw the free cells of a space, top row first."""
    return [''.join('.' if cell else '#' for cell in row) for row in space.free[::-1]]


def naive_free(grid_map, config, keep_out):
    """Free cells by the sentences of the contract, one pair of cells at a time."""
    data = grid_map.data
    cells = list(product(range(grid_map.rows), range(grid_map.cols)))
    occupied = [cell for cell in cells if data[cell] >= config.occupied_threshold]
    free = np.zeros(data.shape, dtype=bool)
    for cell in cells:
        near = any(math.dist(cell, other) * grid_map.resolution <= config.robot_radius + 1e-9
                   for other in occupied)
        unknown = data[cell] == -1 and not config.unknown_is_free
        free[cell] = not (near or unknown or keep_out[cell])
    return free


def naive_moves(free, connectivity, forbidden):
    """Map every possible step (from, to) to the number of its move."""
    rows, cols = free.shape

    def is_free(row, col):
        return 0 <= row < rows and 0 <= col < cols and bool(free[row, col])

    steps = {}
    for row, col in product(range(rows), range(cols)):
        for move, (drow, dcol) in enumerate(MOVES[:connectivity]):
            beside = [(row, col), (row + drow, col + dcol), (row + drow, col), (row, col + dcol)]
            if all(is_free(*cell) for cell in beside) and not forbidden[row, col] >> move & 1:
                steps[(row, col), (row + drow, col + dcol)] = move
    return steps


def steps_of(space):
    """Map every step (from, to) that the moves of a space allow to the number of its move."""
    cols = space.grid_map.cols
    return {(divmod(cell, cols), divmod(cell + int(space.offsets[move]), cols)): move
            for cell, bits in enumerate(space.moves.tolist())
            for move in range(8) if bits >> move & 1}


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_random_spaces_equal_naive_loops(seed):
    rng = np.random.default_rng(seed)
    grid_map = random_map(rng, 9)
    config = random_config(rng, grid_map.resolution, None)
    annotations = random_annotations(rng, grid_map)
    space = BaseSpace(grid_map, config, annotations)
    free = naive_free(grid_map, config, keep_out_mask(grid_map, annotations))
    np.testing.assert_array_equal(space.free, free)
    forbidden = one_way_forbidden(grid_map, annotations.one_way)
    assert steps_of(space) == naive_moves(free, config.connectivity, forbidden)
    weight = naive_weight(grid_map, config, annotations)
    np.testing.assert_allclose(np.ones(free.shape) if space.weight is None else space.weight,
                               weight, rtol=1e-12)


def naive_weight(grid_map, config, annotations):
    weight = weight_field(grid_map, annotations)
    occupied = np.argwhere(grid_map.data >= config.occupied_threshold)
    if not config.clearance_distance or not len(occupied):
        return weight
    for cell in product(range(grid_map.rows), range(grid_map.cols)):
        away = min(math.dist(cell, other) for other in occupied) * grid_map.resolution
        share = max(0.0, 1 - away / config.clearance_distance)
        weight[cell] *= 1 + (config.clearance_weight - 1) * share
    return weight


@pytest.mark.parametrize('radius, expected', [
    (0.0, ['.....', '.....', '..#..', '.....', '.....']),
    (0.0999, ['.....', '.....', '..#..', '.....', '.....']),
    (0.1, ['.....', '..#..', '.###.', '..#..', '.....']),
    (0.1 * math.sqrt(2), ['.....', '.###.', '.###.', '.###.', '.....']),
    (0.2, ['..#..', '.###.', '#####', '.###.', '..#..'])])
def test_a_centre_at_exactly_the_radius_is_blocked(radius, expected):
    text = '..... ..... ..#.. ..... .....'
    assert sketch(drawn(text, resolution=0.1, robot_radius=radius)) == expected


@pytest.mark.parametrize('resolution', [0.05, 0.1, 0.3, 1 / 3])
@pytest.mark.parametrize('cells', [1, 2, 3, 5, 7])
def test_radius_of_whole_cells_whatever_its_rounding(resolution, cells):
    space = drawn('#' + '.' * 9, resolution=resolution, robot_radius=cells * resolution)
    assert sketch(space) == ['#' * (cells + 1) + '.' * (9 - cells)]


def test_unknown_and_border_do_not_inflate():
    text = '...... ?..... ......'
    assert sketch(drawn(text, robot_radius=2.0)) == ['......', '#.....', '......']
    assert sketch(drawn(text, robot_radius=2.0, unknown_is_free=True)) == ['......'] * 3


def test_occupied_threshold():
    grid_map = OccupancyMap(np.array([[0, 64, 65, 100]]), 1.0)
    assert BaseSpace(grid_map).free.tolist() == [[True, True, False, False]]
    assert BaseSpace(grid_map, Config(occupied_threshold=64)).free.tolist() == [
        [True, False, False, False]]


def test_no_corner_is_cut():
    space = drawn('.# ..')
    assert ((0, 0), (1, 1)) not in steps_of(space)
    assert steps_of(space) == {((0, 0), (0, 1)): 0, ((0, 1), (0, 0)): 2,
                               ((0, 0), (1, 0)): 1, ((1, 0), (0, 0)): 3}


def test_connectivity():
    assert len(steps_of(drawn('... ... ...', connectivity=4))) == 24
    assert len(steps_of(drawn('... ... ...'))) == 40


def test_step_cost_is_length_times_mean_weight():
    area = ((1.0, 0.0), (2.0, 0.0), (2.0, 1.0), (1.0, 1.0))
    grid_map = OccupancyMap(np.zeros((1, 3), dtype=int), 0.5)
    space = BaseSpace(grid_map, annotations=Annotations(weights=((area, 3.0),)))
    assert space.weight.tolist() == [[1.0, 1.0, 3.0]]
    assert [step_cost(grid_of(space), cell, 0) for cell in (0, 1)] == [1.0, 2.0]


def test_plain_spaces_hold_no_weights():
    assert drawn('...').weight is None
    assert drawn('#..', clearance_distance=5.0).weight is None
    assert drawn('#..', clearance_weight=5.0).weight is None


def test_clearance_falls_to_one_at_its_distance():
    space = drawn('#.....', clearance_distance=4.0, clearance_weight=5.0)
    np.testing.assert_allclose(space.weight, [[5, 4, 3, 2, 1, 1]], rtol=1e-12)


def test_clearance_without_obstacles_changes_nothing():
    space = drawn('..', clearance_distance=4.0, clearance_weight=5.0)
    assert space.weight.tolist() == [[1.0, 1.0]]


def test_clearance_multiplies_weights():
    area = ((0.0, 0.0), (9.0, 0.0), (9.0, 9.0), (0.0, 9.0))
    grid_map = OccupancyMap(np.array([[100, 0, 0]]), 1.0)
    space = BaseSpace(grid_map, Config(clearance_distance=2.0, clearance_weight=3.0),
                      Annotations(weights=((area, 2.0),)))
    np.testing.assert_allclose(space.weight, [[6, 4, 2]], rtol=1e-12)


def test_keep_out_blocks_and_does_not_inflate():
    area = ((2.0, 0.0), (3.0, 0.0), (3.0, 1.0), (2.0, 1.0))
    space = BaseSpace(OccupancyMap(np.zeros((1, 5), dtype=int), 1.0), Config(robot_radius=1.0),
                      Annotations(keep_out=(area,)))
    assert sketch(space) == ['..#..']


def test_one_way_line_is_crossed_from_left_to_right():
    # Walking north, left is west: the step east is possible, the step west is not.
    line = ((1.0, -1.0), (1.0, 9.0))
    space = BaseSpace(OccupancyMap(np.zeros((1, 2), dtype=int), 1.0),
                      annotations=Annotations(one_way=(line,)))
    assert steps_of(space) == {((0, 0), (0, 1)): 0}


def test_origin_with_yaw():
    space = drawn('... ...', resolution=0.5, origin=(10.0, 20.0, math.pi / 2))
    np.testing.assert_allclose(space.centres(np.array([0, 2, 3])),
                               [[9.75, 20.25], [9.75, 21.25], [9.25, 20.25]], atol=1e-12)
    assert space.start_cell((9.25, 21.25)) == 5


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_start_cell_of_a_centre_is_its_cell(seed):
    rng = np.random.default_rng(seed)
    data = np.zeros((int(rng.integers(1, 6)), int(rng.integers(1, 6))), dtype=int)
    space = BaseSpace(OccupancyMap(data, float(rng.uniform(0.01, 2)),
                                   tuple(rng.uniform(-4, 4, 3).tolist())))
    cells = np.arange(data.size)
    centres = space.centres(cells).tolist()
    assert [space.start_cell((x, y)) for x, y in centres] == cells.tolist()
    assert type(space.start_cell(tuple(centres[0]))) is int


@pytest.mark.parametrize('start, reason', [
    ((-0.1, 0.5), 'start (-0.1, 0.5) is outside the map'),
    ((2.0, 0.5), 'start (2, 0.5) is outside the map'),
    ((math.nan, 0.5), 'start (nan, 0.5) is outside the map'),
    ((math.inf, 0.5), 'start (inf, 0.5) is outside the map'),
    ((1.5, 0.5), 'start (1.5, 0.5) is in a blocked cell')])
def test_start_errors(start, reason):
    with pytest.raises(StartError) as caught:
        drawn('.#').start_cell(start)
    assert caught.value.message == reason


def test_from_file_reads_map_and_annotations(tmp_path):
    OccupancyMap(np.array([[0, 0, 100]]), 1.0).save(tmp_path / 'm.yaml')
    notes = tmp_path / 'notes.yaml'
    notes.write_text('keep_out: [[[0, 0], [1, 0], [1, 1], [0, 1]]]')
    assert BaseSpace.from_file(tmp_path / 'm.yaml').free.tolist() == [[True, True, False]]
    space = BaseSpace.from_file(tmp_path / 'm.yaml', annotations_file=str(notes))
    assert space.free.tolist() == [[False, True, False]]
    with pytest.raises(ConfigError, match="unknown setting 'robot_radios'; did you mean 'robot_r"):
        BaseSpace.from_file(tmp_path / 'm.yaml', robot_radios=1.0)
    with pytest.raises(AnnotationsError):
        BaseSpace.from_file(tmp_path / 'm.yaml', annotations_file=str(tmp_path / 'none.yaml'))


def test_arrays_are_read_only():
    space = drawn('#.', clearance_distance=2.0, clearance_weight=2.0)
    for array in (space.free, space.weight, space.moves):
        with pytest.raises(ValueError, match='read-only'):
            array[0] = 0


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_nearest_free_cell(seed):
    """Nearest between centres; ties go to the lowest row, then to the lowest column."""
    rng = np.random.default_rng(seed)
    space = BaseSpace(OccupancyMap(np.where(rng.random((9, 8)) < 0.9, 100, 0), 0.25))
    cells = rng.choice(72, int(rng.integers(1, 4)), replace=False)
    radius = 0.25 * float(rng.choice([0.5, 1, math.sqrt(2), 2, 3, math.sqrt(13), 1e6]))
    found = [(min(math.dist(divmod(int(cell), 8), divmod(int(other), 8)) for cell in cells) / 4,
              int(other)) for other in np.flatnonzero(space.free)]
    distance, cell = min(found, default=(math.inf, -1))
    expected = (cell, distance) if distance <= radius + 1e-9 else None
    assert space.nearest_free(cells, radius) == expected


def test_a_start_in_a_blocked_cell_leaves_through_the_nearest_free_one():
    space = drawn('##. #.. ###')
    assert space.start_cell((0.5, 0.5), tolerance=1.5) == 4
    assert space.start_cell((1.5, 2.5), tolerance=1.0) == 4
    with pytest.raises(StartError, match='blocked'):
        space.start_cell((0.5, 0.5), tolerance=1.4)
    with pytest.raises(StartError, match='outside'):
        space.start_cell((-0.5, 0.5), tolerance=9.0)


def test_weights_that_would_drown_a_step():
    area = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
    grid_map = OccupancyMap(np.array([[0, 0]]), 1.0)
    BaseSpace(grid_map, annotations=Annotations(weights=((area, 1e9),)))
    with pytest.raises(InputError, match=r'weights: .* at most 1e\+09, got 2e\+09'):
        BaseSpace(grid_map, annotations=Annotations(weights=((area, 2e9),)))


def test_a_map_larger_than_allowed_is_refused_wherever_it_comes_from():
    grid_map = OccupancyMap(np.zeros((3, 4), dtype=np.int8), 1.0)
    assert BaseSpace(grid_map, Config(max_map_cells=12)).free.size == 12
    with pytest.raises(MapError, match='the map has 12 cells; at most max_map_cells 11'):
        BaseSpace(grid_map, Config(max_map_cells=11))
