"""gk_planner: optimal plans for logical errands on an occupancy grid (LS-GKDP)."""

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.planner import Planner
from gk_planner.results import Plan
from gk_planner.task_solver import solve_task, TaskSolution

__all__ = ['BaseSpace', 'Config', 'Plan', 'Planner', 'Task', 'TaskSolution', 'solve_task']
