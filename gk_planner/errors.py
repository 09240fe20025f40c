"""The exception tree: every failure a caller can meet has a class, a message and a dictionary.

``InputError`` and its children mean that something given was wrong (exit status 2);
``InfeasibleError`` means that all was right and no plan exists (exit status 3).
"""

from typing import Any


class GkPlannerError(Exception):
    """Base of all errors raised on purpose.

    Parameters
    ----------
    message : str
        One line that names the file, field or site and says what would be right.
    detail : str, optional
        Further lines for a person, such as the source line and a caret.

    """

    exit_status = 2

    def __init__(self, message: str, *, detail: str = '') -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``--json`` prints for this error."""
        return {'status': 'error', 'error': type(self).__name__, 'reason': self.message}


class InputError(GkPlannerError, ValueError):
    """Something given from outside is wrong."""


class ConfigError(InputError):
    """A configuration field has a value out of its range or of the wrong type."""


class MapError(InputError):
    """A map file or an occupancy grid cannot be used."""


class AnnotationsError(InputError):
    """An annotations file (keep-out, weights, one-way) cannot be used."""


class TaskError(InputError):
    """A task (sites, goals, constraints, formula) is malformed."""


class FormulaError(TaskError):
    """A formula cannot be parsed or names something unknown."""


class ConstraintError(TaskError):
    """A constraint cannot be parsed or names a feature that nothing carries."""


class StartError(InputError):
    """The start is missing, outside the map or in a blocked cell."""


class RegroundError(InputError):
    """A regrounding names an unknown site or brings a new feature set."""


class EnsembleError(InputError):
    """A file of precomputed options cannot be used."""


class LimitError(InputError):
    """A configured limit would be exceeded."""


class NotReadyError(GkPlannerError):
    """A request came at a time when it cannot be served."""


class NotActiveError(NotReadyError):
    """The node is not active."""


class NoMapError(NotReadyError):
    """No map has been received yet."""


class NoPoseError(NotReadyError):
    """The position of the robot is not known yet."""


class UnknownTaskError(NotReadyError):
    """No task is running, or not the one that was named."""


class FrameError(InputError):
    """A frame differs from the frame of the map and cannot be transformed."""


class PreemptedError(GkPlannerError):
    """Another task has taken the place of this one."""


class StalledError(GkPlannerError):
    """The robot did not get any nearer to its goal in time."""


class DriveError(GkPlannerError):
    """What drives the robot is missing, refused the goal or gave up."""


class TimeoutError(GkPlannerError):
    """Another node did not answer in time."""


class CanceledError(GkPlannerError):
    """A task or its planning was stopped from outside before it ended."""


class ShutdownError(CanceledError):
    """It was stopped because the node is cleaned up or shut down."""


class NotConvergedError(GkPlannerError):
    """An iteration ended without reaching its tolerance."""


class InfeasibleError(GkPlannerError):
    """The task is well formed and cannot be done.

    Parameters
    ----------
    message : str
        One sentence that says why.
    conflicts : list of dict
        An irreducible set of ``{"kind": "formula|constraint|feature|site", "name": ...}``.

    """

    exit_status = 3

    def __init__(self, message: str, conflicts: list[dict[str, str]], *, detail: str = '') -> None:
        super().__init__(message, detail=detail)
        self.conflicts = conflicts

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.conflicts), self.__dict__

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``--json`` prints for an infeasible task."""
        return {'status': 'infeasible', 'reason': self.message, 'conflicts': self.conflicts}
