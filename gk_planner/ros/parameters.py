"""ROS parameters from the settings classes of the core: one source of names, defaults, ranges."""

from collections.abc import Iterable
import dataclasses
from dataclasses import dataclass, fields
import sys
from typing import Any, TypeVar

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from gk_planner.config import setting, Settings
from gk_planner.errors import ConfigError, InputError
from gk_planner.execution import FAILURE_POLICIES

S = TypeVar('S', bound=Settings)


@dataclass(frozen=True, kw_only=True)
class NodeConfig(Settings):
    """What only the node needs; read when it is configured."""

    autostart: bool = setting(
        True, 'configure and activate by itself; false under a lifecycle manager')
    map_subscribe_transient_local: bool = setting(
        True, 'the map is latched, as by map_server')
    pose_source: str = setting(
        'odom', 'where the position comes from: topic odom, topic amcl_pose, or TF',
        choices=('odom', 'pose', 'tf'))
    robot_frame: str = setting('base_link', 'frame of the robot, for pose_source tf')
    drive_mode: str = setting(
        'none', 'none: others follow ~/path; topic: goal_pose; nav2_action: NavigateToPose',
        choices=('none', 'topic', 'nav2_action'))
    failure_policy: str = setting(
        'replan', 'what a failed option means: replan without its site, skip its goal, abort',
        choices=FAILURE_POLICIES)
    start_tolerance: float = setting(
        -1.0, 'how far a robot in a blocked cell may be from a free one; -1: robot_radius plus '
        'one cell', low=-1.0, unit='m')
    task_file: str = setting('', 'task to start with, once map and position are there')
    status_period: float = setting(
        1.0, 'time between two statuses', low=0.01, high=3600.0, unit='s')


def declare(node: Node, kinds: Iterable[type[Settings]]) -> None:
    """Declare a parameter for every field of the settings classes.

    Raises
    ------
    ConfigError
        If a value given at the start has the wrong type or is out of its range.

    """
    for kind in kinds:
        for spec in fields(kind):
            try:
                node.declare_parameter(spec.name, spec.default, _descriptor(spec, kind))
            except InvalidParameterTypeException as error:
                raise ConfigError(f'{spec.name}: expected a {type(spec.default).__name__} such '
                                  f'as {spec.default!r}; {error}') from None
            except InvalidParameterValueException as error:
                raise ConfigError(f'{spec.name}: {error}') from None


def read(node: Node, kind: type[S]) -> S:
    """Read the parameters of one settings class.

    Raises
    ------
    ConfigError
        If a value is out of its range.

    """
    return kind(**{spec.name: node.get_parameter(spec.name).value for spec in fields(kind)})


def changed(settings: S, parameters: Iterable[Parameter]) -> S:
    """Return the settings with the parameters among their fields replaced."""
    names = {spec.name for spec in fields(settings)}
    values = {parameter.name: parameter.value for parameter in parameters
              if parameter.name in names}
    return dataclasses.replace(settings, **values) if values else settings


def refusal(error: InputError) -> SetParametersResult:
    """Return the answer to a parameter with a bad value."""
    return SetParametersResult(successful=False, reason=error.message)


def _descriptor(spec: Any, kind: type[Settings]) -> ParameterDescriptor:
    low, high, unit = (spec.metadata[key] for key in ('low', 'high', 'unit'))
    descriptor = ParameterDescriptor(
        description=spec.metadata['description'] + (f' [{unit}]' if unit else ''),
        additional_constraints=', '.join(map(str, spec.metadata['choices'])),
        read_only=kind is NodeConfig)
    if low is not None and isinstance(spec.default, float):
        descriptor.floating_point_range = [FloatingPointRange(
            from_value=float(low), to_value=float(high or sys.float_info.max))]
    elif low is not None:
        descriptor.integer_range = [IntegerRange(
            from_value=int(low), to_value=int(high or 2 ** 62), step=1)]
    return descriptor
