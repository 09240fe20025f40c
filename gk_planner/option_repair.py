"""Options after a local change of the map: only cells whose way has changed are solved again.

Two things can happen to the field of an option (Ramalingam and Reps 1996). Ways that lead over a
move which is gone, or costs more now, are *broken*: the cells upstream of it, and no others, take
their value anew from the cells around them. And a move that is new, or costs less, may open a
*shorter* way, from where smaller values spread as far as they are smaller. Both are one run of
Dijkstra's algorithm that starts at the border of what has changed. All other cells keep their
move, unless a neighbour has a new value and the tie between their moves may have changed. So the
result is the field that a solution from nothing would give.

Fields hold moves, not values; the few values that are needed are summed along the ways.
"""

import heapq
import math

from numba import njit
import numpy as np
from numpy.typing import NDArray

from gk_planner.grid_shortest_path import ARRIVED, Grid, LARGEST_TIE, NO_WAY, TIE

_SQRT2 = math.sqrt(2.0)

# What is known of a cell: its way is as it was, broken, or its value has changed.
_KEPT, _BROKEN, _CHANGED = 0, 1, 2


def changed_cells(old: Grid, new: Grid) -> NDArray[np.int64]:
    """Return the cells whose moves or weights differ between two grids of one shape."""
    differs = old.moves != new.moves
    if old.weight.size or new.weight.size:
        differs |= _weights(old) != _weights(new)
    return np.flatnonzero(differs)


def repaired(direction: NDArray[np.uint8], target: int, old: Grid, new: Grid,
             changed: NDArray[np.int64], part: float = 0.01) -> NDArray[np.uint8] | None:
    """Return the direction field of an option on a changed grid.

    Parameters
    ----------
    direction : ndarray of uint8
        The field on the old grid.
    target : int
        The cell where the option ends, with moves as they were.
    old, new : Grid
        Before and after the change.
    changed : ndarray of int
        What :func:`changed_cells` returns.
    part : float
        The largest part of all cells that is repaired; beyond it a new solution is faster.

    Returns
    -------
    ndarray of uint8 or None
        None if more has changed.

    """
    if changed.size > part * direction.size:
        return None
    field = direction.copy()
    # From calloc: pages that are not touched cost nothing.
    before, after = np.zeros(direction.size), np.zeros(direction.size)
    kinds = np.zeros(direction.size, dtype=np.uint8)
    most = int(part * direction.size) + 1
    done = _repair(field, target, old, new, changed, before, after, kinds, most)
    return field if done else None


def _weights(grid: Grid) -> NDArray[np.float64]:
    return grid.weight if grid.weight.size else np.ones(grid.moves.size)


@njit(cache=True, nogil=True, inline='always')
def _step(weight: NDArray[np.float64], cell: int, other: int, move: int) -> float:
    length = 1.0 if move < 4 else _SQRT2
    if weight.size:
        length *= 0.5 * (weight[cell] + weight[other])
    return length


@njit(cache=True, nogil=True)
def _value_before(field: NDArray[np.uint8], target: int, offsets: NDArray[np.int64],
                  weight: NDArray[np.float64], before: NDArray[np.float64], cell: int) -> float:
    """Return the old value of a cell whose way is not broken; 0 in ``before`` means unknown."""
    if field[cell] == NO_WAY:
        return np.inf
    way = [cell]
    while way[-1] != target and before[way[-1]] == 0.0:
        way.append(way[-1] + offsets[field[way[-1]]])
    for index in range(len(way) - 2, -1, -1):
        here, there = way[index], way[index + 1]
        before[here] = before[there] + _step(weight, here, there, field[here])
    return float(before[cell])


@njit(cache=True, nogil=True)
def _broken_cells(field: NDArray[np.uint8], old: Grid, new: Grid, changed: NDArray[np.int64],
                  kinds: NDArray[np.uint8], most: int) -> list[int]:
    """Mark the cells whose way leads over a move that is gone or has another cost."""
    broken = [0 for _ in range(0)]
    for cell in _around(changed, new.offsets, field.size):
        move = field[cell]
        if move >= new.offsets.size or kinds[cell] == _BROKEN:
            continue
        other = cell + new.offsets[move]
        if not (new.moves[cell] >> move) & 1 or (
                _step(new.weight, cell, other, move) != _step(old.weight, cell, other, move)):
            kinds[cell] = _BROKEN
            broken.append(cell)
    index = 0
    while index < len(broken) <= most:
        for move in range(new.offsets.size):
            source = broken[index] - new.offsets[move]
            if 0 <= source < field.size and field[source] == move and kinds[source] == _KEPT:
                kinds[source] = _BROKEN
                broken.append(source)
        index += 1
    return broken


