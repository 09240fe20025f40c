"""send_task to a planner that has neither map nor pose yet, as right after a launch."""

from contextlib import contextmanager

import numpy as np
from ros_harness import ros, World
import yaml

TASK = {'sites': [{'name': 'a', 'features': ['a'], 'position': [3.5, 0.5]},
                  {'name': 'b', 'features': ['b'], 'position': [8.5, 0.5]}],
        'constraints': ['a before b']}


@contextmanager
def sent(tmp_path, timeout):
    """Start a planner without a world, and send it a task."""
    file = tmp_path / 'task.yaml'
    file.write_text(yaml.safe_dump(TASK))
    with ros(tmp_path) as bench:
        bench.start('planner_node', parameters={'status_period': 0.05})
        process = bench.start('send_task', [str(file), '--timeout', str(timeout)])
        bench.processes.remove(process)
        yield bench, process


def test_waits_for_the_map_and_the_pose(tmp_path):
    with sent(tmp_path, timeout=60) as (bench, process):
        bench.wait_until(lambda: 'waiting: no map has been received yet' in process.log)
        World(bench, odom=False).map(np.zeros((3, 10)))
        bench.wait_until(lambda: 'waiting: the position of the robot' in process.log, process.log)
        world = World(bench)
        bench.wait_until(lambda: 'executing: [>] a [ ] b' in process.log)
        world.pose = (3.5, 0.5)
        bench.wait_until(lambda: 'executing: [x] a [>] b' in process.log)
        world.pose = (8.5, 0.5)
        bench.wait_until(lambda: process.status is not None, process.log)
        assert process.status == 0, process.log
        for words in ('waiting: no map', 'waiting: the position'):
            assert process.log.count(words) == 1, process.log
        assert process.log.count(' planning: ') <= 1, process.log


def test_says_what_did_not_come(tmp_path):
    with sent(tmp_path, timeout=3) as (bench, process):
        bench.wait_until(lambda: process.status is not None, process.log)
        assert process.status == 1 and 'error: no map has been received yet' in process.log
