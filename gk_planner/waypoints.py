"""From the rollout of the task policy to options with paths in metres."""

from collections.abc import Sequence
from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import NDArray

from gk_planner.base_space import BaseSpace
from gk_planner.errors import StartError
from gk_planner.option_legs import OptionLegs
from gk_planner.options import Option
from gk_planner.results import PlannedOption, Point
from gk_planner.task_solver import Stop


@dataclass(frozen=True, eq=False)
class OptionGuide:
    """The way to one goal from anywhere, by the policy of its option."""

    space: BaseSpace
    option: Option
    tolerance: float

    def metres_to_go(self, position: Point) -> float:
        """Return the metres along the policy from a position, inf where there is no way."""
        cell = self._cell(position)
        return math.inf if cell is None else float(self.option.metres(np.array([cell]))[0])

    def path_from(self, position: Point) -> tuple[Point, ...]:
        """Return the path from a position, empty where there is no way."""
        cell = self._cell(position)
        if cell is None or not self.option.is_feasible(cell):
            return ()
        return _points(self.space.centres(self.option.path(cell)))

    def _cell(self, position: Point) -> int | None:
        try:
            return self.space.start_cell(position, self.tolerance)
        except StartError:
            return None


def plan_options(way: Sequence[Stop], legs: OptionLegs, option_cost: float,
                 start_tolerance: float) -> tuple[PlannedOption, ...]:
    """Join each completion with the jumps over done sites before it into one option.

    Parameters
    ----------
    way : sequence of Stop
        Nodes of ``legs``; the last one flips a bit.
    legs : OptionLegs
        Where the cells of each jump come from.
    option_cost : float
        Metres that every completion costs.
    start_tolerance : float
        How far a robot in a blocked cell may be from a free one, in metres.

    """
    grounding = legs.grounding
    task, space = grounding.task, grounding.space
    options: list[PlannedOption] = []
    origin: int | None = None
    cells = [np.array([grounding.start_cell])]
    metres = 0.0
    bits = list(task.initial_bits)
    for node, flips in way:
        driven, length = legs.way(origin, node, flips)
        cells.append(driven[1:])
        metres += length
        origin = node
        if not flips:
            continue
        path = _points(space.centres(np.concatenate(cells)))
        goal = int(legs.node_goal[node])
        cell = int(legs.node_cell[node])
        bits[goal] = not bits[goal]
        options.append(PlannedOption(
            goal=task.goals[goal].name, site=task.sites[grounding.site_at(goal, cell)].name,
            cost=metres + option_cost, position=path[-1], path=path,
            task_state=dict(zip(task.goal_names, bits, strict=True)),
            guide=OptionGuide(space, legs.option_to(node), start_tolerance)))
        cells, metres = [np.array([cell])], 0.0
    return tuple(options)


def _points(centres: NDArray[np.float64]) -> tuple[Point, ...]:
    return tuple((x, y) for x, y in centres.tolist())
