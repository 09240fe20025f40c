"""The task layer beyond tables: OR-Tools CP-SAT with formula, alternatives and constraints.

A plan is a circuit from the start through the nodes it visits and back for nothing. A goal is
done if one of its nodes is visited; the formula is asked of the goals done in the end. Where there
are constraints, goals have ranks along the circuit: ``X before Y`` means that Y is not done
without X, and ranks higher; ``X forbids Y`` that Y ranks lower where both are done. No leg costs
less than nothing, so that the cheapest plan may be cut where its formula holds first. The search
begins with the way that :mod:`gk_planner.beam_search` finds and ends when it is proven optimal,
or in time with a bound.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
import time
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gk_planner.beam_search import beam_search, least_to_come
from gk_planner.boolean_task import Task
from gk_planner.checkpoint import Checkpoint
from gk_planner.errors import LimitError
from gk_planner.formula_tree import And, Bit, Constant, Count, Node, Not, Or, Xor
from gk_planner.goal_kernel import FloatArray, Legs, node_starts
from gk_planner.task_states import asked_goals

_Item = TypeVar('_Item')

# The engine counts in whole numbers, the largest cost being this: what it cannot tell apart
# differs by less than 1e-10 of the longest leg that may be useful.
_LARGEST_COST = 2 ** 36
# A way is optimal if its cost exceeds the bound by rounding only, which is less than this part.
_ROUNDING = 1e-8
# More nodes make more arcs than it can take.
_MAX_NODES = 1_000
# Stands kept in a layer of the first search, one search after the other.
_WIDTHS = (10, 100, 1_000, 10_000)
# What these searches may take of the time, but for the first, without which there may be no plan.
_PART_FOR_WAYS = 0.25
# Workers with different strategies; more than there are cores measured best.
_N_WORKERS = 8
# Seconds between two checkpoints.
_PATIENCE = 0.05
# Arcs of the model between two checkpoints.
_ARCS_PER_STEP = 1_000


@dataclass(frozen=True)
class EngineRun:
    """The best way found.

    Attributes
    ----------
    nodes : tuple of int
        Nodes in the order of their completion.
    bound : float
        No way costs less; the cost itself if the way is optimal.
    optimal : bool
        Whether it is proven that no way is cheaper by more than rounding.

    """

    nodes: tuple[int, ...]
    bound: float
    optimal: bool


def is_installed() -> bool:
    """Return whether OR-Tools can be imported."""
    try:
        from ortools.sat.python import cp_model  # noqa: F401
    except ImportError:
        return False
    return True


def solve_by_engine(task: Task, goals: tuple[int, ...], legs: Legs, *, completion_cost: float,
                    time_limit: float, checkpoint: Checkpoint) -> EngineRun | None:
    """Search for the cheapest way for some seconds; None if there is provably none.

    No bit of ``goals`` may flip back, and ``legs`` has the nodes of these goals only.

    Raises
    ------
    LimitError
        If there are too many nodes, or no way is found in time though there may be one.

    """
    began = time.monotonic()
    if not len(legs.node_goal):
        return None
    if len(legs.node_goal) > _MAX_NODES:
        raise LimitError(f'{task.source}: its goals are completed at {len(legs.node_goal)} cells; '
                         f'beyond the table of task states at most {_MAX_NODES} can be handled')
    hint = _first_way(task, goals, legs, completion_cost, time_limit, checkpoint)
    longest = np.inf if hint is None else _cost(legs, hint, completion_cost)
    status, found, bound = 'UNKNOWN', None, 0.0
    with suppress(_TimeIsUp):
        model = _Model(task, goals, legs, completion_cost, longest,
                       _until(began + time_limit, checkpoint))
        if hint is not None:
            model.hint(hint)
        left = max(began + time_limit - time.monotonic(), _PATIENCE)
        status, found, bound = model.solve(left, checkpoint)
    bound = max(bound, float(least_to_come(task, goals, legs, completion_cost).sum()))
    if status == 'INFEASIBLE':
        return None
    ways = [way for way in (found, hint) if way is not None]
    if not ways:
        raise LimitError(f'{task.source}: no plan was found within time_limit {time_limit:g} s; '
                         'there may be one, raise time_limit')
    best = min((_cut(task, legs, way) for way in ways),
               key=lambda way: _cost(legs, way, completion_cost))
    cost = _cost(legs, best, completion_cost)
    optimal = status == 'OPTIMAL' and cost - bound <= _ROUNDING * cost
    return EngineRun(tuple(best), cost if optimal else min(bound, cost), optimal)


class _TimeIsUp(Exception):
    """The model is not complete in time."""


def _until(deadline: float, checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint that also ends the work at a time of the monotonic clock."""
    def proceed_in_time() -> None:
        checkpoint()
        if time.monotonic() > deadline:
            raise _TimeIsUp

    return proceed_in_time


