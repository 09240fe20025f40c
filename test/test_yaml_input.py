"""Reading YAML files that may be wrong, hostile or merely surprising."""

import math
import time

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
import yaml

from gk_planner import yaml_input
from gk_planner.errors import InputError, TaskError


@pytest.fixture
def load(tmp_path):
    def write_and_load(content, **options):
        path = tmp_path / 'task.yaml'
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return yaml_input.load_mapping(path, TaskError, **options)
    return write_and_load


@pytest.fixture
def refuse(load, tmp_path):
    def message_of(content, **options):
        with pytest.raises(TaskError) as caught:
            load(content, **options)
        message = caught.value.message
        assert message.startswith(f'{tmp_path / "task.yaml"}: ')
        assert '\n' not in message
        assert len(message) < len(str(tmp_path)) + 350
        return message.removeprefix(f'{tmp_path / "task.yaml"}: ')
    return message_of


def test_plain_file(load):
    assert load('a: [1, 2.5, x]\nb: {c: true, d: null}\n') == {
        'a': [1, 2.5, 'x'], 'b': {'c': True, 'd': None}}


def test_byte_order_mark_and_empty_mapping(load):
    assert load(b'\xef\xbb\xbfa: 1\n') == {'a': 1}
    assert load('{}') == {}


def test_missing_file_directory_and_null_byte(tmp_path):
    for path, reason in ((tmp_path / 'none.yaml', 'No such file'), (tmp_path, 'directory'),
                         ('a\0b', 'null')):
        with pytest.raises(TaskError, match=reason):
            yaml_input.load_mapping(path, TaskError)


def test_path_is_shown_as_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError, match=r'^none\.yaml: '):
        yaml_input.load_mapping('none.yaml', TaskError)


def test_large_file_is_refused_at_once(refuse):
    begin = time.perf_counter()
    assert 'larger than 8388608 bytes' in refuse(b'a: 1\n' * 10_000_000)
    assert time.perf_counter() - begin < 2
    assert 'larger than 10 bytes' in refuse('a: 12345678', max_bytes=10)


def test_endless_file_is_read_with_a_bound():
    with pytest.raises(TaskError, match='larger than 1000 bytes'):
        yaml_input.load_mapping('/dev/zero', TaskError, max_bytes=1000)


def test_not_utf8(refuse):
    assert 'not UTF-8' in refuse(b'a: \xff\xfe')


def test_syntax_error_has_line_and_caret(load):
    with pytest.raises(TaskError, match='line 2: not valid YAML') as caught:
        load('a: 1\nb: c: d\n')
    line, caret = caught.value.detail.split('\n')
    assert line == 'b: c: d'
    assert line[caret.index('^')] == ':'


def test_control_characters(refuse):
    assert 'not valid YAML' in refuse('a: \x01')


def test_several_documents(refuse):
    assert 'several YAML documents' in refuse('a: 1\n---\nb: 2\n')


@pytest.mark.parametrize('content', ['', '# only a comment\n', '- 1\n', 'word\n', '---\n'])
def test_top_level_must_be_a_mapping(refuse, content):
    assert 'top level must be a mapping' in refuse(content)


@pytest.mark.parametrize('content, field', [
    ('a: 1\nb: 2\na: 3\n', 'a: this key is given twice (line 3)'),
    ('s:\n - {x: 1, y: 2, x: 3}\n', 's[0].x: this key is given twice (line 2)'),
    ('a: 1\n"a": 2\n', 'a: this key is given twice (line 2)'),
])
def test_duplicate_keys(refuse, content, field):
    assert refuse(content) == field


@pytest.mark.parametrize('content', ['on: 1', '1: 2', 'a: {no: 1}', '~: 1', '2.5: 1'])
def test_keys_are_names(refuse, content):
    assert 'quote it' in refuse(content)


@pytest.mark.parametrize('content', ['? [a, b]\n: 1\n', '<<: {a: 1}', '=: 1', '? {a: 1}\n: 1\n'])
def test_other_keys_are_refused(refuse, content):
    refuse(content)


@pytest.mark.parametrize('value', [
    '!coffee & mail', '!coffee', '!coffee | mail', '!coffee -> mail', '!(coffee & mail)',
    '! coffee & mail', '! (coffee)', '&x ! coffee', '!\n  coffee', '!coffee & !mail'])
def test_negation_is_not_a_tag(refuse, value):
    message = refuse(f'sites: []\nformula: {value}\ndone: []\n')
    assert message.startswith('formula: YAML reads ')
    assert 'as a tag' in message
    assert 'quote' in message
    assert "'not'" in message
    assert '(line 2)' in message or '\n' in value


