"""Task states: which bits matter, and all states that allowed flips lead to.

P_sigma is kept in one of two forms. :class:`TaskStates` lists the states that can be reached, each
a row of 64-bit words, and their flips: any number of goals is as good as any other, and the work
grows with what the constraints allow, not with 2^N. :class:`SubsetStates` serves few irreversible
bits, where the set of bits is the number of the state. Accepting states end the task (first exit).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
import math

import numpy as np
from numpy.typing import NDArray

from gk_planner.boolean_task import once_per_task, Task
from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.errors import LimitError
from gk_planner.formula_tree import And, Bit
from gk_planner.state_listing import (
    FLIP_BYTES,
    list_states,
    mark_subsets,
    STATE_BYTES,
    SubsetMasks,
)
from gk_planner.task_rules import task_rules, Words

_ONE = np.uint64(1)
# With more bits the masks alone would fill the memory.
_MAX_SUBSET_BITS = 24
# What the masks, the place and the first value of a set need.
_SUBSET_BYTES = 19


@once_per_task
def relevant_goals(task: Task, possible: tuple[int, ...], *, drop_harmful: bool,
                   ) -> tuple[int, ...]:
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
    for goal, signs in task.formula.polarity.items():
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
        The first is the initial one; flips lead to later states unless a bit is reversible.
    accepting : ndarray of bool, shape (n_states,)
    flip_start : ndarray of int64, shape (n_states + 1,)
        The flips of state s are ``flip_start[s]:flip_start[s + 1]``, ordered by bit.
    flip_bit : ndarray of uint16
    flip_target : ndarray of int32
        The state that a flip leads to.
    is_acyclic : bool
        No bit is reversible: every flip leads to a later state.

    """

    task: Task
    goals: tuple[int, ...]
    words: Words
    accepting: NDArray[np.bool_]
    flip_start: NDArray[np.int64]
    flip_bit: NDArray[np.uint16]
    flip_target: NDArray[np.int32]
    is_acyclic: bool
    initial = 0

    def __len__(self) -> int:
        return len(self.words)

    def numbers(self) -> NDArray[np.int64]:
        """Return the numbers of the states that can be reached."""
        return np.arange(len(self))

    @property
    def flip_source(self) -> NDArray[np.int64]:
        """The state that a flip leads from."""
        return np.repeat(np.arange(len(self)), np.diff(self.flip_start))

    def bits(self, state: int) -> tuple[bool, ...]:
        """Return the full task state: the value of every goal of the task."""
        values = list(self.task.initial_bits)
        words = [int(word) for word in self.words[state]]
        for bit, goal in enumerate(self.goals):
            values[goal] = bool((words[bit >> 6] >> (bit & 63)) & 1)
        return tuple(values)

    def is_set(self, bit: int) -> NDArray[np.bool_]:
        """Return for every state whether a bit is 1."""
        return ((self.words[:, bit >> 6] >> np.uint64(bit & 63)) & _ONE).astype(bool)

    def index(self, bits: Iterable[bool]) -> int | None:
        """Return the index of a full task state, None if it cannot be reached."""
        return self._index_of.get(tuple(bool(bit) for bit in bits))

    @cached_property
    def _index_of(self) -> dict[tuple[bool, ...], int]:
        return {self.bits(state): state for state in range(len(self))}


