"""Whether a task can be done at all: in which task states the robot can stand where.

Costs play no part, so the places where a robot can stand in a state are a set of bits, and a flip
hands on all of them at once.
"""

from collections.abc import Mapping
from typing import NamedTuple

from numba import njit
import numpy as np
from numpy.typing import NDArray

from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.task_rules import Words
from gk_planner.task_states import TaskStates

Bools = NDArray[np.bool_]
IntArray = NDArray[np.int64]

_ONE = np.uint64(1)
# States looked at between two checkpoints.
_STATES_PER_CALL = 50_000


class Ways(NamedTuple):
    """What can be completed from where.

    Places are the nodes, and as the last one the start; sets of places are words of 64 bits.
    """

    node_start: IntArray    # (n_bits + 1,): the nodes of every bit
    into: Words             # (n_nodes, W): from where there is a way to complete the goal
    through: Words          # (n_nodes, W): from where there is a way to pass over the done site
    on_the_spot: Words      # (n_bits, W): where the goal is completed without a move
    passes: Bools           # (n_bits,): whether done sites of the goal are passed over


def can_be_accepted(states: TaskStates, place_goal: IntArray, flip: Bools, through: Bools,
                    on_the_spot: Mapping[int, Bools], *, passes_done: bool,
                    checkpoint: Checkpoint = proceed) -> bool:
    """Return whether some accepting state can be stood in.

    Parameters
    ----------
    states : TaskStates
        The task states.
    place_goal : ndarray of int, shape (n_places,)
        The goal of every node, and -1 for the start, which is the last place.
    flip, through : ndarray of bool, shape (n_places, n_places - 1)
        Whether there is a way to complete the goal of a node, or to pass over its done site.
    on_the_spot : mapping
        For some goals at which places they are completed without a move.
    passes_done : bool
        Whether done sites join ways (trigger contact).
    checkpoint : callable
        Called now and then; may raise to stop.

    """
    goals = np.array(states.goals, dtype=np.int64)
    spots = np.zeros((len(goals), len(place_goal)), dtype=bool)
    for bit, goal in enumerate(states.goals):
        spots[bit] = on_the_spot.get(goal, False)
    taking_part = np.flatnonzero(np.isin(place_goal, goals))
    ways = Ways(
        np.searchsorted(place_goal[taking_part], np.append(goals, np.iinfo(np.int64).max)),
        _words(flip[:, taking_part].T), _words(through[:, taking_part].T), _words(spots),
        np.array([passes_done and goal not in states.task.reversible for goal in states.goals],
                 dtype=bool))
    there = np.zeros((len(states), -(-len(place_goal) // 64)), dtype=np.uint64)
    start = len(place_goal) - 1
    there[0, start >> 6] = 1 << (start & 63)
    while True:
        is_settled = True
        for first in range(0, len(states), _STATES_PER_CALL):
            checkpoint()
            found, is_final = _spread(states.words, states.accepting, states.flip_start,
                                      states.flip_bit, states.flip_target, ways, taking_part,
                                      there, first, min(first + _STATES_PER_CALL, len(states)))
            if found:
                return True
            is_settled &= is_final
        if is_settled:
            return False


def _words(sets: Bools) -> Words:
    """Return rows of booleans as words of 64 bits."""
    n_words = -(-sets.shape[1] // 64)
    padded = np.zeros((len(sets), 64 * n_words), dtype=bool)
    padded[:, :sets.shape[1]] = sets
    return np.packbits(padded, axis=1, bitorder='little').view(np.dtype('<u8')).astype(np.uint64)


@njit(cache=True, nogil=True)
def _spread(words: Words, accepting: Bools, flip_start: IntArray, flip_bit: NDArray[np.uint16],
            flip_target: NDArray[np.int32], ways: Ways, node_place: IntArray, there: Words,
            first: int, last: int) -> tuple[bool, bool]:
    """Hand on the places of some states.

    Returns whether an accepting state was reached, and whether no state before was.
    """
    if accepting[0]:
        return True, True
    is_final = True
    for state in range(first, last):
        if accepting[state] or not there[state].any():
            continue
        _pass_over_done(words[state], ways, node_place, there[state])
        for flip in range(flip_start[state], flip_start[state + 1]):
            bit, target = flip_bit[flip], flip_target[flip]
            is_new = _add_nodes(bit, ways.node_start, ways.into, node_place, there[state],
                                there[target])
            for word in range(there.shape[1]):
                spot = there[state, word] & ways.on_the_spot[bit, word] & ~there[target, word]
                if spot:
                    there[target, word] |= spot
                    is_new = True
            if is_new and accepting[target]:
                return True, True
            if is_new and target <= state:
                is_final = False
    return False, is_final


@njit(cache=True, nogil=True)
def _pass_over_done(bits: Words, ways: Ways, node_place: IntArray, places: Words) -> None:
    """Add the done sites that lie on a way from a place over others of them."""
    is_new = True
    while is_new:
        is_new = False
        for bit in range(ways.passes.size):
            if ways.passes[bit] and (bits[bit >> 6] >> np.uint64(bit & 63)) & _ONE:
                is_new |= _add_nodes(bit, ways.node_start, ways.through, node_place, places,
                                     places)


@njit(cache=True, nogil=True)
def _add_nodes(bit: int, node_start: IntArray, into: Words, node_place: IntArray, origins: Words,
               places: Words) -> bool:
    """Add the nodes of a bit to which a way leads from one of the origins."""
    is_new = False
    for node in range(node_start[bit], node_start[bit + 1]):
        place = node_place[node]
        here = _ONE << np.uint64(place & 63)
        if places[place >> 6] & here:
            continue
        for word in range(origins.size):
            if origins[word] & into[node, word]:
                places[place >> 6] |= here
                is_new = True
                break
    return is_new
