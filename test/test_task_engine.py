"""The engine against the table and the naive solver, on tasks that both can do."""

import math
import re
import time

from hypothesis import given, settings
import hypothesis.strategies as st
import numpy as np
import pytest
from random_tasks import cheapest, cost_of, random_costs, random_task

from gk_planner import Config, solve_task, task_engine, task_solver
from gk_planner.beam_search import beam_search, least_to_come
from gk_planner.boolean_task import Task
from gk_planner.checkpoint import proceed
from gk_planner.errors import CanceledError, InfeasibleError, LimitError
from gk_planner.task_solver import legs_of_sites

pytest.importorskip('ortools', reason='the package ortools is not installed')

seeds = st.integers(0, 2**32 - 1)
# No table fits into no memory.
NO_TABLE = Config(task_memory=0)


def free_goals(n_goals, **fields):
    return Task.from_dict({
        'sites': [{'name': f's{goal}', 'features': [f'g{goal}']} for goal in range(n_goals)],
        **fields})


def places(n_goals, seed=0):
    xy = np.random.default_rng(seed).random((n_goals + 1, 2)) * 10
    costs = np.hypot(*(xy[:, None] - xy).transpose(2, 0, 1))
    return costs[1:, 1:], costs[0, 1:]


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_same_optimum_as_the_naive_solver(seed):
    rng = np.random.default_rng(seed)
    task = random_task(rng, max_goals=5, reversible=False)
    site_costs, start_costs = random_costs(rng, len(task.sites), metric=bool(rng.random() < 0.7),
                                           whole=bool(rng.random() < 0.5))
    option_cost = float(rng.choice([0, 0.5]))
    config = Config(task_memory=0, option_cost=option_cost)
    expected, _ = cheapest(task, site_costs, start_costs, option_cost)
    if math.isinf(expected):
        with pytest.raises(InfeasibleError):
            solve_task(task, site_costs, start_costs, config)
        return
    found = solve_task(task, site_costs, start_costs, config)
    assert found.optimal
    assert found.policy is None
    assert math.isclose(found.cost, expected, rel_tol=1e-9, abs_tol=1e-9)
    assert found.bound == found.cost
    replayed = cost_of(task, found.sequence, site_costs, start_costs, option_cost)
    assert math.isclose(replayed, found.cost, rel_tol=1e-12, abs_tol=1e-12)


def test_a_leg_beyond_all_measure_hides_no_optimum(monkeypatch):
    monkeypatch.setattr(task_engine, '_WIDTHS', (2, 2))  # whose best way is not the optimum
    task, (between, entry) = free_goals(9), places(9, seed=4)
    between = np.where(np.random.default_rng(4).random(between.shape) < 0.3, between * 20, between)
    expected = solve_task(task, between, entry).cost
    between[0, 1] = 1e15
    found = solve_task(task, between, entry, NO_TABLE)
    assert found.optimal and math.isclose(found.cost, expected, rel_tol=1e-9)
    assert found.bound == found.cost


@settings(max_examples=200, deadline=None)
@given(seeds, st.sampled_from([1, 3, 1000]))
def test_beams_find_plans_and_never_promise_too_little(seed, width):
    rng = np.random.default_rng(seed)
    task = random_task(rng, max_goals=5, reversible=False)
    if task.is_done or not task.sites:
        return
    site_costs, start_costs = random_costs(rng, len(task.sites), metric=False)
    legs, site_nodes = legs_of_sites(task, site_costs, start_costs)
    goals = tuple(goal for goal in sorted(set(task.site_goals)) if goal not in task.done)
    kept = legs.restricted(np.flatnonzero(np.isin(legs.node_goal, goals)))
    expected, _ = cheapest(task, site_costs, start_costs)
    order = [task.sites[site].name for site in np.argsort(np.concatenate(site_nodes))]
    way = beam_search(task, goals, kept, 0.0, width, math.inf, proceed)
    if width == 1000:
        assert (way is None) == math.isinf(expected)
    if way is not None:
        names = [order[node] for node in np.flatnonzero(np.isin(legs.node_goal, goals))[way]]
        cost = cost_of(task, names, site_costs, start_costs)
        assert cost >= expected - 1e-9
        if width == 1000:
            assert math.isclose(cost, expected, rel_tol=1e-12, abs_tol=1e-12)
    assert least_to_come(task, goals, kept, 0.0).sum() <= expected + 1e-9


