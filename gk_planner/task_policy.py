"""The task policy mu over options: one sweep through the goal kernel, in either semiring.

Temperature 0 (Task-MDP):      v(s) = min_o [ q(s, o) + v(s') ]
Temperature > 0 (Task-LMDP):   z(s) = E_{p_o} [ exp(-q(s, o)) z(s') ],  v = -log z   (eq. TLMDP)

Without reversible bits every jump leads to a later task state and one backward sweep is exact;
with them (or with done sites to pass over) the sweep is repeated to its fixed point. From a start
outside the nodes one more backup gives the desirability to enter (DTE). mu*(o|s) is proportional
to p_o exp(-q(s, o)) z(s'); at temperature 0 it is the cheapest option. Ties go to the fewest
options, then to the lowest goal, then to the lowest node; above temperature 0 values that differ
by rounding alone tie, so that following mu* never circles.
"""

from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.errors import NotConvergedError
from gk_planner.goal_kernel import build_goal_kernel, FloatArray, IntArray, Legs, node_starts
from gk_planner.task_states import SubsetStates, TaskStates
from gk_planner.task_table import GraphTable, SubsetTable, Table, Way

# Relative change of values below which the iteration ends.
_TOLERANCE = 1e-12
# States backed up between two checkpoints.
_STATES_PER_CALL = 50_000


class Jump(NamedTuple):
    """One call of an option: to ``node``, flipping its bit (or passing over a done site)."""

    node: int
    flips: bool
    state: int
    total: float


@dataclass(frozen=True, eq=False)
class TaskPolicy:
    """Values of all stands and the policy they imply: an answer from every reachable task state.

    Attributes
    ----------
    states : TaskStates or SubsetStates
        The task states; ``states.index`` finds one by its bits.
    legs : Legs
        The nodes and the costs between them.
    table : Table
        v of every stand: metres to go at temperature 0, -log z_AS above.
    costs : ndarray, shape (n_nodes, n_nodes) or (n_nodes, 2 * n_nodes)
        q_sigma + q_o of a jump from node to node; in the second half those over done sites.
    entry : ndarray, shape (n_nodes,) or (2 * n_nodes,)
        The same from the start.
    soft : bool
        Log-sum-exp (temperature > 0) instead of min.
    sweeps : int
        How many sweeps it took.

    """

    states: TaskStates | SubsetStates
    legs: Legs
    table: Table
    costs: FloatArray
    entry: FloatArray
    soft: bool
    sweeps: int

    @property
    def n_options(self) -> int:
        """Number of options over which p_o is uniform."""
        return len(self.legs.node_goal)

    def jumps(self, state: int | None = None, node: int | None = None) -> list[Jump]:
        """Return all jumps with q + v of each, best first.

        Parameters
        ----------
        state : int, optional
            A task state; the initial one if not given.
        node : int, optional
            Where the robot is; at the start if not given.

        """
        ways = self.table.outlook(self._row(node), self._state(state), self.soft)
        if ways.best < 0:
            return []
        # What ties with the best comes first, by its hops.
        order = np.lexsort((ways.hops, np.maximum(ways.totals, ways.totals[ways.best])))
        return self._jumps(ways.columns[order], ways.states[order], ways.totals[order])

    def value(self, state: int | None = None, node: int | None = None) -> float:
        """Return v of a task state and a node (default: of the entry from the start)."""
        state = self._state(state)
        if self.states.accepting[state]:
            return 0.0
        totals = self.table.outlook(self._row(node), state, self.soft).totals
        if not totals.size:
            return math.inf
        if not self.soft:
            return float(totals.min())
        return float(math.log(self.n_options) - np.logaddexp.reduce(-totals))

    def mu(self, state: int | None = None, node: int | None = None) -> list[tuple[Jump, float]]:
        """Return the jumps with positive probability under mu* and their probabilities."""
        jumps = self.jumps(state, node)
        if not jumps:
            return []
        if not self.soft:
            return [(jumps[0], 1.0)]
        weights = np.exp(jumps[0].total - np.array([jump.total for jump in jumps]))
        return list(zip(jumps, (weights / weights.sum()).tolist(), strict=True))

    def rollout(self, state: int | None = None, node: int | None = None) -> list[Jump]:
        """Follow the best (most probable) option until the formula holds, or no way is left."""
        return self._jumps(*self.follow(state, node))

    def follow(self, state: int | None = None, node: int | None = None) -> Way:
        """Return the same as :meth:`rollout` as arrays of the table."""
        return self.table.follow(self.costs, self._row(node), self._state(state), self.soft)

    def _jumps(self, columns: NDArray[np.uint64], states: IntArray, totals: FloatArray,
               ) -> list[Jump]:
        n_options = self.n_options
        return [Jump(column % n_options, column < n_options, state, total)
                for column, state, total in zip(columns.tolist(), states.tolist(),
                                                totals.tolist(), strict=True)]

    def _state(self, state: int | None) -> int:
        return self.states.initial if state is None else state

    def _row(self, node: int | None) -> FloatArray:
        return self.entry if node is None else self.costs[node]


def solve_task_policy(states: TaskStates | SubsetStates, legs: Legs, *, completion_cost: float,
                      soft: bool, max_sweeps: int, max_bytes: int,
                      checkpoint: Checkpoint = proceed) -> TaskPolicy:
    """Solve for all stands.

    Raises
    ------
    LimitError
        If the table needs more than ``max_bytes``.
    NotConvergedError
        If the repeated sweep does not reach its fixed point in ``max_sweeps``.

    """
    costs, entry = legs.flip + completion_cost, legs.entry + completion_cost
    if legs.passes_done:
        costs, entry = np.hstack([costs, legs.through]), np.concatenate([entry, legs.entry])
    table: Table
    if isinstance(states, SubsetStates):
        has_one_each = tuple(legs.node_goal.tolist()) == states.goals
        table = SubsetTable(states, None if has_one_each else node_starts(legs, states.goals),
                            max_bytes)
    else:
        table = GraphTable(build_goal_kernel(states, legs), max_bytes,
                           is_acyclic=states.is_acyclic and not legs.passes_done)
    for sweep in range(1, max_sweeps + 1):
        change, last = 0.0, table.n_states
        while last > 0:
            checkpoint()
            first = max(0, last - _STATES_PER_CALL)
            change = max(change, table.sweep(costs, soft, first, last))
            last = first
        if table.is_acyclic or change <= _TOLERANCE:
            return TaskPolicy(states, legs, table, costs, entry, soft, sweep)
    raise NotConvergedError(f'task policy: values still change by {change:.1e} after '
                            f'{max_sweeps} sweeps')
