"""What a grid cannot say: keep-out areas, traversal weights and one-way lines.

A polygon means the cells whose centre it holds. A one-way segment AB may be crossed from its
left to its right only: with side(X) = (B - A) x (X - A) / |B - A|, the step P -> Q is forbidden
if it touches AB with side(P) <= 0 < side(Q), so a centre on the line counts as right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
import shapely

from gk_planner import yaml_input
from gk_planner.errors import AnnotationsError
from gk_planner.moves import MOVES
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.yaml_input import Points

Cells = tuple[NDArray[np.int64], NDArray[np.int64]]

_BORDER = 1e-7   # cells: a centre this near to a polygon is on its border
_ON_LINE = 1e-9  # cells: a centre this near to a line is on it
_REACH = 1.5     # cells: no step is longer


@dataclass(frozen=True)
class Annotations:
    """Keep-out areas, weights and one-way lines, in metres in the map frame.

    Parameters
    ----------
    keep_out : tuple of polygons
        Areas the robot must not enter; a polygon is a tuple of at least three (x, y).
    weights : tuple of (polygon, factor)
        Areas in which a step costs ``factor`` (at least 1) times its length.
    one_way : tuple of polylines
        Lines crossed from their left to their right only, walking them in their order.

    """

    keep_out: tuple[Points, ...] = ()
    weights: tuple[tuple[Points, float], ...] = ()
    one_way: tuple[Points, ...] = ()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> 'Annotations':
        """Read an annotations file (YAML).

        Raises
        ------
        AnnotationsError
            If the file cannot be read or an entry is wrong; the message names it.

        """
        return cls.from_dict(yaml_input.load_mapping(path, AnnotationsError), os.fspath(path))

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], source: str = 'annotations') -> 'Annotations':
        """Build from a mapping with the keys of the file; each may be left out or None.

        Parameters
        ----------
        mapping : mapping
            ``keep_out``: polygons; ``weights``: mappings with ``polygon`` and ``factor``;
            ``one_way``: polylines.
        source : str
            Where the mapping comes from; messages start with it.

        Raises
        ------
        AnnotationsError
            If an entry is wrong; the message names it.

        """
        error = AnnotationsError
        fields = yaml_input.mapping(mapping, source, error)
        yaml_input.check_keys(fields, ('keep_out', 'weights', 'one_way'), source, error)

        def entries(key: str) -> list[tuple[Any, str]]:
            where = f'{source}: {key}'
            given = fields.get(key)
            values = yaml_input.sequence(() if given is None else given, where, error)
            return [(value, f'{where}[{index}]') for index, value in enumerate(values)]

        return cls(
            tuple(yaml_input.polygon(value, at, error) for value, at in entries('keep_out')),
            tuple(_weight(value, at) for value, at in entries('weights')),
            tuple(yaml_input.polyline(value, at, error) for value, at in entries('one_way')))


def _weight(value: object, where: str) -> tuple[Points, float]:
    error = AnnotationsError
    fields = yaml_input.mapping(value, where, error)
    yaml_input.check_keys(fields, ('polygon', 'factor'), where, error)
    area, factor = (yaml_input.required(fields, key, where, error)
                    for key in ('polygon', 'factor'))
    return (yaml_input.polygon(area, f'{where}.polygon', error),
            yaml_input.number(factor, f'{where}.factor', error, low=1))


def keep_out_mask(grid_map: OccupancyMap, annotations: Annotations) -> NDArray[np.bool_]:
    """Return which cells (rows, cols) have their centre in or on a keep-out polygon."""
    mask = np.zeros(grid_map.data.shape, dtype=np.bool_)
    for area in annotations.keep_out:
        mask[polygon_cells(grid_map, area)] = True
    return mask


def weight_field(grid_map: OccupancyMap, annotations: Annotations) -> NDArray[np.float64]:
    """Return the traversal weight of each cell (rows, cols): the product of its factors.

    Raises
    ------
    AnnotationsError
        If the product of overlapping factors is not finite.

    """
    field = np.ones(grid_map.data.shape)
    with np.errstate(over='ignore'):
        for index, (area, factor) in enumerate(annotations.weights):
            cells = polygon_cells(grid_map, area)
            field[cells] *= factor
            if not np.isfinite(field[cells]).all():
                raise AnnotationsError(f'weights[{index}].factor: the product of overlapping '
                                       'factors is too large')
    return field


def polygon_cells(grid_map: OccupancyMap, polygon: Points) -> Cells:
    """Return the cells whose centre lies inside a polygon or on its border.

    Parameters
    ----------
    grid_map : OccupancyMap
        The map whose cells are meant.
    polygon : sequence of (x, y)
        Corners in metres in the map frame.

    Returns
    -------
    tuple of ndarray
        Row indices and column indices, sorted by row, then column.

    """
    return _cells_in(grid_map, shapely.buffer(
        shapely.Polygon(grid_map.to_grid(polygon)), _BORDER))


def _cells_in(grid_map: OccupancyMap, area: shapely.Geometry) -> Cells:
    """Return the cells whose centre lies in an area given in cell coordinates."""
    u_min, v_min, u_max, v_max = shapely.bounds(area).tolist()
    rows = np.arange(np.clip(np.ceil(v_min - 0.5), 0, grid_map.rows),
                     np.clip(np.floor(v_max + 0.5), 0, grid_map.rows), dtype=np.int64)
    # Cut along the centre line of each row, the area is a set of intervals of columns.
    lines = np.empty((rows.size, 2, 2))
    lines[..., 1] = rows[:, None] + 0.5
    lines[..., 0] = np.clip((u_min - 1, u_max + 1), -1, grid_map.cols + 1)
    cuts, row_idx = shapely.get_parts(
        shapely.intersection(area, shapely.linestrings(lines)), return_index=True)
    met = ~shapely.is_empty(cuts)
    row_idx, (u_low, _, u_high, _) = row_idx[met], shapely.bounds(cuts[met]).T
    first = np.clip(np.ceil(u_low - 0.5), 0, grid_map.cols).astype(np.int64)
    end = np.clip(np.floor(u_high + 0.5), 0, grid_map.cols).astype(np.int64)
    count = np.maximum(end - first, 0)
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    flat = np.repeat(rows[row_idx] * grid_map.cols + first, count) + within
    flat.sort(kind='stable')  # fast on cells that are all but in order
    # Intervals of one row may share an end.
    flat = flat[np.diff(flat, prepend=-1) > 0]
    return flat // grid_map.cols, flat % grid_map.cols


def one_way_forbidden(grid_map: OccupancyMap,
                      polylines: Iterable[Points]) -> NDArray[np.uint8]:
    """Return the moves out of each cell that cross a polyline from its right to its left.

    Parameters
    ----------
    grid_map : OccupancyMap
        The map whose cells are meant.
    polylines : iterable of sequences of (x, y)
        One-way lines in metres in the map frame.

    Returns
    -------
    ndarray of uint8, shape (rows, cols)
        Bit d is set if the move ``MOVES[d]`` is forbidden.

    """
    forbidden = np.zeros(grid_map.data.shape, dtype=np.uint8)
    for line in polylines:
        points = grid_map.to_grid(line)
        for start, end in pairwise(points):
            if not np.array_equal(start, end):
                _forbid_segment(grid_map, start, end, forbidden)
    return forbidden


def _forbid_segment(grid_map: OccupancyMap, start: NDArray[np.float64],
                    end: NDArray[np.float64], forbidden: NDArray[np.uint8]) -> None:
    cells = _cells_in(grid_map, shapely.buffer(shapely.LineString((start, end)), _REACH))
    length = float(np.hypot(*(end - start)))
    du, dv = ((end - start) / length).tolist()
    u, v = cells[1] + 0.5 - start[0], cells[0] + 0.5 - start[1]
    side, along = du * v - dv * u, du * u + dv * v
    for move, (drow, dcol) in enumerate(MOVES):
        rise = du * drow - dv * dcol
        if rise <= 0:
            continue
        # Where on AB the step meets the line; a centre on the line meets it at once.
        meets = along + np.clip(-side / rise, 0, 1) * (du * dcol + dv * drow)
        crosses = ((side <= _ON_LINE) & (side + rise > _ON_LINE)
                   & (meets >= -_ON_LINE) & (meets <= length + _ON_LINE))
        forbidden[cells] |= (crosses * (1 << move)).astype(np.uint8)
