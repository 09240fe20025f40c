"""How long a start takes: the command, the node; and ensembles by several executors."""

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
import multiprocessing
from pathlib import Path
import statistics
import subprocess
import sys
import tempfile
import time

from comparison import Limit, random_map
import distributed

from gk_planner import BaseSpace
from gk_planner.precompute import precompute

REPO = Path(__file__).resolve().parent.parent


def limits() -> Iterator[Limit]:
    """How soon the command answers, and the node, if ROS 2 is installed."""
    yield Limit('`gk_planner plan` on the office world, imports included', _command(), 's', 1.5)
    try:
        import node_latency
    except ImportError:
        return
    ready, alone, answered, stopped = node_latency.measure()
    yield Limit('the node: from its start until it answers `set_task`', ready / 1e3, 's', 3)
    yield Limit('the node: a plan of 12 goals on 1000 x 1000 cells', alone, 'ms')
    yield Limit('the node: `cancel` while it plans, until its answer', answered, 'ms')
    yield Limit('the node: `cancel` while it plans, until it has stopped', stopped, 'ms')


def _command() -> float:
    times = []
    for _ in range(6):
        began = time.perf_counter()
        subprocess.run([sys.executable, '-m', 'gk_planner', 'plan', 'maps/office.yaml',
                        'config/tasks/office.yaml'], cwd=REPO, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def ensembles(side: int = 150) -> list[str]:
    """Solve a complete ensemble by threads, by processes and by Dask."""
    space = BaseSpace(random_map(side, 1))
    lines = []
    with ProcessPoolExecutor(2, multiprocessing.get_context('spawn')) as pool, \
            distributed.Client(n_workers=2, threads_per_worker=1,
                               dashboard_address=None) as client:
        executors: list[tuple[str, Executor | None]] = [
            ('threads', None), ('2 processes', pool), ('Dask, 2 workers', client.get_executor())]
        for name, executor in executors:
            with tempfile.TemporaryDirectory() as folder:
                precompute(space, Path(folder, 'few'), range_of(space, 4), executor=executor)
                began = time.perf_counter()
                found = precompute(space, Path(folder, 'all'), executor=executor)
                seconds = time.perf_counter() - began
                n_options, size = len(found), found.path.stat().st_size
            lines.append(f'| {n_options} options on {side} x {side} cells by {name} | '
                         f'{seconds:.2g} s | {size / 1e6:.3g} MB |')
    return lines


def range_of(space: BaseSpace, count: int) -> list[int]:
    """Return the first free cells, for a first job that starts the workers."""
    return space.free.ravel().nonzero()[0][:count].tolist()
