import time

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import yaml

from gk_planner.boolean_task import BitConstraint, Constraint, Goal, Site, Task
from gk_planner.errors import ConstraintError, FormulaError, LimitError, TaskError
from gk_planner.formula import Formula

OFFICE = """
sites:
  - {name: machine_north, features: [coffee], position: [1.5, 2.0]}
  - {name: machine_south, features: [coffee], position: [7.5, 0.5], yaw: 1.57}
  - {name: mailroom, features: [mail], region: [[4, 4], [5, 4], [5, 5], [4, 5]]}
  - {name: hook, features: [key, small]}
  - {name: table, features: [desk]}
goals:
  letters: [mail]
  moon: [moon]
constraints:
  - key before mail
  - desk forbids coffee
  - c( mail ^0,key^ 0 )
formula: coffee & letters & desk
reversible: [desk]
done: [key.small]
start: [0.5, 0.5]
trigger: contact
"""


def site(name, *features, **fields):
    return {'name': name, 'features': list(features), **fields}


def tag_sites(*features):
    return [site(f'at_{feature}', feature) for feature in features]


@pytest.fixture
def office():
    return Task.from_dict(yaml.safe_load(OFFICE), 'office.yaml')


def message(error, fields):
    with pytest.raises(TaskError) as caught:
        Task.from_dict(fields, 'office.yaml')
    assert type(caught.value) is error
    assert '\n' not in caught.value.message
    return caught.value.message


def test_file_is_read(tmp_path, office):
    path = tmp_path / 'office.yaml'
    path.write_text(OFFICE)
    task = Task.from_file(path)
    assert task == office
    assert task.source == str(path)
    assert task.sites[1] == Site('machine_south', ('coffee',), (7.5, 0.5), None, 1.57)
    assert task.sites[2].region == ((4.0, 4.0), (5.0, 4.0), (5.0, 5.0), (4.0, 5.0))
    assert task.sites[3] == Site('hook', ('key', 'small'))
    assert (task.start, task.trigger) == ((0.5, 0.5), 'contact')


def test_bits_are_declared_goals_then_feature_sets_of_sites(office):
    assert office.goal_names == ('letters', 'moon', 'coffee', 'key.small', 'desk')
    assert office.goals[3] == Goal('key.small', frozenset({'key', 'small'}))
    assert office.site_goals == (2, 2, 0, 3, 4)
    assert [office.goal_sites(i) for i in range(5)] == [(2,), (), (0, 1), (3,), (4,)]
    assert office.reversible == {4} and office.done == {3}
    assert office.initial_bits == (False, False, False, True, False)
    assert office.formula.support() == {0, 2, 4}
    assert office.feature_goals['small'] == (3,)


def test_constraints_become_bits_and_duplicates_keep_the_first_source(office):
    assert office.constraints[1] == Constraint('desk forbids coffee', 'coffee', 0, 'desk', 1)
    assert office.constraints[2] == Constraint('c( mail ^0,key^ 0 )', 'mail', 0, 'key', 0)
    assert office.bit_constraints == (BitConstraint(0, 0, 3, 0, 0), BitConstraint(2, 0, 4, 1, 1))
    assert office.warnings == ()


def test_order_of_features_does_not_make_a_goal():
    task = Task.from_dict({'sites': [site('x', 'red', 'r1'), site('y', 'r1', 'red')]})
    assert task.goal_names == ('red.r1',)
    assert task.site_goals == (0, 0)


def test_every_pair_of_different_goals_inherits():
    task = Task.from_dict({
        'sites': [site('k1', 'key', 'one'), site('k2', 'key', 'two'), site('m', 'mail')],
        'constraints': ['key before mail', 'key forbids key']})
    pairs = {(c.control, c.control_value, c.condition, c.condition_value)
             for c in task.bit_constraints}
    assert pairs == {(2, 0, 0, 0), (2, 0, 1, 0), (0, 0, 1, 1), (1, 0, 0, 1)}


@pytest.mark.parametrize(('text', 'fields'), [
    ('a before b', ('b', 0, 'a', 0)), ('a forbids b', ('b', 0, 'a', 1)),
    ('c(a^0, b^0)', ('a', 0, 'b', 0)), ('c(a^0, b^1)', ('a', 0, 'b', 1)),
    ('c(a^1, b^0)', ('a', 1, 'b', 0)), (' c ( a ^ 1 , b ^ 1 ) ', ('a', 1, 'b', 1)),
    ('c before before', ('before', 0, 'c', 0)), ('a  before\tx.y_1', ('x.y_1', 0, 'a', 0))])
