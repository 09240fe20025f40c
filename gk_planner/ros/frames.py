"""Frames: what is given in another frame than the map's, as far as TF is installed and knows."""

from rclpy.node import Node
from rclpy.time import Time

from gk_planner.ros.conversions import IDENTITY, Planar, yaw_of


class Frames:
    """Looks up transforms; without tf2_ros every frame knows only itself."""

    def __init__(self, node: Node) -> None:
        try:
            from tf2_ros import Buffer, TransformException, TransformListener
        except ImportError:
            self._buffer = None
            return
        self._buffer, self._unknown = Buffer(), TransformException
        self._listener = TransformListener(self._buffer, node)

    @property
    def has_tf(self) -> bool:
        """Whether tf2_ros is installed."""
        return self._buffer is not None

    def find(self, target: str, source: str) -> Planar | None:
        """Return the pose of a frame in the target frame, None if it is not known.

        An empty source is the target itself.
        """
        found = self.find_stamped(target, source)
        return None if found is None else found[0]

    def find_stamped(self, target: str, source: str) -> tuple[Planar, int] | None:
        """Like find, with the time [ns] up to which TF knows the way; 0 if nothing moves."""
        if source in ('', target):
            return IDENTITY, 0
        if self._buffer is None:
            return None
        try:
            found = self._buffer.lookup_transform(target, source, Time())
        except self._unknown:
            return None
        move, stamp = found.transform, Time.from_msg(found.header.stamp).nanoseconds
        return (move.translation.x, move.translation.y, yaw_of(move.rotation)), stamp
