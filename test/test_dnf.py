import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from gk_planner.dnf import Clause, clauses, count_clauses, depends_on, dnf_text, is_satisfiable
from gk_planner.errors import LimitError
from gk_planner.formula import parse

NAMES = ('s1', 's2', 's3', 's4', 's5')
REDS = tuple(f'r{i}' for i in range(100))


def read(text):
    return parse(text, NAMES, {'red': (0, 1, 2), 'blue': (2, 3, 4)})


def reds(text):
    return parse(text, REDS, {'red': range(100)})


def texts(formula, **options):
    return [dnf_text(clause, NAMES) for clause in clauses(formula, **options)]


def test_the_example_of_the_paper_has_three_clauses():
    formula = read('(s1 ^ s2) & s3 & s4 | s1 & s2 & s3 & !s4')
    assert sorted(texts(formula)) == [
        '!s1 & s2 & s3 & s4', 's1 & !s2 & s3 & s4', 's1 & s2 & s3 & !s4']
    assert count_clauses(formula) == 3


@pytest.mark.parametrize(('text', 'expected'), [
    ('s1 | s2', ['s1', 's2']),
    ('s1 & s2 | s1 & !s2', ['s1']),
    ('s1 -> s2', ['!s1', 's2']),
    ('s1 & !s1', []),
    ('s1 | !s1', ['true']),
    ('false', []),
    ('true', ['true']),
    ('atleast(2, red)', ['s1 & s2', 's1 & s3', 's2 & s3']),
    ('atleast(4, red)', []),
    ('atmost(1, red)', ['!s1 & !s2', '!s1 & !s3', '!s2 & !s3']),
])
def test_known_clauses(text, expected):
    assert sorted(texts(read(text))) == expected
    assert count_clauses(read(text)) == len(expected)
    assert is_satisfiable(read(text)) is bool(expected)


def test_clause_fields():
    assert list(clauses(read('s1 & !s3'))) == [Clause(frozenset({0}), frozenset({2}))]


def test_fixed_bits_are_put_in():
    formula = read('atleast(2, red) & !s4')
    assert texts(formula, fixed={0: True}) == ['s2 & !s4', 's3 & !s4']
    assert texts(formula, fixed={3: True}) == []
    assert not is_satisfiable(formula, {3: True})
    assert depends_on(formula, {0: True, 1: True}) == {3}
    assert count_clauses(formula, {0: False}) == 1


def test_depends_on_is_semantic():
    assert depends_on(read('s1 & (s2 | !s2) | s3 & !s3')) == {0}
    assert depends_on(read('atleast(0, red)')) == frozenset()
    assert depends_on(read('s1 ^ s2 ^ s1')) == {1}


def test_counting_a_hundred_goals():
    formula = reds('atleast(50, red)')
    assert is_satisfiable(formula)
    assert depends_on(formula) == set(range(100))
    assert count_clauses(formula) == math.comb(100, 50)
    some = list(itertools.islice(clauses(formula), 5))
    assert len(set(some)) == 5
    assert all(len(clause.true) == 50 and not clause.false for clause in some)
    assert not is_satisfiable(reds('atleast(51, red) & atmost(50, red)'))


@pytest.mark.parametrize(('symbol', 'number'), [('&', 1), ('|', 5_000), ('^', None)])
def test_long_chains_do_not_recurse(symbol, number):
    names = [f'g{i}' for i in range(5_000)]
    formula = parse(f' {symbol} '.join(names), names, {})
    assert len(depends_on(formula)) == 5_000
    if number:
        assert count_clauses(formula) == number
        assert next(clauses(formula)).true >= {0}


def test_limit_is_an_error_before_the_first_clause():
    halves = ' & '.join(f'(r{i} <-> r{i + 50})' for i in range(50))
    assert is_satisfiable(reds(halves))
    scattered = f'(all(red) | true) & {halves}'
    with pytest.raises(LimitError, match='more than 1000 nodes'):
        clauses(reds(scattered), max_nodes=1000)


def formulas():
    atoms = st.sampled_from([*NAMES, 'true', 'false', 'atleast(2, red)', 'atmost(1, blue)',
                             'exactly(2, blue)', 'any(red)', 'all(blue)'])

    def extend(inner):
        joined = st.tuples(inner, st.sampled_from(['&', '|', '^', '->', '<->']), inner)
        return joined.map(lambda p: f'({p[0]}) {p[1]} ({p[2]})') | inner.map(lambda x: f'!({x})')

    return st.recursive(atoms, extend, max_leaves=8).map(read)


def covers(clause, state):
    return (all(state[i] for i in clause.true) and not any(state[i] for i in clause.false))


@settings(max_examples=80, deadline=None)
@given(formulas(), st.dictionaries(st.integers(0, 4), st.booleans(), max_size=2))
def test_the_sum_of_products_is_the_formula_and_irredundant(formula, fixed):
    listed = list(clauses(formula, fixed))
    states = [state for state in itertools.product((False, True), repeat=5)
              if all(state[i] == value for i, value in fixed.items())]
    accepted = {state for state in states if formula.holds(state)}
    covered = [{state for state in states if covers(clause, state)} for clause in listed]
    assert set().union(*covered) == accepted
    assert count_clauses(formula, fixed) == len(listed)
    assert is_satisfiable(formula, fixed) is bool(accepted)
    for k, clause in enumerate(listed):
        assert not covered[k] <= set().union(*covered[:k], *covered[k + 1:])
        for bit in clause.true | clause.false:
            shorter = Clause(clause.true - {bit}, clause.false - {bit})
            assert not {state for state in states if covers(shorter, state)} <= accepted


@settings(max_examples=60, deadline=None)
@given(formulas())
def test_semantic_support_agrees_with_flipping_each_bit(formula):
    matters = {
        index for index in range(5) for state in itertools.product((False, True), repeat=5)
        if formula.holds(state) != formula.holds(
            [not bit if i == index else bit for i, bit in enumerate(state)])}
    assert depends_on(formula) == matters
    assert matters <= formula.support()
