"""Run a node as a process: threads, signals, a clean end."""

from collections.abc import Callable
import signal
import socket
import sys
import threading
import time
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

_LAST_WORDS = 0.2  # [s]
_THREADS = 32  # made when needed; a request that waits for planning holds one


def run_node(make_node: Callable[[], Any]) -> int:
    """Spin a node until SIGINT or SIGTERM; its ``stop`` is called while it can still publish.

    A lifecycle node with a true ``config.autostart`` is configured and activated. Returns the
    exit status: 2 if that was not possible.
    """
    # rclpy's own handlers make the context invalid at once, and then nobody can be told that the
    # task has ended. Python's run in this thread alone, which a signal that another thread takes
    # does not wake; a byte in a socket does.
    signals, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    signal.set_wakeup_fd(wakeup.fileno())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    node = make_node()
    executor = MultiThreadedExecutor(num_threads=_THREADS)
    executor.add_node(node)
    stopped = Future(executor=executor)

    def spin() -> None:
        while not stopped.done():
            try:
                executor.spin_until_future_complete(stopped)
            except ExternalShutdownException:
                return
            except Exception as error:  # a bug in one callback must not end the others
                node.get_logger().error(str(error))

    spinner = threading.Thread(target=spin, name='spin')
    spinner.start()
    can_run = True
    if getattr(node.config, 'autostart', False):
        can_run = node.trigger_configure() == TransitionCallbackReturn.SUCCESS
        if can_run:
            node.trigger_activate()
    if can_run:
        signals.recv(1)
    # Further ones (Ctrl-C reaches a node from the terminal and from launch) change nothing, also
    # when Python has taken its handlers away.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        node.stop()
    except Exception as error:  # a bug must not keep the process alive
        node.get_logger().error(f'internal error: {error!r}')
    # The executor sends what the last callbacks returned, and nothing tells when it has.
    time.sleep(_LAST_WORDS)
    stopped.set_result(None)
    spinner.join()
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown()
    return 0 if can_run else 2
