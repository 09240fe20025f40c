"""The simulated world and the planner together: two processes, one loop."""

import math

from geometry_msgs.msg import Point
from nav_msgs.msg import OccupancyGrid, Odometry
import numpy as np
from PIL import Image
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros_harness import Planner, ros
from rosgraph_msgs.msg import Clock
import yaml

from gk_planner.ros import conversions
from gk_planner_interfaces.msg import TaskStatus
from gk_planner_interfaces.srv import BlockRegion, Reground

S = TaskStatus
NEAR = 0.3 + 0.125 * math.sqrt(2)  # the cell counts, not the place in it
RUN = {'speed': 20.0, 'acceleration': 100.0, 'turn_rate': 50.0, 'rate': 50.0}


@pytest.fixture
def bench(tmp_path):
    with ros(tmp_path) as bench:
        yield bench


@pytest.fixture
def floor(tmp_path):
    """An empty floor of 10 m x 3 m, in cells of 0.25 m."""
    Image.fromarray(np.full((12, 40), 254, dtype=np.uint8)).save(tmp_path / 'floor.pgm')
    (tmp_path / 'floor.yaml').write_text(yaml.safe_dump({
        'image': 'floor.pgm', 'resolution': 0.25, 'origin': [0.0, 0.0, 0.0], 'negate': 0,
        'occupied_thresh': 0.65, 'free_thresh': 0.25}))
    return tmp_path / 'floor.yaml'


