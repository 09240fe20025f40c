"""Rows of a whole plan: from nothing, after a regrounding, after a change of the map."""

from collections.abc import Callable, Iterator
import itertools

from comparison import (
    compare,
    Limit,
    median_ms,
    nine_goal_task,
    random_map,
    random_places,
    Row,
)
import numpy as np
import product_space

from gk_planner import BaseSpace, Planner
from gk_planner.occupancy_map import OccupancyMap

Point = tuple[float, float]


def rows() -> Iterator[Row]:
    """Nine goals on 400 x 400 cells; the others plan from nothing."""
    small = random_map(40, 5)
    start, *places = random_places(small, 7, 5)
    task = nine_goal_task(places)
    plan = Planner(BaseSpace(small)).plan(task, start)
    np.testing.assert_allclose(product_space.solve(BaseSpace(small), task, start), plan.cost,
                               rtol=1e-6)
    yield compare('whole plan, 40 x 40 cells, 6 goals', 'full product space, scipy dijkstra',
                  lambda: product_space.solve(BaseSpace(small), task, start),
                  lambda: Planner(BaseSpace(small)).plan(task, start), repeats=3)

    grid_map, start, places, move = _moved_object()
    task = nine_goal_task(places[:9])
    known = itertools.cycle(places[9:11])
    new = iter(places[11:])

    def anew() -> object:
        return Planner(BaseSpace(grid_map)).plan(task, start)

    work = 'plan again, 400 x 400 cells, 9 goals'
    yield compare(f'{work}: to a known site', 'planning anew', anew, lambda: move(next(known)),
                  target=1)
    yield compare(f'{work}: to a new site', 'planning anew', anew, lambda: move(next(new)),
                  target=1, remark='one option more')

    data = grid_map.data.copy()
    row, col = grid_map.cell_of(*places[12])
    data[row:row + 6, col:col + 6] = 100
    changed = OccupancyMap(data, grid_map.resolution)
    if any(not changed.data[changed.cell_of(*place)] == 0 for place in (start, *places[:9])):
        raise ValueError('the box stands on a site')
    planner = Planner(BaseSpace(grid_map))
    planner.plan(task, start)
    space = BaseSpace(changed)

    def repaired() -> float:
        return Planner(space, former=planner).plan(task, start).cost

    def solved() -> float:
        return Planner(space).plan(task, start).cost

    assert repaired() == solved()
    yield compare('plan after a box of 6 x 6 cells appeared, 400 x 400, 9 goals',
                  'all options solved again', solved, repaired)


def limits() -> Iterator[Limit]:
    """How soon there is a plan when an object has moved to a place where it was before."""
    _, _, places, move = _moved_object()
    known = itertools.cycle(places[9:11])
    yield Limit('plan again, 400 x 400 cells, 9 goals: to a known site',
                median_ms(lambda: move(next(known)), 21), 'ms', 5)


def _moved_object() -> tuple[OccupancyMap, Point, list[Point], Callable[[Point], object]]:
    """Return a map, a start, places, and a function that moves the fifth of nine objects.

    Those at places 9 and 10 are known.
    """
    grid_map = random_map(400, 400)
    start, *places = random_places(grid_map, 2000, 7)
    planner = Planner(BaseSpace(grid_map))
    planner.plan(nine_goal_task(places[:9]), start)

    def move(place: Point) -> object:
        return planner.reground([{'name': 's4', 'features': ['g4'], 'position': place}])

    for place in places[9:11]:
        move(place)
    return grid_map, start, places, move
