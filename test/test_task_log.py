"""The task log: a line for each thing that happens to a task, and no line twice."""

import pytest
from test_task_runner import Bench, running, TASK

pytest.importorskip('gk_planner.ros', reason='the ROS side is not there')

from gk_planner.monitor import MonitorConfig
from gk_planner.ros.task_log import TaskLog


class LoggedBench(Bench):
    """A runner whose news are lines."""

    def __init__(self, **settings):
        self.lines = []
        self._log = TaskLog(self.lines.append, lambda line: self.lines.append(f'warning: {line}'))
        super().__init__(**settings)

    def status_changed(self, execution):
        if execution is not None:
            self._log.tell(execution)

    def news(self):
        lines = self.lines[:]
        self.lines.clear()
        return lines


@pytest.fixture
def start():
    def start(**settings):
        bench = LoggedBench(monitor_config=MonitorConfig(stall_timeout=10.0), **settings)
        bench.map()
        bench.runner.pose(0.0, (0.5, 0.5))
        return bench
    return start


def site(name, x, feature=None):
    return {'name': name, 'features': [feature or name], 'position': [x, 0.5]}


def test_plan_goals_and_end(start):
    bench = start()
    running(bench, {'sites': [site('hook', 3.5, 'key'), site('b', 8.5)],
                    'constraints': ['key before b']})
    assert bench.news() == ['task-1: key -> hook, b; 8.0 m']
    bench.runner.pose(1.0, (2.5, 0.5))
    assert bench.news() == []
    bench.runner.pose(2.0, (3.5, 0.5))
    assert bench.news() == ['task-1: key done, next b, 5.0 m']
    bench.runner.pose(3.0, (8.5, 0.5))
    assert bench.news() == ['task-1: b done', 'task-1: succeeded']


def test_a_new_plan_and_its_reason(start):
    bench = start()
    running(bench, {'sites': [site('near', 3.5, 'a'), site('far', 8.5, 'a')]})
    bench.news()
    bench.runner.pose(1.0, (0.5, 0.5))
    bench.runner.pose(12.0, (0.5, 0.5))
    bench.work()
    bench.map()
    assert bench.news() == [
        "task-1: planned again (site 'near': no progress): a -> far; 8.0 m"]


def test_a_world_without_a_way(start):
    bench = start()
    running(bench)
    bench.news()
    bench.data[:, 6] = 100
    bench.map()
    infeasible, = bench.news()
    assert infeasible.startswith('warning: task-1: infeasible: ')
    bench.data[:] = 0
    bench.map()
    assert bench.news() == ['task-1: planned again (the map changed): a, b; 8.0 m']


def test_pause_resume_cancel(start):
    bench = start()
    running(bench)
    bench.news()
    bench.runner.pause()
    bench.runner.resume()
    bench.work()
    bench.runner.cancel()
    assert bench.news() == ['task-1: paused', 'task-1: planned again (resumed): a, b; 8.0 m',
                            'task-1: canceled: the task was canceled']


def test_what_others_report(start):
    bench = start()
    running(bench, {**TASK, 'constraints': []})
    bench.news()
    bench.runner.complete_goal('', 'b', done=True)
    bench.work()
    reported, planned = bench.news()
    assert reported.startswith('task-1: b done')
    assert planned == "task-1: planned again (goal 'b' was reported done): a; 3.0 m"


def test_one_task_takes_the_place_of_another(start):
    bench = start()
    running(bench)
    bench.task({'sites': [site('a', 99.0)]})
    bench.work()
    running(bench, {'sites': [site('a', 2.5)]})
    assert bench.news() == [
        'task-1: a, b; 8.0 m', 'task-1: canceled: another task has taken its place',
        'task-3: a; 2.0 m']


def test_nothing_to_do(start):
    bench = start()
    bench.task({**TASK, 'done': ['a', 'b']})
    bench.work()
    assert bench.news() == ['task-1: nothing to do', 'task-1: succeeded']


def test_a_long_plan_is_cut(start):
    bench = start()
    running(bench, {'sites': [site(f's{i}', 1.5 + i) for i in range(8)]})
    assert bench.news() == ['task-1: s0, s1, s2, s3, s4, s5, ... 8 goals; 8.0 m']
