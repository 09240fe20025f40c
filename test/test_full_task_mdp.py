"""Known optima on hand-drawn worlds, one small world per rule of the contract."""

import copy
import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from plan_validator import validate
import pytest
from random_worlds import random_world

from gk_planner.annotations import Annotations
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.errors import NotConvergedError, StartError, TaskError
from gk_planner.full_task_mdp import (
    cell_at,
    cell_centres,
    solve_full_task_mdp,
    start_bits,
    value_iteration,
)
from gk_planner.occupancy_map import OccupancyMap

ROOT2 = math.sqrt(2)
OCCUPANCY = {'#': 100, '?': -1, '%': 65, '-': 64}


def draw(drawing, features=None, regions=None, **task):
    """Read a picture: S start, a..z point sites, # occupied, ? unknown, other characters free.

    A letter's site carries the feature of its name unless ``features`` says otherwise; a letter
    drawn again is another site with the same features. Cells are one metre wide.
    """
    lines = drawing.split()[::-1]
    data = [[OCCUPANCY.get(mark, 0) for mark in line] for line in lines]
    sites, start = [], None
    for row, col in itertools.product(range(len(lines)), range(len(lines[0]))):
        mark = lines[row][col]
        if mark == 'S':
            start = (col + 0.5, row + 0.5)
        elif mark.isalpha():
            same = sum(site['name'].startswith(mark) for site in sites)
            sites.append({'name': f'{mark}{same + 1}' if same else mark,
                          'features': (features or {}).get(mark, [mark]),
                          'position': [col + 0.5, row + 0.5]})
    for name, region in (regions or {}).items():
        sites.append({'name': name, 'features': [name], 'region': region})
    grid_map = OccupancyMap(np.array(data, np.int8), 1.0, (0.0, 0.0, 0.0))
    return grid_map, Task.from_dict({'sites': sites, **task}), start


def solve(drawing, features=None, regions=None, annotations=None, task=None, **config):
    """Return the plan of a picture, after checking that value iteration agrees on the cost."""
    grid_map, task, start = draw(drawing, features, regions, **(task or {}))
    config = Config(**{'connectivity': 4, **config})
    plan = solve_full_task_mdp(task, grid_map, config, start, annotations)
    values = value_iteration(task, grid_map, config, annotations)
    value = values[(*start_bits(task), *cell_at(grid_map, start))]
    assert value == pytest.approx(plan.cost if plan else math.inf)
    return plan


def sites_of(plan):
    return [site for _, site, _ in plan.sequence]


def test_cost_is_metres_and_the_sequence_names_goal_site_and_cell():
    plan = solve('S..a', task={'goals': {'coffee': ['a']}})
    assert (plan.cost, plan.sequence) == (3.0, (('coffee', 'a', (0, 3)),))
    assert type(plan.cost) is float


def test_diagonal_step_costs_root_two_and_connectivity_4_has_none():
    assert solve('.a S.', connectivity=8).cost == pytest.approx(ROOT2)
    assert solve('.a S.').cost == 2


@pytest.mark.parametrize('drawing', ['#a S.', '.a S#'])
def test_no_corner_is_cut(drawing):
    assert solve(drawing, connectivity=8).cost == 2


def test_walls_can_make_a_task_infeasible():
    assert solve('S#a') is None


def test_shortest_tour_visits_the_near_end_first():
    plan = solve('a..S....b')
    assert (plan.cost, sites_of(plan)) == (3 + 8, ['a', 'b'])


def test_unknown_is_blocked_unless_said_otherwise():
    assert solve('S?a') is None
    assert solve('S?a', unknown_is_free=True).cost == 2


def test_occupied_from_the_threshold_up():
    assert solve('S-a').cost == 2
    assert solve('S%a') is None
    assert solve('S%a', occupied_threshold=66).cost == 2


def test_robot_radius_blocks_centres_at_most_that_far():
    drawing = '.#. ... S.a'
    assert solve(drawing, robot_radius=1.9).cost == 2
    assert solve(drawing, robot_radius=2.0) is None


def test_unknown_cells_and_the_border_do_not_inflate():
    assert solve('.?. S.a', robot_radius=1.0).cost == 2


def test_clearance_weight_falls_to_one_at_its_distance():
    # Distances to the wall: 1, root 2; weights 3 - 2 d / 2 = 2 and 3 - root 2.
    plan = solve('#. Sa', clearance_distance=2.0, clearance_weight=3.0)
    assert plan.cost == pytest.approx((2 + 3 - ROOT2) / 2)
    assert solve('#..Sa', clearance_distance=2.0, clearance_weight=3.0).cost == 1


def test_start_outside_or_blocked_is_an_error():
    grid_map, task, _ = draw('S#a')
    for start in [(1.5, 0.5), (-0.5, 0.5), (0.5, 1.5)]:
        with pytest.raises(StartError, match='start'):
            solve_full_task_mdp(task, grid_map, Config(), start)


