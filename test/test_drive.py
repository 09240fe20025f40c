"""Drive modes: goal_pose, and Nav2 where it is; what is sent, and what stops the robot."""

from importlib.util import find_spec
import sys
import threading
from types import ModuleType, SimpleNamespace

from action_msgs.msg import GoalStatus
from geometry_msgs.msg import PoseStamped
import numpy as np
import pytest
from ros_harness import Planner, ros, World

from gk_planner.ros.drive import Nav2Driver
from gk_planner_interfaces.msg import TaskStatus

S = TaskStatus
TASK = {'sites': [{'name': 'a', 'features': ['a'], 'position': [3.5, 0.5], 'yaw': 1.0},
                  {'name': 'b', 'features': ['b'], 'position': [8.5, 0.5]}],
        'constraints': ['a before b']}


@pytest.fixture
def bench(tmp_path):
    with ros(tmp_path) as bench:
        yield bench


def place(message):
    pose = message.pose
    return (pose.position.x, pose.position.y, round(
        2 * np.arctan2(pose.orientation.z, pose.orientation.w), 6))


def test_topic(bench):
    world = World(bench)
    bench.start('planner_node', parameters={'status_period': 0.05, 'drive_mode': 'topic'})
    planner = Planner(bench)
    planner.wait_ready(world.map(np.zeros((3, 10))))

    def sent(*poses):
        bench.wait_until(lambda: len(planner.said('goal_pose')) >= len(poses))
        assert [place(message) for message in planner.said('goal_pose')] == list(poses)
        assert planner.said('goal_pose')[-1].header.frame_id == 'map'
        planner.forget()

    planner.run(TASK)
    sent((3.5, 0.5, 1.0))
    world.pose = (3.5, 0.5)
    planner.wait_bits(a=True, b=False)
    sent((8.5, 0.5, 0.0))
    world.pose, world.yaw = (5.25, 0.5), 0.5
    planner.wait_pose(world.pose)
    planner.trigger('pause')
    sent((5.25, 0.5, 0.5))
    planner.trigger('resume')
    sent((8.5, 0.5, 0.0))
    planner.trigger('cancel')
    sent((5.25, 0.5, 0.5))


def test_nav2_without_its_messages(tmp_path):
    if find_spec('nav2_msgs'):
        pytest.skip('nav2_msgs is installed')
    with ros(tmp_path) as bench:
        process = bench.start('planner_node', parameters={'drive_mode': 'nav2_action'})
        managed = bench.start('planner_node', namespace='/m', parameters={
            'drive_mode': 'nav2_action', 'autostart': False})
        planner = Planner(bench, 'm')
        assert not planner.change_state('configure') and planner.lifecycle == 'unconfigured'
        bench.wait_until(lambda: process.status is not None)
        bench.processes.remove(process)
    words = 'drive_mode: nav2_action needs the package nav2_msgs, which is not installed'
    assert words in process.log and words in managed.log
    assert process.status == 2 and 'Traceback' not in process.log


class Handle:
    """A goal of Nav2."""

    def __init__(self, accepted=True):
        self.accepted, self.canceled, self.ended = accepted, False, None
        self.is_over = False

    def cancel_goal_async(self):
        self.canceled = True

    def get_result_async(self):
        return SimpleNamespace(add_done_callback=lambda call: setattr(self, 'ended', call))

    def end(self, status, **result):
        self.is_over = True
        self.ended(SimpleNamespace(result=lambda: SimpleNamespace(
            status=status, result=SimpleNamespace(**result))))


