"""The planner node carries out tasks: services, action, arrival, regrounding, map changes."""

import math

from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Point
from nav_msgs.msg import MapMetaData, OccupancyGrid
import numpy as np
import pytest
from rclpy.qos import QoSProfile
from ros_harness import Planner, ros, spec, World
from std_msgs.msg import Header
from visualization_msgs.msg import Marker

from gk_planner_interfaces.msg import Goal, Site, TaskSpec, TaskStatus
from gk_planner_interfaces.srv import SetTask

S = TaskStatus
FLOOR = np.zeros((3, 10))
TASK = {'sites': [{'name': 'a', 'features': ['a'], 'position': [3.5, 0.5]},
                  {'name': 'b', 'features': ['b'], 'position': [8.5, 0.5]}],
        'constraints': ['a before b']}
MOVED_B = {'name': 'b', 'features': ['b'], 'position': [5.5, 2.5]}
LARGE_TASK = {'sites': [{'name': f's{i}', 'features': [f'f{i % 10}'],
                         'position': [20.5 + 104 * (i % 10), 20.5 + 150 * (i // 10)]}
                        for i in range(60)]}
HOME = (0.5, 0.5)
STATUS_PERIOD = 0.05


@pytest.fixture(scope='module')
def shared(tmp_path_factory):
    with ros(tmp_path_factory.mktemp('planner')) as bench:
        world = World(bench)
        process = bench.start('planner_node', parameters={
            'status_period': STATUS_PERIOD, 'path_tolerance': 1.2})
        yield bench, world, Planner(bench), process


@pytest.fixture
def bench(shared):
    return shared[0]


@pytest.fixture
def world(shared):
    return shared[1]


@pytest.fixture
def planner(shared):
    """A planner without a task, on an empty floor, with the robot at home."""
    _, world, planner, process = shared
    if world.data is not None:
        planner.trigger('cancel')
    stamp = world.map(FLOOR)
    world.pose = HOME
    planner.wait_ready(stamp)
    planner.wait_pose(HOME)
    planner.forget()
    yield planner
    print(process.log)
    assert process.status is None, 'the node stays up'
    assert 'Traceback' not in process.log


def is_cleared(planner):
    last = planner.last
    return (last['plan'].task_id == '' and not last['plan'].options and not last['path'].poses
            and not last['waypoints'].poses
            and [marker.action for marker in last['markers'].markers] == [Marker.DELETEALL])


def wall(col):
    data = FLOOR.copy()
    data[:, col] = 100
    return data


class TestService:
    def test_a_task_from_request_to_success(self, bench, planner, world):
        answer = planner.run(TASK)
        assert answer.success and answer.error_code == S.ERROR_NONE and answer.message == ''
        plan = answer.plan
        assert plan.task_id == answer.task_id and plan.header.frame_id == 'map'
        assert [(option.goal, option.site) for option in plan.options] == [('a', 'a'), ('b', 'b')]
        assert plan.cost == 8.0 and plan.optimal and plan.bound == 8.0
        assert [list(option.bits) for option in plan.options] == [[True, False], [True, True]]
        # Each topic comes in its own time.
        bench.wait_until(lambda: all(planner.last[topic] for topic in (
            'plan', 'status', 'path', 'waypoints', 'markers')))
        assert planner.last['plan'].options == plan.options
        assert [place.pose for place in planner.last['waypoints'].poses] == [
            option.pose for option in plan.options]
        bench.wait_until(lambda: planner.path == [(x + 0.5, 0.5) for x in range(9)])
        assert planner.status.current_goal == planner.status.current_site == 'a'
        assert planner.goal_states == {'a': S.GOAL_CURRENT, 'b': S.GOAL_PENDING}

        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        assert planner.goal_states == {'a': S.GOAL_DONE, 'b': S.GOAL_CURRENT}
        bench.wait_until(lambda: len(planner.last['plan'].options) == 1)
        world.pose = (8.5, 0.5)
        status = planner.wait_state(S.SUCCEEDED)
        assert planner.bits == {'a': True, 'b': True} and status.error_code == S.ERROR_NONE
        bench.wait_until(lambda: is_cleared(planner))

    def test_the_log_tells_the_course_of_a_task_once(self, bench, shared, planner, world):
        task_id = planner.run(TASK).task_id
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        planner.wait_map(world.map(FLOOR))
        world.pose = (8.5, 0.5)
        planner.wait_state(S.SUCCEEDED)
        bench.wait_until(lambda: f'{task_id}: succeeded' in shared[3].log)
        told = [line.partition(f'{task_id}: ')[2] for line in shared[3].log.splitlines()
                if f'{task_id}: ' in line]
        assert told == ['a, b; 8.0 m', 'a done, next b, 5.0 m', 'b done', 'succeeded']
        assert shared[3].log.count('map: 10 x 3 cells of 1 m') >= 1

    def test_driving_over_another_site_flips_nothing(self, bench, planner, world):
        planner.run(TASK)
        world.pose = (8.5, 0.5)
        bench.wait_until(lambda: planner.status.cost_to_go == 10.0, '5 m back, 5 m again')
        assert planner.bits == {'a': False, 'b': False}
        bench.wait_until(lambda: planner.path[0] == (8.5, 0.5), 'waypoints from where it is')
        assert planner.status.replans == 0

    def test_nothing_is_reached_through_a_wall(self, bench, planner, world):
        data = np.zeros((20, 20))
        data[:15, 10] = 100
        planner.wait_map(world.map(data, resolution=0.1))
        world.pose = (0.95, 0.25)
        planner.wait_pose(world.pose)
        planner.run({'sites': [{'name': 'a', 'features': ['a'], 'position': [1.15, 0.25]}]})
        n = len(planner.said('status'))
        bench.wait_until(lambda: len(planner.said('status')) > n + 3)
        assert planner.status.state == S.EXECUTING and planner.bits == {'a': False}
        assert planner.status.cost_to_go > 2.0

    def test_a_task_that_is_done_already_succeeds_at_once(self, planner):
        answer = planner.set_task({**TASK, 'done': ['a', 'b']})
        assert answer.success and answer.plan.cost == 0.0 and not answer.plan.options
        planner.wait_state(S.SUCCEEDED, answer.task_id)

    def test_dry_run_only_plans(self, planner):
        running = planner.run(TASK).task_id
        answer = planner.set_task({'sites': TASK['sites'][:1]}, dry_run=True)
        assert answer.success and answer.plan.cost == 3.0 and answer.task_id == ''
        planner.forget()
        assert planner.wait_state(S.EXECUTING, running).goals == ['a', 'b']
        assert not planner.said('plan')

    def test_a_new_task_inherits_nothing(self, planner, world):
        first = planner.run(TASK).task_id
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        world.pose = (5.5, 0.5)
        planner.wait_pose(world.pose)
        planner.forget()
        second = planner.run(TASK).task_id
        assert second != first and planner.bits == {'a': False, 'b': False}
        old = [status for status in planner.said('status') if status.task_id == first][-1]
        assert (old.state, old.error_code) == (S.CANCELED, S.ERROR_PREEMPTED)

    def test_poses_carry_the_yaw_of_the_site_or_of_the_last_step(self, planner):
        sites = [{**TASK['sites'][0], 'yaw': 1.25}, {**TASK['sites'][1], 'position': [8.5, 2.5]}]
        plan = planner.run({**TASK, 'sites': sites}).plan
        yaws = [2 * math.atan2(option.pose.orientation.z, option.pose.orientation.w)
                for option in plan.options]
        last, end = planner.path[-2:]
        heading = math.atan2(end[1] - last[1], end[0] - last[0])
        assert yaws == pytest.approx([1.25, heading]) and heading != 0.0

    def test_status_comes_with_its_period(self, bench, planner):
        """With nothing to tell it goes on all the same; a busy machine may only delay it."""
        planner.forget()
        bench.wait_until(lambda: len(planner.said('status')) >= 6)
        stamps = [status.header.stamp for status in planner.said('status')]
        times = [stamp.sec + stamp.nanosec * 1e-9 for stamp in stamps]
        assert np.diff(times).min() > 0
        # A late one may be followed by one in time, but they never come more often on the whole.
        assert times[-1] - times[0] > (len(times) - 2) * STATUS_PERIOD

    def test_a_late_subscriber_gets_everything_that_is_latched(self, bench, planner):
        task_id = planner.run(TASK).task_id
        late = Planner(bench)
        bench.wait_until(lambda: all(late.last[topic] for topic in (
            'plan', 'status', 'path', 'waypoints', 'markers')))
        assert late.said('plan')[0].task_id == late.said('status')[0].task_id == task_id
        assert len(late.said('plan')) == 1 and len(late.path) == 9

    def test_a_robot_in_a_blocked_cell_leaves_through_a_free_one(self, bench, planner, world):
        data = FLOOR.copy()
        data[0, 0] = 100
        planner.wait_map(world.map(data))
        assert planner.run(TASK).plan.cost == 7.0
        bench.wait_until(lambda: planner.path and planner.path[0] == (1.5, 0.5))


class TestAction:
    def test_feedback_and_result(self, bench, planner, world):
        goal = planner.execute(TASK)
        planner.wait_state(S.EXECUTING)
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        world.pose = (8.5, 0.5)
        status, result = goal.result()
        assert status == GoalStatus.STATUS_SUCCEEDED
        assert result.success and result.error_code == S.ERROR_NONE and result.cost == 8.0
        assert result.goals == ['a', 'b'] and list(result.goal_states) == [S.GOAL_DONE] * 2
        seen = [(status.state, *status.bits) for status in goal.feedback]
        order = [(S.PLANNING, False, False), (S.EXECUTING, False, False),
                 (S.EXECUTING, True, False), (S.SUCCEEDED, True, True)]
        assert sorted(set(seen), key=seen.index) == order
        assert {status.task_id for status in goal.feedback} == {result.task_id}

    def test_cancel(self, bench, planner):
        goal = planner.execute(TASK)
        planner.wait_state(S.EXECUTING)
        goal.cancel()
        status, result = goal.result()
        assert status == GoalStatus.STATUS_CANCELED
        assert not result.success and result.error_code == S.ERROR_CANCELED
        assert list(result.goal_states) == [S.GOAL_PENDING] * 2
        assert planner.wait_state(S.CANCELED, result.task_id).error_code == S.ERROR_CANCELED
        bench.wait_until(lambda: is_cleared(planner))

    def test_the_cancel_service_aborts_the_goal(self, planner):
        goal = planner.execute(TASK)
        planner.wait_state(S.EXECUTING)
        assert planner.trigger('cancel').success
        status, result = goal.result()
        assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, S.ERROR_CANCELED)

    @pytest.mark.parametrize('by', ['action', 'service'])
    def test_a_replaced_goal_is_aborted(self, bench, planner, by):
        goal = planner.execute(TASK)
        first = planner.wait_state(S.EXECUTING).task_id
        if by == 'action':
            second = planner.execute(TASK)
        else:
            planner.set_task(TASK)
        status, result = goal.result()
        assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, S.ERROR_PREEMPTED)
        assert result.task_id == first
        bench.wait_until(lambda: planner.status.state == S.EXECUTING
                         and planner.status.task_id != first, 'the other one runs')
        if by == 'action':
            second.cancel()
            assert second.result()[0] == GoalStatus.STATUS_CANCELED

    def test_a_bad_goal_is_aborted_and_the_running_one_goes_on(self, planner):
        goal = planner.execute(TASK)
        running = planner.wait_state(S.EXECUTING).task_id
        status, result = planner.execute({**TASK, 'formula': 'a & !a'}).result()
        assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, S.ERROR_INFEASIBLE)
        assert "formula" in result.message
        planner.forget()
        planner.wait_state(S.EXECUTING, running)
        assert not goal.future.done()


