"""Tests of the command line: what it prints, its exit status, and every kind of bad input."""

import dataclasses
import io
from itertools import pairwise
import json
import math
import os
from pathlib import Path
import signal
import subprocess
import sys
import time

import numpy as np
from PIL import Image
import pytest

from gk_planner import cli, Config
from gk_planner.ensemble import Ensemble
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.precompute import precompute

# A wall with a gap at the bottom between the key and the mail.
WORLD = """
    ....#...
    ....#...
    ....#...
    ....#...
    ....#...
    ........
"""
TASK = """\
sites:
  - {name: hook, features: [key], position: [0.25, 0.25]}
  - {name: box, features: [mail], position: [3.25, 2.25]}
constraints: [key before mail]
formula: key & mail
start: [1.25, 1.25]
"""
# Two diagonal steps to the hook; five straight ones through the gap, one diagonal, three up.
COST = 0.5 * (8 + 3 * math.sqrt(2))
REDS = 'sites:\n' + ''.join(
    f'  - {{name: r{i}, features: [red, r{i}], position: [{0.25 + i / 2}, 0.25]}}\n'
    for i in range(3)) + 'formula: atleast(5, red)\nstart: [1.25, 1.25]\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rows = [[100 * (char == '#') for char in line] for line in WORLD.split()]
    OccupancyMap(np.flipud(rows), 0.5).save(tmp_path / 'map.yaml')
    (tmp_path / 'task.yaml').write_text(TASK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder, capsys):
    def run_main(*arguments):
        status = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, err
    return run_main


@pytest.fixture
def refuse(run, folder):
    """Run a command that must fail as bad input; return its one-line message."""
    def run_refused(*arguments):
        before = {file.name for file in folder.iterdir()}
        status, out, err = run(*arguments, '--json', '--png', 'plan.png')
        assert status == 2, err
        answer = json.loads(out)
        assert (answer['status'], set(answer)) == ('error', {'status', 'error', 'reason'})
        assert err.splitlines()[0] == f'error: {answer["reason"]}'
        assert 'Traceback' not in err
        assert {file.name for file in folder.iterdir()} == before
        return answer['reason']
    return run_refused


def program(folder, *arguments, **settings):
    return subprocess.run([sys.executable, '-m', 'gk_planner', *arguments], cwd=folder,
                          capture_output=True, text=True, check=False, timeout=60, **settings)


def numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, float) else []


# The real program

