"""Grounding: on which cells of the base space which goal is completed (the affordance F).

Every site covers free cells: a point its own cell, a region all cells with their centre inside.
From all of them the planner needs only a few, the *nodes* (the state-actions XA_G of the paper):
a robot that completes a goal deep inside its region could have completed it where it came in, so
the entering cells suffice, together with the start and with the nodes of other goals that lie
inside.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
import shapely

from gk_planner.annotations import polygon_cells
from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Site, Task
from gk_planner.errors import TaskError
from gk_planner.options import Cells


@dataclass(frozen=True, eq=False)
class Grounding:
    """The sites of a task on a base space.

    Attributes
    ----------
    site_cells : tuple of ndarray
        The free cells of every site, in rising order; empty if it stands in blocked cells.
    start_cell : int
        Cell of the robot.
    warnings : tuple of str
        Sites in blocked cells: where they were moved, or that they are out of reach.

    """

    space: BaseSpace
    task: Task
    site_cells: tuple[Cells, ...]
    start_cell: int
    warnings: tuple[str, ...]

    @cached_property
    def goal_cells(self) -> tuple[Cells, ...]:
        """The free cells of every goal: the union over its sites."""
        return tuple(_union([self.site_cells[site] for site in self.task.goal_sites(goal)])
                     for goal in range(len(self.task.goals)))

    @cached_property
    def fixed_goals(self) -> frozenset[int]:
        """Goals whose bit can never flip again: done and irreversible."""
        return self.task.done - self.task.reversible

    @cached_property
    def walls(self) -> Cells:
        """Under contact the cells whose touch does something: all sites of goals not fixed."""
        return _union([cells for goal, cells in enumerate(self.goal_cells)
                       if goal not in self.fixed_goals])

    @cached_property
    def nodes(self) -> tuple[Cells, ...]:
        """For every goal the cells at which a plan may complete it, in rising order."""
        find = self._contact_nodes if self.task.trigger == 'contact' else self._action_nodes
        return find()

    def site_at(self, goal: int, cell: int) -> int:
        """Return the first site of a goal that covers a cell."""
        return next(site for site in self.task.goal_sites(goal)
                    if np.any(self.site_cells[site] == cell))

    def _action_nodes(self) -> tuple[Cells, ...]:
        moving = [cells if goal not in self.fixed_goals else cells[:0]
                  for goal, cells in enumerate(self.goal_cells)]
        # At temperature > 0 how many options there are matters: one site does not hide another.
        areas = moving if self.space.config.temperature == 0 else [
            cells for cells, goal in zip(self.site_cells, self.task.site_goals, strict=True)
            if goal not in self.fixed_goals]
        candidates = _union([np.array([self.start_cell]),
                             *(self._border(cells, ways=(True,)) for cells in areas)])
        return tuple(cells if cells.size <= 1 else  # its own border, and there may be thousands
                     np.intersect1d(cells, candidates, assume_unique=True) for cells in moving)

    def _contact_nodes(self) -> tuple[Cells, ...]:
        nodes = []
        after_start = self._neighbours(np.array([self.start_cell]), entering=False)
        for goal, cells in enumerate(self.goal_cells):
            if goal in self.fixed_goals:
                nodes.append(cells[:0])
            elif goal in self.task.reversible:
                # Every step inside flips the bit again, so every cell counts.
                nodes.append(cells)
            else:
                found = self._border(cells, ways=(True, False))
                if np.isin(self.start_cell, cells):
                    found = np.union1d(found, np.intersect1d(after_start, cells))
                nodes.append(found)
        return tuple(nodes)

    def _border(self, cells: Cells, ways: tuple[bool, ...]) -> Cells:
        """Cells that a move from outside enters (way True) or a move to outside leaves (False)."""
        if cells.size <= 1:
            return cells
        crossing = np.zeros(cells.size, dtype=bool)
        for entering in ways:
            for move, offset in enumerate(self._offsets):
                others = cells - offset if entering else cells + offset
                outside = ~np.isin(others, cells)
                sources = others if entering else cells
                crossing |= outside & self._has_move(sources, move)
        return cells[crossing]

    def _neighbours(self, cells: Cells, entering: bool) -> Cells:
        found = []
        for move, offset in enumerate(self._offsets):
            others = cells - offset if entering else cells + offset
            found.append(others[self._has_move(others if entering else cells, move)])
        return _union(found)

    def _has_move(self, cells: Cells, move: int) -> NDArray[np.bool_]:
        moves = self.space.moves
        valid = (cells >= 0) & (cells < moves.size)
        return np.asarray(valid & ((moves[np.where(valid, cells, 0)] >> move) & 1).astype(bool))

    @property
    def _offsets(self) -> NDArray[np.int64]:
        return self.space.offsets[:self.space.config.connectivity]


def ground(task: Task, space: BaseSpace, start: tuple[float, float],
           start_tolerance: float = 0.0) -> Grounding:
    """Place the sites of a task on a base space.

    A start in a blocked cell is taken to the nearest free one within ``start_tolerance`` metres.

    Raises
    ------
    StartError
        If the start is outside the map or blocked.
    TaskError
        If a site has no place, lies outside the map, or under ``trigger: contact`` shares a cell
        with a site of another goal.

    """
    start_cell = space.start_cell(start, start_tolerance)
    warnings: list[str] = []
    site_cells = site_cells_of(task, space, warnings)
    if task.trigger == 'contact':
        _check_no_shared_cell(task, site_cells, space)
    return Grounding(space, task, site_cells, start_cell, tuple(warnings))


def site_cells_of(task: Task, space: BaseSpace,
                  warnings: list[str] | None = None) -> tuple[Cells, ...]:
    """Return the free cells of every site; those in blocked cells add a warning."""
    found: list[str] = [] if warnings is None else warnings
    return tuple(_site_cells(task, index, space, found) for index in range(len(task.sites)))


def _site_cells(task: Task, index: int, space: BaseSpace, warnings: list[str]) -> Cells:
    site = task.sites[index]
    where = f'{task.source}: sites[{index}]'
    covered = _covered_cells(site, space, where)
    free = covered[space.free.ravel()[covered]]
    if free.size:
        return free
    radius = space.config.snap_radius
    nearest = space.nearest_free(covered, radius) if radius > 0 else None
    if nearest is None:
        warnings.append(f"site '{site.name}' stands in a blocked cell and cannot be reached"
                        + (f'; no free cell is within {radius:g} m' if radius > 0 else ''))
        return free
    cell, distance = nearest
    x, y = space.centres(np.array([cell]))[0]
    warnings.append(f"site '{site.name}' stands in a blocked cell; moved {distance:.3g} m to "
                    f'({x:.3f}, {y:.3f})')
    return np.array([cell], dtype=np.int64)


def _covered_cells(site: Site, space: BaseSpace, where: str) -> Cells:
    """All cells of a site, free or not."""
    grid_map = space.grid_map
    if site.region is not None:
        rows, cols = polygon_cells(grid_map, site.region)
        if rows.size:
            return np.asarray(rows * grid_map.cols + cols, dtype=np.int64)
        point = shapely.Polygon(site.region).representative_point()
        position, field = (point.x, point.y), 'region'
    elif site.position is not None:
        position, field = site.position, 'position'
    else:
        raise TaskError(f"{where}: site '{site.name}' needs a position or a region on a map")
    cell = grid_map.cell_of(*position)
    if cell is None:
        raise TaskError(f"{where}.{field}: site '{site.name}' at ({position[0]:g}, "
                        f'{position[1]:g}) is outside the map')
    return np.array([cell[0] * grid_map.cols + cell[1]], dtype=np.int64)


def _check_no_shared_cell(task: Task, site_cells: tuple[Cells, ...], space: BaseSpace) -> None:
    owner: dict[int, int] = {}
    for site, cells in enumerate(site_cells):
        for cell in cells.tolist():
            other = owner.setdefault(cell, site)
            if task.site_goals[other] != task.site_goals[site]:
                x, y = space.centres(np.array([cell]))[0]
                raise TaskError(
                    f"{task.source}: sites[{site}]: under trigger contact the sites "
                    f"'{task.sites[other].name}' and '{task.sites[site].name}' of different goals "
                    f'share the cell at ({x:.3f}, {y:.3f})')


def _union(arrays: list[Cells]) -> Cells:
    if not arrays:
        return np.empty(0, dtype=np.int64)
    return np.unique(np.concatenate(arrays)).astype(np.int64)
