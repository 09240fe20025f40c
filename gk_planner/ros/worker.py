"""The worker: runs planning jobs one after another beside the executor."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
import threading
from typing import Any

from gk_planner.checkpoint import Checkpoint
from gk_planner.errors import CanceledError, GkPlannerError, ShutdownError


class Worker:
    """Runs jobs in one thread and brings each outcome back under a lock.

    Parameters
    ----------
    lock : threading.RLock
        Held while an outcome is handled; whoever holds it is "the caller's thread" of the core.
    report : callable
        Called with the text of an error that is none of the core's.

    """

    def __init__(self, lock: threading.RLock, report: Callable[[str], None]) -> None:
        self._lock = lock
        self._report = report
        self._pool = ThreadPoolExecutor(1, thread_name_prefix='planning')
        self._waiting: deque[None] = deque()  # one for each job that has not begun

    def submit(self, job: Callable[[], Any],
               outcome: Callable[[Any, GkPlannerError | None], None]) -> None:
        """Run a job, then its outcome with the result or the error."""
        self._waiting.append(None)
        try:
            self._pool.submit(self._work, job, outcome)
        except RuntimeError:  # the pool is shut down
            outcome(None, ShutdownError('the node is shutting down'))

    def when_idle(self, job: Callable[[Checkpoint], Any]) -> None:
        """Run a job that gives way to all others, and begins anew behind them."""
        with suppress(RuntimeError):
            self._pool.submit(self._idle, job)

    def stop(self) -> None:
        """Wait for the running job; jobs that wait end at their first checkpoint."""
        self._waiting.append(None)  # what runs when idle gives way to the end
        self._pool.shutdown(wait=True)

    def _idle(self, job: Callable[[Checkpoint], Any]) -> None:
        try:
            job(self._give_way)
        except CanceledError:
            self.when_idle(job)
        except Exception as error:
            self._report(f'internal error: {error!r}')

    def _give_way(self) -> None:
        if self._waiting:
            raise CanceledError('another job is waiting')

    def _work(self, job: Callable[[], Any],
              outcome: Callable[[Any, GkPlannerError | None], None]) -> None:
        self._waiting.popleft()
        result, error = None, None
        try:
            result = job()
        except GkPlannerError as caught:
            error = caught
        except Exception as caught:  # a bug must not leave a client waiting
            self._report(f'internal error: {caught!r}')
            error = GkPlannerError(f'internal error: {caught!r}')
        with self._lock:
            outcome(result, error)
