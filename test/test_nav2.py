"""drive_mode nav2_action against a server of the real NavigateToPose; where nav2_msgs is there."""

import numpy as np
import pytest
from ros_harness import Planner, ros, World

pytest.importorskip('nav2_msgs.action', reason='the package nav2_msgs is not installed')

from action_msgs.msg import GoalStatus
from nav2_msgs.action import NavigateToPose
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future

from gk_planner_interfaces.msg import TaskStatus

S = TaskStatus
# Two ways to do b, so that a task may go on without one of them.
TASK = {'sites': [{'name': 'a', 'features': ['a'], 'position': [3.5, 0.5], 'yaw': 1.0},
                  {'name': 'near', 'features': ['b'], 'position': [8.5, 0.5]},
                  {'name': 'far', 'features': ['b'], 'position': [9.5, 2.5]}],
        'constraints': ['a before b']}


class Navigator:
    """What Nav2 shows of itself; the test says what becomes of each goal."""

    def __init__(self, bench):
        self._ros = bench
        self.accepts = True
        self.halts_slowly = False
        self.goals, self._ends = [], []
        self.start()

    def start(self):
        self._running = 0
        self._server = ActionServer(
            self._ros.node, NavigateToPose, 'navigate_to_pose', self._execute,
            goal_callback=lambda _: GoalResponse.ACCEPT if self.accepts else GoalResponse.REJECT,
            cancel_callback=self._cancel)

    def disappear(self):
        if self._server is not None:
            self._server.destroy()
        self._server = None

    @property
    def places(self):
        """Where each goal leads: x, y, yaw, frame."""
        return [(pose.pose.position.x, pose.pose.position.y, round(
            2 * np.arctan2(pose.pose.orientation.z, pose.pose.orientation.w), 6),
            pose.header.frame_id) for pose in (goal.request.pose for goal in self.goals)]

    def wait_goals(self, number):
        self._ros.wait_until(lambda: len(self.goals) == number, f'{number} goals')
        return self.goals[-1]

    def end(self, goal, how, **result):
        """End a goal: succeed, abort."""
        getattr(goal, how)()
        self._ends[self.goals.index(goal)].set_result(NavigateToPose.Result(**result))

    def halt(self, goal):
        """End a goal that is canceled."""
        self._ends[[known.goal_id for known in self.goals].index(goal.goal_id)].set_result(None)

    def _cancel(self, goal):
        if not self.halts_slowly:
            self.halt(goal)
        return CancelResponse.ACCEPT

    async def _execute(self, goal):
        end = Future()
        self.goals.append(goal)
        self._ends.append(end)
        if self._running:  # so does Nav2 while it is halting
            goal.abort()
            return NavigateToPose.Result()
        self._running += 1
        goal.publish_feedback(NavigateToPose.Feedback(distance_remaining=1.0))
        result = await end
        self._running -= 1
        if result is None:
            goal.canceled()
        return result or NavigateToPose.Result()


@pytest.fixture
def bench(tmp_path):
    with ros(tmp_path) as bench:
        yield bench


@pytest.fixture
def navigator(bench):
    navigator = Navigator(bench)
    yield navigator
    navigator.disappear()  # a server outlives its node


@pytest.fixture
def world(bench):
    return World(bench)


@pytest.fixture
def start(bench, world):
    """Start a planner that drives by Nav2 and knows the map."""
    def start(**parameters):
        bench.start('planner_node', parameters={
            'status_period': 0.05, 'drive_mode': 'nav2_action', **parameters})
        planner = Planner(bench)
        planner.wait_ready(world.map(np.zeros((3, 10))))
        return planner
    return start


def is_canceled(goal):
    return goal.status == GoalStatus.STATUS_CANCELED


def test_each_option_is_a_goal_and_arrival_is_judged_by_the_pose(bench, navigator, world, start):
    planner = start()
    planner.run(TASK)
    goal = navigator.wait_goals(1)
    # Nav2 says that it is there, and the robot is not: nothing is done.
    navigator.end(goal, 'succeed')
    planner.forget()
    bench.wait_until(lambda: len(planner.said('status')) > 4)
    assert planner.bits == {'a': False, 'b': False}
    world.pose = (3.5, 0.5)
    last = navigator.wait_goals(2)
    world.pose = (8.5, 0.5)
    planner.wait_state(S.SUCCEEDED)
    bench.wait_until(lambda: is_canceled(last), 'nothing is left over')
    assert navigator.places == [(3.5, 0.5, 1.0, 'map'), (8.5, 0.5, 0.0, 'map')]


