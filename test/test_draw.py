"""Tests of the picture: a PNG that shows floor, walls, sites and the way, on any map."""

import time

import numpy as np
from PIL import Image
import pytest

from gk_planner import BaseSpace, Config, Planner, Task
from gk_planner.draw import draw_plan
from gk_planner.errors import InputError
from gk_planner.occupancy_map import OccupancyMap

PATH = (42, 157, 143)
WALL = (47, 54, 64)
UNKNOWN = (201, 206, 214)
FIRST_GOAL = (209, 73, 91)


@pytest.fixture
def draw(tmp_path):
    """Plan on a grid and return the picture as an array; sites are given as (row, col)."""
    def drawn(cells, sites, start, *, resolution=0.5, origin=(0, 0, 0), names=None, **fields):
        grid_map = OccupancyMap(cells, resolution, origin)
        names = names or [f'site_{index}' for index in range(len(sites))]
        task = Task.from_dict({'sites': [
            {'name': name, 'features': [f'f{index}'], 'position': list(grid_map.centre_of(*cell))}
            for index, (name, cell) in enumerate(zip(names, sites, strict=True))], **fields})
        space = BaseSpace(grid_map, Config())
        place = grid_map.centre_of(*start)
        plan = Planner(space).plan(task, place)
        draw_plan(tmp_path / 'plan.png', space, task, plan, place)
        assert [file.name for file in tmp_path.iterdir()] == ['plan.png']
        with Image.open(tmp_path / 'plan.png') as picture:
            assert picture.format == 'PNG'
            return np.asarray(picture.convert('RGB')).astype(int)
    return drawn


def share(picture, colour, tolerance=40):
    """Part of the picture that has about this colour."""
    return float((np.abs(picture - colour).max(axis=2) <= tolerance).mean())


def test_walls_way_sites_and_unknown_cells_are_there(draw):
    cells = np.zeros((20, 30), dtype=int)
    cells[5:, 10] = 100
    cells[:5, 25:] = -1
    picture = draw(cells, [(18, 2), (15, 28)], (1, 1))
    height, width, _ = picture.shape
    assert 600 < height < 2000
    assert 1000 < width < 2000
    assert share(picture, PATH) > 0.003
    assert share(picture, FIRST_GOAL) > 0.0001
    # Their share of the cells, and less of the picture because of the margin.
    assert 0.5 * 15 / 600 < share(picture, WALL, 3) < 1.2 * 15 / 600
    assert 0.5 * 25 / 600 < share(picture, UNKNOWN, 3) < 25 / 600


def test_row_zero_is_at_the_bottom_and_the_way_lies_on_it(draw):
    cells = np.zeros((10, 10), dtype=int)
    cells[8:, :] = 100
    picture = draw(cells, [(1, 8)], (1, 1))
    walls = np.argwhere(np.abs(picture - WALL).max(axis=2) <= 3)[:, 0].mean()
    way = np.argwhere(np.abs(picture - PATH).max(axis=2) <= 40)[:, 0].mean()
    assert walls < 0.3 * len(picture)
    assert way > 0.7 * len(picture)


@pytest.mark.parametrize('yaw', [0.6, -2.5, np.pi / 2])
def test_a_rotated_map(draw, yaw):
    cells = np.zeros((20, 30), dtype=int)
    cells[5:15, 10] = 100
    picture = draw(cells, [(18, 28), (10, 2)], (2, 2), origin=(3, -2, yaw))
    assert share(picture, PATH) > 0.002
    assert share(picture, WALL, 3) > 0.003
    assert share(picture, (255, 255, 255), 0) > 0.2


def test_a_rotated_map_turns_the_walls(draw):
    cells = np.zeros((20, 20), dtype=int)
    cells[:, 17] = 100
    upright = draw(cells, [(3, 3)], (10, 3))
    turned = draw(cells, [(3, 3)], (10, 3), origin=(0, 0, np.pi / 2))

    def spread(picture):
        dark = np.argwhere(np.abs(picture - WALL).max(axis=2) <= 3)
        return np.divide(*dark.std(axis=0))

    assert spread(upright) > 3
    assert spread(turned) < 1 / 3


