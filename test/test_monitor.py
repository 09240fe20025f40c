"""The monitor is a pure state machine: every case is a list of (time, position) and events."""

import math

import pytest

from gk_planner.errors import ConfigError
from gk_planner.monitor import Event, Monitor, MonitorConfig

PATH = [(x / 10, 0.0) for x in range(51)]


def corridor(position):
    """Metres to go to (5, 0) along the x axis; a wall at x > 5 makes the other side far."""
    x, y = position
    return abs(5.0 - x) + abs(y) if x <= 5.0 else 100.0


def watching(**settings):
    monitor = Monitor(MonitorConfig(**settings))
    monitor.watch(0.0, corridor, PATH)
    return monitor


def test_arrives_within_the_radius_of_the_options_own_value():
    monitor = watching(arrival_radius=0.3)
    assert monitor.pose(1.0, (4.6, 0.0)) == []
    assert monitor.pose(2.0, (4.7, 0.0)) == [Event.ARRIVED]


@pytest.mark.parametrize('settings', [
    {'arrival_radius': 0.3}, {'arrival_radius': 0.15, 'arrival_hysteresis': 0.15}])
def test_rounding_takes_no_arrival_away(settings):
    steps = 6 * 0.05
    assert steps > sum(settings.values())
    monitor = Monitor(MonitorConfig(**{'arrival_hysteresis': 0.0, **settings}, dwell_time=1.0))
    monitor.watch(0.0, lambda position: position[0], PATH)
    monitor.pose(1.0, (0.1, 0.0))
    monitor.pose(1.5, (steps, 0.0))
    assert monitor.pose(2.0, (0.1, 0.0)) == [Event.ARRIVED]


def test_nothing_is_reached_through_a_wall():
    assert watching().pose(1.0, (5.1, 0.0)) == []


def test_dwell_time_must_pass_without_leaving():
    monitor = watching(arrival_radius=0.3, arrival_hysteresis=0.1, dwell_time=2.0)
    assert monitor.pose(10.0, (4.75, 0.0)) == []
    assert monitor.pose(11.0, (4.65, 0.0)) == []       # within the hysteresis: still there
    assert monitor.pose(11.9, (4.75, 0.0)) == []
    assert monitor.pose(12.0, (4.65, 0.0)) == [Event.ARRIVED]


def test_dwell_time_starts_anew_beyond_the_hysteresis():
    monitor = watching(arrival_radius=0.3, arrival_hysteresis=0.1, dwell_time=2.0)
    monitor.pose(10.0, (4.75, 0.0))
    assert monitor.pose(11.0, (4.5, 0.0)) == []
    assert monitor.pose(12.5, (4.75, 0.0)) == []
    assert monitor.pose(14.4, (4.75, 0.0)) == []
    assert monitor.pose(14.5, (4.75, 0.0)) == [Event.ARRIVED]


def test_dwelling_is_not_stalling():
    monitor = watching(dwell_time=100.0, stall_timeout=5.0)
    for second in range(90):
        assert monitor.pose(float(second), (4.9, 0.0)) == []


def test_stalls_without_progress():
    monitor = watching(stall_timeout=5.0, stall_distance=0.1)
    assert monitor.pose(0.0, (1.0, 0.0)) == []
    assert monitor.pose(4.9, (1.05, 0.0)) == []
    assert monitor.pose(5.1, (1.05, 0.0)) == [Event.STALLED]


def test_slow_progress_is_no_stall():
    monitor = watching(stall_timeout=5.0, stall_distance=0.1)
    for step in range(20):
        assert monitor.pose(4.0 * step, (1.0 + 0.15 * step, 0.0)) == []


def test_driving_back_and_forth_is_a_stall():
    monitor = watching(stall_timeout=5.0)
    events = [monitor.pose(float(t), (2.0 + (t % 2), 0.0)) for t in range(8)]
    assert events[-1] == [Event.STALLED]


def test_stall_detection_can_be_switched_off():
    monitor = watching(stall_timeout=0.0)
    monitor.pose(0.0, (1.0, 0.0))
    assert monitor.pose(1e6, (1.0, 0.0)) == []


def test_a_new_option_gets_its_own_time():
    monitor = watching(stall_timeout=5.0)
    monitor.pose(0.0, (1.0, 0.0))
    monitor.watch(4.0, corridor, PATH)
    assert monitor.pose(8.0, (1.0, 0.0)) == []
    assert monitor.pose(14.0, (1.0, 0.0)) == [Event.STALLED]


def test_leaving_the_path():
    monitor = watching(path_tolerance=0.5)
    assert monitor.pose(1.0, (2.0, 0.49)) == []
    assert monitor.pose(2.0, (2.0, 0.51)) == [Event.OFF_PATH]
    monitor.new_path([(2.0, 0.5), (5.0, 0.0)])
    assert monitor.pose(3.0, (2.0, 0.51)) == []


def test_between_two_far_points_of_the_path_the_robot_is_on_it():
    monitor = watching(path_tolerance=0.5)
    monitor.new_path([(0.0, 0.0), (5.0, 0.0)])
    assert monitor.pose(1.0, (2.5, 0.4)) == []
    assert monitor.pose(2.0, (2.5, 0.6)) == [Event.OFF_PATH]


def test_stale_pose_is_reported_once_and_comes_back():
    monitor = watching(pose_timeout=2.0)
    assert monitor.tick(100.0) == []                    # no position yet: nothing to be stale
    monitor.pose(100.0, (1.0, 0.0))
    assert monitor.tick(102.0) == []
    assert monitor.tick(102.1) == [Event.POSE_STALE]
    assert monitor.tick(103.0) == []
    assert monitor.pose(104.0, (1.2, 0.0)) == [Event.POSE_BACK]
    assert monitor.tick(105.0) == []


def test_watches_nothing_when_stopped():
    monitor = watching()
    monitor.stop()
    assert not monitor.is_watching
    assert monitor.pose(1.0, (5.0, 0.0)) == []


def test_an_unreachable_place_is_neither_arrival_nor_progress():
    monitor = Monitor(MonitorConfig(stall_timeout=5.0, path_tolerance=0.0))
    monitor.watch(0.0, lambda position: math.inf, PATH)
    assert monitor.pose(1.0, (0.0, 0.0)) == []
    assert monitor.pose(6.0, (0.0, 0.0)) == [Event.STALLED]


@pytest.mark.parametrize('settings', [{'arrival_radius': -0.1}, {'dwell_time': math.nan},
                                      {'stall_timeout': 'soon'}])
def test_bad_settings_name_the_field(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        MonitorConfig(**settings)
