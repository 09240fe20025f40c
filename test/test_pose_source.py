"""Where the position comes from: odometry, a localizer, TF; frames that differ from the map's."""

from importlib.util import find_spec
import itertools
import json
import math

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import OccupancyGrid
import numpy as np
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros_harness import ODOM_PERIOD, Planner, ros, spec, World
from std_msgs.msg import Header

from gk_planner.ros import conversions
from gk_planner_interfaces.msg import TaskStatus

S = TaskStatus
FLOOR = np.zeros((3, 10))
TASK = {'sites': [{'name': 'a', 'features': ['a'], 'position': [3.5, 0.5]}]}
FAST = {'status_period': 0.05, 'pose_timeout': 0.3}

# Stands for tf2_ros: knows the frames of a file and, as a Buffer does, never forgets one.
TF2_ROS = '''
import json, math, os
from geometry_msgs.msg import TransformStamped

class TransformException(Exception):
    pass

class TransformListener:
    def __init__(self, buffer, node):
        pass

class Buffer:
    def __init__(self):
        self.frames = {}

    def lookup_transform(self, target, source, time):
        with open(os.environ['FRAMES']) as file:
            self.frames.update(json.load(file))
        if target != 'map' or source not in self.frames:
            raise TransformException(source)
        found = TransformStamped()
        move, turn = found.transform.translation, found.transform.rotation
        found.header.stamp.sec, (move.x, move.y, yaw) = self.frames[source]
        turn.z, turn.w = math.sin(yaw / 2), math.cos(yaw / 2)
        return found
'''


@pytest.fixture
def bench(tmp_path):
    with ros(tmp_path) as bench:
        yield bench


def test_odometry_that_stops_is_stale_and_comes_back(bench):
    world = World(bench)
    process = bench.start('planner_node', parameters=FAST)
    planner = Planner(bench)
    planner.wait_ready(world.map(FLOOR))
    assert 'stale' not in process.log
    world.says_pose = False
    bench.wait_until(lambda: 'the position of the robot is stale' in process.log)
    bench.wait_until(lambda: planner.last['diagnostics'].message.endswith('is stale'))
    assert planner.last['diagnostics'].level == DiagnosticStatus.WARN
    world.says_pose = True
    bench.wait_until(lambda: 'the position of the robot is back' in process.log)
    bench.wait_until(lambda: planner.last['diagnostics'].level == DiagnosticStatus.OK)


@pytest.mark.parametrize('durability', [DurabilityPolicy.TRANSIENT_LOCAL,
                                        DurabilityPolicy.VOLATILE], ids=['latched', 'volatile'])
def test_a_localizer_that_speaks_once_is_enough(bench, durability):
    world = World(bench, odom=False)
    stamp = world.map(FLOOR)
    localizer = bench.node.create_publisher(PoseWithCovarianceStamped, 'amcl_pose', QoSProfile(
        depth=1, durability=durability))

    def localize(x):
        message = PoseWithCovarianceStamped(header=Header(frame_id='map'))
        message.pose.pose = conversions.pose((x, 0.5), 0.0)
        localizer.publish(message)

    if durability is DurabilityPolicy.TRANSIENT_LOCAL:
        localize(0.5)
    process = bench.start('planner_node', parameters={**FAST, 'pose_source': 'pose'})
    planner = Planner(bench)
    if durability is DurabilityPolicy.VOLATILE:
        bench.wait_until(lambda: planner.diagnostics.get('map_stamp') == stamp)
        localize(0.5)
    planner.wait_ready(stamp)
    planner.run(TASK)
    bench.wait_until(lambda: float(planner.diagnostics['pose_age_s']) > 2 * FAST['pose_timeout'])
    assert 'stale' not in process.log, 'a localizer is silent while the robot stands'
    localize(3.5)
    planner.wait_state(S.SUCCEEDED)


def test_a_pose_in_another_frame_is_refused(bench):
    if find_spec('tf2_ros'):
        pytest.skip('tf2_ros is installed')
    world = World(bench)
    world.frame = 'odom'
    process = bench.start('planner_node', parameters=FAST)
    planner = Planner(bench)
    planner.wait_map(world.map(FLOOR))
    words = "pose refused: it is in frame 'odom', the map in 'map'"
    bench.wait_until(lambda: words in process.log)
    assert planner.set_task(TASK).error_code == S.ERROR_NO_POSE
    assert 'poses are taken again' not in process.log
    world.frame = 'map'
    planner.wait_ready()
    planner.run(TASK)
    bench.wait_until(lambda: 'poses are taken again' in process.log)
    world.frame, world.pose = 'odom', (3.5, 0.5)
    planner.forget()
    bench.wait_until(lambda: len(planner.said('status')) > 4)
    assert planner.bits == {'a': False}
    assert process.log.count(words) == 1, 'said once, not with every message'
    assert process.log.count('poses are taken again') == 1


def test_not_a_number_is_no_pose(bench):
    world = World(bench, pose=(math.nan, 0.5))
    bench.start('planner_node', parameters=FAST)
    planner = Planner(bench)
    planner.wait_map(world.map(FLOOR))
    assert planner.set_task(TASK).error_code == S.ERROR_NO_POSE


def test_a_map_in_a_frame_of_its_own(bench):
    world = World(bench)
    world.frame = 'building'
    bench.start('planner_node', parameters=FAST)
    planner = Planner(bench)
    planner.wait_ready(world.map(FLOOR, frame='building'))
    message = spec(TASK)
    message.header.frame_id = 'building'
    assert planner.set_task(message).plan.header.frame_id == 'building'
    message.header.frame_id = 'map'
    answer = planner.set_task(message)
    assert answer.error_code == S.ERROR_FRAME and "'building'" in answer.message


