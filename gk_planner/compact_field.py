"""Fields of log z kept as 40-bit fixed point: five bytes a cell instead of eight.

x = high - unit * n with 0 <= n < 2^40 - 1 and unit = (high - low) / (2^40 - 2); the last n stands
for -inf. Fields that span more than 2^18 would lose digits that matter and stay as they are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_INFINITE = 2 ** 40 - 1
_WIDEST = 2.0 ** 18


@dataclass(frozen=True, eq=False)
class CompactField:
    """A packed field; index it with cells for float64 values.

    Attributes
    ----------
    high, unit : float
        The largest value, and the distance of neighbouring ones; an entry is right to half of it.
    head : ndarray of uint8
        The upper eight bits of every n.
    tail : ndarray of uint32
        The lower 32 bits.

    """

    high: float
    unit: float
    head: NDArray[np.uint8]
    tail: NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.head.nbytes + self.tail.nbytes

    def __getitem__(self, cells: NDArray[np.int64] | int) -> NDArray[np.float64]:
        """Return the values of some cells."""
        numbers = np.asarray(self.head[cells], dtype=np.int64) << 32
        numbers = numbers + np.asarray(self.tail[cells], dtype=np.int64)
        return np.where(numbers == _INFINITE, -np.inf, self.high - self.unit * numbers)


def compact(values: NDArray[np.float64]) -> CompactField | NDArray[np.float64]:
    """Pack a field of numbers, some of them -inf, if that keeps it right to 1.2e-7."""
    finite = values > -np.inf
    high = float(values.max())
    low = float(values.min(initial=high, where=finite))
    if not finite.any() or high - low > _WIDEST:
        return values
    unit = (high - low) / (_INFINITE - 1) or 1.0
    numbers = np.full(values.shape, _INFINITE, dtype=np.uint64)
    numbers[finite] = np.rint((high - values[finite]) / unit)
    return CompactField(high, unit, (numbers >> np.uint64(32)).astype(np.uint8),
                        numbers.astype(np.uint32))
