"""Shortest paths to one cell over the whole grid: the min-plus kernel (temperature 0).

v(x) = min_d [ step(x, d) + v(x') ] with v(target) = 0, in cells (Dijkstra's algorithm, backwards
from the target). Every step costs at least 1, so a cell that is taken from the heap is settled.
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
# Relative difference of values that rounding can make.
_TIE = 1e-11


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


@njit(cache=True, nogil=True)
def descend(grid: Grid, value: NDArray[np.float64], step_scale: float) -> NDArray[np.uint8]:
    """Return the move of each cell that minimizes ``step_scale * step + value``; first of ties.

    Moves that differ by rounding only are ties, so that paths do not depend on it.
    """
    direction = np.full(value.size, NO_WAY, dtype=np.uint8)
    for cell in range(value.size):
        if value[cell] == np.inf:
            continue
        best = np.inf
        for move in range(grid.offsets.size):
            other = cell + grid.offsets[move]
            if (grid.moves[cell] >> move) & 1 and value[other] < np.inf:
                candidate = step_scale * step_cost(grid, cell, move) + value[other]
                # Ties far below the shortest step cannot close a cycle, however large the values.
                tie = min(_TIE * (1.0 + abs(best)), 0.1 * step_scale)
                if direction[cell] == NO_WAY or candidate < best - tie:
                    best = candidate
                    direction[cell] = move
    return direction


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
