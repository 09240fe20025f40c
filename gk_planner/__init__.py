"""gk_planner: optimal plans for logical errands on an occupancy grid (LS-GKDP)."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    from gk_planner.base_space import BaseSpace
    from gk_planner.boolean_task import Task
    from gk_planner.config import Config
    from gk_planner.planner import Planner
    from gk_planner.results import Plan
    from gk_planner.task_solver import solve_task, TaskSolution

__all__ = ['BaseSpace', 'Config', 'Plan', 'Planner', 'Task', 'TaskSolution', 'solve_task']

_MODULES = {'BaseSpace': 'base_space', 'Config': 'config', 'Plan': 'results', 'Planner': 'planner',
            'Task': 'boolean_task', 'TaskSolution': 'task_solver', 'solve_task': 'task_solver'}


if not TYPE_CHECKING:  # which knows all names from the imports above
    def __getattr__(name: str) -> Any:
        """Import a public name when it is first asked for, so that executables start at once."""
        if name in _MODULES:
            value = getattr(import_module(f'{__name__}.{_MODULES[name]}'), name)
            globals()[name] = value
            return value
        if not name.startswith('_') and find_spec(f'{__name__}.{name}'):
            return import_module(f'{__name__}.{name}')
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
