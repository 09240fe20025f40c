"""The task runner without ROS: jobs run when the test says so, time is a number."""

import numpy as np
import pytest

from gk_planner import Config, Task
from gk_planner.errors import (
    CanceledError,
    GkPlannerError,
    InfeasibleError,
    NoMapError,
    NoPoseError,
    PreemptedError,
    RegroundError,
    StartError,
    TaskError,
    UnknownTaskError,
)
from gk_planner.execution import GoalState, TaskState
from gk_planner.monitor import MonitorConfig
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.task_runner import TaskRunner

TASK = {'sites': [{'name': 'a', 'features': ['a'], 'position': [3.5, 0.5]},
                  {'name': 'b', 'features': ['b'], 'position': [8.5, 0.5]}],
        'constraints': ['a before b']}


class Bench:
    """A runner, a queue of its jobs, and everything it said."""

    def __init__(self, rows=3, cols=10, **settings):
        self.jobs, self.said = [], []
        self.plans, self.paths, self.drives, self.ends, self.warnings = [], [], [], [], []
        self.runner = TaskRunner(self, lambda job, outcome: self.jobs.append((job, outcome)),
                                 **settings)
        self.rows, self.cols = rows, cols
        self.data = np.zeros((rows, cols), dtype=np.int8)

    def plan_changed(self, execution):
        self.plans.append(None if execution is None else [o.site for o in execution.remaining])

    def path_changed(self, path):
        self.paths.append(list(path))

    def status_changed(self, execution):
        self.said.append((execution.state, execution.replan_reason) if execution else None)

    def drive(self, option, execution=None):
        self.drives.append(option and option.site)

    def ended(self, execution):
        self.ends.append((execution.task_id, execution.state, type(execution.error).__name__))

    def warn(self, text):
        self.warnings.append(text)

    def work(self, limit=None):
        while self.jobs and limit != 0:
            job, outcome = self.jobs.pop(0)
            result, error = None, None
            try:
                result = job()
            except GkPlannerError as caught:
                error = caught
            outcome(result, error)
            limit = None if limit is None else limit - 1

    def map(self):
        self.runner.set_map(OccupancyMap(self.data.copy(), 1.0))
        self.work()

    def task(self, mapping=TASK, **options):
        replies = []
        self.runner.set_task(Task.from_dict(mapping), lambda *reply: replies.append(reply),
                             **options)
        return replies

    @property
    def execution(self):
        return self.runner.execution


@pytest.fixture
def bench():
    bench = Bench(monitor_config=MonitorConfig(path_tolerance=1.2, stall_timeout=10.0))
    bench.map()
    bench.runner.pose(0.0, (0.5, 0.5))
    return bench


def running(bench, mapping=TASK):
    replies = bench.task(mapping)
    bench.work()
    assert replies[0][1] is None, replies
    return bench.execution


def test_a_task_is_planned_driven_and_done(bench):
    execution = running(bench)
    assert bench.plans == [['a', 'b']]
    assert bench.drives == ['a']
    assert bench.paths[-1][0] == (0.5, 0.5) and bench.paths[-1][-1] == (8.5, 0.5)
    assert execution.goal_states == [GoalState.CURRENT, GoalState.PENDING]
    bench.runner.pose(1.0, (3.5, 0.5))
    assert execution.bits == [True, False]
    assert execution.goal_states == [GoalState.DONE, GoalState.CURRENT]
    assert bench.drives[-1] == 'b'
    bench.runner.pose(2.0, (8.5, 0.5))
    assert execution.state is TaskState.SUCCEEDED
    assert bench.ends == [('task-1', TaskState.SUCCEEDED, 'NoneType')]
    assert bench.plans[-1] is None and bench.drives[-1] is None


def test_driving_over_another_site_changes_nothing(bench):
    execution = running(bench)
    bench.runner.pose(1.0, (8.5, 0.5))
    assert execution.bits == [False, False]


def test_requests_before_map_and_pose_are_refused():
    bench = Bench()
    replies = bench.task()
    bench.work()
    assert isinstance(replies[0][1], NoMapError)
    bench.map()
    replies = bench.task()
    bench.work()
    assert isinstance(replies[0][1], NoPoseError)
    assert bench.execution is None


