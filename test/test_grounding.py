"""Sites on the cells of a map: points, regions, snapping, and the nodes of the goals."""

import dataclasses
from itertools import product
import math

from hypothesis import given, settings
import numpy as np
import pytest
from random_worlds import random_world
import shapely
from test_base_space import drawn, SEEDS, steps_of

from gk_planner import BaseSpace, Planner, Task
from gk_planner.annotations import Annotations
from gk_planner.errors import InfeasibleError, StartError, TaskError
from gk_planner.grounding import ground

ROOM = ' '.join(['......'] * 5)
SQUARE = [[1, 1], [4, 1], [4, 4], [1, 4]]


def task_of(*sites, **fields):
    """Sites as (name, feature, place); a place is a point, a polygon or None."""
    listed = []
    for name, feature, place in sites:
        site = {'name': name, 'features': [feature]}
        if place is not None:
            site['region' if isinstance(place[0], list) else 'position'] = list(place)
        listed.append(site)
    return Task.from_dict({'sites': listed, **fields})


def placed(space, *sites, start=(0.5, 0.5), **fields):
    return ground(task_of(*sites, **fields), space, start)


def cells_of(space, array):
    """Cells as (row, col)."""
    return [divmod(cell, space.grid_map.cols) for cell in array.tolist()]


def naive_cells(site, space):
    """The cells of a site by the sentences of the contract."""
    grid_map = space.grid_map
    cells = list(product(range(grid_map.rows), range(grid_map.cols)))
    if site.region:
        area = shapely.Polygon(site.region)
        own = [cell for cell in cells
               if area.distance(shapely.Point(grid_map.centre_of(*cell))) < 1e-9]
        spot = area.representative_point()
        own = own or [grid_map.cell_of(spot.x, spot.y)]
    else:
        own = [grid_map.cell_of(*site.position)]
    if any(space.free[cell] for cell in own):
        return [cell for cell in own if space.free[cell]]
    near = min(((min(math.dist(cell, other) for other in own), cell)
                for cell in cells if space.free[cell]), default=(math.inf, None))
    radius = space.config.snap_radius
    return [near[1]] if radius and near[0] * grid_map.resolution <= radius + 1e-9 else []


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_sites_equal_naive_loops(seed):
    world = random_world(seed)
    space = BaseSpace(world.grid_map, world.config, world.annotations)
    grounding = ground(world.task, space, world.start)
    for site, found in zip(world.task.sites, grounding.site_cells, strict=True):
        assert cells_of(space, found) == naive_cells(site, space)
    for goal, found in enumerate(grounding.goal_cells):
        sites = [grounding.site_cells[site] for site in world.task.goal_sites(goal)]
        assert set(found.tolist()) == {cell for cells in sites for cell in cells.tolist()}


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_nodes_equal_naive_loops(seed):
    """Entering cells, and what lies inside a region: the start and entering cells of others."""
    world = random_world(seed, trigger='action')
    space = BaseSpace(world.grid_map, world.config, world.annotations)
    task, grounding = world.task, ground(world.task, space, world.start)
    moving = [set(cells_of(space, cells)) if goal not in task.done - task.reversible else set()
              for goal, cells in enumerate(grounding.goal_cells)]
    marked = {divmod(grounding.start_cell, space.grid_map.cols)}
    for cells in moving:
        marked |= {end for start, end in steps_of(space) if end in cells and start not in cells}
        marked |= cells if len(cells) == 1 else set()
    assert [cells_of(space, cells) for cells in grounding.nodes] == [
        sorted(cells & marked) for cells in moving]


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_contact_nodes_equal_naive_loops(seed):
    """Cells that are entered or left, those next to a start inside; all of a reversible goal."""
    world = random_world(seed, trigger='contact')
    space = BaseSpace(world.grid_map, world.config, world.annotations)
    task, grounding = world.task, ground(world.task, space, world.start)
    here = divmod(grounding.start_cell, space.grid_map.cols)
    for goal, found in enumerate(grounding.nodes):
        cells = set(cells_of(space, grounding.goal_cells[goal]))
        steps = steps_of(space)
        nodes = {end for start, end in steps if end in cells and start not in cells}
        nodes |= {start for start, end in steps if start in cells and end not in cells}
        nodes |= {end for start, end in steps if start == here and {start, end} <= cells}
        if goal in task.reversible or len(cells) == 1:
            nodes = cells
        if goal in task.done - task.reversible:
            nodes = set()
        assert cells_of(space, found) == sorted(nodes)
    walls = {cell for goal, cells in enumerate(grounding.goal_cells) for cell in cells.tolist()
             if goal not in task.done - task.reversible}
    assert grounding.walls.tolist() == sorted(walls)


