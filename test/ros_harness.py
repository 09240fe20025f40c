"""Real nodes in processes of their own over real DDS, driven by a node of the test.

The test is the world: it publishes a latched map and a stream of odometry at ``pose``; nodes
started by it log into files. Nothing sleeps: :meth:`Ros.wait_until` spins until something is so.
"""

from collections import defaultdict
from contextlib import contextmanager
import fcntl
import os
from pathlib import Path
import signal
import subprocess
import sys
from tempfile import gettempdir
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')
pytest.importorskip('gk_planner_interfaces.msg', reason='gk_planner_interfaces is not built')

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.srv import ChangeState, GetState
from nav_msgs.msg import OccupancyGrid, Odometry
from nav_msgs.msg import Path as PathMsg
from rcl_interfaces.msg import Parameter as ParameterMsg
from rcl_interfaces.srv import SetParametersAtomically
import rclpy
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Header
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from gk_planner import Task
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.ros import conversions
from gk_planner_interfaces.action import ExecuteTask
from gk_planner_interfaces.msg import Plan, TaskSpec, TaskStatus
from gk_planner_interfaces.srv import CompleteGoal, Reground, SetTask

REPO = Path(__file__).resolve().parent.parent
LATCHED = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
TIMEOUT = 30.0
ODOM_PERIOD = 0.02



