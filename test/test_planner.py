"""The facade: plans, regrounding, reuse of options, and byte-identical answers."""

import copy
import json
import math
import pickle

from hypothesis import given, settings
import hypothesis.strategies as st
import numpy as np
from plan_validator import validate
import pytest
from random_worlds import random_site, random_world
from test_full_task_mdp import draw

from gk_planner import BaseSpace, Plan, Planner, Task, task_engine
from gk_planner.config import Config
from gk_planner.errors import InfeasibleError, LimitError, RegroundError, StartError, TaskError
from gk_planner.full_task_mdp import free_cells
from gk_planner.occupancy_map import OccupancyMap

FLOOR = """
    S...a
    .....
    b...c
"""


def world(drawing=FLOOR, task=None, **config):
    grid_map, task, start = draw(drawing, **(task or {}))
    return Planner(BaseSpace(grid_map, Config(**{'connectivity': 4, **config}))), task, start


def site(name, x, y, *features):
    return {'name': name, 'features': list(features or name[0]), 'position': [x + 0.5, y + 0.5]}


def visited(plan):
    return [option.site for option in plan.options]


def as_json(plan):
    """The JSON text without the one part that may differ."""
    fields = plan.to_dict()
    assert set(fields.pop('timing_ms')) == {'base_space', 'options', 'task'}
    return json.dumps(fields)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.3, 1 / 3]))