def test_constraint_forms(text, fields):
    assert Constraint.parse(text) == Constraint(text.strip(), *fields)


@pytest.mark.parametrize('text', [
    '', 'a', 'a before', 'a after b', 'a before b c', 'c(a^2, b^0)', 'c(a, b)', 'c(a^0 b^0)',
    'c(a^0, b^0', 'before b', '1 before b', True, None, 3, {'a': 'b'}, ['a before b']])
def test_malformed_constraints(text):
    reason = message(ConstraintError, {'sites': tag_sites('a', 'b'), 'constraints': [text]})
    assert reason.startswith('office.yaml: constraints[0]: expected')


def test_a_symbolic_constraint_split_by_a_flow_list_says_to_quote_it():
    fields = yaml.safe_load('constraints: [c(a^0, b^0)]')
    assert 'quote it' in message(ConstraintError, {'sites': tag_sites('a', 'b'), **fields})


def test_unknown_feature_in_a_constraint_names_the_nearest():
    fields = {'sites': tag_sites('coffee', 'mail'), 'constraints': ['cofee before mail']}
    assert message(ConstraintError, fields) == (
        "office.yaml: constraints[0]: no site or goal carries the feature 'cofee'; "
        "did you mean 'coffee'?")


def test_a_feature_of_a_goal_without_sites_is_known():
    task = Task.from_dict({'sites': tag_sites('mail'), 'goals': {'moon': ['rock']},
                           'constraints': ['rock before mail']})
    assert task.bit_constraints == (BitConstraint(1, 0, 0, 0, 0),)


AB = tag_sites('a', 'b')


@pytest.mark.parametrize(('fields', 'start', 'words'), [
    ({}, '', ['no goals']),
    ({'formula': 'true'}, '', ['no goals']),
    ({'site': []}, '', ["'site'", "did you mean 'sites'?"]),
    ({'sites': [site('a', 'x', positon=[1, 2])]}, 'sites[0]', ["did you mean 'position'?"]),
    ({'sites': 'a'}, 'sites', ['list']),
    ({'sites': {'a': ['x']}}, 'sites', ['list']),
    ({'sites': ['a']}, 'sites[0]', ['mapping']),
    ({'sites': [{'features': ['x']}]}, 'sites[0]', ["'name'", 'missing']),
    ({'sites': [{'name': 'x'}]}, 'sites[0]', ["'features'", 'missing']),
    ({'sites': [site('x', 'a'), site('y', 'b'), site('x', 'c')]}, 'sites[2].name',
     ["'x'", 'sites[0].name']),
    ({'sites': [site(True, 'a')]}, 'sites[0].name', ['quote']),
    ({'sites': [site(1, 'a')]}, 'sites[0].name', ['quote']),
    ({'sites': [site('two words', 'a')]}, 'sites[0].name', ['two words']),
    ({'sites': [site('x', False)]}, 'sites[0].features[0]', ['quote']),
    ({'sites': [site('x')]}, 'sites[0].features', ['at least one']),
    ({'sites': [site('x', 'a', 'a')]}, 'sites[0].features[1]', ["'a'", 'twice']),
    ({'sites': [{'name': 'x', 'features': 'coffee'}]}, 'sites[0].features', ['list']),
    ({'sites': [site('x', 'a', position=[1])]}, 'sites[0].position', ['[x, y]']),
    ({'sites': [site('x', 'a', position=[1, 'b'])]}, 'sites[0].position[1]', ['number']),
    ({'sites': [site('x', 'a', position=[1, float('nan')])]}, 'sites[0].position', ['finite']),
    ({'sites': [site('x', 'a', region=[[0, 0], [1, 1]])]}, 'sites[0].region', ['3']),
    ({'sites': [site('x', 'a', position=[1, 1], region=[[0, 0], [1, 0], [0, 1]])]},
     'sites[0].region', ['position']),
    ({'sites': [site('x', 'a', yaw=float('inf'))]}, 'sites[0].yaw', ['finite']),
    ({'sites': AB, 'goals': ['a']}, 'goals', ['mapping']),
    ({'goals': {True: ['a']}}, 'goals', ['quote']),
    ({'goals': {'a': 'a'}}, 'goals.a', ['list']),
    ({'goals': {'a': []}}, 'goals.a', ['at least one']),
    ({'goals': {'a': ['x', 'y'], 'b': ['y', 'x']}}, 'goals.b', ['feature set', 'goals.a']),
    ({'goals': {'not': ['a']}}, 'goals.not', ['word of the formula']),
    ({'sites': tag_sites('true')}, 'goals.true', ['under goals']),
    ({'sites': tag_sites('a'), 'goals': {'a': ['b']}}, 'sites[0].features',
     ["default name 'a'", 'under goals']),
    ({'sites': [site('x', 'a', 'b'), site('y', 'a.b')]}, 'sites[1].features', ["'a.b'"]),
    ({'sites': AB, 'constraints': 'a before b'}, 'constraints', ['list']),
    ({'sites': AB, 'reversible': 'a'}, 'reversible', ['list']),
    ({'sites': AB, 'done': {'a': True}}, 'done', ['list']),
    ({'sites': AB, 'done': ['a', 'a']}, 'done[1]', ['twice']),
    ({'sites': tag_sites('coffee'), 'done': ['cofee']}, 'done[0]', ["did you mean 'coffee'?"]),
    ({'sites': AB, 'reversible': [1]}, 'reversible[0]', ['quote']),
    ({'sites': AB, 'start': [1, 2, 3]}, 'start', ['[x, y]']),
    ({'sites': AB, 'start': 'here'}, 'start', ['list']),
    ({'sites': AB, 'trigger': 'touch'}, 'trigger', ["'action' or 'contact'", "'touch'"]),
    ({'sites': AB, 'trigger': ['action']}, 'trigger', ['action']),
])
def test_bad_fields(fields, start, words):
    reason = message(TaskError, fields)
    assert reason.startswith(f'office.yaml: {start}')
    for word in words:
        assert word in reason


