"""Shortest paths to one cell over the whole grid: the min-plus kernel (temperature 0).

v(x) = min_d [ step(x, d) + v(x') ] with v(target) = 0, in cells (Dijkstra's algorithm, backwards
from the target). Two queues give the same values to the last bit:

* *buckets* (Dial): every step costs at least 1, so cells whose values lie in one interval shorter
  than that are settled in any order. The intervals stand in a ring that reaches as far as the
  longest step.
* *heap*: for weights of any size, and where the order of settling is wanted.
"""

import heapq
import math
from typing import NamedTuple

from numba import njit
import numpy as np
from numpy.typing import NDArray

# Entries of a direction field beside the moves 0..7.
ARRIVED = 254
NO_WAY = 255

_SQRT2 = math.sqrt(2.0)
# Relative difference of values that rounding can make, and the most that counts as a tie (in
# steps): far below the shortest step, so that ties cannot close a cycle, however large the values.
TIE = 1e-11
LARGEST_TIE = 0.1
_ZERO, _ONE = np.uint64(0), np.uint64(1)
# Columns of an entry, and no entry.
_CELL, _NEXT, _NONE = _ZERO, _ONE, np.uint32(2**32 - 1)
# With heavier cells nearly all buckets may be empty, and the heap is faster.
_HEAVIEST = 100.0


class Grid(NamedTuple):
    """What the kernels see of a base space; cells are numbered row by row."""

    moves: NDArray[np.uint8]      # possible moves of each cell as bits
    offsets: NDArray[np.int64]    # what each move adds to the cell number
    weight: NDArray[np.float64]   # traversal weights, at least 1; empty for all ones


@njit(cache=True, nogil=True)
def step_cost(grid: Grid, cell: int, move: int) -> float:
    """Length of a step in cells times the mean weight of its two cells."""
    length = 1.0 if move < 4 else _SQRT2
    if grid.weight.size:
        length *= 0.5 * (grid.weight[cell] + grid.weight[cell + grid.offsets[move]])
    return length


