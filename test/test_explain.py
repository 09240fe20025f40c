"""Tests of explain: goals and bits, inherited constraints, clauses, states, conflicts by name."""

import json
import time

import numpy as np
import pytest

from gk_planner import BaseSpace, cli, Config, Task
from gk_planner.errors import StartError
from gk_planner.explain import explain
from gk_planner.occupancy_map import OccupancyMap

# The right part cannot be reached.
ROOMS = ['.....#...',
         '.....#...',
         '.....#...']


@pytest.fixture
def space():
    rows = [[100 * (char == '#') for char in line] for line in ROOMS]
    return BaseSpace(OccupancyMap(np.flipud(rows), 1.0))


def site(name, features, x=0.5, y=0.5):
    return {'name': name, 'features': features.split(), 'position': [x, y]}


def errand(**fields):
    sites = [site('hook', 'key', 1.5), site('north', 'coffee', 2.5), site('south', 'coffee', 3.5),
             site('box', 'mail', 4.5), site('tree', 'plant', 0.5, 2.5)]
    return Task.from_dict({'sites': sites, 'constraints': ['key before mail'],
                           'formula': 'coffee & mail', 'start': [0.5, 0.5], **fields})


def reds(count, formula, **fields):
    return Task.from_dict({'sites': [site(f's{i}', f'red r{i}') for i in range(count)],
                           'formula': formula, 'start': [0.5, 0.5], **fields})


def parts(explanation):
    return {(part['kind'], part['name']) for part in explanation.conflict.conflicts}


def test_the_whole_text():
    text = explain(errand(reversible=['coffee'], done=['plant'], goals={'tea': ['tea']})).to_text()
    assert text.splitlines() == [
        'goals (bit, name, features, sites), completed by action:',
        '    0  tea     {tea}     no site carries it',
        '    1  key     {key}     hook',
        '    2  coffee  {coffee}  north, south (reversible)',
        '    3  mail    {mail}    box',
        '    4  plant   {plant}   tree (done)',
        'constraints, and what the goals inherit:',
        '  key before mail',
        '    mail waits for key',
        'formula: coffee & mail',
        'clauses (DNF): 1',
        '  coffee & mail',
        'task states that can be reached: 6, over 3 of 5 bits (without tea, plant)',
        'feasible if every site can be reached (no map)',
    ]


def test_the_json_object():
    answer = explain(errand(done=['plant'])).to_dict()
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert answer['status'] == 'feasible'
    assert answer['goals'][1] == {'bit': 1, 'name': 'coffee', 'features': ['coffee'],
                                  'sites': ['north', 'south'], 'done': False, 'reversible': False}
    assert answer['goals'][3]['done'] is True
    assert answer['constraints'] == [
        {'constraint': 'key before mail', 'inherited': 'c(mail^0, key^0)'}]
    assert (answer['formula'], answer['clauses'], answer['n_clauses']) == (
        'coffee & mail', ['coffee & mail'], 1)
    assert answer['relevant_goals'] == ['key', 'coffee', 'mail']
    # None, k, c, kc, km and kcm: mail waits for key.
    assert answer['reachable_task_states'] == 6


def test_every_pair_of_goals_inherits():
    task = reds(4, 'true', goals={'done_red': ['red', 'r0'], 'lone': ['blue']},
                constraints=['red before blue', 'blue before blue'])
    lines = explain(task).to_text().splitlines()
    at = lines.index('  red before blue')
    assert lines[at + 1] == '    lone waits for done_red, red.r1, red.r2 and red.r3'
    assert lines[at + 2] == '  blue before blue: adds nothing'
    assert any(line.startswith("warning: constraints[1] 'blue before blue'") for line in lines)


@pytest.mark.parametrize(('constraint', 'words'), [
    ('c(mail^0, coffee^0)', 'mail waits for coffee'),
    ('coffee forbids mail', 'mail is forbidden once coffee is done'),
    ('c(mail^1, coffee^0)', 'mail may not be undone before coffee'),
    ('c(mail^1, coffee^1)', 'mail may not be undone once coffee is done'),
])
def test_all_four_polarities_in_words(constraint, words):
    text = explain(errand(constraints=[constraint], reversible=['mail'])).to_text()
    assert f'  {constraint}\n    {words}\n' in text


