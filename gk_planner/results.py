"""Plain results: what a plan is, for the API, the command line and the node alike."""

from dataclasses import dataclass, field
from typing import Any, Protocol

Point = tuple[float, float]


class Guide(Protocol):
    """The way to one goal from anywhere: what the option's policy knows beyond its path."""

    def metres_to_go(self, position: Point) -> float:
        """Return the metres along the policy from a position, inf where there is no way."""

    def path_from(self, position: Point) -> tuple[Point, ...]:
        """Return the path from a position, empty where there is no way."""


@dataclass(frozen=True)
class PlannedOption:
    """One option of a plan: drive along ``path`` and complete ``goal`` at ``site``.

    Attributes
    ----------
    goal, site : str
        What is completed, and where.
    cost : float
        Metres along the path (times weights) plus ``option_cost``.
    position : tuple of float
        Centre of the cell where the goal is completed.
    path : tuple of points
        Cell centres from where the option before ended to ``position``.
    task_state : dict
        Value of every goal after the option.
    guide : Guide or None
        The option itself, for a robot that leaves the path.

    """

    goal: str
    site: str
    cost: float
    position: Point
    path: tuple[Point, ...]
    task_state: dict[str, bool]
    guide: Guide | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of one option."""
        return {'goal': self.goal, 'site': self.site, 'cost': self.cost,
                'position': list(self.position), 'path': [list(point) for point in self.path],
                'task_state': dict(self.task_state)}


@dataclass(frozen=True)
class Plan:
    """A sequence of options after which the formula holds.

    Attributes
    ----------
    options : tuple of PlannedOption
        Empty if the formula holds at the start.
    cost : float
        Sum of the options' costs, in metres.
    optimal : bool
        Whether no plan is cheaper.
    bound : float
        No plan costs less than this.
    warnings : tuple of str
        Sites that were moved, constraints without effect.
    timing_ms : dict
        Milliseconds for the base space, the options and the task layer.
    value : float or None
        At temperature > 0: -log z of the entry.

    """

    options: tuple[PlannedOption, ...]
    cost: float
    optimal: bool
    bound: float
    warnings: tuple[str, ...] = ()
    timing_ms: dict[str, float] = field(default_factory=dict, compare=False)
    value: float | None = None

    @property
    def gap(self) -> float:
        """How much of the cost a better plan could save at most, from 0 to 1."""
        return 1 - self.bound / self.cost if self.cost > self.bound else 0.0

    @property
    def waypoints(self) -> tuple[Point, ...]:
        """One point per option: where its goal is completed."""
        return tuple(option.position for option in self.options)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of a solved task."""
        plan: dict[str, Any] = {
            'status': 'solved', 'cost': self.cost, 'optimal': self.optimal, 'bound': self.bound,
            'warnings': list(self.warnings),
            'options': [option.to_dict() for option in self.options],
            'waypoints': [list(point) for point in self.waypoints],
            'timing_ms': dict(self.timing_ms)}
        if self.value is not None:
            plan['value'] = self.value
        elif not self.optimal:
            plan['gap'] = self.gap
        return plan