@njit(cache=True, nogil=True)
def _around(cells: NDArray[np.int64], offsets: NDArray[np.int64], n_cells: int,
            ) -> NDArray[np.int64]:
    """Return some cells and those around them, each once."""
    found = np.empty(cells.size * (offsets.size + 1), dtype=np.int64)
    found[:cells.size] = cells
    n_found = cells.size
    for cell in cells:
        for offset in offsets:
            if 0 <= cell - offset < n_cells:
                found[n_found] = cell - offset
                n_found += 1
    return np.unique(found[:n_found])


@njit(cache=True, nogil=True, inline='always')
def _offer(field: NDArray[np.uint8], target: int, offsets: NDArray[np.int64],
           weight: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64],
           kinds: NDArray[np.uint8], waiting: list[tuple[float, int]], touched: list[int],
           cell: int, value: float) -> None:
    """Let a cell take a value that is less than its present one, by more than rounding."""
    present = after[cell] if kinds[cell] != _KEPT else _value_before(
        field, target, offsets, weight, before, cell)
    if value < present - min(TIE * (1.0 + value), LARGEST_TIE):
        if kinds[cell] != _CHANGED:
            kinds[cell] = _CHANGED
            touched.append(cell)
        after[cell] = value
        heapq.heappush(waiting, (value, cell))


@njit(cache=True, nogil=True)
def _spread(field: NDArray[np.uint8], target: int, new: Grid, seeds: NDArray[np.int64],
            before: NDArray[np.float64], after: NDArray[np.float64], kinds: NDArray[np.uint8],
            most: int) -> list[int]:
    """Give the seeds, and all cells that have a better way over them, their new values.

    Broken cells have no value yet. Returns the cells whose value has changed; it may stop after
    ``most`` of them.
    """
    moves, offsets, weight = new
    first_value = np.full(seeds.size, np.inf)
    for index in range(seeds.size):
        cell = seeds[index]
        for move in range(offsets.size):
            other = cell + offsets[move]
            if (moves[cell] >> move) & 1 and kinds[other] == _KEPT:
                first_value[index] = min(
                    first_value[index], _step(weight, cell, other, move)
                    + _value_before(field, target, offsets, weight, before, other))
    waiting = [(0.0, 0) for _ in range(0)]
    touched = [0 for _ in range(0)]
    for index in range(seeds.size):
        _offer(field, target, offsets, weight, before, after, kinds, waiting, touched,
               seeds[index], first_value[index])
    while len(waiting) > 0 and len(touched) <= most:
        value, cell = heapq.heappop(waiting)
        if value > after[cell]:
            continue
        for move in range(offsets.size):
            source = cell - offsets[move]
            if 0 <= source < field.size and (moves[source] >> move) & 1:
                _offer(field, target, offsets, weight, before, after, kinds, waiting, touched,
                       source, value + _step(weight, source, cell, move))
    return touched


@njit(cache=True, nogil=True)
def _best_move(field: NDArray[np.uint8], target: int, new: Grid, before: NDArray[np.float64],
               after: NDArray[np.float64], kinds: NDArray[np.uint8], cell: int) -> int:
    """Return the best move of a cell, first of ties, as :func:`best_moves` does."""
    moves, offsets, weight = new
    best, best_move = np.inf, NO_WAY
    for move in range(offsets.size):
        if not (moves[cell] >> move) & 1:
            continue
        other = cell + offsets[move]
        value = after[other] if kinds[other] != _KEPT else _value_before(
            field, target, offsets, weight, before, other)
        if value == np.inf:
            continue
        candidate = _step(weight, cell, other, move) + value
        tie = min(TIE * (1.0 + abs(best)), LARGEST_TIE)
        if best_move == NO_WAY or candidate < best - tie:
            best, best_move = candidate, move
    return best_move


@njit(cache=True, nogil=True)
def _repair(field: NDArray[np.uint8], target: int, old: Grid, new: Grid,
            changed: NDArray[np.int64], before: NDArray[np.float64], after: NDArray[np.float64],
            kinds: NDArray[np.uint8], most: int) -> bool:
    """Write the new field in the place of the old one; False: given up, too much is new."""
    broken = _broken_cells(field, old, new, changed, kinds, most)
    if len(broken) > most:
        return False
    cells = np.array(broken, dtype=np.int64)
    after[cells] = np.inf
    seeds = np.unique(np.concatenate((cells, _around(changed, new.offsets, field.size))))
    touched = _spread(field, target, new, seeds, before, after, kinds, most)
    if len(touched) > most:
        return False
    uneasy = _around(np.unique(np.concatenate((
        seeds, np.array(touched, dtype=np.int64)))), new.offsets, field.size)
    best = np.empty(uneasy.size, dtype=np.uint8)
    for index in range(uneasy.size):
        best[index] = _best_move(field, target, new, before, after, kinds, uneasy[index])
    field[uneasy] = best
    field[target] = ARRIVED
    return True