def test_plan_from_another_folder(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp('elsewhere')
    done = program(elsewhere, 'plan', folder / 'map.yaml', folder / 'task.yaml',
                   '--png', 'plan.png')
    assert (done.returncode, done.stderr) == (0, '')
    lines = done.stdout.splitlines()
    assert lines[0] == f'plan: 2 options, {COST:.3f} m, optimal'
    assert lines[1].split() == ['1.', 'key', '1.414', 'm', 'to', 'hook', '(0.250,', '0.250)']
    assert lines[2].split()[:2] == ['2.', 'mail']
    with Image.open(elsewhere / 'plan.png') as picture:
        picture.load()
        assert picture.format == 'PNG'


def test_infeasible_in_the_real_program(folder):
    (folder / 'task.yaml').write_text(TASK.replace('mail]\nf', 'mail, mail before key]\nf'))
    done = program(folder, 'plan', 'map.yaml', 'task.yaml', '--json')
    assert done.returncode == 3
    answer = json.loads(done.stdout)
    assert done.stderr == f'error: {answer["reason"]}\n'
    assert answer['status'] == 'infeasible'
    assert {part['name'] for part in answer['conflicts']} == {
        'key & mail', 'key before mail', 'mail before key'}


def test_bad_input_in_the_real_program(folder):
    done = program(folder, 'plan', 'map.yaml', 'nowhere.yaml')
    assert (done.returncode, done.stdout) == (2, '')
    assert done.stderr == 'error: nowhere.yaml: cannot be read: No such file or directory\n'


def test_a_reader_that_went_away_is_no_error(folder):
    command = f'"{sys.executable}" -m gk_planner plan map.yaml nowhere.yaml --json'
    done = subprocess.run(f'{command} | true; exit ${{PIPESTATUS[0]}}', shell=True, cwd=folder,
                          executable='/bin/bash', capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        'error: nowhere.yaml: cannot be read: No such file or directory']


# Output

def test_json_has_the_shape_of_the_contract(run):
    status, out, err = run('plan', 'map.yaml', 'task.yaml', '--json')
    assert (status, err) == (0, '')
    plan = json.loads(out)
    assert list(plan) == ['status', 'cost', 'optimal', 'bound', 'warnings', 'options',
                          'waypoints', 'timing_ms']
    assert plan['status'] == 'solved'
    assert plan['cost'] == plan['bound'] == pytest.approx(COST)
    assert plan['optimal'] is True
    assert plan['warnings'] == []
    assert set(plan['timing_ms']) == {'base_space', 'options', 'task'}
    first, second = plan['options']
    assert set(first) == {'goal', 'site', 'cost', 'position', 'path', 'task_state'}
    assert (first['goal'], first['site']) == ('key', 'hook')
    assert first['path'] == [[1.25, 1.25], [0.75, 0.75], [0.25, 0.25]]
    assert first['task_state'] == {'key': True, 'mail': False}
    assert second['path'][0] == first['position'] == [0.25, 0.25]
    assert second['path'][-1] == second['position'] == [3.25, 2.25]
    assert second['task_state'] == {'key': True, 'mail': True}
    assert plan['waypoints'] == [first['position'], second['position']]
    assert all(map(math.isfinite, numbers(plan)))


def test_json_above_temperature_zero(run):
    plan = json.loads(run('plan', 'map.yaml', 'task.yaml', '--json', '--temperature', '1')[1])
    assert plan['optimal'] is False
    assert plan['value'] > 0
    assert 'most probable' in run('plan', 'map.yaml', 'task.yaml', '--temperature', 1)[1]


def test_same_input_same_bytes(run):
    answers = [json.loads(run('plan', 'map.yaml', 'task.yaml', '--json')[1]) for _ in range(2)]
    for answer in answers:
        del answer['timing_ms']
    assert json.dumps(answers[0]) == json.dumps(answers[1])
    assert run('plan', 'map.yaml', 'task.yaml') == run('plan', 'map.yaml', 'task.yaml')


def test_a_task_that_is_done_already(run, folder):
    (folder / 'task.yaml').write_text(TASK + 'done: [key, mail]\n')
    status, out, _ = run('plan', 'map.yaml', 'task.yaml')
    assert status == 0
    assert out.startswith('plan: nothing to do, the formula already holds\n')
    plan = json.loads(run('plan', 'map.yaml', 'task.yaml', '--json', '--png', 'p.png')[1])
    assert (plan['cost'], plan['options'], plan['waypoints']) == (0, [], [])
    assert (folder / 'p.png').stat().st_size > 0


def test_warnings_are_printed(run, folder):
    (folder / 'task.yaml').write_text(TASK.replace('3.25, 2.25', '2.25, 2.25'))
    out = run('plan', 'map.yaml', 'task.yaml', '--snap-radius', 1)[1]
    assert "warning: site 'box' stands in a blocked cell; moved 0.5 m" in out


def test_an_undone_goal_is_marked(run, folder):
    (folder / 'task.yaml').write_text(
        TASK.replace('formula: key & mail', 'formula: "!key & mail"') + 'reversible: [key]\n')
    lines = run('plan', 'map.yaml', 'task.yaml')[1].splitlines()
    assert [line.split()[1] for line in lines[1:]] == ['key', 'mail', 'key']
    assert 'key (undone)' in lines[3]


@pytest.mark.parametrize('command', [(), ('plan',), ('explain',)])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main([*command, '--help'])
    assert left.value.code == 0
    assert 'usage: gk_planner' in capsys.readouterr().out


def test_a_full_disk_is_an_error_line(folder, monkeypatch, capsys):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, 'No space left on device')

    monkeypatch.setattr(sys, 'stdout', Full())
    assert cli.main(['plan', 'map.yaml', 'task.yaml']) == 2
    assert capsys.readouterr().err == 'error: cannot write to stdout: No space left on device\n'


