"""Occupancy maps: the cells as nav_msgs/OccupancyGrid holds them, and where they lie.

Continuous cell coordinates (u along columns, v along rows) and metres are joined by the origin
(x0, y0, yaw) of the map and its resolution r:  (x, y) = (x0, y0) + r R(yaw) (u, v),  and cell
(row, col) covers [col, col + 1) x [row, row + 1). Files are those of Nav2's map_server.
"""

from collections.abc import Mapping
from dataclasses import dataclass
import difflib
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, PngImagePlugin, PpmImagePlugin
import yaml

from gk_planner import yaml_input
from gk_planner.config import Config
from gk_planner.errors import MapError

UNKNOWN = -1
FREE = 0
OCCUPIED = 100

_KEYS = ('image', 'resolution', 'origin', 'negate', 'occupied_thresh', 'free_thresh', 'mode')
_MODES = ('trinary', 'scale', 'raw')
# Rec. 709 luma, the greyscale of the library that map_server reads images with.
_LUMA = (0.212656, 0.715158, 0.072186, 0.0)
# A point on an edge, up to float noise, belongs to the cell with the higher index.
_EDGE = 1e-9


class _Header(NamedTuple):
    """The checked fields of a map YAML file."""

    image: Path
    resolution: float
    origin: tuple[float, float, float]
    negate: bool
    occupied_thresh: float
    free_thresh: float
    mode: str


@dataclass(frozen=True, eq=False)
class OccupancyMap:
    """An occupancy grid and its place in the map frame.

    Parameters
    ----------
    data : array_like of int, shape (rows, cols)
        Occupancy 0..100 in percent, -1 unknown; row 0 is the bottom row. Kept as a read-only
        int8 copy.
    resolution : float
        Side of a cell in metres.
    origin : tuple of float
        Pose (x, y, yaw) of the lower left corner of cell (0, 0) in metres and radians.

    Raises
    ------
    MapError
        If a field has the wrong shape, type or range.

    """

    data: NDArray[np.int8]
    resolution: float
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'data', _checked_cells(self.data))
        object.__setattr__(self, 'resolution', yaml_input.number(
            self.resolution, 'resolution', MapError, above=0))
        object.__setattr__(self, 'origin', _origin(self.origin, 'origin'))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.data.shape[0])

    @property
    def cols(self) -> int:
        """Number of columns."""
        return int(self.data.shape[1])

    def to_grid(self, points: ArrayLike) -> NDArray[np.float64]:
        """Turn points (n, 2) in metres into continuous cell coordinates (u, v)."""
        x0, y0, yaw = self.origin
        cos, sin = math.cos(yaw), math.sin(yaw)
        # Points at infinity have no cell, which is no reason to warn.
        with np.errstate(over='ignore', invalid='ignore'):
            x, y = (np.asarray(points, dtype=np.float64).reshape(-1, 2) - (x0, y0)).T
            return np.column_stack((cos * x + sin * y, cos * y - sin * x)) / self.resolution

    def to_world(self, grid_points: ArrayLike) -> NDArray[np.float64]:
        """Turn continuous cell coordinates (n, 2) into points in metres."""
        x0, y0, yaw = self.origin
        cos, sin = math.cos(yaw), math.sin(yaw)
        u, v = np.asarray(grid_points, dtype=np.float64).reshape(-1, 2).T * self.resolution
        return np.column_stack((cos * u - sin * v + x0, sin * u + cos * v + y0))

    def cell_of(self, x: float, y: float) -> tuple[int, int] | None:
        """Return (row, col) of the cell that holds a point, None outside the map."""
        col, row = (float(value) for value in np.floor(self.to_grid((x, y))[0] + _EDGE))
        if 0 <= row < self.rows and 0 <= col < self.cols:
            return int(row), int(col)
        return None

    def centre_of(self, row: int, col: int) -> tuple[float, float]:
        """Return the centre (x, y) of a cell in metres."""
        x, y = self.to_world((col + 0.5, row + 0.5))[0].tolist()
        return x, y

    @classmethod
    def from_file(cls, map_yaml: str | os.PathLike[str],
                  max_cells: int = Config.max_map_cells) -> 'OccupancyMap':
        """Read a map_server YAML file and its PGM or PNG image.

        Parameters
        ----------
        map_yaml : str or os.PathLike
            File with ``image`` (relative to this file, or starting with ``~/``),
            ``resolution``, ``origin`` [x, y, yaw], and optionally ``negate`` (default 0),
            ``occupied_thresh`` (default 0.65), ``free_thresh`` (default 0.196) and ``mode``
            (trinary, scale or raw; default trinary).
        max_cells : int
            Larger images are refused before they are decoded.

        Returns
        -------
        OccupancyMap
            The map, flipped so that row 0 is the bottom row.

        Raises
        ------
        MapError
            If the file or the image cannot be read, or a field is wrong.

        Notes
        -----
        With p = 1 - shade / 255 (or shade / 255 if ``negate``) a cell is occupied if
        p >= occupied_thresh, free if p <= free_thresh, and between them unknown (trinary) or
        in proportion (scale); pixels that are not opaque are unknown. In raw mode the shade
        is the occupancy, and unknown above 100.

        """
        source = os.fspath(map_yaml)
        header = _read_header(yaml_input.load_mapping(map_yaml, MapError), source)
        shade, opaque = _read_image(header.image, f'{source}: image', max_cells)
        data = _occupancy_of_shade(header)[shade]
        if opaque is not None and header.mode != 'raw':
            data[~opaque] = UNKNOWN
        return cls(np.flipud(data), header.resolution, header.origin)

    def save(self, yaml_path: str | os.PathLike[str]) -> None:
        """Write the map as YAML and a PGM image of the same name beside it.

        Maps of free, occupied and unknown cells alone are written in trinary mode, others in
        raw mode; both read back identically.

        Raises
        ------
        MapError
            If a file cannot be written.

        """
        path = Path(yaml_path)
        image = path.with_suffix('.pgm')
        if image == path:
            raise MapError(f'{path}: a map is saved under the name of its YAML file')
        if np.isin(self.data, (UNKNOWN, FREE, OCCUPIED)).all():
            mode = 'trinary'
            shade = np.select([self.data == FREE, self.data == OCCUPIED], [254, 0], 205)
        else:
            mode, shade = 'raw', np.where(self.data == UNKNOWN, 255, self.data)
        fields = {
            'image': image.name, 'mode': mode, 'resolution': self.resolution,
            'origin': list(self.origin), 'negate': 0, 'occupied_thresh': 0.65,
            'free_thresh': 0.196}
        pixels = np.flipud(shade).astype(np.uint8).tobytes()
        try:
            image.write_bytes(f'P5\n{self.cols} {self.rows}\n255\n'.encode() + pixels)
            path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding='utf-8')
        except OSError as problem:
            raise MapError(f'{path}: cannot be written: {problem.strerror}') from problem


