"""Precomputing: options are solved into a file by any executor.

Options do not depend on one another, so any ``concurrent.futures.Executor`` may solve them:
threads, processes, a cluster. The file is that of :mod:`gk_planner.ensemble`.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    FIRST_COMPLETED,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import nullcontext
from io import FileIO
import json
import os
from pathlib import Path
import shutil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gk_planner.base_space import BaseSpace
from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.ensemble import checksum_of, Ensemble, header_of, Layout
from gk_planner.errors import EnsembleError, LimitError
from gk_planner.options import Cells, grid_of, solve_option

Progress = Callable[[int, int], None]
Fields = tuple[NDArray[np.uint8], NDArray[np.float64] | None]

# Bytes of options that one job returns.
_JOB_BYTES = 16_000_000


def precompute(space: BaseSpace, path: str | os.PathLike[str],
               targets: Iterable[int] | None = None, *, executor: Executor | None = None,
               in_flight: int | None = None, progress: Progress | None = None,
               checkpoint: Checkpoint = proceed) -> Ensemble:
    """Solve options into a file, or go on with a file that was begun.

    Parameters
    ----------
    space : BaseSpace
        Where the options lead.
    path : path
        The file.
    targets : iterable of int, optional
        Free cells; all of them if not given: the complete ensemble.
    executor : Executor, optional
        Who solves them; threads on all cores if not given. It is not shut down.
    in_flight : int, optional
        How many jobs are given to the executor at a time; twice the cores of this machine if not
        given.
    progress : callable, optional
        Called with the number of options solved so far and in all.
    checkpoint : callable
        Called now and then; may raise to stop. What is solved by then stays in the file.

    Raises
    ------
    EnsembleError
        If a target is no free cell, the file is of another ensemble or cannot be written, or a
        worker dies.
    LimitError
        If the disk has no room for the file.

    """
    cells = _checked_targets(space, targets)
    in_flight = 2 * (os.cpu_count() or 1) if in_flight is None else in_flight
    if in_flight < 1:
        raise EnsembleError(f'in_flight: must be at least 1, got {in_flight}')
    with _open_file(Path(path), space, cells) as file:
        layout = Layout(header_of(space, cells))
        writer = _Writer(file, layout, cells)
        rows = np.flatnonzero(writer.is_solved == 0)
        size = max(1, _JOB_BYTES // max(layout.row_bytes, 1))
        chunks = iter(np.split(rows, range(size, rows.size, size)) if rows.size else [])
        if progress is not None:
            progress(cells.size - rows.size, cells.size)
        pending: dict[Future[list[Fields]], NDArray[np.int64]] = {}
        with ThreadPoolExecutor(os.cpu_count()) if executor is None else nullcontext(
                executor) as pool:
            try:
                while _refill(pending, chunks, in_flight,
                              lambda chunk: pool.submit(solve_fields, space, cells[chunk])):
                    checkpoint()
                    for job in wait(pending, return_when=FIRST_COMPLETED).done:
                        writer.write(pending.pop(job), job.result())
                        if progress is not None:
                            progress(int(writer.is_solved.sum()), cells.size)
            except Exception as error:
                if not _tells_of_death(error):
                    raise
                raise EnsembleError(f'{path}: a worker died (out of memory?); give the same '
                                    'command again to go on') from None
            finally:
                for job in pending:
                    job.cancel()
    return Ensemble(path)


def solve_fields(space: BaseSpace, targets: Cells) -> list[Fields]:
    """Solve some options; one job of :func:`precompute`, in whatever process."""
    grid = grid_of(space)
    everywhere = np.arange(grid.moves.size)
    options = (solve_option(grid, space, int(target)) for target in targets)
    return [(option.direction, None if option.log_z is None else option.log_z[everywhere])
            for option in options]


def _tells_of_death(error: Exception) -> bool:
    """Whether a worker has died; Dask, which may not be installed, has a class of its own."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == 'KilledWorker'


def _refill(pending: dict[Future[list[Fields]], NDArray[np.int64]],
            chunks: Iterator[NDArray[np.int64]], in_flight: int,
            submit: Callable[[NDArray[np.int64]], Future[list[Fields]]]) -> bool:
    """Keep some jobs waiting; returns whether there is anything left to wait for."""
    while len(pending) < in_flight and (chunk := next(chunks, None)) is not None:
        pending[submit(chunk)] = chunk
    return bool(pending)