class TestCancelAndPause:
    def test_cancel_clears_everything(self, bench, planner):
        planner.run(TASK)
        answer = planner.trigger('cancel')
        assert answer.success and answer.message == 'canceled'
        status = planner.wait_state(S.CANCELED)
        assert status.error_code == S.ERROR_CANCELED and status.cost_to_go == 0.0
        assert status.current_goal == ''
        bench.wait_until(lambda: is_cleared(planner))
        again = planner.trigger('cancel')
        assert not again.success and again.message == 'nothing is running'

    def test_pause_stops_and_resume_goes_on(self, bench, planner, world):
        planner.run(TASK)
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        assert planner.trigger('pause').success
        planner.wait_state(S.PAUSED)
        bench.wait_until(lambda: not planner.path, 'whoever follows the path stops')
        bench.wait_until(lambda: len(planner.last['plan'].options) == 1)
        world.pose = (8.5, 0.5)
        planner.wait_pose(world.pose)
        planner.forget()
        bench.wait_until(lambda: len(planner.said('status')) > 2)
        assert planner.bits == {'a': True, 'b': False}, 'a paused task flips nothing'
        assert not planner.trigger('pause').success
        world.pose = (6.5, 0.5)
        planner.wait_pose(world.pose)
        assert planner.trigger('resume').success
        assert planner.wait_state(S.EXECUTING).replan_reason == 'resumed'
        bench.wait_until(lambda: planner.path == [(6.5, 0.5), (7.5, 0.5), (8.5, 0.5)])
        world.pose = (8.5, 0.5)
        planner.wait_state(S.SUCCEEDED)
        assert not planner.trigger('resume').success

    def test_cancel_while_paused(self, bench, planner):
        planner.run(TASK)
        planner.trigger('pause')
        planner.wait_state(S.PAUSED)
        assert planner.trigger('cancel').success
        planner.wait_state(S.CANCELED)
        bench.wait_until(lambda: is_cleared(planner))

    def test_a_report_while_paused_is_taken(self, planner):
        planner.run(TASK)
        planner.trigger('pause')
        assert planner.complete('a').success
        planner.wait_bits(a=True, b=False)
        assert planner.status.state == S.PAUSED
        planner.trigger('resume')
        assert planner.wait_state(S.EXECUTING).current_goal == 'b'


