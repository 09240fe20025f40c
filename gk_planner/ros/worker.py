"""The worker: runs planning jobs one after another beside the executor."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import threading
from typing import Any

from gk_planner.errors import GkPlannerError, ShutdownError


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

    def submit(self, job: Callable[[], Any],
               outcome: Callable[[Any, GkPlannerError | None], None]) -> None:
        """Run a job, then its outcome with the result or the error."""
        try:
            self._pool.submit(self._work, job, outcome)
        except RuntimeError:  # the pool is shut down
            outcome(None, ShutdownError('the node is shutting down'))

    def stop(self) -> None:
        """Wait for the running job; jobs that wait end at their first checkpoint."""
        self._pool.shutdown(wait=True)

    def _work(self, job: Callable[[], Any],
              outcome: Callable[[Any, GkPlannerError | None], None]) -> None:
        result, error = None, None
        try:
            result = job()
        except GkPlannerError as caught:
            error = caught
        except Exception as caught:  # a bug must not leave a client waiting
            self._report(f'internal error: {caught!r}')
            error = GkPlannerError(f'internal error: {caught!r}')
        try:
            with self._lock:
                outcome(result, error)
        except Exception as caught:  # nobody looks into the future of the pool
            self._report(f'internal error: {caught!r}')