@pytest.mark.parametrize(('formula', 'words'), [
    (True, ['quote']), (1, ['quote']), (['a'], ['quote']), ('', ['empty']),
    ('a & c', ["unknown goal 'c'"])])
def test_bad_formulas(formula, words):
    reason = message(FormulaError, {'sites': AB, 'formula': formula})
    assert reason.startswith('office.yaml: formula: ')
    assert all(word in reason for word in words)


def test_top_level_must_be_a_mapping():
    assert message(TaskError, ['sites']).startswith('office.yaml: ')


@pytest.mark.parametrize('line', ['formula: !coffee & mail', 'sites: [{name: on, features: [a]}]',
                                  'goals: {a: [x], a: [y]}'])
def test_yaml_traps_are_task_errors_that_name_the_field(tmp_path, line):
    path = tmp_path / 'trap.yaml'
    path.write_text(line)
    with pytest.raises(TaskError) as caught:
        Task.from_file(path)
    assert caught.value.message.startswith(f'{path}: {line.split(":")[0]}')


def test_defaults():
    task = Task.from_dict({'sites': AB, 'constraints': None, 'formula': None, 'goals': None})
    assert task.formula == Formula.conjunction((0, 1), ('a', 'b'))
    assert (task.reversible, task.done, task.constraints) == (frozenset(), frozenset(), ())
    assert (task.start, task.trigger) == (None, 'action')


@pytest.mark.parametrize(('fields', 'reason'), [
    ({'constraints': ['a before a']}, 'no two different goals'),
    ({'constraints': ['c(a^1, b^0)']}, "'a' is reversible"),
    ({'constraints': ['c(a^1, b^0)'], 'reversible': ['b']}, "'a' is reversible"),
    ({'constraints': ['b before a'], 'done': ['a']}, "'a' is done and irreversible"),
    ({'constraints': ['a before z'], 'goals': {'z': ['z']}}, "no site carries a goal that it"),
])
def test_idle_constraints_are_warnings(fields, reason):
    warning, = Task.from_dict({'sites': AB, **fields}).warnings
    assert warning.startswith(f"constraints[0] '{fields['constraints'][0]}'")
    assert reason in warning


@pytest.mark.parametrize('fields', [
    {'constraints': ['a before b']},
    {'constraints': ['c(a^1, b^0)'], 'reversible': ['a']},
    {'constraints': ['b before a'], 'done': ['a'], 'reversible': ['a']},
    {'constraints': ['a before b'], 'done': ['a']},
])
def test_constraints_that_matter_do_not_warn(fields):
    assert Task.from_dict({'sites': AB, **fields}).warnings == ()


def test_a_warning_looks_only_at_goals_that_inherit():
    # a.x is the only goal with x, so among the goals with a only the other one inherits.
    fields = {'sites': [site('p', 'a', 'x'), site('q', 'a')], 'constraints': ['c(a^1, x^0)']}
    assert Task.from_dict({**fields, 'reversible': ['a.x']}).warnings != ()
    assert Task.from_dict({**fields, 'reversible': ['a']}).warnings == ()


