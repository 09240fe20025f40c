"""The simulated world: serves a map, drives a kinematic robot along the planner's path."""

from dataclasses import dataclass
import os
import time
from typing import Any

from nav_msgs.msg import OccupancyGrid, Odometry, Path
import numpy as np
from numpy.typing import NDArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock as ClockOfNode
from rclpy.clock import ClockType
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph_msgs.msg import Clock
from scipy import ndimage

from gk_planner import errors
from gk_planner.annotations import polygon_cells
from gk_planner.boolean_task import Task
from gk_planner.config import Config, setting, Settings
from gk_planner.errors import ConfigError, GkPlannerError, InputError
from gk_planner.kinematics import PathFollower, RobotConfig
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.ros import conversions, parameters
from gk_planner.ros.error_codes import error_code
from gk_planner.ros.process import run_node
from gk_planner.yaml_input import polygon
from gk_planner_interfaces.srv import BlockRegion, Reground

try:  # not in the wheels; every installation of ROS 2 has it
    from tf2_msgs.msg import TFMessage
except ImportError:
    TFMessage = None

_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@dataclass(frozen=True, kw_only=True)
class SimConfig(Settings):
    """The simulated world."""

    map: str = setting('', 'Nav2 map_server YAML file to serve')
    task: str = setting('', 'task file whose start is the start of the robot')
    x: float = setting(0.0, 'start of the robot, without a task; the nearest free cell', unit='m')
    y: float = setting(0.0, 'start of the robot, without a task; the nearest free cell', unit='m')
    start_clearance: float = setting(0.2, 'how far that cell is from walls', low=0.0, unit='m')
    yaw: float = setting(0.0, 'heading at the start', unit='rad')
    rate: float = setting(20.0, 'odometry messages per second', low=1.0, high=1000.0, unit='Hz')
    planner: str = setting('gk_planner', 'name of the planner node whose path is followed')
    publish_clock: bool = setting(False, 'publish /clock, for nodes with use_sim_time')
    clock_speed: float = setting(
        1.0, 'seconds of simulated time per second', low=0.01, high=1000.0)


