"""Tests of the package as a whole: versions, dependencies, imports, documents, stray paths."""

import ast
from pathlib import Path
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

ROOT = Path(__file__).parents[1]
CORE = sorted((ROOT / 'gk_planner').glob('*.py'))
ROSDEP = {'numpy': 'python3-numpy', 'scipy': 'python3-scipy', 'numba': 'python3-numba',
          'shapely': 'python3-shapely', 'pyyaml': 'python3-yaml', 'pillow': 'python3-pil',
          'matplotlib': 'python3-matplotlib', 'tqdm': 'python3-tqdm'}
DISTRIBUTIONS = {'yaml': 'pyyaml', 'PIL': 'pillow'}
ROS = [*(ROOT / 'gk_planner/ros').glob('*.py'), *(ROOT / 'launch').glob('*.py')]
# Imported where used, with a clear error.
OPTIONAL = {'tf2_msgs', 'tf2_ros', 'nav2_msgs', 'ortools', 'distributed'}


def test_public_names_come_when_asked_for():
    import gk_planner
    assert set(gk_planner.__all__) == set(gk_planner._MODULES) < set(dir(gk_planner))
    for name in gk_planner.__all__:
        assert getattr(gk_planner, name).__name__ == name
    with pytest.raises(AttributeError, match="'gk_planner' has no attribute 'planer'"):
        gk_planner.planer  # noqa: B018
    ended = subprocess.run([sys.executable, '-c', 'import sys, gk_planner.ros.start; '
                            'print("numpy" in sys.modules)'], capture_output=True, text=True,
                           check=True)
    assert ended.stdout.strip() == 'False'
    ended = subprocess.run([sys.executable, '-c', 'import gk_planner; '
                            'print(gk_planner.errors.TaskError.__name__)'],
                           capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == 'TaskError'


@pytest.fixture(scope='module')
def manifest():
    return ET.parse(ROOT / 'package.xml').getroot()


@pytest.fixture(scope='module')
def setup_arguments():
    """The keywords of the call of setup() that are written as plain values."""
    tree = ast.parse((ROOT / 'setup.py').read_text())
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call)
                and getattr(node.func, 'id', '') == 'setup')
    values = {}
    for keyword in call.keywords:
        try:
            values[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            continue
    return values


def imported(file):
    """Top-level names of the packages that a file imports anywhere."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split('.')[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f'{file.name}: imports are absolute'
            yield node.module.split('.')[0]


def text_files():
    try:
        listed = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True,
                                check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip('not a git checkout')
    for name in filter(None, listed.split('\0')):
        file = ROOT / name
        if file.is_file() and b'\0' not in (content := file.read_bytes()):
            yield name, content.decode('utf-8', errors='replace')


def test_manifest_format_and_licence(manifest, setup_arguments):
    assert manifest.get('format') == '3'
    assert manifest.findtext('name') == 'gk_planner'
    assert manifest.findtext('license') == setup_arguments['license'] == 'Apache-2.0'
    assert 'Apache License' in (ROOT / 'LICENSE').read_text()


def test_one_version(manifest, setup_arguments):
    version = manifest.findtext('version')
    newest = re.search(r'^(\d+\.\d+\.\d+) ', (ROOT / 'CHANGELOG.rst').read_text(), re.MULTILINE)
    assert setup_arguments['version'] == version
    assert newest[1] == version


def test_dependencies_agree(manifest, setup_arguments):
    required = {re.match(r'[\w-]+', entry)[0] for entry in setup_arguments['install_requires']}
    keys = {element.text for tag in ('depend', 'exec_depend') for element in manifest.iter(tag)}
    assert {ROSDEP[name] for name in required} == {
        key for key in keys if key.startswith('python3-')}


def test_the_core_imports_what_it_declares_and_no_ros(setup_arguments):
    required = {re.match(r'[\w-]+', entry)[0] for entry in setup_arguments['install_requires']}
    found = {DISTRIBUTIONS.get(name, name) for file in CORE for name in imported(file)
             if name not in sys.stdlib_module_names and name != 'gk_planner'}
    assert found - OPTIONAL == required


def test_the_ros_layer_imports_what_the_manifest_declares(manifest, setup_arguments):
    known = {*sys.stdlib_module_names, 'gk_planner'} | {
        re.match(r'[\w-]+', entry)[0] for entry in setup_arguments['install_requires']}
    found = {name for file in ROS for name in imported(file)
             if DISTRIBUTIONS.get(name, name) not in known}
    declared = {element.text for element in manifest.iter('exec_depend')
                if not element.text.startswith('python3-')}
    assert found - OPTIONAL == declared


def test_the_core_does_not_reach_into_the_ros_layer():
    for file in CORE:
        assert 'gk_planner.ros' not in file.read_text(), file.name


def test_console_script(setup_arguments):
    assert 'gk_planner = gk_planner.cli:main' in setup_arguments['entry_points'][
        'console_scripts']


def test_public_names():
    import gk_planner

    for name in ('BaseSpace', 'Config', 'Task', 'Planner', 'solve_task'):
        assert name in gk_planner.__all__
        assert hasattr(gk_planner, name)
    for owner, method in ((gk_planner.BaseSpace, 'from_file'), (gk_planner.Task, 'from_file'),
                          (gk_planner.Task, 'from_dict'), (gk_planner.Planner, 'plan'),
                          (gk_planner.Planner, 'reground'), (gk_planner.Plan, 'to_dict')):
        assert callable(getattr(owner, method))
    assert (ROOT / 'gk_planner' / 'py.typed').is_file()


def notation(column):
    rows = [line.split('|')[1:-1] for line in (ROOT / 'docs/notation.md').read_text().splitlines()
            if line.startswith('|')][2:]
    assert len(rows) > 20
    return {name for row in rows for name in re.findall(r'`(\w+)`', row[column])}


def test_notation_names_modules_that_exist():
    missing = {name for name in notation(2) if not (ROOT / f'gk_planner/{name}.py').is_file()}
    assert not missing


def test_notation_names_tests_that_exist():
    missing = {name for name in notation(4) if not (ROOT / f'test/{name}.py').is_file()}
    assert not missing


def test_no_path_of_one_machine_and_no_registry():
    # Put together here, so that this file does not hold what it looks for.
    stray = re.compile('|'.join([
        r'(?<![\w./~-])/(?:ho' r'me|Us' r'ers|ro' r'ot|wo' r'rk)/\w', r'[A-Z]:\\\\Us' r'ers',
        r'index-' r'url', r'artifact' r'ory', r'://(?:\w+\.)*(?:local' r'host|\d+\.\d+\.\d+\.\d+)',
    ]))
    found = [f'{name}: {match[0]}' for name, text in text_files()
             for match in stray.finditer(text)]
    assert not found
