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

from numba import njit
import numpy as np

from gk_planner.errors import NotConvergedError
from gk_planner.goal_kernel import FloatArray, IntArray, JumpGraph, Legs
from gk_planner.task_states import TaskStates

# Relative to the values; below the first the iteration ends, below the second options tie.
_TOLERANCE = 1e-12
_SOFT_TIE = 1e-9


@dataclass(frozen=True)
class Jump:
    """One call of an option: to ``node``, flipping its bit (or passing over a done site)."""

    node: int
    flips: bool
    state: int
    stand: int
    total: float


@dataclass(frozen=True, eq=False)
class TaskPolicy:
    """Values of all stands and the policy they imply.

    Attributes
    ----------
    values : ndarray
        v per stand and node: metres to go at temperature 0, -log z_AS above.
    hops : ndarray
        Number of jumps to go, which breaks ties: at temperature 0 along the cheapest way, above
        it along the shortest.
    completion_cost : float
        q_sigma of one completion, in the unit of the legs.
    soft : bool
        Log-sum-exp (temperature > 0) instead of min.

    """

    states: TaskStates
    legs: Legs
    graph: JumpGraph
    values: FloatArray
    hops: IntArray
    completion_cost: float
    soft: bool
    sweeps: int

    def jumps(self, state: int, node: int | None) -> list[Jump]:
        """Return all jumps from a node (None: the start) with q + v of each, best first."""
        graph, legs = self.graph, self.legs
        flip = legs.entry if node is None else legs.flip[node]
        through = legs.entry if node is None else legs.through[node]
        found: list[tuple[int, int, int, Jump]] = []
        for jump in range(graph.jump_start[state], graph.jump_start[state + 1]):
            bit, stand = graph.jump_bit[jump], int(graph.jump_stand[jump])
            flips = bool(graph.jump_flips[jump])
            first, last = graph.node_start[bit], graph.node_start[bit + 1]
            row = flip[first:last] + self.completion_cost if flips else through[first:last]
            start = graph.stand_start[stand]
            totals = row + self.values[start:start + last - first]
            for index in np.flatnonzero(np.isfinite(totals)):
                found.append((int(self.hops[start + index]), jump, int(index), Jump(
                    int(first + index), flips, int(graph.jump_state[jump]), stand,
                    float(totals[index]))))
        best = min((item[-1].total for item in found), default=0.0)
        tie = best + (_SOFT_TIE * max(1.0, abs(best)) if self.soft else 0.0)
        found.sort(key=lambda item: (max(item[-1].total, tie), *item[:3]))
        return [item[-1] for item in found]

    def value(self, state: int = 0, node: int | None = None) -> float:
        """Return v of a stand, or of the entry from the start (node None)."""
        if self.states.accepting[state]:
            return 0.0
        totals = np.array([jump.total for jump in self.jumps(state, node)])
        if not totals.size:
            return float('inf')
        if not self.soft:
            return float(totals.min())
        return float(np.log(self.n_options) - np.logaddexp.reduce(-totals))

    def mu(self, state: int = 0, node: int | None = None) -> list[tuple[Jump, float]]:
        """Return the jumps with positive probability under mu* and their probabilities."""
        jumps = self.jumps(state, node)
        if not jumps:
            return []
        if not self.soft:
            return [(jumps[0], 1.0)]
        weights = np.exp(jumps[0].total - np.array([jump.total for jump in jumps]))
        return list(zip(jumps, (weights / weights.sum()).tolist(), strict=True))

    @property
    def n_options(self) -> int:
        """Number of options over which p_o is uniform."""
        return len(self.legs.node_goal)

    def rollout(self) -> list[Jump]:
        """Follow the best (most probable) option from the start until the formula holds."""
        state, node = 0, None
        way: list[Jump] = []
        while not self.states.accepting[state]:
            jump = self.jumps(state, node)[0]
            way.append(jump)
            state, node = jump.state, jump.node
        return way


