import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from gk_planner.errors import FormulaError
from gk_planner.formula import Formula, MAX_DEPTH, parse

NAMES = ('a', 'b', 'c', 'd', 'red.r1', 'red.r2', 'red.r3')
FEATURES = {'red': (4, 5, 6), 'solo': (0,)}
STATES = list(itertools.product((False, True), repeat=4))


def read(text):
    return parse(text, NAMES, FEATURES)


def table(text):
    """Truth table over a, b, c, d; the red goals are false."""
    return [read(text).holds((*state, False, False, False)) for state in STATES]


def error_of(text):
    with pytest.raises(FormulaError) as caught:
        read(text)
    assert '\n' not in caught.value.message
    assert caught.value.message.startswith('formula: ')
    return caught.value


def caret(error):
    line, pointer = error.detail.split('\n')
    assert pointer.strip() == '^'
    return line, len(pointer) - 1


@pytest.mark.parametrize(('short', 'explicit'), [
    ('!a & b', '(!a) & b'),
    ('a & b ^ c', '(a & b) ^ c'),
    ('a ^ b | c', '(a ^ b) | c'),
    ('a | b ^ c & d', 'a | (b ^ (c & d))'),
    ('a | b -> c', '(a | b) -> c'),
    ('a -> b | c', 'a -> (b | c)'),
    ('a -> b -> c', 'a -> (b -> c)'),
    ('a -> b -> c -> d', 'a -> (b -> (c -> d))'),
    ('a <-> b -> c', 'a <-> (b -> c)'),
    ('a -> b <-> c', '(a -> b) <-> c'),
    ('a <-> b <-> c', '(a <-> b) <-> c'),
    ('a <-> b <-> c <-> d', '((a <-> b) <-> c) <-> d'),
    ('a ^ b ^ c', '(a ^ b) ^ c'),
    ('a xor b and not c or d', '(a ^ (b & (!c))) | d'),
    ('not a and b', '!a & b'),
    ('not(a)or(b)', '!a | b'),
    ('!!a', 'a'),
    ('a\n  &\tb', 'a & b'),
])
def test_binding(short, explicit):
    assert table(short) == table(explicit)


@pytest.mark.parametrize(('text', 'meaning'), [
    ('a -> b', lambda a, b, c, d: not a or b),
    ('a <-> b', lambda a, b, c, d: a == b),
    ('a <-> b <-> c', lambda a, b, c, d: (a == b) == c),
    ('a ^ b ^ c', lambda a, b, c, d: (a + b + c) % 2 == 1),
    ('(a -> b) -> c', lambda a, b, c, d: not (not a or b) or c),
    ('true', lambda *_: True),
    ('a & false', lambda *_: False),
    ('any(solo)', lambda a, *_: a),
])
def test_truth_table(text, meaning):
    assert table(text) == [meaning(*state) for state in STATES]


@pytest.mark.parametrize(('text', 'meaning'), [
    ('all(red)', lambda n: n == 3),
    ('any(red)', lambda n: n >= 1),
    ('atleast(2, red)', lambda n: n >= 2),
    ('atleast(0, red)', lambda n: True),
    ('atleast(5, red)', lambda n: False),
    ('atmost(1, red)', lambda n: n <= 1),
    ('atmost( 9 , red )', lambda n: True),
    ('exactly(2, red)', lambda n: n == 2),
    ('! exactly (0, red)', lambda n: n != 0),
])
def test_counts(text, meaning):
    for reds in itertools.product((False, True), repeat=3):
        assert read(text).holds((False,) * 4 + reds) is meaning(sum(reds))


def test_function_name_is_a_goal_unless_called():
    formula = parse('any & any(red)', ('any', 'x'), {'red': (1,)})
    assert formula.support() == {0, 1}
    assert formula.holds((True, True)) and not formula.holds((False, True))


@pytest.mark.parametrize(('text', 'column', 'words'), [
    ('', 0, ['empty']),
    ('  \n ', 0, ['empty']),
    ('a & red.r4', 4, ['unknown goal', "'red.r4'", 'did you mean']),
    ('a & red', 4, ["did you mean 'any(red)'?"]),
    ('any(rd)', 4, ["unknown feature 'rd'", "did you mean 'red'?"]),
    ('any(b)', 4, ["unknown feature 'b'"]),
    ('a b', 2, ['operator', "'b'"]),
    ('a !b', 2, ['operator', "'!'"]),
    ('a AND b', 2, ['operator', "'AND'"]),
    ('a &', 3, ['expected a goal', 'the end']),
    ('a && b', 3, ['expected a goal', "'&'"]),
    ('& a', 0, ['expected a goal']),
    ('(a & b', 0, ["'(' is never closed"]),
    ('(a b)', 3, ["')'"]),
    ('a & b)', 5, ["')' without '('"]),
    ('()', 1, ['expected a goal']),
    ('a = b', 2, ["unexpected character '='"]),
    ('a & é', 4, ['unexpected character']),
    ('a & 1', 4, ["'1'"]),
    ('atleast(-1, red)', 8, ['whole number', "'-1'"]),
    ('atleast(1.5, red)', 8, ['whole number', "'1.5'"]),
    ('atleast(red)', 8, ['atleast(k, feature)', 'whole number']),
    ('atleast(2 red)', 10, ["','"]),
    ('atleast(2,', 10, ['expected a feature', 'the end']),
    ('atmost(' + '9' * 5000 + ', red)', 7, ['whole number']),
    ('any(2, red)', 4, ['any(feature)', 'expected a feature']),
    ('any(red', 3, ['never closed']),
    ('any()', 4, ['expected a feature']),
    ('some(red)', 0, ["unknown function 'some'"]),
    ('a\t& x', 4, ['unknown goal']),
])
def test_errors(text, column, words):
    error = error_of(text)
    assert caret(error)[1] == column
    for word in words:
        assert word in error.message