def test_a_bad_task_leaves_the_running_one_undisturbed(bench):
    execution = running(bench)
    said = len(bench.said)
    replies = bench.task({'sites': [{'name': 'x', 'features': ['x']}]})
    bench.work()
    assert isinstance(replies[0][1], GkPlannerError)
    assert bench.execution is execution and execution.state is TaskState.EXECUTING
    assert len(bench.said) == said


def test_dry_run_only_plans(bench):
    replies = bench.task(dry_run=True)
    bench.work()
    assert replies[0][0].cost == 8.0
    assert bench.execution is None and bench.plans == []


def test_a_new_task_takes_the_place_of_the_old_one(bench):
    running(bench)
    bench.task()
    bench.work()
    assert bench.execution.task_id == 'task-2'
    assert bench.ends == [('task-1', TaskState.CANCELED, 'PreemptedError')]
    assert PreemptedError


def test_cancel_ends_the_task_and_clears_everything(bench):
    running(bench)
    assert bench.runner.cancel()
    assert bench.execution.state is TaskState.CANCELED
    assert bench.plans[-1] is None and bench.drives[-1] is None
    assert not bench.runner.cancel()


def test_cancel_stops_planning_that_waits(bench):
    replies = bench.task()
    bench.runner.cancel()
    bench.work()
    assert isinstance(replies[0][1], CanceledError)
    assert bench.execution is None


def test_pause_and_resume_keep_the_bits(bench):
    execution = running(bench)
    bench.runner.pose(1.0, (3.5, 0.5))
    assert bench.runner.pause()
    assert execution.state is TaskState.PAUSED and bench.drives[-1] is None
    bench.runner.pose(2.0, (8.5, 0.5))
    assert execution.bits == [True, False], 'a paused task flips nothing'
    assert bench.runner.resume()
    bench.work()
    assert execution.state is TaskState.EXECUTING and execution.bits == [True, False]
    bench.runner.pose(3.0, (8.5, 0.5))
    assert execution.state is TaskState.SUCCEEDED


def test_the_same_map_again_changes_nothing(bench):
    running(bench)
    bench.map()
    assert bench.plans == [['a', 'b']]


def test_a_map_that_blocks_the_path_gives_a_new_one_and_keeps_bits(bench):
    execution = running(bench)
    bench.runner.pose(1.0, (3.5, 0.5))
    bench.data[0, 5] = 100
    bench.map()
    assert execution.bits == [True, False] and execution.state is TaskState.EXECUTING
    assert all(point != (5.5, 0.5) for point in bench.paths[-1])


def test_an_infeasible_map_is_said_and_a_better_one_goes_on(bench):
    execution = running(bench)
    bench.runner.pose(1.0, (3.5, 0.5))
    bench.data[:, 6] = 100
    bench.map()
    assert execution.state is TaskState.INFEASIBLE
    assert isinstance(execution.error, InfeasibleError) and "site 'b'" in execution.message
    assert bench.plans[-1] is None and bench.drives[-1] is None
    assert not bench.ends, 'the task waits for a better world'
    bench.data[:, 6] = 0
    bench.map()
    assert execution.state is TaskState.EXECUTING and execution.bits == [True, False]


def test_a_map_that_cannot_be_planned_on_is_waited_out(bench):
    execution = running(bench)
    bench.runner.pose(1.0, (3.5, 0.5))
    for data in (np.full((3, 10), -1), np.zeros((3, 6))):
        good, bench.data = bench.data, data.astype(np.int8)
        bench.map()
        assert execution.state is TaskState.INFEASIBLE and not bench.ends
        assert isinstance(execution.error, StartError | TaskError)
        assert bench.plans[-1] is None and bench.drives[-1] is None
        bench.data = good
        bench.map()
        assert execution.state is TaskState.EXECUTING and execution.bits == [True, False]


def test_a_robot_off_the_map_is_waited_for(bench):
    execution = running(bench)
    bench.runner.pause()
    bench.runner.pose(1.0, (-5.0, 0.5))
    bench.runner.resume()
    bench.work()
    assert execution.state is TaskState.INFEASIBLE and isinstance(execution.error, StartError)
    bench.runner.pose(2.0, (-4.0, 0.5))
    assert not bench.jobs, 'nothing to plan as long as it is outside'
    bench.runner.pose(3.0, (0.5, 0.5))
    bench.runner.pose(4.0, (0.5, 0.6))
    assert len(bench.jobs) == 1, 'planned once'
    bench.work()
    assert execution.state is TaskState.EXECUTING and execution.error is None
    assert execution.replan_reason == 'the robot can start again'