def test_a_map_in_another_frame_makes_the_pose_unknown(bench):
    world = World(bench)
    process = bench.start('planner_node', parameters=FAST)
    planner = Planner(bench)
    planner.wait_ready(world.map(FLOOR))
    # A map that cannot be used changes nothing.
    world.send(OccupancyGrid(), frame='building')
    bench.wait_until(lambda: 'map ignored' in process.log)
    assert planner.set_task(spec(TASK), dry_run=True).success
    planner.wait_map(world.map(np.zeros((4, 10)), frame='building'))
    assert planner.set_task(TASK).error_code == S.ERROR_NO_POSE
    world.frame = 'building'
    planner.wait_ready()
    assert planner.set_task(TASK).plan.header.frame_id == 'building'


def test_tf_needs_tf2_ros(tmp_path):
    if find_spec('tf2_ros'):
        pytest.skip('tf2_ros is installed')
    bench = ros(tmp_path)
    with bench as running:
        process = running.start('planner_node', parameters={'pose_source': 'tf'})
        running.wait_until(lambda: process.status is not None)
        running.processes.clear()
    assert process.status == 2 and 'Traceback' not in process.log
    assert 'pose_source: tf needs the package tf2_ros, which is not installed' in process.log


class TestWithTf:
    @pytest.fixture
    def frames(self, tmp_path):
        package = tmp_path / 'stubs' / 'tf2_ros'
        package.mkdir(parents=True)
        (package / '__init__.py').write_text(TF2_ROS)
        file = tmp_path / 'frames.json'
        stamps = itertools.count(1)

        def put(*, is_static=False, **frames):
            # Replaced as a whole, because the node may be reading.
            fresh = tmp_path / 'fresh.json'
            stamp = 0 if is_static else next(stamps)
            fresh.write_text(json.dumps({name: (stamp, move) for name, move in frames.items()}))
            fresh.replace(file)
        put()
        put.environment = {'PYTHONPATH': str(package.parent), 'FRAMES': str(file)}
        return put

    def test_the_robot_is_where_tf_says(self, bench, frames):
        frames(base_link=(0.5, 0.5, 0.0))
        world = World(bench, odom=False)
        bench.start('planner_node', env=frames.environment,
                    parameters={**FAST, 'pose_source': 'tf'})
        planner = Planner(bench)
        planner.wait_ready(world.map(FLOOR))
        planner.run(TASK)
        frames(base_link=(3.5, 0.5, 0.0))
        planner.wait_state(S.SUCCEEDED)

    def test_tf_that_stops_is_stale_and_comes_back(self, bench, frames):
        world = World(bench, odom=False)
        speaker = bench.node.create_timer(ODOM_PERIOD,
                                          lambda: frames(base_link=(0.5, 0.5, 0.0)))
        process = bench.start('planner_node', env=frames.environment,
                              parameters={**FAST, 'pose_source': 'tf'})
        Planner(bench).wait_ready(world.map(FLOOR))
        speaker.cancel()
        bench.wait_until(lambda: 'the position of the robot is stale' in process.log)
        speaker.reset()
        bench.wait_until(lambda: 'the position of the robot is back' in process.log)

    def test_a_missing_transform_is_named_once(self, bench, frames):
        world = World(bench, odom=False)
        process = bench.start('planner_node', env=frames.environment,
                              parameters={**FAST, 'pose_source': 'tf'})
        planner = Planner(bench)
        planner.wait_map(world.map(FLOOR))
        planner.forget()
        bench.wait_until(lambda: len(planner.said('status')) > 4)
        frames(base_link=(0.5, 0.5, 0.0))
        planner.wait_ready()
        bench.wait_until(lambda: 'the transform map -> base_link is there' in process.log)
        assert process.log.count('waiting for the transform map -> base_link') == 1

    def test_a_robot_that_never_moves_is_never_stale(self, bench, frames):
        frames(is_static=True, base_link=(0.5, 0.5, 0.0))
        world = World(bench, odom=False)
        process = bench.start('planner_node', env=frames.environment,
                              parameters={**FAST, 'pose_source': 'tf'})
        planner = Planner(bench)
        planner.wait_ready(world.map(FLOOR))
        planner.forget()
        bench.wait_until(lambda: len(planner.said('status')) > 4 * FAST['pose_timeout']
                         / FAST['status_period'])
        assert 'stale' not in process.log

    def test_poses_tasks_and_moved_sites_are_transformed(self, bench, frames):
        # The frame "odom" lies at (9.5, 2.5) in the map and looks along -x.
        frames(odom=(9.5, 2.5, math.pi))
        world = World(bench, pose=(9.0, 2.0))
        world.frame = 'odom'
        bench.start('planner_node', env=frames.environment, parameters=FAST)
        planner = Planner(bench)
        planner.wait_ready(world.map(FLOOR))
        planner.wait_pose((0.5, 0.5))
        message = spec({'sites': [{'name': 'a', 'features': ['a'], 'position': [6.0, 2.0],
                                   'yaw': 0.0}]})
        message.header.frame_id = 'odom'
        pose = planner.run(message).plan.options[0].pose
        assert (pose.position.x, pose.position.y) == (3.5, 0.5)
        assert abs(conversions.yaw_of(pose.orientation)) == pytest.approx(math.pi)
        answer = planner.reground([{'name': 'a', 'features': ['a'], 'position': [2.0, 2.0]}],
                                  frame='odom')
        assert answer.plan.options[0].pose.position.x == 7.5
        message.header.frame_id = 'nowhere'
        assert planner.set_task(message).error_code == S.ERROR_FRAME