def test_tag_deeper_down(refuse):
    assert refuse('a: [x, !y z]').startswith('a[1]: YAML reads ')


def test_negation_quoted_or_inside(load):
    assert load('a: "!coffee & mail"\nb: mail & !coffee\nc: !!str 5') == {
        'a': '!coffee & mail', 'b': 'mail & !coffee', 'c': '5'}


@pytest.mark.parametrize('value', [
    '!!python/object/apply:os.system [ls]', '!!set {a}', '!!binary aGk=', '=', '<<',
    '!!int x', '!!bool maybe', '!!float x', '2024-13-45', '9' * 5000, '!!str [a]',
    '*nothing', '@x', '`x'])
def test_values_without_meaning(refuse, value):
    refuse(f'field: {value}\n')


def test_alias_is_fine_in_small_numbers(load):
    assert load('a: &x [1, 2]\nb: *x\n') == {'a': [1, 2], 'b': [1, 2]}


@pytest.mark.parametrize('content', ['formula: &coffee mail', 'done: [&a b]'])
def test_an_anchor_that_nothing_refers_to_is_a_formula_without_quotes(refuse, content):
    assert 'as an anchor, because it starts with &' in refuse(content)


def test_alias_bomb(refuse):
    lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
    lines += [f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 9)}]' for i in range(1, 40)]
    begin = time.perf_counter()
    assert 'aliases stand for more than 200000 values' in refuse('\n'.join(lines))
    assert time.perf_counter() - begin < 2


def test_expanded_size_is_counted_exactly(load, refuse, monkeypatch):
    content = 'a: &x [1, 2, 3]\nb: [*x, *x]\n'  # 1 + 4 + (1 + 4 + 4)
    monkeypatch.setattr(yaml_input, 'MAX_NODES', 14)
    load(content)
    monkeypatch.setattr(yaml_input, 'MAX_NODES', 13)
    refuse(content)


def test_long_chain_of_aliases(refuse):
    lines = ['a0: &a0 [x]'] + [f'a{i}: &a{i} [*a{i - 1}]' for i in range(1, 5000)]
    assert 'nest deeper' in refuse('\n'.join(lines))


@pytest.mark.parametrize('content', ['a: &x [*x]', 'a: &x {b: [1, *x]}', '&x {a: *x}'])
def test_recursive_alias(refuse, content):
    assert 'alias' in refuse(content)


@pytest.mark.parametrize('content', [
    'a: ' + '[' * 2_000_000, 'a: ' + '[' * 500 + ']' * 500, 'a: ' + '{b: ' * 100_000,
    '- ' * 100_000, '? ' * 100_000], ids=['flow', 'closed', 'mappings', 'block', 'keys'])
def test_deep_nesting(refuse, content):
    assert 'nested deeper than 100' in refuse(content)


def test_many_values(refuse):
    assert 'more than 200000 values' in refuse('a: [' + '1,' * 2_000_000 + ']')


def test_without_the_c_loader(load, refuse, monkeypatch):
    monkeypatch.setattr(yaml_input, '_Loader', yaml.SafeLoader)
    assert load('a: [1, {b: c}]') == {'a': [1, {'b': 'c'}]}
    assert 'as a tag' in refuse('formula: !coffee & mail')
    assert 'as a tag' in refuse('formula: ! coffee & mail')
    assert 'nested deeper' in refuse('a: ' + '[' * 500)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text('!&*[]{}:,-?|>\'"%@#ab1 \n~<=.', max_size=40)))
def test_any_content_gives_a_mapping_or_an_input_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / 'any.yaml'
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    try:
        assert isinstance(yaml_input.load_mapping(path, TaskError), dict)
    except TaskError as error:
        assert error.message.startswith(f'{path}: ')
        assert '\n' not in error.message


def check(function, value, *arguments, **options):
    with pytest.raises(InputError) as caught:
        function(value, 'sites[2].x', *arguments, InputError, **options)
    assert caught.value.message.startswith('sites[2].x')
    assert '\n' not in caught.value.message
    assert len(caught.value.message) < 300
    return caught.value.message


def test_check_keys_names_the_nearest():
    with pytest.raises(TaskError) as caught:
        yaml_input.check_keys({'fromula': 1}, ('sites', 'formula'), 'task.yaml', TaskError)
    assert caught.value.message == (
        "task.yaml: unknown key 'fromula'; did you mean 'formula'? known keys: sites, formula")
    yaml_input.check_keys({'sites': 1}, ('sites', 'formula'), 'task.yaml', TaskError)
    with pytest.raises(TaskError, match=r"unknown key 3; known keys"):
        yaml_input.check_keys({3: 1}, ('sites',), 'task.yaml', TaskError)


