"""The syntax tree of a formula B over goal bits, and its value in a task state.

Every operator is a node with any number of operands, so a long chain is wide, not deep. B selects
the accepting task states {sigma : B(sigma)} (paper, Section "Boolean Ordered Goal Task").
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
import operator
from typing import Any, TypeVar

T = TypeVar('T')


@dataclass(frozen=True, slots=True)
class Constant:
    """``true`` or ``false``."""

    value: bool


@dataclass(frozen=True, slots=True)
class Bit:
    """The bit of one goal."""

    index: int


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of its operand."""

    operand: 'Node'


@dataclass(frozen=True, slots=True)
class And:
    """All operands hold."""

    operands: tuple['Node', ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one operand holds."""

    operands: tuple['Node', ...]


@dataclass(frozen=True, slots=True)
class Xor:
    """An odd number of operands holds."""

    operands: tuple['Node', ...]


@dataclass(frozen=True, slots=True)
class Count:
    """The number of true bits among ``goals`` lies in ``low .. high``."""

    low: int
    high: int
    goals: tuple[int, ...]


Node = Constant | Bit | Not | And | Or | Xor | Count

_FOLD: dict[type, Callable[[Any, Any], Any]] = {
    And: operator.and_, Or: operator.or_, Xor: operator.xor}


@dataclass(frozen=True)
class Formula:
    """A parsed formula over goal indices.

    Attributes
    ----------
    text : str
        The formula as written.
    root : Node
        Its syntax tree, at most a few hundred levels deep.

    """

    text: str
    root: Node = field(repr=False)

    @classmethod
    def conjunction(cls, indices: Iterable[int], names: Sequence[str]) -> 'Formula':
        """Return the formula that asks for every one of ``indices``; for none, ``true``."""
        bits = tuple(Bit(index) for index in indices)
        if not bits:
            return cls('true', Constant(True))
        text = ' & '.join(names[bit.index] for bit in bits)
        return cls(text, And(bits) if len(bits) > 1 else bits[0])

    def goals_in_order(self) -> tuple[int, ...]:
        """Return the goal indices in the order of their first appearance."""
        return tuple(self.polarity)

    def support(self) -> frozenset[int]:
        """Return the goal indices that occur in the formula, whether or not they matter."""
        return frozenset(self.polarity)

    def evaluate(self, bit: Callable[[int], T]) -> T:
        """Return the value of the formula, element by element.

        Parameters
        ----------
        bit : callable
            Gives the value of a goal's bit: a bool, or a numpy array of bools.

        Returns
        -------
        bool or ndarray of bool
            Of the kind that ``bit`` gives. A part without goals is a plain bool, which
            broadcasts; so is the whole value of a formula that names no goal.

        """
        value: T = _value(self.root, bit)
        return value

    def holds(self, bits: Sequence[bool]) -> bool:
        """Return whether the formula holds in one task state."""
        return bool(self.evaluate(lambda index: bool(bits[index])))

    @cached_property
    def polarity(self) -> dict[int, frozenset[int]]:
        """For every goal of the support the signs with which it occurs.

        +1 means that setting the bit can help, -1 that it can hurt, as in negation normal form:
        a goal with {+1} alone never makes a true formula false. Operands of ``^`` and ``<->``
        have both signs; a count has +1 if too few can be true and -1 if too many can.
        """
        signs: dict[int, frozenset[int]] = {}
        pending: list[tuple[Node, frozenset[int]]] = [(self.root, frozenset({1}))]
        while pending:
            node, sign = pending.pop()
            flipped = frozenset(-s for s in sign)
            match node:
                case Bit(index):
                    signs[index] = signs.get(index, frozenset()) | sign
                case Not(operand):
                    pending.append((operand, flipped))
                case And(operands) | Or(operands):
                    pending.extend((operand, sign) for operand in reversed(operands))
                case Xor(operands):
                    pending.extend((operand, sign | flipped) for operand in reversed(operands))
                case Count(low, high, goals):
                    both = (sign if low > 0 else frozenset()) | (
                        flipped if high < len(goals) else frozenset())
                    for index in goals:
                        signs[index] = signs.get(index, frozenset()) | both
        return signs


def _value(node: Node, bit: Callable[[int], Any]) -> Any:
    """Evaluate with operators that mean the same for bools and for arrays of bools."""
    match node:
        case Constant(value):
            return value
        case Bit(index):
            return bit(index)
        case Not(operand):
            return _value(operand, bit) ^ True
        case Count(low, high, goals):
            total: Any = 0
            for index in goals:
                total = total + bit(index)
            return (total >= low) & (total <= high)
        case And(operands) | Or(operands) | Xor(operands):
            fold = _FOLD[type(node)]
            value = _value(operands[0], bit)
            for operand in operands[1:]:
                value = fold(value, _value(operand, bit))
            return value