@dataclass(frozen=True, eq=False)
class SubsetStates:
    """All sets of a few irreversible bits, of which some can be reached.

    Attributes
    ----------
    goals : tuple of int
        The goal of every bit; bit b of the number of a state belongs to ``goals[b]``.
    masks : SubsetMasks
        Per state the bits that may flip next, whether it can be reached, and whether it accepts.
    initial : int
        The state at the start.

    """

    task: Task
    goals: tuple[int, ...]
    masks: SubsetMasks
    initial: int

    def __len__(self) -> int:
        return int(np.count_nonzero(self.masks.reached))

    def numbers(self) -> NDArray[np.int64]:
        """Return the numbers of the states that can be reached."""
        return np.flatnonzero(self.masks.reached)

    @property
    def accepting(self) -> NDArray[np.bool_]:
        """Whether the formula holds, for every state that can be reached."""
        return self.masks.accepting

    def bits(self, state: int) -> tuple[bool, ...]:
        """Return the full task state: the value of every goal of the task."""
        values = list(self.task.initial_bits)
        for bit, goal in enumerate(self.goals):
            values[goal] = bool((state >> bit) & 1)
        return tuple(values)

    def index(self, bits: Iterable[bool]) -> int | None:
        """Return the number of a full task state, None if it cannot be reached."""
        values = tuple(bool(bit) for bit in bits)
        state = sum(values[goal] << bit for bit, goal in enumerate(self.goals))
        return state if self.masks.reached[state] and self.bits(state) == values else None


def most_states(task: Task, goals: tuple[int, ...]) -> int:
    """Return a bound on the number of task states, without listing any.

    Irreversible goals that come one before the other form chains; of a chain of n goals only the
    first ones can be done, in n + 1 ways.
    """
    before: dict[int, set[int]] = {goal: set() for goal in goals if goal not in task.reversible}
    for rule in task.bit_constraints:
        if rule.control in before and rule.condition in before and (
                rule.control_value == rule.condition_value == 0):
            before[rule.control].add(rule.condition)
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError:
        order = []
    chains: list[list[int]] = []
    behind: dict[int, set[int]] = {}
    for goal in order:
        behind[goal] = set().union(*({first} | behind[first] for first in before[goal]))
        joined = [chain for chain in chains if chain[-1] in behind[goal]]
        if joined:
            max(joined, key=len).append(goal)
        else:
            chains.append([goal])
    n_free = len(goals) - len(order)
    return int(2 ** n_free * math.prod(len(chain) + 1 for chain in chains))


@once_per_task
def asked_goals(task: Task) -> frozenset[int]:
    """Return the goals without any of which the formula does not hold."""
    root = task.formula.root
    return frozenset(part.index for part in (root.operands if isinstance(root, And) else (root,))
                     if isinstance(part, Bit))


def _fewest_free(task: Task, goals: tuple[int, ...]) -> int:
    """Return how many bits make at least 2^n states, and n flips for every two of these.

    They may flip at any time, and the formula does not hold, so that the task would end, before
    all of them have flipped.
    """
    wait = {rule.control for rule in task.bit_constraints if not rule.control_value}
    return len((asked_goals(task) & set(goals)) - task.done - wait)


def reachable_states(task: Task, goals: tuple[int, ...], max_bytes: int,
                     checkpoint: Checkpoint = proceed) -> TaskStates:
    """List every task state that allowed flips lead to.

    Raises
    ------
    LimitError
        If the list would need more than ``max_bytes`` of memory.

    """
    n_free = _fewest_free(task, goals)
    if (STATE_BYTES + n_free * FLIP_BYTES // 2) << n_free > max_bytes:
        raise LimitError(f'{task.source}: at least 2^{n_free} task states can be reached over '
                         f'{len(goals)} goals; add constraints or raise task_memory')
    lists, is_complete = list_states(task_rules(task, goals), max_bytes, checkpoint)
    if not is_complete:
        raise LimitError(f'{task.source}: more than {len(lists.words)} task states can be reached '
                         f'over {len(goals)} goals; add constraints or raise task_memory')
    return TaskStates(task, goals, *lists, is_acyclic=task.reversible.isdisjoint(goals))


def subset_states(task: Task, goals: tuple[int, ...], max_bytes: int) -> SubsetStates | None:
    """Return the states as sets of bits; None if these are many or may flip back."""
    if (len(goals) > _MAX_SUBSET_BITS or not task.reversible.isdisjoint(goals)
            or _SUBSET_BYTES << len(goals) > max_bytes):
        return None
    rules = task_rules(task, goals)
    return SubsetStates(task, goals, mark_subsets(rules), int(rules.initial[0]))
