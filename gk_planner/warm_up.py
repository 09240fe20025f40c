"""Compile every kernel, or load it from the cache on disk: ``python -m gk_planner.warm_up``.

Kernels are compiled when they are first called with arrays of their types, which takes seconds,
and are then kept beside the sources. A few plans in a world of a few cells call them all, so that
after this the first plan of a user is as fast as any other.
"""

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
import platform
import sys
import time
from typing import Any

import numba
import numpy as np

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.errors import InfeasibleError
from gk_planner.grid_shortest_path import shortest_paths
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.planner import Planner
from gk_planner.task_solver import solve_task

# So many cells that one of them more or less is a small change.
_SIDE = 40


def is_compiled() -> bool:
    """Return whether :func:`compile_all` has been run with these sources on this machine."""
    stamp, state = _stamp()
    return stamp.exists() and stamp.read_text() == state


def compile_all() -> float:
    """Compile what is missing on disk; returns the seconds it took."""
    seconds = warm_up()
    stamp, state = _stamp()
    stamp.write_text(state)
    return seconds


def _stamp() -> tuple[Path, str]:
    """Return a file beside the compiled kernels, and what they depend on."""
    sources = [file.read_bytes() for file in sorted(Path(__file__).parent.glob('*.py'))]
    machine = f'{sys.version} {numba.__version__} {platform.node()}'.encode()
    return (Path(str(shortest_paths.stats.cache_path), 'gk_planner.compiled'),
            sha256(b'\0'.join([machine, *sources])).hexdigest())


def warm_up(temperatures: tuple[float, ...] = (0.0, 1.0)) -> float:
    """Call every kernel that plans at these temperatures need; returns the seconds it took."""
    began = time.perf_counter()
    for temperature in temperatures:
        for space in _spaces(temperature):
            planner = Planner(space)
            space.reached_from(0)
            for task in _tasks():
                planner.plan(task, (0.5, 0.5))
            # The same floor with one cell less: options are repaired.
            data = space.grid_map.data.copy()
            data[-1, 0] = 100
            changed = BaseSpace(OccupancyMap(data, 1.0), space.config)
            Planner(changed, former=planner).plan(next(_tasks()), (0.5, 0.5))
    many = Task.from_dict({'sites': [_site(f's{i}', f'g{i}') for i in range(30)],
                           'constraints': [f'g{i} before g{i + 1}' for i in range(29)]})
    solve_task(many, np.ones((30, 30)), np.ones(30))
    circle = Task.from_dict({'sites': [_site('a', 'a'), _site('b', 'b')], 'reversible': ['a'],
                             'constraints': ['a before b', 'b before a']})
    with suppress(InfeasibleError):
        solve_task(circle, np.ones((2, 2)), np.ones(2))
    return time.perf_counter() - began


def _spaces(temperature: float) -> Iterator[BaseSpace]:
    grid_map = OccupancyMap(np.zeros((_SIDE, _SIDE), dtype=np.int8), 1.0)
    for weight in (1.0, 2.0):
        yield BaseSpace(grid_map, Config(temperature=temperature, clearance_distance=1.0,
                                         clearance_weight=weight))
    data = grid_map.data.copy()
    data[_SIDE // 2, _SIDE // 2] = 100
    yield BaseSpace(OccupancyMap(data, 1.0), Config(
        temperature=temperature, robot_radius=0.5, clearance_distance=2.0, clearance_weight=200.0))


def _tasks() -> Iterator[Task]:
    sites = [_site('a', 'a', [10.5, 0.5]), _site('b', 'b', [0.5, 10.5]),
             _site('c', 'c', region=[[8, 8], [11, 8], [11, 11], [8, 11]])]
    yield Task.from_dict({'sites': sites, 'constraints': ['a before b', 'c(c^0, b^1)']})
    yield Task.from_dict({'sites': sites[:2], 'constraints': ['a before b']})  # one node each
    yield Task.from_dict({'sites': sites, 'reversible': ['b'], 'formula': 'a ^ b & c'})
    yield Task.from_dict({'sites': sites, 'trigger': 'contact'})


def _site(name: str, feature: str, position: list[float] | None = None,
          region: list[list[float]] | None = None) -> dict[str, Any]:
    return {'name': name, 'features': [feature], 'position': position, 'region': region}


if __name__ == '__main__':
    print(f'kernels ready after {compile_all():.1f} s')
