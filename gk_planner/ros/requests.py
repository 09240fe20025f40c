"""Requests: the services and the action. Each converts, calls the core, waits, answers.

A request that waits for planning waits in a thread of its own and without the lock.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import threading
from typing import Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_srvs.srv import Trigger

from gk_planner.boolean_task import Task
from gk_planner.errors import (
    CanceledError,
    FrameError,
    GkPlannerError,
    NotActiveError,
    NotReadyError,
    ShutdownError,
)
from gk_planner.execution import Execution
from gk_planner.results import Plan
from gk_planner.ros import conversions
from gk_planner.ros.error_codes import error_code
from gk_planner.ros.frames import Frames
from gk_planner.ros.publisher import Publisher
from gk_planner.task_runner import TaskRunner
from gk_planner_interfaces.action import ExecuteTask
from gk_planner_interfaces.msg import TaskSpec, TaskStatus
from gk_planner_interfaces.srv import CompleteGoal, Reground, SetTask

_LAST_ANSWERS = 5.0  # [s]
_MAX_WAITING = 16
# Of the requests that come at once; with the usual depth of 10 the oldest of them would be lost.
_QUEUE = QoSProfile(depth=200)


class _Follower:
    """A goal of the action, and what became of its task."""

    def __init__(self, goal: Any) -> None:
        self.goal = goal
        self.ended = threading.Event()
        self.execution: Execution | None = None


class Requests:
    """Answers requests to a node.

    Services: ``~/set_task``, ``~/reground``, ``~/complete_goal``, ``~/cancel``, ``~/pause``,
    ``~/resume``. Action: ``~/execute_task``.

    Parameters
    ----------
    node : Node
        Whose services these are.
    lock : threading.RLock
        Guards the runner and the publisher.
    runner, publisher, frames : TaskRunner, Publisher, Frames
        What answers are made of.
    is_active : callable
        Whether requests are served at all.

    """

    def __init__(self, node: Node, lock: threading.RLock, runner: TaskRunner,
                 publisher: Publisher, frames: Frames, is_active: Callable[[], bool]) -> None:
        self._lock, self._runner = lock, runner
        self._publisher, self._frames, self._is_active = publisher, frames, is_active
        publisher.tell(self._said, self._ended)
        self._followers: dict[str, _Follower] = {}
        self._line = threading.BoundedSemaphore(_MAX_WAITING)
        self._count = 0
        self._answered = threading.Condition()
        group = ReentrantCallbackGroup()
        for name, kind, callback in (
                ('set_task', SetTask, self._set_task), ('reground', Reground, self._reground),
                ('complete_goal', CompleteGoal, self._complete_goal),
                ('cancel', Trigger, self._trigger(
                    runner.cancel, 'canceled', 'nothing is running')),
                ('pause', Trigger, self._trigger(runner.pause, 'paused', 'nothing to pause')),
                ('resume', Trigger, self._trigger(
                    runner.resume, 'resumed', 'nothing is paused'))):
            node.create_service(kind, f'~/{name}', self._counted(callback), callback_group=group,
                                qos_profile=_QUEUE)
        self._action = ActionServer(
            node, ExecuteTask, '~/execute_task', self._counted(self._execute_task),
            callback_group=group, cancel_callback=lambda _: CancelResponse.ACCEPT,
            goal_service_qos_profile=_QUEUE, result_service_qos_profile=_QUEUE,
            cancel_service_qos_profile=_QUEUE)

    def finish(self) -> None:
        """Wait until all requests are answered, which a canceled runner makes sure of."""
        with self._answered:
            self._answered.wait_for(lambda: not self._count, timeout=_LAST_ANSWERS)
        for follower in list(self._followers.values()):  # left behind by a bug
            follower.ended.set()

    def close(self) -> None:
        """Destroy the action server."""
        self._action.destroy()

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
            return self._is_active() and not (follower and follower.goal.is_cancel_requested)

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
            if execution is None:
                goal.abort()
                return _answer(result, ShutdownError('the node was shut down'))
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

    def _trigger(self, action: Callable[[], bool], done: str, idle: str) -> Callable[..., Any]:
        def answer(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            try:
                self._check_active()
            except NotActiveError as error:
                response.message = error.message
                return response
            with self._lock:
                response.success = action()
            response.message = done if response.success else idle
            return response
        return answer

    def _counted(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Count the requests that are being answered, for an end that leaves nobody waiting."""
        def answer(*arguments: Any) -> Any:
            with self._answered:
                self._count += 1
            try:
                return callback(*arguments)
            finally:
                with self._answered:
                    self._count -= 1
                    self._answered.notify_all()
        return answer

    def _check_active(self) -> None:
        if not self._is_active():
            raise NotActiveError('the node is not active')

    def _or_not_active(self, error: GkPlannerError | None) -> GkPlannerError | None:
        """Say why planning was canceled if it was because of deactivation."""
        if isinstance(error, CanceledError) and not self._is_active():
            return NotActiveError('the node is not active any more')
        return error

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


def _answer(response: Any, error: GkPlannerError | None) -> Any:
    response.success = error is None
    response.error_code = error_code(error)
    response.message = error.message if error is not None else ''
    return response