def test_required():
    assert yaml_input.required({'a': None}, 'a', 'f', TaskError) is None
    with pytest.raises(TaskError, match="f: the key 'a' is missing"):
        yaml_input.required({}, 'a', 'f', TaskError)


def test_number():
    result = yaml_input.number(np.float32(0.5), 'x', InputError)
    assert result == 0.5
    assert type(result) is float
    assert type(yaml_input.number(np.int64(3), 'x', InputError)) is float
    assert yaml_input.number(1, 'x', InputError, low=1) == 1.0


@pytest.mark.parametrize('value', [
    True, np.True_, None, 'x', '1.5', math.nan, math.inf, -math.inf, 10**400, [1], {},
    1j])
def test_not_a_number(value):
    check(yaml_input.number, value)


def test_integer_too_long_to_print():
    check(yaml_input.number, 10**5000)
    check(yaml_input.point, 10**5000)


def test_number_out_of_range():
    assert 'at least 1' in check(yaml_input.number, 0.5, low=1)
    assert 'greater than 0' in check(yaml_input.number, 0, above=0)


def test_numbers_that_only_yaml_1_1_takes_for_text(load):
    assert load("a: [1e3, -5e-2, +.5E+1, 1.e0, '1e3', e3, 1e, 0x1e3, 1e3x]") == {
        'a': [1000.0, -0.05, 5.0, 1.0, '1e3', 'e3', '1e', 0x1e3, '1e3x']}
    assert load('a: !!str 1e3') == {'a': '1e3'}


def test_number_as_text_tells_how_to_write_it():
    assert 'without quotes' in check(yaml_input.number, '5e-2')


def test_name():
    assert yaml_input.name('_a.b9', 'x', InputError) == '_a.b9'
    assert 'YAML reads this as bool; quote it' in check(yaml_input.name, True)
    assert 'YAML reads this as int; quote it' in check(yaml_input.name, 1)
    assert 'YAML reads this as nothing; quote it' in check(yaml_input.name, None)
    for value in ('', 'a b', '1a', 'a\n', '.a', 'é', 'a-b', 'x' * 100_000 + ' ', 16**9999):
        check(yaml_input.name, value)


def test_point():
    assert yaml_input.point((1, 2.5), 'x', InputError) == (1.0, 2.5)
    assert yaml_input.point(np.array([1.0, 2.0]), 'x', InputError) == (1.0, 2.0)
    for value in ([1], [1, 2, 3], 'ab', None, {'x': 1, 'y': 2}, [[1, 2]], 3):
        check(yaml_input.point, value)
    assert check(yaml_input.point, [1, 'a']).startswith('sites[2].x[1]: ')


def test_polygon():
    square = [[0, 0], [2, 0], [2, 1], [0, 1]]
    corners = ((0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (0.0, 1.0))
    assert yaml_input.polygon(square, 'x', InputError) == corners
    assert yaml_input.polygon([*square, [0, 0]], 'x', InputError) == corners


@pytest.mark.parametrize('value, reason', [
    ([[0, 0], [1, 1]], 'at least 3'),
    ([[0, 0], [1, 1], [0, 0]], 'at least 3'),
    ([], 'at least 3'),
    ([[0, 0], [1, 1], [2, 2]], 'area'),
    ([[0, 0], [1, 1], [1, 0], [0, 1]], 'Self-intersection[0.5 0.5]'),
    ([[0, 0], [1e300, 0], [0, 1e300]], 'area'),
    ('abc', 'list'),
    ([[0, 0], [1, math.nan], [1, 1]], 'finite'),
])
def test_bad_polygon(value, reason):
    assert reason in check(yaml_input.polygon, value)


def test_polyline():
    assert yaml_input.polyline([[0, 0], [1, 0], [0, 0]], 'x', InputError) == (
        (0.0, 0.0), (1.0, 0.0), (0.0, 0.0))
    assert 'at least 2' in check(yaml_input.polyline, [[0, 0]])
    assert check(yaml_input.polyline, [[0, 0], [1, 0], [1, 0]]).startswith('sites[2].x[2]: ')


def test_mapping_and_sequence():
    assert yaml_input.mapping({'a': 1}, 'x', InputError) == {'a': 1}
    assert yaml_input.sequence((1, 2), 'x', InputError) == [1, 2]
    check(yaml_input.mapping, [1])
    for value in ('ab', {'a': 1}, None, 3):
        check(yaml_input.sequence, value)


def test_messages_stay_short():
    assert len(yaml_input.shorten([['x' * 1000] * 1000] * 1000)) <= 100
    assert '\n' not in yaml_input.shorten(np.zeros((50, 50)))