class TestLargeMap:
    """While a 1000 x 1000 map is planned on, everything else is answered."""

    @pytest.fixture
    def planner(self, planner, world):
        planner.wait_map(world.map(np.zeros((1000, 1000))))
        return planner

    def test_cancel_stops_planning(self, bench, planner):
        answer = planner.set_task_async(LARGE_TASK)
        planner.wait_state(S.PLANNING)
        planner.forget()
        bench.wait_until(lambda: len(planner.said('status')) > 20, 'status goes on')
        assert planner.status.state == S.PLANNING and not answer.done()
        canceled = planner.trigger('cancel')
        assert canceled.success and canceled.message == 'canceled'
        # A plan that had been made before the cancel would be a success.
        planner.forget()
        assert bench.wait_for(answer).error_code == S.ERROR_CANCELED
        assert len(planner.said('status')) < 20, 'it stopped sooner than it had run'
        assert planner.status.state != S.EXECUTING

    def test_cancel_of_a_goal_stops_planning(self, bench, planner):
        goal = planner.execute(LARGE_TASK)
        planner.wait_state(S.PLANNING)
        goal.cancel()
        status, result = goal.result()
        assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, S.ERROR_CANCELED)
        bench.wait_until(lambda: planner.status.state not in (S.PLANNING, S.EXECUTING))

    def test_the_running_task_goes_on_while_another_is_planned(self, bench, planner, world):
        near = {'sites': [{'name': 'n', 'features': ['n'], 'position': [3.5, 0.5]}]}
        running = planner.run(near).task_id
        other = planner.set_task_async(LARGE_TASK, dry_run=True)
        world.pose = (3.5, 0.5)
        planner.wait_state(S.SUCCEEDED, running)
        assert not other.done(), 'arrived before the other plan was there'
        assert planner.trigger('cancel').success
        assert bench.wait_for(other).error_code == S.ERROR_CANCELED