def _checked_cells(values: ArrayLike) -> NDArray[np.int8]:
    cells = np.asarray(values)
    if cells.ndim != 2 or cells.size == 0:
        raise MapError(f'data: expected rows and columns of cells, got shape {cells.shape}')
    if cells.dtype.kind not in 'iu':
        raise MapError(f'data: expected integers, got {cells.dtype}')
    if cells.min() < UNKNOWN or cells.max() > OCCUPIED:
        raise MapError('data: occupancy must lie in -1..100, got values in '
                       f'{cells.min()}..{cells.max()}')
    copy = np.array(cells, dtype=np.int8, order='C')
    copy.setflags(write=False)
    return copy


def _origin(value: object, where: str) -> tuple[float, float, float]:
    parts = yaml_input.sequence(value, where, MapError)
    if len(parts) != 3:
        raise MapError(f'{where}: expected [x, y, yaw], got {yaml_input.shorten(value)}')
    x, y, yaw = (yaml_input.number(part, f'{where}[{index}]', MapError)
                 for index, part in enumerate(parts))
    return x, y, yaw


def _read_header(fields: Mapping[str, Any], source: str) -> _Header:
    # As for map_server, a file may say more; but not what is meant for a key that is missing.
    missing = [key for key in _KEYS if key not in fields]
    for key in fields.keys() - set(_KEYS):
        if near := difflib.get_close_matches(key.lower(), missing, n=1, cutoff=0.7):
            raise MapError(f"{source}: unknown key {yaml_input.shorten(key)}; did you mean "
                           f"'{near[0]}'?")

    def share(key: str, default: float) -> float:
        value = yaml_input.number(fields.get(key, default), f'{source}: {key}', MapError, low=0)
        if value > 1:
            raise MapError(f'{source}: {key}: must be at most 1, got {value:g}')
        return value

    image, resolution, origin = (
        yaml_input.required(fields, key, source, MapError) for key in _KEYS[:3])
    if not isinstance(image, str) or not image:
        raise MapError(f'{source}: image: expected a file name, got {yaml_input.shorten(image)}')
    negate, mode = fields.get('negate', 0), str(fields.get('mode', 'trinary')).lower()
    if not isinstance(negate, int) or negate not in (0, 1):
        raise MapError(f'{source}: negate: must be 0 or 1, got {yaml_input.shorten(negate)}')
    if mode not in _MODES:
        raise MapError(f'{source}: mode: must be one of {", ".join(_MODES)}, '
                       f'got {yaml_input.shorten(mode)}')
    occupied, free = share('occupied_thresh', 0.65), share('free_thresh', 0.196)
    if free >= occupied:
        raise MapError(f'{source}: free_thresh: must be less than occupied_thresh '
                       f'({occupied:g}), got {free:g}')
    if image.startswith('~/'):
        image = os.path.expanduser(image)
    return _Header(
        Path(source).parent / image,
        yaml_input.number(resolution, f'{source}: resolution', MapError, above=0),
        _origin(origin, f'{source}: origin'), bool(negate), occupied, free, mode)