def test_turned_map_has_its_centres_and_cells_in_the_map_frame():
    grid_map = OccupancyMap(np.zeros((2, 3), np.int8), 2.0, (10.0, 20.0, math.pi / 2))
    centres = cell_centres(grid_map)
    assert centres[0, 2] == pytest.approx([9, 25])
    assert all(cell_at(grid_map, centres[cell]) == cell for cell in np.ndindex(2, 3))


def box(left, low, right, top):
    return [(left, low), (right, low), (right, top), (left, top)]


def test_keep_out_takes_centres_inside_and_on_the_border_and_does_not_inflate():
    keep_out = Annotations(keep_out=[box(1.5, 0.5, 2.5, 1.0)])
    assert solve('.... S..a', annotations=keep_out, robot_radius=1.0).cost == 5


def test_a_step_costs_the_mean_weight_and_overlapping_factors_multiply():
    heavy = box(1, 0, 2, 1)
    assert solve('S.a', annotations=Annotations(weights=[(heavy, 3.0)])).cost == 4
    twice = Annotations(weights=[(heavy, 3.0), (heavy, 2.0)])
    assert solve('S.a', annotations=twice).cost == 7


NORTH, SOUTH = (-0.9, 0.9), (0.9, -0.9)


@pytest.mark.parametrize(('drawing', 'heading', 'x', 'cost'), [
    ('S.a', NORTH, 1.0, 2),          # the left of a northward line is west
    ('S.a', SOUTH, 1.0, None),
    ('S.a', NORTH, 0.5, 2),          # a centre on the line counts as right
    ('S.a', SOUTH, 0.5, None),
    ('S.a', NORTH, 1.5, 2),
    ('S.a', SOUTH, 1.5, None),
    ('Sa', SOUTH, 1.5, 1),           # so reaching it from the right is no crossing
    ('a.S', NORTH, 1.5, None),
    ('a.S', SOUTH, 1.5, 2),
    ('... S.a', SOUTH, 1.0, 4),      # round the end of the line
])
def test_one_way_lines_are_crossed_from_left_to_right_only(drawing, heading, x, cost):
    line = [(x, y) for y in heading]
    plan = solve(drawing, annotations=Annotations(one_way=[line]))
    assert (plan and plan.cost) == cost


def test_one_way_holds_for_diagonal_steps_and_every_part_of_the_line():
    bent = Annotations(one_way=[[(0.7, 3.0), (1.1, 1.1), (3.0, 0.7)]])  # its left is north-east
    assert solve('.a S.', annotations=bent, connectivity=8) is None
    assert solve('.S a.', annotations=bent, connectivity=8).cost == pytest.approx(ROOT2)


def test_the_cheapest_alternative_serves_the_bit():
    plan = solve('a..Sa')
    assert (plan.cost, sites_of(plan)) == (1, ['a2'])


def test_blocked_site_snaps_to_the_nearest_free_cell_lowest_row_then_column():
    grid_map, _, start = draw('... .#. S.a')
    task = Task.from_dict({'sites': [
        {'name': 'a', 'features': ['a'], 'position': [1.9, 1.9]}]})
    plan = solve_full_task_mdp(task, grid_map, Config(snap_radius=1.0), start)
    assert plan.sequence == (('a', 'a', (0, 1)),)
    assert solve_full_task_mdp(task, grid_map, Config(snap_radius=0.9), start) is None


def test_a_region_is_completed_at_any_of_its_free_cells():
    assert solve('S...#', regions={'hall': box(2.5, 0, 5, 1)}).sequence[0][2] == (0, 2)
    assert solve('...S.', regions={'hall': box(2.5, 0, 5, 1)}).cost == 0


def test_a_region_without_a_centre_takes_the_cell_of_its_inner_point():
    assert solve('S..', regions={'pin': box(2.1, 0.1, 2.3, 0.3)}).cost == 2


def test_overlapping_regions_are_completed_where_they_meet():
    regions = {'left': box(2, 0, 4, 1), 'right': box(3, 0, 5, 1)}
    assert solve('S....', regions=regions).cost == 3


def test_option_cost_is_paid_per_goal():
    assert solve('Sab', option_cost=0.5).cost == 3


def test_mail_waits_for_key():
    plan = solve('m..S.k', task={'constraints': ['k before m']})
    assert (plan.cost, sites_of(plan)) == (2 + 5, ['k', 'm'])


def test_mail_waits_for_every_key_goal_but_two_sites_of_one_goal_count_once():
    features = {'k': ['key', 'k1'], 'l': ['key', 'k2'], 'm': ['mail']}
    task = {'constraints': ['key before mail'], 'goals': {'mail': ['mail']}, 'formula': 'mail'}
    assert sites_of(solve('k.Sm.l', features, task=task)) == ['k', 'l', 'm']
    features = {'k': ['key'], 'l': ['key'], 'm': ['mail']}
    assert sites_of(solve('k.Sm.l', features, task=task)) == ['k', 'm']