def test_what_a_completion_costs_decides_no_tie(seed, option_cost):
    cells = np.random.default_rng(seed).permutation(81)[:6]
    start, *places = [((cell % 9 + 0.5) * 0.05, (cell // 9 + 0.5) * 0.05)
                      for cell in cells.tolist()]
    task = Task.from_dict({'sites': [
        {'name': f's{goal}', 'features': [f'g{goal}'], 'position': list(place)}
        for goal, place in enumerate(places)]})
    grid_map = OccupancyMap(np.zeros((9, 9), dtype=np.int8), 0.05)
    expected = Planner(BaseSpace(grid_map)).plan(task, start)
    plan = Planner(BaseSpace(grid_map, Config(option_cost=option_cost))).plan(task, start)
    assert visited(plan) == visited(expected)
    assert [option.cost for option in plan.options] == [
        option.cost + option_cost for option in expected.options]


def test_a_completion_may_cost_more_than_all_legs():
    planner, task, start = world(option_cost=1e300)
    assert planner.plan(task, start).cost == 3e300


def test_plan_by_hand():
    planner, task, start = world()
    plan = planner.plan(task, start)
    assert visited(plan) == ['b', 'c', 'a']
    assert plan.cost == plan.bound == 8.0
    assert plan.optimal
    assert plan.value is None
    assert [option.cost for option in plan.options] == [2.0, 4.0, 2.0]
    assert plan.options[0].path == ((0.5, 2.5), (0.5, 1.5), (0.5, 0.5))
    assert plan.waypoints == ((0.5, 0.5), (4.5, 0.5), (4.5, 2.5))
    assert [option.task_state for option in plan.options] == [
        {'b': True, 'c': False, 'a': False}, {'b': True, 'c': True, 'a': False},
        {'b': True, 'c': True, 'a': True}]


def test_to_dict_is_the_contract():
    planner, task, start = world()
    fields = planner.plan(task, start).to_dict()
    assert list(fields) == ['status', 'cost', 'optimal', 'bound', 'warnings', 'options',
                            'waypoints', 'timing_ms']
    assert fields['status'] == 'solved'
    assert set(fields['options'][0]) == {'goal', 'site', 'cost', 'position', 'path', 'task_state'}
    assert json.loads(json.dumps(fields)) == fields


@pytest.mark.parametrize('formula', ['a', '!b', 'a | b & c', 'true', 'exactly(1, a)'])
@pytest.mark.parametrize('temperature', [0.0, 0.5])
def test_satisfied_formula_has_an_empty_plan(formula, temperature):
    planner, task, start = world(task={'formula': formula, 'done': ['a']},
                                 temperature=temperature)
    fields = planner.plan(task, start).to_dict()
    assert fields['status'] == 'solved'
    assert (fields['cost'], fields['optimal'], fields['bound']) == (0.0, True, 0.0)
    assert fields['options'] == fields['waypoints'] == []
    assert fields.get('value', 0.0) == 0.0
    assert len(planner.library) == 0


def test_bits_that_cannot_matter_cost_nothing():
    planner, task, start = world(task={'formula': 'b'})
    assert visited(planner.plan(task, start)) == ['b']
    assert len(planner.library) == 1


def test_more_nodes_than_allowed_are_refused_before_any_option_is_solved():
    planner, task, start = world(max_nodes=2)
    message = 'its goals are completed at 3 cells, more than max_nodes 2; .* raise max_nodes$'
    with pytest.raises(LimitError, match=message):
        planner.plan(task, start)
    assert len(planner.library) == 0
    planner, task, start = world(task={'formula': 'b & c'}, max_nodes=2)
    assert visited(planner.plan(task, start)) == ['b', 'c']


def test_start_comes_from_the_call_then_from_the_task():
    planner, task, start = world(task={'start': [4.5, 2.5]})
    assert planner.plan(task, start).options[0].path[0] == start
    assert planner.plan(task).options[0].path[0] == (4.5, 2.5)
    _, homeless, _ = world()
    with pytest.raises(StartError, match='no start; give one with the call or in the task'):
        planner.plan(homeless)


@pytest.mark.parametrize('trigger', ['action', 'contact'])
@pytest.mark.parametrize('temperature', [0.0, 0.3])
def test_same_input_same_bytes(trigger, temperature):
    fields = {'trigger': trigger, 'constraints': ['b before a']}
    answers = set()
    for _ in range(3):
        planner, task, start = world(task=fields, temperature=temperature, connectivity=8)
        answers |= {as_json(planner.plan(task, start)), as_json(planner.plan(task, start))}
    assert len(answers) == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_used_planner_answers_like_a_fresh_one(seed):
    drawn = random_world(seed)
    used = Planner(BaseSpace(drawn.grid_map, drawn.config, drawn.annotations))
    answers = []
    for planner in (used, used, Planner(BaseSpace(drawn.grid_map, drawn.config,
                                                  drawn.annotations))):
        try:
            answers.append(as_json(planner.plan(drawn.task, drawn.start)))
        except InfeasibleError as error:
            answers.append(json.dumps(error.to_dict()))
    assert answers[0] == answers[1] == answers[2]


def test_above_temperature_zero_the_plan_says_so():
    planner, task, start = world(temperature=0.2)
    plan = planner.plan(task, start)
    assert not plan.optimal
    assert math.isfinite(plan.value)
    assert plan.value > plan.cost / 0.2  # -log z pays for the metres and for every choice
    assert plan.cost >= 8.0 >= plan.bound


# Regrounding


def test_reground_replaces_a_site():
    planner, task, start = world()
    planner.plan(task, start)
    plan = planner.reground([site('b', 1, 2)])
    assert visited(plan) == ['b', 'a', 'c']
    assert plan.cost == 6.0


def test_reground_adds_an_alternative_and_removes_it_again():
    planner, task, start = world()
    before = planner.plan(task, start)
    plan = planner.reground([site('near', 1, 2, 'b')])
    assert visited(plan) == ['near', 'a', 'c']
    assert planner.reground([], removed=['near']) == before


def test_reground_removes_and_adds_under_the_same_name():
    planner, task, start = world()
    planner.plan(task, start)
    assert visited(planner.reground([site('b', 1, 2)], removed=['b'])) == ['b', 'a', 'c']


def test_a_site_may_take_over_another_known_feature_set():
    planner, task, start = world(task={'formula': 'a & b'})
    planner.plan(task, start)
    assert visited(planner.reground([site('c', 0, 1, 'b')])) == ['c', 'a']


def test_reground_keeps_start_and_done_unless_given():
    planner, task, start = world(task={'done': ['c']})
    assert visited(planner.plan(task, start)) == ['b', 'a']
    assert visited(planner.reground([site('b', 2, 2)])) == ['b', 'a']
    assert visited(planner.reground([], start=(4.5, 1.5))) == ['a', 'b']
    plan = planner.reground([], done=['a'])
    assert plan.options[0].path[0] == (4.5, 1.5)
    assert visited(plan) == ['c', 'b']
    assert visited(planner.reground([], done=[])) != visited(plan)
    assert planner.reground([], done=['a', 'b', 'c']).options == ()


def test_reground_solves_options_for_new_cells_only():
    planner, task, start = world()
    planner.plan(task, start)
    assert len(planner.library) == 3
    planner.reground([site('b', 1, 1)])
    assert len(planner.library) == 4
    planner.reground([site('b', 0, 0)])              # where it was before
    planner.reground([site('b', 4, 2), site('a', 0, 0)])
    assert len(planner.library) == 4
    planner.reground([site('c', 3, 0)], start=(2.5, 2.5), done=['a'])
    assert len(planner.library) == 5
    kept = planner.library.get([0])[0]
    planner.reground([site('b', 0, 0)], done=[])
    assert planner.library.get([0])[0] is kept


def test_reground_needs_a_task():
    planner, _, _ = world()
    with pytest.raises(RegroundError, match='there is no task yet; call plan first'):
        planner.reground([])


def test_an_infeasible_task_can_be_regrounded():
    planner, task, start = world('S#a')
    with pytest.raises(InfeasibleError):
        planner.plan(task, start)
    with pytest.raises(InfeasibleError):
        planner.reground([], done=[])
    assert visited(planner.reground([site('a', 0, 0)])) == ['a']


def test_a_site_that_no_plan_can_use_is_named():
    planner, _, start = world('''
        S..#.
        ..##a
    ''')
    task = Task.from_dict({'sites': [
        site('lost', 4, 0, 'a'), site('wall', 3, 0, 'a'), site('near', 1, 0, 'a')]})
    plan = planner.plan(task, start)
    assert visited(plan) == ['near']
    assert plan.warnings == ("site 'wall' stands in a blocked cell and cannot be reached",
                             "site 'lost' cannot be reached")


@pytest.mark.parametrize('temperature', [0.0, 1.0])
@pytest.mark.parametrize('trigger', ['action', 'contact'])
def test_a_site_walled_in_beside_another_is_named(temperature, trigger):
    planner, _, start = world("""
        S...b#..
        .....###
    """, temperature=temperature)
    room = {'name': 'room', 'features': ['a'], 'region': [[6, 1], [8, 1], [8, 2], [6, 2]]}
    task = Task.from_dict({'sites': [site('near', 1, 0, 'a'), room], 'trigger': trigger})
    assert planner.plan(task, start).warnings == ("site 'room' cannot be reached",)
    done = Task.from_dict({'sites': [site('near', 1, 0, 'a'), room, site('b', 2, 0)],
                           'trigger': trigger, 'done': ['a']})
    assert planner.plan(done, start).warnings == (), 'nothing is to be done there'


def test_a_site_that_begins_inside_another_can_be_reached():
    planner, _, start = world("""
        S.....b#...
        .......#...
        .......#...
    """)
    wide = {'name': 'wide', 'features': ['a'], 'region': [[4, 1], [10, 1], [10, 2], [4, 2]]}
    over = {'name': 'over', 'features': ['a'], 'region': [[2, 0], [7, 0], [7, 3], [2, 3]]}
    assert planner.plan(Task.from_dict({'sites': [wide, over]}), start).warnings == ()


def test_above_temperature_zero_a_site_does_not_hide_its_neighbour():
    planner, _, start = world('S..a', temperature=1.0)

    def value(*places):
        return planner.plan(Task.from_dict({'sites': [
            site(f'a{x}', x, 0, 'a') for x in places]}), start).value

    expected = -math.log((math.exp(-value(2)) + math.exp(-value(3))) / 2)
    assert value(2, 3) == pytest.approx(expected)


def test_tasks_and_their_errors_can_be_sent_to_other_processes():
    planner, task, start = world('S.a')
    plan = planner.plan(task, start)
    again = pickle.loads(pickle.dumps(task))
    assert again == task == copy.deepcopy(task)
    assert planner.plan(again, start).cost == plan.cost
    with pytest.raises(InfeasibleError) as caught:
        planner.plan(Task.from_dict({'sites': [site('a', 1, 0)], 'formula': 'false'}), start)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), error.to_dict()) == (InfeasibleError, caught.value.to_dict())


