"""The task runner: map, pose and requests in; plans, statuses and commands out. No ROS in here.

It joins the planner, the execution of one task and the monitor. Planning happens in jobs handed to
``submit``, which runs them one after another beside the caller and brings each outcome back to the
caller's thread; so every method returns at once. Only the newest plan for a task counts: an
older job meets its checkpoint and stops.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import itertools
from typing import Any, Protocol

import numpy as np

from gk_planner.annotations import Annotations
from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.contact import ContactSensor
from gk_planner.errors import (
    CanceledError,
    GkPlannerError,
    InfeasibleError,
    NoMapError,
    NoPoseError,
    PreemptedError,
    UnknownTaskError,
)
from gk_planner.execution import Execution, Next, TaskState
from gk_planner.monitor import Event, Monitor, MonitorConfig
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.planner import Planner, regrounded
from gk_planner.results import Plan, PlannedOption, Point

Job = Callable[[], Any]
Outcome = Callable[[Any, GkPlannerError | None], None]
PlanReply = Callable[[Plan | None, GkPlannerError | None, str], None]
RegroundReply = Callable[[Plan | None, GkPlannerError | None, bool], None]


class Listener(Protocol):
    """Who wants to know; each call comes from the caller's thread."""

    def plan_changed(self, execution: Execution | None) -> None:
        """Publish the plan, or that there is none any more."""

    def path_changed(self, path: Sequence[Point]) -> None:
        """Publish the path ahead: every step, starting at the robot."""

    def status_changed(self, execution: Execution | None) -> None:
        """Publish the status."""

    def drive(self, option: PlannedOption | None, execution: Execution | None = None) -> None:
        """Send the robot to the place of an option of a task, or stop it."""

    def ended(self, execution: Execution, error: GkPlannerError | None) -> None:
        """A task has ended in the state it says, because of the error if there is one."""

    def warn(self, text: str) -> None:
        """Log a warning."""