class SimNode(Node):
    """A loopback world without physics.

    Publishers: ``map`` (latched), ``odom``, ``tf`` where tf2_msgs is installed, and ``/clock`` if
    asked. Subscription: the planner's ``path``. Services: ``~/move_object`` moves sites and
    regrounds them at the planner, ``~/block_region`` blocks or frees a part of the map.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('gk_sim', **options)
        parameters.declare(self, (SimConfig, RobotConfig))
        config = parameters.read(self, SimConfig)
        if not config.map:
            raise ConfigError('map: name the map file to serve')
        self.config = config
        self._map = OccupancyMap.from_file(config.map)
        self._blocked = self._map.data.copy()
        has_room = _cells_with_room(self._map, config.start_clearance)
        start = Task.from_file(config.task).start if config.task else None
        is_free = start is None or _is_in(has_room, self._map.cell_of(*start))
        if start is None:
            start = _nearest(self._map, has_room, (config.x, config.y))
        self._robot = PathFollower(parameters.read(self, RobotConfig), *start, config.yaw)
        self._seconds = 0.0
        self._wall = time.monotonic()
        self._map_pub = self.create_publisher(OccupancyGrid, 'map', _LATCHED)
        self._odom_pub = self.create_publisher(Odometry, 'odom', 10)
        self._tf_pub = None
        if TFMessage is not None:
            self._tf_pub = self.create_publisher(TFMessage, 'tf', 100)
        self._clock_pub = (
            self.create_publisher(Clock, '/clock', 10) if config.publish_clock else None)
        self._reground = self.create_client(Reground, f'{config.planner}/reground')
        self.create_subscription(Path, f'{config.planner}/path', self._follow, _LATCHED)
        services = MutuallyExclusiveCallbackGroup()
        self.create_service(Reground, '~/move_object', self._move_object,
                            callback_group=services)
        self.create_service(BlockRegion, '~/block_region', self._block_region)
        self._say_map()
        # A timer on the wall: with publish_clock this node makes the time of the others.
        self.create_timer(1.0 / config.rate, self._step,
                          clock=ClockOfNode(clock_type=ClockType.STEADY_TIME))
        self.get_logger().info(f'{os.path.basename(config.map)}: {self._map.cols} x '
                               f'{self._map.rows} cells, robot at ({start[0]:g}, {start[1]:g})')
        if not is_free:
            self.get_logger().warning(f'the start of the task, ({start[0]:g}, {start[1]:g}), is '
                                      'not free in this world')

    def stop(self) -> None:
        """Nothing waits here."""

    def _step(self) -> None:
        now = time.monotonic()
        elapsed, self._wall = min(now - self._wall, 0.5), now
        elapsed *= self.config.clock_speed
        self._seconds += elapsed
        # Small steps, so that a fast clock does not cut corners.
        n_steps = max(1, round(elapsed / 0.02))
        for _ in range(n_steps):
            self._robot.step(elapsed / n_steps)
        if self._clock_pub is not None:
            clock = Clock()
            clock.clock.sec = int(self._seconds)
            clock.clock.nanosec = int(self._seconds % 1 * 1e9)
            self._clock_pub.publish(clock)
        self._say_pose()

    def _say_pose(self) -> None:
        robot = self._robot
        odom = Odometry(header=self._header(), child_frame_id='base_link')
        odom.pose.pose = conversions.pose((robot.x, robot.y), robot.yaw)
        odom.twist.twist.linear.x = robot.speed
        odom.twist.twist.angular.z = robot.turn_rate
        self._odom_pub.publish(odom)
        if self._tf_pub is not None:
            self._tf_pub.publish(TFMessage(transforms=[
                conversions.transform(odom.pose.pose, odom.header, odom.child_frame_id)]))

    def _say_map(self) -> None:
        grid_map = OccupancyMap(self._blocked, self._map.resolution, self._map.origin)
        self._map_pub.publish(conversions.map_to_msg(grid_map, self._header()))

    def _follow(self, path: Path) -> None:
        self._robot.follow([(pose.pose.position.x, pose.pose.position.y) for pose in path.poses])

    def _move_object(self, request: Reground.Request,
                     response: Reground.Response) -> Reground.Response:
        if not self._reground.wait_for_service(timeout_sec=5.0):
            error = errors.TimeoutError(f'{self._reground.srv_name} is not available')
            response.error_code, response.message = error_code(error), error.message
            return response
        return self._reground.call(request) or response

    def _block_region(self, request: BlockRegion.Request,
                      response: BlockRegion.Response) -> BlockRegion.Response:
        try:
            corners = polygon([[p.x, p.y] for p in request.region], 'region', InputError)
        except GkPlannerError as error:
            response.message = error.message
            return response
        cells = polygon_cells(self._map, corners)
        self._blocked = self._blocked.copy()
        self._blocked[cells] = 100 if request.blocked else self._map.data[cells]
        self._say_map()
        response.success = True
        return response

    def _header(self) -> Any:
        stamp = self.get_clock().now().to_msg()
        if self.config.publish_clock:
            stamp.sec, stamp.nanosec = int(self._seconds), int(self._seconds % 1 * 1e9)
        return conversions.header('map', stamp)


def _cells_with_room(grid_map: OccupancyMap, clearance: float) -> NDArray[np.bool_]:
    """Return the free cells farther than that from every wall, as for the planner.

    By scipy and not by the kernels of the planner, which may have to be compiled first.
    """
    occupied = grid_map.data >= Config.occupied_threshold
    has_room = (grid_map.data >= 0) & ~occupied
    if occupied.any():
        has_room &= ndimage.distance_transform_edt(~occupied) * grid_map.resolution > clearance
    return np.asarray(has_room)


def _is_in(cells: NDArray[np.bool_], cell: tuple[int, int] | None) -> bool:
    return cell is not None and bool(cells[cell])


def _nearest(grid_map: OccupancyMap, among: NDArray[np.bool_], place: tuple[float, float],
             ) -> tuple[float, float]:
    """Return the place itself if its cell is among some cells, else the nearest centre of one."""
    cells = np.argwhere(among)
    if not cells.size or _is_in(among, grid_map.cell_of(*place)):
        return place
    col, row = grid_map.to_grid(place)[0] - 0.5
    nearest = np.square(cells - (row, col)).sum(axis=1).argmin()
    return grid_map.centre_of(*cells[nearest].tolist())


def main() -> int:
    """Run the simulated world until SIGINT or SIGTERM."""
    return run_node(SimNode)
