"""The one configuration of the planner: each field is a keyword, a flag and a ROS parameter.

Defaults, units and ranges stand here and nowhere else; the command line and the ROS node read
them from :func:`dataclasses.fields`.
"""

from dataclasses import dataclass, field, fields
import difflib
import math
import numbers
import os
from typing import Any, TypeVar

import numpy as np

from gk_planner.errors import ConfigError
from gk_planner.yaml_input import shorten

_Some = TypeVar('_Some', bound='Settings')


def setting(default: Any, description: str, *, low: float | None = None,
            high: float | None = None, choices: tuple[Any, ...] = (), unit: str = '') -> Any:
    """Return a dataclass field with its description, range and unit."""
    return field(default=default, metadata={
        'description': description, 'low': low, 'high': high, 'choices': choices, 'unit': unit})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields made with :func:`setting`, checked when built.

    Raises
    ------
    ConfigError
        If a value has the wrong type or lies outside its range.

    """

    def __post_init__(self) -> None:
        for spec in fields(self):
            object.__setattr__(self, spec.name, check_setting(spec, getattr(self, spec.name)))

    @classmethod
    def from_fields(cls: type[_Some], settings: dict[str, Any]) -> _Some:
        """Build from a mapping; unknown names are refused with the nearest right one."""
        known = [spec.name for spec in fields(cls)]
        for name in settings:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ''
                raise ConfigError(f"unknown setting '{name}'{hint}")
        return cls(**settings)


@dataclass(frozen=True, kw_only=True)
class Config(Settings):
    """Settings of the base space, the options and the task layer."""

    connectivity: int = setting(8, 'moves per cell', choices=(4, 8))
    robot_radius: float = setting(
        0.0, 'cells this close to an occupied cell are blocked', low=0.0, unit='m')
    unknown_is_free: bool = setting(False, 'treat unknown cells as free')
    occupied_threshold: int = setting(
        65, 'occupancy from which a cell is blocked', low=1, high=100, unit='percent')
    snap_radius: float = setting(
        0.0, 'how far a site in a blocked cell may move to a free one', low=0.0, unit='m')
    clearance_distance: float = setting(
        0.0, 'cells nearer than this to an occupied cell cost more', low=0.0, unit='m')
    clearance_weight: float = setting(
        1.0, 'traversal weight beside an occupied cell, falling to 1 at clearance_distance',
        low=1.0)
    annotations_file: str = setting('', 'YAML file with keep_out, weights and one_way')
    option_cost: float = setting(0.0, 'cost of completing one goal', low=0.0, unit='m')
    temperature: float = setting(
        0.0, '0: exact shortest paths; above 0: the entropy-regularized LMDP', low=0.0)
    option_memory: int = setting(
        1000, 'options kept for later plans; those not used for longest are forgotten', low=0,
        unit='MB')
    ensemble_file: str = setting(
        '', 'file of options written by precompute; what it has is not solved again')
    max_map_cells: int = setting(100_000_000, 'largest map accepted', low=1, unit='cells')
    max_nodes: int = setting(
        4096, 'largest number of cells at which the goals of a task are completed', low=1)
    task_memory: int = setting(
        1000, 'memory for the table of task states; larger tasks are searched by OR-Tools', low=0,
        unit='MB')
    time_limit: float = setting(
        30.0, 'how long a task beyond the table is searched', low=0.1, unit='s')
    max_iterations: int = setting(
        10_000, 'sweeps after which an iteration is given up', low=1)


def check_setting(spec: Any, value: Any) -> Any:
    """Return ``value`` as the type of the field, or raise a ConfigError that names the field."""
    kind = type(spec.default)
    accepted: Any = {float: numbers.Real, int: numbers.Integral, bool: (bool, np.bool_),
                     str: (str, os.PathLike)}[kind]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f'{spec.name}: expected {kind.__name__}, got {shorten(value)}')
    if kind is float and not _is_finite(value):
        raise ConfigError(f'{spec.name}: must be finite, got {shorten(value)}')
    choices, low, high = (spec.metadata[key] for key in ('choices', 'low', 'high'))
    if choices and value not in choices:
        raise ConfigError(f'{spec.name}: must be one of {choices}, got {shorten(value)}')
    if low is not None and value < low:
        raise ConfigError(f'{spec.name}: must be at least {low}, got {shorten(value)}')
    if high is not None and value > high:
        raise ConfigError(f'{spec.name}: must be at most {high}, got {shorten(value)}')
    return kind(value)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floating point numbers
        return False
