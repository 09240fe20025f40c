"""Ensembles of options on disk: solved by any executor, in one file, opened by memory map.

The complete ensemble U_All has an option for every free cell; with it a new grounding needs no
option at all to be solved (policy remappability, P1 of the paper). Options do not depend on one
another, so any ``concurrent.futures.Executor`` may solve them: threads, processes, a cluster.

The file begins with a line of JSON, padded to a page. Each of the following parts begins on a
page of its own: ``moves`` and ``weight`` of the grid, the ``targets`` in rising order, for each of
them whether it ``is_solved``, the ``checksum`` of what follows, its ``direction`` field and, at
temperature > 0, its ``log_z``. Rows are written before they are marked as solved, so that a run
which was cut off goes on where it ended.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    FIRST_COMPLETED,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import nullcontext
from functools import cached_property
from io import FileIO
import json
import math
import os
from pathlib import Path
import shutil
from typing import Any
import zlib

import numpy as np
from numpy.typing import NDArray

from gk_planner.base_space import BaseSpace
from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.errors import EnsembleError, LimitError
from gk_planner.grid_shortest_path import Grid
from gk_planner.options import Cells, grid_of, Option, solve_option

Progress = Callable[[int, int], None]
Fields = tuple[NDArray[np.uint8], NDArray[np.float64] | None]

_FORMAT = 'gk_planner ensemble 1'
_PAGE = 4096
# Bytes of options that one job returns.
_JOB_BYTES = 16_000_000


class Ensemble(Mapping[int, Option]):
    """The options of a file by their target cell; nothing is read before it is used.

    Parameters
    ----------
    path : path
        A file written by :func:`precompute`, complete or not.

    Raises
    ------
    EnsembleError
        If it cannot be read or is no such file.

    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._header = _read_header(self.path)
        self._layout = _Layout(self._header)
        if self.path.stat().st_size < self._layout.size:
            raise EnsembleError(f'{self.path}: the file is cut off')

    def __len__(self) -> int:
        return int(np.count_nonzero(self._part('is_solved')))

    def __iter__(self) -> Iterator[int]:
        return iter(self.targets[self._part('is_solved') > 0].tolist())

    def __getitem__(self, target: int) -> Option:
        row = self._row(target)
        if row is None:
            raise KeyError(target)
        direction = self._direction[row]
        log_z = self._log_z[row] if self._header['temperature'] > 0 else None
        if _checksum(target, direction, log_z) != self._checksums[row]:
            raise EnsembleError(f'{self.path}: the option to cell {target} is damaged; remove the '
                                'file and write it again')
        return Option(self.grid, self._header['resolution'], self._header['temperature'], target,
                      direction, log_z, ends_on_entry=False)

    def __contains__(self, target: object) -> bool:
        return isinstance(target, int) and self._row(target) is not None

    def _row(self, target: int) -> int | None:
        """Return the row of a target that is solved."""
        row = int(np.searchsorted(self.targets, target))
        is_known = row < self.targets.size and self.targets[row] == target and self._solved[row]
        return row if is_known else None

    @cached_property
    def targets(self) -> Cells:
        """The cells that options are, or will be, solved for, in rising order."""
        return self._part('targets')

    @cached_property
    def grid(self) -> Grid:
        """The grid that the options were solved on."""
        return Grid(self._part('moves'), np.array(self._header['offsets']), self._part('weight'))

    def fits(self, space: BaseSpace) -> bool:
        """Return whether the options are those of a base space."""
        settings, grid, other = _settings(space), self.grid, grid_of(space)
        return (settings == {name: self._header[name] for name in settings}
                and np.array_equal(grid.offsets, other.offsets)
                and np.array_equal(grid.moves, other.moves)
                and np.array_equal(grid.weight, other.weight))

    def resembles(self, space: BaseSpace) -> bool:
        """Return whether the options might be repaired for a base space."""
        grid, other = self.grid, grid_of(space)
        return (self._header['temperature'] == space.config.temperature == 0
                and self._header['cols'] == space.free.shape[1]
                and grid.moves.size == other.moves.size
                and grid.offsets.size == other.offsets.size)

    @cached_property
    def _solved(self) -> NDArray[np.uint8]:
        return self._part('is_solved')

    @cached_property
    def _checksums(self) -> NDArray[np.uint32]:
        return self._part('checksum')

    @cached_property
    def _direction(self) -> NDArray[np.uint8]:
        return self._part('direction')

    @cached_property
    def _log_z(self) -> NDArray[np.float64]:
        return self._part('log_z')

    def _part(self, name: str) -> NDArray[Any]:
        dtype, shape, offset = self._layout.parts[name]
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.asarray(np.memmap(self.path, dtype, 'r', offset, shape))


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
        layout = _Layout(_header(space, cells))
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


