"""The planner node: a managed node around the task runner."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import math
import threading
from typing import Any

from lifecycle_msgs.srv import ChangeState
from nav_msgs.msg import OccupancyGrid
from rcl_interfaces.msg import SetParametersResult
from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_srvs.srv import Trigger

from gk_planner.annotations import Annotations
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.errors import (
    CanceledError,
    ConfigError,
    FrameError,
    GkPlannerError,
    InputError,
    NotActiveError,
    NotReadyError,
)
from gk_planner.execution import Execution
from gk_planner.monitor import MonitorConfig
from gk_planner.results import Plan
from gk_planner.ros import conversions, parameters
from gk_planner.ros.drive import make_driver
from gk_planner.ros.error_codes import error_code
from gk_planner.ros.frames import Frames
from gk_planner.ros.pose_source import PoseSource
from gk_planner.ros.process import run_node
from gk_planner.ros.publisher import Publisher
from gk_planner.ros.worker import Worker
from gk_planner.task_runner import TaskRunner
from gk_planner_interfaces.action import ExecuteTask
from gk_planner_interfaces.msg import TaskSpec, TaskStatus
from gk_planner_interfaces.srv import CompleteGoal, Reground, SetTask

_TICK = 0.1
_LAST_ANSWERS = 5.0  # [s]
_MAX_WAITING = 16


class _Follower:
    """A goal of the action, and what became of its task."""

    def __init__(self, goal: Any) -> None:
        self.goal = goal
        self.ended = threading.Event()
        self.execution: Execution | None = None


class PlannerNode(LifecycleNode):
    """Plans tasks on the live map and watches the robot carry them out.

    Subscriptions: ``map``, and ``odom``, ``amcl_pose`` or TF. Services: ``~/set_task``,
    ``~/reground``, ``~/complete_goal``, ``~/cancel``, ``~/pause``, ``~/resume``. Action:
    ``~/execute_task``. Publishers: see :class:`gk_planner.ros.publisher.Publisher`. Parameters:
    the fields of ``NodeConfig``, ``Config`` and ``MonitorConfig``.

    One lock guards the core; a request that waits for planning waits in a thread of its own and
    without the lock.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('gk_planner', **options)
        parameters.declare(self, (parameters.NodeConfig, Config, MonitorConfig))
        self.config = parameters.read(self, parameters.NodeConfig)
        self._lock = threading.RLock()
        self._worker = Worker(self._lock, self.get_logger().error)
        self._is_active = False
        self._is_stopping = False
        self._resume_on_activate = False
        self._map_stamp: str | None = None  # of the map in use
        self._pose_time: float | None = None
        self._task_file = self.config.task_file
        self._requests = 0
        self._answered = threading.Condition()
        self._line = threading.BoundedSemaphore(_MAX_WAITING)
        self._followers: dict[str, _Follower] = {}
        self._frames = Frames(self)
        self._warned_frames: set[str] = set()
        self._publisher = Publisher(self, lambda: self._runner.cost_to_go, self._said,
                                    self._ended)
        self._runner = TaskRunner(
            self._publisher, self._worker.submit, config=parameters.read(self, Config),
            monitor_config=parameters.read(self, MonitorConfig),
            failure_policy=self.config.failure_policy,
            start_tolerance=None if self.config.start_tolerance < 0
            else self.config.start_tolerance)
        self.add_on_set_parameters_callback(self._check_parameters)
        self.add_post_set_parameters_callback(self._take_parameters)
        self._serve()

    def _serve(self) -> None:
        # Made here and not in on_configure, so that an inactive node can answer NOT_ACTIVE.
        requests = ReentrantCallbackGroup()
        for name, kind, callback in (
                ('set_task', SetTask, self._set_task), ('reground', Reground, self._reground),
                ('complete_goal', CompleteGoal, self._complete_goal),
                ('cancel', Trigger, self._cancel), ('pause', Trigger, self._pause),
                ('resume', Trigger, self._resume)):
            self.create_service(kind, f'~/{name}', self._counted(callback),
                                callback_group=requests)
        self._action = ActionServer(
            self, ExecuteTask, '~/execute_task', self._counted(self._execute_task),
            callback_group=requests, cancel_callback=lambda _: CancelResponse.ACCEPT)
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

    def _counted(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Count the requests that are being answered, for an end that leaves nobody waiting."""
        def answer(*arguments: Any) -> Any:
            with self._answered:
                self._requests += 1
            try:
                return callback(*arguments)
            finally:
                with self._answered:
                    self._requests -= 1
                    self._answered.notify_all()
        return answer

    # Lifecycle.

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Listen to map and pose."""
        world = MutuallyExclusiveCallbackGroup()
        latched = QoSProfile(depth=1, durability=(
            DurabilityPolicy.TRANSIENT_LOCAL if self.config.map_subscribe_transient_local
            else DurabilityPolicy.VOLATILE))
        try:
            self._pose_source = PoseSource(self, self.config.pose_source, self.config.robot_frame,
                                           self._frames, world, self._pose)
            self._publisher.driver = make_driver(self.config.drive_mode, self, self._lock,
                                                 self._drive_failed)
        except ConfigError as error:
            self.get_logger().error(error.message)
            return TransitionCallbackReturn.FAILURE
        self._subscription = self.create_subscription(
            OccupancyGrid, 'map', self._map, latched, callback_group=world)
        self._tick_timer = self.create_timer(_TICK, self._tick, callback_group=world)
        self._status_timer = self.create_timer(self.config.status_period, self._say_status,
                                               callback_group=world)
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
            self._runner.cancel()
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
        with self._lock:
            self._is_active, self._is_stopping = False, True
            self._runner.cancel()
        self._worker.stop()
        with self._answered:
            self._answered.wait_for(lambda: not self._requests, timeout=_LAST_ANSWERS)

    # The world.

    def _map(self, message: OccupancyGrid) -> None:
        try:
            grid_map = conversions.map_from_msg(message)
        except GkPlannerError as error:
            self.get_logger().error(f'map ignored: {error.message}')
            return
        with self._lock:
            self._publisher.map_frame = message.header.frame_id or 'map'
            stamp = f'{message.header.stamp.sec}.{message.header.stamp.nanosec:09d}'
            self._runner.set_map(grid_map, lambda error: self._map_taken(error, stamp))

    def _map_taken(self, error: GkPlannerError | None, stamp: str) -> None:
        if error is not None:
            self.get_logger().error(f'map ignored: {error.message}')
            return
        self._map_stamp = stamp

    def _pose(self, pose: conversions.Planar, frame: str) -> None:
        with self._lock:
            expected = self._publisher.map_frame
            place = self._frames.find(expected, frame)
            if place is None:
                if frame not in self._warned_frames:
                    self._warned_frames.add(frame)
                    self.get_logger().error(
                        f"pose refused: it is in frame '{frame}', the map in '{expected}'")
                return
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
            if self.config.pose_source != 'pose':
                self._runner.tick(self._now())
            if self._task_file and self._is_active and self._runner.is_ready:
                file, self._task_file = self._task_file, ''
                self._start_file(file)

    def _start_file(self, file: str) -> None:
        def reply(plan: Plan | None, error: GkPlannerError | None, task_id: str) -> None:
            if error is not None:
                self.get_logger().error(f'task_file: {error.message}')

        try:
            self._runner.set_task(Task.from_file(file), reply, still_wanted=self._can_go_on)
        except GkPlannerError as error:
            self.get_logger().error(f'task_file: {error.message}')

    def _say_status(self) -> None:
        with self._lock:
            execution = self._runner.shown
            self._publisher.say_status(execution)
            age = None if self._pose_time is None else self._now() - self._pose_time
            self._publisher.diagnose(execution, active=self._is_active,
                                     map_stamp=self._map_stamp, pose_age=age)

    def _drive_failed(self, reason: str) -> None:
        with self._lock:
            self._runner.option_failed(GkPlannerError(reason))

    # Requests.

    def _set_task(self, request: SetTask.Request, response: SetTask.Response) -> SetTask.Response:
        plan, error, task_id, task = self._plan(request.task, dry_run=request.dry_run)
        response.task_id = task_id
        if plan is not None and task is not None:
            response.plan = conversions.plan_to_msg(plan, task, task_id, self._publisher.header())
        return _answer(response, error)

    def _plan(self, spec: TaskSpec, *, dry_run: bool = False, follower: _Follower | None = None,
              ) -> tuple[Plan | None, GkPlannerError | None, str, Task | None]:
        """Wait for the planning of a task."""
        answered = threading.Event()
        answer: list[Any] = []

        def reply(plan: Plan | None, error: GkPlannerError | None, task_id: str) -> None:
            answer.extend((plan, error, task_id))
            answered.set()

        def still_wanted() -> bool:
            return self._can_go_on() and not (follower and follower.goal.is_cancel_requested)

        try:
            self._check_active()
            frame = self._frame(spec.header.frame_id)
            task = conversions.task_from_spec(spec, 'task', frame)
            with self._in_line():
                with self._lock:
                    task_id = self._runner.set_task(task, reply, dry_run=dry_run,
                                                    still_wanted=still_wanted)
                    if follower is not None:
                        self._followers[task_id] = follower
                        self._said(self._publisher.status(self._runner.shown))
                answered.wait()
        except GkPlannerError as error:
            return None, error, '', None
        plan, error, started = answer
        if error is not None:
            self._followers.pop(task_id, None)
        return plan, self._or_not_active(error), started, task

    def _execute_task(self, goal: Any) -> ExecuteTask.Result:
        follower = _Follower(goal)
        _, error, task_id, _ = self._plan(goal.request.task, follower=follower)
        result = _answer(ExecuteTask.Result(task_id=task_id), error)
        if task_id:
            # Polled: a goal is CANCELING only after cancel_callback has returned.
            while not follower.ended.wait(0.05):
                if goal.is_cancel_requested:
                    with self._lock:
                        self._runner.cancel(task_id)
            execution = follower.execution
            _answer(result, execution.error)
            if not result.success:
                result.message = execution.message
            result.cost = execution.completed_cost
            result.goals = list(execution.task.goal_names)
            result.goal_states = [int(state) for state in execution.goal_states]
        if result.success:
            goal.succeed()
        elif goal.is_cancel_requested:
            goal.canceled()
        else:  # a goal that nobody asked to cancel cannot become CANCELED
            goal.abort()
        return result

    def _said(self, status: TaskStatus) -> None:
        follower = self._followers.get(status.task_id)
        if follower is not None:
            follower.goal.publish_feedback(ExecuteTask.Feedback(status=status))

    def _ended(self, execution: Execution) -> None:
        self.get_logger().info(f'{execution.task_id}: {execution.state.name.lower()}'
                               + (f': {execution.message}' if execution.message else ''))
        follower = self._followers.pop(execution.task_id, None)
        if follower is not None:
            follower.execution = execution
            follower.ended.set()

    def _reground(self, request: Reground.Request,
                  response: Reground.Response) -> Reground.Response:
        answered = threading.Event()
        answer: list[Any] = []

        def reply(plan: Plan | None, error: GkPlannerError | None, changed: bool) -> None:
            execution = self._runner.execution
            answer.extend((plan, error, changed, execution))
            answered.set()

        try:
            self._check_active()
            frame = self._frame(request.header.frame_id)
            with self._in_line():
                with self._lock:
                    self._runner.reground(
                        request.task_id,
                        [conversions.site_fields(site, frame) for site in request.sites],
                        request.removed, reply)
                answered.wait()
        except GkPlannerError as error:
            return _answer(response, error)
        plan, error, response.plan_changed, execution = answer
        if plan is not None and execution is not None:
            response.method = 'resolved'
            response.planning_ms = sum(plan.timing_ms.values()) - plan.timing_ms['base_space']
            response.plan = conversions.plan_to_msg(plan, execution.task, execution.task_id,
                                                    self._publisher.header())
        return _answer(response, error)

    def _complete_goal(self, request: CompleteGoal.Request,
                       response: CompleteGoal.Response) -> CompleteGoal.Response:
        try:
            self._check_active()
            with self._lock:
                warnings = self._runner.complete_goal(request.task_id, request.goal, request.done)
        except GkPlannerError as error:
            return _answer(response, error)
        _answer(response, None)
        response.message = '; '.join(warnings)
        return response

    def _cancel(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._trigger(response, self._runner.cancel, 'canceled', 'nothing is running')

    def _pause(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._trigger(response, self._runner.pause, 'paused', 'nothing to pause')

    def _resume(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._trigger(response, self._runner.resume, 'resumed', 'nothing is paused')

    def _trigger(self, response: Trigger.Response, action: Any, done: str,
                 idle: str) -> Trigger.Response:
        try:
            self._check_active()
        except NotActiveError as error:
            response.message = error.message
            return response
        with self._lock:
            response.success = action()
        response.message = done if response.success else idle
        return response

    # Parameters.

    def _check_parameters(self, given: list[Parameter]) -> SetParametersResult:
        try:
            for kind in (Config, MonitorConfig):
                parameters.changed(parameters.read(self, kind), given)
            for parameter in given:
                if parameter.name == 'annotations_file' and parameter.value:
                    Annotations.from_file(parameter.value)
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

    def _check_active(self) -> None:
        if not self._is_active:
            raise NotActiveError('the node is not active')

    def _or_not_active(self, error: GkPlannerError | None) -> GkPlannerError | None:
        """Say why planning was canceled if it was because of deactivation."""
        if isinstance(error, CanceledError) and not self._is_active:
            return NotActiveError('the node is not active any more')
        return error

    def _can_go_on(self) -> bool:
        return self._is_active and not self._is_stopping

    @contextmanager
    def _in_line(self) -> Iterator[None]:
        """Count who waits for planning: each holds a thread, and some must stay free."""
        if not self._line.acquire(blocking=False):
            raise NotReadyError(f'{_MAX_WAITING} requests are waiting for planning; try later')
        try:
            yield
        finally:
            self._line.release()

    def _frame(self, frame: str) -> conversions.Planar:
        expected = self._publisher.map_frame
        place = self._frames.find(expected, frame)
        if place is None:
            raise FrameError(f"header.frame_id: '{frame}' is not the frame of the map, "
                             f"'{expected}', and TF does not know it")
        return place

    def _now(self) -> float:
        return float(self.get_clock().now().nanoseconds) * 1e-9

    def destroy_node(self) -> None:
        """Destroy the action server with the node."""
        self._action.destroy()
        super().destroy_node()


def _answer(response: Any, error: GkPlannerError | None) -> Any:
    response.success = error is None
    response.error_code = error_code(error)
    response.message = error.message if error is not None else ''
    return response


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(PlannerNode)
