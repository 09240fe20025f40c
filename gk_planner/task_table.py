"""The table of the task policy: v of every stand, and the sweep that fills it.

Two layouts hold the same values. :class:`GraphTable` follows the jumps of the goal kernel one by
one and serves every task. :class:`SubsetTable` serves sets of a few irreversible bits: the number
of a state is the set itself and the target of a flip is one bit away, so that nothing but the
values is stored.

A state is backed up in two steps: the ways on are gathered once, and then every stand of the
state takes its minimum (temperature 0) or its log-mean-exp (above) over them; of a set the minimum
is taken at all nodes at once. The kernels are compiled for each temperature (``gains`` are there
or None), and those of sets also for goals that have one node each (``node_start`` is None).
"""

import math
from typing import Any, NamedTuple, Protocol

from numba import njit
import numpy as np
from numpy.typing import NDArray

from gk_planner.errors import LimitError
from gk_planner.goal_kernel import FloatArray, IntArray, JumpGraph
from gk_planner.state_listing import SubsetMasks
from gk_planner.task_states import asked_goals, SubsetStates

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
_ZERO, _ONE = np.uint64(0), np.uint64(1)


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
        return float(_sweep_graph(self._graph, costs, _gains(costs) if soft else None,
                                  self._values, self._hops, first, last))

    def outlook(self, row: FloatArray, state: int, soft: bool) -> Outlook:
        """Return all ways on from a state, at a place with the given costs."""
        return Outlook(*_outlook_graph(self._graph, row, self._values, self._hops, state, soft))

    def follow(self, costs: FloatArray, row: FloatArray, state: int, soft: bool) -> Way:
        """Take the best way on, from a place with the costs in ``row``, until there is none."""
        return Way(*_follow_graph(self._graph, costs, row, self._values, self._hops, state, soft))


class SubsetTable:
    """Values in the order of the sets of bits, and in each of them of the bit that flips next.

    What a state reads thus lies together; what it writes is where the states before it read.

    Parameters
    ----------
    states : SubsetStates
        The sets.
    node_start : ndarray of int or None
        The first node of every goal, and the number of nodes; None if goals have one node each.
    max_bytes : int
        Memory that it may take.

    Raises
    ------
    LimitError
        If they need more than ``max_bytes``.

    """

    is_acyclic = True

    def __init__(self, states: SubsetStates, node_start: IntArray | None, max_bytes: int) -> None:
        self.n_states = len(states.masks.next)
        self._masks = states.masks
        self._node_start = node_start
        self._places = np.empty(self.n_states, dtype=np.uint32)
        n_values = int(_number_places(states.masks.next, self._node_start, self._places))
        _check_size(n_values, 9, max_bytes)
        self._values = np.zeros(n_values)  # as it is in accepting states
        # Where only the full set accepts, all ways are equally long; their hops are left at 0.
        self._counts_hops = not asked_goals(states.task).issuperset(states.goals)
        self._hops = np.zeros(n_values, dtype=np.uint8)

    def sweep(self, costs: FloatArray, soft: bool, first: int, last: int) -> float:
        """Back up some states, larger sets first; one sweep is exact."""
        _sweep_subsets(self._masks, self._node_start, self._places, costs,
                       _gains(costs) if soft else None, self._values, self._hops,
                       self._counts_hops, first, last)
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
def _least(costs: FloatArray, node: int, n_ends: np.uint64, ends: Columns, to_go: FloatArray,
           ) -> float:
    """min_o [q + v]."""
    least = np.inf
    for end in range(n_ends):
        least = min(least, costs[node, ends[end]] + to_go[end])
    return least


@njit(cache=True, nogil=True)
def _gains(costs: FloatArray) -> FloatArray:
    """exp(-q) with the least q of every row factored out; this one comes last in the row."""
    n_rows, n_columns = costs.shape
    gains = np.empty((n_rows, n_columns + 1))
    for row in range(n_rows):
        nearest = _LARGEST
        for column in range(n_columns):
            nearest = min(nearest, costs[row, column])
        for column in range(n_columns):
            gains[row, column] = math.exp(nearest - costs[row, column])
        gains[row, n_columns] = nearest
    return gains


