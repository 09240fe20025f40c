"""The table of the task policy: v of every stand, and the sweep that fills it.

Two layouts hold the same values. :class:`GraphTable` follows the jumps of the goal kernel one by
one and serves every task. :class:`SubsetTable` serves sets of a few irreversible bits: the number
of a state is the set itself, the target of a flip is one bit away, and the stands of a state are
the bits of a mask, so that nothing but the values is stored.

Both back up a state in the same two steps: the ways on are gathered once, and then every stand
of the state takes its minimum (temperature 0) or its log-mean-exp (above) over them.
"""

import math
from typing import Any, NamedTuple, Protocol

from numba import njit
import numpy as np
from numpy.typing import NDArray

from gk_planner.errors import LimitError
from gk_planner.goal_kernel import FloatArray, IntArray, JumpGraph
from gk_planner.state_listing import SubsetMasks
from gk_planner.task_states import SubsetStates

Hops = NDArray[Any]  # of int32, or uint8 where bits are few
Columns = NDArray[np.uint64]  # unsigned: no check for a negative index in the innermost loop
# What a value and its hops need in the table of a goal kernel.
VALUE_BYTES = 12
# Their places are numbers of 32 bits.
_MOST_VALUES = 2 ** 32 - 1
# Relative to the values: totals this close count as equal at temperature > 0.
_SOFT_TIE = 1e-9
_MANY = np.iinfo(np.int32).max
_LARGEST = np.finfo(np.float64).max
# Above this, what has underflowed does not change a sum of desirabilities.
_UNDERFLOW = 1e-280
_ONE = np.uint64(1)


class Outlook(NamedTuple):
    """All ways on from a state, in the order of bits, then nodes.

    ``columns`` of the costs, the ``states`` they lead to, their q + v and hops to go; and which of
    them is ``best``, -1 if there is none.
    """

    columns: Columns
    states: IntArray
    totals: FloatArray
    hops: Hops
    best: int


class Way(NamedTuple):
    """The best ways on one after another: columns of the costs, states after them, q + v."""

    columns: Columns
    states: IntArray
    totals: FloatArray


class Table(Protocol):
    """What a layout of the table does."""

    n_states: int
    is_acyclic: bool

    def sweep(self, costs: FloatArray, soft: bool, first: int, last: int) -> float:
        """Back up some states, later ones first; returns the largest relative change."""

    def outlook(self, row: FloatArray, state: int, soft: bool) -> Outlook:
        """Return all ways on from a state, at a place with the given costs."""

    def follow(self, costs: FloatArray, row: FloatArray, state: int, soft: bool) -> Way:
        """Take the best way on, from a place with the costs in ``row``, until there is none."""


class GraphTable:
    """Values in the order of the stands of a goal kernel.

    Raises
    ------
    LimitError
        If they need more than ``max_bytes``.

    """

    def __init__(self, graph: JumpGraph, max_bytes: int, *, is_acyclic: bool) -> None:
        _check_size(int(graph.state_places[-1]), VALUE_BYTES, max_bytes)
        self.n_states = len(graph.accepting)
        self.is_acyclic = is_acyclic
        self._graph = graph
        self._values = np.empty(graph.state_places[-1])
        self._hops = np.zeros(self._values.size, dtype=np.int32)
        _initialize(graph, self._values)

    def sweep(self, costs: FloatArray, soft: bool, first: int, last: int) -> float:
        """Back up some states, later ones first; returns the largest relative change."""
        return float(_sweep_graph(self._graph, costs, self._values, self._hops, soft, first, last))

    def outlook(self, row: FloatArray, state: int, soft: bool) -> Outlook:
        """Return all ways on from a state, at a place with the given costs."""
        return Outlook(*_outlook_graph(self._graph, row, self._values, self._hops, state, soft))

    def follow(self, costs: FloatArray, row: FloatArray, state: int, soft: bool) -> Way:
        """Take the best way on, from a place with the costs in ``row``, until there is none."""
        return Way(*_follow_graph(self._graph, costs, row, self._values, self._hops, state, soft))


