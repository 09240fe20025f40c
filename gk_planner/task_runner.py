"""The task runner: map, pose and requests in; plans, statuses and commands out. No ROS in here.

It joins planning, the execution of one task and the monitor. Planning happens beside the caller,
so every method returns at once; a plan counts only if it is for what is still to be done when it
is there.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
import itertools
import math
from typing import Any, Protocol

from gk_planner.boolean_task import Site, Task
from gk_planner.config import Config
from gk_planner.contact import ContactSensor
from gk_planner.errors import (
    CanceledError,
    GkPlannerError,
    InfeasibleError,
    InputError,
    NotReadyError,
    PreemptedError,
    StalledError,
    StartError,
    UnknownTaskError,
)
from gk_planner.execution import Execution, Next, TaskState
from gk_planner.monitor import Event, Monitor, MonitorConfig
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.planner import regrounded
from gk_planner.planning import PlanningQueue, Submit, Taken
from gk_planner.results import Plan, PlannedOption, Point

PlanReply = Callable[[Plan | None, GkPlannerError | None, str], None]
RegroundReply = Callable[[Plan | None, GkPlannerError | None, bool], None]
_Place = tuple[str, str, Point, float | None]  # goal, site, position, yaw


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

    def ended(self, execution: Execution) -> None:
        """A task has ended in the state it says, because of its error if there is one."""

    def warn(self, text: str) -> None:
        """Log a warning."""


class TaskRunner:
    """Carries out one task at a time.

    Parameters
    ----------
    listener : Listener
        Where results go.
    submit : callable
        See :class:`gk_planner.planning.PlanningQueue`.
    config, monitor_config : Config, MonitorConfig
        Settings of planning and of watching.
    failure_policy : str
        See :class:`gk_planner.execution.Execution`.
    start_tolerance : float or None
        How far a robot in a blocked cell may be from a free one; None: ``robot_radius`` plus one
        cell.

    """

    def __init__(self, listener: Listener, submit: Submit, *, config: Config | None = None,
                 monitor_config: MonitorConfig | None = None, failure_policy: str = 'replan',
                 start_tolerance: float | None = None) -> None:
        self._listener = listener
        self._planning = PlanningQueue(submit, config or Config(), start_tolerance)
        self._monitor = Monitor(monitor_config)
        self.failure_policy = failure_policy
        self._position: Point | None = None
        self._now = 0.0
        self.execution: Execution | None = None
        self._candidates: list[Execution] = []  # being planned for the first time
        self._regrounds: deque[Callable[[], None]] = deque()
        self._contact: ContactSensor | None = None
        self._numbers = itertools.count(1)
        self._generation = 0  # of plans for the running task
        self._epoch = 0       # of requests; cancel ends all of them

    @property
    def config(self) -> Config:
        """Settings of planning."""
        return self._planning.config

    @property
    def is_ready(self) -> bool:
        """Whether there is a map and a position to plan from."""
        return self._planning.planner is not None and self._position is not None

    @property
    def is_planning(self) -> bool:
        """Whether a task is being planned for the first time."""
        return bool(self._candidates)

    @property
    def pose_is_stale(self) -> bool:
        """Whether no position has come for too long."""
        return self._monitor.is_stale

    @property
    def shown(self) -> Execution | None:
        """The task to speak of: the running one, else one being planned, else the last one."""
        candidates = [candidate for candidate in self._candidates if candidate.task_id]
        is_running = self.execution is not None and not self.execution.has_ended
        return self.execution if is_running or not candidates else candidates[0]

    @property
    def cost_to_go(self) -> float:
        """Metres from the robot to the end of the plan; 0 without one."""
        options = self.execution.remaining if self.execution is not None else ()
        if not options or self._position is None or options[0].guide is None:
            return 0.0
        to_go = options[0].guide.metres_to_go(self._position) + self.config.option_cost
        return to_go + sum(option.cost for option in options[1:])

    # What the world tells.

    def set_map(self, grid_map: OccupancyMap, taken: Taken = lambda error: None) -> None:
        """Take a map; the running task is planned anew on it, its bits kept."""
        if not self._planning.set_map(
                grid_map, lambda error: self._built(error, taken, 'the map changed')):
            taken(None)

    def set_config(self, config: Config, taken: Taken = lambda error: None) -> None:
        """Take other settings; base space and plan are made anew."""
        self._planning.set_config(
            config, lambda error: self._built(error, taken, 'settings changed'))

    def set_monitor_config(self, config: MonitorConfig) -> None:
        """Take other radii and times."""
        self._monitor.config = config

    def pose(self, now: float, position: Point) -> None:
        """Take the position of the robot."""
        self._now, self._position = now, position
        execution = self.execution
        if self._contact is not None and execution is not None:
            for goal in self._contact.touched(position, execution.bits):
                if execution.state is TaskState.EXECUTING:
                    self._after(execution, self._touched(execution, goal))
        for event in self._monitor.pose(now, position):
            self._react(event)
        if execution is not None and execution.state is TaskState.INFEASIBLE and (
                isinstance(execution.error, StartError) and self._planning.can_start(position)):
            execution.state = TaskState.PLANNING
            self._replan(execution, 'the robot can start again')

    def forget_pose(self) -> None:
        """What was known of the position holds no longer."""
        self._position = None

    def tick(self, now: float) -> None:
        """Let time pass."""
        self._now = now
        for event in self._monitor.tick(now):
            self._react(event)

    # What others ask for.

    def set_task(self, task: Task, reply: PlanReply, *, dry_run: bool = False,
                 still_wanted: Callable[[], bool] = lambda: True) -> str:
        """Plan a task and, unless ``dry_run``, put it in the place of the running one.

        On any error the running task goes on undisturbed. ``still_wanted`` may turn false at any
        time before the reply, which stops planning. Returns the name that the task will have,
        none for a dry run.
        """
        task_id = '' if dry_run else f'task-{next(self._numbers)}'
        candidate = Execution(task_id, task, self.failure_policy)

        def outcome(plan: Plan | None, error: GkPlannerError | None) -> None:
            was_shown = self.shown is candidate
            if candidate in self._candidates:
                self._candidates.remove(candidate)
            if plan is not None and not dry_run:
                self._begin(candidate)
                reply(plan, None, task_id)
                self._after(candidate, candidate.planned(plan))
                return
            reply(plan, error, '')
            if was_shown:
                self._listener.status_changed(self.shown)

        self._candidates.append(candidate)
        if self.shown is candidate:
            self._listener.status_changed(candidate)
        epoch = self._epoch
        self._planning.plan(task, self._position,
                            lambda: epoch == self._epoch and still_wanted(), outcome)
        return task_id

    def reground(self, task_id: str, sites: Iterable[Mapping[str, Any]], removed: Iterable[str],
                 reply: RegroundReply) -> None:
        """Move, add or remove sites of the running task and plan it anew.

        Requests are served one after another, each on the sites that the one before left.
        """
        given, gone = list(sites), list(removed)

        def serve() -> None:
            try:
                execution = self._running(task_id)
                new_sites = regrounded(execution.task, given, gone, None).sites
            except GkPlannerError as error:
                answer(None, error, False)
                return
            self._plan_on_sites(execution, new_sites, answer)

        def answer(plan: Plan | None, error: GkPlannerError | None, changed: bool) -> None:
            reply(plan, error, changed)
            self._regrounds.popleft()
            if self._regrounds:
                self._regrounds[0]()

        self._regrounds.append(serve)
        if len(self._regrounds) == 1:
            serve()

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

    def option_failed(self, error: GkPlannerError) -> None:
        """The robot gave up the current option; the failure policy decides."""
        execution = self.execution
        if execution is not None and execution.state is TaskState.EXECUTING:
            self._after(execution, execution.option_failed(error))

    def cancel(self, task_id: str = '', error: CanceledError | None = None) -> bool:
        """End the running task and all planning, or only the task that is named.

        ``error`` says why. Returns whether there was anything to end.
        """
        execution = self.execution
        is_running = execution is not None and not execution.has_ended and (
            task_id in ('', execution.task_id))
        was_planning = not task_id and bool(self._candidates)
        if not task_id:
            self._epoch += 1
            self._candidates.clear()
        if is_running and execution is not None:
            self._generation += 1
            self._after(execution, execution.cancel(error))
        elif was_planning:
            self._listener.status_changed(self.shown)
        return is_running or was_planning

    def pause(self) -> bool:
        """Stop driving and keep all bits."""
        if self.execution is None or not self.execution.pause():
            return False
        self._generation += 1
        self._monitor.stop()
        # Plan and waypoints stay; whoever follows the path stops where it ends.
        self._listener.path_changed(())
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

    def _built(self, error: GkPlannerError | None, taken: Taken, reason: str) -> None:
        taken(error)
        execution = self.execution
        if error is None and execution is not None and execution.state in (
                TaskState.EXECUTING, TaskState.INFEASIBLE, TaskState.PLANNING):
            self._replan(execution, reason)

    def _replan(self, execution: Execution, reason: str) -> None:
        self._generation += 1
        generation = self._generation

        def outcome(plan: Plan | None, error: GkPlannerError | None) -> None:
            if isinstance(error, CanceledError):
                return
            if plan is not None:
                self._adopt(execution, plan, reason)
            elif isinstance(error, InfeasibleError):
                self._cannot_go_on(execution, error)
            elif isinstance(error, InputError | NotReadyError):
                # The map or the place of the robot; they may be better in a moment.
                self._wait(execution, error)
            elif error is not None:
                self._after(execution, execution.fail(error))

        self._plan_what_is_left(execution, execution.task_to_plan,
                                lambda: generation == self._generation, outcome)

    def _plan_on_sites(self, execution: Execution, sites: tuple[Site, ...],
                       reply: RegroundReply) -> None:
        def task_to_plan() -> Task:
            trial = Execution(execution.task_id, execution.task)
            trial.bits, trial.skipped = execution.bits, execution.skipped
            trial.failed_sites = execution.failed_sites
            trial.reground(sites)
            return trial.task_to_plan()

        def outcome(plan: Plan | None, error: GkPlannerError | None) -> None:
            if plan is None:
                if execution is not self.execution:
                    error = PreemptedError('reground: another task has taken the place')
                reply(None, error, False)
                return
            before = _places(execution, execution.remaining)
            execution.reground(sites)
            changed = self._adopt(execution, plan, 'a site was regrounded', before)
            reply(plan, None, changed)

        self._plan_what_is_left(execution, task_to_plan, lambda: True, outcome)

    def _plan_what_is_left(self, execution: Execution, task_to_plan: Callable[[], Task],
                           still_wanted: Callable[[], bool],
                           outcome: Callable[[Plan | None, GkPlannerError | None], None]) -> None:
        """Plan for a running task; once more if the robot or others did something meanwhile."""
        task = task_to_plan()

        def is_wanted() -> bool:
            return execution is self.execution and not execution.has_ended and still_wanted()

        def checked(plan: Plan | None, error: GkPlannerError | None) -> None:
            if is_wanted() and task_to_plan() != task:
                self._plan_what_is_left(execution, task_to_plan, still_wanted, outcome)
            else:
                outcome(plan, error)

        self._planning.plan(task, self._position, is_wanted, checked)

    def _adopt(self, execution: Execution, plan: Plan, reason: str,
               places: Sequence[_Place] | None = None) -> bool:
        """Take a new plan for the running task; it is published only if it differs.

        ``places`` are those of the options before, if the sites have changed since.
        """
        if places is None:
            places = _places(execution, execution.remaining)
        counted = execution.replans, execution.replan_reason
        to_go = self.cost_to_go
        following = execution.planned(plan, reason)
        if following is Next.DRIVE and places == _places(execution, plan.options) and (
                math.isclose(to_go, self.cost_to_go, abs_tol=1e-9)):
            execution.replans, execution.replan_reason = counted
            self._watch(execution)
            self._listener.status_changed(execution)
            return False
        self._after(execution, following)
        return True

    def _cannot_go_on(self, execution: Execution, error: InfeasibleError) -> None:
        names = {part['name'] for part in error.conflicts if part['kind'] == 'site'}
        goals = {goal for site, goal in zip(execution.task.sites, execution.task.site_goals,
                                            strict=True) if site.name in names}
        following = Next.NOTHING
        if execution.failure_policy == 'skip':
            following = execution.skip(goals)
        if following is Next.NOTHING:
            given_up = ', '.join(f"'{site}' ({reason})" for site, reason in
                                 sorted(execution.failed_sites.items()))
            self._wait(execution, InfeasibleError(
                error.message + (f'; given up: {given_up}' if given_up else ''),
                error.conflicts), goals)
        else:
            self._after(execution, following)

    def _wait(self, execution: Execution, error: GkPlannerError,
              goals: Iterable[int] = ()) -> None:
        """Wait for a better world, or fail if the policy says so."""
        following = execution.infeasible(error, goals)
        if following is Next.NOTHING:
            self._halt(execution)
        else:
            self._after(execution, following)

    def _touched(self, execution: Execution, goal: int) -> Next:
        current = execution.current
        if current is not None and current.goal == execution.task.goal_names[goal]:
            return execution.arrived()
        return execution.reported(goal, not execution.bits[goal])

    def _begin(self, execution: Execution) -> None:
        old = self.execution
        if old is not None and not old.has_ended:
            old.cancel(PreemptedError('another task has taken its place'))
            self._listener.status_changed(old)
            self._listener.ended(old)
        self.execution = execution

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
            if execution.current is None:
                self._monitor.stop()
            self._listener.status_changed(execution)
            if execution.state is not TaskState.PAUSED:
                self._replan(execution, execution.reason)
        elif following is Next.FINISH:
            self._halt(execution)
            self._listener.ended(execution)

    def _halt(self, execution: Execution) -> None:
        """Stop the robot and withdraw the plan."""
        self._monitor.stop()
        self._contact = None
        self._listener.plan_changed(None)
        self._listener.drive(None)
        self._listener.status_changed(execution)

    def _watch(self, execution: Execution) -> None:
        option, planner = execution.current, self._planning.planner
        if execution.state is not TaskState.EXECUTING or option is None or option.guide is None:
            return
        if execution.task.trigger != 'contact' or planner is None:
            self._contact = None
        elif self._contact is None or self._contact.space is not planner.base_space or (
                self._contact.task is not execution.task):
            self._contact = ContactSensor(planner.base_space, execution.task, self._position)
        self._monitor.watch(self._now, option.guide.metres_to_go, option.path)
        self._publish_path(execution, option.path)

    def _publish_path(self, execution: Execution, first: Sequence[Point]) -> None:
        """Publish the way ahead; where the robot has to stay, or to be exactly, it ends."""
        path = list(first)
        if self._monitor.config.dwell_time == 0 and execution.task.trigger == 'action':
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
            if self._contact is None:
                self._after(execution, execution.arrived())
        elif event is Event.STALLED:
            self.option_failed(StalledError('no progress'))
        elif event is Event.OFF_PATH and self._position is not None:
            guide = execution.current.guide
            path = guide.path_from(self._position) if guide is not None else ()
            if path:
                self._monitor.new_path(path)
                self._publish_path(execution, path)


def _places(execution: Execution, options: Sequence[PlannedOption]) -> list[_Place]:
    yaw = {site.name: site.yaw for site in execution.task.sites}
    return [(option.goal, option.site, option.position, yaw.get(option.site))
            for option in options]


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
