"""The task states that allowed flips lead to, found in one of two ways.

*Listed*: breadth first, each state found again by hashing its words (open addressing). One call
of the kernel expands a piece of the list: it tries every flip of every state there and appends
the states that are new.

*Marked*: where bits are few and never flip back, every set of them has a place of its own, and
flips lead to larger numbers. Per set a mask says which bits may flip next.
"""

from typing import NamedTuple, TypeVar

from numba import njit
import numpy as np
from numpy.typing import NDArray

from gk_planner.checkpoint import Checkpoint
from gk_planner.task_rules import ODD, TaskRules, Words

_Number = TypeVar('_Number', bound=np.generic)

# Flips tried between two checkpoints.
_FLIPS_PER_CALL = 200_000
# What a state and a flip need here and in the goal kernel, with one node per goal.
STATE_BYTES, FLIP_BYTES = 41, 28
# Odd, from the golden ratio: spreads neighbouring states over the table.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_EMPTY = np.int32(-1)


class StateLists(NamedTuple):
    """The states found and their flips; see :class:`gk_planner.task_states.TaskStates`."""

    words: Words                    # (n_states, W)
    accepting: NDArray[np.bool_]    # (n_states,)
    flip_start: NDArray[np.int64]   # (n_states + 1,)
    flip_bit: NDArray[np.uint16]
    flip_target: NDArray[np.int32]

    def resized(self, n_states: int, n_flips: int) -> 'StateLists':
        """Return lists that hold at least so many states and flips, with the same beginning."""
        # One row of words more, for the state in question.
        return StateLists(_resized(self.words, n_states + 1), _resized(self.accepting, n_states),
                          _resized(self.flip_start, n_states + 1),
                          _resized(self.flip_bit, n_flips), _resized(self.flip_target, n_flips))

    def trimmed(self, n_states: int, n_flips: int) -> 'StateLists':
        """Return the lists without what is not in use."""
        return StateLists(self.words[:n_states], self.accepting[:n_states],
                          self.flip_start[:n_states + 1], self.flip_bit[:n_flips],
                          self.flip_target[:n_flips])


def list_states(rules: TaskRules, max_bytes: int, checkpoint: Checkpoint) -> tuple[
        StateLists, bool]:
    """List the states that allowed flips lead to from the initial one.

    Returns the lists, and whether they are complete; they are not if they need more than
    ``max_bytes``.
    """
    n_words, n_bits = rules.initial.size, rules.possible.shape[1]
    lists = StateLists(rules.initial[None].copy(), np.empty(1, dtype=np.bool_),
                       np.zeros(2, dtype=np.int64), np.empty(0, dtype=np.uint16),
                       np.empty(0, dtype=np.int32))
    slots = np.empty(0, dtype=np.int32)
    first, n_states = 0, 1
    while first < n_states:
        checkpoint()
        n_flips = int(lists.flip_start[first])
        if n_states * (8 * n_words + STATE_BYTES) + n_flips * FLIP_BYTES > max_bytes:
            return lists.trimmed(n_states, n_flips), False
        last = first + 1 + _FLIPS_PER_CALL // max(n_bits, 1)
        room = (last - first) * n_bits
        lists = lists.resized(n_states + room, n_flips + room)
        if len(slots) < 2 * (n_states + room):
            slots = _table(lists.words, n_states, n_states + room)
        first, n_states = _expand(rules, lists, slots, first, last, n_states)
    return lists.trimmed(n_states, int(lists.flip_start[n_states])), True