def test_point_and_region():
    space = drawn(ROOM)
    grounding = placed(space, ('a', 'a', (2.9, 3.1)), ('b', 'b', SQUARE))
    assert cells_of(space, grounding.site_cells[0]) == [(3, 2)]
    assert cells_of(space, grounding.site_cells[1]) == list(product((1, 2, 3), (1, 2, 3)))
    assert grounding.start_cell == 0 and grounding.warnings == ()


def test_centres_on_the_border_count():
    space = drawn(ROOM)
    region = [[1.5, 1.5], [3.5, 1.5], [3.5, 2.5], [1.5, 2.5]]
    cells = placed(space, ('a', 'a', region)).site_cells[0]
    assert cells_of(space, cells) == list(product((1, 2), (1, 2, 3)))


def test_representative_point_of_a_region_between_centres():
    space = drawn(ROOM)
    cells = placed(space, ('a', 'a', [[2.6, 3.6], [2.9, 3.6], [2.75, 3.9]])).site_cells[0]
    assert cells_of(space, cells) == [(3, 2)]


def test_blocked_cells_of_a_region_do_not_count():
    space = drawn('...... .#.... ..#... ...... ......')
    cells = placed(space, ('a', 'a', SQUARE)).site_cells[0]
    assert cells_of(space, cells) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 3), (3, 2), (3, 3)]


def test_entering_cells_suffice():
    space = drawn(ROOM)
    ring = [cell for cell in product((1, 2, 3), (1, 2, 3)) if cell != (2, 2)]
    assert cells_of(space, placed(space, ('a', 'a', SQUARE)).nodes[0]) == ring
    assert placed(space, ('a', 'a', SQUARE), done=['a'], formula='!a').nodes[0].size == 0


def test_a_cell_that_is_only_left_is_no_entering_cell():
    """Two lines crossed eastwards only: the region is entered in the west and left in the east."""
    lines = tuple(((x, -1.0), (x, 2.0)) for x in (1.0, 4.0))
    space = BaseSpace(drawn('.....').grid_map, annotations=Annotations(one_way=lines))
    region = ('a', 'a', [[1, 0], [4, 0], [4, 1], [1, 1]])
    assert placed(space, region).nodes[0].tolist() == [1]
    assert placed(space, region, trigger='contact').nodes[0].tolist() == [1, 3]
    assert placed(space, region, start=(4.5, 0.5)).nodes[0].tolist() == [1]


def test_region_at_the_edge_is_entered_from_the_floor_only():
    space = drawn(ROOM)
    nodes = placed(space, ('a', 'a', [[0, 0], [3, 0], [3, 3], [0, 3]]), start=(5.5, 4.5)).nodes[0]
    assert cells_of(space, nodes) == [(0, 2), (1, 2), (2, 0), (2, 1), (2, 2)]


def test_start_and_other_sites_inside_a_region():
    space = drawn(ROOM)
    inside = placed(space, ('a', 'a', SQUARE), start=(2.5, 2.5))
    assert (2, 2) in cells_of(space, inside.nodes[0])
    other = placed(space, ('a', 'a', SQUARE), ('b', 'b', (2.5, 2.5)))
    assert (2, 2) in cells_of(space, other.nodes[0])
    same = placed(space, ('a', 'a', SQUARE), ('b', 'a', (2.5, 2.5)))
    assert (2, 2) not in cells_of(space, same.nodes[0])


def test_first_site_that_covers_a_cell():
    space = drawn(ROOM)
    grounding = placed(space, ('x', 'x', (0.5, 0.5)), ('a', 'a', SQUARE), ('b', 'a', (1.5, 1.5)))
    assert grounding.site_at(1, 7) == 1
    assert grounding.site_at(0, 0) == 0


@pytest.mark.parametrize('text, radius, expected', [
    ('... .#. ...', 1.0, (0, 1)),    # four at distance 1: the lowest row
    ('##. .#. ###', 1.0, (1, 0)),    # west and east: the lowest column
    ('.#. ### .#.', 1.5, (0, 0)),    # four corners: lowest row, then column
    ('.## ### ###', 1.5, (2, 0)),
    ('.## ### ###', 1.4, None), ('### .#. ###', 0.0, None), ('### ### ###', 9.0, None)])