def test_clauses_of_xor():
    lines = explain(errand(formula='coffee ^ mail')).to_text().splitlines()
    at = lines.index('clauses (DNF): 2')
    assert set(lines[at + 1:at + 3]) == {'  !coffee & mail', '  coffee & !mail'}


def test_no_constraints_and_a_formula_over_lines():
    text = explain(errand(constraints=None, formula='coffee\n  & mail')).to_text()
    assert 'constraints: none' in text
    assert 'formula: coffee & mail\n' in text


def test_a_formula_that_holds_already(space):
    explanation = explain(errand(formula='!mail'), space, (0.5, 0.5))
    assert explanation.conflict is None
    assert explanation.n_states == 1


# Why it cannot be done

def test_contradictory_formula():
    explanation = explain(errand(formula='coffee & !coffee'))
    assert parts(explanation) == {('formula', 'coffee & !coffee')}
    assert 'clauses (DNF): none, it can never hold' in explanation.to_text()


def test_precedence_cycle():
    rules = ['coffee before plant', 'key before mail', 'mail before coffee', 'coffee before key']
    explanation = explain(errand(constraints=rules))
    assert parts(explanation) == {('formula', 'coffee & mail'), *(
        ('constraint', rule) for rule in rules[1:])}
    for goal in ('key', 'mail', 'coffee'):
        assert f'{goal} before' in explanation.conflict.message
    lines = explanation.to_text().splitlines()
    at = lines.index('infeasible; these conflict, and no longer do without any one of them:')
    assert lines[at + 1] == '  formula     coffee & mail'
    assert set(lines[at + 2:]) == {f'  constraint  {rule}' for rule in rules[1:]}


def test_a_goal_that_no_site_carries():
    explanation = explain(errand(goals={'tea': ['tea']}, formula='coffee & tea'))
    assert parts(explanation) == {('formula', 'coffee & tea'), ('feature', 'tea')}
    assert "'tea'" in explanation.conflict.message


@pytest.mark.parametrize('x', [5.5, 7.5], ids=['occupied', 'unreachable'])
def test_a_site_out_of_reach_needs_the_map(x, space):
    sites = [site('hook', 'key', 1.5), site('box', 'mail', x)]
    task = Task.from_dict({'sites': sites, 'formula': 'key & mail', 'start': [0.5, 0.5]})
    assert explain(task).conflict is None
    explanation = explain(task, space, task.start)
    assert parts(explanation) == {('formula', 'key & mail'), ('site', 'box')}
    assert "site 'box' (goal mail)" in explanation.conflict.message


def test_both_sites_of_a_goal_are_named(space):
    sites = [site('east', 'mail', 7.5), site('wall', 'mail', 5.5), site('hook', 'key', 1.5)]
    task = Task.from_dict({'sites': sites, 'formula': 'key & mail', 'start': [0.5, 0.5]})
    assert parts(explain(task, space, task.start)) == {
        ('formula', 'key & mail'), ('site', 'east'), ('site', 'wall')}


def test_a_feasible_task_on_a_map(space):
    text = explain(errand(), space, (0.5, 0.5)).to_text()
    assert text.endswith('\nfeasible')


def test_a_map_needs_a_start(space):
    with pytest.raises(StartError, match='--start'):
        explain(errand(), space)


def test_irreducible_json():
    answer = explain(errand(formula='coffee & !coffee')).to_dict()
    assert answer['status'] == 'infeasible'
    assert answer['conflicts'] == [{'kind': 'formula', 'name': 'coffee & !coffee'}]
    assert answer['reason']
    assert answer['goals']


# Large tasks answer soon

