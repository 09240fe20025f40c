"""The goal kernel G: option jumps joined with the task-state update.

G(sigma_f, x_f | sigma, x, o_g) = P_sigma(sigma_f | sigma, alpha) F(alpha | x_f) J(x_f | x, o_g)
(eq. coupleddyn). In the deterministic case it is a graph: in task state sigma, standing at a node,
an option leads to a node of a goal and flips that goal's bit. The cost of this jump is
q_sigma_alpha + q_sigma + q_o: infinite where a constraint forbids it (then the jump is not
listed), ``option_cost`` per completion, and the option's value.

The graph is stored by *stands*: pairs (task state, bit) that mean "in this state, at one of the
nodes of this bit's goal". Under ``trigger: contact`` a jump may also end on a site of a done goal,
which flips nothing (alpha_epsilon).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gk_planner.task_states import TaskStates

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
        both = np.ix_(nodes, nodes)
        return Legs(self.node_goal[nodes], self.flip[both], self.through[both],
                    self.entry[nodes], self.passes_done)

    def reachable(self) -> NDArray[np.bool_]:
        """Return the nodes that some chain of jumps from the start reaches."""
        reached = np.isfinite(self.entry)
        joined = np.isfinite(self.flip) | np.isfinite(self.through)
        while True:
            wider = reached | joined[reached].any(axis=0)
            if (wider == reached).all():
                return reached
            reached = wider


class JumpGraph(NamedTuple):
    """The goal kernel as flat arrays, for the sweep.

    ``node_start[bit]`` is the first node of a bit; the values of stand s lie from
    ``stand_start[s]`` on, one per node of its bit. Jumps of state s are
    ``jump_start[s]:jump_start[s + 1]``, its stands ``state_stands[s]:state_stands[s + 1]``.
    """

    node_start: IntArray
    state_stands: IntArray
    stand_bit: IntArray
    stand_start: IntArray
    jump_start: IntArray
    jump_bit: IntArray
    jump_stand: IntArray
    jump_flips: NDArray[np.bool_]
    jump_state: IntArray
    accepting: NDArray[np.bool_]


def build_goal_kernel(states: TaskStates, legs: Legs) -> JumpGraph:
    """Join the task states with the nodes of their goals; ``legs`` has these goals' nodes only."""
    n_states, n_bits = len(states.words), len(states.goals)
    source, bit, target = states.flip_source, states.flip_bit, states.flip_target
    flips = np.ones(len(source), dtype=bool)
    if legs.passes_done:
        rest_state, rest_bit = _done_sites(states)
        source = np.concatenate([source, rest_state])
        bit = np.concatenate([bit, rest_bit])
        target = np.concatenate([target, rest_state])
        flips = np.concatenate([flips, np.zeros(len(rest_state), dtype=bool)])
        order = np.lexsort((bit, ~flips, source))
        source, bit, target, flips = source[order], bit[order], target[order], flips[order]
    stands, jump_stand = np.unique(target * max(n_bits, 1) + bit, return_inverse=True)
    stand_state, stand_bit = np.divmod(stands, max(n_bits, 1))
    node_start = np.searchsorted(legs.node_goal, (*states.goals, np.iinfo(np.int64).max))
    size = np.diff(node_start)[stand_bit] if n_bits else np.empty(0, dtype=np.int64)
    return JumpGraph(
        node_start=node_start.astype(np.int64),
        state_stands=np.searchsorted(stand_state, np.arange(n_states + 1)).astype(np.int64),
        stand_bit=stand_bit.astype(np.int64),
        stand_start=np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
        jump_start=np.searchsorted(source, np.arange(n_states + 1)).astype(np.int64),
        jump_bit=bit.astype(np.int64), jump_stand=jump_stand.astype(np.int64),
        jump_flips=flips, jump_state=target.astype(np.int64), accepting=states.accepting)


def _done_sites(states: TaskStates) -> tuple[IntArray, IntArray]:
    """Pairs (state, bit) with the bit set for good, in states that are not final."""
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for bit, goal in enumerate(states.goals):
        if goal not in states.task.reversible:
            rows = np.flatnonzero(states.is_set(bit) & ~states.accepting)
            pairs.append(np.column_stack([rows, np.full(len(rows), bit)]))
    both = np.concatenate(pairs)
    return both[:, 0], both[:, 1]
