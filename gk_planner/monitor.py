"""The monitor: a pure state machine that watches the robot carry out one option.

It is fed with positions and times and answers with events; it never reads a clock, plans or
moves anything. Arrival is judged by the option's own value (metres to go along its policy), so
nothing is reached through a wall: at most ``arrival_radius``, kept for ``dwell_time`` and lost
again only beyond ``arrival_radius + arrival_hysteresis``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
import math

import numpy as np

from gk_planner.config import setting, Settings

Point = tuple[float, float]
_ROUNDING = 1e-9  # [m]; 6 * 0.05 > 0.3


class Event(Enum):
    """What the monitor has seen."""

    ARRIVED = 'arrived'
    OFF_PATH = 'off_path'
    STALLED = 'stalled'
    POSE_STALE = 'pose_stale'
    POSE_BACK = 'pose_back'


@dataclass(frozen=True, kw_only=True)
class MonitorConfig(Settings):
    """When a goal counts as reached and when something is wrong."""

    arrival_radius: float = setting(
        0.3, 'a goal is reached this close, along the way to it', low=0.0, unit='m')
    arrival_hysteresis: float = setting(
        0.1, 'how much farther the robot may drift before the dwell time starts anew', low=0.0,
        unit='m')
    dwell_time: float = setting(0.0, 'how long the robot must stay at a goal', low=0.0, unit='s')
    path_tolerance: float = setting(
        0.5, 'farther than this from the path new waypoints are published; 0: never', low=0.0,
        unit='m')
    stall_timeout: float = setting(
        30.0, 'an option without progress for this long has failed; 0: never', low=0.0, unit='s')
    stall_distance: float = setting(
        0.1, 'metres to go must shrink by this much to count as progress', low=0.0, unit='m')
    pose_timeout: float = setting(
        2.0, 'a position older than this is stale; 0: never', low=0.0, unit='s')


class Monitor:
    """Watches one option at a time.

    Parameters
    ----------
    config : MonitorConfig
        Radii and times.

    """

    def __init__(self, config: MonitorConfig | None = None) -> None:
        self.config = config or MonitorConfig()
        self._metres_to_go: Callable[[Point], float] | None = None
        self._path = np.empty((0, 2))
        self._pose_time: float | None = None
        self.is_stale = False
        self._near_since: float | None = None
        self._best = math.inf
        self._best_time = 0.0

    @property
    def is_watching(self) -> bool:
        """Whether there is an option to watch."""
        return self._metres_to_go is not None

    def watch(self, now: float, metres_to_go: Callable[[Point], float],
              path: Sequence[Point]) -> None:
        """Start on an option; the clock for progress starts anew."""
        self._metres_to_go = metres_to_go
        self._near_since = None
        self._best, self._best_time = math.inf, now
        self.new_path(path)

    def new_path(self, path: Sequence[Point]) -> None:
        """Take another path to the same goal; dwelling and progress go on."""
        self._path = np.array(path, dtype=np.float64).reshape(-1, 2)

    def stop(self) -> None:
        """Watch nothing (paused, canceled, done)."""
        self._metres_to_go = None

    def pose(self, now: float, position: Point) -> list[Event]:
        """Take a position; returns what it shows, at most one of arrived, off path, stalled."""
        events = []
        self._pose_time = now
        if self.is_stale:
            self.is_stale = False
            events.append(Event.POSE_BACK)
        if self._metres_to_go is None:
            return events
        to_go = self._metres_to_go(position)
        if self._has_arrived(now, to_go):
            return [*events, Event.ARRIVED]
        if to_go < self._best - self.config.stall_distance or self._near_since is not None:
            self._best, self._best_time = min(to_go, self._best), now
        if 0 < self.config.stall_timeout <= now - self._best_time:
            return [*events, Event.STALLED]
        if 0 < self.config.path_tolerance < self._distance_to_path(position):
            return [*events, Event.OFF_PATH]
        return events

    def tick(self, now: float) -> list[Event]:
        """Let time pass without a position."""
        last = self._pose_time
        if (self.config.pose_timeout > 0 and last is not None and not self.is_stale
                and now - last > self.config.pose_timeout):
            self.is_stale = True
            return [Event.POSE_STALE]
        return []

    def _has_arrived(self, now: float, to_go: float) -> bool:
        radius = self.config.arrival_radius
        if self._near_since is not None:
            radius += self.config.arrival_hysteresis
        if to_go > radius + _ROUNDING:
            self._near_since = None
            return False
        if self._near_since is None:
            self._near_since = now
        return now - self._near_since >= self.config.dwell_time

    def _distance_to_path(self, position: Point) -> float:
        """Distance to the nearest point on the line through the path's points."""
        if not len(self._path):
            return 0.0
        start, step = self._path[:-1], np.diff(self._path, axis=0)
        away = self._path - position
        nearest = np.hypot(*away.T).min()
        if len(step):
            length = np.maximum((step ** 2).sum(axis=1), 1e-12)
            along = np.clip(-(away[:-1] * step).sum(axis=1) / length, 0.0, 1.0)
            foot = start + along[:, None] * step
            nearest = min(nearest, np.hypot(*(foot - position).T).min())
        return float(nearest)
