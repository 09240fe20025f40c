"""The language of formulas: text in, syntax tree out, or an error with a caret.

From the tightest binding to the loosest: ``!`` ``&`` ``^`` ``|`` ``->`` ``<->`` (or the words
``not and xor or``), over goal names, ``true``, ``false`` and counts of the goals that carry a
feature. A chain of one operator is a single node with many operands: ``->`` binds to the right,
so ``a -> b -> c`` is ``!a | !b | c``; ``<->`` binds to the left (it is associative anyway), so
a chain of it is the exclusive or of its operands, negated if their number is even.
"""

from collections.abc import Iterable, Mapping, Sequence
import difflib
import re
from typing import NamedTuple, NoReturn

from gk_planner.errors import FormulaError
from gk_planner.formula_tree import And, Bit, Constant, Count, Formula, Node, Not, Or, Xor
from gk_planner.yaml_input import shorten

__all__ = ['FORMULA_WORDS', 'MAX_DEPTH', 'MAX_LENGTH', 'Formula', 'nearest', 'parse']

FORMULA_WORDS = frozenset({'not', 'and', 'xor', 'or', 'true', 'false'})
MAX_DEPTH = 100
MAX_LENGTH = 1_000_000

_WORDS = {'not': '!', 'and': '&', 'xor': '^', 'or': '|'}
_BINDING = {'<->': 1, '->': 2, '|': 3, '^': 4, '&': 5}
_COUNTS = {'all': False, 'any': False, 'atleast': True, 'atmost': True, 'exactly': True}
_NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_.]*')
_TOKEN = re.compile(
    rf'\s*(?P<text><->|->|[!&^|(),]|{_NAME.pattern}|[-+]?[0-9][0-9.]*|\Z)')