def _checksum(target: int, direction: NDArray[np.uint8],
              log_z: NDArray[np.float64] | None) -> int:
    checksum = zlib.crc32(direction.data, target & 0xFFFFFFFF)
    return checksum if log_z is None else zlib.crc32(log_z.data, checksum)


def _refill(pending: dict[Future[list[Fields]], NDArray[np.int64]],
            chunks: Iterator[NDArray[np.int64]], in_flight: int,
            submit: Callable[[NDArray[np.int64]], Future[list[Fields]]]) -> bool:
    """Keep some jobs waiting; returns whether there is anything left to wait for."""
    while len(pending) < in_flight and (chunk := next(chunks, None)) is not None:
        pending[submit(chunk)] = chunk
    return bool(pending)


class _Writer:
    """Puts rows in their place. Plain writes: a full disk is an error, not a signal."""

    def __init__(self, file: FileIO, layout: '_Layout', targets: Cells) -> None:
        self._file, self._layout, self._targets = file, layout, targets
        _, shape, offset = layout.parts['is_solved']
        file.seek(offset)
        self.is_solved = np.frombuffer(file.read(shape[0]), dtype=np.uint8).copy()

    def write(self, rows: NDArray[np.int64], fields: list[Fields]) -> None:
        """Write the options of some rows, and then that they are solved."""
        try:
            for row, (direction, log_z) in zip(rows.tolist(), fields, strict=True):
                self._put('direction', row, direction)
                checksum = _checksum(int(self._targets[row]), direction, log_z)
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


class _Layout:
    """Where the parts of a file are: type, shape and offset of each; and how long a row is."""

    def __init__(self, header: dict[str, Any]) -> None:
        n_cells, n_targets = header['rows'] * header['cols'], header['n_targets']
        parts: dict[str, tuple[str, tuple[int, ...]]] = {
            'moves': ('u1', (n_cells,)), 'weight': ('<f8', (n_cells * header['is_weighted'],)),
            'targets': ('<i8', (n_targets,)), 'is_solved': ('u1', (n_targets,)),
            'checksum': ('<u4', (n_targets,)), 'direction': ('u1', (n_targets, n_cells))}
        if header['temperature'] > 0:
            parts['log_z'] = ('<f8', (n_targets, n_cells))
        self.row_bytes = n_cells * (9 if 'log_z' in parts else 1)
        self.parts: dict[str, tuple[str, tuple[int, ...], int]] = {}
        self.size = _PAGE
        for name, (dtype, shape) in parts.items():
            self.parts[name] = (dtype, shape, self.size)
            n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
            self.size += -(-n_bytes // _PAGE) * _PAGE


def _settings(space: BaseSpace) -> dict[str, Any]:
    """What the options depend on, beside the grid."""
    rows, cols = space.free.shape
    return {'rows': rows, 'cols': cols, 'resolution': space.resolution,
            'temperature': space.config.temperature}


def _header(space: BaseSpace, cells: Cells) -> dict[str, Any]:
    return {'format': _FORMAT, **_settings(space), 'offsets': grid_of(space).offsets.tolist(),
            'is_weighted': space.weight is not None, 'n_targets': cells.size}


def _read_header(path: Path) -> dict[str, Any]:
    try:
        with open(path, 'rb') as file:
            line = file.read(_PAGE).split(b'\n', 1)[0]
        header = json.loads(line)
    except OSError as error:
        raise EnsembleError(f'{path}: cannot be read: {error.strerror}') from None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get('format') != _FORMAT:
        raise EnsembleError(f'{path}: is no ensemble of options; write one with precompute')
    for field, is_right in _HEADER.items():
        if not is_right(header.get(field)):
            raise EnsembleError(f"{path}: '{field}' in its header is wrong")
    return header


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _is_length(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


_HEADER: dict[str, Callable[[Any], bool]] = {
    'rows': _is_count, 'cols': _is_count, 'n_targets': _is_count,
    'is_weighted': lambda value: type(value) is bool,
    'resolution': _is_length, 'temperature': _is_length,
    'offsets': lambda value: isinstance(value, list) and len(value) in (4, 8) and all(
        type(offset) is int and abs(offset) < 2**62 for offset in value)}


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
        _check_room(path, space, n_left, n_left * _Layout(_header(space, cells)).row_bytes)
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
    header = _header(space, cells)
    layout = _Layout(header)
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
