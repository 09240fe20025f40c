"""Markers for RViz: one disc and one label for each site, in the colour of its state."""

import pytest

pytest.importorskip('visualization_msgs.msg', reason='visualization_msgs is not installed')

import numpy as np
from std_msgs.msg import Header
from visualization_msgs.msg import Marker

from gk_planner import BaseSpace, Planner, Task
from gk_planner.errors import InfeasibleError
from gk_planner.execution import Execution
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.ros import markers

TASK = {'sites': [{'name': 'near', 'features': ['a'], 'position': [3.5, 0.5]},
                  {'name': 'far', 'features': ['a'], 'position': [7.5, 0.5]},
                  {'name': 'hall', 'features': ['b'], 'region': [[1, 1], [3, 1], [3, 3]]}],
        'constraints': ['a before b']}
PENDING, CURRENT, DONE = (0.93, 0.68, 0.29), (0.15, 0.45, 0.85), (0.25, 0.65, 0.25)


@pytest.fixture
def execution():
    task = Task.from_dict(TASK)
    space = BaseSpace(OccupancyMap(np.zeros((4, 10), dtype=np.int8), 1.0))
    execution = Execution('task-1', task)
    execution.planned(Planner(space).plan(task, (0.5, 0.5)))
    return execution


def drawn(execution):
    """Markers by namespace and number, after the one that removes all others."""
    first, *others = markers.task_markers(execution, Header(frame_id='map')).markers
    assert first.action == Marker.DELETEALL
    assert {marker.header.frame_id for marker in others} == {'map'}
    return {(marker.ns, marker.id): marker for marker in others}


def colours(execution):
    return [(c.r, c.g, c.b) for number in range(3)
            for c in [drawn(execution)['sites', number].color]]


def test_the_site_of_the_plan_is_current_and_then_done(execution):
    assert np.allclose(colours(execution), [CURRENT, PENDING, PENDING], atol=1e-6)
    execution.arrived()
    assert np.allclose(colours(execution), [DONE, DONE, CURRENT], atol=1e-6)


def test_sites_are_drawn_while_there_is_no_way(execution):
    execution.infeasible(InfeasibleError('no way', []))
    assert execution.current is None
    assert np.allclose(colours(execution), [PENDING] * 3, atol=1e-6)


def test_labels_have_name_and_bit_above_the_site(execution):
    found = drawn(execution)
    assert found['names', 0].text == 'near\na=0' and found['names', 2].text == 'hall\nb=0'
    disc, text, plate = (found[kind, 0].pose.position for kind in ('sites', 'names', 'plates'))
    assert text.x == disc.x and text.y - disc.y > found['plates', 0].scale.y / 2
    assert (plate.x, plate.y) == (text.x, text.y) and plate.z < text.z
    execution.arrived()
    assert drawn(execution)['names', 0].text == 'near\na=1'


def test_regions_have_a_border(execution):
    found = drawn(execution)
    assert [(p.x, p.y) for p in found['regions', 2].points] == [(1, 1), (3, 1), (3, 3), (1, 1)]
    assert ('regions', 0) not in found