@njit(cache=True, nogil=True, inline='always')
def _desirabilities(n_ends: np.uint64, to_go: FloatArray, z: FloatArray) -> float:
    """z = exp(-v) of the ways on, with the least v factored out, which is returned."""
    least = np.inf
    for end in range(n_ends):
        least = min(least, to_go[end])
    for end in range(n_ends):
        z[end] = math.exp(least - to_go[end])
    return least


@njit(cache=True, nogil=True, inline='always')
def _log_sum(costs: FloatArray, gains: FloatArray, node: int, n_ends: np.uint64, ends: Columns,
             to_go: FloatArray, z: FloatArray, factored: float) -> float:
    """-log sum_o exp(-q) z(s'): linear in z, unless that underflows.

    ``factored`` is what was taken out of the gains and of the desirabilities.
    """
    weight = 0.0
    for end in range(n_ends):
        weight += gains[node, ends[end]] * z[end]
    if weight > _UNDERFLOW:
        return factored - math.log(weight)
    least = _least(costs, node, n_ends, ends, to_go)
    if least == np.inf:
        return least
    weight = 0.0
    for end in range(n_ends):
        weight += math.exp(least - costs[node, ends[end]] - to_go[end])
    return least - math.log(weight)


@njit(cache=True, nogil=True, inline='always')
def _fewest_hops(costs: FloatArray, node: int, n_ends: np.uint64, ends: Columns, to_go: FloatArray,
                 hops_to_go: Hops, most: float) -> np.int32:
    """Return the fewest jumps among the ways that cost at most so much."""
    fewest = np.int32(_MANY)
    for end in range(n_ends):
        if costs[node, ends[end]] + to_go[end] <= most:
            fewest = min(fewest, hops_to_go[end])
    return fewest


@njit(cache=True, nogil=True)
def _range_of(numbers: Hops, n_numbers: np.uint64) -> tuple[np.int32, np.int32]:
    least, most = np.int32(_MANY), np.int32(0)
    for index in range(n_numbers):
        least, most = min(least, numbers[index]), max(most, numbers[index])
    return least, most


@njit(cache=True, nogil=True)
def _rank_ways(row: FloatArray, n_ends: np.uint64, ends: Columns, states: IntArray,
               totals: FloatArray, hops_to_go: Hops, soft: bool,
               ) -> tuple[Columns, IntArray, FloatArray, Hops, int]:
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
                   states: IntArray, to_go: FloatArray, hops_to_go: Hops) -> np.uint64:
    """Gather where the jumps of a state end; over done sites in the second half of the costs."""
    n_ends = _ZERO
    for jump in range(graph.jump_start[state], graph.jump_start[state + 1]):
        bit = graph.jump_bit[jump]
        place = graph.jump_place[jump]
        shift = graph.node_start[-1] if graph.jump_state[jump] == state else 0
        for node in range(graph.node_start[bit], graph.node_start[bit + 1]):
            if values[place] < np.inf:
                ends[n_ends], states[n_ends] = node + shift, graph.jump_state[jump]
                to_go[n_ends], hops_to_go[n_ends] = values[place], hops[place] + 1
                n_ends += _ONE
            place += 1
    return n_ends


@njit(cache=True, nogil=True)
def _sweep_graph(graph: JumpGraph, costs: FloatArray, gains: FloatArray | None, values: FloatArray,
                 hops: Hops, first: int, last: int) -> float:
    """Back up the stands of some states, later ones first; returns the largest change."""
    largest = 0.0
    n_columns = costs.shape[1]
    ends, states = np.empty(n_columns, dtype=np.uint64), np.empty(n_columns, dtype=np.int64)
    to_go, hops_to_go = np.empty(n_columns), np.empty(n_columns, dtype=np.int32)
    z, soonest, log_options = np.empty(n_columns), 0.0, math.log(max(graph.node_start[-1], 1))
    for state in range(last - 1, first - 1, -1):
        if graph.accepting[state]:
            continue
        n_ends = _ways_of_jumps(graph, values, hops, state, ends, states, to_go, hops_to_go)
        fewest, most = _range_of(hops_to_go, n_ends)
        if gains is not None:
            soonest = _desirabilities(n_ends, to_go, z)
        place = graph.state_places[state]
        for stand in range(graph.state_stands[state], graph.state_stands[state + 1]):
            bit = graph.stand_bit[stand]
            for node in range(graph.node_start[bit], graph.node_start[bit + 1]):
                if gains is None:
                    new = _least(costs, node, n_ends, ends, to_go)
                else:
                    new = log_options + _log_sum(costs, gains, node, n_ends, ends, to_go, z,
                                                 gains[node, -1] + soonest)
                n_hops = np.int32(0)
                if new < np.inf:
                    n_hops = fewest if fewest == most else _fewest_hops(
                        costs, node, n_ends, ends, to_go, hops_to_go,
                        new if gains is None else _LARGEST)
                if n_hops != hops[place]:
                    largest = max(largest, 1.0)
                elif new != values[place]:
                    change = 1.0 if gains is None else abs(new - values[place]) / max(
                        1.0, abs(new))
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