class _Writer:
    """Puts rows in their place. Plain writes: a full disk is an error, not a signal."""

    def __init__(self, file: FileIO, layout: Layout, targets: Cells) -> None:
        self._file, self._layout, self._targets = file, layout, targets
        _, shape, offset = layout.parts['is_solved']
        file.seek(offset)
        self.is_solved = np.frombuffer(file.read(shape[0]), dtype=np.uint8).copy()

    def write(self, rows: NDArray[np.int64], fields: list[Fields]) -> None:
        """Write the options of some rows, and then that they are solved."""
        try:
            for row, (direction, log_z) in zip(rows.tolist(), fields, strict=True):
                self._put('direction', row, direction)
                checksum = checksum_of(int(self._targets[row]), direction, log_z)
                self._put('checksum', row, np.array([checksum], '<u4'))
                if log_z is not None:
                    self._put('log_z', row, log_z)
            self._save()
            for row in rows.tolist():
                self._put('is_solved', row, np.ones(1, dtype=np.uint8))
            self._save()
        except OSError as error:
            raise _unwritable(os.fsdecode(self._file.name), error) from None
        self.is_solved[rows] = 1

    def _save(self) -> None:
        os.fsync(self._file.fileno())

    def _put(self, part: str, row: int, values: NDArray[Any]) -> None:
        _write(self._file, self._layout.parts[part][2] + row * values.nbytes, values.tobytes())


def _write(file: FileIO, offset: int, content: bytes) -> None:
    """Write all of it; the last piece that fits on a disk is written without an error."""
    file.seek(offset)
    left = memoryview(content)
    while left:
        left = left[file.write(left):]


def _checked_targets(space: BaseSpace, targets: Iterable[int] | None) -> Cells:
    free = space.free.ravel()
    if targets is None:
        return np.flatnonzero(free)
    cells = np.unique(np.fromiter(targets, dtype=np.int64))
    for cell in cells.tolist():
        if not 0 <= cell < free.size or not free[cell]:
            raise EnsembleError(f'targets: {cell} is no free cell of the map')
    return cells


def _open_file(path: Path, space: BaseSpace, cells: Cells) -> FileIO:
    """Open the file to go on with it, or begin it."""
    try:
        if not path.exists() or (path.is_file() and not path.stat().st_size):
            _begin_file(path, space, cells)
        begun = Ensemble(path)
        if not begun.fits(space) or not np.array_equal(begun.targets, cells):
            raise EnsembleError(f'{path}: was begun for another map, other settings or other '
                                'cells; remove it or give another name')
        n_left = cells.size - len(begun)
        _check_room(path, space, n_left, n_left * Layout(header_of(space, cells)).row_bytes)
        return open(path, 'r+b', buffering=0)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: str | Path, error: OSError) -> EnsembleError:
    return EnsembleError(f'{path}: cannot be written: {error.strerror}')


def _check_room(path: Path, space: BaseSpace, n_options: int, n_bytes: int) -> None:
    room = shutil.disk_usage(path.absolute().parent).free
    if n_bytes > room:
        raise LimitError(f'{path}: {n_options} options on {space.moves.size} cells need '
                         f'{n_bytes / 1e9:.3g} GB, the disk has {room / 1e9:.3g} GB')


def _begin_file(path: Path, space: BaseSpace, cells: Cells) -> None:
    """Write the file without options; it has its name only when it is whole."""
    header = header_of(space, cells)
    layout = Layout(header)
    _check_room(path, space, cells.size, layout.size)
    grid = grid_of(space)
    whole = path.resolve()
    unfinished = whole.with_name(f'{whole.name}.part')
    try:
        with open(unfinished, 'wb', buffering=0) as file:
            file.truncate(layout.size)
            _write(file, 0, json.dumps(header).encode() + b'\n')
            for name, values in (('moves', grid.moves), ('weight', grid.weight),
                                 ('targets', cells)):
                dtype, _, offset = layout.parts[name]
                _write(file, offset, np.ascontiguousarray(values, dtype).tobytes())
            os.fsync(file.fileno())
        os.replace(unfinished, whole)
    finally:
        unfinished.unlink(missing_ok=True)
