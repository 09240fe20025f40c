"""The eight moves of a grid cell, numbered once for all modules.

Move ``d`` leads from cell ``(row, col)`` to ``(row + DROW[d], col + DCOL[d])``; rows grow
northwards. The straight moves come first, so connectivity 4 is the first four.
"""

import numpy as np
from numpy.typing import NDArray

MOVES: tuple[tuple[int, int], ...] = (
    (0, 1), (1, 0), (0, -1), (-1, 0),    # E, N, W, S
    (1, 1), (1, -1), (-1, -1), (-1, 1),  # NE, NW, SW, SE
)


def _constant(values: list[int]) -> NDArray[np.int64]:
    array = np.array(values, dtype=np.int64)
    array.setflags(write=False)
    return array


DROW = _constant([drow for drow, _ in MOVES])
DCOL = _constant([dcol for _, dcol in MOVES])
OPPOSITE = _constant([MOVES.index((-drow, -dcol)) for drow, dcol in MOVES])