def test_policy_skip_gives_up_what_cannot_be_reached():
    bench = Bench(failure_policy='skip')
    bench.map()
    bench.runner.pose(0.0, (0.5, 0.5))
    execution = running(bench, {**TASK, 'sites': [*TASK['sites'], {
        'name': 'c', 'features': ['c'], 'position': [1.5, 2.5]}]})
    bench.data[:, 6] = 100
    bench.map()
    assert execution.goal_states[1] is GoalState.SKIPPED
    assert execution.state is TaskState.EXECUTING
    bench.runner.pose(1.0, (1.5, 2.5))
    bench.runner.pose(2.0, (3.5, 0.5))
    assert execution.state is TaskState.SUCCEEDED
    assert execution.bits == [True, False, True]


def test_policy_abort_fails_at_once():
    bench = Bench(failure_policy='abort')
    bench.map()
    bench.runner.pose(0.0, (0.5, 0.5))
    execution = running(bench)
    bench.data[:, 6] = 100
    bench.map()
    assert execution.state is TaskState.FAILED


def test_a_stalled_option_is_replanned_without_its_site(bench):
    execution = running(bench, {'sites': [
        {'name': 'near', 'features': ['a'], 'position': [3.5, 0.5]},
        {'name': 'far', 'features': ['a'], 'position': [8.5, 0.5]}]})
    assert bench.drives[-1] == 'near'
    bench.runner.pose(1.0, (1.5, 0.5))
    bench.runner.pose(20.0, (1.5, 0.5))
    bench.work()
    assert bench.drives[-1] == 'far'
    assert 'near' in execution.replan_reason and execution.replans == 1


def test_leaving_the_path_gives_new_waypoints_without_planning(bench):
    running(bench)
    bench.runner.pose(1.0, (1.5, 2.5))
    assert not bench.jobs
    assert bench.paths[-1][0] == (1.5, 2.5)
    assert bench.plans == [['a', 'b']]


def test_reground_moves_a_site_and_says_whether_the_plan_changed(bench):
    execution = running(bench)
    bench.runner.pose(1.0, (3.5, 0.5))
    replies = []
    bench.runner.reground('', [{'name': 'b', 'features': ['b'], 'position': [4.5, 2.5]}], [],
                          lambda *reply: replies.append(reply))
    bench.work()
    plan, error, changed = replies[0]
    assert error is None and changed and plan.options[0].position == (4.5, 2.5)
    assert execution.bits == [True, False]
    assert execution.replan_reason == 'a site was regrounded'
    n_plans = len(bench.plans)
    bench.runner.reground('', [{'name': 'a', 'features': ['a'], 'position': [0.5, 2.5]}], [],
                          lambda *reply: replies.append(reply))
    bench.work()
    assert replies[1][1] is None and not replies[1][2], 'a is done: nothing changes'
    assert len(bench.plans) == n_plans


@pytest.mark.parametrize(('arguments', 'error'), [
    (('other', [], []), UnknownTaskError),
    (('', [], ['nowhere']), RegroundError),
    (('', [{'name': 'n', 'features': ['new'], 'position': [0.5, 0.5]}], []), RegroundError),
    (('', [{'name': 'b', 'features': ['b'], 'position': [99, 0.5]}], []), GkPlannerError),
])
def test_a_bad_reground_changes_nothing(bench, arguments, error):
    execution = running(bench)
    sites, replies = execution.task.sites, []
    bench.runner.reground(*arguments, lambda *reply: replies.append(reply))
    bench.work()
    assert isinstance(replies[0][1], error)
    assert execution.task.sites == sites and execution.state is TaskState.EXECUTING


def test_an_infeasible_reground_keeps_the_old_task(bench):
    execution = running(bench)
    bench.data[1, 9] = 100
    replies = []
    bench.runner.reground('', [], ['b'], lambda *reply: replies.append(reply))
    bench.work()
    assert isinstance(replies[0][1], InfeasibleError)
    assert execution.state is TaskState.EXECUTING and len(execution.task.sites) == 2