@njit(cache=True, nogil=True)
def _first_node(bit: np.int64, node_start: IntArray | None) -> np.int64:
    """Return the first node of a goal; None: every goal has one node."""
    if node_start is None:
        return bit
    return np.int64(node_start[bit])


@njit(cache=True, nogil=True)
def _n_nodes(bits: np.uint64, node_start: IntArray | None) -> np.int64:
    """Return how many nodes the goals of some bits have."""
    if node_start is None:
        return _bit_count(bits)
    total = np.int64(0)
    while bits:
        bit = _bit_count((bits & (~bits + _ONE)) - _ONE)
        total += node_start[bit + 1] - node_start[bit]
        bits &= bits - _ONE
    return total


@njit(cache=True, nogil=True)
def _number_places(next_bits: NDArray[np.uint32], node_start: IntArray | None,
                   places: NDArray[np.uint32]) -> np.int64:
    """Write where the values of the flips from every set begin; returns their number."""
    n_values = np.int64(0)
    for state in range(next_bits.size):
        places[state] = n_values
        n_values += _n_nodes(np.uint64(next_bits[state]), node_start)
    return n_values


@njit(cache=True, nogil=True, inline='always')
def _ways_of_bits(masks: SubsetMasks, node_start: IntArray | None, places: NDArray[np.uint32],
                  values: FloatArray, hops: Hops, state: int, ends: Columns, states: IntArray,
                  to_go: FloatArray, hops_to_go: Hops) -> np.uint64:
    """Gather where the flips of a set end."""
    n_ends = _ZERO
    bits = np.uint64(masks.next[state])
    place = np.uint64(places[state])
    while bits:
        lowest = bits & (~bits + _ONE)
        bits ^= lowest
        bit = _bit_count(lowest - _ONE)
        for node in range(_first_node(bit, node_start), _first_node(bit + 1, node_start)):
            if values[place] < np.inf:
                ends[n_ends], states[n_ends] = node, np.int64(np.uint64(state) | lowest)
                to_go[n_ends], hops_to_go[n_ends] = values[place], hops[place] + 1
                n_ends += _ONE
            place += _ONE
    return n_ends


@njit(cache=True, nogil=True)
def _sweep_subsets(masks: SubsetMasks, node_start: IntArray | None, places: NDArray[np.uint32],
                   costs: FloatArray, gains: FloatArray | None, values: FloatArray, hops: Hops,
                   counts_hops: bool, first: int, last: int) -> None:
    """Back up the stands of some sets, larger ones first."""
    n_columns = costs.shape[1]
    ends, states = np.empty(n_columns, dtype=np.uint64), np.empty(n_columns, dtype=np.int64)
    to_go, hops_to_go = np.empty(n_columns), np.empty(n_columns, dtype=np.int32)
    costs_to, least = np.ascontiguousarray(costs.T), np.empty(n_columns)
    z, soonest, log_options = np.empty(n_columns), 0.0, math.log(max(n_columns, 1))
    n_ends, fewest, most = _ZERO, np.int32(0), np.int32(0)
    for state in range(last - 1, first - 1, -1):
        if not masks.reached[state] or masks.accepting[state]:
            continue
        if gains is None:
            fewest, most = _least_of_set(masks, node_start, places, costs_to, values, hops,
                                         counts_hops, state, least)
        if gains is not None or fewest < most:
            n_ends = _ways_of_bits(masks, node_start, places, values, hops, state, ends, states,
                                   to_go, hops_to_go)
        if gains is not None:
            fewest, most = _range_of(hops_to_go, n_ends)
            soonest = _desirabilities(n_ends, to_go, z)
        bits = np.uint64(state)
        while bits:
            lowest = bits & (~bits + _ONE)
            bits ^= lowest
            source = np.uint64(state) ^ lowest
            flips = np.uint64(masks.next[source])
            if not flips & lowest:
                continue
            place = np.uint64(places[source] + _n_nodes(flips & (lowest - _ONE), node_start))
            bit = _bit_count(lowest - _ONE)
            for node in range(_first_node(bit, node_start), _first_node(bit + 1, node_start)):
                if gains is None:
                    value = least[node]
                else:
                    value = log_options + _log_sum(costs, gains, node, n_ends, ends, to_go, z,
                                                   gains[node, -1] + soonest)
                values[place] = value
                if counts_hops and value < np.inf:
                    hops[place] = fewest if fewest == most else _fewest_hops(
                        costs, node, n_ends, ends, to_go, hops_to_go,
                        value if gains is None else _LARGEST)
                place += _ONE