def _first_way(task: Task, goals: tuple[int, ...], legs: Legs, completion_cost: float,
               time_limit: float, checkpoint: Checkpoint) -> list[int] | None:
    """Search with wider and wider beams, as long as the next one will probably end in time."""
    best: list[int] | None = None
    ended = time.monotonic()
    deadline, for_ways = ended + time_limit, ended + _PART_FOR_WAYS * time_limit
    for width in _WIDTHS:
        began = ended
        way = beam_search(task, goals, legs, completion_cost, width, deadline, checkpoint)
        if best is None or (way is not None and _cost(legs, way, completion_cost)
                            < _cost(legs, best, completion_cost)):
            best = way
        ended, deadline = time.monotonic(), for_ways
        if ended + _WIDTHS[1] / _WIDTHS[0] * (ended - began) > deadline:
            break
    return best


def _cost(legs: Legs, way: list[int], completion_cost: float) -> float:
    return float(legs.entry[way[0]] + legs.flip[way[:-1], way[1:]].sum()
                 + completion_cost * len(way))


def _cut(task: Task, legs: Legs, way: list[int]) -> list[int]:
    """End a way where the formula holds for the first time."""
    bits = list(task.initial_bits)
    missing = set(asked_goals(task) - task.done)
    for count, node in enumerate(way, start=1):
        goal = int(legs.node_goal[node])
        bits[goal] = True
        missing.discard(goal)
        if not missing and task.formula.holds(bits):
            return way[:count]
    return way


