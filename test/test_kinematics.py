"""The kinematic robot: it stays on its path, within its limits, and stops at the end."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from gk_planner.errors import ConfigError
from gk_planner.kinematics import PathFollower, RobotConfig

STEP = 0.02
coordinates = st.floats(-5, 5).map(lambda value: round(value, 2))
paths = st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=6)


def drive(robot, limit=20_000):
    """Step until the path has ended; returns positions and speeds."""
    track = []
    while robot.is_driving and len(track) < limit:
        robot.step(STEP)
        track.append((robot.x, robot.y, robot.speed, robot.yaw))
    assert not robot.is_driving
    return track


def distance_to_path(point, path):
    return min(_distance(point, a, b)
               for a, b in zip(path, path[1:] or path, strict=False))


def _distance(point, a, b):
    length = math.dist(a, b)
    if length == 0:
        return math.dist(point, a)
    along = sum((p - q) * (r - q) for p, q, r in zip(point, a, b, strict=True)) / length ** 2
    along = min(1.0, max(0.0, along))
    return math.dist(point, [q + along * (r - q) for q, r in zip(a, b, strict=True)])


def test_a_straight_line_takes_as_long_as_it_should():
    robot = PathFollower(RobotConfig(speed=1.0, acceleration=1.0), 0.0, 0.0)
    robot.follow([(0.0, 0.0), (5.0, 0.0)])
    track = drive(robot)
    # 1 s to gain speed, 1 s to lose it, 0.5 m each; 4 m at full speed.
    assert len(track) * STEP == pytest.approx(6.0, abs=0.2)
    assert (robot.x, robot.y, robot.speed) == (5.0, 0.0, 0.0)


@settings(deadline=None, max_examples=40)
@given(path=paths, speed=st.sampled_from([0.3, 1.0, 30.0]))
def test_limits_and_path_are_kept(path, speed):
    config = RobotConfig(speed=speed, acceleration=2.0, turn_rate=3.0)
    robot = PathFollower(config, *path[0])
    robot.follow(path)
    rest = list(robot._path)
    before = (*path[0], 0.0, 0.0)
    for now in drive(robot):
        assert math.dist(before[:2], now[:2]) <= speed * STEP + 1.1e-3
        assert now[2] - before[2] <= 2.0 * STEP + 1e-9
        assert abs(math.remainder(now[3] - before[3], math.tau)) <= 3.0 * STEP + 1e-9
        assert distance_to_path(now[:2], [path[0], *rest]) < 1.1e-3
        before = now
    assert (robot.x, robot.y) == pytest.approx(path[-1], abs=1.1e-3)


def test_every_point_is_visited_even_in_a_hairpin():
    robot = PathFollower(RobotConfig(speed=30.0, acceleration=100.0, turn_rate=20.0), 0.0, 0.0)
    robot.follow([(0.0, 0.0), (2.0, 0.0), (0.5, 0.1)])
    assert max(x for x, *_ in drive(robot)) == 2.0


def test_it_turns_on_the_spot_before_it_drives_back():
    robot = PathFollower(RobotConfig(), 0.0, 0.0)
    robot.follow([(0.0, 0.0), (-1.0, 0.0)])
    robot.step(STEP)
    assert robot.x == 0.0 and robot.speed == 0.0 and abs(robot.yaw) > 0
    assert robot.turn_rate == pytest.approx(RobotConfig().turn_rate)


def test_an_empty_path_brakes():
    robot = PathFollower(RobotConfig(speed=1.0, acceleration=1.0), 0.0, 0.0)
    robot.follow([(0.0, 0.0), (9.0, 0.0)])
    for _ in range(100):
        robot.step(STEP)
    assert robot.speed == 1.0
    robot.follow([])
    robot.step(STEP)
    assert not robot.is_driving and 0 < robot.speed < 1.0
    for _ in range(100):
        robot.step(STEP)
    assert robot.speed == 0.0


def test_a_path_that_starts_behind_is_taken_from_here():
    robot = PathFollower(RobotConfig(), 2.1, 0.0)
    robot.follow([(float(x), 0.0) for x in range(20)])
    robot.step(STEP)
    assert robot.x >= 2.1 - 1e-9 or robot._path[0] == (2.0, 0.0)
    drive(robot)
    assert robot.x == 19.0


def test_a_path_that_comes_by_again_is_not_cut_short():
    path = [(float(x), 0.0) for x in range(10)] + [(float(x), 0.1) for x in range(9, -1, -1)]
    robot = PathFollower(RobotConfig(speed=5.0, acceleration=20.0), 0.0, 0.1)
    robot.follow(path)
    assert max(x for x, *_ in drive(robot)) == 9.0


@pytest.mark.parametrize('field', ['speed', 'acceleration', 'turn_rate'])
def test_bad_settings(field):
    with pytest.raises(ConfigError, match=field):
        RobotConfig(**{field: 0.0})