@njit(cache=True, nogil=True, inline='always')
def _least_of_set(masks: SubsetMasks, node_start: IntArray | None, places: NDArray[np.uint32],
                  costs_to: FloatArray, values: FloatArray, hops: Hops, counts_hops: bool,
                  state: int, least: FloatArray) -> tuple[np.int32, np.int32]:
    """min_o [q + v] at every node, done or not; returns the fewest and most hops of a way on."""
    n_nodes = np.uint64(least.size)
    for node in range(_ZERO, n_nodes, _ONE):
        least[node] = np.inf
    fewest, most = np.int32(_MANY), np.int32(0)
    bits, place = np.uint64(masks.next[state]), np.uint64(places[state])
    while bits:
        lowest = bits & (~bits + _ONE)
        bits ^= lowest
        bit = _bit_count(lowest - _ONE)
        for end in range(_first_node(bit, node_start), _first_node(bit + 1, node_start)):
            to_go = values[place]
            for node in range(_ZERO, n_nodes, _ONE):
                least[node] = min(least[node], costs_to[end, node] + to_go)
            if counts_hops and to_go < np.inf:
                n_hops = np.int32(hops[place] + 1)
                fewest, most = min(fewest, n_hops), max(most, n_hops)
            place += _ONE
    return fewest, most


@njit(cache=True, nogil=True)
def _outlook_subsets(masks: SubsetMasks, node_start: IntArray | None, places: NDArray[np.uint32],
                     row: FloatArray, values: FloatArray, hops: Hops, state: int, soft: bool,
                     ) -> tuple[Columns, IntArray, FloatArray, Hops, int]:
    ends, states = np.empty(row.size, dtype=np.uint64), np.empty(row.size, dtype=np.int64)
    totals, hops_to_go = np.empty(row.size), np.empty(row.size, dtype=np.int32)
    n_ends = _ways_of_bits(masks, node_start, places, values, hops, state, ends, states, totals,
                           hops_to_go)
    return _rank_ways(row, n_ends, ends, states, totals, hops_to_go, soft)


@njit(cache=True, nogil=True)
def _follow_subsets(masks: SubsetMasks, node_start: IntArray | None, places: NDArray[np.uint32],
                    costs: FloatArray, row: FloatArray, values: FloatArray, hops: Hops,
                    state: int, soft: bool) -> tuple[Columns, IntArray, FloatArray]:
    columns, states = np.empty(row.size, dtype=np.uint64), np.empty(row.size, dtype=np.int64)
    totals, n_jumps = np.empty(row.size), 0
    ends, targets = np.empty(row.size, dtype=np.uint64), np.empty(row.size, dtype=np.int64)
    sums, hops_to_go = np.empty(row.size), np.empty(row.size, dtype=np.int32)
    while True:
        n_ends = _ways_of_bits(masks, node_start, places, values, hops, state, ends, targets, sums,
                               hops_to_go)
        best = _rank_ways(row, n_ends, ends, targets, sums, hops_to_go, soft)[-1]
        if best < 0:
            return columns[:n_jumps], states[:n_jumps], totals[:n_jumps]
        columns[n_jumps], states[n_jumps], totals[n_jumps] = ends[best], targets[best], sums[best]
        n_jumps += 1
        state, row = targets[best], costs[ends[best]]