@pytest.mark.parametrize(('start', 'message'), [
    ((1,), r'start: expected a point \[x, y\]'), ('ab', 'start: expected a list'),
    ((None, 1), r'start\[0\]: expected a number'), ((1, math.inf), r'start\[1\]: must be finite')])
def test_a_start_that_is_no_point(start, message):
    planner, task, _ = world()
    with pytest.raises(StartError, match=message):
        planner.plan(task, start)


@pytest.mark.parametrize(('sites', 'removed', 'done', 'message'), [
    ([site('d', 1, 1, 'd')], (), None,
     r"sites\[0\]\.features: site 'd' brings the new feature set \['d'\]; that is a new task"),
    ([site('a', 1, 1), site('b', 1, 1, 'b', 'red')], (), None, r'sites\[1\]\.features'),
    ([], ['machin'], None, r"removed\[0\]: no site 'machin'; did you mean 'machine'\?"),
    ([], 'machine', None, "removed: expected a list, got 'machine'"),
    ([], [1], None, r'removed\[0\]: expected a name, got 1'),
    (None, (), None, 'sites: expected a list, got None'),
    ([], (), 'a', "done: expected a list, got 'a'"),
    ([], ['machine', 'machine'], None, r"removed\[1\]: no site 'machine'"),
    ([], (), ['macine'], r"done: no goal 'macine'; did you mean 'machine'\?"),
    ([{'name': 'a', 'position': [1, 1]}], (), None, r'sites\[0\].*features'),
    ([site('a', 1, 1), site('a', 2, 1)], (), None, r"sites\[1\]\.name: 'a' is given twice"),
    ([{'name': 'a', 'features': ['a'], 'postion': [1, 1]}], (), None, 'postion'),
    (['a'], (), None, r'sites\[0\]')])
