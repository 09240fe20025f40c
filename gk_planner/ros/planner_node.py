"""The planner node: a managed node around the task runner."""

import math
import threading
from typing import Any

from lifecycle_msgs.srv import ChangeState
from nav_msgs.msg import OccupancyGrid
from rcl_interfaces.msg import SetParametersResult
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile

from gk_planner.annotations import Annotations
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.ensemble import Ensemble
from gk_planner.errors import (
    ConfigError,
    DriveError,
    GkPlannerError,
    InputError,
    ShutdownError,
)
from gk_planner.monitor import MonitorConfig
from gk_planner.results import Plan
from gk_planner.ros import conversions, parameters
from gk_planner.ros.compiler import Compiler
from gk_planner.ros.drive import make_driver
from gk_planner.ros.frames import Frames
from gk_planner.ros.pose_source import PoseSource
from gk_planner.ros.process import run_node
from gk_planner.ros.publisher import Publisher
from gk_planner.ros.requests import Requests
from gk_planner.ros.worker import Worker
from gk_planner.task_runner import TaskRunner

_TICK = 0.1


class PlannerNode(LifecycleNode):
    """Plans tasks on the live map and watches the robot carry them out.

    Subscriptions: ``map``, and ``odom``, ``amcl_pose`` or TF. Services and action: see
    :class:`gk_planner.ros.requests.Requests`. Publishers: see
    :class:`gk_planner.ros.publisher.Publisher`. Parameters: the fields of ``NodeConfig``,
    ``Config`` and ``MonitorConfig``. One lock guards the core.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('gk_planner', **options)
        parameters.declare(self, (parameters.NodeConfig, Config, MonitorConfig))
        self.config = parameters.read(self, parameters.NodeConfig)
        self._lock = threading.RLock()
        self._worker = Worker(self._lock, self.get_logger().error)
        self._compiler = Compiler(self.get_logger().info)
        self._is_active = False
        self._resume_on_activate = False
        self._map_stamp: str | None = None  # of the map in use
        self._map_size = ''
        self._pose_time: float | None = None
        self._task_file = self.config.task_file
        self._frames = Frames(self)
        self._warned_frames: set[str] = set()
        self._is_refusing = False
        self._publisher = Publisher(self, lambda: self._runner.cost_to_go)
        self._runner = TaskRunner(
            self._publisher, self._worker.submit, config=parameters.read(self, Config),
            monitor_config=parameters.read(self, MonitorConfig),
            failure_policy=self.config.failure_policy,
            start_tolerance=None if self.config.start_tolerance < 0
            else self.config.start_tolerance)
        self.add_on_set_parameters_callback(self._check_parameters)
        self.add_post_set_parameters_callback(self._take_parameters)
        # Made here and not in on_configure, so that an inactive node can answer NOT_ACTIVE.
        self._requests = Requests(self, self._lock, self._runner, self._publisher, self._frames,
                                  lambda: self._is_active)
        self._answer_every_transition()

    def _answer_every_transition(self) -> None:
        # rclpy leaves whoever asks for an impossible transition without an answer.
        change_state = self._service_change_state.callback

        def answered(request: ChangeState.Request,
                     response: ChangeState.Response) -> ChangeState.Response:
            try:
                return change_state(request, response)
            except rclpy_implementation.RCLError as error:
                self.get_logger().error(str(error))
                response.success = False
                return response

        self._service_change_state.callback = answered

    # Lifecycle.

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Listen to map and pose."""
        world = MutuallyExclusiveCallbackGroup()
        latched = QoSProfile(depth=1, durability=(
            DurabilityPolicy.TRANSIENT_LOCAL if self.config.map_subscribe_transient_local
            else DurabilityPolicy.VOLATILE))
        try:
            self._publisher.driver = make_driver(self.config.drive_mode, self, self._lock,
                                                 self._drive_failed)
            self._pose_source = PoseSource(self, self.config.pose_source, self.config.robot_frame,
                                           self._frames, world, self._pose)
        except ConfigError as error:
            self._publisher.driver.close()
            self.get_logger().error(error.message)
            return TransitionCallbackReturn.FAILURE
        self._subscription = self.create_subscription(
            OccupancyGrid, 'map', self._map, latched, callback_group=world)
        self._tick_timer = self.create_timer(_TICK, self._tick, callback_group=world)
        self._status_timer = self.create_timer(self.config.status_period, self._say_status,
                                               callback_group=world)
        self._compiler.start()
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Answer requests; a task that deactivating paused goes on."""
        with self._lock:
            self._is_active = True
            if self._resume_on_activate:
                self._resume_on_activate = False
                self._runner.resume()
            self._say_status()
        self.get_logger().info('active')
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Pause; bits are kept."""
        with self._lock:
            self._is_active = False
            self._resume_on_activate = self._runner.pause()
            self._say_status()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the task and stop listening."""
        with self._lock:
            self._runner.cancel(error=ShutdownError('the node was cleaned up'))
            self._publisher.driver.close()
        self._pose_source.close()
        self.destroy_subscription(self._subscription)
        self.destroy_timer(self._tick_timer)
        self.destroy_timer(self._status_timer)
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the task."""
        self.stop()
        return TransitionCallbackReturn.SUCCESS

    def stop(self) -> None:
        """End the task and everyone's waiting; planning stops at its next checkpoint."""
        try:
            with self._lock:
                self._is_active = False
                self._runner.cancel(error=ShutdownError('the node was shut down'))
        finally:
            self._compiler.stop()
            self._worker.stop()
            self._requests.finish()

    # The world.

    def _map(self, message: OccupancyGrid) -> None:
        try:
            grid_map = conversions.map_from_msg(message)
        except GkPlannerError as error:
            self.get_logger().error(f'map ignored: {error.message}')
            return
        with self._lock:
            frame = message.header.frame_id or 'map'
            if self._map_stamp is None:  # poses in this frame may come before the map is in use
                self._publisher.map_frame = frame
            stamp = f'{message.header.stamp.sec}.{message.header.stamp.nanosec:09d}'
            size = f'{grid_map.cols} x {grid_map.rows} cells of {grid_map.resolution:g} m'
            self._runner.set_map(
                grid_map, lambda error: self._map_taken(error, frame, stamp, size))

    def _map_taken(self, error: GkPlannerError | None, frame: str, stamp: str,
                   size: str) -> None:
        if error is not None:
            self.get_logger().error(f'map ignored: {error.message}')
            return
        if frame != self._publisher.map_frame:
            self._publisher.map_frame, self._pose_time = frame, None
            self._runner.forget_pose()
            self._warned_frames.clear()
        if size != self._map_size:  # SLAM sends the same room again and again
            self.get_logger().info(f'map: {size}')
        self._map_stamp, self._map_size = stamp, size

    def _pose(self, pose: conversions.Planar, frame: str) -> None:
        with self._lock:
            expected = self._publisher.map_frame
            place = self._frames.find(expected, frame)
            if place is None:
                if frame not in self._warned_frames:
                    self._warned_frames.add(frame)
                    self._is_refusing = True
                    self.get_logger().error(
                        f"pose refused: it is in frame '{frame}', the map in '{expected}'")
                return
            if self._is_refusing:
                self._is_refusing = False
                self.get_logger().info('poses are taken again')
            pose = conversions.moved(pose, place)
            if not all(math.isfinite(value) for value in pose):
                return
            self._pose_time = self._now()
            self._publisher.robot_position = pose[:2]
            self._publisher.robot_yaw = pose[2]
            self._runner.pose(self._pose_time, pose[:2])

    def _tick(self) -> None:
        self._pose_source.poll(self._publisher.map_frame)
        with self._lock:
            self._publisher.driver.watch(self._now())
            if self.config.pose_source != 'pose':
                self._runner.tick(self._now())
            if self._task_file and self._is_active and self._runner.is_ready:
                self._start_file()

    def _start_file(self) -> None:
        """Start the task of the file, unless somebody has asked for another one before."""
        if self._runner.is_planning:
            return
        file, self._task_file = self._task_file, ''
        if self._runner.execution is not None:
            self.get_logger().info('task_file: not started, because another task has begun')
            return

        def reply(plan: Plan | None, error: GkPlannerError | None, task_id: str) -> None:
            if error is not None:
                self.get_logger().error(f'task_file: {error.message}')

        try:
            self._runner.set_task(Task.from_file(file), reply,
                                  still_wanted=lambda: self._is_active)
        except GkPlannerError as error:
            self.get_logger().error(f'task_file: {error.message}')

    def _say_status(self) -> None:
        with self._lock:
            execution = self._runner.shown
            self._publisher.say_status(execution)
            age = None if self._pose_time is None else self._now() - self._pose_time
            self._publisher.diagnose(execution, active=self._is_active,
                                     map_stamp=self._map_stamp, pose_age=age,
                                     pose_is_stale=self._runner.pose_is_stale)

    def _drive_failed(self, error: DriveError) -> None:
        self._runner.option_failed(error)

    # Parameters.

    def _check_parameters(self, given: list[Parameter]) -> SetParametersResult:
        try:
            for kind in (Config, MonitorConfig):
                parameters.changed(parameters.read(self, kind), given)
            for parameter in given:
                if parameter.name == 'annotations_file' and parameter.value:
                    Annotations.from_file(parameter.value)
                if parameter.name == 'ensemble_file' and parameter.value:
                    Ensemble(parameter.value)
        except InputError as error:
            return parameters.refusal(error)
        return SetParametersResult(successful=True)

    def _take_parameters(self, given: list[Parameter]) -> None:
        with self._lock:
            config = parameters.read(self, Config)
            if config != self._runner.config:
                self._runner.set_config(config, self._config_taken)
            self._runner.set_monitor_config(parameters.read(self, MonitorConfig))

    def _config_taken(self, error: GkPlannerError | None) -> None:
        if error is not None:
            self.get_logger().error(f'the settings do not fit the map: {error.message}')

    def _now(self) -> float:
        return float(self.get_clock().now().nanoseconds) * 1e-9

    def destroy_node(self) -> None:
        """Destroy the action server with the node."""
        self._requests.close()
        super().destroy_node()


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(PlannerNode)
