"""Pose sources: where the position of the robot comes from."""

from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from gk_planner.errors import ConfigError
from gk_planner.ros.conversions import Planar, yaw_of
from gk_planner.ros.frames import Frames

_ODOM = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
# amcl latches its pose and is silent while the robot stands; other localizers do not latch, and
# a subscription that asks for latching does not hear them. So there is one of each.
_POSE = (QoSProfile(depth=5),
         QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))


class PoseSource:
    """Delivers poses of the robot with the frame they are in.

    Parameters
    ----------
    node, group : Node, CallbackGroup
        Who listens.
    source : str
        ``odom``, ``pose`` or ``tf``.
    robot_frame, frames : str, Frames
        For ``tf``.
    callback : callable
        Called with (x, y, yaw) and the frame.

    Raises
    ------
    ConfigError
        If TF is asked for and tf2_ros is not installed.

    """

    def __init__(self, node: Node, source: str, robot_frame: str, frames: Frames,
                 group: CallbackGroup, callback: Callable[[Planar, str], None]) -> None:
        if source == 'tf' and not frames.has_tf:
            raise ConfigError('pose_source: tf needs the package tf2_ros, which is not installed')
        self._node = node
        self._callback = callback
        self._frames, self._robot_frame = frames, robot_frame
        kind, topic, profiles = {
            'odom': (Odometry, 'odom', (_ODOM,)),
            'pose': (PoseWithCovarianceStamped, 'amcl_pose', _POSE),
            'tf': (None, '', ())}[source]
        self._is_polled = kind is None
        self._stamp = 0  # of the last transform
        self._missing = ''  # transform, as it was told
        self._subscriptions = [
            node.create_subscription(kind, topic, self._stamped, profile, callback_group=group)
            for profile in profiles]

    def poll(self, map_frame: str) -> None:
        """Look up the robot, if it is TF that knows it; called by a timer."""
        if not self._is_polled:
            return
        found = self._frames.find_stamped(map_frame, self._robot_frame)
        self._tell(f'{map_frame} -> {self._robot_frame}', is_missing=found is None)
        if found is None:
            return
        pose, stamp = found
        # TF keeps its last word for ever: the same stamp again is no news, unless nothing moves.
        if stamp == 0 or stamp != self._stamp:
            self._stamp = stamp
            self._callback(pose, map_frame)

    def close(self) -> None:
        """Stop listening."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)

    def _tell(self, transform: str, *, is_missing: bool) -> None:
        if is_missing and transform != self._missing:
            self._node.get_logger().info(f'waiting for the transform {transform}')
        elif self._missing and not is_missing:
            self._node.get_logger().info(f'the transform {transform} is there')
        self._missing = transform if is_missing else ''

    def _stamped(self, message: Any) -> None:
        place = message.pose.pose
        self._callback((place.position.x, place.position.y, yaw_of(place.orientation)),
                       message.header.frame_id)
