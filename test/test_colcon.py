"""Both packages built, installed and run as ROS users do, in a workspace of their own."""

import os
from pathlib import Path
import re
import shutil
import signal
import subprocess
import sys
import threading

import pytest

ROOT = Path(__file__).parents[1]


def environment(workspace, **more):
    """Variables of a build in a clean shell: a make around us has no say in it."""
    kept = {name: value for name, value in os.environ.items()
            if not re.fullmatch('MAKEFLAGS|MAKELEVEL|MFLAGS|COLCON_.*|PYTHONPATH', name)}
    return {**kept, 'ROS_LOG_DIR': str(workspace / 'log'), **more}


def run(workspace, *command, **variables):
    """Run a command with ROS 2 in the workspace."""
    return subprocess.run([ROOT / 'tools/with_ros.sh', *command], cwd=workspace, check=False,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment(workspace, **variables))


def sourced(workspace, *command):
    """Return the command that runs another one after the workspace has been sourced."""
    return ['bash', '-c', '. "$0" && exec "$@"', str(workspace / 'install/setup.bash'),
            sys.executable, *command]


def installed(workspace, name, *arguments):
    """Return the command that runs an installed executable, with the interpreter of the tests."""
    file = workspace / 'install/gk_planner/lib/gk_planner' / name
    assert os.access(file, os.X_OK), name
    return sourced(workspace, str(file), *arguments)


@pytest.fixture
def workspace(tmp_path):
    """A workspace with the files under version control."""
    if not Path(sys.prefix, '.gk_planner_setup').exists():
        pytest.skip('ROS 2 is not set up: run `make setup`')
    if not shutil.which('colcon', path=f'{sys.prefix}/bin:{os.environ["PATH"]}'):
        pytest.skip('colcon is not installed')
    listed = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, text=True,
                            check=False)
    if listed.returncode:
        pytest.skip('not a git checkout')
    for name in filter(None, listed.stdout.split('\0')):
        target = tmp_path / 'src/gk_planner' / name
        if (ROOT / name).is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    return tmp_path


# One test: parallel runs of pytest would build once for each of several.
def test_build_install_run(workspace):
    built = run(workspace, 'colcon', 'build', '--base-paths', 'src',
                'src/gk_planner/gk_planner_interfaces',
                '--event-handlers', 'desktop_notification-', '--cmake-args',
                f'-DPython3_EXECUTABLE={sys.executable}', '-DBUILD_TESTING=OFF',
                CMAKE_PREFIX_PATH=os.environ.get('CMAKE_PREFIX_PATH', sys.prefix))
    assert built.returncode == 0, built.stdout
    assert '2 packages finished' in built.stdout
    check_share(workspace)
    check_python(workspace)
    for command in ('gk_planner', 'send_task'):
        check_help(workspace, command)
    check_explain(workspace)
    check_node(workspace, 'planner_node', ['--params-file', 'config/planner.yaml'], 'active')
    check_node(workspace, 'sim_node', ['-p', 'map:=maps/office.yaml'], '304 x 208 cells')


def check_share(workspace):
    """Share has what launch and users look for."""
    share = workspace / 'install/gk_planner/share'
    assert (share / 'ament_index/resource_index/packages/gk_planner').is_file()
    for folder, pattern in (('.', 'package.xml'), ('launch', '*'), ('config', '*.yaml'),
                            ('config/tasks', '*.yaml'), ('maps', '*.yaml'), ('maps', '*.pgm')):
        expected = {file.name for file in (workspace / 'src/gk_planner' / folder).glob(pattern)}
        found = {file.name for file in (share / 'gk_planner' / folder).glob(pattern)}
        assert expected and found >= expected, folder


def check_python(workspace):
    """Python finds both packages in the workspace, not elsewhere."""
    done = run(workspace, *sourced(
        workspace, '-P', '-c', 'import gk_planner, gk_planner_interfaces.msg as m; '
        'print(gk_planner.__file__, m.__file__, m.TaskStatus.ERROR_FORMULA)'))
    core, messages, code = done.stdout.split()[-3:]
    assert core.startswith(f'{workspace}/install/gk_planner/')
    assert messages.startswith(f'{workspace}/install/gk_planner_interfaces/')
    assert code == '15'


def check_help(workspace, name):
    """A command says how to use it."""
    done = run(workspace, *installed(workspace, name, '--help'))
    assert done.returncode == 0, done.stdout
    assert f'usage: {name}' in done.stdout


def check_explain(workspace):
    """The command reads an installed task."""
    task = workspace / 'install/gk_planner/share/gk_planner/config/tasks/office.yaml'
    done = run(workspace, *installed(workspace, 'gk_planner', 'explain', str(task)))
    assert done.returncode == 0, done.stdout
    assert 'key before mail' in done.stdout


def check_node(workspace, name, arguments, word):
    """A node starts, says a word, and ends cleanly on SIGINT."""
    # In a namespace, because other tests may share this domain.
    command = installed(workspace, name, '--ros-args', '-r', '__ns:=/installed', *arguments)
    process = subprocess.Popen(
        [ROOT / 'tools/with_ros.sh', *command], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, cwd=workspace / 'install/gk_planner/share/gk_planner',
        env=environment(workspace))
    watchdog = threading.Timer(30.0, process.kill)
    watchdog.start()
    said = ''
    for line in process.stdout:
        said += line
        if word in line:
            process.send_signal(signal.SIGINT)
    watchdog.cancel()
    assert process.wait() == 0, said
    assert word in said