def test_no_memory_is_an_error_line(run, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(cli.BaseSpace, 'from_file', fail)
    status, out, err = run('plan', 'map.yaml', 'task.yaml', '--json')
    assert (status, json.loads(out)['error']) == (2, 'LimitError')
    assert err.startswith('error: not enough memory')


# Start, settings, picture

def test_start_comes_before_that_of_the_task(run, folder):
    plan = json.loads(run('plan', 'map.yaml', 'task.yaml', '--json', '--start', 0.75, 0.25)[1])
    assert plan['options'][0]['path'] == [[0.75, 0.25], [0.25, 0.25]]
    (folder / 'task.yaml').write_text(TASK.replace('start:', '# start:'))
    assert run('plan', 'map.yaml', 'task.yaml', '--start', 0, 0)[0] == 0


def test_negative_numbers_in_any_form_are_a_start(refuse):
    for text in ('-1', '-1.', '-.5', '-1e-3'):
        reason = refuse('plan', 'map.yaml', 'task.yaml', '--start', text, '1')
        assert reason == f'start ({float(text):g}, 1) is outside the map'


@pytest.mark.parametrize('name', [spec.name for spec in dataclasses.fields(Config)])
def test_every_setting_is_a_flag(name, run, monkeypatch):
    values = {'connectivity': 4, 'unknown_is_free': True, 'occupied_threshold': 50,
              'annotations_file': 'notes.yaml', 'option_memory': 1, 'ensemble_file': 'some',
              'max_map_cells': 48,
              'max_nodes': 5, 'task_memory': 1,
              'max_iterations': 2000, 'temperature': 0.0, 'clearance_weight': 2.0}
    value = values.get(name, 0.125)
    Path('notes.yaml').write_text('keep_out: []\n')
    precompute(cli.BaseSpace.from_file('map.yaml'), 'some', [0])
    seen = {}
    build = cli.BaseSpace.from_file

    def from_file(file, **settings):
        seen.update(settings)
        return build(file, **settings)

    monkeypatch.setattr(cli.BaseSpace, 'from_file', from_file)
    flag = '--' + name.replace('_', '-')
    arguments = [flag] if value is True else [flag, value]
    for command in (('plan', 'map.yaml', 'task.yaml'), ('explain', 'task.yaml', 'map.yaml')):
        seen.clear()
        status, _, err = run(*command, *arguments)
        assert (status, err) == (0, '')
        assert seen == {name: value}
        assert type(seen[name]) is type(getattr(Config(), name))


def test_settings_change_the_plan(run):
    plan = json.loads(run('plan', 'map.yaml', 'task.yaml', '--json', '--connectivity', 4)[1])
    assert plan['cost'] == pytest.approx(0.5 * (4 + 10))
    plan = json.loads(run('plan', 'map.yaml', 'task.yaml', '--json', '--option-cost', 2)[1])
    assert plan['cost'] == pytest.approx(COST + 4)


@pytest.mark.parametrize('flag', ['--annotations', '--annotations-file'])
def test_annotations(flag, run, refuse):
    Path('notes.yaml').write_text('keep_out: [[[2, 0], [2.5, 0], [2.5, 0.5], [2, 0.5]]]\n')
    status, _, err = run('plan', 'map.yaml', 'task.yaml', flag, 'notes.yaml')
    assert status == 3
    assert "site 'box' (goal mail) cannot be reached" in err
    assert refuse('plan', 'map.yaml', 'task.yaml', flag, 'no.yaml').startswith('no.yaml: ')


def test_png_is_a_picture_and_replaces_an_old_one(run, folder):
    (folder / 'plan.png').write_text('old')
    assert run('plan', 'map.yaml', 'task.yaml', '--png', 'plan.png')[0] == 0
    with Image.open('plan.png') as picture:
        picture.load()
        assert min(picture.size) > 300
    assert sorted(file.name for file in folder.iterdir()) == [
        'map.pgm', 'map.yaml', 'plan.png', 'task.yaml']


@pytest.mark.parametrize('target', ['nowhere/plan.png', '.', '', 'map.yaml/plan.png'])
def test_png_that_cannot_be_written(target, run, folder):
    status, out, err = run('plan', 'map.yaml', 'task.yaml', '--json', '--png', target)
    assert status == 2
    assert err.startswith(f"error: '{target}': cannot write the picture: ")
    assert json.loads(out)['error'] == 'InputError'
    assert sorted(os.listdir(folder)) == ['map.pgm', 'map.yaml', 'task.yaml']


def test_no_png_of_an_infeasible_task(run, folder):
    (folder / 'task.yaml').write_text(REDS)
    assert run('plan', 'map.yaml', 'task.yaml', '--png', 'plan.png')[0] == 3
    assert not (folder / 'plan.png').exists()


# Bad usage

@pytest.mark.parametrize(('arguments', 'words'), [
    ((), 'required: COMMAND'),
    (('paln',), "invalid choice: 'paln'"),
    (('plan', 'map.yaml'), 'required: TASK.yaml'),
    (('plan', 'map.yaml', 'task.yaml', 'more'), "unknown argument 'more'"),
    (('plan', 'map.yaml', 'task.yaml', '--robot-raduis', '1'), "did you mean '--robot-radius'?"),
    (('plan', 'map.yaml', 'task.yaml', '--robot-radius', 'x'), '--robot-radius: invalid float'),
    (('plan', 'map.yaml', 'task.yaml', '--robot-radius', 'nan'), 'robot_radius: must be finite'),
    (('plan', 'map.yaml', 'task.yaml', '--robot-radius', '-1'), 'robot_radius: must be at least'),
    (('plan', 'map.yaml', 'task.yaml', '--connectivity', '5'), 'connectivity: must be one of'),
    (('plan', 'map.yaml', 'task.yaml', '--start', '1'), '--start: expected 2 arguments'),
    (('plan', 'map.yaml', 'task.yaml', '--start', 'nan', '1'), 'start[0]: must be finite'),
    (('plan', 'map.yaml', 'task.yaml', '--start', '2.25', '2'), 'is in a blocked cell'),
    (('plan', 'map.yaml', 'task.yaml', '--max-map-cells', '47'), '8 x 6'),
    (('plan', 'map.yaml', 'task.yaml', '--task-memory', '0', '--temperature', '1'),
     'raise task_memory'),
    (('plan', '.', 'task.yaml'), '.: cannot be read'),
    (('plan', 'task.yaml', 'map.yaml'), "task.yaml: the key 'image' is missing"),
    (('plan', 'map.pgm', 'task.yaml'), 'map.pgm: not UTF-8 text'),
])
def test_bad_usage(arguments, words, run):
    status, out, err = run(*arguments, '--json')
    assert status == 2
    assert err.startswith('error: ')
    assert words in err.splitlines()[0]
    assert json.loads(out)['status'] == 'error'
    assert run(*arguments)[:2] == (2, '')


# Bad maps

@pytest.mark.parametrize(('field', 'value', 'words'), [
    ('image', 'gone.pgm', 'image: cannot read gone.pgm: No such file'),
    ('image', '.', 'image: cannot read .: Is a directory'),
    ('image', '3', 'image: expected a file name'),
    ('mode', 'foo', "mode: must be one of trinary, scale, raw, got 'foo'"),
    ('mode', '[raw]', 'mode: must be one of'),
    ('resolution', '0', 'resolution: must be greater than 0, got 0'),
    ('resolution', '-0.05', 'resolution: must be greater than 0, got -0.05'),
    ('resolution', '.nan', 'resolution: must be finite, got nan'),
    ('resolution', 'fine', "resolution: expected a number, got the text 'fine'"),
    ('resolution', 'true', 'resolution: expected a number, got True'),
    ('origin', '[0, 0]', 'origin: expected [x, y, yaw], got [0, 0]'),
    ('negate', '2', 'negate: must be 0 or 1, got 2'),
    ('ocupied_thresh', '0.7', "unknown key 'ocupied_thresh'; did you mean 'occupied_thresh'?"),
])
def test_bad_map_fields(field, value, words, refuse, folder):
    fields = {'image': 'map.pgm', 'resolution': '0.5', 'origin': '[0, 0, 0]', field: value}
    (folder / 'bad.yaml').write_text(''.join(f'{k}: {v}\n' for k, v in fields.items()))
    assert refuse('plan', 'bad.yaml', 'task.yaml').startswith(f'bad.yaml: {words}')


def png():
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (40, 40), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, 'PNG')
    return buffer.getvalue()