def test_bad_regroundings_are_named_and_change_nothing(sites, removed, done, message):
    grid_map, task, start = draw(FLOOR)
    fields = task.to_dict()
    fields['sites'].append(site('machine', 2, 2, 'machine'))
    del fields['goals'], fields['formula']
    planner = Planner(BaseSpace(grid_map, Config(connectivity=4)))
    before = planner.plan(Task.from_dict(fields), start)
    with pytest.raises(RegroundError, match=message) as caught:
        planner.reground(sites, removed=removed, done=done)
    assert caught.value.message.startswith('reground: ')
    assert caught.value.to_dict()['error'] == 'RegroundError'
    assert planner.reground([]) == before


@pytest.mark.parametrize(('fields', 'error'), [
    ({'sites': [site('a', 9, 9)]}, TaskError),                             # outside the map
    ({'sites': [{'name': 'a', 'features': ['a']}]}, TaskError),            # no place
    ({'sites': [], 'start': (9.5, 0.5)}, StartError),
    ({'sites': [], 'removed': ['c']}, InfeasibleError),
    ({'sites': [site('c', 2, 1)]}, InfeasibleError)])                      # into the wall
def test_nothing_is_lost_on_error(fields, error):
    planner, task, start = world('S...a .###. b...c')
    before = planner.plan(task, start)
    with pytest.raises(error):
        planner.reground(**fields)
    assert planner.reground([]) == before
    assert visited(planner.reground([site('a', 1, 2)])) == ['a', 'b', 'c']


def test_an_infeasible_regrounding_says_why():
    planner, task, start = world()
    planner.plan(task, start)
    with pytest.raises(InfeasibleError) as caught:
        planner.reground([], removed=['b'])
    assert caught.value.to_dict() == {
        'status': 'infeasible',
        'reason': "task: the formula 'b & c & a' cannot be made true: no site carries 'b'",
        'conflicts': [{'kind': 'formula', 'name': 'b & c & a'},
                      {'kind': 'feature', 'name': 'b'}]}