def test_snapping(text, radius, expected):
    space = drawn(text, snap_radius=radius)
    task = task_of(('hook', 'key', (1.2, 1.9)))
    if not space.free.any():
        with pytest.raises(StartError):
            ground(task, space, (0.5, 0.5))
        return
    start = space.grid_map.centre_of(*np.argwhere(space.free)[0])
    grounding = ground(task, space, start)
    assert cells_of(space, grounding.site_cells[0]) == [expected] * (expected is not None)
    if expected is None:
        warning, = grounding.warnings
        assert warning.startswith("site 'hook' stands in a blocked cell and cannot be reached")
        assert (f'within {radius:g} m' in warning) == (radius > 0)
        return
    distance = f'{math.dist((1, 1), expected):.3g}'
    x, y = (f'{number:.3f}' for number in space.grid_map.centre_of(*expected))
    assert grounding.warnings == (
        f"site 'hook' stands in a blocked cell; moved {distance} m to ({x}, {y})",)


def test_blocked_site_is_infeasible_by_name_and_its_snap_a_warning():
    task = task_of(('hook', 'key', (2.5, 0.5)))
    with pytest.raises(InfeasibleError) as caught:
        Planner(drawn('..#')).plan(task, (0.5, 0.5))
    assert caught.value.conflicts == [{'kind': 'formula', 'name': 'key'},
                                      {'kind': 'site', 'name': 'hook'}]
    assert 'hook' in caught.value.message
    plan = Planner(drawn('..#', snap_radius=1.0)).plan(task, (0.5, 0.5))
    assert plan.cost == 1.0 and plan.waypoints == ((1.5, 0.5),)
    assert plan.warnings == ("site 'hook' stands in a blocked cell; moved 1 m to (1.500, 0.500)",)


def test_region_snaps_from_its_nearest_cell():
    space = drawn('###### ###### ...###', snap_radius=1.0)
    grounding = placed(space, ('a', 'a', [[2, 1], [5, 1], [5, 3], [2, 3]]))
    assert cells_of(space, grounding.site_cells[0]) == [(0, 2)]


@pytest.mark.parametrize('place, message', [
    ((9.5, 0.5), "task: sites[1].position: site 'far' at (9.5, 0.5) is outside the map"),
    ((0.5, -0.01), "task: sites[1].position: site 'far' at (0.5, -0.01) is outside the map"),
    ([[8, 0], [9, 0], [9, 2], [8, 2]], "task: sites[1].region: site 'far' at (8.5, 1) is outside "
     'the map'),
    (None, "task: sites[1]: site 'far' needs a position or a region on a map")])
def test_sites_without_a_place_on_the_map(place, message):
    with pytest.raises(TaskError) as caught:
        placed(drawn(ROOM, snap_radius=100.0), ('a', 'a', (0.5, 0.5)), ('far', 'b', place))
    assert caught.value.message == message


def test_region_partly_outside_the_map():
    space = drawn(ROOM)
    cells = placed(space, ('a', 'a', [[4, 3], [9, 3], [9, 9], [4, 9]])).site_cells[0]
    assert cells_of(space, cells) == [(3, 4), (3, 5), (4, 4), (4, 5)]


def test_contact_sites_share_no_cell():
    space = drawn(ROOM)
    sites = ('a', 'a', SQUARE), ('b', 'b', (2.5, 2.5))
    with pytest.raises(TaskError) as caught:
        placed(space, *sites, trigger='contact')
    assert caught.value.message == (
        "task: sites[1]: under trigger contact the sites 'a' and 'b' of different goals share the "
        'cell at (2.500, 2.500)')
    placed(space, *sites)
    placed(space, ('a', 'a', SQUARE), ('b', 'a', (2.5, 2.5)), trigger='contact')


def test_start_errors_come_first():
    with pytest.raises(StartError, match='outside the map'):
        placed(drawn(ROOM), ('a', 'a', None), start=(-1.0, 0.5))


def test_map_that_is_moved_and_turned_moves_the_cells_with_it():
    """The same world in another frame has the same cells."""
    space = drawn(ROOM)
    there = dataclasses.replace(space.grid_map, origin=(3.0, -2.0, 0.7))
    cos, sin = math.cos(0.7), math.sin(0.7)

    def moved(point):
        return [cos * point[0] - sin * point[1] + 3, sin * point[0] + cos * point[1] - 2]

    region = [[0.8, 0.9], [4.1, 1.2], [3.8, 4.1]]
    here = placed(space, ('a', 'a', (2.2, 3.4)), ('b', 'b', region))
    turned = placed(BaseSpace(there), ('a', 'a', moved((2.2, 3.4))),
                    ('b', 'b', [moved(corner) for corner in region]),
                    start=tuple(moved((0.5, 0.5))))
    assert turned.start_cell == here.start_cell
    for one, other in zip(here.site_cells, turned.site_cells, strict=True):
        assert one.size and one.tolist() == other.tolist()
