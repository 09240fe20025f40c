"""One task being carried out: its bits, its plan, and what each event makes of them.

Pure like the monitor: it is told what happened (a plan is there, the robot arrived, somebody
reports a completion, an option failed) and answers with what is to be done next. Done bits survive
every replan; what the world reports is right even where a constraint would forbid it.
"""

from collections.abc import Iterable
import dataclasses
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from gk_planner.boolean_task import Site, Task
from gk_planner.errors import CanceledError, GkPlannerError
from gk_planner.results import Plan, PlannedOption


class TaskState(IntEnum):
    """State of a task, numbered as in TaskStatus.msg."""

    IDLE = 0
    PLANNING = 1
    EXECUTING = 2
    PAUSED = 3
    SUCCEEDED = 4
    INFEASIBLE = 5
    FAILED = 6
    CANCELED = 7


class GoalState(IntEnum):
    """State of one goal, numbered as in TaskStatus.msg."""

    PENDING = 0
    CURRENT = 1
    DONE = 2
    SKIPPED = 3
    FAILED = 4


class Next(Enum):
    """What is to be done after an event."""

    NOTHING = 'nothing'
    DRIVE = 'drive'    # the current option is a new one
    REPLAN = 'replan'
    FINISH = 'finish'  # the task has ended; see its state


FAILURE_POLICIES = ('replan', 'skip', 'abort')
_ENDED = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELED)