def test_the_world_is_right_when_a_goal_is_reported(bench):
    execution = running(bench)
    warnings = bench.runner.complete_goal('', 'b', True)
    assert "against 'a before b'" in warnings[0]
    bench.work()
    assert execution.bits == [False, True]
    bench.runner.pose(1.0, (3.5, 0.5))
    assert execution.state is TaskState.SUCCEEDED


def test_undoing_an_irreversible_goal_is_accepted_with_a_warning(bench):
    execution = running(bench)
    bench.runner.pose(1.0, (3.5, 0.5))
    assert 'irreversible' in bench.runner.complete_goal('', 'a', False)[0]
    bench.work()
    assert execution.bits == [False, False] and bench.drives[-1] == 'a'


def test_reporting_the_current_goal_plans_from_where_the_robot_is(bench):
    """By way of a, b comes first; from the robot, c does."""
    bench.runner.pose(0.0, (6.5, 0.5))
    execution = running(bench, {
        'sites': [{'name': name, 'features': [name], 'position': [x, 0.5]}
                  for name, x in (('a', 0.5), ('b', 1.5), ('c', 9.5))],
        'constraints': ['a before b', 'a before c']})
    assert bench.plans[-1] == ['a', 'b', 'c']
    bench.runner.complete_goal('task-1', 'a', True)
    assert execution.current is None and bench.runner.cost_to_go == 0
    bench.runner.pose(1.0, (0.5, 0.5))
    assert execution.bits == [True, False, False], 'nothing is arrived at meanwhile'
    bench.runner.pose(2.0, (6.5, 0.5))
    bench.work()
    assert bench.plans[-1] == ['c', 'b'] and bench.drives[-1] == 'c'
    assert execution.replan_reason == "goal 'a' was reported done"


def test_contact_completes_whatever_is_touched():
    bench = Bench()
    bench.map()
    bench.runner.pose(0.0, (0.5, 0.5))
    execution = running(bench, {
        'sites': [{'name': 'a', 'features': ['a'], 'position': [3.5, 0.5]},
                  {'name': 'b', 'features': ['b'], 'position': [8.5, 0.5]}],
        'trigger': 'contact'})
    for x in (1.5, 2.5, 3.5):
        bench.runner.pose(x, (x, 0.5))
    assert execution.bits == [True, False]
    bench.runner.pose(9.0, (8.5, 0.5))
    assert execution.state is TaskState.SUCCEEDED


def test_contact_sees_sites_between_two_positions():
    bench = Bench()
    bench.map()
    bench.runner.pose(0.0, (0.5, 0.5))
    execution = running(bench, {**TASK, 'constraints': [], 'trigger': 'contact'})
    bench.runner.pose(1.0, (0.6, 0.5))
    bench.runner.pose(2.0, (5.5, 0.5))
    assert execution.bits == [True, False]


def test_a_robot_in_a_blocked_cell_leaves_through_a_free_one(bench):
    bench.data[0, 0] = 100
    bench.map()
    execution = running(bench)
    assert execution.plan.options[0].path[0] == (1.5, 0.5)


def test_only_the_newest_plan_counts(bench):
    execution = running(bench)
    bench.runner.complete_goal('', 'b', True)
    bench.runner.complete_goal('', 'b', False)
    bench.work()
    assert execution.bits == [False, False]
    assert [option.site for option in execution.remaining] == ['a', 'b']
    assert execution.replans <= 1


def test_other_settings_plan_anew(bench):
    execution = running(bench)
    bench.runner.set_config(Config(option_cost=2.0))
    bench.work()
    assert execution.plan.cost == 12.0