class TestReground:
    def test_before_the_option(self, bench, planner, world):
        planner.run(TASK)
        answer = planner.reground([MOVED_B])
        assert answer.success and answer.plan_changed and answer.method in (
            'zero_shot', 'resolved')
        assert answer.planning_ms > 0
        assert answer.plan.options[1].pose.position.x == 5.5
        status = bench.wait_until(lambda: planner.status.replans == 1 and planner.status)
        assert status.replan_reason == 'a site was regrounded' and status.current_goal == 'a'
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        world.pose = (5.5, 2.5)
        planner.wait_state(S.SUCCEEDED)

    def test_during_the_option(self, bench, planner, world):
        planner.run(TASK)
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        world.pose = (4.5, 0.5)
        planner.wait_pose(world.pose)
        answer = planner.reground([MOVED_B])
        assert answer.success and answer.plan_changed
        assert [option.site for option in answer.plan.options] == ['b']
        bench.wait_until(lambda: planner.path[-1] == (5.5, 2.5))
        assert planner.bits == {'a': True, 'b': False}
        world.pose = (5.5, 2.5)
        planner.wait_state(S.SUCCEEDED)

    def test_after_the_option_nothing_changes(self, bench, planner, world):
        planner.run(TASK)
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        bench.wait_until(lambda: len(planner.last['waypoints'].poses) == 1)
        planner.forget()
        answer = planner.reground([{'name': 'a', 'features': ['a'], 'position': [0.5, 2.5]}])
        assert answer.success and not answer.plan_changed
        bench.wait_until(lambda: len(planner.said('status')) > 2)
        assert planner.bits == {'a': True, 'b': False} and planner.status.replans == 0
        assert not planner.said('plan') and not planner.said('waypoints')

    def test_two_at_once_both_count(self, bench, planner):
        planner.run(TASK)
        answers = [planner.reground_async([MOVED_B]), planner.reground_async(
            [{'name': 'a', 'features': ['a'], 'position': [1.5, 2.5]}])]
        assert all(bench.wait_for(answer).success for answer in answers)
        places = [(2, 1.5), (2, 5.5)]
        bench.wait_until(lambda: [
            (int(option.pose.position.y), option.pose.position.x)
            for option in planner.last['plan'].options] == places)

    def test_new_alternatives_and_removed_ones(self, planner):
        planner.run(TASK)
        near = {'name': 'a2', 'features': ['a'], 'position': [0.5, 1.5]}
        answer = planner.reground([near], removed=['a'])
        assert answer.success and answer.plan.options[0].site == 'a2'

    def test_while_paused_it_stays_paused(self, bench, planner):
        planner.run(TASK)
        planner.trigger('pause')
        bench.wait_until(lambda: not planner.path)
        planner.forget()
        answer = planner.reground([MOVED_B])
        assert answer.success
        bench.wait_until(lambda: planner.said('plan'))
        assert planner.wait_state(S.PAUSED) and not planner.said('path')

    @pytest.mark.parametrize(('fields', 'code'), [
        ({'removed': ['nowhere']}, S.ERROR_REGROUND),
        ({'sites': [{'name': 'n', 'features': ['new'], 'position': [0, 0]}]}, S.ERROR_REGROUND),
        ({'removed': ['b']}, S.ERROR_INFEASIBLE),
        ({'sites': [MOVED_B], 'task_id': 'task-0'}, S.ERROR_UNKNOWN_TASK),
        ({'sites': [MOVED_B], 'frame': 'odom'}, S.ERROR_FRAME),
        ({'sites': [{**MOVED_B, 'position': [99, 99]}]}, S.ERROR_TASK),
    ])
    def test_a_bad_one_changes_nothing(self, planner, fields, code):
        running = planner.run(TASK).task_id
        answer = planner.reground(**fields)
        assert not answer.success and answer.error_code == code and answer.message
        planner.forget()
        assert planner.wait_state(S.EXECUTING, running).replans == 0

    def test_without_a_task(self, planner):
        answer = planner.reground([MOVED_B])
        assert not answer.success and answer.error_code == S.ERROR_UNKNOWN_TASK


