"""Drive modes: how the robot is sent to the place of an option, and stopped."""

from collections.abc import Callable
import threading
from typing import Any, Protocol

from action_msgs.msg import GoalStatus
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node

from gk_planner.errors import ConfigError


class Driver(Protocol):
    """Sends the robot somewhere."""

    def go(self, target: PoseStamped) -> None:
        """Drive to a pose."""

    def stop(self, here: PoseStamped | None) -> None:
        """Stop; ``here`` is the present pose of the robot, if known."""

    def close(self) -> None:
        """Give back what was made."""


class NoDriver:
    """Others follow ~/path."""

    def go(self, target: PoseStamped) -> None:
        """Do nothing."""

    def stop(self, here: PoseStamped | None) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class TopicDriver:
    """Publishes ``goal_pose``; to stop, the present pose is sent."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._publisher = node.create_publisher(PoseStamped, 'goal_pose', 1)

    def go(self, target: PoseStamped) -> None:
        """Publish the target."""
        self._publisher.publish(target)

    def stop(self, here: PoseStamped | None) -> None:
        """Publish the present pose."""
        if here is not None:
            self._publisher.publish(here)

    def close(self) -> None:
        """Destroy the publisher."""
        self._node.destroy_publisher(self._publisher)


class Nav2Driver:
    """Calls Nav2's NavigateToPose; a goal that Nav2 gives up is a failed option.

    ``go`` and ``stop`` are called under the lock, and so is ``failed``.
    """

    def __init__(self, node: Node, lock: threading.RLock, failed: Callable[[str], None]) -> None:
        try:
            from nav2_msgs.action import NavigateToPose
        except ImportError:
            raise ConfigError('drive_mode: nav2_action needs the package nav2_msgs, which is not '
                              'installed') from None
        from rclpy.action import ActionClient
        self._goal_type = NavigateToPose.Goal
        self._client = ActionClient(node, NavigateToPose, 'navigate_to_pose')
        self._lock = lock
        self._failed = failed
        self._handle: Any = None
        self._number = 0

    def go(self, target: PoseStamped) -> None:
        """Send a goal in the place of the one before."""
        self.stop(None)
        number = self._number
        if not self._client.server_is_ready():
            self._failed('navigate_to_pose is not available')
            return
        future = self._client.send_goal_async(self._goal_type(pose=target))
        future.add_done_callback(lambda sent: self._sent(sent.result(), number))

    def stop(self, here: PoseStamped | None) -> None:
        """Cancel the goal."""
        self._number += 1
        if self._handle is not None:
            self._handle.cancel_goal_async()
            self._handle = None

    def close(self) -> None:
        """Cancel the goal and destroy the client."""
        self.stop(None)
        self._client.destroy()

    def _sent(self, handle: Any, number: int) -> None:
        with self._lock:
            if number != self._number:
                if handle.accepted:
                    handle.cancel_goal_async()
            elif not handle.accepted:
                self._failed('navigate_to_pose rejected the goal')
            else:
                self._handle = handle
                handle.get_result_async().add_done_callback(
                    lambda ended: self._ended(ended.result(), number))

    def _ended(self, result: Any, number: int) -> None:
        with self._lock:
            # A goal that was canceled here has an old number, so others canceled this one.
            if number == self._number and result.status != GoalStatus.STATUS_SUCCEEDED:
                self._handle = None
                self._failed(f'navigate_to_pose ended with status {result.status}')


def make_driver(mode: str, node: Node, lock: threading.RLock,
                failed: Callable[[str], None]) -> Driver:
    """Return the driver of a ``drive_mode``.

    Raises
    ------
    ConfigError
        If the mode needs a package that is not installed.

    """
    if mode == 'topic':
        return TopicDriver(node)
    if mode == 'nav2_action':
        return Nav2Driver(node, lock, failed)
    return NoDriver()
