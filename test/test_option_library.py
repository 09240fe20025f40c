"""The library of options: what it keeps, forgets, repairs and takes from an ensemble."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from test_base_space import drawn, SEEDS
from test_grid_shortest_path import edges, random_grid, reference

from gk_planner import BaseSpace, Config, option_library
from gk_planner.annotations import Annotations
from gk_planner.errors import EnsembleError, NotConvergedError
from gk_planner.grid_desirability import log_desirability
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.option_library import OptionLibrary
from gk_planner.precompute import precompute


def count_solutions(monkeypatch):
    solved = []
    real = option_library.solve_option

    def counted(grid, space, target, **keywords):
        solved.append(target)
        return real(grid, space, target, **keywords)

    monkeypatch.setattr(option_library, 'solve_option', counted)
    return solved


@pytest.mark.parametrize('temperature', [0.0, 1.0])
def test_library_solves_nothing_twice(monkeypatch, temperature):
    solved = count_solutions(monkeypatch)
    library = OptionLibrary(drawn('.... .##. ....', temperature=temperature))
    first = library.get([0, 3, 0])
    assert sorted(solved) == [0, 3] and [option.target for option in first] == [0, 3, 0]
    assert library.get([3, 0])[0] is first[1] and len(solved) == 2
    assert [option.target for option in library.complete()] == [0, 1, 2, 3, 4, 7, 8, 9, 10, 11]
    assert len(solved) == len(library) == 10
    walls = np.array([3, 8])
    assert library.avoiding(walls, [3])[0] is library.avoiding(walls.copy(), [3])[0]
    assert library.inside(walls, [3])[0] is library.inside(walls, [3])[0]
    library.avoiding(np.array([3]), [3])
    assert len(solved) == len(library) == 13


def test_complete_ensemble_is_all_pairs_shortest_paths():
    space = drawn('.....# ..#... .#.... .....#')
    library = OptionLibrary(space)
    free = np.flatnonzero(space.free)
    table = np.column_stack([option.values(free) for option in library.complete()])
    expected = np.column_stack([reference(library.grid, target)[free] for target in free])
    np.testing.assert_allclose(table, expected, rtol=1e-9)
    np.testing.assert_allclose(table, table.T, rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from([0.0, 1.0, 50.0]))
def test_avoiding_walls(seed, temperature):
    """Walls may be left, not entered, but for the target."""
    rng = np.random.default_rng(seed)
    _, space = random_grid(rng, max_side=8)
    config = Config(temperature=temperature, connectivity=space.config.connectivity)
    library = OptionLibrary(BaseSpace(space.grid_map, config, space.annotations))
    free = np.flatnonzero(space.free)
    if free.size < 2:
        return
    walls = np.sort(rng.choice(free, int(rng.integers(1, free.size)), replace=False))
    targets = rng.choice(walls, min(3, walls.size), replace=False)
    for option in library.avoiding(walls, targets):
        source, end, move, _ = edges(library.grid)
        allowed = ~np.isin(end, walls) | (end == option.target)
        moves = np.zeros_like(library.grid.moves)
        np.bitwise_or.at(moves, source[allowed], (1 << move[allowed]).astype(np.uint8))
        np.testing.assert_array_equal(option.grid.moves, moves)
        assert option.ends_on_entry
        for cell in free.tolist():
            entered = option.path(cell)[1:]
            assert not np.isin(entered[:-1], walls).any()
            assert entered.size == 0 or entered[-1] == option.target


def test_inside_a_set_of_cells():
    library = OptionLibrary(drawn('..... ..... .....'))
    ring = np.array([0, 1, 2, 3, 4, 5, 9, 10, 14])
    option = library.inside(ring, [10])[0]
    # A diagonal step needs the cells beside it free, not inside.
    assert option.path(14).tolist() == [14, 9, 3, 2, 1, 5, 10]
    assert not option.is_feasible(7) and not option.is_feasible(12)
    np.testing.assert_allclose(option.values(np.array([14, 7])), [4 + 8**0.5, np.inf])


def test_one_way_floor():
    cliff = ((2.0, -1.0), (2.0, 2.0))
    space = BaseSpace(OccupancyMap(np.zeros((1, 4), dtype=int), 1.0),
                      annotations=Annotations(one_way=(cliff,)))
    down, up = OptionLibrary(space).get([3, 0])
    assert down.path(0).tolist() == [0, 1, 2, 3] and down.is_feasible(0)
    assert [up.is_feasible(cell) for cell in range(4)] == [True, True, False, False]


def test_iterations_are_bounded_by_the_configuration():
    space = drawn(' '.join(['.' * 20] * 20), temperature=100.0, max_iterations=1)
    with pytest.raises(NotConvergedError, match='temperature 100'):
        OptionLibrary(space).get([0])


def test_library_forgets_what_was_not_used_for_longest(monkeypatch):
    solved = count_solutions(monkeypatch)
    space = drawn(' '.join(['.' * 1000] * 400), option_memory=1)
    library = OptionLibrary(space)
    first, second = library.get([0, 1])
    assert library.nbytes == first.nbytes + second.nbytes == 800_000
    library.get([0])
    library.get([2])
    assert len(library) == 2 and library.nbytes == 800_000
    assert library.get([0])[0] is first and sorted(solved) == [0, 1, 2]
    assert library.get([1])[0] is not second and len(solved) == 4


def test_one_call_may_need_more_than_the_budget(monkeypatch):
    solved = count_solutions(monkeypatch)
    library = OptionLibrary(drawn('....', option_memory=0))
    found = library.get([3, 1, 3])
    assert [option.target for option in found] == [3, 1, 3] and found[0] is found[2]
    assert found[0].path(0).tolist() == [0, 1, 2, 3]
    assert len(library) == library.nbytes == 0 and sorted(solved) == [1, 3]


def test_contact_options_count_their_floor():
    library = OptionLibrary(drawn('....'))
    option = library.avoiding(np.array([1, 3]), [3])[0]
    assert library.nbytes == option.nbytes == 8


@pytest.mark.parametrize('temperature', [0.0, 0.01, 1.0, 100.0])
def test_at_most_six_bytes_a_cell(temperature):
    space = drawn(' '.join(['.' * 30] * 30), temperature=temperature)
    library = OptionLibrary(space)
    assert library.get([17])[0].nbytes == library.nbytes <= 6 * 900


@pytest.mark.parametrize('temperature', [0.01, 1.0, 100.0])
def test_packed_log_z(temperature):
    space = drawn(' '.join(['.' * 40] * 40), temperature=temperature)
    option = OptionLibrary(space).get([17])[0]
    exact = log_desirability(option.grid, 17, n_actions=10, temperature=temperature)
    np.testing.assert_allclose(option.log_z[np.arange(1600)], exact, rtol=0, atol=1e-8)


def floor(rows, cols, blocked=()):
    data = np.zeros((rows, cols), dtype=np.int8)
    for row, col in blocked:
        data[row, col] = 100
    return data


def test_a_library_takes_over_what_a_small_change_leaves(monkeypatch):
    solved = count_solutions(monkeypatch)
    old = OptionLibrary(BaseSpace(OccupancyMap(floor(40, 40), 1.0)))
    old.get([5, 900])
    space = BaseSpace(OccupancyMap(floor(40, 40, [(20, 39)]), 1.0))
    new = OptionLibrary(space, former=old)
    found = new.get([5, 900, 7])
    assert sorted(solved) == [5, 7, 900]
    fresh = OptionLibrary(space).get([5, 900, 7])
    for option, expected in zip(found, fresh, strict=True):
        assert option.direction.tolist() == expected.direction.tolist()
        assert option.grid is new.grid and option.resolution == 1.0
    # One more change later, an option that was not asked for in between is still known.
    solved.clear()
    last = OptionLibrary(BaseSpace(OccupancyMap(floor(40, 40, [(0, 39)]), 1.0)),
                         former=OptionLibrary(space, former=old))
    assert last.get([5])[0].direction.tolist() == OptionLibrary(last.space).get([5])[
        0].direction.tolist()
    assert solved == [5], 'only the one to compare with'


@pytest.mark.parametrize('settings', [
    {}, {'clearance_distance': 2.0, 'clearance_weight': 3.0}], ids=['plain', 'weighted'])
def test_options_of_former_maps_and_their_grids_share_the_budget(settings):
    library, config = None, Config(option_memory=1, **settings)
    for change in range(15):
        space = BaseSpace(OccupancyMap(floor(200, 200, [(100, change)]), 1.0), config)
        library = OptionLibrary(space, former=library)
        library.get([change])
        grids = {id(option.grid.moves): option.grid for option in library._former.values()}
        n_bytes = (library.nbytes + sum(option.nbytes for option in library._former.values())
                   + sum(grid.moves.nbytes + grid.weight.nbytes for grid in grids.values()))
        assert n_bytes <= 1_000_000
    # The last ones are still known: 40 kB each, and 40 or 360 kB for the grid of each.
    assert list(library._former) == list(range(14))[-12 if not settings else -2:]


@pytest.mark.parametrize(('data', 'settings'), [
    (floor(40, 41), {}), (floor(40, 40), {'connectivity': 4}),
    (floor(40, 40), {'temperature': 1.0}), (floor(40, 40, [(row, 20) for row in range(39)]), {})])
def test_what_cannot_be_repaired_is_solved(monkeypatch, data, settings):
    old = OptionLibrary(BaseSpace(OccupancyMap(floor(40, 40), 1.0)))
    old.get([5])
    space = BaseSpace(OccupancyMap(data, 1.0), Config(**settings))
    solved = count_solutions(monkeypatch)
    option = OptionLibrary(space, former=old).get([5])[0]
    assert solved == [5]
    assert option.direction.tolist() == OptionLibrary(space).get([5])[0].direction.tolist()


@pytest.mark.parametrize('temperature', [0.0, 1.0])
def test_an_ensemble_is_looked_up(monkeypatch, tmp_path, temperature):
    lines, file = '.... .##. ....', str(tmp_path / 'all')
    precompute(drawn(lines, temperature=temperature), file)
    solved = count_solutions(monkeypatch)
    library = OptionLibrary(drawn(lines, temperature=temperature, ensemble_file=file))
    assert library.warnings == ()
    for option in library.complete():
        known = OptionLibrary(drawn(lines, temperature=temperature)).get([option.target])[0]
        free = np.flatnonzero(library.space.free)
        np.testing.assert_allclose(option.values(free), known.values(free))
        assert option.path(0).tolist() == known.path(0).tolist()
    assert library.nbytes == len(library) == 0 and len(solved) == 10, 'those to compare with'


def test_cells_beside_the_ensemble_are_solved(monkeypatch, tmp_path):
    precompute(drawn('.....'), tmp_path / 'some', [0, 3])
    solved = count_solutions(monkeypatch)
    library = OptionLibrary(drawn('.....', ensemble_file=str(tmp_path / 'some')))
    assert [option.target for option in library.get([3, 4, 0, 3])] == [3, 4, 0, 3]
    assert solved == [4] and len(library) == 1
    walls = np.array([0, 3])
    assert library.avoiding(walls, [3])[0].ends_on_entry and solved == [4, 3]


def test_an_ensemble_of_a_similar_map_is_repaired(monkeypatch, tmp_path):
    before = BaseSpace(OccupancyMap(floor(40, 40), 1.0))
    precompute(before, tmp_path / 'all', [5, 900])
    after = BaseSpace(OccupancyMap(floor(40, 40, [(20, 39)]), 1.0),
                      Config(ensemble_file=str(tmp_path / 'all')))
    expected = OptionLibrary(BaseSpace(after.grid_map)).get([5, 900])
    solved = count_solutions(monkeypatch)
    library = OptionLibrary(after)
    assert 'made for another map' in library.warnings[0]
    for option, other in zip(library.get([5, 900]), expected, strict=True):
        assert option.direction.tolist() == other.direction.tolist()
        assert option.grid is library.grid
    assert not solved


@pytest.mark.parametrize(('lines', 'settings'), [
    ('..... .....', {}), ('....', {'connectivity': 4}), ('....', {'temperature': 1.0})])
def test_an_ensemble_of_another_world_is_left_alone(monkeypatch, tmp_path, lines, settings):
    precompute(drawn('....'), tmp_path / 'all')
    library = OptionLibrary(drawn(lines, ensemble_file=str(tmp_path / 'all'), **settings))
    solved = count_solutions(monkeypatch)
    assert library.get([2])[0].path(0).tolist() == [0, 1, 2]
    assert solved == [2] and 'options are solved here' in library.warnings[0]


def test_an_ensemble_that_cannot_be_read(tmp_path):
    with pytest.raises(EnsembleError, match='gone: cannot be read: No such file'):
        OptionLibrary(drawn('....', ensemble_file=str(tmp_path / 'gone')))