def test_features_may_be_a_set():
    task = Task.from_dict({'sites': [{'name': 's', 'features': {'b', 'a'}}]})
    assert (task.sites[0].features, task.goal_names) == (('a', 'b'), ('a.b',))


def test_round_trip(office):
    fields = office.to_dict()
    assert Task.from_dict(fields) == office
    assert Task.from_dict(yaml.safe_load(yaml.safe_dump(fields, sort_keys=False))) == office
    assert Task.from_dict(fields).to_dict() == fields


def test_replace_keeps_bits_and_checks(office):
    moved = [Site('machine_north', ('coffee',), (3.0, 3.0)), Site('new_hook', ('small', 'key'))]
    task = office.replace(sites=moved, done={0, 3}, start=(1.0, 1.0))
    assert task.goals == office.goals and task.formula is office.formula
    assert task.site_goals == (2, 3)
    assert task.goal_sites(0) == () and office.goal_sites(0) == (2,)
    assert task.initial_bits == (True, False, False, True, False)
    assert (task.start, office.start) == ((1.0, 1.0), (0.5, 0.5))
    assert office.replace() == office
    with pytest.raises(TaskError, match=r"sites\[0\].features: .*'x'.*tea"):
        office.replace(sites=[Site('x', ('tea',))])
    with pytest.raises(TaskError, match=r'sites\[1\]\.name: the name'):
        office.replace(sites=moved[:1] * 2)
    with pytest.raises(TaskError, match='done'):
        office.replace(done={5})


def test_parts_built_by_hand_are_checked():
    goals = (Goal('a', frozenset('a')),)
    everything = Formula.conjunction((0,), ('a',))
    with pytest.raises(TaskError, match=r'goals\.a: the name'):
        Task((), (*goals, Goal('a', frozenset('b'))), (), everything)
    with pytest.raises(FormulaError, match='outside'):
        Task((), goals, (), Formula.conjunction((1,), ('a', 'b')))
    with pytest.raises(TaskError, match='reversible'):
        Task((), goals, (), everything, reversible=frozenset({-1}))


def test_ten_thousand_sites_load_quickly():
    sites = [site(f's{i}', f'kind{i % 7}', f'id{i}', position=[i, i]) for i in range(10_000)]
    begin = time.perf_counter()
    task = Task.from_dict({'sites': sites, 'formula': 'all(kind3)', 'done': ['kind0.id0'],
                           'constraints': ['id5 before kind1', 'kind2 forbids id9']})
    assert len(task.bit_constraints) == 1429 + 1429 - 1
    assert len(task.site_goals) == 10_000 and task.warnings == ()
    assert time.perf_counter() - begin < 3


def test_constraints_that_too_many_pairs_inherit_are_refused():
    sites = [site(f's{i}', 'odd' if i % 2 else 'even', f'id{i}') for i in range(10_000)]
    message = (r"^task: constraints\[1\]: with 'odd before even' 25005000 pairs of goals "
               r'inherit a constraint; at most 1000000 may$')
    with pytest.raises(LimitError, match=message):
        Task.from_dict({'sites': sites, 'constraints': ['id1 before odd', 'odd before even']})


names = st.sampled_from(['a', 'b', 'c', 'd.e', '_f'])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(names, min_size=1, max_size=3, unique=True), min_size=1, max_size=6),
       st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1), st.integers(0, 9),
                          st.integers(0, 1)), max_size=4))
def test_inheritance_matches_its_definition(feature_lists, raw):
    carried = sorted({feature for features in feature_lists for feature in features})
    constraints = [f'c({carried[i % len(carried)]}^{a}, {carried[j % len(carried)]}^{b})'
                   for i, a, j, b in raw]
    task = Task.from_dict({
        'sites': [site(f's{i}', *features) for i, features in enumerate(feature_lists)],
        'constraints': constraints})
    expected = {
        (i, c.control_value, j, c.condition_value)
        for c in task.constraints
        for i, first in enumerate(task.goals) for j, second in enumerate(task.goals)
        if i != j and c.control_feature in first.features
        and c.condition_feature in second.features}
    found = [(b.control, b.control_value, b.condition, b.condition_value)
             for b in task.bit_constraints]
    assert set(found) == expected and len(found) == len(expected)
    assert Task.from_dict(task.to_dict()) == task
    for goal, features in zip(task.site_goals, feature_lists, strict=True):
        assert task.goals[goal].features == set(features)