class TestNav2:
    """The driver alone, with an action client that does what the test says."""

    @pytest.fixture
    def driver(self, monkeypatch):
        package, actions = ModuleType('nav2_msgs'), ModuleType('nav2_msgs.action')
        actions.NavigateToPose = SimpleNamespace(Goal=lambda pose: pose)
        monkeypatch.setitem(sys.modules, 'nav2_msgs', package)
        monkeypatch.setitem(sys.modules, 'nav2_msgs.action', actions)
        monkeypatch.setattr('rclpy.action.ActionClient', lambda *_: SimpleNamespace(
            server_is_ready=lambda: self.is_ready, send_goal_async=self.send))
        self.is_ready, self.sent, self.failures = True, [], []
        return Nav2Driver(None, threading.RLock(), lambda error: self.failures.append(str(error)))

    def send(self, pose):
        calls = []
        self.sent.append((pose, lambda handle: calls[0](SimpleNamespace(result=lambda: handle))))
        return SimpleNamespace(add_done_callback=calls.append)

    def test_a_goal_that_succeeds(self, driver):
        target, handle = PoseStamped(), Handle()
        driver.go(target)
        (pose, answer), = self.sent
        assert pose is target
        answer(handle)
        handle.end(GoalStatus.STATUS_SUCCEEDED)
        assert not self.failures

    @pytest.mark.parametrize(('status', 'result', 'words'), [
        (GoalStatus.STATUS_ABORTED, {}, 'aborted the goal'),
        (GoalStatus.STATUS_ABORTED, {'error_code': 104, 'error_msg': 'no valid path'},
         'aborted the goal, error 104: no valid path'),
        (GoalStatus.STATUS_CANCELED, {'error_code': 0, 'error_msg': ''}, 'was canceled by others'),
        (GoalStatus.STATUS_UNKNOWN, {}, 'ended with status 0')])
    def test_a_goal_that_others_end(self, driver, status, result, words):
        handle = Handle()
        driver.go(PoseStamped())
        self.sent[0][1](handle)
        handle.end(status, **result)
        assert self.failures == [f'navigate_to_pose {words}']
        driver.watch(1.0)
        assert len(self.sent) == 1, 'it is for others to decide what comes next'

    def test_stopping_cancels_and_is_no_failure(self, driver):
        handle = Handle()
        driver.go(PoseStamped())
        self.sent[0][1](handle)
        driver.stop(None)
        handle.end(GoalStatus.STATUS_CANCELED)
        assert handle.canceled and not self.failures

    def test_stopping_before_the_goal_is_accepted(self, driver):
        handle = Handle()
        driver.go(PoseStamped())
        driver.stop(None)
        self.sent[0][1](handle)
        assert handle.canceled and not self.failures

    def test_a_new_goal_takes_the_place_of_the_old_one(self, driver):
        old, new = Handle(), Handle()
        driver.go(PoseStamped())
        self.sent[0][1](old)
        driver.go(PoseStamped())
        assert old.canceled and len(self.sent) == 1, 'it waits for the end of the old one'
        old.end(GoalStatus.STATUS_CANCELED)
        self.sent[1][1](new)
        assert not new.canceled and not self.failures

    def test_a_server_that_aborts_what_comes_while_it_is_halting(self, driver):
        targets, handles = [PoseStamped() for _ in range(4)], []

        def serve():
            while len(handles) < len(self.sent):
                handle = Handle()
                is_free = all(older.is_over for older in handles)
                handles.append(handle)
                self.sent[len(handles) - 1][1](handle)
                if not is_free:
                    handle.end(GoalStatus.STATUS_ABORTED)

        driver.go(targets[0])
        serve()
        driver.go(targets[1])
        driver.go(targets[2])
        serve()
        handles[0].end(GoalStatus.STATUS_CANCELED)
        driver.go(targets[3])  # before the one of targets[2] is accepted
        serve()
        handles[1].end(GoalStatus.STATUS_CANCELED)
        serve()
        assert [pose for pose, _ in self.sent] == [targets[0], targets[2], targets[3]]
        assert not self.failures and not handles[-1].canceled

    def test_a_goal_is_sent_after_one_that_was_refused_late(self, driver):
        driver.go(PoseStamped())
        driver.go(PoseStamped())
        self.sent[0][1](Handle(accepted=False))
        assert len(self.sent) == 2 and not self.failures

    def test_the_end_of_a_canceled_goal_is_not_waited_for_for_ever(self, driver):
        old, new = Handle(), Handle()
        driver.go(PoseStamped())
        self.sent[0][1](old)
        driver.watch(90.0)
        driver.go(PoseStamped())
        driver.watch(100.0)
        driver.watch(109.9)
        assert len(self.sent) == 1
        driver.watch(110.0)
        self.sent[1][1](new)
        old.end(GoalStatus.STATUS_CANCELED)
        driver.watch(130.0)
        assert len(self.sent) == 2 and not new.canceled and not self.failures

    def test_refused(self, driver):
        driver.go(PoseStamped())
        self.sent[0][1](Handle(accepted=False))
        assert self.failures == ['navigate_to_pose rejected the goal']

    def test_a_server_that_comes_late(self, driver):
        self.is_ready = False
        driver.go(PoseStamped())
        driver.watch(100.0)
        driver.watch(109.9)
        assert not self.sent and not self.failures
        self.is_ready = True
        driver.watch(110.0)
        driver.watch(110.1)
        assert len(self.sent) == 1 and not self.failures

    def test_a_server_that_does_not_come(self, driver):
        self.is_ready = False
        driver.go(PoseStamped())
        driver.watch(100.0)
        driver.watch(110.0)
        driver.watch(120.0)
        assert self.failures == ['navigate_to_pose is not available for 10 s']
        # Whoever tries the next place has waited long enough.
        driver.go(PoseStamped())
        driver.watch(120.1)
        assert len(self.failures) == 2
        # A new task waits anew.
        driver.stop(None)
        driver.go(PoseStamped())
        driver.watch(121.0)
        assert len(self.failures) == 2 and not self.sent

    def test_a_server_that_goes_and_comes_back_gets_the_goal_again(self, driver):
        old, new = Handle(), Handle()
        driver.go(PoseStamped())
        self.sent[0][1](old)
        self.is_ready = False
        driver.watch(1.0)
        old.end(GoalStatus.STATUS_UNKNOWN)
        self.is_ready = True
        driver.watch(2.0)
        self.sent[1][1](new)
        driver.stop(None)
        assert new.canceled and not self.failures

    def test_nothing_is_sent_after_the_stop(self, driver):
        self.is_ready = False
        driver.go(PoseStamped())
        driver.stop(None)
        self.is_ready = True
        driver.watch(1.0)
        assert not self.sent and not self.failures