class _Model:
    """The model of one task; nodes are numbered from 0, and the start is the node after them.

    Legs that cost more than ``longest`` are left out. The checkpoint is called while the model
    grows.
    """

    def __init__(self, task: Task, goals: tuple[int, ...], legs: Legs, completion_cost: float,
                 longest: float, checkpoint: Checkpoint) -> None:
        from ortools.sat.python import cp_model
        self._cp_model = cp_model
        self._checkpoint = checkpoint
        self._model: Any = cp_model.CpModel()
        costs = np.vstack([legs.flip, legs.entry]) + completion_cost
        self._costs: FloatArray = np.where(costs <= longest, costs, np.inf)
        self._start = len(legs.node_goal)
        self._bit = np.repeat(np.arange(len(goals)), np.diff(node_starts(legs, goals)))
        self._done = [self._model.new_bool_var(task.goal_names[goal]) for goal in goals]
        self._visits = [self._model.new_bool_var(f'visit {node}') for node in range(self._start)]
        self._constants = task.initial_bits
        self._bit_of = {goal: bit for bit, goal in enumerate(goals)}
        orders = _Orders(task, self._bit_of)
        self._arcs = self._add_circuit(orders)
        self._ranks = self._add_ranks(orders)
        self._require(task.formula.root)

    def hint(self, way: list[int]) -> None:
        """Begin the search with a way."""
        used = set(zip([self._start, *way], [*way, self._start], strict=True))
        for ends, arc in self._steps(self._arcs.items()):
            self._model.add_hint(arc, ends in used)
        for node, visit in enumerate(self._visits):
            self._model.add_hint(visit, node in way)
        done = self._bit[way].tolist()
        for bit, goal in enumerate(self._done):
            self._model.add_hint(goal, bit in done)
        for bit, rank in enumerate(self._ranks):
            self._model.add_hint(rank, done.index(bit) + 1 if bit in done else 1)

    def solve(self, seconds: float, checkpoint: Checkpoint) -> tuple[str, list[int] | None, float]:
        """Return the status of the engine, the best way and a bound on the cost of any."""
        solver = self._cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = _N_WORKERS
        with ThreadPoolExecutor(max_workers=1) as pool:
            work = pool.submit(solver.solve, self._model)
            try:
                while not wait([work], _PATIENCE).done:
                    checkpoint()
            finally:
                solver.stop_search()
        status = str(solver.status_name(work.result()))
        if status not in ('OPTIMAL', 'FEASIBLE'):
            return status, None, max(0.0, solver.best_objective_bound / self._scale)
        after = {origin: end for (origin, end), arc in self._arcs.items()
                 if solver.boolean_value(arc)}
        way = [after[self._start]]
        while after[way[-1]] != self._start:
            way.append(after[way[-1]])
        return status, way, max(0.0, solver.best_objective_bound / self._scale)

    def _add_circuit(self, orders: '_Orders') -> dict[tuple[int, int], Any]:
        """Add the arcs that some plan may use, and their costs, rounded down."""
        model, bit = self._model, self._bit
        possible = np.isfinite(self._costs)
        possible[:-1] &= ~orders.never_follows[bit[:, None], bit]
        possible[-1] &= ~orders.is_late[bit]
        largest = self._costs[possible].max(initial=0.0)
        self._scale = _LARGEST_COST / largest if largest > 0 else 1.0
        arcs = {(origin, end): model.new_bool_var(f'{origin} to {end}')
                for origin, end in self._steps(zip(*map(np.ndarray.tolist, np.nonzero(possible)),
                                                   strict=True))}
        # Not by minimize(), which takes as long as all the rest.
        model.proto.objective.vars.extend([arc.index for arc in arcs.values()])
        model.proto.objective.coeffs.extend(
            (self._costs[possible] * self._scale).astype(np.int64).tolist())
        arcs |= {(node, self._start): model.new_bool_var(f'{node} is last')
                 for node in range(self._start)}
        model.add_circuit([*((*ends, arc) for ends, arc in arcs.items()),
                           *((node, node, ~visit) for node, visit in enumerate(self._visits))])
        for index, done in enumerate(self._done):
            model.add(sum(self._visits[node] for node in np.flatnonzero(bit == index)) == done)
        for index in orders.impossible:
            model.add(self._done[index] == 0)
        return arcs

    def _add_ranks(self, orders: '_Orders') -> list[Any]:
        """Number the goals along the circuit, if constraints compare them."""
        if not orders.before and not orders.apart:
            return []
        model, done = self._model, self._done
        ranks = [model.new_int_var(1, len(done), f'rank of {goal}') for goal in done]
        for (origin, end), arc in self._steps(self._arcs.items()):
            if origin == self._start:
                model.add(ranks[self._bit[end]] == 1).only_enforce_if(arc)
            elif end != self._start:
                model.add(ranks[self._bit[end]] == ranks[self._bit[origin]] + 1
                          ).only_enforce_if(arc)
        for first, then in orders.before:
            model.add_implication(done[then], done[first])
            model.add(ranks[first] + 1 <= ranks[then]).only_enforce_if(done[then])
        for first, then in orders.apart:
            model.add(ranks[first] + 1 <= ranks[then]).only_enforce_if(done[first], done[then])
        return ranks

    def _steps(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Call the checkpoint now and then on the way through."""
        for number, item in enumerate(items):
            if number % _ARCS_PER_STEP == 0:
                self._checkpoint()
            yield item

    def _require(self, node: Node) -> None:
        """Ask that a part of the formula holds."""
        if isinstance(node, And):
            for operand in node.operands:
                self._require(operand)
        else:
            self._model.add(self._literal(node) == 1)

    def _literal(self, node: Node) -> Any:
        """Return a literal that is true if and only if a part of the formula holds."""
        match node:
            case Constant(value):
                return self._model.new_constant(int(value))
            case Bit(index) if index in self._bit_of:
                return self._done[self._bit_of[index]]
            case Bit(index):
                return self._model.new_constant(int(self._constants[index]))
            case Not(operand):
                return ~self._literal(operand)
            case And(operands):
                return self._count(operands, len(operands), len(operands))
            case Or(operands):
                return self._count(operands, 1, len(operands))
            case Count(low, high, goals):
                return self._count(tuple(map(Bit, goals)), low, high)
            case Xor(operands):
                is_odd = self._model.new_bool_var('odd')
                half = self._model.new_int_var(0, len(operands) // 2, 'half')
                self._model.add(sum(map(self._literal, operands)) == 2 * half + is_odd)
                return is_odd

    def _count(self, operands: tuple[Node, ...], low: int, high: int) -> Any:
        """Return a literal for "so many of the operands hold"."""
        total = sum(map(self._literal, operands))
        inside = self._cp_model.Domain(low, high)
        is_inside = self._model.new_bool_var('count')
        self._model.add_linear_expression_in_domain(total, inside).only_enforce_if(is_inside)
        self._model.add_linear_expression_in_domain(
            total, inside.complement()).only_enforce_if(~is_inside)
        return is_inside


class _Orders:
    """What the constraints say about the bits that may flip.

    Attributes
    ----------
    before : list of (int, int)
        The second is not done without the first, and after it.
    apart : list of (int, int)
        If both are done, the first comes first.
    impossible : set of int
        Bits that can never flip.
    never_follows : ndarray of bool, shape (n, n)
        [i, j]: j never follows i at once.
    is_late : ndarray of bool
        Something must come before.

    """

    def __init__(self, task: Task, bit_of: dict[int, int]) -> None:
        self.before: list[tuple[int, int]] = []
        self.apart: list[tuple[int, int]] = []
        self.impossible: set[int] = set()
        for rule in task.bit_constraints:
            if rule.control not in bit_of or rule.control_value:
                continue
            control, condition = bit_of[rule.control], bit_of.get(rule.condition)
            if condition is None:
                if task.initial_bits[rule.condition] == bool(rule.condition_value):
                    self.impossible.add(control)
            elif rule.condition_value:
                self.apart.append((control, condition))
            else:
                self.before.append((condition, control))
        n_bits = len(bit_of)
        precedes = _closure(self.before, n_bits)
        self.is_late: NDArray[np.bool_] = np.asarray(precedes.any(axis=0))
        between = (precedes.astype(np.float32) @ precedes.astype(np.float32)) > 0
        self.never_follows: NDArray[np.bool_] = precedes.T | between | np.eye(n_bits, dtype=bool)
        for first, then in self.apart:
            self.never_follows[then, first] = True


def _closure(pairs: list[tuple[int, int]], size: int) -> NDArray[np.bool_]:
    """Return the transitive closure of a relation."""
    related = np.zeros((size, size), dtype=bool)
    for first, then in pairs:
        related[first, then] = True
    for middle in range(size):
        related |= np.outer(related[:, middle], related[middle])
    return related
