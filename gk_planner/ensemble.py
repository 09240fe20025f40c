"""Ensembles of options on disk: one file, opened by memory map.

The complete ensemble U_All has an option for every free cell; with it a new grounding needs no
option at all to be solved (policy remappability, P1 of the paper).

The file begins with a line of JSON, padded to a page. Each of the following parts begins on a
page of its own: ``moves`` and ``weight`` of the grid, the ``targets`` in rising order, for each of
them whether it ``is_solved``, the ``checksum`` of what follows, its ``direction`` field and, at
temperature > 0, its ``log_z``. Rows are written before they are marked as solved, so that a run
which was cut off goes on where it ended.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
import json
import math
import os
from pathlib import Path
from typing import Any
import zlib

import numpy as np
from numpy.typing import NDArray

from gk_planner.base_space import BaseSpace
from gk_planner.errors import EnsembleError
from gk_planner.grid_shortest_path import Grid
from gk_planner.options import Cells, grid_of, Option

_FORMAT = 'gk_planner ensemble 1'
_PAGE = 4096


class Ensemble(Mapping[int, Option]):
    """The options of a file by their target cell; nothing is read before it is used.

    Parameters
    ----------
    path : path
        A file written by :func:`gk_planner.precompute.precompute`, complete or not.

    Raises
    ------
    EnsembleError
        If it cannot be read or is no such file.

    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._header = _read_header(self.path)
        self._layout = Layout(self._header)
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
        if checksum_of(target, direction, log_z) != self._checksums[row]:
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


def checksum_of(target: int, direction: NDArray[np.uint8],
                log_z: NDArray[np.float64] | None) -> int:
    """Return the checksum of an option, which knows its target."""
    checksum = zlib.crc32(direction.data, target & 0xFFFFFFFF)
    return checksum if log_z is None else zlib.crc32(log_z.data, checksum)


class Layout:
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


def header_of(space: BaseSpace, cells: Cells) -> dict[str, Any]:
    """Return the first line of a file with the options to some cells."""
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
