"""The planner node: a managed node around the task runner."""

import math
import threading
from typing import Any

from nav_msgs.msg import OccupancyGrid
from rcl_interfaces.msg import SetParametersResult
from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_srvs.srv import Trigger

from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.errors import (
    CanceledError,
    ConfigError,
    FrameError,
    GkPlannerError,
    NotActiveError,
)
from gk_planner.execution import Execution, TaskState
from gk_planner.monitor import MonitorConfig
from gk_planner.results import Plan
from gk_planner.ros import conversions, parameters
from gk_planner.ros.drive import make_driver
from gk_planner.ros.error_codes import error_code
from gk_planner.ros.pose_source import listen
from gk_planner.ros.process import run_node
from gk_planner.ros.publisher import Publisher
from gk_planner.ros.worker import Worker
from gk_planner.task_runner import TaskRunner
from gk_planner_interfaces.action import ExecuteTask
from gk_planner_interfaces.msg import TaskSpec
from gk_planner_interfaces.srv import CompleteGoal, Reground, SetTask

_TICK = 0.1


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
        self._has_map = False
        self._pose_time: float | None = None
        self._task_file = self.config.task_file
        self._waiting: dict[str, tuple[threading.Event, list[GkPlannerError | None]]] = {}
        self._finished: dict[str, Execution] = {}
        self._warned_frames: set[str] = set()
        self._publisher = Publisher(self, lambda: self._runner.cost_to_go, self._ended)
        self._runner = TaskRunner(
            self._publisher, self._worker.submit, config=parameters.read(self, Config),
            monitor_config=parameters.read(self, MonitorConfig),
            failure_policy=self.config.failure_policy,
            start_tolerance=None if self.config.start_tolerance < 0
            else self.config.start_tolerance)
        self._poll_pose = lambda frame: None
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
            self.create_service(kind, f'~/{name}', callback, callback_group=requests)
        self._action = ActionServer(
            self, ExecuteTask, '~/execute_task', self._execute_task, callback_group=requests,
            cancel_callback=lambda _: CancelResponse.ACCEPT)

    # Lifecycle.

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Listen to map and pose."""
        world = MutuallyExclusiveCallbackGroup()
        latched = QoSProfile(depth=1, durability=(
            DurabilityPolicy.TRANSIENT_LOCAL if self.config.map_subscribe_transient_local
            else DurabilityPolicy.VOLATILE))
        try:
            self._publisher.driver = make_driver(self.config.drive_mode, self, self._drive_failed)
            self._poll_pose = listen(self, self.config.pose_source, self.config.robot_frame,
                                     world, self._pose)
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

    # The world.

    def _map(self, message: OccupancyGrid) -> None:
        try:
            grid_map = conversions.map_from_msg(message)
        except GkPlannerError as error:
            self.get_logger().error(f'map ignored: {error.message}')
            return
        with self._lock:
            self._publisher.map_frame = message.header.frame_id or 'map'
            self._runner.set_map(grid_map, self._map_taken)

    def _map_taken(self, error: GkPlannerError | None) -> None:
        if error is not None:
            self.get_logger().error(f'map ignored: {error.message}')
            return
        self._has_map = True

    def _pose(self, pose: tuple[float, float, float], frame: str) -> None:
        with self._lock:
            expected = self._publisher.map_frame
            if frame not in ('', expected):
                if frame not in self._warned_frames:
                    self._warned_frames.add(frame)
                    self.get_logger().error(
                        f"pose refused: it is in frame '{frame}', the map in '{expected}'")
                return
            if not all(math.isfinite(value) for value in pose):
                return
            self._pose_time = self._now()
            self._publisher.robot_position = pose[:2]
            self._publisher.robot_yaw = pose[2]
            self._runner.pose(self._pose_time, pose[:2])

    def _tick(self) -> None:
        self._poll_pose(self._publisher.map_frame)
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
            self._runner.set_task(Task.from_file(file), reply)
        except GkPlannerError as error:
            self.get_logger().error(f'task_file: {error.message}')

    def _say_status(self) -> None:
        with self._lock:
            execution = self._runner.execution
            self._publisher.status_changed(execution)
            age = None if self._pose_time is None else self._now() - self._pose_time
            self._publisher.diagnose(execution, active=self._is_active, has_map=self._has_map,
                                     pose_age=age)

    def _drive_failed(self, reason: str) -> None:
        with self._lock:
            self._runner.option_failed(reason)

    # Requests.

    def _set_task(self, request: SetTask.Request, response: SetTask.Response) -> SetTask.Response:
        plan, error, task_id, task = self._plan(request.task, dry_run=request.dry_run)
        response.task_id = task_id
        if plan is not None and task is not None:
            response.plan = conversions.plan_to_msg(plan, task, task_id, self._publisher.header())
        return _answer(response, error)

    def _plan(self, spec: TaskSpec, *, dry_run: bool = False, wanted: Any = lambda: True,
              ) -> tuple[Plan | None, GkPlannerError | None, str, Task | None]:
        """Wait for the planning of a task."""
        answered = threading.Event()
        answer: list[Any] = []

        def reply(plan: Plan | None, error: GkPlannerError | None, task_id: str) -> None:
            answer.extend((plan, error, task_id))
            if task_id:
                self._waiting[task_id] = (threading.Event(), [])
            answered.set()

        try:
            self._check_active()
            self._check_frame(spec.header.frame_id)
            task = conversions.task_from_spec(spec, 'task')
        except GkPlannerError as error:
            return None, error, '', None
        with self._lock:
            self._runner.set_task(task, reply, dry_run=dry_run,
                                  still_wanted=lambda: wanted() and not self._is_stopping)
        answered.wait()
        return answer[0], answer[1], answer[2], task

    def _execute_task(self, goal: Any) -> ExecuteTask.Result:
        _, error, task_id, _ = self._plan(goal.request.task,
                                          wanted=lambda: not goal.is_cancel_requested)
        result = ExecuteTask.Result(task_id=task_id)
        if task_id:
            error = self._follow(goal, task_id)
            with self._lock:
                execution = self._finished.pop(task_id)
            result.cost = execution.completed_cost
            result.goals = list(execution.task.goal_names)
            result.goal_states = [int(state) for state in execution.goal_states]
        _answer(result, error)
        if result.success:
            goal.succeed()
        elif goal.is_cancel_requested:
            goal.canceled()
        else:  # a goal that nobody asked to cancel cannot become CANCELED
            goal.abort()
        return result

    def _follow(self, goal: Any, task_id: str) -> GkPlannerError | None:
        """Send feedback until a task has ended; returns why it did not succeed."""
        ended, error = self._waiting[task_id]
        last = None
        # Polled: a goal is CANCELING only after cancel_callback has returned.
        while not ended.wait(0.05):
            with self._lock:
                execution = self._runner.execution
                if execution is None or execution.task_id != task_id:
                    continue
                if goal.is_cancel_requested:
                    self._runner.cancel()
                    continue
                key = (execution.state, tuple(execution.bits), execution.replans)
                status = self._publisher.status(execution)
            if key != last:
                last = key
                goal.publish_feedback(ExecuteTask.Feedback(status=status))
        return error[0]

    def _ended(self, execution: Execution, error: GkPlannerError | None) -> None:
        if execution.state is TaskState.CANCELED and error is None:
            error = CanceledError('the task was canceled')
        elif execution.state is TaskState.FAILED and error is None:
            error = GkPlannerError(execution.message)
        self.get_logger().info(f'{execution.task_id}: {execution.state.name.lower()}'
                               + (f': {error.message}' if error else ''))
        waiting = self._waiting.get(execution.task_id)
        if waiting is not None:
            self._finished[execution.task_id] = execution
            waiting[1].append(error)
            waiting[0].set()

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
            self._check_frame(request.header.frame_id)
        except GkPlannerError as error:
            return _answer(response, error)
        with self._lock:
            self._runner.reground(request.task_id,
                                  [conversions.site_fields(site) for site in request.sites],
                                  request.removed, reply)
        answered.wait()
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
        except ConfigError as error:
            return parameters.refusal(error)
        return SetParametersResult(successful=True)

    def _take_parameters(self, given: list[Parameter]) -> None:
        with self._lock:
            config = parameters.read(self, Config)
            if config != self._runner.config:
                self._runner.set_config(config, self._map_taken)
            self._runner.set_monitor_config(parameters.read(self, MonitorConfig))

    def _check_active(self) -> None:
        if not self._is_active:
            raise NotActiveError('the node is not active')

    def _check_frame(self, frame: str) -> None:
        if frame not in ('', self._publisher.map_frame):
            raise FrameError(f"the task is in frame '{frame}', the map in "
                             f"'{self._publisher.map_frame}'")

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
