"""Planning beside the caller: base spaces and plans are made in jobs, one after another.

Every method returns at once; each outcome comes back in the caller's thread. A job that is no
longer wanted stops at its next checkpoint.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.errors import (
    CanceledError,
    GkPlannerError,
    NoMapError,
    NoPoseError,
    StartError,
)
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.planner import Planner
from gk_planner.results import Plan, Point

Job = Callable[[], Any]
Outcome = Callable[[Any, GkPlannerError | None], None]
Submit = Callable[[Job, Outcome], None]
PlanOutcome = Callable[[Plan | None, GkPlannerError | None], None]
Taken = Callable[[GkPlannerError | None], None]


class PlanningQueue:
    """The planner of the newest map, and the jobs that wait for it.

    Parameters
    ----------
    submit : callable
        ``submit(job, outcome)`` runs ``job`` beside the caller, one at a time and in order, and
        then calls ``outcome(result, error)`` in the caller's thread.
    config : Config
        Settings of planning.
    start_tolerance : float or None
        How far a robot in a blocked cell may be from a free one; None: ``robot_radius`` plus one
        cell.

    """

    def __init__(self, submit: Submit, config: Config, start_tolerance: float | None) -> None:
        self.config = config
        self.planner: Planner | None = None
        self._submit = submit
        self._start_tolerance = start_tolerance
        self._grid_map: OccupancyMap | None = None
        self._builds = 0

    def set_map(self, grid_map: OccupancyMap, taken: Taken) -> bool:
        """Take a map; returns whether it differs from the one before.

        ``taken`` is called when the map is in use or refused, and never if a newer one comes
        before that.
        """
        old = self._grid_map
        if old is not None and old.resolution == grid_map.resolution and (
                old.origin == grid_map.origin and np.array_equal(old.data, grid_map.data)):
            return False
        self._grid_map = grid_map
        self._build(taken)
        return True

    def set_config(self, config: Config, taken: Taken) -> None:
        """Take other settings; the base space is made anew."""
        self.config = config
        if self._grid_map is not None:
            self._build(taken)

    def plan(self, task: Task, position: Point | None, still_wanted: Callable[[], bool],
             outcome: PlanOutcome) -> None:
        """Plan a task from a position, as long as it is wanted."""
        has_map = self._grid_map is not None

        def checkpoint() -> None:
            if not still_wanted():
                raise CanceledError('planning was canceled')

        def job() -> Plan:
            checkpoint()
            if not has_map or self.planner is None:
                raise NoMapError('no map has been received yet')
            if position is None:
                raise NoPoseError('the position of the robot is not known yet')
            return self.planner.plan(task, position, start_tolerance=self._tolerance(),
                                     checkpoint=checkpoint)

        def checked(plan: Plan | None, error: GkPlannerError | None) -> None:
            if error is None and not still_wanted():
                plan, error = None, CanceledError('planning was canceled')
            outcome(plan, error)

        self._submit(job, checked)

    def can_start(self, position: Point) -> bool:
        """Return whether a plan can begin at a position."""
        if self.planner is None:
            return False
        try:
            self.planner.base_space.start_cell(position, self._tolerance())
        except StartError:
            return False
        return True

    def _build(self, taken: Taken) -> None:
        self._builds += 1
        number, grid_map, config = self._builds, self._grid_map, self.config

        def job() -> Planner | None:
            # Maps may come faster than they are built: only the newest one counts.
            if grid_map is None or number != self._builds:
                return None
            return Planner(BaseSpace(grid_map, config), former=self.planner)

        def outcome(planner: Planner | None, error: GkPlannerError | None) -> None:
            if number != self._builds:
                return
            if planner is not None:
                self.planner = planner
            elif self.planner is None or self.planner.base_space.grid_map is not grid_map:
                # Refused; the same map shall be refused again and not pass as known.
                self._grid_map = self.planner.base_space.grid_map if self.planner else None
            taken(error)

        self._submit(job, outcome)

    def _tolerance(self) -> float:
        if self._start_tolerance is not None:
            return self._start_tolerance
        resolution = self._grid_map.resolution if self._grid_map is not None else 0.0
        return self.config.robot_radius + resolution