def _occupancy_of_shade(header: _Header) -> NDArray[np.int8]:
    """Return the occupancy of each shade 0..255, in map_server's single precision."""
    shade = np.arange(256)
    if header.mode == 'raw':
        return np.where(shade > OCCUPIED, UNKNOWN, shade).astype(np.int8)
    share = shade.astype(np.float32) / np.float32(255)
    if not header.negate:
        share = np.float32(1) - share
    free, occupied = np.float32(header.free_thresh), np.float32(header.occupied_thresh)
    between = np.full(256, float(UNKNOWN), dtype=np.float32)
    if header.mode == 'scale':
        span = np.float32(header.occupied_thresh - header.free_thresh)
        between = np.floor((share - free) / span * np.float32(100) + np.float32(0.5))
    # Free comes first: thresholds that coincide in single precision are both met.
    return np.select([share <= free, share >= occupied], [FREE, OCCUPIED],
                     between).astype(np.int8)


def _read_image(path: Path, where: str,
                max_cells: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_] | None]:
    """Return the 8-bit shade of each pixel, and which are opaque if the image says so."""
    try:
        with open(path, 'rb') as stream:
            # The readers are called directly: Image.open has a limit of its own, and warns.
            is_png = stream.peek(4)[:4] == b'\x89PNG'
            reader = PngImagePlugin.PngImageFile if is_png else PpmImagePlugin.PpmImageFile
            with reader(stream) as image:
                if image.width * image.height > max_cells:
                    raise MapError(f'{where}: {path} has {image.width} x {image.height} '
                                   f'pixels; at most {max_cells} are allowed')
                image.load()
                return _shade_and_opaque(image)
    except MapError:
        raise
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise MapError(f'{where}: cannot read {path}: {reason}') from problem
    except (SyntaxError, ValueError, EOFError, OverflowError) as problem:
        raise MapError(f'{where}: {path} is not a complete PGM or PNG image of at least one '
                       f'pixel: {problem}') from problem


def _shade_and_opaque(image: Image.Image) -> tuple[
        NDArray[np.uint8], NDArray[np.bool_] | None]:
    opaque: NDArray[np.bool_] | None = None
    if image.mode.startswith('I'):
        wide = np.asarray(image).astype(np.uint32)
        if 'transparency' in image.info:
            opaque = wide != image.info['transparency']
        return ((wide + 128) // 257).astype(np.uint8), opaque
    if image.mode == 'F':
        raise ValueError('pixels are floating point numbers')
    if image.has_transparency_data:
        image = image.convert('RGBA')
        opaque = np.asarray(image.getchannel('A')) == 255
    if image.mode != 'L':
        image = image.convert('RGB').convert('L', matrix=_LUMA)
    return np.asarray(image), opaque
