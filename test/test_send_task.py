"""send_task: a task file to a running planner, followed to the end."""

import numpy as np
import pytest
from ros_harness import Planner, ros, World
import yaml

from gk_planner.ros.send_task import progress_line
from gk_planner_interfaces.msg import TaskStatus

S = TaskStatus
FLOOR = np.zeros((3, 10))
TASK = {'sites': [{'name': 'a', 'features': ['a'], 'position': [3.5, 0.5]},
                  {'name': 'b', 'features': ['b'], 'position': [8.5, 0.5]}],
        'constraints': ['a before b']}


@pytest.fixture(scope='module')
def shared(tmp_path_factory):
    with ros(tmp_path_factory.mktemp('planner')) as bench:
        world = World(bench)
        bench.start('planner_node', parameters={'status_period': 0.05})
        planner = Planner(bench)
        planner.wait_ready(world.map(FLOOR))
        yield bench, world, planner


@pytest.fixture
def sent(shared, tmp_path):
    """Send a mapping as a file; what is returned ends by itself."""
    bench, world, _ = shared
    world.pose = (0.5, 0.5)

    def send(task, *arguments):
        file = tmp_path / 'task.yaml'
        file.write_text(yaml.safe_dump(task))
        process = bench.start('send_task', [str(file), *arguments])
        bench.processes.remove(process)
        return process
    return send


def end_of(bench, process):
    bench.wait_until(lambda: process.status is not None, process.log)
    assert 'Traceback' not in process.log, process.log
    return process.status, process.log


def test_to_the_end(shared, sent):
    bench, world, planner = shared
    process = sent(TASK)
    planner.wait_state(S.EXECUTING)
    world.pose = (3.5, 0.5)
    planner.wait_bits(a=True, b=False)
    world.pose = (8.5, 0.5)
    status, text = end_of(bench, process)
    assert status == 0 and 'succeeded, 8.00 m' in text
    assert 'executing: [>] a [ ] b  8.0 m to go' in text
    assert 'executing: [x] a [>] b' in text
    assert text.count('[>] a [ ] b') == 1, 'in a file only news are told'


def test_ctrl_c_cancels_the_task(shared, sent):
    bench, _, planner = shared
    process = sent(TASK)
    task_id = planner.wait_state(S.EXECUTING).task_id
    bench.wait_until(lambda: 'executing' in process.log)
    process.interrupt()
    assert planner.wait_state(S.CANCELED, task_id).error_code == S.ERROR_CANCELED
    status, text = end_of(bench, process)
    assert status == 1 and 'error: the task was canceled (code 60)' in text


@pytest.mark.parametrize(('task', 'status', 'words'), [
    ({**TASK, 'formula': 'a & !a'}, 3, 'error: task: '),
    ({'sites': [{**TASK['sites'][0], 'position': [99, 99]}]}, 2, "site 'a' at (99, 99)"),
    ({'sites': 'no'}, 2, 'task.yaml: sites'),
])
def test_what_cannot_be_done(shared, sent, task, status, words):
    ended, text = end_of(shared[0], sent(task))
    assert ended == status and words in text, text


def test_nobody_there(shared, sent):
    status, text = end_of(shared[0], sent(TASK, '--node', 'nobody', '--timeout', '0.2'))
    assert status == 2 and 'error: nobody/execute_task does not answer' in text


def test_progress_line():
    status = TaskStatus(task_id='task-7', state=S.EXECUTING, goals=list('abcde'),
                        goal_states=[S.GOAL_PENDING, S.GOAL_CURRENT, S.GOAL_DONE,
                                     S.GOAL_SKIPPED, S.GOAL_FAILED],
                        current_goal='b', cost_to_go=1.25)
    assert progress_line(status) == ('task-7 executing: [ ] a [>] b [x] c [-] d [!] e  '
                                     '1.2 m to go')
    waits = TaskStatus(task_id='t', state=S.INFEASIBLE, message='no way to b')
    assert progress_line(waits) == 't infeasible:   no way to b'