@njit(cache=True, nogil=True)
def shortest_paths(grid: Grid, target: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the value of every cell (inf: no way) and the reachable cells as they settled."""
    n_cells = grid.moves.size
    value = np.full(n_cells, np.inf)
    settled = np.empty(n_cells, dtype=np.int32)
    n_settled = 0
    value[target] = 0.0
    waiting = [(0.0, target)]
    while len(waiting) > 0:
        least, cell = heapq.heappop(waiting)
        if least > value[cell]:
            continue
        settled[n_settled] = cell
        n_settled += 1
        for move in range(grid.offsets.size):
            source = cell - grid.offsets[move]
            if source < 0 or source >= n_cells or not (grid.moves[source] >> move) & 1:
                continue
            candidate = least + step_cost(grid, source, move)
            if candidate < value[source]:
                value[source] = candidate
                heapq.heappush(waiting, (candidate, source))
    return value, settled[:n_settled].copy()


def descend(grid: Grid, value: NDArray[np.float64], step_scale: float) -> NDArray[np.uint8]:
    """Return the best move of every cell, ``NO_WAY`` where there is none."""
    return np.asarray(best_moves(grid, value, step_scale, np.arange(value.size)))


@njit(cache=True, nogil=True)
def best_moves(grid: Grid, value: NDArray[np.float64], step_scale: float,
               cells: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the move of each cell that minimizes ``step_scale * step + value``; first of ties.

    Moves that differ by rounding only are ties, so that paths do not depend on it.
    """
    moves, offsets, weight = grid
    direction = np.full(cells.size, NO_WAY, dtype=np.uint8)
    straight, diagonal = step_scale, step_scale * _SQRT2
    for index in range(cells.size):
        cell = cells[index]
        if value[cell] == np.inf:
            continue
        best, limit = np.uint8(NO_WAY), np.inf
        for move in range(offsets.size):
            if not (moves[cell] >> move) & 1:
                continue
            other = cell + offsets[move]
            step = straight if move < 4 else diagonal
            if weight.size:
                step = step_scale * ((1.0 if move < 4 else _SQRT2)
                                     * (0.5 * (weight[cell] + weight[other])))
            candidate = step + value[other]
            if candidate < limit:
                limit = candidate - min(TIE * (1.0 + abs(candidate)), LARGEST_TIE * step_scale)
                best = np.uint8(move)
        direction[index] = best
    return direction


def shortest_values(grid: Grid, target: int) -> NDArray[np.float64]:
    """Return the value of every cell by the faster queue."""
    heaviest = float(grid.weight.max()) if grid.weight.size else 1.0
    if heaviest > _HEAVIEST:
        return np.asarray(shortest_paths(grid, target)[0])
    span = math.ceil(heaviest * _SQRT2) + 2
    return np.asarray(_values_by_buckets(grid, target, 1 << (span - 1).bit_length()))


@njit(cache=True, nogil=True)
def _values_by_buckets(grid: Grid, target: int, n_buckets: int) -> NDArray[np.float64]:
    """Values of all cells; ``n_buckets`` is a power of two.

    Bucket b is for values from b to b + 1. No step is shorter than 1, and rounding keeps the order
    of numbers, so that a step never ends in the bucket where it begins. A bucket is a list of
    entries (cell, next entry), and so are the unused entries. A cell whose value falls again gets
    one more entry; the older ones will find it settled. All is written out in one loop, because
    calls that pass arrays would take most of the time, and numbers are unsigned, because an index
    that might be negative costs a test.
    """
    moves, offsets, weight = grid
    n_cells, last_bucket = np.uint64(moves.size), np.uint64(n_buckets - 1)
    value = np.full(moves.size, np.inf)
    first = np.full(n_buckets, _NONE, dtype=np.uint32)
    entries = np.empty((4096, 2), dtype=np.uint32)
    value[target] = 0.0
    entries[_ZERO, _CELL], entries[_ZERO, _NEXT] = target, _NONE
    first[0] = 0
    n_entries, n_waiting, unused = np.uint32(1), 1, _NONE
    number = _ZERO
    while n_waiting > 0:
        entry = first[number & last_bucket]
        first[number & last_bucket] = _NONE
        settled_below = float(number)
        number += _ONE
        if n_entries + 8 * n_waiting > len(entries):
            larger = np.empty((2 * n_entries + 8 * n_waiting, 2), dtype=np.uint32)
            larger[:n_entries] = entries[:n_entries]
            entries = larger
        while entry != _NONE:
            cell, following = np.uint64(entries[entry, _CELL]), entries[entry, _NEXT]
            entries[entry, _NEXT] = unused
            unused, entry = entry, following
            n_waiting -= 1
            least = value[cell]
            if least < settled_below:
                continue
            for move in range(offsets.size):
                source = cell - np.uint64(offsets[move])  # below 0 it is beyond all cells
                if source >= n_cells or not (moves[source] >> move) & 1:
                    continue
                step = 1.0 if move < 4 else _SQRT2
                if weight.size:
                    step *= 0.5 * (weight[source] + weight[cell])
                if least + step < value[source]:
                    value[source] = least + step
                    new = unused if unused != _NONE else n_entries
                    if new == n_entries:
                        n_entries += np.uint32(1)
                    else:
                        unused = entries[new, _NEXT]
                    bucket = np.uint64(least + step) & last_bucket
                    entries[new, _CELL], entries[new, _NEXT] = source, first[bucket]
                    first[bucket] = new
                    n_waiting += 1
    return value


@njit(cache=True, nogil=True)
def follow(direction: NDArray[np.uint8], offsets: NDArray[np.int64], cell: int, target: int,
           ) -> NDArray[np.int64]:
    """Return the cells from ``cell`` to the target along the direction field.

    A field that shows a move at the target itself asks for leaving it and coming back.
    """
    path = [cell]
    while direction[cell] < offsets.size:
        cell = cell + offsets[direction[cell]]
        path.append(cell)
        if cell == target:
            break
    return np.array(path, dtype=np.int64)


@njit(cache=True, nogil=True)
def path_costs(grid: Grid, direction: NDArray[np.uint8], starts: NDArray[np.int64],
               target: int) -> NDArray[np.float64]:
    """Return the cost in cells of following the field from each start (inf: no way).

    Straight and diagonal steps are summed apart and with compensation, so that two ways of equal
    cost come out equal whatever the order of their steps.
    """
    costs = np.empty(starts.size)
    for index in range(starts.size):
        cell = starts[index]
        if direction[cell] == NO_WAY:
            costs[index] = np.inf
            continue
        total = np.zeros(2)
        lost = np.zeros(2)
        while direction[cell] < grid.offsets.size:
            move = direction[cell]
            other = cell + grid.offsets[move]
            kind = 0 if move < 4 else 1
            mean = 0.5 * (grid.weight[cell] + grid.weight[other]) if grid.weight.size else 1.0
            summed = total[kind] + (mean - lost[kind])
            lost[kind] = (summed - total[kind]) - (mean - lost[kind])
            total[kind] = summed
            cell = other
            if cell == target:
                break
        costs[index] = total[0] + _SQRT2 * total[1]
    return costs
