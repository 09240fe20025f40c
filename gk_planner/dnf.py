"""The disjunctive normal form of a formula: B => w_1 or ... or w_n.

A clause w is a conjunction of bits, and any one clause is a way to finish the task (paper,
Sections "Boolean Ordered Goal Task" and "Boolean Logic Decomposition"). The formula becomes a
reduced ordered binary decision diagram, and the clauses its irredundant sum of products: with
f0, f1 the cofactors of f in bit x, ISOP(L <= f <= U) (Minato, Morreale) is

    !x ISOP(L0 & !U1, U0)  |  x ISOP(L1 & !U0, U1)  |  ISOP(what is left of L0 | L1, U0 & U1).

The sum of products is a diagram too, in which equal parts are shared, so astronomically many
clauses take little room, and can be counted or listed one at a time.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gk_planner.errors import LimitError
from gk_planner.formula import Formula
from gk_planner.formula_tree import And, Bit, Constant, Count, Node, Not, Or, Xor

MAX_NODES = 200_000
# Intermediate results remembered for each node allowed; bounds time where nodes are shared.
_MEMO_PER_NODE = 8

_FALSE, _TRUE = 0, 1
_Call = Generator[Any, Any, Any]


@dataclass(frozen=True)
class Clause:
    """A conjunction of bits: the goals that must be done and those that must not."""

    true: frozenset[int]
    false: frozenset[int]


def clauses(formula: Formula, fixed: Mapping[int, bool] | None = None,
            max_nodes: int = MAX_NODES) -> Iterator[Clause]:
    """Return the clauses of an irredundant disjunctive normal form, one at a time.

    Parameters
    ----------
    formula : Formula
        The formula.
    fixed : mapping of int to bool, optional
        Bits whose value is known; they are put in and occur in no clause.
    max_nodes : int
        Largest size of the decision diagram.

    Returns
    -------
    iterator of Clause
        No clause can be left out, and no bit of a clause can. None if the formula is
        contradictory; one without bits if it always holds. The order is fixed.

    Raises
    ------
    LimitError
        If the decision diagram would have more than ``max_nodes`` nodes.

    """
    diagram, root = _build(formula, fixed, max_nodes)
    cover = diagram.cover(root)
    return diagram.list_clauses(cover)


def count_clauses(formula: Formula, fixed: Mapping[int, bool] | None = None,
                  max_nodes: int = MAX_NODES) -> int:
    """Return how many clauses :func:`clauses` lists, without listing them."""
    diagram, root = _build(formula, fixed, max_nodes)
    cover = diagram.cover(root)
    counts = [0, 1]
    for _, negative, positive, free in diagram.covers[2:]:
        counts.append(counts[negative] + counts[positive] + counts[free])
    return counts[cover]


def is_satisfiable(formula: Formula, fixed: Mapping[int, bool] | None = None,
                   max_nodes: int = MAX_NODES) -> bool:
    """Return whether the formula holds in some task state."""
    return _build(formula, fixed, max_nodes)[1] != _FALSE


def depends_on(formula: Formula, fixed: Mapping[int, bool] | None = None,
               max_nodes: int = MAX_NODES) -> frozenset[int]:
    """Return the goals whose bit can change the value of the formula."""
    diagram, root = _build(formula, fixed, max_nodes)
    seen, pending = {root}, [root]
    while pending:
        _, low, high = diagram.nodes[pending.pop()]
        pending.extend({low, high} - seen)
        seen |= {low, high}
    return frozenset(diagram.order[diagram.nodes[node][0]] for node in seen - {_FALSE, _TRUE})


def dnf_text(clause: Clause, goal_names: Sequence[str]) -> str:
    """Write a clause as a formula, such as ``coffee & !desk``."""
    bits = sorted(clause.true | clause.false)
    return ' & '.join(
        goal_names[index] if index in clause.true else f'!{goal_names[index]}'
        for index in bits) or 'true'


def _build(formula: Formula, fixed: Mapping[int, bool] | None,
           max_nodes: int) -> tuple['_Diagram', int]:
    # Goals written side by side belong together: their order keeps most diagrams small.
    diagram = _Diagram(formula.goals_in_order(), max_nodes)
    return diagram, diagram.build(formula.root, fixed or {})


def _run(call: _Call) -> Any:
    """Run a generator that yields its recursive calls, to any depth."""
    stack, value = [call], None
    while stack:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as stop:
            stack.pop()
            value = stop.value
    return value


class _Diagram:
    """A reduced ordered binary decision diagram; nodes 0 and 1 are false and true.

    ``nodes[n]`` is (level, node if the bit is false, node if true); ``covers[c]`` is (level,
    clauses with the bit false, with it true, without it), where cover 0 has no clause and cover 1
    has the clause without bits.
    """

    def __init__(self, order: Sequence[int], max_nodes: int) -> None:
        self.order = order
        self.level = {goal: level for level, goal in enumerate(order)}
        self.max_nodes = max_nodes
        end = len(order)
        self.nodes = [(end, _FALSE, _FALSE), (end, _TRUE, _TRUE)]
        self.covers = [(end, 0, 0, 0), (end, 0, 0, 0)]
        self._unique: dict[tuple[int, int, int], int] = {}
        self._choices: dict[tuple[int, int, int], int] = {}
        self._products: dict[tuple[int, int], tuple[int, int]] = {}

    def node(self, level: int, low: int, high: int) -> int:
        """Return the one node with these parts."""
        if low == high:
            return low
        key = (level, low, high)
        if key not in self._unique:
            self._check_limit(len(self.nodes), self.max_nodes)
            self._unique[key] = len(self.nodes)
            self.nodes.append(key)
        return self._unique[key]

    def _check_limit(self, size: int, limit: int) -> None:
        if size > limit:
            raise LimitError(f'formula: its decision diagram has more than {self.max_nodes} '
                             'nodes; write goals that belong together side by side, or split it')

    def cofactors(self, node: int, level: int) -> tuple[int, int]:
        """Return the node with the bit of ``level`` false, and with it true."""
        top, low, high = self.nodes[node]
        return (low, high) if top == level else (node, node)

    def choose(self, condition: int, then: int, otherwise: int) -> int:
        """Return ``condition & then | !condition & otherwise``."""
        result: int = _run(self._choose(condition, then, otherwise))
        return result

    def _choose(self, condition: int, then: int, otherwise: int) -> _Call:
        if condition == _TRUE or then == otherwise:
            return then
        if condition == _FALSE:
            return otherwise
        if (then, otherwise) == (_TRUE, _FALSE):
            return condition
        key = (condition, then, otherwise)
        if key not in self._choices:
            self._check_limit(len(self._choices), _MEMO_PER_NODE * self.max_nodes)
            level = min(self.nodes[part][0] for part in key)
            lows, highs = zip(*(self.cofactors(part, level) for part in key), strict=True)
            low = yield self._choose(*lows)
            high = yield self._choose(*highs)
            self._choices[key] = self.node(level, low, high)
        return self._choices[key]

    def negate(self, node: int) -> int:
        return self.choose(node, _FALSE, _TRUE)

    def both(self, left: int, right: int) -> int:
        return self.choose(left, right, _FALSE)

    def either(self, left: int, right: int) -> int:
        return self.choose(left, _TRUE, right)

    def differ(self, left: int, right: int) -> int:
        return self.choose(left, self.negate(right), right)

    def without(self, left: int, right: int) -> int:
        return self.choose(right, _FALSE, left)

    def build(self, node: Node, fixed: Mapping[int, bool]) -> int:
        """Return the diagram of a syntax tree with the fixed bits put in."""
        match node:
            case Constant(value):
                return int(value)
            case Bit(index):
                return (int(fixed[index]) if index in fixed
                        else self.node(self.level[index], _FALSE, _TRUE))
            case Not(operand):
                return self.negate(self.build(operand, fixed))
            case Count(low, high, goals):
                done = sum(bool(fixed[goal]) for goal in goals if goal in fixed)
                levels = sorted(self.level[goal] for goal in goals if goal not in fixed)
                result: int = _run(self._count(levels, low - done, high - done, {}, (0, 0)))
                return result
            case And(operands) | Or(operands) | Xor(operands):
                join = {And: self.both, Or: self.either, Xor: self.differ}[type(node)]
                parts = [self.build(operand, fixed) for operand in operands]
                # From the bottom up, each step only adds to the top of what is there.
                parts.sort(key=lambda part: -self.nodes[part][0])
                result = parts[0]
                for part in parts[1:]:
                    result = join(part, result)
                return result

    def _count(self, levels: list[int], low: int, high: int,
               memo: dict[tuple[int, int], int], state: tuple[int, int]) -> _Call:
        """Count true bits; ``state`` is (bits looked at, bits true)."""
        seen, true = state
        most = true + len(levels) - seen
        if most < low or true > high:
            return _FALSE
        if true >= low and most <= high:
            return _TRUE
        if state not in memo:
            absent = yield self._count(levels, low, high, memo, (seen + 1, true))
            present = yield self._count(levels, low, high, memo, (seen + 1, true + 1))
            memo[state] = self.node(levels[seen], absent, present)
        return memo[state]

    def cover(self, root: int) -> int:
        """Return the irredundant sum of products of a node."""
        cover: int = _run(self._cover(root, root))[0]
        return cover

    def _cover(self, lower: int, upper: int) -> _Call:
        """Return (cover, its node) with ``lower`` => cover => ``upper``."""
        if lower == _FALSE:
            return 0, _FALSE
        if upper == _TRUE:
            return 1, _TRUE
        key = (lower, upper)
        if key not in self._products:
            level = min(self.nodes[lower][0], self.nodes[upper][0])
            lower0, lower1 = self.cofactors(lower, level)
            upper0, upper1 = self.cofactors(upper, level)
            negative, node0 = yield self._cover(self.without(lower0, upper1), upper0)
            positive, node1 = yield self._cover(self.without(lower1, upper0), upper1)
            left = self.either(self.without(lower0, node0), self.without(lower1, node1))
            free, node = yield self._cover(left, self.both(upper0, upper1))
            cover = free
            if negative or positive:
                cover = len(self.covers)
                self.covers.append((level, negative, positive, free))
            self._products[key] = cover, self.either(self.node(level, node0, node1), node)
        return self._products[key]

    def list_clauses(self, cover: int) -> Iterator[Clause]:
        """List the clauses of a cover; clauses with a bit true come first."""
        pending: list[tuple[int, Any]] = [(cover, None)]
        while pending:
            cover, path = pending.pop()
            if cover == 1:
                chosen: dict[bool, list[int]] = {True: [], False: []}
                while path:
                    goal, value, path = path
                    chosen[value].append(goal)
                yield Clause(frozenset(chosen[True]), frozenset(chosen[False]))
            elif cover:
                level, negative, positive, free = self.covers[cover]
                goal = self.order[level]
                pending += [(free, path), (negative, (goal, False, path)),
                            (positive, (goal, True, path))]
