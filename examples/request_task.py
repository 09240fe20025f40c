"""A node that asks a planner for an errand and reacts while it is carried out.

Try it in the simulated office:

    ros2 launch gk_planner sim.launch.py
    python3 examples/request_task.py

It is the pattern for a dispatcher, a behaviour tree leaf or a voice interface: build the task,
send it to the action ``gk_planner/execute_task``, and look at the bits of each feedback.
"""

import math
import sys
from typing import Any

from geometry_msgs.msg import Point
import rclpy
from rclpy.action import ActionClient
from rclpy.node import Node

from gk_planner_interfaces.action import ExecuteTask
from gk_planner_interfaces.msg import Site, TaskSpec, TaskStatus


def site(name: str, feature: str, x: float, y: float) -> Site:
    """Return a place that carries one feature; the robot may arrive in any heading."""
    return Site(name=name, features=[feature], position=Point(x=x, y=y), yaw=math.nan)


def coffee_round() -> TaskSpec:
    """Coffee from either machine and, with the key, the mail."""
    return TaskSpec(
        sites=[site('kitchen_machine', 'coffee', 0.875, 8.475),
               site('lounge_machine', 'coffee', 13.275, 1.075),
               site('hook', 'key', 4.475, 1.275),
               site('mailbox', 'mail', 12.275, 8.675)],
        constraints=['key before mail'],
        formula='coffee & mail')


class Dispatcher(Node):
    """Sends one task and follows it; ``result`` is set when it has ended."""

    def __init__(self) -> None:
        super().__init__('dispatcher')
        self.result: ExecuteTask.Result | None = None
        self._done: set[str] = set()
        self._replans = 0
        self._site = ''
        self._client = ActionClient(self, ExecuteTask, 'gk_planner/execute_task')

    def send(self, task: TaskSpec) -> None:
        """Send a task; it takes the place of the one that is running."""
        self._client.wait_for_server()
        sent = self._client.send_goal_async(
            ExecuteTask.Goal(task=task), feedback_callback=lambda msg: self._react(
                msg.feedback.status))
        sent.add_done_callback(self._accepted)

    def _accepted(self, sent: Any) -> None:
        sent.result().get_result_async().add_done_callback(self._ended)

    def _react(self, status: TaskStatus) -> None:
        done = {goal for goal, bit in zip(status.goals, status.bits, strict=True) if bit}
        for goal in sorted(done - self._done):
            self.get_logger().info(f'{goal} is done')  # here: ring a bell, open a door
        if status.replans > self._replans:
            self.get_logger().info(f'new plan: {status.replan_reason}')
        if status.current_site not in ('', self._site):
            self.get_logger().info(f'on the way to {status.current_site} for '
                                   f'{status.current_goal}, {status.cost_to_go:.1f} m to go')
        self._done, self._replans, self._site = done, status.replans, status.current_site

    def _ended(self, ended: Any) -> None:
        self.result = ended.result().result


def main() -> int:
    """Send the coffee round; the exit status is 0 if it succeeded."""
    rclpy.init()
    node = Dispatcher()
    node.send(coffee_round())
    while node.result is None:
        rclpy.spin_once(node)
    if node.result.success:
        node.get_logger().info(f'succeeded after {node.result.cost:.1f} m')
    elif node.result.error_code == TaskStatus.ERROR_PREEMPTED:
        node.get_logger().warning('somebody else needed the robot')
    else:
        node.get_logger().error(f'{node.result.message} (code {node.result.error_code})')
    rclpy.shutdown()
    return 0 if node.result.success else 1


if __name__ == '__main__':
    sys.exit(main())