@dataclass(eq=False)
class Execution:
    """Progress of one task.

    Attributes
    ----------
    task_id : str
        Name of this run of the task.
    task : Task
        As given; regrounding replaces its sites.
    failure_policy : str
        What a failed option means: ``replan`` without its site, ``skip`` its goal, ``abort``.
    bits : list of bool
        What is really done.
    skipped : set of int
        Goals given up; planning takes them as done.
    failed_sites : dict of str to str
        Sites that an option failed to reach, and why; left out until they are regrounded.
    error : GkPlannerError or None
        Why the task ended before its formula held, or cannot go on.
    reason : str
        Why it is to be planned again; becomes ``replan_reason`` with the new plan.
    completed_cost : float
        What the completed options were planned to cost, in metres.

    """

    task_id: str
    task: Task
    failure_policy: str = 'replan'
    state: TaskState = TaskState.PLANNING
    bits: list[bool] = field(init=False)
    skipped: set[int] = field(default_factory=set)
    failed_sites: dict[str, str] = field(default_factory=dict)
    failed_goals: set[int] = field(default_factory=set)
    plan: Plan | None = None
    replans: int = 0
    replan_reason: str = ''
    reason: str = ''
    error: GkPlannerError | None = None
    message: str = ''
    completed_cost: float = 0.0
    _position: int = 0

    def __post_init__(self) -> None:
        self.bits = list(self.task.initial_bits)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come of this task."""
        return self.state in _ENDED

    @property
    def current(self) -> PlannedOption | None:
        """The option being carried out, None if there is none."""
        if self.plan is None or self.state not in (TaskState.EXECUTING, TaskState.PAUSED):
            return None
        return self.plan.options[self._position]

    @property
    def remaining(self) -> tuple[PlannedOption, ...]:
        """The current option and those after it."""
        return () if self.current is None or self.plan is None else (
            self.plan.options[self._position:])

    def plan_ahead(self) -> Plan:
        """Return the plan without the options that are done."""
        assert self.plan is not None
        ahead = self.remaining
        cost = sum(option.cost for option in ahead)
        if len(ahead) == len(self.plan.options):
            return self.plan
        return dataclasses.replace(self.plan, options=ahead, cost=cost,
                                   bound=cost if self.plan.optimal else self.plan.bound)

    @property
    def goal_states(self) -> list[GoalState]:
        """State of every goal."""
        current = self.current
        return [self._goal_state(goal, current) for goal in range(len(self.task.goals))]

    def task_to_plan(self) -> Task:
        """Return what is left to do: done and skipped goals as done, failed sites left out."""
        assumed = {goal for goal, bit in enumerate(self.bits) if bit} | self.skipped
        sites = [site for site in self.task.sites if site.name not in self.failed_sites]
        return self.task.replace(sites=sites, done=assumed)

    def planned(self, plan: Plan, reason: str = '') -> Next:
        """Take a new plan; ``reason`` is empty for the first one."""
        if reason:
            self.replans += 1
            self.replan_reason = reason
        self.plan, self._position = plan, 0
        self.message, self.error = '', None
        if not plan.options:
            return self._end(TaskState.SUCCEEDED)
        self._go_on_as(TaskState.EXECUTING)
        return Next.DRIVE

    def infeasible(self, error: GkPlannerError, goals: Iterable[int] = ()) -> Next:
        """There is no plan, because of ``goals``; a new map, grounding or place may change that.

        Bits are kept. Policy ``abort`` does not wait for a better world.
        """
        if self.failure_policy == 'abort':
            self.failed_goals |= set(goals)
            return self.fail(error)
        self.plan, self.error, self.message = None, error, error.message
        self._go_on_as(TaskState.INFEASIBLE)
        return Next.NOTHING

    def arrived(self) -> Next:
        """The robot is at the goal of the current option: its bit flips."""
        current = self.current
        if current is None or self.state is not TaskState.EXECUTING:
            return Next.NOTHING
        goal = self.task.goal_names.index(current.goal)
        self.bits[goal] = not self.bits[goal]
        return self._advance()

    def reported(self, goal: int, done: bool) -> Next:
        """The world says that a goal is (not) done."""
        if self.bits[goal] == done and goal not in self.skipped:
            return Next.NOTHING
        self.skipped.discard(goal)
        self.bits[goal] = done
        if self._holds():
            return self._end(TaskState.SUCCEEDED)
        name = self.task.goal_names[goal]
        if self.current is not None and self.current.goal == name:
            self._abandon_plan()  # it would go on from a place where the robot is not
        self.reason = f"goal '{name}' was reported {'done' if done else 'not done'}"
        return Next.REPLAN

    def option_failed(self, error: GkPlannerError) -> Next:
        """The current option cannot be carried out; the policy decides."""
        current = self.current
        if current is None:
            return Next.NOTHING
        goal = self.task.goal_names.index(current.goal)
        self.reason = f"site '{current.site}': {error.message}"
        if self.failure_policy == 'abort':
            self.failed_goals.add(goal)
            return self._end(TaskState.FAILED, self.reason, error=error)
        self._abandon_plan()
        if self.failure_policy == 'skip' and not self.bits[goal]:
            return self.skip([goal])
        self.failed_sites[current.site] = error.message
        return Next.REPLAN

    def skip(self, goals: Iterable[int]) -> Next:
        """Give up goals that cannot be reached (policy ``skip``)."""
        fresh = set(goals) - self.skipped - {g for g, bit in enumerate(self.bits) if bit}
        self.skipped |= fresh
        if not fresh:
            return Next.NOTHING
        names = ', '.join(f"'{self.task.goal_names[goal]}'" for goal in sorted(self.skipped))
        self.reason = f'skipped: {names}'
        return self._end(TaskState.SUCCEEDED, self.reason) if self._holds() else Next.REPLAN

    def reground(self, sites: Iterable[Site]) -> None:
        """Replace the sites; those that changed are tried again."""
        old = {site.name: site for site in self.task.sites}
        self.task = self.task.replace(sites=sites)
        self.failed_sites = {site.name: self.failed_sites[site.name] for site in self.task.sites
                             if site.name in self.failed_sites and old.get(site.name) == site}

    def pause(self) -> bool:
        """Stop driving for now; returns whether there was anything to pause."""
        if self.state in (TaskState.PAUSED, *_ENDED):
            return False
        self.state = TaskState.PAUSED
        return True

    def resume(self) -> bool:
        """Go on after a pause; the caller plans anew from where the robot is."""
        if self.state is not TaskState.PAUSED:
            return False
        self.state = TaskState.PLANNING
        return True

    def cancel(self, error: GkPlannerError | None = None) -> Next:
        """End the task; its bits stay as they are."""
        return self._end(
            TaskState.CANCELED, error=error or CanceledError('the task was canceled'))

    def fail(self, error: GkPlannerError) -> Next:
        """End the task because of an error."""
        return self._end(TaskState.FAILED, error=error)

    def _advance(self) -> Next:
        self.completed_cost += self.current.cost if self.current is not None else 0.0
        if self._holds():
            return self._end(TaskState.SUCCEEDED)
        self._position += 1
        if self.plan is None or self._position >= len(self.plan.options):
            self.reason = 'the plan ended before the formula held'
            self._abandon_plan()
            return Next.REPLAN
        return Next.DRIVE

    def _end(self, state: TaskState, message: str = '', *,
             error: GkPlannerError | None = None) -> Next:
        self.state, self.error = state, error
        self.message = message or (error.message if error is not None else '')
        return Next.FINISH

    def _abandon_plan(self) -> None:
        self.plan = None
        self._go_on_as(TaskState.PLANNING)

    def _go_on_as(self, state: TaskState) -> None:
        """Change the state, unless that is for later because the task is paused."""
        if self.state is not TaskState.PAUSED:
            self.state = state

    def _holds(self) -> bool:
        return self.task.formula.holds(
            [bit or goal in self.skipped for goal, bit in enumerate(self.bits)])

    def _goal_state(self, goal: int, current: PlannedOption | None) -> GoalState:
        if goal in self.failed_goals:
            return GoalState.FAILED
        if goal not in self.skipped and current is not None and (
                self.task.goal_names[goal] == current.goal):
            return GoalState.CURRENT
        if self.bits[goal]:
            return GoalState.DONE
        return GoalState.SKIPPED if goal in self.skipped else GoalState.PENDING