class TestMapChange:
    def test_a_blocked_path_gives_a_new_one(self, bench, planner, world):
        planner.run(TASK)
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        data = FLOOR.copy()
        data[:2, 6] = 100
        world.map(data)
        bench.wait_until(lambda: (6.5, 2.5) in planner.path)
        status = bench.wait_until(lambda: planner.status.replans == 1 and planner.status)
        assert status.replan_reason == 'the map changed' and status.state == S.EXECUTING
        assert planner.bits == {'a': True, 'b': False}
        bench.wait_until(
            lambda: planner.last['plan'].cost == pytest.approx(3 + 3 * math.sqrt(2)))

    def test_the_same_map_again_changes_nothing(self, bench, planner, world):
        planner.run(TASK)
        planner.forget()
        planner.wait_map(world.map(FLOOR))
        assert not planner.said('plan') and not planner.said('path')
        assert planner.status.replans == 0

    def test_an_unreachable_goal_waits_for_a_better_map(self, bench, planner, world):
        goal = planner.execute(TASK)
        planner.wait_state(S.EXECUTING)
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        world.map(wall(6))
        status = planner.wait_state(S.INFEASIBLE)
        assert status.error_code == S.ERROR_INFEASIBLE and "'b'" in status.message
        assert planner.bits == {'a': True, 'b': False}
        bench.wait_until(lambda: is_cleared(planner), 'the robot has nowhere to go')
        assert not goal.future.done(), 'the goal has not ended'
        world.map(FLOOR)
        status = planner.wait_state(S.EXECUTING)
        assert status.error_code == S.ERROR_NONE and status.message == ''
        world.pose = (8.5, 0.5)
        assert goal.result()[1].success


