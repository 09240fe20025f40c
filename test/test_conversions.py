"""Messages and the core's types: there and back again."""

import math

import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')
pytest.importorskip('gk_planner_interfaces.msg', reason='gk_planner_interfaces is not built')

from hypothesis import given
from hypothesis import strategies as st
from nav_msgs.msg import MapMetaData, OccupancyGrid
import numpy as np
from std_msgs.msg import Header

from gk_planner import BaseSpace, Planner, Task
from gk_planner.errors import MapError, TaskError
from gk_planner.execution import Execution
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.ros import conversions
from gk_planner_interfaces.msg import Goal, TaskSpec, TaskStatus

TASK = {
    'sites': [{'name': 'a', 'features': ['x', 'a'], 'position': [3.5, 0.5], 'yaw': 1.5},
              {'name': 'r', 'features': ['r'], 'region': [[1, 1], [3, 1], [3, 3]]},
              {'name': 'b', 'features': ['b'], 'position': [8.5, 0.5]}],
    'goals': {'first': ['a', 'x'], 'tea': ['tea']}, 'constraints': ['a before b'],
    'formula': 'first & b & !tea', 'reversible': ['r'], 'done': ['r'], 'trigger': 'contact'}
angles = st.floats(-math.pi, math.pi)
places = st.tuples(st.floats(-50, 50), st.floats(-50, 50), angles)


class TestMap:
    @pytest.mark.parametrize('resolution', [0.05, 0.1, 0.025, 1.0])
    def test_there_and_back(self, resolution):
        data = np.arange(-1, 11, dtype=np.int8).reshape(3, 4)
        given_map = OccupancyMap(data, resolution, (1.5, -2.0, 0.25))
        back = conversions.map_from_msg(conversions.map_to_msg(given_map, Header()))
        assert back.resolution == resolution, 'float32 on the way'
        assert np.array_equal(back.data, data) and back.origin == pytest.approx((1.5, -2.0, 0.25))

    @pytest.mark.parametrize(('width', 'height', 'n'), [(0, 0, 0), (0, 5, 0), (2, 2, 3)])
    def test_a_size_that_does_not_fit(self, width, height, n):
        message = OccupancyGrid(info=MapMetaData(width=width, height=height, resolution=1.0),
                                data=[0] * n)
        with pytest.raises(MapError, match=f'{width} x {height} cells with {n} values'):
            conversions.map_from_msg(message)


class TestTask:
    def test_there_and_back(self):
        task = Task.from_dict(TASK)
        back = conversions.task_from_spec(conversions.task_to_spec(task, Header()), 'task')
        assert back == task

    def test_what_is_empty_has_its_default(self):
        spec = TaskSpec(sites=[conversions.site_from_fields(TASK['sites'][0])])
        task = conversions.task_from_spec(spec, 'task')
        assert task.goal_names == ('x.a',) and task.trigger == 'action'
        assert task.formula.support() == {0}
        assert task == Task.from_dict({'sites': TASK['sites'][:1]})

    def test_a_goal_named_twice(self):
        spec = TaskSpec(goals=[Goal(name='g', features=['a']), Goal(name='g', features=['b'])])
        with pytest.raises(TaskError, match='twice'):
            conversions.task_from_spec(spec, 'task')

    @given(place=places, frame=places)
    def test_a_frame_moves_everything(self, place, frame):
        x, y, yaw = conversions.moved(place, frame)
        cos, sin = math.cos(frame[2]), math.sin(frame[2])
        back = (cos * (x - frame[0]) + sin * (y - frame[1]),
                -sin * (x - frame[0]) + cos * (y - frame[1]))
        assert back == pytest.approx(place[:2], abs=1e-9)
        assert math.remainder(yaw - frame[2] - place[2], math.tau) == pytest.approx(0, abs=1e-9)
        assert conversions.moved(place, conversions.IDENTITY) == place

    def test_sites_of_another_frame(self):
        quarter = (10.0, 0.0, math.pi / 2)
        spec = conversions.task_to_spec(Task.from_dict(TASK), Header())
        a, r, b = conversions.task_from_spec(spec, 'task', quarter).sites
        assert a.position == pytest.approx((9.5, 3.5))
        assert a.yaw == pytest.approx(math.remainder(1.5 + math.pi / 2, math.tau))
        assert np.array(r.region) == pytest.approx(np.array([[9, 1], [9, 3], [7, 3]]))
        assert b.yaw is None


class TestPlan:
    @pytest.fixture
    def run(self):
        task = Task.from_dict({'sites': [TASK['sites'][0], TASK['sites'][2]]})
        space = BaseSpace(OccupancyMap(np.zeros((3, 10), dtype=np.int8), 1.0))
        execution = Execution('task-1', task)
        execution.planned(Planner(space).plan(task, (0.5, 0.5)))
        return execution

    def test_plan(self, run):
        message = conversions.plan_to_msg(run.plan, run.task, 'task-1', Header(frame_id='m'))
        assert message.goals == ['x.a', 'b'] and message.cost == 8.0 == message.bound
        assert [option.site for option in message.options] == ['a', 'b']
        assert [list(option.bits) for option in message.options] == [[True, False], [True] * 2]
        assert [conversions.yaw_of(option.pose.orientation)
                for option in message.options] == pytest.approx([1.5, 0.0])
        assert message.success_probability == 1.0 and message.header.frame_id == 'm'

    def test_status(self, run):
        run.arrived()
        message = conversions.status_to_msg(run, Header(), 5.0, 0, '')
        assert message.state == TaskStatus.EXECUTING and list(message.bits) == [True, False]
        assert list(message.goal_states) == [TaskStatus.GOAL_DONE, TaskStatus.GOAL_CURRENT]
        assert (message.current_goal, message.current_site, message.cost_to_go) == ('b', 'b', 5.0)

    def test_no_status(self):
        message = conversions.status_to_msg(None, Header(), 0.0, 0, '')
        assert message.state == TaskStatus.IDLE and message.task_id == ''


class TestPath:
    def test_each_pose_looks_to_the_next(self):
        path = conversions.path_to_msg([(0.0, 0.0), (1.0, 0.0), (1.0, 2.0)], Header(frame_id='m'))
        yaws = [conversions.yaw_of(place.pose.orientation) for place in path.poses]
        assert yaws == pytest.approx([0.0, math.pi / 2, math.pi / 2])
        assert {place.header.frame_id for place in path.poses} == {'m'}

    @pytest.mark.parametrize('points', [[], [(1.0, 2.0)]])
    def test_short_ones(self, points):
        assert len(conversions.path_to_msg(points, Header()).poses) == len(points)

    @given(yaw=angles)
    def test_yaw(self, yaw):
        back = conversions.yaw_of(conversions.pose((0.0, 0.0), yaw).orientation)
        assert math.remainder(back - yaw, math.tau) == pytest.approx(0.0, abs=1e-9)
