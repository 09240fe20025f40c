"""Annotations files, and their meaning on the cells of a map."""

from fractions import Fraction
from itertools import pairwise
import math

from hypothesis import example, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from gk_planner.annotations import (
    Annotations,
    keep_out_mask,
    one_way_forbidden,
    polygon_cells,
    weight_field,
)
from gk_planner.errors import AnnotationsError
from gk_planner.moves import MOVES, OPPOSITE
from gk_planner.occupancy_map import OccupancyMap

SQUARE = ((1.0, 1.0), (3.0, 1.0), (3.0, 2.0), (1.0, 2.0))
E, N, W, S, NE, NW, SW, SE = (1 << d for d in range(8))


def free_map(rows=6, cols=7, resolution=1.0, origin=(0.0, 0.0, 0.0)):
    return OccupancyMap(np.zeros((rows, cols), dtype=int), resolution, origin)


def cells(grid_map, polygon):
    rows, cols = polygon_cells(grid_map, polygon)
    return list(zip(rows.tolist(), cols.tolist(), strict=True))


def test_file(tmp_path):
    path = tmp_path / 'annotations.yaml'
    path.write_text("""
keep_out: [[[1, 1], [3, 1], [3, 2], [1, 2], [1, 1]]]
weights: [{polygon: [[1, 1], [3, 1], [3, 2], [1, 2]], factor: 3}]
one_way: [[[0, 0], [1, 0], [1, 1]]]
""")
    assert Annotations.from_file(path) == Annotations(
        (SQUARE,), ((SQUARE, 3.0),), (((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)),))


def test_all_keys_are_optional():
    assert Annotations.from_dict({}) == Annotations()


def test_lists_without_entries():
    assert Annotations.from_dict({'keep_out': None, 'weights': [], 'one_way': None}) == (
        Annotations())


@pytest.mark.parametrize('content, message', [
    ('weights: [{polygon: [[1, 1], [3, 1], [3, 2]], factor: 0.5}]',
     'weights[0].factor: must be at least 1'),
    ('weights: [{polygon: [[1, 1], [3, 1], [3, 2]], factor: .inf}]', 'weights[0].factor: must be'),
    ('weights: [{polygon: [[1, 1], [3, 1]], factor: 2}]', 'weights[0].polygon: a polygon needs'),
    ('weights: [{polygon: [[1, 1], [3, 1], [3, 2]]}]', "weights[0]: the key 'factor' is missing"),
    ('weights: [{polygn: 1, factor: 2}]', "weights[0]: unknown key 'polygn'; did you mean"),
    ('weights: [3]', 'weights[0]: expected a mapping'),
    ('weights: {}', 'weights: expected a list'),
    ('keep_out: [[[0, 0], [1, 1], [1, 0], [0, 1]]]', 'keep_out[0]: a polygon must'),
    ('keep_out: [[[0, 0], [1, x], [1, 0]]]', 'keep_out[0][1][1]: expected a number'),
    ('keep_out: 0', 'keep_out: expected a list'),
    ('one_way: [[[0, 0], [0, 0]]]', 'one_way[0][1]: equals'),
    ('one_way: [[[0, 0]]]', 'one_way[0]: a polyline needs'),
    ('oneway: []', "unknown key 'oneway'; did you mean 'one_way'?"),
    ('- 1', 'the top level must be a mapping'),
])
def test_errors_name_the_entry(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'annotations.yaml').write_text(content)
    with pytest.raises(AnnotationsError) as caught:
        Annotations.from_file('annotations.yaml')
    assert caught.value.message.startswith(f'annotations.yaml: {message}')


def test_polygon_holds_centres_inside_and_on_the_border():
    assert cells(free_map(), SQUARE) == [(1, 1), (1, 2)]
    through_centres = ((0.5, 0.5), (2.5, 0.5), (2.5, 1.5), (0.5, 1.5))
    assert cells(free_map(), through_centres) == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert cells(free_map(), through_centres[::-1]) == cells(free_map(), through_centres)


def test_border_tolerance():
    for gap, expected in ((5e-8, [(0, 0)]), (2e-7, [])):
        small = ((0.5 + gap, 0.0), (0.9, 0.0), (0.9, 1.0), (0.5 + gap, 1.0))
        assert cells(free_map(), small) == expected


def test_tip_and_notch():
    tip = ((2.5, 2.5), (2.6, 2.1), (2.7, 2.1))
    assert cells(free_map(), tip) == [(2, 2)]
    notch = ((0.0, 0.0), (5.0, 0.0), (5.0, 1.0), (2.5, 0.5), (0.0, 1.0))
    assert cells(free_map(), notch) == [(0, col) for col in range(5)]


