"""The base space X: free cells of the occupancy grid, the moves between them and what they cost.

Cells are numbered row by row from the lower left corner, ``cell = row * cols + col``. A step from
x to y costs its metric length times the mean traversal weight of the two cells; obstacles, corner
cutting and one-way lines are left out of ``moves``, which is the deterministic p_x(x'|x,a) of the
paper's State-Action LMDP (section:saLMDP) with impossible moves at infinite cost.
"""

from functools import cached_property
import math
import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gk_planner.annotations import Annotations, keep_out_mask, one_way_forbidden, weight_field
from gk_planner.config import Config
from gk_planner.errors import InputError, MapError, StartError
from gk_planner.floor import inflated, possible_moves, reached_from
from gk_planner.moves import DCOL, DROW
from gk_planner.occupancy_map import OccupancyMap, UNKNOWN

# Radii are compared with this slack (metres), so that a distance of exactly the radius counts.
_SLACK = 1e-9
# Beside larger weights the cost of a plain step would be lost in rounding.
_MAX_WEIGHT = 1e9


class BaseSpace:
    """Free cells, moves and traversal weights of one map under one configuration.

    Parameters
    ----------
    grid_map : OccupancyMap
        The occupancy grid.
    config : Config, optional
        Inflation, connectivity, clearance layer.
    annotations : Annotations, optional
        Keep-out areas, weights and one-way lines; read from ``config.annotations_file`` if not
        given.

    Raises
    ------
    InputError
        If a traversal weight exceeds 1e9.

    Attributes
    ----------
    free : ndarray of bool, shape (rows, cols)
    weight : ndarray of float64, shape (rows, cols), or None where every weight is 1
    moves : ndarray of uint8, shape (rows * cols,)
        Bit d of ``moves[cell]`` says that move d (see :mod:`gk_planner.moves`) is possible.
    build_ms : float
        How long it took to build, in milliseconds.

    """

    def __init__(self, grid_map: OccupancyMap, config: Config | None = None,
                 annotations: Annotations | None = None) -> None:
        began = time.perf_counter()
        self.grid_map = grid_map
        self.config = config or Config()
        if grid_map.data.size > self.config.max_map_cells:
            raise MapError(f'the map has {grid_map.data.size} cells; at most max_map_cells '
                           f'{self.config.max_map_cells} are allowed')
        if annotations is None:
            file = self.config.annotations_file
            annotations = Annotations.from_file(file) if file else Annotations()
        self.annotations = annotations
        occupied = grid_map.data >= self.config.occupied_threshold
        self.free = _free_cells(self, occupied)
        self.weight = _weights(self, occupied)
        self.moves = _possible_moves(self)
        for array in (self.free, self.weight, self.moves):
            if array is not None:
                array.setflags(write=False)
        self.build_ms = (time.perf_counter() - began) * 1e3

    @classmethod
    def from_file(cls, map_yaml: str | os.PathLike[str], **config_fields: Any) -> 'BaseSpace':
        """Read a Nav2 map file; keywords are the fields of :class:`Config`."""
        config = Config.from_fields(config_fields)
        return cls(OccupancyMap.from_file(map_yaml, max_cells=config.max_map_cells), config)

    @property
    def resolution(self) -> float:
        """Side of a cell in metres."""
        return self.grid_map.resolution

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """For every move what it adds to the number of the cell."""
        return np.asarray(DROW * self.grid_map.cols + DCOL, dtype=np.int64)

    def centres(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Return the centres of cells in metres, shape (n, 2)."""
        rows, cols = np.divmod(np.asarray(cells), self.grid_map.cols)
        return self.grid_map.to_world(np.column_stack([cols + 0.5, rows + 0.5]))

    def start_cell(self, start: tuple[float, float], tolerance: float = 0.0) -> int:
        """Return the free cell of a start position.

        Parameters
        ----------
        start : tuple of float
            Position in metres.
        tolerance : float
            A start in a blocked cell moves to the nearest free one within this many metres.

        Raises
        ------
        StartError
            If the position is outside the map or in a blocked cell.

        """
        place = f'start ({start[0]:g}, {start[1]:g})'
        cell = self.grid_map.cell_of(*start) if np.isfinite(start).all() else None
        if cell is None:
            raise StartError(f'{place} is outside the map')
        index = cell[0] * self.grid_map.cols + cell[1]
        if self.free[cell]:
            return index
        nearest = self.nearest_free(np.array([index]), tolerance) if tolerance > 0 else None
        if nearest is None:
            raise StartError(f'{place} is in a blocked cell')
        return nearest[0]

    def reached_from(self, cell: int) -> NDArray[np.bool_]:
        """Return for every cell whether moves lead there from a cell."""
        return np.asarray(reached_from(cell, self.moves, self.offsets))

    def nearest_free(self, cells: NDArray[np.int64], radius: float) -> tuple[int, float] | None:
        """Return the free cell nearest to any of the cells, and its distance in metres.

        Distances run between centres, at most ``radius``; ties go to the lowest row, then column.
        """
        reach = radius / self.resolution + _SLACK
        rows, cols = np.divmod(cells, self.grid_map.cols)
        low = [max(0, int(v.min() - math.ceil(reach))) for v in (rows, cols)]
        free = self.free[low[0]:int(rows.max() + reach) + 2, low[1]:int(cols.max() + reach) + 2]
        given = np.zeros(free.shape, dtype=bool)
        given[rows - low[0], cols - low[1]] = True
        distance = np.where(free, _distance_to(given), np.inf)
        row, col = np.unravel_index(np.argmin(distance), free.shape)
        if distance[row, col] > reach:
            return None
        cell = int(row + low[0]) * self.grid_map.cols + int(col + low[1])
        return cell, float(distance[row, col]) * self.resolution


def _distance_to(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Distance in cells from every centre to the nearest centre in the mask."""
    from scipy import ndimage  # slow to import, and seldom needed
    if not mask.any():
        return np.full(mask.shape, np.inf)
    return np.asarray(ndimage.distance_transform_edt(~mask), dtype=np.float64)


def _free_cells(space: BaseSpace, occupied: NDArray[np.bool_]) -> NDArray[np.bool_]:
    free = ~occupied
    if not space.config.unknown_is_free:
        free &= space.grid_map.data != UNKNOWN
    if space.config.robot_radius > 0:
        free &= ~inflated(occupied, (space.config.robot_radius + _SLACK) / space.resolution)
    if space.annotations.keep_out:
        free &= ~keep_out_mask(space.grid_map, space.annotations)
    return free


def _weights(space: BaseSpace, occupied: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    config = space.config
    clearance = config.clearance_distance > 0 and config.clearance_weight > 1
    if not clearance and not space.annotations.weights:
        return None
    weight = weight_field(space.grid_map, space.annotations)
    if clearance:
        metres = _distance_to(occupied) * space.resolution
        nearness = np.maximum(0.0, 1 - metres / config.clearance_distance)
        weight = weight * (1 + (config.clearance_weight - 1) * nearness)
    if weight.max() > _MAX_WEIGHT:
        raise InputError('weights: the factors times clearance_weight must be at most '
                         f'{_MAX_WEIGHT:g}, got {weight.max():g}')
    return weight


def _possible_moves(space: BaseSpace) -> NDArray[np.uint8]:
    moves: NDArray[np.uint8] = possible_moves(space.free, space.config.connectivity)
    if space.annotations.one_way:
        moves &= ~one_way_forbidden(space.grid_map, space.annotations.one_way)
    return moves.ravel()
