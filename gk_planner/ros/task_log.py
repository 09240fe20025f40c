"""The task log: what becomes of a task, in one short line for each thing that happens."""

from collections.abc import Callable, Iterator

from gk_planner.execution import Execution, TaskState
from gk_planner.results import PlannedOption

_SHOWN = 6  # options of a plan
_QUIET = (TaskState.PLANNING, TaskState.EXECUTING)
_BAD = (TaskState.INFEASIBLE, TaskState.FAILED)


class TaskLog:
    """Logs what is new about a task each time it is told of it.

    Parameters
    ----------
    say, warn : callable
        Take a line; ``warn`` one that somebody should look after.

    """

    def __init__(self, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self._say, self._warn = say, warn
        self._task_id = ''
        self._bits: list[bool] = []
        self._replans = 0
        self._state = TaskState.IDLE

    def tell(self, execution: Execution) -> None:
        """Log what has changed since the last time."""
        for is_bad, text in self._news(execution):
            line = f'{execution.task_id}: {text}'
            if is_bad:
                self._warn(line)
            else:  # a line of its own: for rclpy the severity belongs to the line
                self._say(line)

    def _news(self, execution: Execution) -> Iterator[tuple[bool, str]]:
        if execution.task_id != self._task_id:
            if execution.plan is None:
                return  # still being planned, perhaps in vain
            self._task_id, self._bits = execution.task_id, list(execution.task.initial_bits)
            self._replans, self._state = 0, TaskState.EXECUTING
            yield False, _itinerary(execution)
        flips = [f"{goal} {'done' if done else 'undone'}" for goal, done, was in
                 zip(execution.task.goal_names, execution.bits, self._bits, strict=True)
                 if done != was]
        if flips:
            current = execution.current
            yield False, ', '.join(flips) + (
                f', next {_place(current)}, {current.cost:.1f} m' if current is not None else '')
        if execution.replans > self._replans:
            yield False, f'planned again ({execution.replan_reason}): {_itinerary(execution)}'
        if execution.state is not self._state and execution.state not in _QUIET:
            yield execution.state in _BAD, execution.state.name.lower() + (
                f': {execution.message}' if execution.message else '')
        self._bits, self._replans = list(execution.bits), execution.replans
        self._state = execution.state


def _itinerary(execution: Execution) -> str:
    options = execution.remaining
    if not options:
        return 'nothing to do'
    places = [_place(option) for option in options[:_SHOWN]]
    if len(options) > _SHOWN:
        places.append(f'... {len(options)} goals')
    return f"{', '.join(places)}; {sum(option.cost for option in options):.1f} m"


def _place(option: PlannedOption) -> str:
    return option.goal if option.goal == option.site else f'{option.goal} -> {option.site}'
