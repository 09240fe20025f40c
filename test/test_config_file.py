"""The parameter files say what the settings classes say: names, defaults, units, ranges."""

from dataclasses import fields
from pathlib import Path
import re

import pytest
import yaml

from gk_planner.config import Config
from gk_planner.kinematics import RobotConfig
from gk_planner.monitor import MonitorConfig

CONFIG = Path(__file__).parents[1] / 'config'


def settings(file):
    """The settings classes of a parameter file; those of the nodes need ROS 2."""
    needs = {'reason': 'ROS 2 is not installed or gk_planner_interfaces is not built',
             'exc_type': ImportError}
    if file == 'planner.yaml':
        node = pytest.importorskip('gk_planner.ros.parameters', **needs)
        return node.NodeConfig, Config, MonitorConfig
    node = pytest.importorskip('gk_planner.ros.sim_node', **needs)
    return node.SimConfig, RobotConfig


def comments(file):
    """Parameter -> its comment, which may go on for several lines."""
    found, name = {}, None
    for line in (CONFIG / file).read_text().splitlines():
        code, _, comment = line.partition('#')
        if match := re.match(r'    (\w+): ', code):
            name = match[1]
            found[name] = ''
        elif line.startswith('    #') or not comment:
            name = None
        if name:
            found[name] += comment.rstrip()
    return {name: ' '.join(comment.split()) for name, comment in found.items()}


def bounds(spec):
    """The range of a field as its comment must say it."""
    low, high = (spec.metadata[key] for key in ('low', 'high'))
    if low is None:
        return ''
    return f'{low} to {high}' if high is not None else f'>= {low}'


@pytest.mark.parametrize('file', ['planner.yaml', 'sim.yaml'])
class TestParameterFile:
    def test_names_and_defaults_in_order(self, file):
        specs = [spec for kind in settings(file) for spec in fields(kind)]
        document = yaml.safe_load((CONFIG / file).read_text())
        assert list(document) == ['/**']  # any other key is silently ignored in a namespace
        values = document['/**']['ros__parameters']
        assert list(values.items()) == [(spec.name, spec.default) for spec in specs]
        # A parameter has one type: 0 is no value for a double.
        assert [type(value) for value in values.values()] == [type(s.default) for s in specs]

    def test_comments_give_unit_range_and_choices(self, file):
        said = comments(file)
        for spec in (spec for kind in settings(file) for spec in fields(kind)):
            comment = said[spec.name]
            assert len(comment) > 8, spec.name
            unit = spec.metadata['unit']
            assert not unit or f'[{unit}]' in comment, f'{spec.name}: {comment}'
            assert bounds(spec) in comment, f'{spec.name}: {comment}'
            assert all(str(choice) in comment for choice in spec.metadata['choices']), spec.name


def test_comments_say_which_parameters_are_read_only():
    node, *others = settings('planner.yaml')
    said = comments('planner.yaml')
    assert all(said[spec.name].endswith('read-only') for spec in fields(node))
    assert not any('read-only' in said[spec.name] for kind in others for spec in fields(kind))


REFERENCE = (CONFIG.parent / 'docs/ros.md').read_text()


@pytest.mark.parametrize('file', ['planner.yaml', 'sim.yaml'])
def test_the_reference_lists_every_parameter_with_its_default_and_range(file):
    for spec in (spec for kind in settings(file) for spec in fields(kind)):
        row = next(line for line in REFERENCE.splitlines() if line.startswith('|')
                   and f'`{spec.name}`' in line.split('|')[1]
                   and len(line.split('|')) == 6)
        _, _, default, limits, _, _ = (cell.strip() for cell in row.split('|'))
        assert default == yaml.safe_dump(spec.default).split('\n')[0].strip("'"), row
        assert bounds(spec) in limits, row
        assert all(str(choice) in limits for choice in spec.metadata['choices']), row


def test_the_reference_lists_every_error_code():
    status = CONFIG.parent / 'gk_planner_interfaces/msg/TaskStatus.msg'
    codes = re.findall(r'^uint16 ERROR_(\w+)=(\d+)', status.read_text(), re.MULTILINE)
    assert codes == [(name, code) for code, name in
                     re.findall(r'^\| (\d+) \| `(\w+)` \|', REFERENCE, re.MULTILINE)]
