"""Send a task file to a running planner and follow it to the end."""

import argparse
import signal
import sys
import time
from typing import Any

import rclpy
from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args
from std_msgs.msg import Header

from gk_planner import errors
from gk_planner.boolean_task import Task
from gk_planner.errors import GkPlannerError, InfeasibleError, InputError
from gk_planner.ros import conversions
from gk_planner_interfaces.action import ExecuteTask
from gk_planner_interfaces.msg import TaskStatus

_STATES = ('idle', 'planning', 'executing', 'paused', 'succeeded', 'infeasible', 'failed',
           'canceled')
_MARKS = {TaskStatus.GOAL_PENDING: ' ', TaskStatus.GOAL_CURRENT: '>', TaskStatus.GOAL_DONE: 'x',
          TaskStatus.GOAL_SKIPPED: '-', TaskStatus.GOAL_FAILED: '!'}
# A planner that has just been started says these until its map and the robot's pose have come.
_NOT_READY = (TaskStatus.ERROR_NOT_ACTIVE, TaskStatus.ERROR_NO_MAP, TaskStatus.ERROR_NO_POSE)
_RETRY_PERIOD = 0.5  # [s]


def progress_line(status: TaskStatus) -> str:
    """Return one line that says how far a task is."""
    goals = ' '.join(f'[{_MARKS[state]}] {goal}' for goal, state in
                     zip(status.goals, status.goal_states, strict=True))
    ahead = f'{status.cost_to_go:.1f} m to go' if status.current_goal else status.message
    return f'{status.task_id} {_STATES[status.state]}: {goals}  {ahead}'.rstrip()


class TaskSender:
    """Carries out tasks through the action of a planner.

    It must live as long as its node spins: what comes for a client that is gone is an error.

    Parameters
    ----------
    node : Node
        Spun while a task is carried out.
    server : str
        Name of the planner node.

    """

    def __init__(self, node: Node, server: str) -> None:
        self._node, self._server = node, server
        self._client = ActionClient(node, ExecuteTask, f'{server}/execute_task')

    def send(self, task: Task, *, timeout: float = 10.0, say: Any = print) -> ExecuteTask.Result:
        """Carry out a task; Ctrl-C cancels it.

        A planner that is not there or not ready yet is waited for, in all ``timeout`` seconds.

        Raises
        ------
        TimeoutError
            If the planner does not answer, or is gone before the end.
        GkPlannerError
            If it refuses the goal of the action.

        """
        deadline = time.monotonic() + timeout
        if not self._client.wait_for_server(timeout_sec=timeout):
            raise errors.TimeoutError(
                f'{self._server}/execute_task does not answer; is the planner running?')
        goal = ExecuteTask.Goal(task=conversions.task_to_spec(task, Header()))
        waits_for = ''
        while True:
            result = self._carry_out(goal, say, is_retry=bool(waits_for))
            if result.error_code not in _NOT_READY or time.monotonic() >= deadline:
                return result
            if result.message != waits_for:
                waits_for = result.message
                say(f'waiting: {waits_for}')
            self._spin_for(min(_RETRY_PERIOD, deadline - time.monotonic()))

    def _carry_out(self, goal: ExecuteTask.Goal, say: Any, *,
                   is_retry: bool) -> ExecuteTask.Result:
        def tell(message: Any) -> None:
            status = message.feedback.status
            if not (is_retry and status.state == TaskStatus.PLANNING):
                say(progress_line(status))

        sent = self._client.send_goal_async(goal, feedback_callback=tell)
        self._spin_until(sent)
        handle = sent.result()
        if not handle.accepted:
            raise GkPlannerError('the planner refused the task')
        ended = handle.get_result_async()
        try:
            self._spin_until(ended)
        except KeyboardInterrupt:
            say('canceling')
            handle.cancel_goal_async()
            self._spin_until(ended)
        return ended.result().result

    def _spin_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            rclpy.spin_once(self._node, timeout_sec=left)

    def _spin_until(self, future: Any) -> None:
        while not future.done():
            # Short, because Ctrl-C counts only between two of these.
            rclpy.spin_once(self._node, timeout_sec=0.1)
            if not future.done() and not self._client.server_is_ready():
                raise errors.TimeoutError('the planner is gone')


def _exit_status(code: int) -> int:
    if code == TaskStatus.ERROR_INFEASIBLE:
        return InfeasibleError.exit_status
    is_input = TaskStatus.ERROR_INPUT <= code < TaskStatus.ERROR_INFEASIBLE
    return InputError.exit_status if is_input else 1


def main() -> int:
    """Send a task and print a live progress line."""
    parser = argparse.ArgumentParser(prog='send_task', description=__doc__)
    parser.add_argument('task', metavar='TASK.yaml')
    parser.add_argument('--node', default='gk_planner', help='name of the planner node')
    parser.add_argument('--timeout', type=float, default=10.0, metavar='SECONDS',
                        help='how long to wait for the planner, its map and pose')
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    began = time.monotonic()
    last = ''

    def say(text: str) -> None:
        nonlocal last
        stamp = f'{time.monotonic() - began:6.1f} s  '
        if sys.stdout.isatty():
            print(f'\r\x1b[K{stamp}{text}', end='', flush=True)
        elif text.partition('  ')[0] != last:  # in a file the metres alone are no news
            print(stamp + text, flush=True)
        last = text.partition('  ')[0]

    try:
        task = Task.from_file(options.task)
        # rclpy's own handler would end the context on Ctrl-C, and then nothing can be canceled.
        rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
        try:
            sender = TaskSender(Node('send_task'), options.node)
            result = sender.send(task, timeout=options.timeout, say=say)
        finally:
            rclpy.try_shutdown()
    except GkPlannerError as error:
        print(f'error: {error.message}', file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    if sys.stdout.isatty():
        print()
    if not result.success:
        print(f'error: {result.message} (code {result.error_code})', file=sys.stderr)
        return _exit_status(result.error_code)
    print(f'{result.task_id} succeeded, {result.cost:.2f} m')
    return 0
