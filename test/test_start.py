"""How a node starts: a missing package or a wrong parameter is one line, no traceback."""

import subprocess
import sys

import pytest
from ros_harness import environment, REPO, ros

NODES = ('planner_node', 'sim_node', 'send_task')
# Hides a package from the process that imports it.
HIDE = '''
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == {name!r}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, Hidden())
'''


# Ctrl-C while a package is being imported.
INTERRUPT = HIDE.replace("raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)",
                         'import signal; signal.raise_signal(signal.SIGINT)')


def run(*arguments, hidden='', tmp_path=None, how=HIDE):
    env = environment()
    if hidden:
        (tmp_path / 'sitecustomize.py').write_text(how.format(name=hidden))
        env['PYTHONPATH'] = str(tmp_path)
    return subprocess.run([sys.executable, '-m', 'gk_planner.ros.start', *arguments], cwd=REPO,
                          env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize('node', NODES)
def test_interfaces_that_are_not_built(node, tmp_path):
    ended = run(node, hidden='gk_planner_interfaces', tmp_path=tmp_path)
    assert ended.returncode == 1 and ended.stdout == ''
    line, = ended.stderr.splitlines()
    assert line.startswith('error: the package gk_planner_interfaces is not built')
    assert 'colcon build --base-paths src src/gk_planner/gk_planner_interfaces' in line


def test_no_ros_environment(tmp_path):
    ended = run('planner_node', hidden='rclpy', tmp_path=tmp_path)
    line, = ended.stderr.splitlines()
    assert ended.returncode == 1 and "'rclpy' is missing; source a ROS 2" in line


@pytest.mark.parametrize('package', ['numpy', 'rclpy'])
@pytest.mark.parametrize('node', NODES)
def test_ctrl_c_while_it_starts(node, package, tmp_path):
    ended = run(node, hidden=package, tmp_path=tmp_path, how=INTERRUPT)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, '', '')


@pytest.mark.parametrize('arguments', [['--help'], ['-h'], ['--ros-args', '-p', 'x:=1', '--help']])
@pytest.mark.parametrize('node', ['planner_node', 'sim_node'])
def test_help(node, arguments):
    ended = run(node, *arguments)
    assert ended.returncode == 0 and ended.stderr == ''
    assert ended.stdout.startswith(f'usage: {node} [--ros-args') and 'docs/ros.md' in ended.stdout


def test_other_arguments_are_left_alone(tmp_path):
    with ros(tmp_path) as bench:
        process = bench.start('planner_node', ['other', '--argument'])
        bench.wait_until(lambda: 'active' in process.log)


def test_no_such_node():
    ended = run('other_node')
    assert ended.returncode == 1 and ended.stderr.startswith('usage: ')


@pytest.mark.parametrize(('parameter', 'words'), [
    ('connectivity:=5', 'connectivity: must be one of (4, 8), got 5'),
    ('robot_radius:=1', 'robot_radius: expected a float such as 0.0'),
    ('pose_source:=gps', "pose_source: must be one of ('odom', 'pose', 'tf'), got 'gps'"),
    ('status_period:=0.0', 'status_period: '),
])
def test_a_wrong_parameter_is_named(parameter, words):
    ended = run('planner_node', '--ros-args', '-p', parameter)
    line, = ended.stderr.splitlines()
    assert ended.returncode == 2 and line.startswith('error: ') and words in line, line


def test_sigterm_ends_it_well(tmp_path):
    with ros(tmp_path) as bench:
        process = bench.start('planner_node')
        bench.wait_until(lambda: 'active' in process.log)
        process.terminate()
        bench.wait_until(lambda: process.status is not None)
        assert process.status == 0