@pytest.mark.parametrize(('formula', 'n_clauses'), [
    ('atleast(50, red)', 100891344545564193334812497256),
    ('all(red)', 1),
    ('any(red)', 100),
])
def test_a_hundred_free_goals(formula, n_clauses):
    began = time.perf_counter()
    explanation = explain(reds(100, formula), config=Config(task_memory=1))
    assert time.perf_counter() - began < 10
    assert explanation.n_clauses == n_clauses
    assert explanation.conflict is None
    assert max(map(len, explanation.to_text().splitlines())) < 2000


def test_free_goals_are_feasible_without_listing_their_states():
    explanation = explain(reds(100, 'all(red)'), config=Config(task_memory=1))
    assert explanation.n_states is None
    assert explanation.to_dict()['status'] == 'feasible'


def test_a_reversible_goal_that_need_not_flip_back_lists_no_states_either():
    explanation = explain(reds(100, 'all(red)', reversible=['red.r0']),
                          config=Config(task_memory=1))
    assert explanation.n_states is None
    assert explanation.to_dict()['status'] == 'feasible'


def test_a_met_limit_is_not_called_feasible():
    # With a bit that must flip back the clauses alone do not decide.
    explanation = explain(reds(100, 'atleast(99, red) & !red.r0', reversible=['red.r0'],
                               done=['red.r0']), config=Config(task_memory=1))
    assert explanation.n_states is None
    assert 'more than fit into task_memory' in explanation.to_text()
    assert explanation.to_text().splitlines()[-1].startswith('undecided: ')
    assert explanation.to_dict()['status'] == 'undecided'


@pytest.mark.parametrize(('formula', 'constraints', 'names'), [
    ('atleast(150, red)', [], {'atleast(150, red)'}),
    ('all(red) & !any(r7)', [], {'all(red) & !any(r7)'}),
    ('all(red)', ['r0 before r1', 'r2 before r3', 'r1 before r0'],
     {'all(red)', 'r0 before r1', 'r1 before r0'}),
])
def test_a_conflict_among_a_hundred_free_goals(formula, constraints, names):
    began = time.perf_counter()
    explanation = explain(reds(100, formula, constraints=constraints),
                          config=Config(task_memory=1))
    assert time.perf_counter() - began < 10
    assert {name for _, name in parts(explanation)} == names


# The command

@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [[100 * (char == '#') for char in line] for line in ROOMS]
    OccupancyMap(np.flipud(rows), 1.0).save('map.yaml')
    (tmp_path / 'task.yaml').write_text(json.dumps(errand().to_dict()))
    far = [site('hook', 'key', 1.5), site('box', 'mail', 7.5)]
    (tmp_path / 'far.yaml').write_text(json.dumps({'sites': far, 'start': [0.5, 0.5]}))


def test_the_command_without_and_with_a_map(files, capsys):
    assert cli.main(['explain', 'task.yaml']) == 0
    assert capsys.readouterr().out.endswith('(no map)\n')
    assert cli.main(['explain', 'task.yaml', 'map.yaml']) == 0
    assert capsys.readouterr().out.endswith('\nfeasible\n')
    assert cli.main(['explain', 'far.yaml']) == 0
    capsys.readouterr()
    assert cli.main(['explain', 'far.yaml', 'map.yaml']) == 3
    out, err = capsys.readouterr()
    assert out.endswith('  site        box\n')
    assert err.startswith("error: far.yaml: the formula 'key & mail' cannot be made true: site")


def test_the_command_with_json(files, capsys):
    assert cli.main(['explain', 'task.yaml', 'map.yaml', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['status'] == 'feasible'
    assert cli.main(['explain', 'far.yaml', 'map.yaml', '--json']) == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer['status'] == 'infeasible'
    assert {part['name'] for part in answer['conflicts']} == {'key & mail', 'box'}
    assert cli.main(['explain', 'gone.yaml', '--json']) == 2
    assert json.loads(capsys.readouterr().out)['status'] == 'error'


def test_the_start_can_be_given(files, capsys):
    assert cli.main(['explain', 'far.yaml', 'map.yaml', '--start', '7.5', '1.5']) == 3
    assert "site 'hook' (goal key)" in capsys.readouterr().err