class TestCompleteGoal:
    def test_against_a_constraint(self, planner, world):
        planner.run(TASK)
        answer = planner.complete('b')
        assert answer.success and "'a before b'" in answer.message
        planner.wait_bits(a=False, b=True)
        world.pose = (3.5, 0.5)
        planner.wait_state(S.SUCCEEDED)

    def test_undoing_an_irreversible_goal(self, bench, planner, world):
        planner.run(TASK)
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        world.pose = (6.5, 0.5)
        planner.wait_pose(world.pose)
        answer = planner.complete('a', done=False)
        assert answer.success and 'irreversible' in answer.message
        planner.wait_bits(a=False, b=False)
        status = bench.wait_until(lambda: planner.status.replans == 1 and planner.status)
        assert status.current_goal == 'a' and 'reported not done' in status.replan_reason

    def test_the_current_goal(self, bench, planner):
        planner.run(TASK)
        answer = planner.complete('a')
        assert answer.success and answer.message == ''
        planner.wait_bits(a=True, b=False)
        bench.wait_until(lambda: planner.status.current_goal == 'b')

    def test_the_last_goal_ends_the_task(self, planner):
        planner.run({'sites': TASK['sites'][:1]})
        planner.complete('a')
        planner.wait_state(S.SUCCEEDED)

    @pytest.mark.parametrize('fields', [{'goal': 'x'}, {'goal': 'a', 'task_id': 'task-0'}])
    def test_what_is_not_known(self, planner, fields):
        planner.run(TASK)
        answer = planner.complete(**fields)
        assert not answer.success and answer.error_code == S.ERROR_UNKNOWN_TASK

    def test_without_a_task(self, planner):
        assert planner.complete('a').error_code == S.ERROR_UNKNOWN_TASK


def bad_spec(**fields):
    """A task that only a message can express."""
    sites = [Site(name='a', features=['a'], position=Point(x=3.5, y=0.5), yaw=math.nan)]
    return TaskSpec(**{'sites': sites, **fields})


def one_site(**fields):
    return bad_spec(sites=[Site(**{'name': 'a', 'features': ['a'], 'yaw': math.nan, **fields})])


BAD_TASKS = {
    'empty': (TaskSpec(), S.ERROR_TASK, 'no goals'),
    'nan': (one_site(position=Point(x=math.nan)), S.ERROR_TASK, 'sites[0].position'),
    'infinite': (one_site(position=Point(y=math.inf)), S.ERROR_TASK, 'sites[0].position'),
    'infinite yaw': (one_site(yaw=math.inf), S.ERROR_TASK, 'sites[0].yaw'),
    'nan region': (one_site(region=[Point(), Point(x=1.0), Point(y=math.nan)]), S.ERROR_TASK,
                   'sites[0].region'),
    'thin region': (one_site(region=[Point(), Point(x=1.0)]), S.ERROR_TASK, 'sites[0].region'),
    'no name': (one_site(name=''), S.ERROR_TASK, 'sites[0].name'),
    'no features': (one_site(features=[]), S.ERROR_TASK, 'sites[0].features'),
    'outside': (one_site(position=Point(x=99.0)), S.ERROR_TASK, "'a'"),
    'frame': (bad_spec(header=Header(frame_id='odom')), S.ERROR_FRAME, "'odom'"),
    'formula': (bad_spec(formula='a & ('), S.ERROR_FORMULA, 'formula'),
    'unknown goal': (bad_spec(formula='a & tea'), S.ERROR_FORMULA, "'tea'"),
    'constraint': (bad_spec(constraints=['a after b']), S.ERROR_CONSTRAINT, 'constraints[0]'),
    'unknown feature': (bad_spec(constraints=['a before b']), S.ERROR_CONSTRAINT, "'b'"),
    'goal twice': (bad_spec(goals=[Goal(name='a', features=['a']), Goal(
        name='a', features=['b'])]), S.ERROR_TASK, 'goals'),
    'trigger': (bad_spec(trigger='magic'), S.ERROR_TASK, 'trigger'),
    'done': (bad_spec(done=['tea']), S.ERROR_TASK, 'done'),
    'nobody carries it': (bad_spec(goals=[Goal(name='t', features=['tea'])]), S.ERROR_INFEASIBLE,
                          "'tea'"),
}


