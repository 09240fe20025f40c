"""The planner node as a process: lifecycle, failure policies, namespaces, first requests, end."""

import numpy as np
import pytest
from ros_harness import Planner, REPO, ros, World
import yaml

from gk_planner_interfaces.msg import TaskStatus

S = TaskStatus
FLOOR = np.zeros((3, 10))
TASK = {'sites': [{'name': 'a', 'features': ['a'], 'position': [3.5, 0.5]},
                  {'name': 'b', 'features': ['b'], 'position': [8.5, 0.5]}],
        'constraints': ['a before b']}
LARGE = np.zeros((1000, 1000))
LARGE_TASK = {'sites': [{'name': f's{i}', 'features': [f'f{i % 10}'],
                         'position': [20.5 + 104 * (i % 10), 20.5 + 150 * (i // 10)]}
                        for i in range(60)]}
FAST = {'status_period': 0.05}


@pytest.fixture
def bench(tmp_path):
    with ros(tmp_path) as bench:
        yield bench


def started(bench, data=FLOOR, *, namespace='', **parameters):
    """A planner with a map and a robot, ready for a task."""
    world, planner, process = starting(bench, data, namespace=namespace, **parameters)
    planner.wait_ready()
    return world, planner, process


def starting(bench, data=FLOOR, *, namespace='', **parameters):
    world = World(bench, namespace)
    world.map(data)
    process = bench.start('planner_node', namespace=f'/{namespace}' if namespace else '',
                          parameters={**FAST, **parameters})
    return world, Planner(bench, namespace), process


def refusals(planner):
    """The error codes and messages of every request."""
    answers = [planner.set_task(TASK), planner.reground(), planner.complete('a'),
               planner.execute(TASK).result()[1]]
    return ({answer.error_code for answer in answers},
            {planner.trigger(name).success for name in ('cancel', 'pause', 'resume')},
            {planner.trigger(name).message for name in ('cancel', 'pause', 'resume')})


NOT_ACTIVE = ({S.ERROR_NOT_ACTIVE}, {False}, {'the node is not active'})


class TestLifecycle:
    def test_a_manager_brings_it_up(self, bench):
        world = World(bench)
        world.map(FLOOR)
        bench.start('planner_node', parameters={**FAST, 'autostart': False})
        planner = Planner(bench)
        assert planner.lifecycle == 'unconfigured'
        assert refusals(planner) == NOT_ACTIVE
        assert planner.change_state('configure') and planner.lifecycle == 'inactive'
        assert refusals(planner) == NOT_ACTIVE
        assert not planner.change_state('configure'), 'not possible now, and answered'
        assert planner.change_state('activate') and planner.lifecycle == 'active'
        planner.wait_ready()
        planner.run(TASK)

    def test_deactivating_pauses_and_activating_goes_on(self, bench):
        world, planner, _ = started(bench)
        goal = planner.execute(TASK)
        task_id = planner.wait_state(S.EXECUTING).task_id
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)
        assert planner.change_state('deactivate')
        planner.wait_state(S.PAUSED)
        bench.wait_until(lambda: planner.diagnostics['active'] == 'False')
        assert refusals(planner) == NOT_ACTIVE
        world.pose = (8.5, 0.5)
        planner.wait_pose(world.pose)
        world.pose = (6.5, 0.5)
        planner.wait_pose(world.pose)
        assert planner.bits == {'a': True, 'b': False} and not goal.future.done()
        assert planner.change_state('activate')
        planner.wait_state(S.EXECUTING, task_id)
        assert planner.bits == {'a': True, 'b': False}
        world.pose = (8.5, 0.5)
        assert goal.result()[1].success

        planner.run(TASK)
        planner.trigger('pause')
        planner.change_state('deactivate')
        planner.change_state('activate')
        planner.forget()
        bench.wait_until(lambda: len(planner.said('status')) > 2)
        assert planner.status.state == S.PAUSED, 'who paused it resumes it'

    def test_deactivating_ends_planning(self, bench):
        _, planner, _ = started(bench, LARGE)
        answer = planner.set_task_async(LARGE_TASK)
        planner.wait_state(S.PLANNING)
        assert planner.change_state('deactivate')
        assert bench.wait_for(answer).error_code == S.ERROR_NOT_ACTIVE
        assert planner.change_state('activate')
        planner.forget()
        bench.wait_until(lambda: len(planner.said('status')) > 2)
        assert planner.status.state == S.IDLE

    def test_cleanup_ends_the_task_and_configuring_starts_afresh(self, bench):
        world, planner, _ = started(bench)
        goal = planner.execute(TASK)
        planner.wait_state(S.EXECUTING)
        assert planner.change_state('deactivate') and planner.change_state('cleanup')
        assert goal.result()[1].error_code == S.ERROR_SHUTDOWN
        assert refusals(planner) == NOT_ACTIVE
        assert planner.change_state('configure') and planner.change_state('activate')
        assert len(bench.node.get_subscriptions_info_by_topic('/odom')) == 1
        planner.wait_ready()
        planner.run(TASK)
        world.pose = (3.5, 0.5)
        planner.wait_bits(a=True, b=False)

    def test_shutdown_ends_the_task(self, bench):
        _, planner, _ = started(bench)
        goal = planner.execute(TASK)
        planner.wait_state(S.EXECUTING)
        assert planner.change_state('shutdown')
        assert goal.result()[1].error_code == S.ERROR_SHUTDOWN
        assert refusals(planner) == NOT_ACTIVE

    @pytest.mark.parametrize('data', [FLOOR, LARGE], ids=['executing', 'planning'])
    def test_whoever_waits_is_told_when_the_process_ends(self, bench, data):
        _, planner, process = started(bench, data)
        if data is FLOOR:
            goal = planner.execute(TASK)
            planner.wait_state(S.EXECUTING)
            process.interrupt()
            assert goal.result()[1].error_code == S.ERROR_SHUTDOWN
            bench.wait_until(lambda: not planner.last['plan'].options, 'nothing is left over')
        else:
            answer = planner.set_task_async(LARGE_TASK)
            planner.wait_state(S.PLANNING)
            process.interrupt()
            assert bench.wait_for(answer).error_code == S.ERROR_NOT_ACTIVE


@pytest.mark.parametrize('node', ['planner_node', 'sim_node'])
def test_signals_that_do_not_stop_change_nothing_about_a_clean_end(bench, node):
    """Ctrl-C reaches a node from the terminal, and again from launch, while it ends."""
    parameters = {'map': REPO / 'maps/office.yaml'} if node == 'sim_node' else FAST
    process = bench.start(node, parameters=parameters)
    bench.wait_until(lambda: 'active' in process.log or 'robot at' in process.log)
    bench.wait_until(lambda: process.interrupt() or process.status is not None, 'its end')
    assert process.status == 0


class TestFirstRequests:
    def test_kernels_are_compiled_before_anyone_asks(self, bench, tmp_path):
        process = bench.start('planner_node', parameters=FAST,
                              env={'NUMBA_CACHE_DIR': str(tmp_path / 'kernels')})
        Planner(bench).wait_active()
        # At a low priority, which beside other tests is next to nothing.
        bench.wait_until(lambda: list((tmp_path / 'kernels').rglob('*.nbi')), 'a kernel', 300.0)
        assert process.log.count('compiling kernels') == 1

    def test_before_map_and_pose(self, bench):
        world = World(bench, odom=False)
        bench.start('planner_node', parameters=FAST)
        planner = Planner(bench)
        planner.wait_active()
        answer = planner.set_task(TASK)
        assert answer.error_code == S.ERROR_NO_MAP and 'map' in answer.message
        bench.wait_until(lambda: planner.last['diagnostics'].message == 'waiting for the map')
        planner.wait_map(world.map(FLOOR))
        answer = planner.set_task(TASK)
        assert answer.error_code == S.ERROR_NO_POSE and 'position' in answer.message
        bench.wait_until(lambda: planner.last['diagnostics'].message == 'waiting for the pose')
        bench.wait_until(lambda: planner.status.state == S.IDLE and planner.status.task_id == '')
        world.says_pose = True
        planner.wait_ready()
        planner.run(TASK)

    def test_a_task_file_starts_when_map_and_pose_are_there(self, bench, tmp_path):
        file = tmp_path / 'task.yaml'
        file.write_text(yaml.safe_dump(TASK))
        _, planner, _ = started(bench, task_file=file)
        assert planner.wait_state(S.EXECUTING).goals == ['a', 'b']

    def test_a_task_file_takes_no_place_that_is_taken(self, bench, tmp_path):
        file = tmp_path / 'task.yaml'
        file.write_text(yaml.safe_dump(TASK))
        world = World(bench)
        bench.start('planner_node', parameters={**FAST, 'task_file': file})
        planner = Planner(bench)
        planner.wait_active()
        planner.wait_pose(world.pose)
        stamp = world.map(FLOOR)
        # Before the file or after it, whichever is first: this one is to stay.
        answer = bench.wait_until(lambda: (answer := planner.set_task(
            {'sites': TASK['sites'][:1]})).success and answer)
        planner.wait_map(stamp)
        world.pose = (3.5, 0.5)
        assert planner.wait_state(S.SUCCEEDED, answer.task_id).goals == ['a']

    def test_a_bad_task_file_is_named(self, bench, tmp_path):
        _, planner, process = started(bench, task_file=tmp_path / 'none.yaml')
        bench.wait_until(lambda: 'task_file: ' in process.log)
        assert 'none.yaml' in process.log
        planner.run(TASK)


class TestFailurePolicies:
    """Two planners in two namespaces at once, each with a world of its own."""

    def test_unreachable(self, bench):
        skip_world, skipping, _ = starting(bench, namespace='s', failure_policy='skip')
        abort_world, aborting, _ = starting(bench, namespace='t', failure_policy='abort')
        skipping.wait_ready()
        aborting.wait_ready()
        task = {**TASK, 'sites': [*TASK['sites'], {
            'name': 'c', 'features': ['c'], 'position': [1.5, 2.5]}]}
        goal = aborting.execute(TASK)
        skipping.run(task)
        aborting.wait_state(S.EXECUTING)
        wall = FLOOR.copy()
        wall[:, 6] = 100
        skip_world.map(wall)
        bench.wait_until(lambda: skipping.goal_states['b'] == S.GOAL_SKIPPED)
        status = bench.wait_until(lambda: skipping.status.replans == 1 and skipping.status)
        assert status.state == S.EXECUTING and "skipped: 'b'" in status.replan_reason
        assert aborting.status.state == S.EXECUTING, 'the other namespace has its own map'
        skip_world.pose = (1.5, 2.5)
        skipping.wait_bits(a=False, b=False, c=True)
        skip_world.pose = (3.5, 0.5)
        status = skipping.wait_state(S.SUCCEEDED)
        assert skipping.bits == {'a': True, 'b': False, 'c': True}
        assert skipping.goal_states['b'] == S.GOAL_SKIPPED

        abort_world.map(wall)
        status = aborting.wait_state(S.FAILED)
        assert status.error_code == S.ERROR_INFEASIBLE and "'b'" in status.message
        result = goal.result()[1]
        assert not result.success and result.error_code == S.ERROR_INFEASIBLE
        assert list(result.goal_states) == [S.GOAL_PENDING, S.GOAL_FAILED]

    def test_stalled(self, bench):
        stall = {'stall_timeout': 0.3}
        planners = [starting(bench, namespace=policy, failure_policy=policy, **stall)[1]
                    for policy in ('replan', 'skip', 'abort')]
        for planner in planners:
            planner.wait_ready()
        task = {'sites': [{'name': 'near', 'features': ['a'], 'position': [3.5, 0.5]},
                          {'name': 'far', 'features': ['a'], 'position': [8.5, 0.5]}]}
        goals = [planner.execute(task) for planner in planners]
        replanning, _, aborting = planners
        status = bench.wait_until(
            lambda: replanning.status.current_site == 'far' and replanning.status)
        assert "'near': no progress" in status.replan_reason
        result = goals[1].result()[1]
        assert result.success and list(result.goal_states) == [S.GOAL_SKIPPED]
        result = goals[2].result()[1]
        assert result.error_code == S.ERROR_STALLED and "'near'" in result.message
        assert list(result.goal_states) == [S.GOAL_FAILED]
        assert aborting.wait_state(S.FAILED).error_code == S.ERROR_STALLED
        # With both given up there is no way, until one of them is seen elsewhere.
        status = replanning.wait_state(S.INFEASIBLE)
        assert status.message.endswith("given up: 'far' (no progress), 'near' (no progress)")
        assert not goals[0].future.done()
        answer = replanning.reground([
            {'name': 'near', 'features': ['a'], 'position': [0.5, 0.5]}])
        assert answer.success
        assert goals[0].result()[1].success