class TestWhilePlanning:
    """The world does not wait: what happens between a request and its plan counts."""

    def test_the_first_plan_of_a_task_is_said(self, bench):
        bench.task()
        assert bench.said == [(TaskState.PLANNING, '')] and bench.runner.shown.task_id == 'task-1'
        bench.work()
        assert bench.said[-1] == (TaskState.EXECUTING, '')

    def test_after_a_failed_request_all_is_as_before(self, bench):
        bench.task({**TASK, 'formula': 'a & !a'})
        bench.work()
        assert bench.said == [(TaskState.PLANNING, ''), None] and bench.execution is None

    def test_a_running_task_is_spoken_of_and_not_the_next_one(self, bench):
        execution = running(bench)
        said = len(bench.said)
        bench.task()
        assert len(bench.said) == said and bench.runner.shown is execution

    def test_cancel_ends_the_planning_of_a_first_task(self, bench):
        bench.task()
        assert bench.runner.cancel() and bench.runner.shown is None
        assert bench.said[-1] is None
        bench.work()
        assert not bench.runner.cancel()

    def test_one_task_can_be_canceled_alone(self, bench):
        execution = running(bench)
        replies = bench.task()
        assert not bench.runner.cancel('task-9')
        assert bench.runner.cancel('task-1')
        assert execution.state is TaskState.CANCELED
        bench.work()
        assert replies[0][2] == 'task-2' and bench.execution.state is TaskState.EXECUTING

    def test_an_arrival_is_not_undone_by_an_older_plan(self, bench):
        execution = running(bench)
        bench.runner.set_config(Config(option_cost=1.0))
        bench.work(1)
        assert len(bench.jobs) == 1, 'the plan is under way'
        bench.runner.pose(1.0, (3.5, 0.5))
        assert execution.bits == [True, False]
        bench.work()
        assert [option.site for option in execution.remaining] == ['b']
        bench.runner.pose(2.0, (3.5, 0.5))
        assert execution.bits == [True, False]

    def reground(self, bench, **places):
        replies = []
        bench.runner.reground('', [{'name': name, 'features': [name], 'position': list(place)}
                                   for name, place in places.items()], [],
                              lambda *reply: replies.append(reply))
        return replies

    def test_regrounds_are_served_one_after_another(self, bench):
        execution = running(bench)
        first, second = self.reground(bench, b=(5.5, 2.5)), self.reground(bench, a=(1.5, 2.5))
        bench.work()
        assert first[0][1] is None and second[0][1] is None
        assert [option.position for option in execution.remaining] == [(1.5, 2.5), (5.5, 2.5)]

    def test_a_bad_reground_does_not_stop_the_next(self, bench):
        running(bench)
        first = self.reground(bench, z=(5.5, 2.5))
        second = self.reground(bench, b=(5.5, 2.5))
        bench.work()
        assert isinstance(first[0][1], RegroundError) and second[0][1] is None

    def test_a_report_meanwhile_counts_in_a_reground(self, bench):
        execution = running(bench)
        replies = self.reground(bench, b=(5.5, 2.5))
        bench.runner.complete_goal('', 'a', True)
        bench.work()
        assert replies[0][1] is None and execution.bits == [True, False]
        assert [option.position for option in execution.remaining] == [(5.5, 2.5)]

    def test_a_map_meanwhile_does_not_lose_a_reground(self, bench):
        execution = running(bench)
        bench.data[0, 1] = 100
        bench.runner.set_map(OccupancyMap(bench.data.copy(), 1.0))
        replies = self.reground(bench, b=(5.5, 2.5))
        bench.work()
        assert replies[0][1] is None
        assert execution.remaining[-1].position == (5.5, 2.5)
        assert all(point != (1.5, 0.5) for point in bench.paths[-1])

    def test_a_reground_survives_a_pause(self, bench):
        execution = running(bench)
        replies = self.reground(bench, b=(5.5, 2.5))
        bench.runner.pause()
        paths = len(bench.paths)
        bench.work()
        assert replies[0][1] is None and execution.state is TaskState.PAUSED
        assert len(bench.paths) == paths, 'who follows the path stands still'

    def test_a_reground_of_a_task_that_ends(self, bench):
        running(bench)
        canceled = self.reground(bench, b=(5.5, 2.5))
        bench.runner.cancel()
        bench.work()
        assert isinstance(canceled[0][1], CanceledError)
        running(bench)
        bench.task()
        replaced = self.reground(bench, b=(5.5, 2.5))
        bench.work()
        assert isinstance(replaced[0][1], PreemptedError)

    def test_only_the_newest_map_is_built(self, bench):
        taken = []
        for number in range(3):
            bench.data[2, 2 + number] = 100
            bench.runner.set_map(OccupancyMap(bench.data.copy(), 1.0),
                                 lambda error, number=number: taken.append((number, error)))
        bench.work()
        assert taken == [(2, None)]

    def test_a_refused_map_is_refused_again(self):
        bench = Bench(config=Config(annotations_file='/nowhere.yaml'))
        taken = []
        for _ in range(2):
            bench.runner.set_map(OccupancyMap(bench.data, 1.0), taken.append)
            bench.work()
        assert [type(error).__name__ for error in taken] == ['AnnotationsError'] * 2
        assert not bench.runner.is_ready