@pytest.mark.parametrize(('content', 'words'), [
    (b'', 'is not a complete PGM or PNG image'),
    (b'GIF89a....', 'is not a complete PGM or PNG image'),
    (b'P5\n8 6\n255\n' + bytes(40), 'cannot read image: image file is truncated'),
    (b'P5\n800 600\n255\n' + bytes(48), 'cannot read image: image file is truncated'),
    (b'P5\n10000 10000\n255\n' + bytes(48), 'cannot read image: image file is truncated'),
    (b'P5\n90000 90000\n255\n' + bytes(48), 'image has 90000 x 90000 pixels; at most 100000000'),
    (b'P5\n0 6\n255\n', 'is not a complete PGM or PNG image of at least one pixel'),
    (b'Pf\n8 6\n-1.0\n' + bytes(192), 'floating point'),
    (png()[:30], 'is not a complete PGM or PNG image'),
    (png()[:900], 'image file is truncated'),
], ids=['empty', 'gif', 'short', 'lying header', 'lying header, 100 MB', 'huge header',
        'no columns', 'float', 'png header', 'png data'])
def test_bad_images(content, words, refuse, folder):
    (folder / 'image').write_bytes(content)
    (folder / 'bad.yaml').write_text('image: image\nresolution: 0.5\norigin: [0, 0, 0]\n')
    reason = refuse('plan', 'bad.yaml', 'task.yaml')
    assert reason.startswith('bad.yaml: image: ')
    assert words in reason