def solve_task_policy(states: TaskStates, legs: Legs, graph: JumpGraph, *,
                      completion_cost: float, soft: bool, max_sweeps: int) -> TaskPolicy:
    """Solve for all stands.

    Raises
    ------
    NotConvergedError
        If the repeated sweep does not reach its fixed point in ``max_sweeps``.

    """
    is_final = np.repeat(np.repeat(graph.accepting, np.diff(graph.state_stands)),
                         np.diff(graph.stand_start))
    values = np.where(is_final, 0.0, np.inf)
    hops = np.zeros(values.size, dtype=np.int64)
    log_options = float(np.log(max(len(legs.node_goal), 1)))
    one_sweep = states.is_acyclic and not legs.passes_done
    for sweep in range(1, max_sweeps + 1):
        change = _backward_sweep(graph, legs.flip, legs.through, completion_cost, values, hops,
                                 log_options, soft)
        if one_sweep or change <= _TOLERANCE:
            return TaskPolicy(states, legs, graph, values, hops, completion_cost, soft, sweep)
    raise NotConvergedError(f'task policy: values still change by {change:.1e} after '
                            f'{max_sweeps} sweeps')


@njit(cache=True, nogil=True)
def _backward_sweep(graph: JumpGraph, flip: FloatArray, through: FloatArray,
                    completion_cost: float, values: FloatArray, hops: IntArray,
                    log_options: float, soft: bool) -> float:
    """Back up every stand once, later states first; returns the largest relative change."""
    largest = 0.0
    n_states = graph.accepting.size
    for state in range(n_states - 1, -1, -1):
        if graph.accepting[state]:
            continue
        for stand in range(graph.state_stands[state], graph.state_stands[state + 1]):
            bit = graph.stand_bit[stand]
            for node in range(graph.node_start[bit], graph.node_start[bit + 1]):
                place = graph.stand_start[stand] + node - graph.node_start[bit]
                if soft:
                    new, n_hops = _soft_backup(graph, flip, through, completion_cost, values,
                                               hops, log_options, state, node)
                else:
                    new, n_hops = _hard_backup(graph, flip, through, completion_cost, values,
                                               hops, state, node)
                if n_hops != hops[place]:
                    largest = max(largest, 1.0)
                elif new != values[place]:
                    change = abs(new - values[place]) / max(1.0, abs(new)) if soft else 1.0
                    largest = max(largest, change)
                values[place], hops[place] = new, n_hops
    return largest


@njit(cache=True, nogil=True)
def _hard_backup(graph: JumpGraph, flip: FloatArray, through: FloatArray,
                 completion_cost: float, values: FloatArray, hops: IntArray, state: int,
                 node: int) -> tuple[float, int]:
    """min_o [q + v] with the fewest jumps among ties."""
    best, best_hops = np.inf, 0
    for jump in range(graph.jump_start[state], graph.jump_start[state + 1]):
        first = graph.node_start[graph.jump_bit[jump]]
        start = graph.stand_start[graph.jump_stand[jump]]
        extra = completion_cost if graph.jump_flips[jump] else 0.0
        for other in range(first, graph.node_start[graph.jump_bit[jump] + 1]):
            leg = flip[node, other] if graph.jump_flips[jump] else through[node, other]
            place = start + other - first
            total = leg + extra + values[place]
            if total < best or (total == best and hops[place] + 1 < best_hops):
                best, best_hops = total, hops[place] + 1
    return best, best_hops


@njit(cache=True, nogil=True)
def _soft_backup(graph: JumpGraph, flip: FloatArray, through: FloatArray,
                 completion_cost: float, values: FloatArray, hops: IntArray,
                 log_options: float, state: int, node: int) -> tuple[float, int]:
    """-log E_{p_o} exp(-q - v), with the running maximum factored out, and the fewest jumps."""
    least, total, least_hops = np.inf, 0.0, 0
    for jump in range(graph.jump_start[state], graph.jump_start[state + 1]):
        first = graph.node_start[graph.jump_bit[jump]]
        start = graph.stand_start[graph.jump_stand[jump]]
        extra = completion_cost if graph.jump_flips[jump] else 0.0
        for other in range(first, graph.node_start[graph.jump_bit[jump] + 1]):
            leg = flip[node, other] if graph.jump_flips[jump] else through[node, other]
            place = start + other - first
            term = leg + extra + values[place]
            if term == np.inf:
                continue
            if total == 0.0 or hops[place] + 1 < least_hops:
                least_hops = hops[place] + 1
            if term < least:
                total = total * np.exp(term - least) + 1.0
                least = term
            else:
                total += np.exp(least - term)
    if total == 0.0:
        return np.inf, 0
    return log_options + least - np.log(total), least_hops
