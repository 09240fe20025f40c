"""The worker: jobs in order, their outcomes, and what runs when it is idle."""

import threading

import pytest

from gk_planner.errors import CanceledError, GkPlannerError, ShutdownError
from gk_planner.ros.worker import Worker

TIMEOUT = 10.0


@pytest.fixture
def told():
    return []


@pytest.fixture
def worker(told):
    worker = Worker(threading.RLock(), told.append)
    yield worker
    worker.stop()


def run(worker, job):
    """Run a job to its end; returns its result and error."""
    ended, outcome = threading.Event(), []

    def take(result, error):
        outcome.extend((result, error))
        ended.set()

    worker.submit(job, take)
    assert ended.wait(TIMEOUT)
    return outcome


def test_results_and_errors_come_back(worker, told):
    def wrong():
        raise CanceledError('enough')

    assert run(worker, lambda: 3) == [3, None]
    result, error = run(worker, wrong)
    assert result is None and isinstance(error, CanceledError) and not told


def test_a_bug_is_reported_and_the_worker_goes_on(worker, told):
    result, error = run(worker, lambda: 1 / 0)
    assert result is None and type(error) is GkPlannerError and 'ZeroDivision' in error.message
    assert run(worker, lambda: 4) == [4, None]
    worker.when_idle(lambda checkpoint: 1 / 0)
    assert run(worker, lambda: 5) == [5, None]
    assert len(told) == 2 and all('ZeroDivision' in text for text in told)


def test_what_runs_when_idle_gives_way_and_begins_anew(worker):
    course, begun, ended = [], threading.Event(), threading.Event()

    def idle(checkpoint):
        course.append('begin')
        begun.set()
        while 'job' not in course:
            checkpoint()
        course.append('end')
        ended.set()

    worker.when_idle(idle)
    assert begun.wait(TIMEOUT)
    run(worker, lambda: course.append('job'))
    assert ended.wait(TIMEOUT)
    assert course == ['begin', 'job', 'begin', 'end']


def test_what_runs_when_idle_holds_up_no_end(told):
    worker, begun = Worker(threading.RLock(), told.append), threading.Event()

    def idle(checkpoint):
        begun.set()
        while True:
            checkpoint()

    worker.when_idle(idle)
    assert begun.wait(TIMEOUT)
    worker.stop()
    worker.when_idle(idle)
    assert isinstance(run(worker, lambda: 1)[1], ShutdownError) and not told