def _resized(array: NDArray[_Number], size: int) -> NDArray[_Number]:
    if len(array) >= size:
        return array
    new = np.empty((max(size, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    new[:len(array)] = array
    return new


def _table(words: Words, n_states: int, n_expected: int) -> NDArray[np.int32]:
    """Return a table of slots for ``n_expected`` states with the first ones entered."""
    slots = np.full(1 << max(1, (2 * n_expected - 1).bit_length()), _EMPTY)
    _enter(words, n_states, slots)
    return slots


@njit(cache=True, nogil=True, inline='always')
def _shift(n_slots: int) -> np.uint64:
    """Return by how much a hash of 64 bits is shifted to be a slot."""
    shift = 64
    while n_slots > 1:
        n_slots >>= 1
        shift -= 1
    return np.uint64(shift)


@njit(cache=True, nogil=True)
def _enter(words: Words, n_states: int, slots: NDArray[np.int32]) -> None:
    """Enter states, all different, into an empty table."""
    shift = _shift(slots.size)
    last_slot = np.uint64(slots.size - 1)
    for state in range(n_states):
        slot = _slot(words, state, shift)
        while slots[slot] != _EMPTY:
            slot = (slot + _ONE) & last_slot
        slots[slot] = state


@njit(cache=True, nogil=True)
def _expand(rules: TaskRules, lists: StateLists, slots: NDArray[np.int32], first: int,
            last: int, n_states: int) -> tuple[int, int]:
    """Flip every bit that may flip in the states from ``first`` to ``last``, as far as known.

    Returns the first state not expanded and the number of states.
    """
    ones, zeros, possible, _, steps, literals = rules
    words, accepting, flip_start, flip_bit, flip_target = lists
    n_bits = possible.shape[1]
    shift = _shift(slots.size)
    last_slot = np.uint64(slots.size - 1)
    stack = np.empty(len(steps), dtype=np.int64)
    if first == 0:
        accepting[0] = _holds(steps, literals, words, 0, stack)
    state = first
    while state < min(last, n_states):
        n_flips = flip_start[state]
        for bit in range(0 if accepting[state] else n_bits):
            its_word, mask = bit >> 6, _ONE << np.uint64(bit & 63)
            value = 1 if words[state, its_word] & mask else 0
            if not possible[value, bit] or not _fits(words, state, ones, zeros, value, bit):
                continue
            for word in range(words.shape[1]):
                words[n_states, word] = words[state, word]
            words[n_states, its_word] ^= mask
            slot = _slot(words, n_states, shift)
            other = slots[slot]
            while other != _EMPTY and not _equal(words, other, n_states):
                slot = (slot + _ONE) & last_slot
                other = slots[slot]
            if other == _EMPTY:
                other = n_states
                slots[slot] = other
                accepting[other] = _holds(steps, literals, words, other, stack)
                n_states += 1
            flip_bit[n_flips] = bit
            flip_target[n_flips] = other
            n_flips += 1
        state += 1
        flip_start[state] = n_flips
    return state, n_states


@njit(cache=True, nogil=True, inline='always')
def _fits(words: Words, state: int, ones: Words, zeros: Words, value: int, bit: int) -> bool:
    """Return whether the bits that must be 1 are, and those that must be 0."""
    for word in range(words.shape[1]):
        here, must = words[state, word], ones[value, bit, word]
        if here & must != must or here & zeros[value, bit, word]:
            return False
    return True


@njit(cache=True, nogil=True, inline='always')
def _slot(words: Words, state: int, shift: np.uint64) -> np.uint64:
    """Return where the search for a state begins."""
    code = np.uint64(0)
    for word in range(words.shape[1]):
        code = (code ^ (code >> np.uint64(29)) ^ words[state, word]) * _MULTIPLIER
    return code >> shift


@njit(cache=True, nogil=True, inline='always')
def _equal(words: Words, state: int, other: int) -> bool:
    for word in range(words.shape[1]):  # noqa: SIM110 - compiled
        if words[state, word] != words[other, word]:
            return False
    return True


@njit(cache=True, nogil=True, inline='always')
def _holds(steps: NDArray[np.int64], literals: Words, words: Words, state: int,
           stack: NDArray[np.int64]) -> bool:
    """Run the program of the formula on ``words[state]``; see :class:`TaskRules`."""
    top = 0
    for step in range(len(steps)):
        n_true = np.int64(0)
        for word in range(words.shape[1]):
            here = words[state, word]
            n_true += _bit_count((here & literals[step, 0, word])
                                 | (~here & literals[step, 1, word]))
        for _ in range(steps[step, 0]):
            top -= 1
            n_true += stack[top]
        low, high = steps[step, 1], steps[step, 2]
        if high == ODD:
            stack[top] = (n_true + low) & 1
        else:
            stack[top] = low <= n_true <= high
        top += 1
    return bool(stack[0])


@njit(cache=True, nogil=True, inline='always')
def _bit_count(word: np.uint64) -> np.int64:
    """Return the number of ones, summed in pairs, nibbles and bytes."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = ((word & np.uint64(0x3333333333333333))
            + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333)))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


class SubsetMasks(NamedTuple):
    """What may happen in each set of bits; bit b of a mask stands for bit b of the task state."""

    next: NDArray[np.uint32]        # bits that may flip; none in accepting states, or out of reach
    reached: NDArray[np.bool_]
    accepting: NDArray[np.bool_]


def mark_subsets(rules: TaskRules) -> SubsetMasks:
    """Mark every set of at most 32 bits that allowed flips lead to; no bit may flip back."""
    n_sets = 1 << rules.possible.shape[1]
    masks = SubsetMasks(np.zeros(n_sets, dtype=np.uint32), np.zeros(n_sets, dtype=np.bool_),
                        np.zeros(n_sets, dtype=np.bool_))
    _mark(rules, masks)
    return masks


@njit(cache=True, nogil=True)
def _mark(rules: TaskRules, masks: SubsetMasks) -> None:
    ones, zeros, possible, initial, steps, literals = rules
    next_bits, reached, accepting = masks
    reached[initial[0]] = True
    free, bound = np.uint64(0), [0 for _ in range(0)]
    for bit in range(possible.shape[1]):
        if possible[0, bit]:
            if ones[0, bit, 0] | zeros[0, bit, 0]:
                bound.append(bit)
            else:
                free |= _ONE << np.uint64(bit)
    # The bits that the last operator asks for, if it asks for all of its operands.
    n_last, low, high = steps[-1]
    n_operands = n_last + _bit_count(literals[-1, 0, 0]) + _bit_count(literals[-1, 1, 0])
    asks_all = low == n_operands and high != ODD
    asked = literals[-1, 0, 0] if asks_all else np.uint64(0)
    stack = np.empty(len(steps), dtype=np.int64)
    words = np.empty((1, 1), dtype=np.uint64)
    for state in range(initial[0], next_bits.size):
        if not reached[state]:
            continue
        sigma = np.uint64(state)
        words[0, 0] = sigma
        accepting[state] = sigma & asked == asked and _holds(steps, literals, words, 0, stack)
        if accepting[state]:
            continue
        flips = free & ~sigma
        for bit in bound:
            if _fits(words, 0, ones, zeros, 0, bit):
                flips |= (_ONE << np.uint64(bit)) & ~sigma
        next_bits[state] = flips
        while flips:
            lowest = flips & (~flips + _ONE)
            reached[sigma | lowest] = True
            flips ^= lowest