class TaskRunner:
    """Carries out one task at a time.

    Parameters
    ----------
    listener : Listener
        Where results go.
    submit : callable
        ``submit(job, outcome)`` runs ``job`` beside the caller, one at a time and in order, and
        then calls ``outcome(result, error)`` in the caller's thread.
    config, monitor_config : Config, MonitorConfig
        Settings of planning and of watching.
    failure_policy : str
        See :class:`gk_planner.execution.Execution`.
    start_tolerance : float or None
        How far a robot in a blocked cell may be from a free one; None: ``robot_radius`` plus one
        cell.

    """

    def __init__(self, listener: Listener, submit: Callable[[Job, Outcome], None], *,
                 config: Config | None = None, monitor_config: MonitorConfig | None = None,
                 failure_policy: str = 'replan', start_tolerance: float | None = None) -> None:
        self._listener = listener
        self._submit = submit
        self._config = config or Config()
        self._monitor = Monitor(monitor_config)
        self.failure_policy = failure_policy
        self._start_tolerance = start_tolerance
        self._planner: Planner | None = None
        self._grid_map: OccupancyMap | None = None
        self._position: Point | None = None
        self._now = 0.0
        self.execution: Execution | None = None
        self._contact: ContactSensor | None = None
        self._numbers = itertools.count(1)
        self._generation = 0  # of plans for the running task
        self._epoch = 0       # of requests; cancel ends all of them

    @property
    def config(self) -> Config:
        """Settings of planning."""
        return self._config

    @property
    def is_ready(self) -> bool:
        """Whether there is a map and a position to plan from."""
        return self._planner is not None and self._position is not None

    @property
    def position(self) -> Point | None:
        """Where the robot was seen last."""
        return self._position

    @property
    def cost_to_go(self) -> float:
        """Metres from the robot to the end of the plan; 0 without one."""
        options = self.execution.remaining if self.execution is not None else ()
        if not options or self._position is None or options[0].guide is None:
            return 0.0
        to_go = options[0].guide.metres_to_go(self._position) + self._config.option_cost
        return to_go + sum(option.cost for option in options[1:])

    # What the world tells.

    def set_map(self, grid_map: OccupancyMap,
                done: Callable[[GkPlannerError | None], None] = lambda error: None) -> None:
        """Take a map; the running task is planned anew on it, its bits kept."""
        old = self._grid_map
        if old is not None and old.resolution == grid_map.resolution and (
                old.origin == grid_map.origin and np.array_equal(old.data, grid_map.data)):
            done(None)
            return
        self._grid_map = grid_map
        self._build(done, 'the map changed')

    def set_config(self, config: Config,
                   done: Callable[[GkPlannerError | None], None] = lambda error: None) -> None:
        """Take other settings; base space and plan are made anew."""
        self._config = config
        if self._grid_map is not None:
            self._build(done, 'settings changed')

    def set_monitor_config(self, config: MonitorConfig) -> None:
        """Take other radii and times."""
        self._monitor.config = config

    def pose(self, now: float, position: Point) -> None:
        """Take the position of the robot."""
        self._now, self._position = now, position
        execution = self.execution
        if self._contact is not None and execution is not None and (
                execution.state is TaskState.EXECUTING):
            for goal in self._contact.touched(position, execution.bits):
                self._after(execution, execution.reported(goal, not execution.bits[goal]))
        for event in self._monitor.pose(now, position):
            self._react(event)

    def tick(self, now: float) -> None:
        """Let time pass."""
        self._now = now
        for event in self._monitor.tick(now):
            self._react(event)

    # What others ask for.

    def set_task(self, task: Task, reply: PlanReply, *, dry_run: bool = False,
                 still_wanted: Callable[[], bool] = lambda: True) -> None:
        """Plan a task and, unless ``dry_run``, put it in the place of the running one.

        On any error the running task goes on undisturbed. ``still_wanted`` may turn false at any
        time before the reply, which stops planning.
        """
        def outcome(plan: Plan | None, error: GkPlannerError | None) -> None:
            if plan is None or dry_run:
                reply(plan, error, '')
                return
            execution = self._begin(task)
            reply(plan, None, execution.task_id)
            self._after(execution, execution.planned(plan))

        epoch = self._epoch
        self._request_plan(task, lambda: epoch == self._epoch and still_wanted(), outcome)

    def reground(self, task_id: str, sites: Iterable[Mapping[str, Any]], removed: Iterable[str],
                 reply: RegroundReply) -> None:
        """Move, add or remove sites of the running task and plan it anew."""
        try:
            execution = self._running(task_id)
            new_sites = regrounded(execution.task, sites, removed, None).sites
        except GkPlannerError as error:
            reply(None, error, False)
            return
        trial = Execution(execution.task_id, execution.task)
        trial.bits, trial.skipped = list(execution.bits), set(execution.skipped)
        trial.failed_sites = set(execution.failed_sites)
        trial.reground(new_sites)

        def outcome(plan: Plan | None, error: GkPlannerError | None) -> None:
            if plan is None or execution is not self.execution:
                reply(None, error or PreemptedError('reground: another task is running'), False)
                return
            execution.reground(new_sites)
            changed = _differs(plan, execution.remaining)
            self._adopt(execution, plan, 'a site was regrounded')
            reply(plan, None, changed)

        self._generation += 1
        self._request_plan(trial.task_to_plan(), self._newest(execution), outcome)

    def complete_goal(self, task_id: str, goal: str, done: bool) -> list[str]:
        """Take over what the world reports; returns warnings.

        Raises
        ------
        UnknownTaskError
            If the task or the goal is not known.

        """
        execution = self._running(task_id)
        if goal not in execution.task.goal_names:
            raise UnknownTaskError(f"complete_goal: the task has no goal '{goal}'")
        index = execution.task.goal_names.index(goal)
        warnings = _odd_report(execution, index, done)
        for warning in warnings:
            self._listener.warn(warning)
        self._after(execution, execution.reported(index, done))
        return warnings

    def option_failed(self, reason: str) -> None:
        """The robot gave up the current option; the failure policy decides."""
        execution = self.execution
        if execution is not None and execution.state is TaskState.EXECUTING:
            self._monitor.stop()
            self._after(execution, execution.option_failed(reason))

    def cancel(self) -> bool:
        """End the running task and all planning; returns whether there was anything to end."""
        self._epoch += 1
        self._generation += 1
        execution = self.execution
        if execution is None or execution.has_ended:
            return False
        self._after(execution, execution.cancel())
        return True

    def pause(self) -> bool:
        """Stop driving and keep all bits."""
        if self.execution is None or not self.execution.pause():
            return False
        self._generation += 1
        self._monitor.stop()
        self._listener.drive(None)
        self._listener.status_changed(self.execution)
        return True

    def resume(self) -> bool:
        """Go on, planned anew from where the robot is."""
        if self.execution is None or not self.execution.resume():
            return False
        self._listener.status_changed(self.execution)
        self._replan(self.execution, 'resumed')
        return True

    # How it comes about.

    def _build(self, done: Callable[[GkPlannerError | None], None], reason: str) -> None:
        grid_map, config = self._grid_map, self._config

        def job() -> None:
            assert grid_map is not None
            self._planner = Planner(BaseSpace(grid_map, config, _annotations(config)))

        def outcome(_: None, error: GkPlannerError | None) -> None:
            done(error)
            execution = self.execution
            if error is None and execution is not None and execution.state in (
                    TaskState.EXECUTING, TaskState.INFEASIBLE, TaskState.PLANNING):
                self._replan(execution, reason)

        self._submit(job, outcome)

    def _request_plan(self, task: Task, still_wanted: Callable[[], bool],
                      outcome: Callable[[Plan | None, GkPlannerError | None], None]) -> None:
        position, has_map = self._position, self._grid_map is not None

        def checkpoint() -> None:
            if not still_wanted():
                raise CanceledError('planning was canceled')

        def job() -> Plan:
            checkpoint()
            if not has_map or self._planner is None:
                raise NoMapError('no map has been received yet')
            if position is None:
                raise NoPoseError('the position of the robot is not known yet')
            return self._planner.plan(task, position, start_tolerance=self._tolerance(),
                                      checkpoint=checkpoint)

        def checked(plan: Plan | None, error: GkPlannerError | None) -> None:
            if error is None and not still_wanted():
                plan, error = None, CanceledError('planning was canceled')
            outcome(plan, error)

        self._submit(job, checked)

    def _replan(self, execution: Execution, reason: str) -> None:
        self._generation += 1

        def outcome(plan: Plan | None, error: GkPlannerError | None) -> None:
            if execution is not self.execution or isinstance(error, CanceledError):
                return
            if plan is not None:
                self._adopt(execution, plan, reason)
            elif isinstance(error, InfeasibleError):
                self._cannot_go_on(execution, error)
            elif error is not None:
                execution.fail(error.message)
                self._finish(execution, error)

        self._request_plan(execution.task_to_plan(), self._newest(execution), outcome)

    def _newest(self, execution: Execution) -> Callable[[], bool]:
        generation = self._generation
        return lambda: generation == self._generation and execution is self.execution

    def _adopt(self, execution: Execution, plan: Plan, reason: str) -> None:
        """Take a new plan for the running task; it is published only if it differs."""
        unchanged = not _differs(plan, execution.remaining)
        before = execution.replans, execution.replan_reason
        following = execution.planned(plan, reason)
        if unchanged and following is Next.DRIVE:
            execution.replans, execution.replan_reason = before
            self._watch(execution)
            self._listener.status_changed(execution)
        else:
            self._after(execution, following)

    def _cannot_go_on(self, execution: Execution, error: InfeasibleError) -> None:
        if execution.failure_policy == 'skip':
            names = {part['name'] for part in error.conflicts if part['kind'] == 'site'}
            goals = {execution.task.site_goals[index]
                     for index, site in enumerate(execution.task.sites) if site.name in names}
            following = execution.skip(goals)
            if following is not Next.NOTHING:
                self._after(execution, following)
                return
        given_up = ', '.join(sorted(execution.failed_sites))
        execution.infeasible(error.message + (f'; given up: {given_up}' if given_up else ''))
        self._finish(execution, error)

    def _begin(self, task: Task) -> Execution:
        if self.execution is not None and not self.execution.has_ended:
            old = self.execution
            old.cancel()
            self._listener.ended(old, PreemptedError('another task has taken its place'))
        self._generation += 1
        self.execution = Execution(f'task-{next(self._numbers)}', task, self.failure_policy)
        return self.execution

    def _running(self, task_id: str) -> Execution:
        execution = self.execution
        if execution is None or execution.has_ended:
            raise UnknownTaskError('no task is running')
        if task_id not in ('', execution.task_id):
            raise UnknownTaskError(f"task '{task_id}' is not running; '{execution.task_id}' is")
        return execution

    def _after(self, execution: Execution, following: Next) -> None:
        if following is Next.DRIVE:
            self._listener.plan_changed(execution)
            if execution.state is TaskState.EXECUTING:
                self._watch(execution)
                self._listener.drive(execution.current, execution)
            self._listener.status_changed(execution)
        elif following is Next.REPLAN:
            self._listener.status_changed(execution)
            if execution.state is not TaskState.PAUSED:
                self._replan(execution, execution.replan_reason)
        elif following is Next.FINISH:
            self._finish(execution, None)

    def _finish(self, execution: Execution, error: GkPlannerError | None) -> None:
        self._monitor.stop()
        self._contact = None
        self._listener.plan_changed(None)
        self._listener.drive(None)
        self._listener.status_changed(execution)
        self._listener.ended(execution, error)

    def _watch(self, execution: Execution) -> None:
        option = execution.current
        if option is None or option.guide is None:
            return
        if execution.task.trigger == 'contact' and self._planner is not None:
            if self._contact is None or self._contact.space is not self._planner.base_space:
                self._contact = ContactSensor(self._planner.base_space, execution.task)
            self._monitor.stop()
        else:
            self._contact = None
            self._monitor.watch(self._now, option.guide.metres_to_go, option.path)
        self._publish_path(execution, option.path)

    def _publish_path(self, execution: Execution, first: Sequence[Point]) -> None:
        """Publish the way ahead; where the robot has to stay the path ends."""
        path = list(first)
        if self._monitor.config.dwell_time == 0:
            for option in execution.remaining[1:]:
                path += option.path[1:]
        self._listener.path_changed(path)

    def _react(self, event: Event) -> None:
        execution = self.execution
        if event is Event.POSE_STALE:
            self._listener.warn('the position of the robot is stale')
        elif event is Event.POSE_BACK:
            self._listener.warn('the position of the robot is back')
        elif execution is None or execution.current is None:
            return
        elif event is Event.ARRIVED:
            self._after(execution, execution.arrived())
        elif event is Event.STALLED:
            self.option_failed('no progress')
        elif event is Event.OFF_PATH and self._position is not None:
            guide = execution.current.guide
            path = guide.path_from(self._position) if guide is not None else ()
            if path:
                self._monitor.new_path(path)
                self._publish_path(execution, path)

    def _tolerance(self) -> float:
        if self._start_tolerance is not None:
            return self._start_tolerance
        resolution = self._grid_map.resolution if self._grid_map is not None else 0.0
        return self._config.robot_radius + resolution


def _differs(plan: Plan, remaining: Sequence[PlannedOption]) -> bool:
    """Whether a plan visits other places than the options that remain."""
    def places(options: Sequence[PlannedOption]) -> list[tuple[str, str, Point]]:
        return [(option.goal, option.site, option.position) for option in options]

    return places(plan.options) != places(remaining)


def _odd_report(execution: Execution, goal: int, done: bool) -> list[str]:
    """Warnings for a report that the rules of the task would not have allowed."""
    task, bits = execution.task, execution.bits
    name = task.goal_names[goal]
    if bits[goal] == done:
        return [f"goal '{name}' is reported {'done' if done else 'not done'}, as it was already"]
    if bits[goal] and goal not in task.reversible:
        return [f"goal '{name}' is irreversible but was reported not done"]
    return [f"goal '{name}' was reported {'done' if done else 'not done'} against "
            f"'{task.constraints[rule.source].text}'" for rule in task.bit_constraints
            if rule.control == goal and rule.control_value == bits[goal]
            and rule.condition_value == bits[rule.condition]]


def _annotations(config: Config) -> Annotations | None:
    return Annotations.from_file(config.annotations_file) if config.annotations_file else None