@pytest.mark.parametrize(('fields', 'length'), [
    ({}, 8),
    ({'formula': 'atleast(3, any)'}, 3),
    ({'formula': 'exactly(3, any) | g0 & g1 & g2 & g3'}, 3),
    ({'formula': 'g0 ^ g1 ^ g2'}, 1),
    ({'formula': 'g0 <-> g1'}, 0),
    ({'formula': '(g0 -> g1) & g0 & !g7'}, 2),
    ({'formula': 'g5 & true & (g5 | false)', 'constraints': ['g4 before g5', 'g3 before g4']}, 3),
    ({'formula': 'g0 & g1', 'constraints': ['g0 forbids g1', 'g2 before g1']}, 3),
])
def test_formulas_and_constraints(fields, length):
    task = Task.from_dict({'sites': [{'name': f's{goal}', 'features': [f'g{goal}', 'any']}
                                     for goal in range(8)],
                           'goals': {f'g{goal}': [f'g{goal}', 'any'] for goal in range(8)},
                           **fields})
    site_costs, start_costs = places(8)
    by_table = solve_task(task, site_costs, start_costs)
    by_engine = solve_task(task, site_costs, start_costs, NO_TABLE)
    assert by_engine.optimal and len(by_engine.sequence) == length
    assert by_engine.sequence == by_table.sequence
    assert math.isclose(by_engine.cost, by_table.cost, rel_tol=1e-12)


def test_thirty_free_goals_are_proven_without_a_table():
    site_costs, start_costs = places(30)
    found = solve_task(free_goals(30), site_costs, start_costs, Config(task_memory=10))
    assert found.optimal and found.policy is None
    assert math.isclose(found.cost, 44.137839527523845, rel_tol=1e-9)


def test_a_plan_with_a_bound_when_time_is_up():
    site_costs, start_costs = places(60)
    window = [f'g{i} before g{j}' for i in range(60) for j in range(i + 20, min(60, i + 41))]
    task = free_goals(60, constraints=window)
    began = time.monotonic()
    found = solve_task(task, site_costs, start_costs, Config(task_memory=1, time_limit=1.0))
    assert time.monotonic() - began < 30
    assert not found.optimal
    assert 0 < found.bound < found.cost
    assert math.isclose(cost_of(task, found.sequence, site_costs, start_costs), found.cost,
                        rel_tol=1e-12)


def test_a_model_that_takes_too_long_leaves_the_first_way_with_a_bound(monkeypatch):
    monkeypatch.setattr(task_engine, '_ARCS_PER_STEP', 10)
    steps = []

    def until(deadline, checkpoint):
        def step():
            steps.append(deadline)
            if len(steps) > 3:
                raise task_engine._TimeIsUp
        return step

    monkeypatch.setattr(task_engine, '_until', until)
    site_costs, start_costs = places(12)
    found = solve_task(free_goals(12), site_costs, start_costs, NO_TABLE)
    assert len(steps) == 4 and not found.optimal
    assert 0 < found.bound < found.cost == cost_of(
        free_goals(12), found.sequence, site_costs, start_costs)


def test_the_time_of_the_model_is_limited():
    called = []
    task_engine._until(time.monotonic() + 1000, lambda: called.append('in time'))()
    with pytest.raises(task_engine._TimeIsUp):
        task_engine._until(time.monotonic() - 1, lambda: called.append('late'))()
    assert called == ['in time', 'late']


def test_a_beam_ends_at_its_deadline():
    task, (site_costs, start_costs) = free_goals(8), places(8)
    legs, _ = legs_of_sites(task, site_costs, start_costs)
    goals = tuple(range(8))
    assert beam_search(task, goals, legs, 0.0, 10, time.monotonic() - 1, proceed) is None
    assert len(beam_search(task, goals, legs, 0.0, 10, math.inf, proceed)) == 8


