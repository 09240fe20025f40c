"""The interface files keep the contract; where ROS 2 is there, the built messages travel."""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
import inspect
from pathlib import Path
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from gk_planner import errors
from gk_planner.execution import GoalState, TaskState

REPO = Path(__file__).resolve().parent.parent
PACKAGE = REPO / 'gk_planner_interfaces'

# Fields in order; `---` separates request from response, or goal, result and feedback.
CONTRACT = {
    'msg/Site.msg': 'string name, string[] features, geometry_msgs/Point position, '
                    'geometry_msgs/Point[] region, float64 yaw',
    'msg/Goal.msg': 'string name, string[] features',
    'msg/TaskSpec.msg': 'std_msgs/Header header, Site[] sites, Goal[] goals, '
                        'string[] constraints, string formula, string[] reversible, '
                        'string[] done, string trigger',
    'msg/Option.msg': 'string goal, string site, geometry_msgs/Pose pose, float64 cost, '
                      'bool[] bits',
    'msg/Plan.msg': 'std_msgs/Header header, string task_id, string[] goals, Option[] options, '
                    'float64 cost, bool optimal, float64 bound, float64 success_probability, '
                    'string[] warnings',
    'msg/TaskStatus.msg': 'std_msgs/Header header, string task_id, uint8 state, '
                          'uint16 error_code, string message, string[] goals, bool[] bits, '
                          'uint8[] goal_states, string current_goal, string current_site, '
                          'float64 cost_to_go, uint32 replans, string replan_reason',
    'srv/SetTask.srv': 'TaskSpec task, bool dry_run, ---, bool success, uint16 error_code, '
                       'string message, string task_id, Plan plan',
    'srv/Reground.srv': 'string task_id, std_msgs/Header header, Site[] sites, '
                        'string[] removed, ---, bool success, uint16 error_code, '
                        'string message, bool plan_changed, string method, '
                        'float64 planning_ms, Plan plan',
    'srv/BlockRegion.srv': 'geometry_msgs/Point[] region, bool blocked, ---, bool success, '
                           'string message',
    'srv/CompleteGoal.srv': 'string task_id, string goal, bool done, ---, bool success, '
                            'uint16 error_code, string message',
    'action/ExecuteTask.action': 'TaskSpec task, ---, bool success, uint16 error_code, '
                                 'string message, string task_id, float64 cost, '
                                 'string[] goals, uint8[] goal_states, ---, TaskStatus status',
}
UNITS = {'position': '[m]', 'region': '[m]', 'pose': '[m]', 'yaw': '[rad]', 'cost': '[m]',
         'bound': '[m]', 'cost_to_go': '[m]', 'planning_ms': '[ms]'}


def lines_of(name: str) -> Iterator[tuple[str, str]]:
    """Yield (code, comment) for each line with code; comments directly above belong to it."""
    above = ''
    for line in (PACKAGE / name).read_text().splitlines():
        code, _, comment = line.partition('#')
        comment = above + comment.strip()
        if code.strip():
            yield code.strip(), comment
        above = comment + ' ' if line.startswith('#') else ''


def constants_of(prefix: str) -> dict[str, int]:
    """Return the constants of TaskStatus with a prefix, in order; '' gives the plain ones."""
    found = (re.fullmatch(r'uint(?:8|16) (\w+)=(\d+)', code)
             for code, _ in lines_of('msg/TaskStatus.msg'))
    named = {match[1]: int(match[2]) for match in found if match}
    prefixes = ('GOAL_', 'ERROR_')
    return {name.removeprefix(prefix): value for name, value in named.items()
            if (name.startswith(prefix) if prefix else not name.startswith(prefixes))}


def test_files_are_those_of_the_contract_and_all_are_built():
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob('*/*.*')}
    built = set(re.findall(r'"(\w+/\w+\.\w+)"', (PACKAGE / 'CMakeLists.txt').read_text()))
    assert found == built == set(CONTRACT)