def bomb():
    lines = [f'{name}: &{name} [{", ".join([f"*{inner}"] * 9)}]'
             for inner, name in pairwise('abcdefghi')]
    return '\n'.join([f'a: &a [{", ".join("x" * 9)}]', *lines])


@pytest.mark.parametrize(('text', 'words'), [
    ('- a\n- b\n', "the top level must be a mapping (field: value), found ['a', 'b']"),
    ('hello\n', "the top level must be a mapping (field: value), found 'hello'"),
    ('', 'the top level must be a mapping (field: value), found nothing'),
    ('a: [b\n', 'line 2: not valid YAML'),
    (bomb(), 'f: its aliases stand for more than 200000 values (line 6)'),
    ('a: &a [*a]\n', 'a[0]: an alias stands inside the value that it names (line 1)'),
    ('a: !!python/object/apply:os.system [ls]\n', 'a: '),
    ('[' * 5000, 'nested deeper than 100 levels'),
    ('x: [' + 'a, ' * 17_000_000 + ']\n', 'larger than 8388608 bytes'),
    ('x: [' + 'a, ' * 2_700_000 + ']\n', 'more than 200000 values'),
], ids=['list', 'text', 'empty', 'open', 'bomb', 'loop', 'tag', 'deep', '50 MB', '8 MB'])
def test_bad_yaml(text, words, refuse, folder):
    (folder / 'bad.yaml').write_text(text)
    began = time.perf_counter()
    assert refuse('plan', 'bad.yaml', 'task.yaml').startswith(f'bad.yaml: {words}')
    assert refuse('plan', 'map.yaml', 'bad.yaml').startswith(f'bad.yaml: {words}')
    assert time.perf_counter() - began < 5


# Bad tasks