def test_polygon_beyond_the_map():
    everything = [(row, col) for row in range(6) for col in range(7)]
    assert cells(free_map(), ((-9, -9), (99, -9), (99, 99), (-9, 99))) == everything
    assert cells(free_map(), ((-9, -9), (-8, -9), (-8, 99))) == []
    assert cells(free_map(), ((0, 50), (9, 50), (9, 60))) == []
    assert cells(free_map(), ((0.6, 0.6), (0.7, 0.6), (0.7, 0.7))) == []


def test_polygon_on_a_turned_map():
    grid_map = free_map(resolution=0.5, origin=(1.0, 2.0, math.pi / 2))
    # columns run along +y, rows along -x
    assert cells(grid_map, ((1, 2), (0.5, 2), (0.5, 3), (1, 3))) == [(0, 0), (0, 1)]


def test_masks_and_weights():
    overlap = ((2.0, 1.0), (4.0, 1.0), (4.0, 2.0), (2.0, 2.0))
    annotations = Annotations((SQUARE, overlap), ((SQUARE, 2.0), (overlap, 3.0)))
    mask = keep_out_mask(free_map(), annotations)
    assert mask.dtype == np.bool_
    assert np.argwhere(mask).tolist() == [[1, 1], [1, 2], [1, 3]]
    field = weight_field(free_map(), annotations)
    assert field.dtype == np.float64
    assert field[1].tolist() == [1, 2, 6, 3, 1, 1, 1]
    assert field.sum() == 6 * 7 + 1 + 5 + 2


def test_weights_that_overflow():
    with pytest.raises(AnnotationsError, match=r'weights\[1\]\.factor'):
        weight_field(free_map(), Annotations(weights=((SQUARE, 1e200), (SQUARE, 1e200))))


def distance_to_segment(point, start, end):
    along = ((point[0] - start[0]) * (end[0] - start[0])
             + (point[1] - start[1]) * (end[1] - start[1]))
    share = min(1, max(0, along / ((end[0] - start[0])**2 + (end[1] - start[1])**2)))
    return math.hypot(point[0] - start[0] - share * (end[0] - start[0]),
                      point[1] - start[1] - share * (end[1] - start[1]))


def holds(polygon, point):
    """Tell whether a polygon holds a point, by the parity of a ray and the nearest edge."""
    inside = False
    for (ax, ay), (bx, by) in pairwise((*polygon, polygon[0])):
        if distance_to_segment(point, (ax, ay), (bx, by)) <= 1e-7:
            return True
        if (ay > point[1]) != (by > point[1]):
            inside ^= point[0] < ax + (point[1] - ay) / (by - ay) * (bx - ax)
    return inside


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 2 * math.pi), st.integers(0, 10)), min_size=3,
                max_size=8, unique_by=lambda corner: round(corner[0], 2)))
def test_polygon_like_the_naive_reference(corners):
    # star-shaped around a point that is no centre, so the polygon never crosses itself
    polygon = tuple((3.3 + (0.3 + r / 2) * math.cos(a), 2.8 + (0.3 + r / 2) * math.sin(a))
                    for a, r in sorted(corners))
    angles = sorted(a for a, _ in corners)
    if max(b - a for a, b in pairwise((*angles, angles[0] + 2 * math.pi))) > 3:
        return
    grid_map = free_map()
    expected = [(row, col) for row in range(6) for col in range(7)
                if holds(polygon, (col + 0.5, row + 0.5))]
    assert cells(grid_map, polygon) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 16), st.integers(-2, 14)), min_size=3, max_size=3))
def test_half_cell_triangles_like_the_naive_reference(corners):
    (ax, ay), (bx, by), (cx, cy) = corners
    if (bx - ax) * (cy - ay) == (by - ay) * (cx - ax):
        return
    polygon = tuple((x / 2, y / 2) for x, y in corners)
    assert cells(free_map(), polygon) == [
        (row, col) for row in range(6) for col in range(7)
        if holds(polygon, (col + 0.5, row + 0.5))]


def forbidden(line, grid_map=None):
    return one_way_forbidden(grid_map or free_map(), [line])


def test_line_between_centres():
    # eastwards at y = 3: left is north, so row 2 may not step north, row 3 may step south
    result = forbidden(((-1.0, 3.0), (9.0, 3.0)))
    assert result.dtype == np.uint8
    assert result.tolist() == [[N | NE | NW if row == 2 else 0] * 7 for row in range(6)]
    back = forbidden(((9.0, 3.0), (-1.0, 3.0)))
    assert back.tolist() == [[S | SE | SW if row == 3 else 0] * 7 for row in range(6)]


def test_line_through_centres_counts_as_right():
    result = forbidden(((-1.0, 2.5), (9.0, 2.5)))
    assert result.tolist() == [[N | NE | NW if row == 2 else 0] * 7 for row in range(6)]
    up = forbidden(((2.5, -1.0), (2.5, 9.0)))  # left is west
    assert up.tolist() == [[W | NW | SW if col == 2 else 0 for col in range(7)]] * 6


