"""Send a task file to a running planner and follow it to the end."""

import argparse
import sys
import time
from typing import Any

import rclpy
from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from std_msgs.msg import Header

from gk_planner.boolean_task import Task
from gk_planner.errors import GkPlannerError
from gk_planner.ros import conversions
from gk_planner_interfaces.action import ExecuteTask
from gk_planner_interfaces.msg import TaskStatus

_STATES = ('idle', 'planning', 'executing', 'paused', 'succeeded', 'infeasible', 'failed',
           'canceled')
_MARKS = {TaskStatus.GOAL_PENDING: ' ', TaskStatus.GOAL_CURRENT: '>', TaskStatus.GOAL_DONE: 'x',
          TaskStatus.GOAL_SKIPPED: '-', TaskStatus.GOAL_FAILED: '!'}


def progress_line(status: TaskStatus) -> str:
    """Return one line that says how far a task is."""
    goals = ' '.join(f'[{_MARKS[state]}] {goal}' for goal, state in
                     zip(status.goals, status.goal_states, strict=True))
    ahead = f'{status.cost_to_go:.1f} m to go' if status.current_goal else ''
    return f'{status.task_id} {_STATES[status.state]}: {goals}  {ahead}'.rstrip()


def send(node: Node, task: Task, server: str, *, timeout: float = 10.0,
         say: Any = print) -> ExecuteTask.Result:
    """Carry out a task through the action of a planner; Ctrl-C cancels it.

    Raises
    ------
    GkPlannerError
        If the planner does not answer.

    """
    client = ActionClient(node, ExecuteTask, f'{server}/execute_task')
    if not client.wait_for_server(timeout_sec=timeout):
        raise GkPlannerError(f'{server}/execute_task does not answer; is the planner running?')
    goal = ExecuteTask.Goal(task=conversions.task_to_spec(task, Header()))
    sent = client.send_goal_async(
        goal, feedback_callback=lambda message: say(progress_line(message.feedback.status)))
    rclpy.spin_until_future_complete(node, sent)
    handle = sent.result()
    if not handle.accepted:
        raise GkPlannerError('the planner refused the task')
    ended = handle.get_result_async()
    try:
        rclpy.spin_until_future_complete(node, ended)
    except KeyboardInterrupt:
        say('canceling')
        handle.cancel_goal_async()
        rclpy.spin_until_future_complete(node, ended, timeout_sec=timeout)
    return ended.result().result


def main() -> int:
    """Send a task and print a live progress line."""
    parser = argparse.ArgumentParser(prog='send_task', description=__doc__)
    parser.add_argument('task', metavar='TASK.yaml')
    parser.add_argument('--node', default='gk_planner', help='name of the planner node')
    parser.add_argument('--timeout', type=float, default=10.0, metavar='SECONDS',
                        help='how long to wait for the planner')
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    began = time.monotonic()

    def say(text: str) -> None:
        if sys.stdout.isatty():
            print(f'\r\x1b[K{time.monotonic() - began:6.1f} s  {text}', end='', flush=True)
        else:
            print(f'{time.monotonic() - began:6.1f} s  {text}', flush=True)

    try:
        task = Task.from_file(options.task)
        rclpy.init(args=sys.argv)
        try:
            result = send(Node('send_task'), task, options.node, timeout=options.timeout, say=say)
        finally:
            rclpy.try_shutdown()
    except GkPlannerError as error:
        print(f'error: {error.message}', file=sys.stderr)
        return error.exit_status
    if sys.stdout.isatty():
        print()
    if not result.success:
        print(f'error: {result.message} (code {result.error_code})', file=sys.stderr)
        return 3 if result.error_code == TaskStatus.ERROR_INFEASIBLE else 1
    print(f'{result.task_id} succeeded, {result.cost:.2f} m')
    return 0