class TestBadRequests:
    @pytest.mark.parametrize('name', BAD_TASKS)
    def test_the_running_task_goes_on_undisturbed(self, bench, planner, name):
        task, code, words = BAD_TASKS[name]
        running = planner.run(TASK).task_id
        bench.wait_until(lambda: planner.last['markers'] and planner.path)
        planner.forget()
        answer = planner.set_task(task)
        assert not answer.success and answer.task_id == '' and not answer.plan.options
        assert (answer.error_code, words in answer.message) == (code, True), answer.message
        bench.wait_until(lambda: len(planner.said('status')) > 1)
        assert {status.task_id for status in planner.said('status')} == {running}
        assert {status.state for status in planner.said('status')} == {S.EXECUTING}
        assert not planner.said('plan') and not planner.said('path')

    def test_without_a_task_it_is_idle_again(self, planner):
        before = planner.status
        answer = planner.set_task(BAD_TASKS['nobody carries it'][0])
        assert answer.error_code == S.ERROR_INFEASIBLE
        status = planner.wait_state(before.state)
        assert status.task_id == before.task_id

    def test_ten_thousand_sites(self, planner):
        rng = np.random.default_rng(0)
        places = rng.uniform((0, 0), (10, 3), (10_000, 2)).tolist()

        def task(n_goals):
            return TaskSpec(sites=[
                Site(name=f's{i}', features=[f'f{i % n_goals}'], yaw=math.nan,
                     position=Point(x=x, y=y)) for i, (x, y) in enumerate(places)])

        assert planner.set_task(task(1)).success
        try:
            planner.set_parameters(task_memory=0)
            spec = task(30)
            spec.reversible = ['f0']
            answer = planner.set_task(spec)
            assert answer.error_code == S.ERROR_LIMIT and 'task_memory' in answer.message
        finally:
            planner.set_parameters(task_memory=1000)
        answer = planner.set_task(task(10_000))
        assert answer.error_code == S.ERROR_LIMIT and 'max_nodes' in answer.message

    def test_more_requests_than_can_wait(self, bench, planner, world):
        planner.wait_map(world.map(np.zeros((1000, 1000))))
        answers = []
        for _ in range(20):
            answers.append(planner.set_task_async(LARGE_TASK, dry_run=True))
            planner.forget()
            bench.wait_until(lambda: planner.said('status'), 'status goes on')
        bench.wait_until(answers[-1].done, 'one too many')
        assert answers[-1].result().error_code == S.ERROR_NOT_READY
        assert 'waiting' in answers[-1].result().message
        assert planner.trigger('cancel').success

    def test_many_requests_at_once_are_all_answered(self, bench, planner):
        client = bench.node.create_client(
            SetTask, 'gk_planner/set_task', qos_profile=QoSProfile(depth=100))
        bench.wait_until(client.service_is_ready)
        answers = [client.call_async(SetTask.Request(task=spec(TASK), dry_run=True))
                   for _ in range(60)]
        bench.wait_until(lambda: all(answer.done() for answer in answers), '60 answers')
        codes = {answer.result().error_code for answer in answers}
        assert S.ERROR_NONE in codes and codes <= {S.ERROR_NONE, S.ERROR_NOT_READY}

    @pytest.mark.parametrize('message', [
        OccupancyGrid(), OccupancyGrid(info=MapMetaData(width=2, height=2, resolution=1.0)),
        OccupancyGrid(info=MapMetaData(width=1, height=1, resolution=0.0), data=[0]),
        OccupancyGrid(info=MapMetaData(width=1, height=1, resolution=math.nan), data=[0])])
    def test_a_bad_map_is_ignored(self, bench, shared, planner, world, message):
        running = planner.run(TASK).task_id
        n = shared[3].log.count('map ignored')
        world.send(message)
        bench.wait_until(lambda: shared[3].log.count('map ignored') > n)
        planner.forget()
        assert planner.wait_state(S.EXECUTING, running).replans == 0

    @pytest.mark.parametrize('data', [np.full((3, 10), -1), np.full((3, 10), 100)])
    def test_a_map_without_a_free_cell(self, planner, world, data):
        planner.wait_map(world.map(data))
        answer = planner.set_task(TASK)
        assert not answer.success and answer.error_code == S.ERROR_START
        assert '(0.5, 0.5)' in answer.message

    def test_a_robot_outside_the_map(self, planner, world):
        world.pose = (-5.0, 0.5)
        planner.wait_pose(world.pose)
        answer = planner.set_task(TASK)
        assert answer.error_code == S.ERROR_START and 'outside' in answer.message

    def test_a_robot_deep_in_an_obstacle(self, planner, world):
        data = FLOOR.copy()
        data[:, :3] = 100
        planner.wait_map(world.map(data))
        answer = planner.set_task(TASK)
        assert answer.error_code == S.ERROR_START and 'blocked' in answer.message