@pytest.mark.parametrize('trigger', ['action', 'contact'])
def test_regrounding_equals_a_fresh_plan_of_the_changed_task(trigger):
    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 2**32 - 1))
    def check(seed):
        drawn = random_world(seed, trigger=trigger)
        rng = np.random.default_rng(seed)
        space = BaseSpace(drawn.grid_map, drawn.config, drawn.annotations)
        planner = Planner(space)
        try:
            planner.plan(drawn.task, drawn.start)
        except InfeasibleError:
            return
        moved, changed = random_regrounding(rng, drawn)
        answers = []
        for answer in (lambda: planner.reground(moved),
                       lambda: Planner(space).plan(Task.from_dict(changed), drawn.start)):
            try:
                plan = answer()
                answers.append(as_json(plan))
                validate(plan.to_dict(), Task.from_dict(changed), drawn.grid_map, drawn.config,
                         drawn.start, drawn.annotations)
            except (InfeasibleError, TaskError) as error:
                answers.append(str(error))
        assert answers[0] == answers[1]

    check()


def random_regrounding(rng, drawn):
    """Move some sites and add an alternative; return the sites and the whole changed mapping."""
    free = np.argwhere(free_cells(drawn.grid_map, drawn.config, drawn.annotations)).tolist()
    changed = copy.deepcopy(drawn.task_mapping)
    # Named goals keep their bits whatever becomes of the sites.
    changed['goals'] = {goal.name: sorted(goal.features) for goal in drawn.task.goals}
    moved = []
    for index, old in enumerate(changed['sites']):
        if rng.random() < 0.5:
            fresh = random_site(rng, drawn.grid_map, free, old['features'])
            moved.append({**fresh, 'name': old['name']})
            changed['sites'][index] = moved[-1]
    twin = random_site(rng, drawn.grid_map, free, changed['sites'][0]['features'])
    moved.append({**twin, 'name': 'twin'})
    changed['sites'].append(moved[-1])
    return moved, changed


def test_a_plan_compares_by_what_it_says():
    planner, task, start = world()
    assert planner.plan(task, start) == planner.plan(task, start)
    assert isinstance(planner.plan(task, start), Plan)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_after_a_change_of_the_map_the_plan_is_that_of_a_new_planner(seed):
    rng = np.random.default_rng(seed)
    world = random_world(rng)
    changed = world.grid_map.data.copy()
    for _ in range(3):
        row, col = rng.integers(0, changed.shape)
        changed[row, col] = rng.choice([0, 100])
    planners = []
    for data in (world.grid_map.data, changed, world.grid_map.data):
        grid_map = OccupancyMap(data, world.grid_map.resolution, world.grid_map.origin)
        space = BaseSpace(grid_map, world.config, world.annotations)
        planners.append(Planner(space, former=planners[-1] if planners else None))
        answers = []
        for planner in (planners[-1], Planner(space)):
            try:
                answers.append(as_json(planner.plan(world.task, world.start)))
            except (InfeasibleError, StartError, TaskError) as error:
                answers.append(error.to_dict())
        assert answers[0] == answers[1]


def test_a_plan_that_is_not_proven_optimal_says_so(monkeypatch):
    pytest.importorskip('ortools', reason='the package ortools is not installed')
    planner, task, start = world(task_memory=0)
    assert planner.plan(task, start).optimal
    monkeypatch.setattr(task_engine._Model, 'solve', lambda *_: ('UNKNOWN', None, 6.0))
    plan = planner.plan(task, start)
    assert not plan.optimal and plan.cost == 8.0 and plan.bound == 6.0 and plan.gap == 0.25
    assert plan.to_dict()['gap'] == 0.25
    assert plan.warnings[-1] == ('not proven optimal within time_limit 30 s: any plan costs at '
                                 'least 6.000 m, 25.0% less')