@pytest.mark.parametrize(('old', 'new', 'words'), [
    ('formula', 'formulas', "unknown key 'formulas'; did you mean 'formula'?"),
    ('position', 'postion', "sites[0]: unknown key 'postion'; did you mean 'position'?"),
    ('name: box', 'name: hook', "sites[1].name: the name 'hook' is already in use"),
    ('start:', 'goals: {a: [key], a: [mail]}\nstart:', 'goals.a: this key is given twice'),
    ('start:', 'goals: {a: [key], b: [key]}\nstart:', 'goals.b: the feature set'),
    ('name: box', 'name: no', 'sites[1].name: expected a name, got False; YAML reads this as '
     'bool; quote it'),
    ('name: box', 'name: 1', 'sites[1].name: expected a name, got 1'),
    ('name: box', 'name: a b', "sites[1].name: 'a b' is not a name"),
    ('[mail]', '[on]', 'sites[1].features[0]: expected a name, got True'),
    ('[mail]', 'mail', "sites[1].features: expected a list, got 'mail'"),
    ('[mail]', '[]', 'sites[1].features: give at least one feature'),
    ('start:', 'goals: {on: [key]}\nstart:', "goals: YAML reads the key 'on' as bool"),
    ('key before', 'kye before', "constraints[0]: no site or goal carries the feature 'kye'; "
     "did you mean 'key'?"),
    ('key before', 'key befor', "constraints[0]: expected 'X before Y'"),
    ('3.25, 2.25', '30, 2', "sites[1].position: site 'box' at (30, 2) is outside the map"),
    ('3.25, 2.25', '.nan, 2', 'sites[1].position[0]: must be finite, got nan'),
    ('3.25, 2.25', '3.25', 'sites[1].position: expected a point [x, y], got [3.25]'),
    (', position: [3.25, 2.25]', '', "sites[1]: site 'box' needs a position or a region"),
    ('position: [3.25, 2.25]', 'region: [[3, 2], [3, 3]]',
     'sites[1].region: a polygon needs at least 3 different points, got 2'),
    ('position: [3.25, 2.25]', 'region: [[3, 2], [4, 3], [4, 2], [3, 3]]',
     'sites[1].region: a polygon must enclose an area and not cross itself'),
    ('[1.25, 1.25]', '[1.25]', 'start: expected a point [x, y], got [1.25]'),
    ('start:', '# start:', 'no start; give --start X Y or start in the task'),
    ('start:', 'trigger: touch\nstart:', "trigger: must be 'action' or 'contact', got 'touch'"),
    ('start:', 'done: [kye]\nstart:', "done[0]: unknown goal 'kye'; did you mean 'key'?"),
    ('formula: key', 'formula: !key', "formula: YAML reads '!key' as a tag"),
    ('formula: key & mail', 'formula: 1', 'formula: expected text, got 1; quote it'),
])
def test_bad_tasks(old, new, words, refuse, folder):
    assert old in TASK
    (folder / 'bad.yaml').write_text(TASK.replace(old, new, 1))
    assert refuse('plan', 'map.yaml', 'bad.yaml').startswith(f'bad.yaml: {words}')


@pytest.mark.parametrize(('place', 'words'), [
    ('[-1, 1]', 'start (-1, 1) is outside the map'),
    ('[2.25, 1.25]', 'start (2.25, 1.25) is in a blocked cell'),
])
def test_bad_starts(place, words, refuse, folder):
    (folder / 'bad.yaml').write_text(TASK.replace('[1.25, 1.25]', place))
    assert words in refuse('plan', 'map.yaml', 'bad.yaml')


@pytest.mark.parametrize(('formula', 'words', 'column'), [
    ('key &', "expected a goal, '!', '(', true or false, got the end", 5),
    ('key & (mail', "'(' is never closed", 6),
    ('key mail', 'expected an operator', 4),
    ('key = mail', "unexpected character '='", 4),
    ('key & maul', "unknown goal 'maul'; did you mean 'mail'?", 6),
    ('any(kye)', "unknown feature 'kye' in any(feature); did you mean 'key'?", 4),
])
def test_formula_errors_have_a_caret(formula, words, column, run, folder):
    (folder / 'bad.yaml').write_text(TASK.replace('key & mail', formula))
    status, out, err = run('plan', 'map.yaml', 'bad.yaml')
    assert (status, out) == (2, '')
    message, line, caret = err.splitlines()
    assert message.startswith(f'error: bad.yaml: formula: {words}')
    assert (line, caret) == (formula, ' ' * column + '^')


def test_a_bare_feature_is_told_about_any(refuse, folder):
    (folder / 'bad.yaml').write_text(REDS.replace('atleast(5, red)', 'red'))
    assert 'any(red)' in refuse('plan', 'map.yaml', 'bad.yaml')


# Infeasible

@pytest.mark.parametrize(('text', 'words', 'conflicts'), [
    (REDS, "the formula 'atleast(5, red)' can never hold", {('formula', 'atleast(5, red)')}),
    (TASK.replace('3.25, 2.25', '2.25, 2.25'), "site 'box' (goal mail) ",
     {('formula', 'key & mail'), ('site', 'box')}),
    (TASK.replace('& mail', '& mail & tea') + 'goals: {tea: [tea]}\n', "no site carries 'tea'",
     {('formula', 'key & mail & tea'), ('feature', 'tea')}),
])
def test_infeasible_tasks_are_explained(text, words, conflicts, run, folder):
    (folder / 'task.yaml').write_text(text)
    status, out, err = run('plan', 'map.yaml', 'task.yaml', '--json')
    answer = json.loads(out)
    assert (status, answer['status']) == (3, 'infeasible')
    assert set(answer) == {'status', 'reason', 'conflicts'}
    assert words in answer['reason']
    assert err == f'error: {answer["reason"]}\n'
    assert {(part['kind'], part['name']) for part in answer['conflicts']} == conflicts
    assert run('plan', 'map.yaml', 'task.yaml')[:2] == (3, '')


