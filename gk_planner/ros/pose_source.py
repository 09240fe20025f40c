"""Pose sources: where the position of the robot comes from."""

from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from gk_planner.errors import ConfigError
from gk_planner.ros.conversions import yaw_of

# (x, y, yaw), frame
PoseCallback = Callable[[tuple[float, float, float], str], None]


def listen(node: Node, source: str, robot_frame: str, group: CallbackGroup,
           callback: PoseCallback) -> Callable[[str], None]:
    """Deliver poses from a source; returns what a timer calls with the frame of the map.

    Raises
    ------
    ConfigError
        If TF is asked for and tf2_ros is not installed.

    """
    def stamped(message: Any) -> None:
        place = message.pose.pose
        callback((place.position.x, place.position.y, yaw_of(place.orientation)),
                 message.header.frame_id)

    if source == 'odom':
        node.create_subscription(
            Odometry, 'odom', stamped, callback_group=group,
            qos_profile=QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT))
    elif source == 'pose':
        node.create_subscription(PoseWithCovarianceStamped, 'amcl_pose', stamped, 5,
                                 callback_group=group)
    else:
        return _tf_poller(node, robot_frame, callback)
    return lambda map_frame: None


def _tf_poller(node: Node, robot_frame: str, callback: PoseCallback) -> Callable[[str], None]:
    try:
        from tf2_ros import Buffer, TransformException, TransformListener
    except ImportError:
        raise ConfigError('pose_source: tf needs the package tf2_ros, which is not '
                          'installed') from None
    from rclpy.time import Time
    buffer = Buffer()
    listener = TransformListener(buffer, node)

    def poll(map_frame: str, _: Any = listener) -> None:
        try:
            found = buffer.lookup_transform(map_frame, robot_frame, Time()).transform
        except TransformException:
            return
        callback((found.translation.x, found.translation.y, yaw_of(found.rotation)), map_frame)

    return poll