def test_pausing_withdraws_the_path_and_not_the_plan(bench):
    running(bench)
    bench.runner.pause()
    assert bench.paths[-1] == [] and bench.plans[-1] == ['a', 'b']


def test_a_detour_is_a_new_plan_with_its_reason(bench):
    execution = running(bench)
    bench.data[:2, 2] = 100
    bench.map()
    assert (execution.replans, execution.replan_reason) == (1, 'the map changed')


def test_an_object_that_only_turned_is_a_new_plan(bench):
    running(bench)
    replies = []
    turned = {**TASK['sites'][0], 'yaw': 1.5}
    for _ in range(2):
        bench.runner.reground('', [turned], [], lambda *reply: replies.append(reply))
        bench.work()
    assert [changed for _, _, changed in replies] == [True, False]
    assert bench.drives == ['a', 'a'], 'sent again with the new heading'


class TestContact:
    SITES = TASK['sites']

    @pytest.fixture
    def run(self):
        def run(**fields):
            bench = Bench(monitor_config=MonitorConfig(stall_timeout=10.0, path_tolerance=1.2))
            bench.map()
            bench.runner.pose(0.0, (0.5, 0.5))
            return bench, running(bench, {'sites': self.SITES, 'trigger': 'contact', **fields})
        return run

    def test_being_near_is_not_touching(self, run):
        bench, execution = run()
        bench.runner.pose(1.0, (2.9, 0.5))
        assert execution.bits == [False, False]
        bench.runner.pose(2.0, (3.1, 0.5))
        assert execution.bits == [True, False]

    def test_the_path_ends_where_the_next_touch_is(self, run):
        bench, _ = run()
        assert bench.paths[-1][-1] == (3.5, 0.5)
        bench.runner.pose(1.0, (3.5, 0.5))
        assert bench.paths[-1][-1] == (8.5, 0.5)

    def test_a_moved_site_is_touched_where_it_is(self, run):
        bench, execution = run()
        bench.runner.reground('', [{**self.SITES[0], 'position': [1.5, 2.5]}], [],
                              lambda *_: None)
        bench.work()
        bench.runner.pose(1.0, (1.5, 2.5))
        assert execution.bits == [True, False]

    def test_a_done_site_is_free_floor(self, run):
        bench, execution = run()
        for time, x in enumerate((3.5, 2.5, 3.5, 4.5), 1):
            bench.runner.pose(float(time), (x, 0.5))
        assert execution.bits == [True, False]

    def test_what_a_constraint_forbids_does_not_flip(self, run):
        bench, execution = run(constraints=['b before a'])
        bench.runner.pose(1.0, (3.5, 0.5))
        assert execution.bits == [False, False]

    def test_two_touches_in_one_step_in_their_order(self, run):
        bench, execution = run(constraints=['a before b'])
        bench.runner.pose(1.0, (9.5, 0.5))
        assert execution.bits == [True, True] and execution.state is TaskState.SUCCEEDED
        assert len(bench.ends) == 1

    def test_after_the_end_nothing_is_touched(self, run):
        bench, execution = run(formula='a')
        bench.runner.pose(1.0, (9.5, 0.5))
        assert execution.bits == [True, False] and len(bench.ends) == 1

    def test_a_robot_carried_while_paused_touches_nothing_on_the_way(self, run):
        bench, execution = run()
        bench.runner.pause()
        bench.runner.pose(1.0, (6.5, 0.5))
        bench.runner.resume()
        bench.work()
        bench.runner.pose(2.0, (6.6, 0.5))
        assert execution.bits == [False, False]

    def test_a_stalled_robot_is_noticed(self, run):
        bench, execution = run()
        bench.runner.pose(1.0, (1.5, 0.5))
        bench.runner.pose(20.0, (1.5, 0.5))
        assert set(execution.failed_sites) == {'a'}

    def test_leaving_the_path_gives_new_waypoints(self, run):
        bench, _ = run()
        bench.runner.pose(1.0, (1.5, 2.5))
        assert bench.paths[-1][0] == (1.5, 2.5)
