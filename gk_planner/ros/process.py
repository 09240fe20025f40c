"""Run a node as a process: threads, signals, a clean end."""

from collections.abc import Callable
import signal
import sys
import threading
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

_THREADS = 8


def run_node(make_node: Callable[[], Any]) -> int:
    """Spin a node until SIGINT or SIGTERM; its ``stop`` is called while it can still publish.

    A lifecycle node with a true ``config.autostart`` is configured and activated.
    """
    # rclpy's own handlers make the context invalid at once, and then nobody can be told that the
    # task has ended. Python's run in this thread as long as it waits in Python and not in rcl.
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
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
            except Exception as error:  # such as an invalid lifecycle transition
                node.get_logger().error(str(error))

    spinner = threading.Thread(target=spin, name='spin')
    spinner.start()
    config = getattr(node, 'config', None)
    if getattr(config, 'autostart', False):
        node.trigger_configure()
        node.trigger_activate()
    stop.wait()
    node.stop()
    stopped.set_result(None)
    spinner.join()
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown()
    return 0
