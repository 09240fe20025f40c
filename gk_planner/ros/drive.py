"""Drive modes: how the robot is sent to the place of an option, and stopped."""

from collections.abc import Callable
import threading
from typing import Any, Protocol

from action_msgs.msg import GoalStatus
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node

from gk_planner.errors import ConfigError, DriveError

_PATIENCE = 10.0  # [s]


class Driver(Protocol):
    """Sends the robot somewhere."""

    def go(self, target: PoseStamped) -> None:
        """Drive to a pose."""

    def stop(self, here: PoseStamped | None) -> None:
        """Stop; ``here`` is the present pose of the robot, if known."""

    def watch(self, now: float) -> None:
        """Look after what drives; called again and again."""

    def close(self) -> None:
        """Give back what was made."""


class NoDriver:
    """Others follow ~/path."""

    def go(self, target: PoseStamped) -> None:
        """Do nothing."""

    def stop(self, here: PoseStamped | None) -> None:
        """Do nothing."""

    def watch(self, now: float) -> None:
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

    def watch(self, now: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Destroy the publisher."""
        self._node.destroy_publisher(self._publisher)


class Nav2Driver:
    """Calls Nav2's NavigateToPose; a goal that Nav2 gives up is a failed option.

    A goal is sent when the server is there, and again if it went away and came back; a server
    that is missed for too long is a failed option too. A goal waits until those before it have
    ended: Nav2 that is halting a canceled one aborts whatever comes meanwhile. All methods are
    called under the lock, and so is ``failed``.
    """

    def __init__(self, node: Node, lock: threading.RLock,
                 failed: Callable[[DriveError], None]) -> None:
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
        self._target: PoseStamped | None = None
        self._is_sent = False
        self._handle: Any = None
        self._number = 0  # of goals; what comes back for an older one no longer counts
        self._open: set[int] = set()  # numbers of the goals that were sent and have not ended
        self._missed_since: float | None = None
        self._held_since: float | None = None

    def go(self, target: PoseStamped) -> None:
        """Send a goal in the place of the one before."""
        self._withdraw()
        self._target = target
        self._send_if_free()

    def stop(self, here: PoseStamped | None) -> None:
        """Cancel the goal."""
        self._withdraw()
        self._missed_since = None

    def watch(self, now: float) -> None:
        """Send what could not be sent before; notice that the server is gone."""
        if self._target is None:
            return
        if self._client.server_is_ready():
            self._missed_since = None
            if self._open and not self._is_sent:
                self._hold(now)
            self._send_if_free()
            return
        self._open.clear()
        if self._is_sent:  # whatever it was doing, it will tell nobody
            self._number += 1
            self._is_sent, self._handle = False, None
        if self._missed_since is None:
            self._missed_since = now
        elif now - self._missed_since >= _PATIENCE:
            self._target = None
            self._failed(DriveError(f'navigate_to_pose is not available for {_PATIENCE:g} s'))

    def close(self) -> None:
        """Cancel the goal and destroy the client."""
        self.stop(None)
        self._client.destroy()

    def _hold(self, now: float) -> None:
        """Wait for the end of the goals before, but not for ever: a word of it can be lost."""
        if self._held_since is None:
            self._held_since = now
        elif now - self._held_since >= _PATIENCE:
            self._open.clear()

    def _send_if_free(self) -> None:
        if (self._target is None or self._is_sent or self._open
                or not self._client.server_is_ready()):
            return
        number, self._is_sent = self._number, True
        self._open.add(number)
        future = self._client.send_goal_async(self._goal_type(pose=self._target))
        future.add_done_callback(lambda sent: self._answered(sent.result(), number))

    def _withdraw(self) -> None:
        self._number += 1
        self._target, self._is_sent, self._held_since = None, False, None
        if self._handle is not None:
            self._handle.cancel_goal_async()
            self._handle = None

    def _answered(self, handle: Any, number: int) -> None:
        with self._lock:
            if not handle.accepted:
                self._open.discard(number)
                if number == self._number:
                    self._give_up('rejected the goal')
                self._send_if_free()
                return
            if number == self._number:
                self._handle = handle
            else:
                handle.cancel_goal_async()
            handle.get_result_async().add_done_callback(
                lambda ended: self._ended(ended.result(), number))

    def _ended(self, answer: Any, number: int) -> None:
        with self._lock:
            self._open.discard(number)
            if number != self._number:
                self._send_if_free()
                return
            self._handle = None
            if answer.status == GoalStatus.STATUS_SUCCEEDED:
                return  # arrival is judged by the pose
            # A goal that was canceled here has an old number, so others canceled this one.
            ending = {GoalStatus.STATUS_ABORTED: 'aborted the goal',
                      GoalStatus.STATUS_CANCELED: 'was canceled by others'}
            reason = ending.get(answer.status, f'ended with status {answer.status}')
            code, words = (getattr(answer.result, name, '') for name in
                           ('error_code', 'error_msg'))  # not in every release of Nav2
            self._give_up(reason + (f', error {code}' if code else '')
                          + (f': {words}' if words else ''))

    def _give_up(self, reason: str) -> None:
        self._target = None
        self._failed(DriveError(f'navigate_to_pose {reason}'))


def make_driver(mode: str, node: Node, lock: threading.RLock,
                failed: Callable[[DriveError], None]) -> Driver:
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
