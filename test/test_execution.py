"""One task being carried out: what every event makes of bits, plan and state."""

import numpy as np
import pytest

from gk_planner import BaseSpace, Planner, Task
from gk_planner.errors import (
    CanceledError,
    InfeasibleError,
    PreemptedError,
    StalledError,
    StartError,
)
from gk_planner.execution import Execution, GoalState, Next, TaskState
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.results import Plan

TASK = {'sites': [{'name': 'a', 'features': ['a'], 'position': [3.5, 0.5]},
                  {'name': 'a2', 'features': ['a'], 'position': [9.5, 2.5]},
                  {'name': 'b', 'features': ['b'], 'position': [8.5, 0.5]}],
        'constraints': ['a before b']}
STALL = StalledError('no progress')


def planner():
    return Planner(BaseSpace(OccupancyMap(np.zeros((3, 10), dtype=np.int8), 1.0)))


def plan(execution):
    return planner().plan(execution.task_to_plan(), (0.5, 0.5))


@pytest.fixture
def make():
    def make(mapping=TASK, policy='replan'):
        execution = Execution('task-1', Task.from_dict(mapping), policy)
        assert execution.planned(plan(execution)) is Next.DRIVE
        return execution
    return make


class TestPlanned:
    def test_the_first_plan_is_no_replanning(self):
        execution = Execution('task-1', Task.from_dict(TASK))
        assert execution.state is TaskState.PLANNING and execution.current is None
        assert execution.planned(plan(execution)) is Next.DRIVE
        assert execution.state is TaskState.EXECUTING and execution.replans == 0
        assert execution.current.site == 'a' and len(execution.remaining) == 2

    def test_an_empty_plan_is_a_success(self, make):
        execution = make()
        assert execution.planned(Plan((), 0.0, True, 0.0)) is Next.FINISH
        assert execution.state is TaskState.SUCCEEDED and execution.has_ended

    def test_the_reason_of_a_new_plan_is_kept(self, make):
        execution = make()
        execution.planned(plan(execution), 'the map changed')
        assert (execution.replans, execution.replan_reason) == (1, 'the map changed')

    def test_done_bits_are_planned_from(self, make):
        execution = make()
        execution.arrived()
        assert [option.goal for option in plan(execution).options] == ['b']

    def test_the_plan_ahead_shrinks(self, make):
        execution = make()
        assert execution.plan_ahead() is execution.plan
        execution.arrived()
        ahead = execution.plan_ahead()
        assert ahead.cost == ahead.bound == 5.0 and len(ahead.options) == 1


class TestArrived:
    def test_bits_flip_one_after_another(self, make):
        execution = make()
        assert execution.arrived() is Next.DRIVE
        assert execution.bits == [True, False] and execution.current.site == 'b'
        assert execution.arrived() is Next.FINISH
        assert execution.state is TaskState.SUCCEEDED and execution.completed_cost == 8.0
        assert execution.arrived() is Next.NOTHING and execution.bits == [True, True]

    def test_paused_nothing_flips(self, make):
        execution = make()
        execution.pause()
        assert execution.arrived() is Next.NOTHING and execution.bits == [False, False]

    def test_a_plan_that_ends_too_early_is_made_anew(self, make):
        execution = make()
        execution.arrived()
        execution.bits[0] = False
        assert execution.arrived() is Next.REPLAN
        assert execution.state is TaskState.PLANNING and execution.current is None
        assert execution.arrived() is Next.NOTHING, 'nothing flips without a plan'


class TestReported:
    def test_the_current_goal(self, make):
        execution = make()
        # The robot is not there, so that the rest of the plan begins somewhere else.
        assert execution.reported(0, True) is Next.REPLAN
        assert execution.current is None and execution.state is TaskState.PLANNING
        assert execution.reason == "goal 'a' was reported done" and execution.bits == [True, False]

    def test_another_goal_is_planned_from(self, make):
        execution = make()
        assert execution.reported(1, True) is Next.REPLAN
        assert execution.reason == "goal 'b' was reported done" and execution.replan_reason == ''
        assert execution.bits == [False, True]

    def test_what_is_known_changes_nothing(self, make):
        execution = make()
        assert execution.reported(0, False) is Next.NOTHING

    def test_the_last_one_ends_the_task(self, make):
        execution = make({**TASK, 'formula': 'b'})
        assert execution.reported(1, True) is Next.FINISH

    def test_a_skipped_goal_may_be_done_after_all(self, make):
        execution = make(policy='skip')
        execution.option_failed(STALL)
        assert execution.goal_states[0] is GoalState.SKIPPED
        assert execution.reported(0, True) is Next.REPLAN
        assert execution.goal_states[0] is GoalState.DONE and not execution.skipped


