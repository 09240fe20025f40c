"""A kinematic robot that follows a path: speed, acceleration and turn rate, no physics."""

from collections.abc import Sequence
from dataclasses import dataclass
import math

from gk_planner.config import setting, Settings
from gk_planner.results import Point

_SHARP = 1.0     # [rad] the robot turns on the spot from here on
_REACHED = 1e-3  # [m]


@dataclass(frozen=True, kw_only=True)
class RobotConfig(Settings):
    """What the simulated robot can do."""

    speed: float = setting(0.6, 'largest speed', low=0.01, unit='m/s')
    acceleration: float = setting(1.0, 'largest change of speed', low=0.01, unit='m/s^2')
    turn_rate: float = setting(2.5, 'largest rate of turning', low=0.01, unit='rad/s')


class PathFollower:
    """Drives along a path and stops at its end.

    The robot heads for the next point of the path; it slows down for turns and brakes before the
    end.
    """

    def __init__(self, config: RobotConfig, x: float, y: float, yaw: float = 0.0) -> None:
        self.config = config
        self.x, self.y, self.yaw = x, y, yaw
        self.speed = 0.0
        self.turn_rate = 0.0
        self._path: list[Point] = []

    @property
    def is_driving(self) -> bool:
        """Whether there is a path left."""
        return bool(self._path)

    def follow(self, path: Sequence[Point]) -> None:
        """Take another path, from its point nearest to the robot on; an empty one stops."""
        self._path = list(path)
        here = (self.x, self.y)
        # Only the beginning counts: a path may come by here again later.
        near = self._path[:max(2, len(self._path) // 4)]
        if near:
            nearest = min(range(len(near)), key=lambda index: math.dist(near[index], here))
            self._path = self._path[nearest:]

    def step(self, seconds: float) -> None:
        """Let time pass."""
        config = self.config
        self._advance(0.0)
        if not self._path:
            self.speed = max(0.0, self.speed - config.acceleration * seconds)
            self.turn_rate = 0.0
            return
        error = self._heading_error()
        turn = max(-config.turn_rate * seconds, min(config.turn_rate * seconds, error))
        self.yaw = math.remainder(self.yaw + turn, math.tau)
        self.turn_rate = turn / seconds
        wanted = config.speed * math.cos(error) if abs(error) < _SHARP else 0.0
        if len(self._path) == 1:
            distance = math.dist(self._path[0], (self.x, self.y))
            wanted = min(wanted, math.sqrt(2 * config.acceleration * distance))
        change = config.acceleration * seconds
        self.speed = max(self.speed - change, min(self.speed + change, wanted))
        self._advance(self.speed * seconds)

    def _advance(self, metres: float) -> None:
        """Move along the path, through every point of it, as far as no sharp turn comes."""
        while self._path:
            target = self._path[0]
            distance = math.dist(target, (self.x, self.y))
            if distance > metres + _REACHED:
                # Along the way and not along the heading: the robot stays on its path.
                self.x += metres * (target[0] - self.x) / distance
                self.y += metres * (target[1] - self.y) / distance
                return
            metres = max(0.0, metres - distance)
            self.x, self.y = self._path.pop(0)
            if abs(self._heading_error()) >= _SHARP:
                metres = 0.0
            if not self._path:
                self.speed = 0.0

    def _heading_error(self) -> float:
        """Angle from the heading of the robot to the next point, 0 if it is there."""
        if not self._path:
            return 0.0
        away = (self._path[0][0] - self.x, self._path[0][1] - self.y)
        if math.hypot(*away) < _REACHED:
            return 0.0
        return math.remainder(math.atan2(away[1], away[0]) - self.yaw, math.tau)