def test_a_constraint_does_not_bind_a_goal_to_itself():
    features = {'a': ['key', 'mail']}
    assert solve('Sa', features, task={'constraints': ['key before mail']}).cost == 1


def test_forbids():
    plan = solve('c...Sd', task={'constraints': ['d forbids c']})
    assert (plan.cost, sites_of(plan)) == (4 + 5, ['c', 'd'])


def test_constraints_govern_flips_and_done_may_break_an_order():
    task = {'constraints': ['k before m'], 'done': ['m']}
    assert sites_of(solve('mSk', task=task)) == ['k']
    assert solve('mSk', task={'constraints': ['k before m', 'm before k']}) is None


@pytest.mark.parametrize(('constraint', 'sequence'), [
    ([], ['a']),
    (['c(a^1, b^0)'], ['b', 'a']),
    (['c(a^1, b^1)'], ['a']),
    (['c(a^0, b^0)'], ['a']),
])
def test_clearing_a_reversible_bit_obeys_its_own_constraints(constraint, sequence):
    task = {'constraints': constraint, 'done': ['a'], 'reversible': ['a'], 'formula': '!a'}
    assert sites_of(solve('Sab', task=task)) == sequence


def test_an_irreversible_bit_stays():
    assert solve('Sab', task={'done': ['a'], 'formula': '!a & b'}) is None


def test_a_reversible_bit_is_set_and_cleared_again():
    # b needs a, and the end needs a cleared.
    task = {'constraints': ['a before b'], 'reversible': ['a'], 'formula': 'b & !a'}
    plan = solve('S.ab', task=task, option_cost=0.25)
    assert sites_of(plan) == ['a', 'b', 'a']
    assert plan.cost == 4 + 0.75


@pytest.mark.parametrize(('formula', 'sequence'), [
    ('b', ['b']),
    ('a xor b', ['a']),
    ('atleast(2, f) & any(f)', ['a', 'b']),
    ('a -> b', []),
    ('true', []),
    ('(a <-> b) & c', ['c']),
])
def test_first_exit_of_a_formula(formula, sequence):
    features = {mark: ['f', mark] for mark in 'abc'}
    goals = {mark: ['f', mark] for mark in 'abc'}
    plan = solve('S.a.b.c', features, task={'formula': formula, 'goals': goals})
    assert sites_of(plan) == sequence
    assert plan.cost == (2 * 'Sabc'.index(sequence[-1]) if sequence else 0)


def test_a_goal_without_a_site_is_infeasible_only_if_needed():
    goals = {'x': ['x'], 'a': ['a']}
    assert solve('Sa', task={'goals': goals}) is None
    assert solve('Sa', task={'goals': goals, 'formula': 'a'}).cost == 1


def test_action_drives_over_a_site_and_contact_does_not():
    drawing = '... Sab'
    assert solve(drawing, task={'formula': 'b & !a'}).cost == 2
    assert solve(drawing, task={'formula': 'b & !a', 'trigger': 'contact'}).cost == 4


def test_contact_completes_on_the_way_and_pays_for_it():
    plan = solve('Sab', task={'formula': 'b', 'trigger': 'contact'}, option_cost=0.5)
    assert (plan.cost, sites_of(plan)) == (3, ['a', 'b'])


def test_contact_stops_at_a_forbidden_touch():
    task = {'constraints': ['k before m'], 'formula': 'b', 'trigger': 'contact'}
    assert solve('kSmb', task=task).cost == 1 + 3
    assert solve('#Smb#k', task=task) is None


def test_contact_takes_done_sites_as_free_floor_unless_reversible():
    task = {'done': ['a'], 'formula': 'a & b', 'trigger': 'contact'}
    assert sites_of(solve('Sab', task=task)) == ['b']
    assert sites_of(solve('Sab', task={**task, 'reversible': ['a']})) == ['a', 'b', 'a']


def test_contact_does_not_touch_at_the_start():
    region = {'hall': box(0, 0, 1, 1)}
    assert solve('S.', regions=region).cost == 0
    assert solve('S.', regions=region, task={'trigger': 'contact'}).cost == 2


def test_contact_refuses_two_goals_in_one_cell():
    grid_map, task, start = draw(
        'S.a', regions={'hall': box(1, 0, 3, 1)}, trigger='contact')
    with pytest.raises(TaskError, match='a and hall share cell'):
        solve_full_task_mdp(task, grid_map, Config(), start)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_value_iteration_equals_dijkstra(seed):
    world = random_world(seed, max_side=6)
    plan = solve_full_task_mdp(
        world.task, world.grid_map, world.config, world.start, world.annotations)
    values = value_iteration(world.task, world.grid_map, world.config, world.annotations)
    value = values[(*start_bits(world.task), *cell_at(world.grid_map, world.start))]
    assert value == pytest.approx(plan.cost if plan else math.inf, rel=1e-12)


