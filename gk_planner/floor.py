"""The floor as kernels: cells too near to an obstacle, and the moves between free cells."""

import math

from numba import njit
import numpy as np
from numpy.typing import NDArray


def inflated(occupied: NDArray[np.bool_], reach: float) -> NDArray[np.bool_]:
    """Return the cells whose centre is at most ``reach`` cells from that of an occupied one."""
    limit = min(reach, math.hypot(*occupied.shape)) ** 2
    height = min(int(math.sqrt(limit)), occupied.shape[0])
    half_width = np.array([math.isqrt(int(limit - rise * rise)) for rise in range(height + 1)])
    return np.asarray(_dilate(occupied, half_width))


@njit(cache=True, nogil=True)
def _dilate(occupied: NDArray[np.bool_], half_width: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Exact Euclidean dilation in linear time.

    An occupied cell ``rise`` rows away blocks an interval of ``half_width[rise]`` columns to both
    sides; of each column only the nearest occupied cell counts. Intervals of one row are joined
    by counting where they begin and end.
    """
    rows, cols = occupied.shape
    far = half_width.size
    rise = np.full((rows, cols), far, dtype=np.int32)
    for row in range(rows):
        for col in range(cols):
            if occupied[row, col]:
                rise[row, col] = 0
            elif row > 0:
                rise[row, col] = min(rise[row - 1, col] + 1, far)
    for row in range(rows - 2, -1, -1):
        for col in range(cols):
            rise[row, col] = min(rise[row, col], rise[row + 1, col] + 1)
    blocked = np.empty((rows, cols), dtype=np.bool_)
    change = np.zeros(cols + 1, dtype=np.int32)
    for row in range(rows):
        change[:] = 0
        for col in range(cols):
            if rise[row, col] < far:
                width = half_width[rise[row, col]]
                change[max(col - width, 0)] += 1
                change[min(col + width + 1, cols)] -= 1
        depth = 0
        for col in range(cols):
            depth += change[col]
            blocked[row, col] = depth > 0
    return blocked


@njit(cache=True, nogil=True)
def possible_moves(free: NDArray[np.bool_], connectivity: int) -> NDArray[np.uint8]:
    """Return the moves between free cells as bits; a diagonal needs both cells beside it free."""
    rows, cols = free.shape
    padded = np.zeros((rows + 2, cols + 2), dtype=np.uint8)
    padded[1:-1, 1:-1] = free
    moves = np.empty((rows, cols), dtype=np.uint8)
    for row in range(rows):
        south, here, north = padded[row], padded[row + 1], padded[row + 2]
        for col in range(cols):
            east, west = here[col + 2], here[col]
            up, down = north[col + 1], south[col + 1]
            bits = east | up << 1 | west << 2 | down << 3
            if connectivity == 8:
                bits |= ((up & east & north[col + 2]) << 4 | (up & west & north[col]) << 5
                         | (down & west & south[col]) << 6 | (down & east & south[col + 2]) << 7)
            moves[row, col] = bits * here[col + 1]
    return moves


@njit(cache=True, nogil=True)
def reached_from(start: int, moves: NDArray[np.uint8], offsets: NDArray[np.int64],
                 ) -> NDArray[np.bool_]:
    """Return the cells to which moves lead from a cell."""
    reached = np.zeros(moves.size, dtype=np.bool_)
    reached[start] = True
    pending = [start]
    while pending:
        cell = pending.pop()
        for move in range(offsets.size):
            if (moves[cell] >> move) & 1 and not reached[cell + offsets[move]]:
                reached[cell + offsets[move]] = True
                pending.append(cell + offsets[move])
    return reached