def _own_domain():
    """Find a domain that no other test process on this machine has; kept by a lock."""
    for offset in range(100):
        number = (os.getpid() + offset) % 100 + 1
        file = Path(gettempdir()) / f'gk_planner_test_domain_{number}'
        try:
            fcntl.flock(os.open(file, os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        return number
    raise RuntimeError('100 test processes run on this machine')


DOMAIN = _own_domain()
# Participants tell of themselves every 3 s and now and then miss the first time; here are many.
_PROFILE = """<?xml version="1.0" encoding="UTF-8"?>
<profiles xmlns="http://www.eprosima.com">
  <participant profile_name="test" is_default_profile="true"><rtps><builtin><discovery_config>
    <leaseAnnouncement><sec>0</sec><nanosec>100000000</nanosec></leaseAnnouncement>
  </discovery_config></builtin></rtps></participant>
</profiles>
"""


def environment(**extra):
    """Environment of a node: a domain of this test process, this machine only."""
    return {**os.environ, 'ROS_DOMAIN_ID': str(DOMAIN), 'PYTHONUNBUFFERED': '1',
            'PYTHONFAULTHANDLER': '1', **extra}


class Process:
    """A node in a process of its own."""

    def __init__(self, folder, name, arguments=(), *, namespace='', parameters=None, env=None):
        flags = [part for key, value in (parameters or {}).items()
                 for part in ('-p', f'{key}:={_yaml(value)}')]
        if namespace:
            flags += ['-r', f'__ns:={namespace}']
        self._file = Path(folder) / f'{name}{namespace.replace("/", "_")}.log'
        with open(self._file, 'w') as log:
            self._process = subprocess.Popen(
                [sys.executable, '-m', 'gk_planner.ros.start', name, *arguments, '--ros-args',
                 *flags], stdout=log, stderr=subprocess.STDOUT, cwd=REPO,
                env=environment(**(env or {})))

    @property
    def log(self):
        return self._file.read_text()

    @property
    def status(self):
        """Exit status, None while it runs."""
        return self._process.poll()

    def interrupt(self):
        self._process.send_signal(signal.SIGINT)

    def terminate(self):
        self._process.terminate()

    def stop(self):
        """End it as Ctrl-C does; it must end well."""
        if self.status is None:
            self.interrupt()
        try:
            status = self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            # With the fault handler this says where every thread was.
            self._process.send_signal(signal.SIGABRT)
            self._process.wait()
            status = 'aborted, SIGINT did not end it'
        print(f'--- {self._file.name}\n{self.log}')
        assert 'Traceback' not in self.log and 'internal error' not in self.log, self.log
        assert status == 0, f'{self._file.name}: exit status {status}\n{self.log}'


class Ros:
    """The node of the test, and the processes it has started."""

    def __init__(self, folder):
        profile = Path(folder) / 'discovery.xml'
        profile.write_text(_PROFILE)
        os.environ['FASTRTPS_DEFAULT_PROFILES_FILE'] = str(profile)
        os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
        self._folder = folder
        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=DOMAIN)
        self.node = Node('tester', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self.processes = []

    def start(self, name, arguments=(), **options):
        process = Process(self._folder, name, arguments, **options)
        self.processes.append(process)
        return process

    def wait_until(self, predicate, what='', timeout=TIMEOUT):
        """Spin until something is so; returns what the predicate returned."""
        deadline = time.monotonic() + timeout
        while not (found := predicate()):
            assert time.monotonic() < deadline, f'in vain: {what or predicate}'
            self._executor.spin_once(timeout_sec=0.05)
        return found

    def wait_for(self, future, timeout=TIMEOUT):
        self.wait_until(future.done, 'an answer', timeout)
        return future.result()

    def close(self):
        """End all processes and check that each ended well."""
        failures = []
        for process in self.processes:
            try:
                process.stop()
            except AssertionError as error:
                failures.append(str(error))
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)
        assert not failures, '\n'.join(failures)


@contextmanager
def ros(folder):
    bench = Ros(folder)
    try:
        yield bench
    finally:
        bench.close()


class World:
    """A map and a robot whose odometry never stops, published by the test."""

    def __init__(self, bench, namespace='', pose=(0.5, 0.5), *, odom=True):
        self.pose, self.yaw, self.frame = pose, 0.0, 'map'
        self.says_pose = odom
        self._ros = bench
        node = bench.node
        self._map_pub = node.create_publisher(
            OccupancyGrid, f'{namespace}/map' if namespace else 'map',
            QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        self._odom_pub = node.create_publisher(
            Odometry, f'{namespace}/odom' if namespace else 'odom', 5)
        self._timer = node.create_timer(ODOM_PERIOD, self._say_pose)
        self._stamps = 0
        self.data = None

    def map(self, data, *, resolution=1.0, frame='map'):
        """Publish a map; returns its stamp."""
        self.data = np.asarray(data, dtype=np.int8)
        message = conversions.map_to_msg(OccupancyMap(self.data, resolution), Header())
        return self.send(message, frame=frame)

    def send(self, message, *, frame='map'):
        self._stamps += 1
        message.header.frame_id = frame
        message.header.stamp.sec = self._stamps
        self._map_pub.publish(message)
        return f'{self._stamps}.000000000'

    def close(self):
        self._ros.node.destroy_timer(self._timer)
        self._ros.node.destroy_publisher(self._map_pub)
        self._ros.node.destroy_publisher(self._odom_pub)

    def _say_pose(self):
        if self.says_pose:
            message = Odometry(header=Header(frame_id=self.frame))
            message.pose.pose = conversions.pose(self.pose, self.yaw)
            self._odom_pub.publish(message)


class Planner:
    """One planner as others see it; every message it sends is kept in order."""

    def __init__(self, bench, namespace=''):
        self._ros = bench
        self.name = f'{namespace}/gk_planner' if namespace else 'gk_planner'
        self.events = []
        self.last = defaultdict(lambda: None)
        self._clients = {}
        node = bench.node
        for topic, kind in (('status', TaskStatus), ('plan', Plan), ('path', PathMsg),
                            ('waypoints', PathMsg), ('markers', MarkerArray)):
            node.create_subscription(kind, f'{self.name}/{topic}', self._keep(topic), LATCHED)
        goal_pose = f'{namespace}/goal_pose' if namespace else 'goal_pose'
        node.create_subscription(PoseStamped, goal_pose, self._keep('goal_pose'), 10)
        node.create_subscription(DiagnosticArray, '/diagnostics', self._diagnosed, 10)
        self._action = ActionClient(node, ExecuteTask, f'{self.name}/execute_task')

    # What it says.

    def _keep(self, topic):
        def keep(message):
            self.last[topic] = message
            self.events.append((topic, message))
        return keep

    def _diagnosed(self, message):
        for status in message.status:
            if status.name.strip('/') == self.name.strip('/'):
                self._keep('diagnostics')(status)

    def said(self, topic):
        """All messages of a topic since :meth:`forget`."""
        return [message for name, message in self.events if name == topic]

    def forget(self):
        self.events.clear()

    @property
    def status(self):
        return self.last['status'] or TaskStatus()

    @property
    def diagnostics(self):
        status = self.last['diagnostics']
        return {} if status is None else {pair.key: pair.value for pair in status.values}

    @property
    def bits(self):
        return dict(zip(self.status.goals, self.status.bits, strict=True))

    @property
    def goal_states(self):
        return dict(zip(self.status.goals, self.status.goal_states, strict=True))

    @property
    def path(self):
        path = self.last['path']
        return [] if path is None else [(place.pose.position.x, place.pose.position.y)
                                        for place in path.poses]

    def wait_state(self, state, task_id=''):
        """Wait for a state of the task; returns the status."""
        return self._ros.wait_until(
            lambda: self.status.state == state and task_id in ('', self.status.task_id)
            and self.status, f'state {state}')

    def wait_bits(self, **bits):
        self._ros.wait_until(lambda: self.bits == bits, f'bits {bits}, last {self.bits}')

    def wait_active(self):
        self._ros.wait_until(lambda: self.diagnostics.get('active') == 'True', 'an active planner')

    def wait_ready(self, stamp=None):
        """Wait until it is active, uses a map and knows the pose."""
        self._ros.wait_until(lambda: self.diagnostics.get('active') == 'True'
                             and self.diagnostics['pose_age_s'] != 'none'
                             and self.diagnostics['map_stamp'] != 'none', 'a ready planner')
        if stamp is not None:
            self.wait_map(stamp)

    def wait_map(self, stamp):
        self._ros.wait_until(lambda: self.diagnostics.get('map_stamp') == stamp, 'the map')

    def wait_pose(self, position):
        self._ros.wait_until(lambda: self.diagnostics.get('position')
                             == '{:.2f} {:.2f}'.format(*position), f'a robot at {position}')

    # What it is asked for.

    def request(self, kind, service, request=None):
        """Send a request; returns the future of its answer."""
        client = self._clients.get(service)
        if client is None:
            client = self._clients[service] = self._ros.node.create_client(
                kind, f'{self.name}/{service}')
        self._ros.wait_until(client.service_is_ready, f'{service} of {self.name}')
        return client.call_async(request if request is not None else kind.Request())

    def call(self, kind, service, request=None):
        return self._ros.wait_for(self.request(kind, service, request))

    def set_task_async(self, task, **fields):
        return self.request(SetTask, 'set_task', SetTask.Request(task=spec(task), **fields))

    def set_task(self, task, **fields):
        return self._ros.wait_for(self.set_task_async(task, **fields))

    def run(self, task):
        """Start a task and wait until it is under way."""
        answer = self.set_task(task)
        assert answer.success, answer.message
        self.wait_state(TaskStatus.EXECUTING, answer.task_id)
        return answer

    def execute(self, task):
        """Send a goal of the action; returns its :class:`Goal` once it is accepted."""
        goal = Goal(self._ros)
        self._ros.wait_until(self._action.server_is_ready, 'the action')
        goal.handle = self._ros.wait_for(self._action.send_goal_async(
            ExecuteTask.Goal(task=spec(task)),
            feedback_callback=lambda message: goal.feedback.append(message.feedback.status)))
        assert goal.handle.accepted
        goal.future = goal.handle.get_result_async()
        return goal

    def trigger(self, service):
        return self.call(Trigger, service)

    def reground(self, sites=(), removed=(), task_id='', frame=''):
        return self._ros.wait_for(self.reground_async(sites, removed, task_id, frame))

    def reground_async(self, sites=(), removed=(), task_id='', frame=''):
        return self.request(Reground, 'reground', Reground.Request(
            header=Header(frame_id=frame), task_id=task_id, removed=list(removed),
            sites=[conversions.site_from_fields(site) for site in sites]))

    def complete(self, goal, done=True, task_id=''):
        return self.call(CompleteGoal, 'complete_goal', CompleteGoal.Request(
            task_id=task_id, goal=goal, done=done))

    def set_parameters(self, **values):
        """Set parameters all or none; returns the result."""
        request = SetParametersAtomically.Request(parameters=[
            ParameterMsg(name=name, value=Parameter(name, value=value).get_parameter_value())
            for name, value in values.items()])
        return self.call(SetParametersAtomically, 'set_parameters_atomically', request).result

    def change_state(self, label):
        request = ChangeState.Request()
        request.transition.label = label
        return self.call(ChangeState, 'change_state', request).success

    @property
    def lifecycle(self):
        return self.call(GetState, 'get_state').current_state.label


class Goal:
    """A goal of the action."""

    def __init__(self, bench):
        self._ros = bench
        self.handle = self.future = None
        self.feedback = []

    def result(self):
        """Wait for the end; returns the status of the goal and its result."""
        answer = self._ros.wait_for(self.future)
        return answer.status, answer.result

    def cancel(self):
        return self._ros.wait_for(self.handle.cancel_goal_async())


def spec(task):
    """Return the message of a task given as one, or as the mapping of a task file."""
    return task if isinstance(task, TaskSpec) else conversions.task_to_spec(
        Task.from_dict(task), Header())


def _yaml(value):
    return str(value).lower() if isinstance(value, bool) else str(value) or "''"
