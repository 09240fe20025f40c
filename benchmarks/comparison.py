"""Rows of the table: one piece of work done by both in turns, in one run, with the same answer."""

from collections.abc import Callable
from dataclasses import dataclass
import math
import statistics
import time

import numpy as np

from gk_planner import Task
from gk_planner.occupancy_map import OccupancyMap

# Seconds for which a function is called again and again to time it once.
_BATCH = 0.1


@dataclass(frozen=True)
class Row:
    """Times in ms; ``target`` is the ratio that the project promises, 0 for none."""

    work: str
    against: str
    theirs: float
    ours: float
    target: float = 0.0
    remark: str = ''

    @property
    def ratio(self) -> float:
        """How many times faster ours is."""
        return self.theirs / self.ours


@dataclass(frozen=True)
class Limit:
    """Something measured without a peer; ``most`` is what the project promises, if anything."""

    what: str
    measured: float
    unit: str
    most: float = math.inf


def compare(work: str, against: str, theirs: Callable[[], object], ours: Callable[[], object],
            *, target: float = 0.0, repeats: int = 7, remark: str = '') -> Row:
    """Time two functions in turns, after one unmeasured call of each; medians."""
    counts = [_calls_per_batch(function) for function in (theirs, ours)]
    times: list[list[float]] = [[], []]
    for _ in range(repeats):
        for kind, function in enumerate((theirs, ours)):
            times[kind].append(_milliseconds(function, counts[kind]))
    return Row(work, against, statistics.median(times[0]), statistics.median(times[1]), target,
               remark)


def median_ms(function: Callable[[], object], repeats: int = 7) -> float:
    """Return the median time of one function."""
    calls = _calls_per_batch(function)
    return statistics.median(_milliseconds(function, calls) for _ in range(repeats))


def random_map(side: int, seed: int) -> OccupancyMap:
    """Return a square map with boxes on about a fifth of it."""
    rng = np.random.default_rng(seed)
    data = np.zeros((side, side), dtype=np.int8)
    for _ in range(40):
        row, col = rng.integers(0, side, 2)
        height, width = rng.integers(1, max(2, side // 8), 2)
        data[row:row + height, col:col + width] = 100
    return OccupancyMap(data, 0.05)


def random_places(grid_map: OccupancyMap, count: int, seed: int) -> list[tuple[float, float]]:
    """Return centres of different free cells from which one can get to one another."""
    from scipy import ndimage
    rooms, _ = ndimage.label(grid_map.data == 0)
    largest = np.argmax(np.bincount(rooms[rooms > 0]))
    free = np.argwhere(rooms == largest)
    chosen = np.random.default_rng(seed).permutation(len(free))[:count]
    return [grid_map.centre_of(*cell) for cell in free[chosen].tolist()]


def nine_goal_task(places: list[tuple[float, float]]) -> Task:
    """Return a task with a goal at each place, all of them wanted, and two constraints."""
    return Task.from_dict({
        'sites': [{'name': f's{i}', 'features': [f'g{i}'], 'position': place}
                  for i, place in enumerate(places)],
        'constraints': ['g0 before g1', 'g2 before g3'][:len(places) // 2]})


def _calls_per_batch(function: Callable[[], object]) -> int:
    function()
    return max(1, int(_BATCH * 1e3 / _milliseconds(function, 1)))


def _milliseconds(function: Callable[[], object], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - began) * 1e3 / calls