def test_the_next_goal_waits_until_the_one_before_has_ended(bench, navigator, world, start):
    navigator.halts_slowly = True
    planner = start()
    planner.run(TASK)
    first = navigator.wait_goals(1)
    world.pose = (3.5, 0.5)
    bench.wait_until(lambda: first.is_cancel_requested)
    planner.wait_bits(a=True, b=False)
    planner.forget()
    bench.wait_until(lambda: len(planner.said('status')) > 4)
    assert len(navigator.goals) == 1
    navigator.halt(first)
    navigator.wait_goals(2)
    planner.forget()
    bench.wait_until(lambda: len(planner.said('status')) > 4)
    assert planner.status.current_site == 'near' and not planner.status.replans


def test_pause_and_cancel_cancel_the_goal(bench, navigator, start):
    planner = start()
    planner.run(TASK)
    first = navigator.wait_goals(1)
    assert planner.trigger('pause').success
    bench.wait_until(lambda: is_canceled(first))
    assert planner.trigger('resume').success
    second = navigator.wait_goals(2)
    assert planner.trigger('cancel').success
    bench.wait_until(lambda: is_canceled(second))
    assert planner.wait_state(S.CANCELED).error_code == S.ERROR_CANCELED


def test_the_end_of_the_node_cancels_the_goal(bench, navigator, start):
    start().run(TASK)
    goal = navigator.wait_goals(1)
    bench.processes[0].interrupt()
    bench.wait_until(lambda: is_canceled(goal))


@pytest.mark.parametrize('how', ['reject', 'abort', 'cancel'])
def test_policy_abort(bench, navigator, start, how):
    planner = start(failure_policy='abort')
    navigator.accepts = how != 'reject'
    goal = planner.execute(TASK)
    words = 'navigate_to_pose rejected the goal'
    if how == 'abort':
        navigator.end(navigator.wait_goals(1), 'abort', error_code=104, error_msg='no path')
        words = 'navigate_to_pose aborted the goal, error 104: no path'
    elif how == 'cancel':
        client = bench.node.create_client(
            NavigateToPose.Impl.CancelGoalService, 'navigate_to_pose/_action/cancel_goal')
        navigator.wait_goals(1)
        bench.wait_until(client.service_is_ready)
        bench.wait_for(client.call_async(NavigateToPose.Impl.CancelGoalService.Request()))
        words = 'navigate_to_pose was canceled by others'
    status = planner.wait_state(S.FAILED)
    result = goal.result()[1]
    assert status.error_code == result.error_code == S.ERROR_DRIVE
    assert status.message == result.message == f"site 'a': {words}"
    assert planner.goal_states == {'a': S.GOAL_FAILED, 'b': S.GOAL_PENDING}


def test_policy_replan_tries_the_other_site(bench, navigator, world, start):
    planner = start()
    planner.run(TASK)
    navigator.wait_goals(1)
    world.pose = (3.5, 0.5)
    navigator.end(navigator.wait_goals(2), 'abort')
    navigator.wait_goals(3)
    bench.wait_until(lambda: planner.status.current_site == 'far')
    assert planner.status.replan_reason == "site 'near': navigate_to_pose aborted the goal"
    navigator.end(navigator.goals[-1], 'abort')
    status = planner.wait_state(S.INFEASIBLE)
    assert "'far' (navigate_to_pose aborted the goal)" in status.message
    assert planner.bits == {'a': True, 'b': False}


def test_a_server_that_comes_late_or_comes_back_gets_the_goal(bench, navigator, world, start):
    navigator.disappear()
    planner = start()
    planner.run(TASK)
    navigator.start()
    navigator.wait_goals(1)
    navigator.disappear()
    planner.forget()
    bench.wait_until(lambda: len(planner.said('status')) > 4)
    assert planner.status.state == S.EXECUTING
    navigator.start()
    navigator.wait_goals(2)
    assert navigator.places[0] == navigator.places[1]
    world.pose = (3.5, 0.5)
    planner.wait_bits(a=True, b=False)


def test_a_server_that_stays_away_fails_the_option(navigator, start):
    navigator.disappear()
    planner = start(failure_policy='abort')
    planner.run(TASK)
    status = planner.wait_state(S.FAILED)
    assert status.error_code == S.ERROR_DRIVE
    assert status.message == "site 'a': navigate_to_pose is not available for 10 s"