def test_value_iteration_says_when_it_gave_up():
    grid_map, task, _ = draw('S...a')
    with pytest.raises(NotConvergedError, match='max_iterations'):
        value_iteration(task, grid_map, Config(max_iterations=3))


def test_most_random_worlds_have_a_plan():
    lengths = []
    for seed in range(200):
        world = random_world(seed)
        plan = solve_full_task_mdp(
            world.task, world.grid_map, world.config, world.start, world.annotations)
        lengths.append(len(plan.sequence) if plan else -1)
    assert sum(length > 0 for length in lengths) > 100
    assert sum(length > 1 for length in lengths) > 40
    assert lengths.count(-1) > 10


def good_plan():
    """Return the plan of ``Sa.b`` under contact."""
    def option(name, path, bits):
        return {'goal': name, 'site': name, 'cost': len(path) - 0.5, 'position': path[-1],
                'path': path, 'task_state': {'a': True, 'b': bits}}
    points = [[col + 0.5, 1.5] for col in range(4)]
    return {'status': 'solved', 'cost': 4.0, 'optimal': True, 'bound': 4.0, 'warnings': [],
            'options': [option('a', points[:2], False), option('b', points[1:], True)],
            'waypoints': [points[1], points[3]],
            'timing_ms': {'base_space': 0, 'options': 0.5, 'task': 0}}


def check(plan, **task):
    grid_map, task, start = draw('.... Sa.b .#..', trigger='contact', **task)
    validate(plan, task, grid_map, Config(option_cost=0.5), start)


def test_validator_accepts_a_good_plan():
    check(good_plan(), constraints=['a before b'])


@pytest.mark.parametrize(('keys', 'value', 'message'), [
    (['cost'], 4.1, 'sum to'),
    (['cost'], np.float64(4), 'plain number'),
    (['bound'], 3.0, 'bound'),
    (['status'], 'ok', 'status'),
    (['extra'], 1, 'keys'),
    (['waypoints'], [], 'waypoints'),
    (['options', 0, 'goal'], 'b', 'another goal'),
    (['options', 0, 'site'], 'z', 'not one of'),
    (['options', 0, 'task_state'], {'a': True}, 'task_state'),
    (['options', 1, 'task_state', 'a'], False, 'task_state'),
    (['options', 1, 'path', 0], [0.5, 1.5], 'the robot is at'),
    (['options', 1, 'path', 1], [1.5, 0.5], 'blocked'),
    (['options', 1, 'path', 1], [2.5, 1.6], 'centre'),
    (['options', 1, 'path', 1], [2.5, 9.5], 'off the map'),
    (['options', 1, 'path', 1], [0.5, 1.5], 'not a move'),
    (['options', 1, 'path'], [[1.5, 1.5], [2.5, 2.5], [3.5, 1.5]], 'cost'),
    (['options', 0, 'path'], [[0.5, 1.5], [0.5, 0.5], [1.5, 1.5]], 'barred'),
])
def test_validator_refuses_a_spoilt_plan(keys, value, message):
    plan = copy.deepcopy(good_plan())
    part = plan
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    with pytest.raises(AssertionError, match=message):
        check(plan)


@pytest.mark.parametrize(('task', 'message'), [
    ({'constraints': ['b before a']}, 'forbidden'),
    ({'formula': 'a'}, 'already holds'),
    ({'formula': 'a & !b'}, 'does not hold|already'),
    ({'done': ['a']}, 'forbidden'),
])
def test_validator_refuses_a_plan_of_another_task(task, message):
    with pytest.raises(AssertionError, match=message):
        check(good_plan(), **task)


def test_validator_refuses_a_touch_on_the_way_and_an_option_without_a_step():
    plan = good_plan()
    whole = {**plan['options'][1], 'cost': 3.5, 'path': [[c + 0.5, 1.5] for c in range(4)],
             'task_state': {'a': False, 'b': True}}
    alone = {**plan, 'options': [whole], 'waypoints': plan['waypoints'][1:], 'cost': 3.5,
             'bound': 3.5}
    with pytest.raises(AssertionError, match='touches another site'):
        check(alone, formula='b')
    stay = {**plan['options'][0], 'path': [[0.5, 1.5]], 'position': [0.5, 1.5], 'cost': 0.5}
    still = {**plan, 'options': [stay], 'waypoints': [[0.5, 1.5]], 'cost': 0.5, 'bound': 0.5}
    with pytest.raises(AssertionError, match='needs a step'):
        check(still)
