"""Contact: which goals a robot completes by entering the cells of their sites."""

import math

import numpy as np

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Task
from gk_planner.grounding import site_cells_of
from gk_planner.results import Point


class ContactSensor:
    """Tells from positions which sites have been entered (``trigger: contact``).

    The cells are those of the planner.

    Parameters
    ----------
    space, task : BaseSpace, Task
        Where the sites are.
    position : tuple of float or None
        Where the robot is; this touches nothing. None: where it is seen first.

    """

    def __init__(self, space: BaseSpace, task: Task, position: Point | None = None) -> None:
        self.space = space
        self.task = task
        self._goal_at: dict[int, int] = {}
        for site, cells in enumerate(site_cells_of(task, space)):
            for cell in cells.tolist():
                self._goal_at[cell] = task.site_goals[site]
        self._last = position

    def touched(self, position: Point, bits: list[bool]) -> list[int]:
        """Return the goals whose bits flip on the way from the last position, in order."""
        start = self._last if self._last is not None else position
        self._last = position
        n_steps = max(1, math.ceil(2 * math.dist(start, position) / self.space.resolution))
        goals: list[int] = []
        bits = list(bits)
        before = self._cell(start)
        for point in np.linspace(start, position, n_steps + 1)[1:]:
            cell = self._cell((float(point[0]), float(point[1])))
            if cell is not None and cell != before and cell in self._goal_at:
                goal = self._goal_at[cell]
                if self._flips(goal, bits):
                    bits[goal] = not bits[goal]
                    goals.append(goal)
            before = cell
        return goals

    def _cell(self, position: Point) -> int | None:
        cell = self.space.grid_map.cell_of(*position)
        return None if cell is None else cell[0] * self.space.grid_map.cols + cell[1]

    def _flips(self, goal: int, bits: list[bool]) -> bool:
        if bits[goal] and goal not in self.task.reversible:
            return False
        return not any(rule.control == goal and rule.control_value == bits[goal]
                       and rule.condition_value == bits[rule.condition]
                       for rule in self.task.bit_constraints)