def test_hundreds_of_goals_keep_the_time_limit():
    site_costs, start_costs = places(300)
    order = [f'g{i} before g{j}' for i in range(300) for j in range(i + 100, min(300, i + 105))]
    task = free_goals(300, constraints=order)
    began = time.monotonic()
    found = solve_task(task, site_costs, start_costs, Config(time_limit=2.0))
    assert time.monotonic() - began < 15
    assert len(found.sequence) == 300 and 0 < found.bound < found.cost


def test_a_checkpoint_stops_the_search():
    site_costs, start_costs = places(60)
    legs, site_nodes = legs_of_sites(free_goals(60), site_costs, start_costs)
    began = time.monotonic()

    def stop_later():
        if time.monotonic() - began > 3:
            raise CanceledError('stopped')

    with pytest.raises(CanceledError):
        task_solver.solve_on_legs(
            free_goals(60), legs, site_nodes, Config(task_memory=1, time_limit=1000.0),
            completion_cost=0.0, checkpoint=stop_later)
    assert time.monotonic() - began < 60


def test_without_the_engine_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(task_solver, 'is_installed', lambda: False)
    with pytest.raises(LimitError) as caught:
        solve_task(free_goals(100), np.ones((100, 100)), np.ones(100))
    assert caught.value.message == (
        'task: the table of task states does not fit into task_memory 1000 MB; over 100 goals it '
        'has up to 1.27e+30 states and 1.85e+27 MB; install OR-Tools (pip install ortools) to '
        'search without the table, add constraints or raise task_memory')


@pytest.mark.parametrize('n_goals', [6, 400, 1100])
def test_a_table_of_any_size_is_told(monkeypatch, n_goals):
    monkeypatch.setattr(task_solver, 'is_installed', lambda: False)
    with pytest.raises(LimitError, match=rf'over {n_goals} goals it has up to .* states and'):
        solve_task(free_goals(n_goals), np.ones((n_goals, n_goals)), np.ones(n_goals), NO_TABLE)


@pytest.mark.parametrize('fields', [{}, {'reversible': ['g0']}, {'trigger': 'contact'}])
@pytest.mark.parametrize('n_sites', [1, 40])
def test_the_told_size_is_larger_than_the_memory(monkeypatch, fields, n_sites):
    monkeypatch.setattr(task_solver, 'is_installed', lambda: False)
    for n_goals in range(9, 20):
        task = Task.from_dict({'sites': [{'name': f's{goal}_{site}', 'features': [f'g{goal}']}
                                         for goal in range(n_goals) for site in range(n_sites)],
                               **fields})
        n_nodes = n_goals * n_sites
        try:
            solve_task(task, np.ones((n_nodes, n_nodes)), np.ones(n_nodes), Config(task_memory=2))
        except LimitError as error:
            assert float(re.search(r'states and ([0-9.e+]+) MB', error.message)[1]) > 2
            return
    pytest.fail('all tables fit')


@pytest.mark.parametrize(('fields', 'config'), [
    ({'reversible': ['g0']}, {}), ({'trigger': 'contact'}, {}), ({}, {'temperature': 1.0})])
def test_what_needs_the_table(fields, config):
    with pytest.raises(LimitError, match=r'need the table; add constraints or raise task_memory$'):
        solve_task(free_goals(30, **fields), np.ones((30, 30)), np.ones(30),
                   Config(task_memory=1, **config))


def test_more_nodes_than_it_can_take(monkeypatch):
    monkeypatch.setattr(task_engine, '_MAX_NODES', 5)
    with pytest.raises(LimitError, match=r'completed at 6 cells; .* at most 5 can be handled'):
        solve_task(free_goals(6), np.ones((6, 6)), np.ones(6), NO_TABLE)


def test_nothing_found_in_time(monkeypatch):
    monkeypatch.setattr(task_engine, 'beam_search', lambda *_: None)
    monkeypatch.setattr(task_engine._Model, 'solve', lambda *_: ('UNKNOWN', None, 0.0))
    with pytest.raises(LimitError, match='no plan was found within time_limit 30 s'):
        solve_task(free_goals(6), np.ones((6, 6)), np.ones(6), NO_TABLE)
