"""The compiler: kernels that are not on disk are compiled beside the node, before they are needed.

A workspace that was just built has none, and its first plans would wait for them. A process of its
own does not slow the node down and can be ended at any time.
"""

from collections.abc import Callable
import os
import subprocess
import sys
import threading

from gk_planner.warm_up import is_compiled

_CHILD = 'import os; os.nice(10); from gk_planner.warm_up import compile_all; compile_all()'


class Compiler:
    """Compiles what is missing, once after an installation.

    Parameters
    ----------
    say : callable
        Called with what a user should know.

    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Look what is missing, and compile it at a low priority."""
        try:
            if self._process is not None or is_compiled():
                return
            # -P and the path of this process: the same package, whatever the present folder is.
            self._process = subprocess.Popen(
                [sys.executable, '-P', '-c', _CHILD],
                env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError as error:
            self._say(f'kernels are compiled when they are needed: {error}')
            return
        self._say('compiling kernels, once after an installation; plans take longer until then')
        threading.Thread(target=self._tell_end, args=[self._process], daemon=True).start()

    def stop(self) -> None:
        """End it; what has been compiled stays on disk."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def _tell_end(self, process: subprocess.Popen[bytes]) -> None:
        if process.wait() == 0:
            self._say('kernels compiled')