@pytest.mark.parametrize('name', CONTRACT)
def test_fields_and_their_order(name):
    assert [code for code, _ in lines_of(name) if '=' not in code] == CONTRACT[name].split(', ')


@pytest.mark.parametrize('name', CONTRACT)
def test_every_field_is_commented_with_its_unit(name):
    for code, comment in lines_of(name):
        if code != '---' and '=' not in code:
            assert len(comment) > 8, code
            assert UNITS.get(code.split()[-1], '') in comment, code


def test_states_are_those_of_the_core():
    assert constants_of('') == {state.name: state.value for state in TaskState}
    assert constants_of('GOAL_') == {state.name: state.value for state in GoalState}


def test_error_codes_are_unique_and_none_is_zero():
    codes = constants_of('ERROR_')
    assert codes['NONE'] == 0
    assert len(set(codes.values())) == len(codes)
    assert max(codes.values()) < 2 ** 16


def error_names() -> Iterator[str]:
    """Yield the constant's name for each exception class: FormulaError is FORMULA."""
    for name, cls in inspect.getmembers(errors, inspect.isclass):
        if issubclass(cls, errors.GkPlannerError):
            yield re.sub(r'(?<=[a-z])(?=[A-Z])', '_', name.removesuffix('Error')).upper()


def test_every_exception_class_has_an_error_code():
    assert {'GK_PLANNER', 'NOT_CONVERGED', 'FORMULA', 'NO_MAP'} <= set(error_names())
    assert set(error_names()) <= set(constants_of('ERROR_'))


def test_only_the_node_has_codes_without_a_class():
    assert set(constants_of('ERROR_')) - set(error_names()) <= {
        'NONE', 'DRIVE', 'SHUTDOWN', 'TIMEOUT'}


def test_both_packages_have_one_version():
    versions = {ElementTree.parse(path).findtext('version')
                for path in (REPO / 'package.xml', PACKAGE / 'package.xml')}
    assert len(versions) == 1


def built_classes(name: str) -> list[Any]:
    """Return the generated classes of one interface, or skip where they cannot be imported."""
    pytest.importorskip('rclpy', reason='ROS 2 is not installed', exc_type=ImportError)
    # The source folder alone, seen from the root of the repository, is a package without origin.
    package = find_spec('gk_planner_interfaces')
    if package is None or package.origin is None:
        pytest.skip('gk_planner_interfaces is not built: run `make setup`')
    folder, stem, _ = re.split('[/.]', name)
    cls = getattr(import_module(f'gk_planner_interfaces.{folder}'), stem)
    parts = {'msg': [], 'srv': ['Request', 'Response'], 'action': ['Goal', 'Result', 'Feedback']}
    return [getattr(cls, part) for part in parts[folder]] or [cls]


def filled(cls: Any, number: int = 1) -> Any:
    """Return a message in which every field differs from its default."""
    message = cls()
    for field, kind in cls.get_fields_and_field_types().items():
        setattr(message, field, value_of(kind, number))
        number += 1
    return message


def value_of(kind: str, number: int) -> Any:
    """Return a value of a field's type that is not its default."""
    if kind.startswith('sequence<'):
        return [value_of(kind[len('sequence<'):-1], number + i) for i in range(2)]
    if '/' in kind:
        package, name = kind.split('/')
        return filled(getattr(import_module(f'{package}.msg'), name), number)
    plain = {'string': f'näme {number}', 'boolean': True, 'double': number + 0.5}
    return plain.get(kind, number)


@pytest.mark.parametrize('name', CONTRACT)
def test_round_trip(name):
    classes = built_classes(name)
    from rclpy.serialization import deserialize_message, serialize_message
    for cls in classes:
        message = filled(cls)
        assert deserialize_message(serialize_message(message), cls) == message != cls()


def test_built_constants_are_those_of_the_file():
    status, = built_classes('msg/TaskStatus.msg')
    for prefix in ('', 'GOAL_', 'ERROR_'):
        for name, value in constants_of(prefix).items():
            assert getattr(status, prefix + name) == value
