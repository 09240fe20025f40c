"""How soon the node is there, and answers ``~/cancel`` while it plans on a million cells."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import signal
import statistics
import subprocess
import sys
import time

from geometry_msgs.msg import Point
from nav_msgs.msg import OccupancyGrid, Odometry
import numpy as np
import rclpy
from rclpy.client import Client
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_srvs.srv import Trigger

from gk_planner.occupancy_map import OccupancyMap
from gk_planner.ros.conversions import header, map_to_msg
from gk_planner_interfaces.msg import Site, TaskSpec, TaskStatus
from gk_planner_interfaces.srv import SetTask

SIDE = 1000
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def measure(repeats: int = 5) -> tuple[float, float, float, float]:
    """Return medians in ms: start until the first answer, a plan, cancel answered and done.

    The median also of the start: DDS says every 3 s who is there, and a lost word of it costs as
    much.
    """
    rclpy.init()
    node = Node('node_latency')
    try:
        starts = []
        for _ in range(repeats):
            with _planner(node) as (_, ready):
                starts.append(ready)
        with _planner(node) as (set_task, _):
            return (statistics.median(starts), *_latencies(node, set_task, repeats))
    finally:
        rclpy.try_shutdown()


@contextmanager
def _planner(node: Node) -> Iterator[tuple[Client, float]]:
    """Run a planner; yields a client of it and how long it took to answer that."""
    began = time.perf_counter()
    planner = subprocess.Popen([sys.executable, '-m', 'gk_planner.ros.start', 'planner_node',
                                '--ros-args', '--log-level', 'error'])
    set_task = node.create_client(SetTask, 'gk_planner/set_task')
    try:
        _wait(node, set_task.service_is_ready)
        # There is no map yet: it says so, or waits for one; either way it is there.
        _wait(node, set_task.call_async(SetTask.Request(dry_run=True)).done)
        yield set_task, (time.perf_counter() - began) * 1e3
    finally:
        node.destroy_client(set_task)
        planner.send_signal(signal.SIGINT)
        planner.wait(timeout=30)


def _wait(node: Node, ready: Callable[[], bool]) -> float:
    began = time.perf_counter()
    while not ready():
        rclpy.spin_once(node, timeout_sec=0.01)
        if time.perf_counter() - began > 120:
            raise TimeoutError('the node does not answer')
    return (time.perf_counter() - began) * 1e3


def _latencies(node: Node, set_task: Client, repeats: int) -> Iterator[float]:
    cancel = node.create_client(Trigger, 'gk_planner/cancel')
    states: list[int] = []
    node.create_subscription(TaskStatus, 'gk_planner/status',
                             lambda status: states.append(status.state), LATCHED)
    maps = node.create_publisher(OccupancyGrid, 'map', LATCHED)
    odometry = node.create_publisher(Odometry, 'odom', 10)
    rng = np.random.default_rng(1)
    _wait(node, cancel.service_is_ready)

    def world() -> None:
        """Another map each time, so that no option is known yet; and where the robot is."""
        data = np.where(rng.random((SIDE, SIDE)) < 0.1, 100, 0).astype(np.int8)
        data[::50, ::50] = 0
        stamp = header('map', node.get_clock().now().to_msg())
        maps.publish(map_to_msg(OccupancyMap(data, 1.0), stamp))
        pose = Odometry(header=stamp)
        pose.pose.pose.position.x = pose.pose.pose.position.y = 0.5
        for _ in range(20):
            odometry.publish(pose)
            rclpy.spin_once(node, timeout_sec=0.05)

    places = rng.integers(0, SIDE // 50, (12, 2)) * 50 + 0.5
    task = TaskSpec(sites=[Site(name=f's{i}', features=[f'g{i}'], position=Point(x=x, y=y))
                           for i, (x, y) in enumerate(places.tolist())])
    alone, answered, stopped = [], [], []
    for _ in range(repeats):
        world()
        planned = set_task.call_async(SetTask.Request(task=task, dry_run=True))
        alone.append(_wait(node, planned.done))
        world()
        states.clear()
        planned = set_task.call_async(SetTask.Request(task=task))
        _wait(node, lambda: TaskStatus.PLANNING in states)
        canceled = cancel.call_async(Trigger.Request())
        answered.append(_wait(node, canceled.done))
        stopped.append(answered[-1] + _wait(node, planned.done))
    return map(statistics.median, (alone, answered, stopped))
