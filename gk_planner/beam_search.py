"""A good way through a task too large for a table: beam search over its task states.

Layer by layer, after as many completions as the layer has, the most promising stands (task state
and node) are kept: those with the least cost so far plus the least that must still come, which is
the cheapest way into every goal that the formula asks for and that is not done. Nothing is proven.
"""

from dataclasses import dataclass
import math
import time

import numpy as np
from numpy.typing import NDArray

from gk_planner.boolean_task import Task
from gk_planner.checkpoint import Checkpoint
from gk_planner.goal_kernel import FloatArray, IntArray, Legs, node_starts
from gk_planner.task_rules import task_rules, TaskRules, Words
from gk_planner.task_states import asked_goals

_ONE = np.uint64(1)
# Of so many times as many stands as are kept, equal ones are looked for.
_SLACK = 6


@dataclass(frozen=True, eq=False)
class _Layer:
    """Stands after so many completions: where they come from, and what they have cost."""

    parent: IntArray
    node: IntArray
    words: Words
    cost: FloatArray


def beam_search(task: Task, goals: tuple[int, ...], legs: Legs, completion_cost: float,
                width: int, deadline: float, checkpoint: Checkpoint) -> list[int] | None:
    """Return the nodes of a way after which the formula holds; None if none is found.

    No bit of ``goals`` may flip back, and ``legs`` has the nodes of these goals only. ``width``
    stands are kept in a layer; ``deadline`` is of the monotonic clock.
    """
    rules = task_rules(task, goals)
    node_bit = np.repeat(np.arange(len(goals)), np.diff(node_starts(legs, goals)))
    costs = np.vstack([legs.flip, legs.entry]) + completion_cost
    to_come = least_to_come(task, goals, legs, completion_cost)
    layers = [_Layer(np.array([-1]), np.array([len(node_bit)]), rules.initial[None], np.zeros(1))]
    best_cost, best = math.inf, (0, 0)
    while len(layers[-1].node) and time.monotonic() < deadline:
        checkpoint()
        layer = layers[-1]
        is_done = _accepts(task, goals, layer.words)
        for index in np.flatnonzero(is_done & (layer.cost < best_cost)):
            if layer.cost[index] < best_cost:
                best_cost, best = float(layer.cost[index]), (len(layers) - 1, int(index))
        # First exit: nothing follows an accepting state.
        allowed = _allowed(rules, layer.words) & ~is_done[:, None]
        parent, node = np.nonzero(allowed[:, node_bit])
        cost = layer.cost[parent] + costs[layer.node[parent], node]
        bit = node_bit[node]
        promise = cost + _remaining(layer.words, to_come)[parent] - to_come[bit]
        kept = _most_promising(np.flatnonzero(promise < best_cost), promise, _SLACK * width)
        parent, node, bit = parent[kept], node[kept], bit[kept]
        cost, promise = cost[kept], promise[kept]
        words = layer.words[parent]
        words[np.arange(len(bit)), bit >> 6] |= _ONE << (bit & 63).astype(np.uint64)
        kept = _most_promising(_cheapest_of_equal(words, node, cost), promise, width)
        layers.append(_Layer(parent[kept], node[kept], words[kept], cost[kept]))
    return None if best_cost == math.inf else _trace(layers, *best)


def least_to_come(task: Task, goals: tuple[int, ...], legs: Legs, completion_cost: float,
                  ) -> FloatArray:
    """Return for every goal that the formula asks for the cheapest way in, 0 for others.

    The sum over goals that are not done is a bound on what a plan still costs.
    """
    asked = asked_goals(task)
    least = np.zeros(len(goals))
    for bit, goal in enumerate(goals):
        ways_in = np.append(legs.flip[np.ix_(legs.node_goal != goal, legs.node_goal == goal)],
                            legs.entry[legs.node_goal == goal])
        if goal in asked and np.isfinite(ways_in).any():
            least[bit] = ways_in.min() + completion_cost
    return least


def _allowed(rules: TaskRules, words: Words) -> NDArray[np.bool_]:
    """Return for every state and bit whether it may flip from 0 to 1."""
    allowed = np.broadcast_to(rules.possible[0], (len(words), rules.possible.shape[1])).copy()
    allowed &= ~_bits(words, allowed.shape[1])
    for word in range(words.shape[1]):
        here, ones, zeros = words[:, word, None], rules.ones[0, :, word], rules.zeros[0, :, word]
        allowed &= ((here & ones) == ones) & ((here & zeros) == 0)
    return allowed


def _bits(words: Words, n_bits: int) -> NDArray[np.bool_]:
    bit = np.arange(n_bits)
    return np.asarray((words[:, bit >> 6] >> (bit & 63).astype(np.uint64)) & _ONE, dtype=bool)


def _remaining(words: Words, to_come: FloatArray) -> FloatArray:
    return np.asarray(~_bits(words, len(to_come)) @ to_come)


def _most_promising(stands: IntArray, promise: FloatArray, number: int) -> IntArray:
    if len(stands) <= number:
        return stands
    return stands[np.argpartition(promise[stands], number)[:number]]


def _cheapest_of_equal(words: Words, node: IntArray, cost: FloatArray) -> IntArray:
    """Return one index for every different stand, the one with the least cost."""
    order = np.lexsort((cost, node, *words.T))
    is_first = np.ones(len(order), dtype=bool)
    before, after = order[:-1], order[1:]
    is_first[1:] = (node[after] != node[before]) | (words[after] != words[before]).any(axis=1)
    return order[is_first]


def _accepts(task: Task, goals: tuple[int, ...], words: Words) -> NDArray[np.bool_]:
    bits = _bits(words, len(goals))
    asked = asked_goals(task)
    if not bits[:, [goal in asked for goal in goals]].all(axis=1).any():
        return np.zeros(len(words), dtype=bool)
    columns = dict(zip(goals, bits.T, strict=True))

    def column(goal: int) -> NDArray[np.bool_]:
        return columns[goal] if goal in columns else np.full(
            len(words), task.initial_bits[goal])

    accepted: NDArray[np.bool_] = np.empty(len(words), dtype=bool)
    accepted[:] = task.formula.evaluate(column)
    return accepted


def _trace(layers: list[_Layer], depth: int, index: int) -> list[int]:
    way = []
    for layer in reversed(layers[1:depth + 1]):
        way.append(int(layer.node[index]))
        index = int(layer.parent[index])
    return way[::-1]