@pytest.mark.parametrize('workers', [[], ['--workers', 2]])
def test_precompute(run, workers):
    status, out, err = run('precompute', 'map.yaml', 'all', *workers)
    assert (status, out, err) == (0, 'all: 43 options on 48 cells, 0.0246 MB\n', '')
    assert len(Ensemble('all')) == 43
    status, out, _ = run('precompute', 'map.yaml', 'all', '--json')
    assert status == 0 and json.loads(out) == {
        'status': 'solved', 'file': 'all', 'options': 43, 'cells': 48, 'bytes': 24576}
    plans = [json.loads(run('plan', 'map.yaml', 'task.yaml', '--json', *more)[1])
             for more in ([], ['--ensemble-file', 'all'])]
    assert plans[0]['options'] == plans[1]['options'] and plans[1]['warnings'] == []


def test_precompute_for_the_sites_of_tasks(run):
    status, out, _ = run('precompute', 'map.yaml', 'some', '--task', 'task.yaml', '--temperature',
                         0.5)
    assert (status, out) == (0, 'some: 2 options on 48 cells, 0.0287 MB\n')
    assert list(Ensemble('some')) == [0, 38]
    Path('other.yaml').write_text(TASK.replace('[0.25, 0.25]', '[0.75, 0.25]'))
    run('precompute', 'map.yaml', 'both', '--task', 'task.yaml', '--task', 'other.yaml')
    assert list(Ensemble('both')) == [0, 1, 38]
    warning, = json.loads(run('plan', 'map.yaml', 'task.yaml', '--json', '--ensemble-file',
                              'some')[1])['warnings']
    assert warning.startswith("ensemble_file 'some' was made for another map or other settings")


def test_precompute_on_a_dask_cluster(run):
    pytest.importorskip('distributed')
    status, out, err = run('precompute', 'map.yaml', 'all', '--dask', '--workers', 2)
    assert (status, out) == (0, 'all: 43 options on 48 cells, 0.0246 MB\n'), err


@pytest.mark.parametrize(('arguments', 'words'), [
    (['gone.yaml', 'all'], 'gone.yaml'), (['map.yaml', 'no/all'], 'no/all: cannot be written'),
    (['map.yaml', 'task.yaml'], 'task.yaml: is no ensemble'),
    (['map.yaml', 'all', '--task', 'gone.yaml'], 'gone.yaml'),
    (['map.yaml', 'all', '--workers', '0'], '--workers: 0 is less than 1'),
    (['map.yaml', 'all', '--dask', 'nonsense'], '--dask: no scheduler at nonsense')])
def test_precompute_refuses(run, folder, arguments, words):
    before = {file.name for file in folder.iterdir()}
    status, out, err = run('precompute', *arguments, '--json')
    assert status == 2 and words in json.loads(out)['reason'] and err.startswith('error: ')
    assert {file.name for file in folder.iterdir()} == before


def test_dask_that_is_not_installed(run, monkeypatch):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    status, _, err = run('precompute', 'map.yaml', 'all', '--dask')
    assert status == 2 and "pip install 'gk_planner[dask]'" in err


def test_an_interrupted_precompute_goes_on(folder):
    """Interrupted once the bar shows options; the second run has less to do."""
    OccupancyMap(np.zeros((100, 100), dtype=np.int8), 0.5).save(folder / 'large.yaml')
    command = [sys.executable, '-m', 'gk_planner', 'precompute', 'large.yaml', 'all', '--workers',
               '2']
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    while not (Path(folder, 'all').exists() and len(Ensemble(folder / 'all'))):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, b''), err
    assert err.splitlines()[-1] == b'error: interrupted' and b'Traceback' not in err
    solved = len(Ensemble(folder / 'all'))
    assert 0 < solved < 100 * 100
    subprocess.run(command[:-2], cwd=folder, check=True, capture_output=True)
    assert len(Ensemble(folder / 'all')) == 100 * 100