def test_line_that_ends_in_the_map():
    result = forbidden(((2.0, 3.0), (4.0, 3.0)))
    # the diagonals through the end points (2, 3) and (4, 3) touch the line
    assert np.argwhere(result).tolist() == [[2, 1], [2, 2], [2, 3], [2, 4]]
    assert result[2, 1:5].tolist() == [NE, N | NE | NW, N | NE | NW, NW]


def test_paper_cliff_leaves_a_way_down():
    result = forbidden(((0.0, 3.0), (7.0, 3.0)))
    assert not (result[3:] & (S | SE | SW)).any()


def test_turned_map_turns_the_moves_not_the_sides():
    grid_map = free_map(origin=(0.0, 0.0, math.pi / 2))
    # eastwards at y = 3: left is +y, along growing columns
    result = forbidden(((-9.0, 3.0), (9.0, 3.0)), grid_map)
    assert result.tolist() == [[E | NE | SE if col == 2 else 0 for col in range(7)]] * 6


def test_no_lines_and_far_lines():
    assert not one_way_forbidden(free_map(), []).any()
    assert not forbidden(((50.0, 50.0), (60.0, 50.0))).any()


def naive_forbidden(rows, cols, line):
    """Test each step against each segment in exact arithmetic (half cells as units)."""
    def cross(o, a, b):
        return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])

    def touch(p, q, a, b):
        if any(max(p[i], q[i]) < min(a[i], b[i]) or max(a[i], b[i]) < min(p[i], q[i])
               for i in (0, 1)):
            return False
        return (cross(p, q, a) * cross(p, q, b) <= 0
                and cross(a, b, p) * cross(a, b, q) <= 0)

    result = [[0] * cols for _ in range(rows)]
    for row in range(rows):
        for col in range(cols):
            for move, (drow, dcol) in enumerate(MOVES):
                p = Fraction(2 * col + 1, 2), Fraction(2 * row + 1, 2)
                q = p[0] + dcol, p[1] + drow
                if any(touch(p, q, a, b) and cross(a, b, p) <= 0 < cross(a, b, q)
                       for a, b in pairwise(line)):
                    result[row][col] |= 1 << move
    return result


quarters = st.tuples(st.integers(-4, 28), st.integers(-4, 24)).map(
    lambda p: (Fraction(p[0], 4), Fraction(p[1], 4)))
sevenths = st.tuples(st.integers(-7, 49), st.integers(-7, 42)).map(
    lambda p: (Fraction(p[0], 7), Fraction(p[1], 7)))
HALF = Fraction(1, 2)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.lists(quarters, min_size=2, max_size=5),
                 st.lists(sevenths, min_size=2, max_size=5)))
@example([(HALF, HALF), (5 * HALF, HALF), (5 * HALF, 5 * HALF)])
@example([(HALF, HALF), (5 * HALF, 5 * HALF), (9 * HALF, HALF)])
@example([(Fraction(1), Fraction(1)), (Fraction(4), Fraction(4))])
def test_one_way_like_the_naive_reference(line):
    line = [line[0]] + [b for a, b in pairwise(line) if a != b]
    if len(line) < 2:
        return
    for yaw, resolution in ((0.0, 1.0), (0.7, 0.05)):
        grid_map = free_map(6, 7, resolution, (-3.0, 8.0, yaw))
        world = grid_map.to_world([[float(u), float(v)] for u, v in line]).tolist()
        assert forbidden(world, grid_map).tolist() == naive_forbidden(6, 7, line)


@settings(max_examples=50, deadline=None)
@given(st.lists(sevenths, min_size=2, max_size=2, unique=True))
def test_a_forbidden_move_may_be_made_backwards(line):
    result = forbidden([(float(u), float(v)) for u, v in line])
    for move, (drow, dcol) in enumerate(MOVES):
        for row, col in np.argwhere(result & (1 << move)).tolist():
            if 0 <= row + drow < 6 and 0 <= col + dcol < 7:
                assert not result[row + drow, col + dcol] & (1 << int(OPPOSITE[move]))


def test_several_lines_add_up():
    lines = [((-1.0, 3.0), (9.0, 3.0)), ((9.0, 3.0), (-1.0, 3.0))]
    assert one_way_forbidden(free_map(), lines).tolist() == (
        forbidden(lines[0]) | forbidden(lines[1])).tolist()


def test_large_map_is_cheap():
    grid_map = free_map(3000, 3000)
    area = ((0.0, 0.0), (3000.0, 0.0), (3000.0, 3000.0))
    rows, _ = polygon_cells(grid_map, area)
    assert rows.size == 3000 * 3001 // 2
    result = forbidden(((0.0, 0.0), (3000.0, 3000.0)), grid_map)
    assert np.count_nonzero(result) == 3000 + 2999
