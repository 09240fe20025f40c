"""Entry points of the executables: start a node, or say in one line what is missing."""

import sys

from gk_planner.errors import GkPlannerError

_BUILD = ('colcon build --base-paths src src/gk_planner/gk_planner_interfaces, '
          'then source install/setup.bash (or run make setup in the repository)')


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
