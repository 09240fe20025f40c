"""The worker: a bug in what follows a job is told, and the next job runs."""

import threading

import pytest

pytest.importorskip('gk_planner.ros', reason='the ROS side is not there')

from gk_planner.errors import GkPlannerError, ShutdownError
from gk_planner.ros.worker import Worker


def test_bugs_are_reported_and_the_next_job_runs():
    reports, outcomes, done = [], [], threading.Event()
    worker = Worker(threading.RLock(), reports.append)

    def broken(result, error):
        raise ValueError('the outcome')

    def last(result, error):
        outcomes.append((result, error))
        done.set()

    worker.submit(lambda: 1 // 0, lambda result, error: outcomes.append((result, error)))
    worker.submit(lambda: 1, broken)
    worker.submit(lambda: 2, last)
    assert done.wait(10.0)
    worker.stop()
    (nothing, error), (result, no_error) = outcomes
    assert nothing is None and isinstance(error, GkPlannerError)
    assert 'ZeroDivisionError' in error.message and (result, no_error) == (2, None)
    assert [report.partition('(')[0] for report in reports] == [
        'internal error: ZeroDivisionError', 'internal error: ValueError']


def test_after_the_end_there_is_an_answer_too():
    outcomes = []
    worker = Worker(threading.RLock(), print)
    worker.stop()
    worker.submit(lambda: 1, lambda result, error: outcomes.append((result, error)))
    (result, error), = outcomes
    assert result is None and isinstance(error, ShutdownError)
