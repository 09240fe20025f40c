"""Checkpoints: how a caller stops a long computation from another thread.

Long loops call their ``checkpoint`` between steps; one that wants them to stop raises
:class:`gk_planner.errors.CanceledError` there.
"""

from collections.abc import Callable

Checkpoint = Callable[[], None]


def proceed() -> None:
    """Never stop."""