class TestFailure:
    def test_replan_leaves_the_site_out(self, make):
        execution = make()
        assert execution.option_failed(STALL) is Next.REPLAN
        assert execution.reason == "site 'a': no progress"
        assert plan(execution).options[0].site == 'a2'

    def test_a_site_that_moves_is_tried_again(self, make):
        execution = make()
        execution.option_failed(STALL)
        sites = [site if site.name != 'a' else type(site)('a', ('a',), position=(2.5, 0.5))
                 for site in execution.task.sites]
        execution.reground(execution.task.sites)
        assert execution.failed_sites == {'a': 'no progress'}
        execution.reground(sites)
        assert not execution.failed_sites

    def test_skip_takes_the_goal_as_done(self, make):
        execution = make(policy='skip')
        assert execution.option_failed(STALL) is Next.REPLAN
        assert execution.bits == [False, False] and execution.reason == "skipped: 'a'"
        assert [option.goal for option in plan(execution).options] == ['b']
        execution.planned(plan(execution), execution.reason)
        assert execution.option_failed(STALL) is Next.FINISH
        assert execution.state is TaskState.SUCCEEDED
        assert execution.goal_states == [GoalState.SKIPPED] * 2

    def test_skip_of_a_goal_to_be_undone_leaves_the_site_out(self, make):
        execution = make({**TASK, 'formula': 'b & !a', 'reversible': ['a']}, policy='skip')
        execution.arrived(), execution.arrived()
        assert execution.current.goal == 'a' and execution.bits == [True, True]
        assert execution.option_failed(STALL) is Next.REPLAN
        assert len(execution.failed_sites) == 1 and not execution.skipped

    def test_abort_ends_the_task(self, make):
        execution = make(policy='abort')
        assert execution.option_failed(STALL) is Next.FINISH
        assert execution.state is TaskState.FAILED and execution.error is STALL
        assert execution.message == "site 'a': no progress"
        assert execution.goal_states == [GoalState.FAILED, GoalState.PENDING]

    @pytest.mark.parametrize('policy', ['replan', 'skip'])
    def test_infeasible_waits_for_a_better_world(self, make, policy):
        execution = make(policy=policy)
        error = InfeasibleError('no way', [])
        assert execution.infeasible(error, [1]) is Next.NOTHING
        assert execution.state is TaskState.INFEASIBLE and not execution.has_ended
        assert (execution.error, execution.message) == (error, 'no way')
        assert execution.current is None
        execution.planned(plan(execution), 'the map changed')
        assert execution.state is TaskState.EXECUTING
        assert (execution.error, execution.message) == (None, '')

    def test_infeasible_and_abort(self, make):
        execution = make(policy='abort')
        assert execution.infeasible(InfeasibleError('no way', []), [1]) is Next.FINISH
        assert execution.state is TaskState.FAILED
        assert execution.goal_states == [GoalState.PENDING, GoalState.FAILED]

    def test_any_other_error(self, make):
        execution = make()
        error = StartError('outside')
        assert execution.fail(error) is Next.FINISH and execution.error is error


class TestPauseAndCancel:
    def test_pause_and_resume(self, make):
        execution = make()
        assert not execution.resume()
        assert execution.pause() and not execution.pause()
        assert execution.state is TaskState.PAUSED and execution.current.site == 'a'
        assert execution.reported(0, True) is Next.REPLAN
        assert execution.state is TaskState.PAUSED, 'a report does not resume'
        assert execution.resume() and execution.state is TaskState.PLANNING

    def test_a_plan_that_comes_while_paused(self, make):
        execution = make()
        execution.pause()
        execution.planned(plan(execution), 'a site was regrounded')
        assert execution.state is TaskState.PAUSED

    def test_infeasible_paused_and_resumed(self, make):
        execution = make()
        execution.infeasible(InfeasibleError('no way', []))
        assert execution.pause() and execution.current is None
        assert execution.resume() and execution.state is TaskState.PLANNING

    def test_cancel_says_why(self, make):
        execution = make()
        execution.arrived()
        assert execution.cancel() is Next.FINISH and execution.bits == [True, False]
        assert execution.state is TaskState.CANCELED
        assert isinstance(execution.error, CanceledError)
        assert not execution.pause()
        other = make()
        other.cancel(PreemptedError('another'))
        assert isinstance(other.error, PreemptedError) and other.message == 'another'
