"""ROS parameters are the fields of the settings classes: names, defaults, ranges, refusals."""

from dataclasses import fields

import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')

from rcl_interfaces.msg import ParameterType
import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter

from gk_planner import Config
from gk_planner.errors import ConfigError
from gk_planner.kinematics import RobotConfig
from gk_planner.monitor import MonitorConfig
from gk_planner.ros import parameters
from gk_planner.ros.parameters import NodeConfig

KINDS = (NodeConfig, Config, MonitorConfig)
TYPES = {bool: ParameterType.PARAMETER_BOOL, int: ParameterType.PARAMETER_INTEGER,
         float: ParameterType.PARAMETER_DOUBLE, str: ParameterType.PARAMETER_STRING}


@pytest.fixture(scope='module')
def context():
    context = rclpy.Context()
    rclpy.init(context=context)
    yield context
    rclpy.shutdown(context=context)


@pytest.fixture
def node(context):
    made = []

    def make(**overrides):
        made.append(Node('settings', context=context, parameter_overrides=[
            Parameter(name, value=value) for name, value in overrides.items()]))
        return made[-1]
    yield make
    for node in made:
        node.destroy_node()


def test_no_name_stands_for_two_settings():
    for kinds in (KINDS, (RobotConfig,)):
        names = [spec.name for kind in kinds for spec in fields(kind)]
        assert len(set(names)) == len(names)


def test_defaults_types_descriptions_and_ranges(node):
    made = node()
    parameters.declare(made, KINDS)
    for kind in KINDS:
        assert parameters.read(made, kind) == kind()
        for spec in fields(kind):
            descriptor = made.describe_parameter(spec.name)
            assert made.get_parameter(spec.name).value == spec.default
            assert descriptor.type == TYPES[type(spec.default)]
            assert spec.metadata['description'] in descriptor.description
            assert descriptor.read_only == (kind is NodeConfig)
            if spec.metadata['unit']:
                assert f"[{spec.metadata['unit']}]" in descriptor.description
            if spec.metadata['low'] is not None:
                bounds, = [*descriptor.floating_point_range, *descriptor.integer_range]
                assert bounds.from_value == spec.metadata['low']
                if spec.metadata['high'] is not None:
                    assert bounds.to_value == spec.metadata['high']


def test_given_values(node):
    made = node(robot_radius=0.25, connectivity=4, pose_source='pose', arrival_radius=0.5)
    parameters.declare(made, KINDS)
    assert parameters.read(made, Config) == Config(robot_radius=0.25, connectivity=4)
    assert parameters.read(made, NodeConfig) == NodeConfig(pose_source='pose')
    assert parameters.read(made, MonitorConfig) == MonitorConfig(arrival_radius=0.5)


@pytest.mark.parametrize(('overrides', 'words'), [
    ({'robot_radius': 1}, 'robot_radius: expected a float such as 0.0'),
    ({'robot_radius': 'wide'}, 'robot_radius: expected a float'),
    ({'robot_radius': -0.5}, 'robot_radius: '),
    ({'occupied_threshold': 101}, 'occupied_threshold: '),
    ({'autostart': 1}, 'autostart: expected a bool such as True')])
def test_a_bad_value_at_the_start(node, overrides, words):
    with pytest.raises(ConfigError) as caught:
        parameters.declare(node(**overrides), KINDS)
    assert words in caught.value.message and '\n' not in caught.value.message


def test_a_bad_choice_at_the_start(node):
    made = node(connectivity=5)
    parameters.declare(made, KINDS)
    with pytest.raises(ConfigError, match=r'connectivity: must be one of \(4, 8\), got 5'):
        parameters.read(made, Config)


def test_changes():
    values = [Parameter('robot_radius', value=0.5), Parameter('arrival_radius', value=0.1)]
    assert parameters.changed(Config(), values) == Config(robot_radius=0.5)
    config = MonitorConfig(dwell_time=1.0)
    assert parameters.changed(config, values) == MonitorConfig(dwell_time=1.0, arrival_radius=0.1)
    assert parameters.changed(config, []) is config
    with pytest.raises(ConfigError, match='robot_radius'):
        parameters.changed(Config(), [Parameter('robot_radius', value=-1.0)])


def test_a_refusal_says_why():
    result = parameters.refusal(ConfigError('speed: too high'))
    assert not result.successful and result.reason == 'speed: too high'