class SubsetTable:
    """Values in the order of the sets of bits, and in each of them of the bit that was last.

    Raises
    ------
    LimitError
        If they need more than ``max_bytes``.

    """

    is_acyclic = True

    def __init__(self, states: SubsetStates, node_start: IntArray, max_bytes: int) -> None:
        self.n_states = len(states.masks.next)
        self._masks, self._node_start = states.masks, node_start
        self._places = np.empty(self.n_states, dtype=np.uint32)
        n_values = int(_number_places(states.masks.last, node_start, self._places))
        _check_size(n_values, 9, max_bytes)
        self._values = np.zeros(n_values)  # as it is in accepting states
        self._hops = np.zeros(n_values, dtype=np.uint8)

    def sweep(self, costs: FloatArray, soft: bool, first: int, last: int) -> float:
        """Back up some states, larger sets first; one sweep is exact."""
        _sweep_subsets(self._masks, self._node_start, self._places, costs, self._values,
                       self._hops, soft, first, last)
        return 0.0

    def outlook(self, row: FloatArray, state: int, soft: bool) -> Outlook:
        """Return all ways on from a state, at a place with the given costs."""
        return Outlook(*_outlook_subsets(self._masks, self._node_start, self._places, row,
                                         self._values, self._hops, state, soft))

    def follow(self, costs: FloatArray, row: FloatArray, state: int, soft: bool) -> Way:
        """Take the best way on, from a place with the costs in ``row``, until there is none."""
        return Way(*_follow_subsets(self._masks, self._node_start, self._places, costs, row,
                                    self._values, self._hops, state, soft))


def _check_size(n_values: int, value_bytes: int, max_bytes: int) -> None:
    if n_values * value_bytes > max_bytes or n_values > _MOST_VALUES:
        raise LimitError(f'the table of task states would have {n_values} values')


# What both layouts share: the backup of one place over the ways on.

@njit(cache=True, nogil=True, inline='always')
def _least(costs: FloatArray, node: int, n_ends: int, ends: Columns, to_go: FloatArray) -> float:
    """min_o [q + v]."""
    least = np.inf
    for end in range(n_ends):
        least = min(least, costs[node, ends[end]] + to_go[end])
    return least


