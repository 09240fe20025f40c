"""The goal kernel G: option jumps joined with the task-state update.

G(sigma_f, x_f | sigma, x, o_g) = P_sigma(sigma_f | sigma, alpha) F(alpha | x_f) J(x_f | x, o_g)
(eq. coupleddyn). In the deterministic case it is a graph: in task state sigma, standing at a node,
an option leads to a node of a goal and flips that goal's bit. The cost of this jump is
q_sigma_alpha + q_sigma + q_o: infinite where a constraint forbids it (then the jump is not
listed), ``option_cost`` per completion, and the option's value.

Every jump ends in a *stand*: "in this task state, at one of the nodes of this bit's goal". No two
flips end in the same one, because a flip can be undone in one way only. Under ``trigger: contact``
a jump may also end on a site of a done goal, which flips nothing (alpha_epsilon).
"""

from dataclasses import dataclass
from typing import NamedTuple

from numba import njit
import numpy as np
from numpy.typing import NDArray

from gk_planner.task_rules import Words
from gk_planner.task_states import TaskStates

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_ONE = np.uint64(1)


@dataclass(frozen=True, eq=False)
class Legs:
    """Costs of the jumps between nodes (metres at temperature 0, -log z above; inf: no way).

    Attributes
    ----------
    node_goal : ndarray of int
        The goal of every node; nodes of one goal stand together, goals rise.
    flip : ndarray, shape (n, n)
        From node to node, to complete the goal there.
    through : ndarray, shape (n, n)
        From node to a node of a done goal, to pass over it (trigger contact; else ``flip``).
    entry : ndarray, shape (n,)
        From the start to every node: the bar matrices of the desirability to enter.
    passes_done : bool
        Whether done sites join jumps (trigger contact).

    """

    node_goal: IntArray
    flip: FloatArray
    through: FloatArray
    entry: FloatArray
    passes_done: bool = False

    def restricted(self, nodes: IntArray) -> 'Legs':
        """Return the legs among some of the nodes, given in rising order."""
        if len(nodes) == len(self.node_goal):
            return self
        both = np.ix_(nodes, nodes)
        return Legs(self.node_goal[nodes], self.flip[both], self.through[both],
                    self.entry[nodes], self.passes_done)

    def reachable(self) -> NDArray[np.bool_]:
        """Return the nodes that some chain of jumps from the start reaches."""
        reached = np.isfinite(self.entry)
        if reached.all():
            return reached
        joined = np.isfinite(self.flip) | np.isfinite(self.through)
        while True:
            wider = reached | joined[reached].any(axis=0)
            if (wider == reached).all():
                return reached
            reached = wider


class JumpGraph(NamedTuple):
    """The goal kernel as flat arrays, for the sweep.

    The jumps of state s are ``jump_start[s]:jump_start[s + 1]``; one that flips a bit leads to
    another state, one that passes a done site stays in its own. The stands of state s are
    ``state_stands[s]:state_stands[s + 1]``, and each has as many values as its bit has nodes
    (``node_start[bit]:node_start[bit + 1]``), from ``state_places[s]`` on.
    """

    node_start: IntArray                # (n_bits + 1,)
    accepting: NDArray[np.bool_]        # (n_states,)
    state_stands: IntArray              # (n_states + 1,)
    state_places: IntArray              # (n_states + 1,)
    stand_bit: NDArray[np.uint16]
    jump_place: NDArray[np.uint32]      # the first value of the stand where a jump leads
    jump_start: IntArray                # (n_states + 1,)
    jump_bit: NDArray[np.uint16]
    jump_state: NDArray[np.int32]


def node_starts(legs: Legs, goals: tuple[int, ...]) -> IntArray:
    """Return the first node of every goal, and the number of nodes."""
    return np.searchsorted(legs.node_goal, (*goals, goals[-1] + 1 if goals else 0))


def build_goal_kernel(states: TaskStates, legs: Legs) -> JumpGraph:
    """Join the task states with the nodes of their goals; ``legs`` has these goals' nodes only."""
    jump_start, jump_bit, jump_state = states.flip_start, states.flip_bit, states.flip_target
    if legs.passes_done:
        irreversible = np.array([goal not in states.task.reversible for goal in states.goals],
                                dtype=np.bool_)
        jump_start, jump_bit, jump_state = _with_done_sites(
            states.words, states.accepting, irreversible, jump_start, jump_bit, jump_state)
    node_start = node_starts(legs, states.goals)
    return JumpGraph(node_start, states.accepting,
                     *_number_stands(node_start, jump_start, jump_bit, jump_state),
                     jump_start, jump_bit, jump_state)


@njit(cache=True, nogil=True)
def _with_done_sites(words: Words, accepting: NDArray[np.bool_],
                     irreversible: NDArray[np.bool_], flip_start: IntArray,
                     flip_bit: NDArray[np.uint16], flip_target: NDArray[np.int32],
                     ) -> tuple[IntArray, NDArray[np.uint16], NDArray[np.int32]]:
    """Add to the flips of every state, after them, the bits that are set for good."""
    n_states, n_bits = len(words), irreversible.size
    jump_start = np.zeros(n_states + 1, dtype=np.int64)
    jump_bit = np.empty(flip_bit.size + n_states * n_bits, dtype=np.uint16)
    jump_state = np.empty(jump_bit.size, dtype=np.int32)
    n_jumps = 0
    for state in range(n_states):
        for flip in range(flip_start[state], flip_start[state + 1]):
            jump_bit[n_jumps], jump_state[n_jumps] = flip_bit[flip], flip_target[flip]
            n_jumps += 1
        for bit in range(0 if accepting[state] else n_bits):
            if irreversible[bit] and (words[state, bit >> 6] >> np.uint64(bit & 63)) & _ONE:
                jump_bit[n_jumps], jump_state[n_jumps] = bit, state
                n_jumps += 1
        jump_start[state + 1] = n_jumps
    return jump_start, jump_bit[:n_jumps].copy(), jump_state[:n_jumps].copy()


@njit(cache=True, nogil=True)
def _number_stands(node_start: IntArray, jump_start: IntArray, jump_bit: NDArray[np.uint16],
                   jump_state: NDArray[np.int32]) -> tuple[IntArray, IntArray,
                                                           NDArray[np.uint16],
                                                           NDArray[np.uint32]]:
    """Give every jump the stand where it leads to, those of one state together.

    Returns ``state_stands``, ``state_places``, ``stand_bit`` and ``jump_place``.
    """
    n_states, n_jumps = jump_start.size - 1, jump_bit.size
    state_stands = np.zeros(n_states + 1, dtype=np.int64)
    state_places = np.zeros(n_states + 1, dtype=np.int64)
    for jump in range(n_jumps):
        bit, state = jump_bit[jump], jump_state[jump]
        state_stands[state + 1] += 1
        state_places[state + 1] += node_start[bit + 1] - node_start[bit]
    for state in range(n_states):
        state_stands[state + 1] += state_stands[state]
        state_places[state + 1] += state_places[state]
    next_stand, next_place = state_stands[:-1].copy(), state_places[:-1].copy()
    stand_bit = np.empty(n_jumps, dtype=np.uint16)
    jump_place = np.empty(n_jumps, dtype=np.uint32)
    for jump in range(n_jumps):
        bit, state = jump_bit[jump], jump_state[jump]
        stand_bit[next_stand[state]] = bit
        jump_place[jump] = next_place[state]
        next_stand[state] += 1
        next_place[state] += node_start[bit + 1] - node_start[bit]
    return state_stands, state_places, stand_bit, jump_place