class TestParameters:
    @pytest.mark.parametrize(('values', 'words'), [
        ({'connectivity': 5}, 'connectivity: must be one of (4, 8)'),
        ({'robot_radius': -0.1}, 'robot_radius'), ({'robot_radius': math.nan}, 'robot_radius'),
        ({'temperature': math.inf}, 'temperature'), ({'arrival_radius': -1.0}, 'arrival_radius'),
        ({'occupied_threshold': 101}, 'occupied_threshold'),
        ({'annotations_file': '/nowhere.yaml'}, '/nowhere.yaml'),
        ({'ensemble_file': '/nowhere.options'}, '/nowhere.options'),
        ({'robot_radius': 0.1, 'connectivity': 3}, 'connectivity'),
        ({'drive_mode': 'topic'}, 'read-only'), ({'failure_policy': 'skip'}, 'read-only')])
    def test_a_bad_value_is_refused_with_the_reason(self, planner, values, words):
        result = planner.set_parameters(**values)
        assert not result.successful and words in result.reason, result.reason

    def test_a_change_plans_anew(self, bench, planner):
        planner.run(TASK)
        try:
            assert planner.set_parameters(option_cost=2.0).successful
            status = bench.wait_until(lambda: planner.status.replans == 1 and planner.status)
            assert status.replan_reason == 'settings changed' and status.cost_to_go == 12.0
            bench.wait_until(lambda: planner.last['plan'].cost == 12.0)
        finally:
            planner.set_parameters(option_cost=0.0)

    def test_a_wider_robot(self, bench, planner, world):
        data = FLOOR.copy()
        data[2, 5] = 100
        planner.wait_map(world.map(data))
        planner.run(TASK)
        try:
            assert planner.set_parameters(robot_radius=2.0).successful
            assert planner.wait_state(S.INFEASIBLE).error_code == S.ERROR_INFEASIBLE
        finally:
            planner.set_parameters(robot_radius=0.0)
        planner.wait_state(S.EXECUTING)

    def test_radii_and_times_count_at_once(self, planner, world):
        planner.run(TASK)
        try:
            planner.set_parameters(arrival_radius=2.0)
            world.pose = (1.5, 0.5)
            planner.wait_bits(a=True, b=False)
        finally:
            planner.set_parameters(arrival_radius=0.3)


class TestDiagnostics:
    def test_levels(self, bench, planner, world):
        planner.run(TASK)
        bench.wait_until(lambda: planner.diagnostics['state'] == 'EXECUTING')
        status = planner.last['diagnostics']
        assert status.level == DiagnosticStatus.OK and status.message == 'executing'
        bench.wait_until(lambda: planner.diagnostics['task_id'] == planner.status.task_id)
        world.map(wall(6))
        bench.wait_until(lambda: planner.last['diagnostics'].level == DiagnosticStatus.ERROR)
        assert "'b'" in planner.last['diagnostics'].message
