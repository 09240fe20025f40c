"""Error codes: the ERROR_ constants of TaskStatus, one per exception class of the core."""

import re

from gk_planner.errors import GkPlannerError
from gk_planner_interfaces.msg import TaskStatus


def error_code(error: GkPlannerError | None) -> int:
    """Return the constant for an error, ERROR_NONE for none."""
    if error is None:
        return int(TaskStatus.ERROR_NONE)
    return int(getattr(TaskStatus, constant_name(type(error))))


def constant_name(kind: type[GkPlannerError]) -> str:
    """FormulaError -> ERROR_FORMULA, NotActiveError -> ERROR_NOT_ACTIVE."""
    words = re.findall('[A-Z][a-z]+', kind.__name__.removesuffix('Error'))
    return '_'.join(['ERROR', *words]).upper()
