"""The launch files: arguments, wiring, the view of RViz; run where launch is installed."""

import ast
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / 'launch').glob('*.launch.py'))
# Executables of other packages.
FOREIGN = {'rviz2', 'map_server', 'lifecycle_manager'}
CONTRACT = {
    'planner.launch.py': {'namespace', 'use_sim_time', 'params_file', 'map', 'task', 'rviz',
                          'autostart', 'log_level'},
    'sim.launch.py': {'namespace', 'use_sim_time', 'params_file', 'map', 'task',
                      'sim_params_file', 'log_level'},
}


def calls(file, name):
    """First argument and keywords of each call of a name in a file."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == name:
            yield node.args[0].value, {keyword.arg: keyword.value for keyword in node.keywords}


# Read, not run: these hold also where launch is not installed.

def test_the_launch_files_are_those_of_the_contract():
    assert {file.name for file in FILES} == set(CONTRACT)


@pytest.mark.parametrize('file', FILES, ids=lambda file: file.name)
class TestSource:
    def test_declared_arguments(self, file):
        declared = [name for name, _ in calls(file, 'DeclareLaunchArgument')]
        assert len(set(declared)) == len(declared)
        assert set(declared) == CONTRACT[file.name]

    def test_every_argument_is_described_and_has_a_default(self, file):
        for name, keywords in calls(file, 'DeclareLaunchArgument'):
            assert len(keywords['description'].value) > 8, name
            assert 'default_value' in keywords, name

    def test_every_argument_is_used_and_every_used_one_declared(self, file):
        used = {name for name, _ in calls(file, 'LaunchConfiguration')}
        assert used == CONTRACT[file.name]

    def test_executables_are_installed(self, file):
        scripts = (ROOT / 'setup.py').read_text()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.keyword) and node.arg == 'executable':
                assert node.value.value in FOREIGN or f"'{node.value.value} = " in scripts

    def test_shared_files_exist(self, file):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == (
                    'PathJoinSubstitution'):
                parts = [part.value for part in node.args[0].elts[1:]]
                assert ROOT.joinpath(*parts).is_file(), parts


def test_the_view_shows_topics_of_the_nodes_in_any_namespace():
    view = yaml.safe_load((ROOT / 'launch/gk_planner.rviz').read_text())['Visualization Manager']
    shown = {display['Topic']['Value']: display['Topic'] for display in view['Displays']}
    assert set(shown) == {'map', 'odom', 'amcl_pose', 'gk_planner/path', 'gk_planner/waypoints',
                          'gk_planner/markers'}
    for topic, profile in shown.items():
        latched = topic != 'odom'
        assert (profile['Durability Policy'] == 'Transient Local') == latched, topic
    assert view['Global Options']['Fixed Frame'] == 'map'


# Run with launch.

@pytest.fixture
def share(monkeypatch, tmp_path):
    """An ament prefix in which gk_planner shares the folders of the repository."""
    # The folder launch/ of the repository alone would pass for the package.
    pytest.importorskip('launch.actions', reason='the package launch is not installed')
    pytest.importorskip('launch_ros.actions', reason='the package launch_ros is not installed')
    install(tmp_path, 'gk_planner', 'planner_node', 'sim_node')
    (tmp_path / 'share/gk_planner').symlink_to(ROOT)
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(tmp_path))
    return tmp_path


def install(prefix, package, *executables):
    """Make executables of a package that launch finds, and that end at once."""
    index = prefix / 'share/ament_index/resource_index/packages'
    index.mkdir(parents=True, exist_ok=True)
    (index / package).touch()
    libexec = prefix / 'lib' / package
    libexec.mkdir(parents=True)
    for name in executables:
        (libexec / name).write_text('#!/bin/sh\necho "$0" "$@"\n')
        (libexec / name).chmod(0o755)


def run(file, arguments, on_start):
    """Run a launch file to its end; returns its exit status."""
    from launch.actions import IncludeLaunchDescription, RegisterEventHandler
    from launch.event_handlers import OnProcessStart
    from launch.launch_description import LaunchDescription
    from launch.launch_service import LaunchService

    service = LaunchService(noninteractive=True)
    service.include_launch_description(LaunchDescription([
        RegisterEventHandler(OnProcessStart(on_start=on_start)),
        IncludeLaunchDescription(str(ROOT / 'launch' / file),
                                 launch_arguments=arguments.items())]))
    return service.run()


def commands(file, **arguments):
    """Command lines by executable that a launch file runs, and the parameters they are given."""
    found = {}

    def started(event, _):
        found[Path(event.cmd[0]).name] = event.cmd, parameters(event.cmd)

    assert run(file, arguments, started) == 0
    return found


def parameters(command):
    """What a node would read from the files on its command line, a later one over an earlier."""
    values = {}
    for flag, file in pairwise(command):
        if flag == '--params-file':
            # launch_ros tags a list of strings as a tuple of Python; rcl reads past the tag.
            for node in yaml.full_load(Path(file).read_text()).values():
                values.update(node['ros__parameters'])
    return values


def test_launch_declares_what_the_source_says(share):
    for file in FILES:
        spec = spec_from_file_location('launch_file', file)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        declared = module.generate_launch_description().get_launch_arguments()
        assert CONTRACT[file.name] <= {argument.name for argument in declared}


def test_planner_alone(share):
    (command, values), = commands('planner.launch.py').values()
    assert '--log-level' in command and 'info' in command
    assert values == parameters(['--params-file', ROOT / 'config/planner.yaml'])


def test_an_argument_that_is_not_given_leaves_the_parameter_to_the_file(share, tmp_path):
    file = tmp_path / 'mine.yaml'
    file.write_text('/**: {ros__parameters: {autostart: false, task_file: mine, x: 1.0}}')
    values = commands('planner.launch.py', params_file=str(file))['planner_node'][1]
    assert values == {'autostart': False, 'task_file': 'mine', 'x': 1.0}
    values = commands('planner.launch.py', params_file=str(file), autostart='true', task='other',
                      use_sim_time='true')['planner_node'][1]
    assert values == {'autostart': True, 'task_file': 'other', 'x': 1.0, 'use_sim_time': True}


def test_tf_is_that_of_the_namespace(share):
    install(share, 'rviz2', 'rviz2')
    found = commands('planner.launch.py', namespace='robot1', rviz='true', use_sim_time='true')
    for command, _ in (found['planner_node'], found['rviz2']):
        assert {'/tf:=tf', '/tf_static:=tf_static', '__ns:=/robot1'} <= set(command)
    assert found['rviz2'][1] == {'use_sim_time': True}


def test_a_map_is_served_from_a_file(share):
    install(share, 'nav2_map_server', 'map_server')
    install(share, 'nav2_lifecycle_manager', 'lifecycle_manager')
    found = commands('planner.launch.py', map='floor.yaml', namespace='robot1',
                     use_sim_time='true')
    command, values = found['map_server']
    assert '__ns:=/robot1' in command and '__node:=map_server' in command
    assert values == {'yaml_filename': 'floor.yaml', 'use_sim_time': True}
    assert found['lifecycle_manager'][1] == {
        'autostart': True, 'node_names': ('map_server',), 'use_sim_time': True}
    assert 'planner_node' in found
    assert set(commands('sim.launch.py')) == {'sim_node', 'planner_node'}


@pytest.mark.parametrize('arguments', [{'map': 'floor.yaml'}, {'rviz': 'true'}])
def test_no_planner_without_what_is_asked_for_beside_it(share, arguments):
    started = []
    assert run('planner.launch.py', arguments, lambda event, _: started.append(event)) != 0
    assert not started


def test_world_and_planner_share_task_namespace_and_time(share):
    found = commands('sim.launch.py', namespace='robot1', use_sim_time='true', log_level='warn')
    (sim, world), (planner, values) = found['sim_node'], found['planner_node']
    for command in (sim, planner):
        assert '__ns:=/robot1' in command and 'warn' in command
    assert world['task'] == values['task_file']
    assert Path(world['task']).name == Path(world['map']).name == 'office.yaml'
    assert world['publish_clock'] is values['use_sim_time'] is True
    assert 'use_sim_time' not in world
    assert values['robot_radius'] == 0.2, 'the simulated robot keeps off the walls'


def test_a_value_that_is_no_choice_is_refused(share):
    started = []
    assert run('planner.launch.py', {'autostart': 'maybe'},
               lambda event, _: started.append(event)) != 0
    assert not started


def test_two_quotes_are_no_task(share):
    # ros2 launch refuses an argument without a value.
    found = commands('sim.launch.py', task="''")
    assert found['sim_node'][1]['task'] == found['planner_node'][1]['task_file'] == ''


def test_nothing_is_started_where_rviz_is_asked_for_and_missing(share):
    started = []
    assert run('sim.launch.py', {'rviz': 'true'}, lambda event, _: started.append(event)) != 0
    assert not started