def test_detail_shows_the_offending_line_only():
    assert caret(error_of('a &\n  bb &\n c')) == ('  bb &', 2)


def test_detail_of_a_long_line_is_cut_around_the_caret():
    error = error_of('a & ' * 1000 + 'nope & a')
    line, column = caret(error)
    assert line[column:].startswith('nope') and len(line) < 100


def test_messages_stay_short():
    assert len(error_of('x' * 100_000).message) < 200


def test_messages_start_with_where():
    with pytest.raises(FormulaError, match=r'^office\.yaml: formula: unknown goal'):
        parse('x', ('a',), {}, 'office.yaml: formula')


@pytest.mark.parametrize('text', [
    '(' * 10_000 + 'a' + ')' * 10_000, '!' * 10_000 + 'a', 'not ' * 10_000 + 'a',
    '!(' * 10_000 + 'a' + ')' * 10_000, '(a | b & c ^ d & ' * 10_000])
def test_deep_nesting_is_refused(text):
    assert f'more than {MAX_DEPTH} levels' in error_of(text).message


def test_the_deepest_accepted_nesting_can_be_used():
    wraps = MAX_DEPTH // 3
    formula = read('!(c <-> ' * wraps + 'a' + ')' * wraps)
    assert formula.polarity[0] == {1, -1}
    assert isinstance(formula.holds([True] * 7), bool)
    assert hash(formula) == hash(read(formula.text)) and formula == read(formula.text)


@pytest.mark.parametrize(('symbol', 'expected'), [
    ('&', False), ('|', True), ('^', False), ('->', False), ('<->', False)])
def test_long_chains(symbol, expected):
    names = [f'g{i}' for i in range(10_001)]
    formula = parse(f' {symbol} '.join(names), names, {})
    assert len(formula.support()) == 10_001
    # all true but the last: 10,000 is even, and the last implication fails
    assert formula.holds([True] * 10_000 + [False]) is expected


def test_support_is_syntactic():
    assert read('a | !a | true & atleast(0, red)').support() == {0, 4, 5, 6}
    assert read('c & a & c').goals_in_order() == (2, 0)
    assert read('true').support() == frozenset()


@pytest.mark.parametrize(('text', 'signs'), [
    ('a & !b', {0: {1}, 1: {-1}}),
    ('!(a & !b)', {0: {-1}, 1: {1}}),
    ('a -> b', {0: {-1}, 1: {1}}),
    ('a ^ b', {0: {1, -1}, 1: {1, -1}}),
    ('!(a <-> b)', {0: {1, -1}, 1: {1, -1}}),
    ('a | !a', {0: {1, -1}}),
    ('all(red)', {4: {1}, 5: {1}, 6: {1}}),
    ('atmost(1, red)', {4: {-1}, 5: {-1}, 6: {-1}}),
    ('!atmost(1, red)', {4: {1}, 5: {1}, 6: {1}}),
    ('exactly(1, red)', {4: {1, -1}, 5: {1, -1}, 6: {1, -1}}),
    ('atleast(0, red)', {4: set(), 5: set(), 6: set()}),
])
def test_polarity(text, signs):
    assert read(text).polarity == signs


def test_conjunction_equals_its_own_text_parsed():
    for indices in ((0, 1, 4), (2,), ()):
        formula = Formula.conjunction(indices, NAMES)
        assert formula == read(formula.text)
    assert Formula.conjunction((0, 4), NAMES).text == 'a & red.r1'


def test_constants_broadcast():
    assert read('true').evaluate(lambda _: np.zeros(3, bool)) is True
    assert read('a | true').evaluate(lambda _: np.zeros(3, bool)).tolist() == [True] * 3


def expressions():
    atoms = st.sampled_from([*NAMES, 'true', 'false', 'any(red)', 'all(red)', 'atleast(2, red)',
                             'atmost(2, red)', 'exactly(1, red)'])

    def extend(inner):
        joined = st.tuples(inner, st.sampled_from(['&', '|', '^', '->', '<->', 'and']), inner)
        return joined.map(lambda p: f'({p[0]}) {p[1]} {p[2]}') | inner.map(lambda x: f'!({x})')

    return st.recursive(atoms, extend, max_leaves=8)


@settings(max_examples=60, deadline=None)
@given(expressions())
def test_arrays_and_bools_agree_and_polarity_is_sound(text):
    formula = read(text)
    states = np.array(list(itertools.product((False, True), repeat=7)))
    values = np.broadcast_to(formula.evaluate(lambda i: states[:, i]), len(states))
    assert values.dtype == bool
    assert values.tolist() == [formula.holds(state) for state in states.tolist()]
    for index, signs in formula.polarity.items():
        off, on = values[~states[:, index]], values[states[:, index]]
        assert 1 in signs or not (on & ~off).any()
        assert -1 in signs or not (off & ~on).any()