class Sim:
    """The simulated world as others see it."""

    def __init__(self, bench, floor, **parameters):
        self.process = bench.start('sim_node', parameters={
            'map': floor, 'x': 0.625, 'y': 0.625, **RUN, **parameters})
        self.track, self.maps, self.clock = [], [], []
        self._ros = bench
        node = bench.node
        node.create_subscription(Odometry, 'odom', self._odom, 1000)
        node.create_subscription(OccupancyGrid, 'map', self.maps.append, QoSProfile(
            depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        node.create_subscription(Clock, '/clock', self.clock.append, 10)
        self._mover = node.create_client(Reground, 'gk_sim/move_object')
        self._blocker = node.create_client(BlockRegion, 'gk_sim/block_region')

    def _odom(self, message):
        assert message.header.frame_id == 'map' and message.child_frame_id == 'base_link'
        self.track.append((message.pose.pose.position.x, message.pose.pose.position.y))

    def wait_at(self, place):
        """Wait until the robot is where it arrives; odometry may come after the result."""
        self._ros.wait_until(lambda: math.dist(self.track[-1], place) < NEAR,
                             f'a robot at {place}')

    def move(self, **site):
        self._ros.wait_until(self._mover.service_is_ready)
        return self._ros.wait_for(self._mover.call_async(Reground.Request(
            sites=[conversions.site_from_fields(site)])))

    def block(self, corners, blocked=True):
        self._ros.wait_until(self._blocker.service_is_ready)
        return self._ros.wait_for(self._blocker.call_async(BlockRegion.Request(
            region=[Point(x=float(x), y=float(y)) for x, y in corners], blocked=blocked)))


def together(bench, floor, sim=None, planner=None):
    world = Sim(bench, floor, **(sim or {}))
    bench.start('planner_node', parameters={'status_period': 0.05, **(planner or {})})
    other = Planner(bench)
    other.wait_ready()
    # That the planner hears the world does not mean that this process does.
    bench.wait_until(lambda: world.track and world.maps, 'map and odometry')
    return world, other


def task(**places):
    return {'sites': [{'name': name, 'features': [name], 'position': list(place)}
                      for name, place in places.items()]}


def test_the_whole_loop(bench, floor):
    sim, planner = together(bench, floor)
    goal = planner.execute({**task(a=(9.125, 0.625), b=(5.125, 2.625)),
                            'constraints': ['a before b']})
    _, result = goal.result()
    assert result.success, result.message
    assert result.cost == pytest.approx(8.5 + 2 + 2 * math.sqrt(2))
    assert max(x for x, _ in sim.track) > 9.125 - NEAR, 'it went to a before b'
    sim.wait_at((5.125, 2.625))
    grid = sim.maps[0]
    assert (grid.info.width, grid.info.height, grid.header.frame_id) == (40, 12, 'map')


def test_a_moved_object_is_found_where_it_is(bench, floor):
    sim, planner = together(bench, floor, {'speed': 2.0})
    goal = planner.execute(task(a=(9.125, 0.625)))
    bench.wait_until(lambda: sim.track[-1][0] > 2.0, 'half-way')
    answer = sim.move(name='a', features=['a'], position=[2.125, 2.625])
    assert answer.success and answer.plan_changed
    assert goal.result()[1].success
    sim.wait_at((2.125, 2.625))
    assert max(x for x, _ in sim.track) < 8.0
    bad = sim.move(name='z', features=['z'], position=[1.0, 1.0])
    assert not bad.success and bad.message


def test_a_door_that_closes_and_opens(bench, floor):
    sim, planner = together(bench, floor, {'speed': 2.0})
    goal = planner.execute(task(a=(9.125, 0.625)))
    planner.wait_state(S.EXECUTING)
    door = [(5, 0), (5.25, 0), (5.25, 3), (5, 3)]
    assert sim.block(door).success
    planner.wait_state(S.INFEASIBLE)
    bench.wait_until(lambda: np.array(sim.maps[-1].data).any(), 'the closed door')
    assert np.array(sim.maps[-1].data).reshape(12, 40)[:, 20].tolist() == [100] * 12
    assert sim.block(door, blocked=False).success
    assert goal.result()[1].success
    bench.wait_until(lambda: not np.array(sim.maps[-1].data).any(), 'the open door')
    refused = sim.block(door[:2])
    assert not refused.success and 'region' in refused.message


def test_pause_stops_the_robot(bench, floor):
    sim, planner = together(bench, floor, {'speed': 2.0})
    planner.run(task(a=(9.125, 0.625)))
    bench.wait_until(lambda: sim.track[-1][0] > 2.0)
    planner.trigger('pause')
    bench.wait_until(lambda: len(sim.track) > 10 and len(set(sim.track[-10:])) == 1)
    assert sim.track[-1][0] < 9.0
    planner.trigger('resume')
    planner.wait_state(S.SUCCEEDED)


def test_contact(bench, floor):
    """Touching completes; what must not be touched yet is driven around."""
    sim, planner = together(bench, floor)
    places = task(key=(8.125, 0.625), mail=(4.125, 0.625))
    goal = planner.execute({**places, 'constraints': ['key before mail'], 'trigger': 'contact'})
    assert goal.result()[1].success
    seen = [tuple(status.bits) for status in goal.feedback]
    assert sorted(set(seen), key=seen.index) == [(False, False), (True, False), (True, True)]
    cells = [(int(x / 0.25), int(y / 0.25)) for x, y in sim.track]
    before = cells[:cells.index((32, 2))] if (32, 2) in cells else cells
    assert (16, 2) not in before, 'mail was not touched before key'


def test_no_clock_is_offered_unasked(bench, floor):
    sim = Sim(bench, floor)
    bench.wait_until(lambda: sim.track and sim.maps, 'map and odometry')
    assert bench.node.count_publishers('/odom') == 1
    assert bench.node.count_publishers('/clock') == 0


def test_time_runs_faster(bench, floor):
    """With its /clock 20 times as fast, dwelling lasts 30 s of that clock."""
    sim, planner = together(
        bench, floor, {'publish_clock': True, 'clock_speed': 20.0, 'use_sim_time': True,
                       'speed': 1.0, 'acceleration': 5.0, 'turn_rate': 5.0},
        {'use_sim_time': True, 'dwell_time': 30.0, 'status_period': 1.0})
    goal = planner.execute(task(a=(4.125, 0.625)))
    began = planner.wait_state(S.EXECUTING).header.stamp
    assert goal.result()[1].success
    ended = planner.wait_state(S.SUCCEEDED).header.stamp
    assert ended.sec - began.sec >= 30 + 3
    bench.wait_until(lambda: sim.clock[-1].clock.sec >= ended.sec, 'the clock of the last status')
    stamps = [clock.clock.sec + clock.clock.nanosec * 1e-9 for clock in sim.clock]
    assert np.diff(stamps).min() > 0


def test_tf_has_the_pose_of_the_odometry(bench, floor):
    messages = pytest.importorskip('tf2_msgs.msg', reason='the package tf2_msgs is not installed')
    found = []
    bench.node.create_subscription(messages.TFMessage, '/tf', found.append, 10)
    Sim(bench, floor)
    bench.wait_until(lambda: found, 'a transform')
    known, = found[0].transforms
    assert (known.header.frame_id, known.child_frame_id) == ('map', 'base_link')
    assert (known.transform.translation.x, known.transform.translation.y) == (0.625, 0.625)


@pytest.fixture
def walls(floor):
    cells = np.full((12, 40), 254, dtype=np.uint8)
    cells[:, 0] = 0
    Image.fromarray(cells).save(floor.with_suffix('.pgm'))


@pytest.mark.parametrize(('start', 'radius', 'place'), [
    ((0.6, 0.6), 0.2, (0.6, 0.6)), ((0.125, 0.625), 0.2, (0.375, 0.625)),
    ((-1.0, 0.0), 0.2, (0.375, 0.125)), ((-1.0, 0.0), 0.3, (0.625, 0.125))])
def test_the_robot_starts_where_it_has_room(bench, floor, walls, start, radius, place):
    sim = Sim(bench, floor, x=start[0], y=start[1], start_clearance=radius)
    bench.wait_until(lambda: sim.track, 'odometry')
    assert sim.track[0] == pytest.approx(place) and 'not free' not in sim.process.log


def test_the_start_of_a_task_is_kept_and_told_if_it_is_not_free(bench, floor, walls, tmp_path):
    errand = tmp_path / 'errand.yaml'
    errand.write_text('{sites: [{name: a, features: [a], position: [1, 1]}], start: [0.125, 1]}')
    sim = Sim(bench, floor, task=str(errand))
    bench.wait_until(lambda: sim.track, 'odometry')
    assert sim.track[0] == pytest.approx((0.125, 1))
    bench.wait_until(lambda: 'the start of the task, (0.125, 1), is not free' in sim.process.log)


@pytest.mark.parametrize(('parameters', 'words'), [
    ({}, 'map: name the map file to serve'), ({'map': '/nowhere.yaml'}, '/nowhere.yaml'),
    ({'rate': 'fast'}, 'rate: expected a float'),
])
def test_what_it_cannot_serve(bench, parameters, words):
    process = bench.start('sim_node', parameters=parameters)
    bench.wait_until(lambda: process.status is not None)
    bench.processes.remove(process)
    assert process.status == 2
    assert process.log.startswith('error: ') and words in process.log, process.log
    assert len(process.log.splitlines()) == 1
