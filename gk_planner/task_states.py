"""Task states: which bits matter, which flips are allowed, and all states that can be reached.

A task state sigma is a row of 64-bit words, so any number of goals is as good as any other. The
transition kernel P_sigma and the ordering cost q_sigma_alpha (eq. BOG_order_cost) become two
masks per flip: the bits that must be 1 and the bits that must be 0. Only states that flips lead to
from the initial state are listed; accepting states end the task (first exit).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gk_planner.boolean_task import Task
from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.errors import LimitError

Words = NDArray[np.uint64]
_ONE = np.uint64(1)
_BIT_COUNT = np.array([value.bit_count() for value in range(256)], dtype=np.uint8)


def relevant_goals(task: Task, possible: Iterable[int], *, drop_harmful: bool) -> tuple[int, ...]:
    """Return the goals whose bit can matter, in rising order.

    Parameters
    ----------
    task : Task
        The task.
    possible : iterable of int
        Goals that have a place to be completed at.
    drop_harmful : bool
        Also leave out flips that can only hurt: away from the value that the formula wants, or
        of a bit that would only forbid something. This keeps every cheapest plan, but is not the
        same LMDP, where every option is weighed.

    """
    flippable = set(possible) - (task.done - task.reversible)
    bits = task.initial_bits
    wanted = set()
    for goal, signs in task.formula.polarity().items():
        if not drop_harmful or (-1 if bits[goal] else +1) in signs:
            wanted.add(goal)
    relevant: set[int] = set()
    fresh = wanted & flippable
    while fresh:
        relevant |= fresh
        fresh = {rule.condition for rule in task.bit_constraints
                 if rule.control in fresh
                 and (rule.control_value == bits[rule.control] or rule.control in task.reversible)
                 and (not drop_harmful or rule.condition_value == bits[rule.condition])}
        fresh = (fresh & flippable) - relevant
    return tuple(sorted(relevant))


@dataclass(frozen=True, eq=False)
class TaskStates:
    """The task states that can be reached and the flips between them.

    Attributes
    ----------
    goals : tuple of int
        The goal of every bit.
    words : ndarray of uint64, shape (n_states, n_words)
        State 0 is the initial one; flips lead to later states unless a bit is reversible.
    accepting : ndarray of bool, shape (n_states,)
    flip_source, flip_bit, flip_target : ndarray of int
        The allowed flips, ordered by source, then bit.
    is_acyclic : bool
        No bit is reversible: every flip leads to a later state.

    """

    task: Task
    goals: tuple[int, ...]
    words: Words
    accepting: NDArray[np.bool_]
    flip_source: NDArray[np.int64]
    flip_bit: NDArray[np.int64]
    flip_target: NDArray[np.int64]
    is_acyclic: bool

    def bits(self, state: int) -> tuple[bool, ...]:
        """Return the full task state: the value of every goal of the task."""
        values = list(self.task.initial_bits)
        for bit, goal in enumerate(self.goals):
            values[goal] = bool(_column(self.words[state:state + 1], bit)[0])
        return tuple(values)

    def is_set(self, bit: int) -> NDArray[np.bool_]:
        """Return for every state whether a bit is 1."""
        return _column(self.words, bit)

    def index(self, bits: Iterable[bool]) -> int | None:
        """Return the index of a full task state, None if it cannot be reached."""
        return self._index_of.get(tuple(bool(bit) for bit in bits))

    @cached_property
    def _index_of(self) -> dict[tuple[bool, ...], int]:
        return {self.bits(state): state for state in range(len(self.words))}


@dataclass(frozen=True, eq=False)
class _Flips:
    """Masks of the allowed flips: ``ones``/``zeros``[value, bit] must be set/clear in sigma."""

    ones: Words
    zeros: Words
    possible: NDArray[np.bool_]

    @classmethod
    def of(cls, task: Task, goals: tuple[int, ...]) -> '_Flips':
        bit_of = {goal: bit for bit, goal in enumerate(goals)}
        n_bits, n_words = len(goals), max(1, -(-len(goals) // 64))
        masks = np.zeros((2, 2, n_bits, n_words), dtype=np.uint64)
        possible = np.ones((2, n_bits), dtype=bool)
        for bit, goal in enumerate(goals):
            possible[1, bit] = goal in task.reversible
        for rule in task.bit_constraints:
            if rule.control not in bit_of:
                continue
            control = bit_of[rule.control]
            if rule.condition in bit_of:
                condition = bit_of[rule.condition]
                masks[1 - rule.condition_value, rule.control_value, control,
                      condition >> 6] |= _ONE << np.uint64(condition & 63)
            elif task.initial_bits[rule.condition] == bool(rule.condition_value):
                possible[rule.control_value, control] = False
        return cls(masks[1], masks[0], possible)

    def allowed(self, words: Words, bit: int) -> NDArray[np.bool_]:
        """Return for every state whether the bit may flip."""
        is_set = _column(words, bit)
        result = np.zeros(len(words), dtype=bool)
        for value in (0, 1):
            if self.possible[value, bit]:
                ones, zeros = self.ones[value, bit], self.zeros[value, bit]
                result |= ((is_set == bool(value)) & ((words & ones) == ones).all(axis=1)
                           & ((words & zeros) == 0).all(axis=1))
        return result


def reachable_states(task: Task, goals: tuple[int, ...], max_states: int,
                     checkpoint: Checkpoint = proceed) -> TaskStates:
    """List every task state that allowed flips lead to, layer by layer.

    Raises
    ------
    LimitError
        If there are more than ``max_states``.

    """
    flips = _Flips.of(task, goals)
    n_words = flips.ones.shape[-1]
    layer = np.zeros((1, n_words), dtype=np.uint64)
    for bit, goal in enumerate(goals):
        if goal in task.done:
            layer[0, bit >> 6] |= _ONE << np.uint64(bit & 63)
    is_acyclic = not any(goal in task.reversible for goal in goals)
    layers, accepting = [layer], [_accepts(task, goals, layer)]
    sources, bits, targets = [], [], []
    n_states, first = 1, 0
    while len(layer):
        checkpoint()
        found = _layer_flips(flips, layers, ~accepting[-1], max_states - n_states)
        if found is None:
            raise _limit_error(task, goals, max_states)
        row, flipping = found
        flipped = layer[row]
        flipped[np.arange(len(row)), flipping >> 6] ^= (
            _ONE << (flipping & 63).astype(np.uint64))
        # Irreversible flips never come back to an earlier layer.
        known = layer[:0] if is_acyclic else np.concatenate(layers)
        target, layer = _number_rows(known, flipped)
        target[target >= len(known)] += n_states - len(known)
        sources.append(first + row)
        bits.append(flipping)
        targets.append(target)
        first, n_states = n_states, n_states + len(layer)
        if n_states > max_states:
            raise _limit_error(task, goals, max_states)
        layers.append(layer)
        accepting.append(_accepts(task, goals, layer))
    source, flip_bit = np.concatenate(sources), np.concatenate(bits)
    order = np.lexsort((flip_bit, source))
    return TaskStates(task, goals, np.concatenate(layers), np.concatenate(accepting),
                      source[order], flip_bit[order], np.concatenate(targets)[order], is_acyclic)


def _layer_flips(flips: _Flips, layers: list[Words], is_open: NDArray[np.bool_],
                 room: int) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return row and bit of every flip from the open states of the last layer.

    None if these flips lead to more than ``room`` new states, noticed before any is built: a
    state with as many changed bits as layers before it, and one more flipped, is new, and no
    state with k changed bits is reached by more than k such flips.
    """
    depth = len(layers) - 1
    expand = np.flatnonzero(is_open)
    words = layers[-1][expand]
    changed = words ^ layers[0]
    is_outermost = _BIT_COUNT[changed.view(np.uint8)].sum(axis=1, dtype=np.int64) == depth
    rows, bits, n_outward = [expand[:0]], [expand[:0]], 0
    for bit in range(flips.possible.shape[1]):
        allowed = flips.allowed(words, bit)
        n_outward += int(np.count_nonzero(allowed & is_outermost & ~_column(changed, bit)))
        if n_outward > room * (depth + 1):
            return None
        rows.append(expand[allowed])
        bits.append(np.full(len(rows[-1]), bit))
    return np.concatenate(rows), np.concatenate(bits)


