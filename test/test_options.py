"""Options: policies, values, the hitting theorem and the library."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from test_base_space import drawn, SEEDS
from test_grid_shortest_path import edges, free_cell, random_grid, reference

from gk_planner import BaseSpace, Config, options
from gk_planner.annotations import Annotations
from gk_planner.errors import NotConvergedError
from gk_planner.grid_desirability import log_desirability
from gk_planner.grid_shortest_path import ARRIVED, NO_WAY
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.option_kernel import absorbing_kernel
from gk_planner.options import grid_of, OptionLibrary, solve_option

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


def count_solutions(monkeypatch):
    solved = []
    real = options.solve_option

    def counted(grid, space, target, **keywords):
        solved.append(target)
        return real(grid, space, target, **keywords)

    monkeypatch.setattr(options, 'solve_option', counted)
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
    np.testing.assert_allclose(option.log_z[cells_of(option)], exact, rtol=0, atol=1e-8)


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