@njit(cache=True, nogil=True)
def _gains(costs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """exp(-q) with the least q of every row factored out, and these."""
    gains, least = np.zeros_like(costs), np.empty(costs.shape[0])
    for node in range(costs.shape[0]):
        least[node] = costs[node].min()
        if least[node] < np.inf:
            gains[node] = np.exp(least[node] - costs[node])
    return gains, least


@njit(cache=True, nogil=True, inline='always')
def _desirabilities(n_ends: int, to_go: FloatArray, z: FloatArray) -> float:
    """z = exp(-v) of the ways on, with the least v factored out, which is returned."""
    least = np.inf
    for end in range(n_ends):
        least = min(least, to_go[end])
    for end in range(n_ends):
        z[end] = math.exp(least - to_go[end])
    return least


@njit(cache=True, nogil=True, inline='always')
def _log_sum(costs: FloatArray, gains: FloatArray, node: int, n_ends: int, ends: Columns,
             to_go: FloatArray, z: FloatArray, factored: float, least: float) -> float:
    """-log sum_o exp(-q) z(s'): linear in z, unless that underflows.

    ``factored`` is what :func:`_gains` and :func:`_desirabilities` took out, ``least`` the least
    q + v.
    """
    weight = 0.0
    for end in range(n_ends):
        weight += gains[node, ends[end]] * z[end]
    if weight > _UNDERFLOW:
        return factored - math.log(weight)
    weight = 0.0
    for end in range(n_ends):
        weight += math.exp(least - costs[node, ends[end]] - to_go[end])
    return least - math.log(weight)


@njit(cache=True, nogil=True, inline='always')
def _fewest_hops(costs: FloatArray, node: int, n_ends: int, ends: Columns, to_go: FloatArray,
                 hops_to_go: Hops, most: float) -> np.int32:
    """Return the fewest jumps among the ways that cost at most so much."""
    fewest = np.int32(_MANY)
    for end in range(n_ends):
        if costs[node, ends[end]] + to_go[end] <= most:
            fewest = min(fewest, hops_to_go[end])
    return fewest


@njit(cache=True, nogil=True, inline='always')
def _are_same(numbers: Hops, n_numbers: int) -> bool:
    same = True
    for index in range(1, n_numbers):
        same &= numbers[index] == numbers[0]
    return same


@njit(cache=True, nogil=True)
def _rank_ways(row: FloatArray, n_ends: int, ends: Columns, states: IntArray, totals: FloatArray,
               hops_to_go: Hops, soft: bool) -> tuple[Columns, IntArray, FloatArray, Hops, int]:
    """Add the costs of the row, leave out what cannot be reached, and choose the best way."""
    n_found = 0
    least = np.inf
    for end in range(n_ends):
        total = row[ends[end]] + totals[end]
        if total < np.inf:
            ends[n_found], states[n_found] = ends[end], states[end]
            totals[n_found], hops_to_go[n_found] = total, hops_to_go[end]
            least = min(least, total)
            n_found += 1
    limit = least + _SOFT_TIE * max(1.0, abs(least)) if soft else least
    best = -1
    for end in range(n_found):
        if totals[end] <= limit and (best < 0 or hops_to_go[end] < hops_to_go[best]):
            best = end
    return ends[:n_found], states[:n_found], totals[:n_found], hops_to_go[:n_found], best


# The graph of jumps.

@njit(cache=True, nogil=True)
def _initialize(graph: JumpGraph, values: FloatArray) -> None:
    """v is 0 in accepting states, and not known elsewhere."""
    for state in range(graph.accepting.size):
        start = 0.0 if graph.accepting[state] else np.inf
        for place in range(graph.state_places[state], graph.state_places[state + 1]):
            values[place] = start


@njit(cache=True, nogil=True, inline='always')
def _ways_of_jumps(graph: JumpGraph, values: FloatArray, hops: Hops, state: int, ends: Columns,
                   states: IntArray, to_go: FloatArray, hops_to_go: Hops) -> int:
    """Gather where the jumps of a state end; over done sites in the second half of the costs."""
    n_ends = 0
    for jump in range(graph.jump_start[state], graph.jump_start[state + 1]):
        bit = graph.jump_bit[jump]
        place = graph.jump_place[jump]
        shift = graph.node_start[-1] if graph.jump_state[jump] == state else 0
        for node in range(graph.node_start[bit], graph.node_start[bit + 1]):
            if values[place] < np.inf:
                ends[n_ends], states[n_ends] = node + shift, graph.jump_state[jump]
                to_go[n_ends], hops_to_go[n_ends] = values[place], hops[place] + 1
                n_ends += 1
            place += 1
    return n_ends


@njit(cache=True, nogil=True)
def _sweep_graph(graph: JumpGraph, costs: FloatArray, values: FloatArray, hops: Hops, soft: bool,
                 first: int, last: int) -> float:
    """Back up the stands of some states, later ones first; returns the largest change."""
    largest = 0.0
    n_columns = costs.shape[1]
    ends, states = np.empty(n_columns, dtype=np.uint64), np.empty(n_columns, dtype=np.int64)
    to_go, hops_to_go = np.empty(n_columns), np.empty(n_columns, dtype=np.int32)
    log_options = math.log(max(graph.node_start[-1], 1))
    (gains, nearest), z = _gains(costs) if soft else (costs, to_go), np.empty(n_columns)
    for state in range(last - 1, first - 1, -1):
        if graph.accepting[state]:
            continue
        n_ends = _ways_of_jumps(graph, values, hops, state, ends, states, to_go, hops_to_go)
        same_hops = _are_same(hops_to_go, n_ends)
        soonest = _desirabilities(n_ends, to_go, z) if soft else 0.0
        place = graph.state_places[state]
        for stand in range(graph.state_stands[state], graph.state_stands[state + 1]):
            bit = graph.stand_bit[stand]
            for node in range(graph.node_start[bit], graph.node_start[bit + 1]):
                new, n_hops = _least(costs, node, n_ends, ends, to_go), np.int32(0)
                if new < np.inf:
                    n_hops = hops_to_go[0] if same_hops else _fewest_hops(
                        costs, node, n_ends, ends, to_go, hops_to_go, _LARGEST if soft else new)
                    if soft:
                        new = log_options + _log_sum(costs, gains, node, n_ends, ends, to_go, z,
                                                    nearest[node] + soonest, new)
                if n_hops != hops[place]:
                    largest = max(largest, 1.0)
                elif new != values[place]:
                    change = abs(new - values[place]) / max(1.0, abs(new)) if soft else 1.0
                    largest = max(largest, change)
                values[place], hops[place] = new, n_hops
                place += 1
    return largest


@njit(cache=True, nogil=True)
def _outlook_graph(graph: JumpGraph, row: FloatArray, values: FloatArray, hops: Hops, state: int,
                   soft: bool) -> tuple[Columns, IntArray, FloatArray, Hops, int]:
    ends, states = np.empty(row.size, dtype=np.uint64), np.empty(row.size, dtype=np.int64)
    totals, hops_to_go = np.empty(row.size), np.empty(row.size, dtype=np.int32)
    n_ends = _ways_of_jumps(graph, values, hops, state, ends, states, totals, hops_to_go)
    return _rank_ways(row, n_ends, ends, states, totals, hops_to_go, soft)


@njit(cache=True, nogil=True)
def _follow_graph(graph: JumpGraph, costs: FloatArray, row: FloatArray, values: FloatArray,
                  hops: Hops, state: int, soft: bool) -> tuple[Columns, IntArray, FloatArray]:
    columns, states = [np.uint64(0) for _ in range(0)], [0 for _ in range(0)]
    totals = [0.0 for _ in range(0)]
    while True:
        ends, targets, sums, _, best = _outlook_graph(graph, row, values, hops, state, soft)
        if best < 0:
            return np.array(columns), np.array(states), np.array(totals)
        columns.append(ends[best])
        states.append(targets[best])
        totals.append(sums[best])
        state, row = targets[best], costs[ends[best] % graph.node_start[-1]]


# Sets of bits.

@njit(cache=True, nogil=True, inline='always')
def _bit_count(word: np.uint64) -> np.int64:
    """Return the number of ones, summed in pairs, nibbles and bytes."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = ((word & np.uint64(0x3333333333333333))
            + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333)))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True, inline='always')
def _n_nodes(bits: np.uint64, node_start: IntArray) -> np.int64:
    """Return how many nodes the goals of some bits have."""
    if node_start[-1] == node_start.size - 1:
        return _bit_count(bits)
    total = np.int64(0)
    while bits:
        bit = _bit_count((bits & (~bits + _ONE)) - _ONE)
        total += node_start[bit + 1] - node_start[bit]
        bits &= bits - _ONE
    return total


@njit(cache=True, nogil=True)
def _number_places(last_bits: NDArray[np.uint32], node_start: IntArray,
                   places: NDArray[np.uint32]) -> np.int64:
    """Write the place of the first value of every set; returns the number of values."""
    n_values = np.int64(0)
    for state in range(last_bits.size):
        places[state] = n_values
        n_values += _n_nodes(np.uint64(last_bits[state]), node_start)
    return n_values


@njit(cache=True, nogil=True, inline='always')
def _ways_of_bits(masks: SubsetMasks, node_start: IntArray, places: NDArray[np.uint32],
                  values: FloatArray, hops: Hops, state: int, ends: Columns, states: IntArray,
                  to_go: FloatArray, hops_to_go: Hops) -> int:
    """Gather where the flips of a set end."""
    n_ends = 0
    bits = np.uint64(masks.next[state])
    while bits:
        lowest = bits & (~bits + _ONE)
        bits ^= lowest
        bit = _bit_count(lowest - _ONE)
        target = np.uint64(state) | lowest
        place = places[target] + _n_nodes(masks.last[target] & (lowest - _ONE), node_start)
        for node in range(node_start[bit], node_start[bit + 1]):
            if values[place] < np.inf:
                ends[n_ends], states[n_ends] = node, np.int64(target)
                to_go[n_ends], hops_to_go[n_ends] = values[place], hops[place] + 1
                n_ends += 1
            place += 1
    return n_ends


@njit(cache=True, nogil=True)
def _sweep_subsets(masks: SubsetMasks, node_start: IntArray, places: NDArray[np.uint32],
                   costs: FloatArray, values: FloatArray, hops: Hops, soft: bool, first: int,
                   last: int) -> None:
    """Back up the stands of some sets, larger ones first."""
    n_columns = costs.shape[1]
    ends, states = np.empty(n_columns, dtype=np.uint64), np.empty(n_columns, dtype=np.int64)
    to_go, hops_to_go = np.empty(n_columns), np.empty(n_columns, dtype=np.int32)
    log_options = math.log(max(node_start[-1], 1))
    (gains, nearest), z = _gains(costs) if soft else (costs, to_go), np.empty(n_columns)
    for state in range(last - 1, first - 1, -1):
        bits = np.uint64(masks.last[state])
        if bits == 0 or masks.accepting[state]:
            continue
        n_ends = _ways_of_bits(masks, node_start, places, values, hops, state, ends, states,
                               to_go, hops_to_go)
        same_hops = _are_same(hops_to_go, n_ends)
        soonest = _desirabilities(n_ends, to_go, z) if soft else 0.0
        place = places[state]
        while bits:
            bit = _bit_count((bits & (~bits + _ONE)) - _ONE)
            bits &= bits - _ONE
            for node in range(node_start[bit], node_start[bit + 1]):
                value, n_hops = _least(costs, node, n_ends, ends, to_go), np.int32(0)
                if value < np.inf:
                    n_hops = hops_to_go[0] if same_hops else _fewest_hops(
                        costs, node, n_ends, ends, to_go, hops_to_go, _LARGEST if soft else value)
                    if soft:
                        value = log_options + _log_sum(costs, gains, node, n_ends, ends, to_go, z,
                                                    nearest[node] + soonest, value)
                values[place], hops[place] = value, n_hops
                place += 1


@njit(cache=True, nogil=True)
def _outlook_subsets(masks: SubsetMasks, node_start: IntArray, places: NDArray[np.uint32],
                     row: FloatArray, values: FloatArray, hops: Hops, state: int, soft: bool,
                     ) -> tuple[Columns, IntArray, FloatArray, Hops, int]:
    ends, states = np.empty(row.size, dtype=np.uint64), np.empty(row.size, dtype=np.int64)
    totals, hops_to_go = np.empty(row.size), np.empty(row.size, dtype=np.int32)
    n_ends = _ways_of_bits(masks, node_start, places, values, hops, state, ends, states, totals,
                           hops_to_go)
    return _rank_ways(row, n_ends, ends, states, totals, hops_to_go, soft)


@njit(cache=True, nogil=True)
def _follow_subsets(masks: SubsetMasks, node_start: IntArray, places: NDArray[np.uint32],
                    costs: FloatArray, row: FloatArray, values: FloatArray, hops: Hops,
                    state: int, soft: bool) -> tuple[Columns, IntArray, FloatArray]:
    columns, states = [np.uint64(0) for _ in range(0)], [0 for _ in range(0)]
    totals = [0.0 for _ in range(0)]
    while True:
        ends, targets, sums, _, best = _outlook_subsets(
            masks, node_start, places, row, values, hops, state, soft)
        if best < 0:
            return np.array(columns), np.array(states), np.array(totals)
        columns.append(ends[best])
        states.append(targets[best])
        totals.append(sums[best])
        state, row = targets[best], costs[ends[best]]