def test_three_by_three(draw):
    picture = draw(np.zeros((3, 3), dtype=int), [(2, 2)], (0, 0))
    assert share(picture, PATH) > 0.002


@pytest.mark.parametrize('yaw', [0, 0.3])
def test_a_million_cells_soon(draw, yaw):
    cells = np.zeros((1000, 1000), dtype=int)
    cells[500, :990] = 100
    began = time.perf_counter()
    picture = draw(cells, [(990, 10)], (10, 10), resolution=0.05, origin=(0, 0, yaw))
    assert time.perf_counter() - began < 10
    assert share(picture, PATH) > 0.001
    assert share(picture, WALL, 40) > 0.0002


def test_a_thin_wall_is_seen_on_a_map_finer_than_the_picture(draw):
    cells = np.zeros((50, 6000), dtype=int)
    cells[:40, 1234] = 100
    picture = draw(cells, [(5, 3000)], (5, 100), resolution=0.05)
    assert (np.abs(picture - WALL).max(axis=2) <= 3).sum() >= 5


@pytest.mark.parametrize('shape', [(1, 400), (400, 1), (2, 3000), (1, 1)])
def test_narrow_maps(draw, shape):
    cells = np.zeros(shape, dtype=int)
    end = (shape[0] - 1, shape[1] - 1)
    picture = draw(cells, [end], (0, 0), resolution=0.05)
    height, width, _ = picture.shape
    assert min(height, width) >= 400
    assert max(height, width) <= 2000
    assert share(picture, FIRST_GOAL) > 0.0001


def test_long_names_and_many_goals_keep_the_size(draw):
    cells = np.zeros((20, 20), dtype=int)
    sites = [(row, col) for row in (0, 10, 19) for col in (0, 10, 19)]
    plain = draw(cells, sites, (5, 5))
    names = [f'a_very_long_name_of_a_site_{index}_' + 'x' * 150 for index in range(9)]
    long = draw(cells, sites, (5, 5), names=names)
    assert long.shape == plain.shape
    # The map itself is not squeezed by the names.
    assert share(long, (255, 255, 255), 0) > 0.8 * share(plain, (255, 255, 255), 0)


def test_regions_one_way_lines_and_an_empty_plan(tmp_path):
    (tmp_path / 'notes.yaml').write_text('one_way: [[[0, 2.1], [5, 2.1]]]\n')
    space = BaseSpace(OccupancyMap(np.zeros((10, 10), dtype=int), 0.5),
                      Config(annotations_file=str(tmp_path / 'notes.yaml')))
    task = Task.from_dict({'sites': [{'name': 'room', 'features': ['a'],
                                      'region': [[1, 1], [2, 1], [2, 2], [1, 2]]}],
                           'done': ['a']})
    plan = Planner(space).plan(task, (0.2, 0.2))
    assert plan.options == ()
    file = tmp_path / 'plan.png'
    draw_plan(file, space, task, plan, (0.2, 0.2))
    with Image.open(file) as opened:
        picture = np.asarray(opened.convert('RGB')).astype(int)
    assert share(picture, (181, 23, 158)) > 0.0005
    assert share(picture, (239, 192, 198), 6) > 0.01


def test_a_directory_is_not_replaced(tmp_path):
    space = BaseSpace(OccupancyMap(np.zeros((3, 3), dtype=int), 1.0))
    task = Task.from_dict({'sites': [{'name': 's', 'features': ['a'], 'position': [2, 2]}]})
    plan = Planner(space).plan(task, (0.5, 0.5))
    with pytest.raises(InputError, match=r'cannot write the picture: .*no regular file'):
        draw_plan(tmp_path, space, task, plan)
    assert list(tmp_path.iterdir()) == []
