"""The publisher: what the task runner says, as messages."""

from collections.abc import Callable, Sequence
from math import nan

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Header
from visualization_msgs.msg import MarkerArray

from gk_planner.execution import Execution, TaskState
from gk_planner.results import PlannedOption, Point
from gk_planner.ros import conversions, markers
from gk_planner.ros.drive import Driver, NoDriver
from gk_planner.ros.error_codes import error_code
from gk_planner.ros.task_log import TaskLog
from gk_planner_interfaces.msg import Plan as PlanMsg
from gk_planner_interfaces.msg import TaskStatus

_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_BAD_STATES = (TaskState.INFEASIBLE, TaskState.FAILED)


class Publisher:
    """Listener of the task runner that publishes on ROS topics.

    Publishers
    ----------
    ~/plan, ~/status, ~/waypoints, ~/path, ~/markers
        Latched.
    /diagnostics
        State, map, pose and the last message.

    """

    def __init__(self, node: Node, cost_to_go: Callable[[], float]) -> None:
        self.map_frame = 'map'
        self.robot_yaw = 0.0
        self.robot_position: Point | None = None
        self.driver: Driver = NoDriver()
        self._node = node
        self._cost_to_go = cost_to_go
        self._said: Callable[[TaskStatus], None] = lambda status: None
        self._ended: Callable[[Execution], None] = lambda execution: None
        self._log = TaskLog(node.get_logger().info, node.get_logger().warning)
        self._plan_pub = node.create_publisher(PlanMsg, '~/plan', _LATCHED)
        self._status_pub = node.create_publisher(TaskStatus, '~/status', _LATCHED)
        self._waypoints_pub = node.create_publisher(Path, '~/waypoints', _LATCHED)
        self._path_pub = node.create_publisher(Path, '~/path', _LATCHED)
        self._markers_pub = node.create_publisher(MarkerArray, '~/markers', _LATCHED)
        self._diagnostics_pub = node.create_publisher(DiagnosticArray, '/diagnostics', 1)

    def tell(self, said: Callable[[TaskStatus], None],
             ended: Callable[[Execution], None]) -> None:
        """Name who else hears every status and every end of a task."""
        self._said, self._ended = said, ended

    def header(self) -> Header:
        """Return a header in the map's frame at the present ROS time."""
        return conversions.header(self.map_frame, self._node.get_clock().now().to_msg())

    def plan_changed(self, execution: Execution | None) -> None:
        """Publish the plan ahead; none: everything latched is emptied."""
        header = self.header()
        if execution is None or execution.plan is None:
            self._plan_pub.publish(PlanMsg(header=header))
            self._waypoints_pub.publish(Path(header=header))
            self._path_pub.publish(Path(header=header))
            self._markers_pub.publish(markers.clear(header))
            return
        task = execution.task
        self._plan_pub.publish(conversions.plan_to_msg(
            execution.plan_ahead(), task, execution.task_id, header))
        self._waypoints_pub.publish(conversions.poses_to_msg(
            [conversions.arrival_pose(option, task) for option in execution.remaining], header))

    def path_changed(self, path: Sequence[Point]) -> None:
        """Publish every step ahead."""
        self._path_pub.publish(conversions.path_to_msg(path, self.header()))

    def status_changed(self, execution: Execution | None) -> None:
        """Publish status and markers, and log what is new."""
        self.say_status(execution)
        if execution is None:
            return
        self._log.tell(execution)
        if execution.current is not None or execution.state is TaskState.INFEASIBLE:
            self._markers_pub.publish(markers.task_markers(execution, self.header()))

    def say_status(self, execution: Execution | None) -> None:
        """Publish the status and tell who follows the task."""
        status = self.status(execution)
        self._status_pub.publish(status)
        self._said(status)

    def status(self, execution: Execution | None) -> TaskStatus:
        """Return the status message of a task."""
        error, message = (execution.error, execution.message) if execution else (None, '')
        return conversions.status_to_msg(execution, self.header(), self._cost_to_go(),
                                         error_code(error), message)

    def drive(self, option: PlannedOption | None, execution: Execution | None = None) -> None:
        """Send the robot to an option's place, or stop it."""
        if option is None:
            here = None
            if self.robot_position is not None:
                here = PoseStamped(header=self.header(), pose=conversions.pose(
                    self.robot_position, self.robot_yaw))
            self.driver.stop(here)
        elif execution is not None:
            self.driver.go(PoseStamped(header=self.header(), pose=conversions.arrival_pose(
                option, execution.task)))

    def ended(self, execution: Execution) -> None:
        """Tell who waits for the task."""
        self._ended(execution)

    def warn(self, text: str) -> None:
        """Log a warning."""
        self._node.get_logger().warning(text)

    def diagnose(self, execution: Execution | None, *, active: bool, map_stamp: str | None,
                 pose_age: float | None, pose_is_stale: bool) -> None:
        """Publish diagnostics."""
        state = execution.state if execution is not None else TaskState.IDLE
        level, text = DiagnosticStatus.OK, state.name.lower()
        if map_stamp is None or pose_age is None:
            level, text = DiagnosticStatus.WARN, 'waiting for ' + (
                'the map' if map_stamp is None else 'the pose')
        elif pose_is_stale:
            level, text = DiagnosticStatus.WARN, 'the position of the robot is stale'
        if execution is not None and state in _BAD_STATES:
            level, text = DiagnosticStatus.ERROR, execution.message or text
        values = {'active': active, 'state': state.name, 'map_stamp': map_stamp or 'none',
                  'pose_age_s': 'none' if pose_age is None else f'{pose_age:.2f}',
                  'position': '{:.2f} {:.2f}'.format(*self.robot_position or (nan, nan)),
                  'task_id': execution.task_id if execution else ''}
        status = DiagnosticStatus(
            name=self._node.get_fully_qualified_name(), hardware_id='', level=level, message=text,
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()])
        self._diagnostics_pub.publish(DiagnosticArray(header=self.header(), status=[status]))
