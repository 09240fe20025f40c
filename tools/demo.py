#!/usr/bin/env python3
"""Show the whole loop on real ROS 2: map, task, plan, driving, arrivals, a moved object, done.

The simulated world and the planner run as processes of their own; this one sends the task, moves
an object half-way, prints what happens and draws what was driven.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
import dataclasses
from itertools import pairwise
import math
import os
from pathlib import Path
import signal
import subprocess
import sys
import time
from typing import Any

from nav_msgs.msg import Odometry
import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from gk_planner import BaseSpace, errors, Plan, Task
from gk_planner.draw import draw_plan
from gk_planner.results import PlannedOption, Point
from gk_planner.ros import conversions
from gk_planner.ros.send_task import TaskSender
from gk_planner_interfaces.action import ExecuteTask
from gk_planner_interfaces.msg import Plan as PlanMsg
from gk_planner_interfaces.msg import TaskStatus
from gk_planner_interfaces.srv import Reground

REPO = Path(__file__).resolve().parent.parent
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
TIMEOUT = 120.0
RADIUS = {'office': 0.2}
# After the first arrival this object is found elsewhere.
MOVED = {'office': {'name': 'lounge_machine', 'features': ['coffee'], 'position': [4.675, 7.875]}}


class Demo(Node):
    """Sends the task, listens, and keeps what it saw."""

    def __init__(self, task: Task, moved: dict[str, Any] | None) -> None:
        super().__init__('demo')
        self.task, self.moved = task, moved
        self.track: list[Point] = []
        self.driven: list[PlannedOption] = []
        self.planned_cost = 0.0
        self._began = time.monotonic()
        self._bits: list[bool] = []
        self._last_plan: list[tuple[str, float, float]] = []
        self._regrounding = self._has_ended = False
        self.create_subscription(Odometry, 'odom', self._odom, 10)
        self.create_subscription(PlanMsg, 'gk_planner/plan', self._plan, LATCHED)
        self.create_subscription(TaskStatus, 'gk_planner/status', self._status, LATCHED)
        self._sender = TaskSender(self, 'gk_planner')
        self._mover = self.create_client(Reground, 'gk_sim/move_object')
        self.create_timer(TIMEOUT, self._too_late)

    def say(self, text: str) -> None:
        """Print a line with the time."""
        print(f'[{time.monotonic() - self._began:5.1f} s] {text}', flush=True)

    def run(self) -> ExecuteTask.Result:
        """Carry out the task, from where the robot is heard to be."""
        while not self.track:
            rclpy.spin_once(self, timeout_sec=0.1)
        result = self._sender.send(self.task, timeout=TIMEOUT, say=lambda text: None)
        # The last arrival is told on the status topic, which may come after the result.
        last_call = time.monotonic() + 2.0
        while not self._has_ended and time.monotonic() < last_call:
            rclpy.spin_once(self, timeout_sec=0.1)
        return result

    def _too_late(self) -> None:
        raise errors.TimeoutError(f'the task is not done after {TIMEOUT:g} s')

    def _odom(self, message: Odometry) -> None:
        place = message.pose.pose.position
        if not self.track or math.dist(self.track[-1], (place.x, place.y)) > 0.02:
            self.track.append((place.x, place.y))

    def _plan(self, plan: PlanMsg) -> None:
        places = [(option.site, option.pose.position.x, option.pose.position.y)
                  for option in plan.options]
        if not places or places == self._last_plan[-len(places):]:
            return
        steps = ' -> '.join(f'{option.goal} at {option.site}' for option in plan.options)
        self.say(f'{"new plan" if self._last_plan else "plan"}: {steps}; {plan.cost:.2f} m, '
                 + ('optimal' if plan.optimal else 'not proven optimal'))
        self._last_plan = places

    def _status(self, status: TaskStatus) -> None:
        bits = list(status.bits)
        for goal, before, now in zip(status.goals, self._bits, bits, strict=False):
            if now and not before:
                self._arrived(goal, dict(zip(status.goals, bits, strict=True)))
        self._bits = bits
        self._has_ended = bool(status.task_id) and status.state not in (
            TaskStatus.PLANNING, TaskStatus.EXECUTING, TaskStatus.PAUSED)

    def _arrived(self, goal: str, state: dict[str, bool]) -> None:
        shown = ' '.join(f'{name}={int(bit)}' for name, bit in state.items())
        if len(state) > 6:
            shown = ''.join(str(int(bit)) for bit in state.values())
        self.say(f'arrived: {goal:<8} bits: {shown}')
        path = tuple(self.track)
        self.track = self.track[-1:]
        length = sum(math.dist(a, b) for a, b in pairwise(path))
        self.driven.append(PlannedOption(goal, '', length, path[-1], path, state))
        if self.moved is not None and not self._regrounding:
            self._regrounding = True
            x, y = self.moved['position']
            self.say(f"{self.moved['name']} is found at ({x:g}, {y:g}) instead")
            request = Reground.Request(sites=[conversions.site_from_fields(self.moved)])
            self._mover.call_async(request).add_done_callback(self._regrounded)

    def _regrounded(self, future: Any) -> None:
        answer = future.result()
        self.say(f'regrounded: {answer.method} in {answer.planning_ms:.0f} ms, plan '
                 + ('changed' if answer.plan_changed else 'unchanged')
                 if answer.success else f'not regrounded: {answer.message}')


@contextmanager
def process(name: str, **parameters: object) -> Iterator[None]:
    """Run a node as a process of its own, ended by SIGINT."""
    flags = [part for key, value in parameters.items() for part in ('-p', f'{key}:={value}')]
    node = subprocess.Popen([sys.executable, '-m', 'gk_planner.ros.start', name, '--ros-args',
                             '--log-level', 'warn', *flags])
    try:
        yield
    finally:
        node.send_signal(signal.SIGINT)
        if node.wait(timeout=20) != 0:
            print(f'error: {name} ended with {node.returncode}', file=sys.stderr)


def main() -> int:
    """Run the demo of one world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('world', nargs='?', default='office')
    parser.add_argument('--picture', type=Path, metavar='FILE')
    options = parser.parse_args()
    world = options.world
    task_file = REPO / f'config/tasks/{world}.yaml'
    # Several tasks may share a map: remap_3x3_a is a task on remap_3x3.
    map_file = next((file for file in (REPO / f'maps/{world}.yaml',
                                       REPO / f'maps/{world.rpartition("_")[0]}.yaml')
                     if file.exists()), None)
    if not task_file.exists() or map_file is None:
        known = sorted(path.stem for path in (REPO / 'config/tasks').glob('*.yaml'))
        print(f"error: no world '{world}'; known: {', '.join(known)}", file=sys.stderr)
        return 2
    task = Task.from_file(task_file)
    annotations = REPO / f'maps/{world}_annotations.yaml'
    settings: dict[str, Any] = {'robot_radius': RADIUS.get(world, 0.0)}
    if annotations.exists():
        settings['annotations_file'] = str(annotations)
    print(f'{world}: {", ".join(task.goal_names)}; done when {task.formula.text}'
          + ''.join(f'; {rule.text}' for rule in task.constraints), flush=True)

    rclpy.init()
    moved = MOVED.get(world)
    with process('sim_node', map=map_file, task=task_file, speed=1.5, acceleration=3.0), \
            process('planner_node', **settings):
        demo = Demo(task, moved)
        try:
            result = demo.run()
        except errors.GkPlannerError as error:
            print(f'error: {error.message}', file=sys.stderr)
            return error.exit_status
        finally:
            rclpy.try_shutdown()
        metres = sum(option.cost for option in demo.driven)
        if not result.success:
            print(f'error: {result.message}', file=sys.stderr)
            return 1
        demo.say(f'done: {result.task_id} succeeded, {metres:.2f} m driven')

    picture = options.picture or REPO / f'out/{world}.png'
    picture.parent.mkdir(exist_ok=True)
    if moved is not None:
        task = task.replace(sites=[
            dataclasses.replace(site, position=tuple(moved['position']))
            if site.name == moved['name'] else site for site in task.sites])
    draw_plan(picture, BaseSpace.from_file(map_file, **settings), task,
              Plan(tuple(demo.driven), metres, False, 0.0), task.start)
    print(f'picture: {os.path.relpath(picture)}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
