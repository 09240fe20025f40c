"""Entry points of the executables: start a node, or say in one line what is missing."""

import signal
import sys

from gk_planner.errors import GkPlannerError

_BUILD = ('colcon build --base-paths src src/gk_planner/gk_planner_interfaces, '
          'then source install/setup.bash (or run make setup in the repository)')


_USAGE = """usage: {0} [--ros-args [-p NAME:=VALUE] [--params-file FILE] [-r __ns:=/NAMESPACE]]

{1} Ctrl-C ends it.
Topics and services: docs/ros.md; parameters and their defaults: config/{2}.yaml"""
_NODES = {'planner_node': ('Plans tasks on the live map and watches the robot.', 'planner'),
          'sim_node': ('Serves a map and drives a simulated robot.', 'sim')}


def planner_node() -> int:
    """Run the planner node."""
    return _start('planner_node')


def sim_node() -> int:
    """Run the simulated world."""
    return _start('sim_node')


def send_task() -> int:
    """Send a task file to a running planner."""
    return _start('send_task')


def _start(module: str) -> int:
    if module in _NODES and {'-h', '--help'} & set(sys.argv[1:]):
        print(_USAGE.format(module, *_NODES[module]))
        return 0
    try:
        return _run(module)
    except KeyboardInterrupt:  # before the node handles signals itself
        return 128 + signal.SIGINT


def _run(module: str) -> int:
    try:
        main = __import__(f'gk_planner.ros.{module}', fromlist=['main']).main
    except ImportError as error:
        missing = (error.name or '').partition('.')[0]
        if missing == 'gk_planner_interfaces':
            what = f'the package gk_planner_interfaces is not built; build it: {_BUILD}'
        elif missing == 'gk_planner' or not missing:
            raise
        else:
            what = f"the Python package '{missing}' is missing; source a ROS 2 environment"
        print(f'error: {what}', file=sys.stderr)
        return 1
    try:
        return int(main())
    except GkPlannerError as error:
        print(f'error: {error.message}', file=sys.stderr)
        return error.exit_status


if __name__ == '__main__':
    # python -m gk_planner.ros.start planner_node --ros-args ...
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ''
    sys.exit(_start(name) if name in ('planner_node', 'sim_node', 'send_task') else
             'usage: python -m gk_planner.ros.start planner_node|sim_node|send_task ...')