def parse(text: str, goal_names: Sequence[str], features: Mapping[str, Sequence[int]],
          where: str = 'formula') -> Formula:
    """Parse a formula.

    Parameters
    ----------
    text : str
        The formula.
    goal_names : sequence of str
        Names of the goals; the position is the goal's index.
    features : mapping of str to sequence of int
        For every feature the indices of the goals that carry it.
    where : str
        How messages begin.

    Returns
    -------
    Formula
        The formula over goal indices.

    Raises
    ------
    FormulaError
        If the text is not a formula or names something unknown; ``detail`` shows where.

    """
    if len(text) > MAX_LENGTH:
        raise FormulaError(f'{where}: longer than {MAX_LENGTH} characters')
    return Formula(text, _Parser(text, goal_names, features, where).parse())


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint that ends an error message: the nearest known word, or some of them."""
    known = list(known)
    near = difflib.get_close_matches(word[:100], known, n=1)
    if near:
        return f"; did you mean '{near[0]}'?"
    some = ', '.join(known[:5]) + (', ...' if len(known) > 5 else '')
    return f'; known are: {some}' if known else ''


class _Token(NamedTuple):
    text: str
    column: int


def _shown(token: _Token) -> str:
    return shorten(token.text) if token.text else 'the end'


class _Parser:
    """Precedence climbing with one token of lookahead."""

    def __init__(self, text: str, goal_names: Sequence[str],
                 features: Mapping[str, Sequence[int]], where: str) -> None:
        self.text = text
        self.goals = {name: index for index, name in enumerate(goal_names)}
        self.features = features
        self.where = where
        self.depth = 0
        self.token = _Token('', 0)
        self.end = 0
        self.advance()

    def fail(self, message: str, token: _Token | None = None) -> NoReturn:
        """Raise a FormulaError with a caret under the token (default: the next one)."""
        column = (token or self.token).column
        start = self.text.rfind('\n', 0, column) + 1
        line = self.text[start:].split('\n', 1)[0]
        shift = max(0, column - start - 60)
        shown = re.sub(r'\s', ' ', line[shift:shift + 99])
        raise FormulaError(f'{self.where}: {message}',
                           detail=f'{shown}\n{" " * (column - start - shift)}^')

    def advance(self) -> _Token:
        """Step to the next token and return the one just passed."""
        passed = self.token
        found = _TOKEN.match(self.text, self.end)
        if not found:
            column = len(self.text) - len(self.text[self.end:].lstrip())
            self.fail(f'unexpected character {self.text[column]!r}', _Token('', column))
        column = found.start('text') if found['text'] else len(self.text.rstrip())
        self.token, self.end = _Token(found['text'], column), found.end()
        return passed

    def symbol(self) -> str:
        return _WORDS.get(self.token.text, self.token.text)

    def parse(self) -> Node:
        if not self.token.text:
            self.fail('the formula is empty; leave it out to ask for every goal')
        node = self.expression(0)
        if self.token.text == ')':
            self.fail("')' without '(' before it")
        if self.token.text:
            self.fail('expected an operator (& ^ | -> <-> and xor or) or the end, '
                      f'got {_shown(self.token)}')
        return node

    def enter(self, levels: int) -> None:
        self.depth += levels
        if self.depth > MAX_DEPTH:
            self.fail(f'nested more than {MAX_DEPTH} levels deep')

    def expression(self, loosest: int) -> Node:
        """Parse operands joined by operators that bind at least as tightly as ``loosest``."""
        self.enter(1)
        node = self.operand()
        while _BINDING.get(symbol := self.symbol(), -1) >= loosest:
            operands = [node]
            while self.symbol() == symbol:
                self.advance()
                operands.append(self.expression(_BINDING[symbol] + 1))
            node = _chain(symbol, tuple(operands))
        self.depth -= 1
        return node

    def operand(self) -> Node:
        negations = 0
        while self.symbol() == '!':
            negations += 1
            self.enter(1)
            self.advance()
        node = self.group() if self.token.text == '(' else self.atom()
        self.depth -= negations
        return Not(node) if negations % 2 else node

    def group(self) -> Node:
        opening = self.advance()
        node = self.expression(0)
        self.close(opening)
        return node

    def close(self, opening: _Token) -> None:
        if not self.token.text:
            self.fail("'(' is never closed", opening)
        if self.token.text != ')':
            self.fail(f"expected an operator or ')', got {_shown(self.token)}")
        self.advance()

    def atom(self) -> Node:
        token = self.token
        word, shown = token.text, _shown(token)
        if not _NAME.match(word) or word in _WORDS:
            self.fail(f"expected a goal, '!', '(', true or false, got {shown}")
        self.advance()
        if word in _COUNTS and self.token.text == '(':
            return self.count(word)
        if word in ('true', 'false'):
            return Constant(word == 'true')
        if word in self.goals:
            return Bit(self.goals[word])
        if self.token.text == '(':
            self.fail(f'unknown function {shown}{nearest(word, _COUNTS)}', token)
        if word in self.features:
            self.fail(f"{shown} is a feature, not a goal; did you mean 'any({word})'?", token)
        return self.fail(f'unknown goal {shown}{nearest(word, self.goals)}', token)

    def count(self, function: str) -> Node:
        """Parse the arguments of ``all(f)``, ``atleast(k, f)`` and the like."""
        usage = f'{function}(k, feature)' if _COUNTS[function] else f'{function}(feature)'
        opening = self.advance()
        number = 0
        if _COUNTS[function]:
            if not re.fullmatch('[0-9]{1,9}', self.token.text):
                self.fail(f'{usage}: k must be a whole number from 0 to 999999999, '
                          f'got {_shown(self.token)}')
            number = int(self.advance().text)
            if self.token.text != ',':
                self.fail(f"{usage}: expected ',' after k, got {_shown(self.token)}")
            self.advance()
        token = self.token
        if not _NAME.match(token.text):
            self.fail(f"{usage}: expected a feature, got {_shown(token)}")
        self.advance()
        if token.text not in self.features:
            self.fail(f'unknown feature {_shown(token)} in {usage}'
                      f'{nearest(token.text, self.features)}', token)
        self.close(opening)
        goals = tuple(self.features[token.text])
        size = len(goals)
        low, high = {'all': (size, size), 'any': (1, size), 'atleast': (number, size),
                     'atmost': (0, number), 'exactly': (number, number)}[function]
        return Count(low, high, goals)


def _chain(symbol: str, operands: tuple[Node, ...]) -> Node:
    """Join the operands of a chain of one operator."""
    match symbol:
        case '&':
            return And(operands)
        case '|':
            return Or(operands)
        case '->':
            return Or((*map(Not, operands[:-1]), operands[-1]))
        case '<->' if len(operands) % 2 == 0:
            return Not(Xor(operands))
        case _:
            return Xor(operands)