def _limit_error(task: Task, goals: tuple[int, ...], max_states: int) -> LimitError:
    return LimitError(
        f'{task.source}: more than {max_states} task states can be reached over '
        f'{len(goals)} goals; add constraints or raise max_task_states')


def _number_rows(known: Words, rows: Words) -> tuple[NDArray[np.int64], Words]:
    """Number ``rows``: as in ``known`` where equal, new ones onwards in their sorted order."""
    both = np.concatenate([known, rows])
    order = np.lexsort(both.T)
    is_first = np.ones(len(both), dtype=bool)
    is_first[1:] = (both[order[1:]] != both[order[:-1]]).any(axis=1)
    group = np.empty(len(both), dtype=np.int64)
    group[order] = np.cumsum(is_first) - 1
    number = np.full(int(is_first.sum()), -1, dtype=np.int64)
    number[group[:len(known)]] = np.arange(len(known))
    fresh = np.flatnonzero(number < 0)
    number[fresh] = len(known) + np.arange(len(fresh))
    return number[group[len(known):]], both[order[is_first]][fresh]


def _column(words: Words, bit: int) -> NDArray[np.bool_]:
    return np.asarray((words[:, bit >> 6] >> np.uint64(bit & 63)) & _ONE, dtype=bool)


def _accepts(task: Task, goals: tuple[int, ...], words: Words) -> NDArray[np.bool_]:
    bit_of = {goal: bit for bit, goal in enumerate(goals)}

    def column(goal: int) -> NDArray[np.bool_]:
        if goal in bit_of:
            return _column(words, bit_of[goal])
        return np.full(len(words), task.initial_bits[goal])

    return np.array(np.broadcast_to(task.formula.evaluate(column), len(words)))
