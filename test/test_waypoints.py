"""Plans laid out as options with paths, at every temperature; guides for robots off the path."""

import dataclasses
from itertools import pairwise
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from plan_validator import validate
import pytest
from random_worlds import random_world
from test_base_space import drawn, SEEDS
from test_grounding import ROOM, SQUARE, task_of

from gk_planner import BaseSpace, Planner
from gk_planner.errors import InfeasibleError
from gk_planner.grounding import ground
from gk_planner.option_legs import OptionLegs
from gk_planner.task_solver import solve_on_legs
from gk_planner.waypoints import plan_options

TEMPERATURES = (0.01, 0.1, 1.0, 10.0, 100.0)
SOFT = st.sampled_from(TEMPERATURES)


def soft_world(seed, temperature, trigger):
    """Draw a world at a temperature; returns it with its space."""
    world = random_world(seed, trigger=trigger, reversible=False)
    world = dataclasses.replace(
        world, config=dataclasses.replace(world.config, temperature=temperature))
    return world, BaseSpace(world.grid_map, world.config, world.annotations)


def feasible_at_zero(world):
    config = dataclasses.replace(world.config, temperature=0.0)
    try:
        Planner(BaseSpace(world.grid_map, config, world.annotations)).plan(world.task, world.start)
    except InfeasibleError:
        return False
    return True


@pytest.mark.parametrize('trigger', ['action', 'contact'])
def test_soft_plans_are_valid(trigger):
    @settings(max_examples=80, deadline=None)
    @given(SEEDS, SOFT)
    def check(seed, temperature):
        world, space = soft_world(seed, temperature, trigger)
        if not feasible_at_zero(world):
            with pytest.raises(InfeasibleError):
                Planner(space).plan(world.task, world.start)
            return
        plan = Planner(space).plan(world.task, world.start)
        # The validator sums the metres along the path and compares them with the cost.
        validate(plan.to_dict(), world.task, world.grid_map, world.config, world.start,
                 world.annotations)
        assert math.isfinite(plan.value)
        assert plan == Planner(space).plan(world.task, world.start)
        if plan.options:
            assert plan.optimal is False and plan.value > 0

    check()


def solved(world, space):
    """Return legs, policy and node numbers of a world, None if it is infeasible."""
    task = world.task
    if task.formula.holds(task.initial_bits):
        return None
    planner = Planner(space)
    legs = OptionLegs(planner.library, ground(task, space, world.start), range(len(task.goals)))
    try:
        run = solve_on_legs(task, legs.legs, legs.site_nodes(), world.config, completion_cost=0.0)
    except InfeasibleError:
        return None
    return legs, run.policy, run.nodes


@settings(max_examples=80, deadline=None)
@given(SEEDS, SOFT)
def test_most_probable_option_and_move(seed, temperature):
    world, space = soft_world(seed, temperature, 'action')
    found = solved(world, space)
    if found is None:
        return
    legs, policy, nodes = found
    state, node, origin = 0, None, None
    for jump in policy.rollout():
        mu = policy.mu(state, node)
        probabilities = [probability for _, probability in mu]
        assert math.isclose(sum(probabilities), 1, rel_tol=1e-12)
        chosen = next(probability for other, probability in mu if other == jump)
        assert chosen >= max(probabilities) * (1 - 1e-6)
        state, node = jump.state, jump.node
        option = legs.option_to(int(nodes[node]))
        path, _ = legs.way(origin, int(nodes[node]), jump.flips)
        origin = int(nodes[node])
        for here, there in pairwise(path.tolist()):
            moves = option.move_probabilities(here)[:option.grid.offsets.size]
            taken = option.grid.offsets.tolist().index(there - here)
            assert moves[taken] >= moves.max() * (1 - 1e-6)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from((1e-6, 1e-3, *TEMPERATURES)), st.sampled_from(['action', 'contact']))
def test_value_lies_between_its_plan_and_the_shortest_one(seed, temperature, trigger):
    """In metres, c* <= cost <= r T v <= c* + r T (sum_i (m_i + 1) log n + K log N).

    Along the most probable choices exp(-q) z never falls, so that their costs sum to at most v;
    the plan of cost c* with K options of m_i steps is one of the sequences in z, with
    probability n^-(m_i + 1) for each option and 1/N for each choice of one.
    """
    world, space = soft_world(seed, temperature, trigger)
    if not feasible_at_zero(world):
        return
    exact = dataclasses.replace(world.config, temperature=0.0)
    hard = Planner(BaseSpace(world.grid_map, exact, world.annotations)).plan(
        world.task, world.start)
    soft = Planner(space).plan(world.task, world.start)
    unit = space.resolution * temperature
    rounding = 1e-8 * (1 + soft.cost)
    assert hard.cost <= soft.cost + rounding
    assert soft.cost <= unit * soft.value + rounding
    if trigger == 'action':
        n_nodes = len(world.task.goals) * int(space.free.sum())
        choices = (sum(len(option.path) for option in hard.options)
                   * math.log(world.config.connectivity + 2)
                   + len(hard.options) * math.log(n_nodes))
        assert unit * soft.value <= hard.cost + unit * choices + rounding


def test_paths_join_and_points_are_plain_numbers():
    space = drawn(ROOM, resolution=0.5)
    task = task_of(('a', 'a', (2.75, 0.25)), ('b', 'b', (2.75, 2.25)), constraints=['a before b'])
    plan = Planner(space).plan(task, (0.3, 0.4))
    first, second = plan.options
    assert [option.site for option in plan.options] == ['a', 'b']
    assert first.path[0] == (0.25, 0.25) and first.path[-1] == second.path[0] == (2.75, 0.25)
    assert second.position == second.path[-1] == plan.waypoints[1] == (2.75, 2.25)
    assert (first.cost, second.cost, plan.cost) == (2.5, 2.0, 4.5)
    assert first.task_state == {'a': True, 'b': False}
    assert second.task_state == {'a': True, 'b': True}
    assert all(type(number) is float for point in first.path for number in point)


def test_option_cost_is_part_of_each_option():
    task = task_of(('a', 'a', (5.5, 0.5)))
    plan = Planner(drawn(ROOM, option_cost=0.75)).plan(task, (0.5, 0.5))
    assert plan.cost == plan.options[0].cost == 5.75


def test_start_on_the_site():
    task = task_of(('a', 'a', (0.5, 0.5)))
    plan = Planner(drawn(ROOM)).plan(task, (0.5, 0.5))
    assert plan.cost == 0 and plan.options[0].path == ((0.5, 0.5),)


def test_region_is_completed_where_it_is_entered():
    task = task_of(('a', 'a', SQUARE))
    plan = Planner(drawn(ROOM)).plan(task, (0.5, 2.5))
    assert plan.cost == 1 and plan.options[0].position == (1.5, 2.5)


def test_contact_joins_the_jumps_over_a_done_site():
    """The door closes the corridor: first touched, then driven over on the way to the end."""
    task = task_of(('door', 'door', (2.5, 0.5)), ('end', 'end', (4.5, 0.5)), trigger='contact')
    plan = Planner(drawn('.....')).plan(task, (0.5, 0.5))
    assert [option.site for option in plan.options] == ['door', 'end']
    back = task_of(('door', 'door', (2.5, 0.5)), ('end', 'end', (4.5, 0.5)),
                   ('home', 'home', (0.5, 0.5)), trigger='contact',
                   constraints=['end before home'])
    plan = Planner(drawn('.....')).plan(back, (1.5, 0.5))
    assert [option.site for option in plan.options] == ['door', 'end', 'home']
    last = plan.options[-1]
    assert last.path == tuple((x + 0.5, 0.5) for x in (4, 3, 2, 1, 0)) and last.cost == 4


@pytest.mark.parametrize('temperature', [0.0, 1.0])
def test_guide_leads_from_anywhere(temperature):
    task = task_of(('a', 'a', (5.5, 0.5)))
    space = drawn('...... .##### ......', temperature=temperature)
    guide = Planner(space).plan(task, (0.5, 0.5)).options[0].guide
    assert guide.metres_to_go((2.5, 0.5)) == 3.0
    assert guide.path_from((3.7, 0.2)) == ((3.5, 0.5), (4.5, 0.5), (5.5, 0.5))
    assert guide.metres_to_go((5.5, 2.5)) == 12.0
    assert type(guide.metres_to_go((2.5, 0.5))) is float
    for nowhere in ((9.5, 0.5), (3.5, 1.5), (math.nan, 0.5)):
        assert guide.metres_to_go(nowhere) == math.inf and guide.path_from(nowhere) == ()


def test_guide_without_a_way():
    task = task_of(('a', 'a', (0.5, 0.5)))
    guide = Planner(drawn('.#.')).plan(task, (0.5, 0.5)).options[0].guide
    assert guide.metres_to_go((2.5, 0.5)) == math.inf and guide.path_from((2.5, 0.5)) == ()


def test_guide_leaves_blocked_cells_within_the_tolerance():
    space = drawn('#.. ...')
    task = task_of(('a', 'a', (2.5, 0.5)))
    planner = Planner(space)
    legs = OptionLegs(planner.library, ground(task, space, (0.5, 0.5)), [0])
    run = solve_on_legs(task, legs.legs, legs.site_nodes(), space.config, completion_cost=0.0)
    options = plan_options(run.way, legs, 0.0, 1.0)
    assert options[0].guide.path_from((0.5, 1.5))[0] == (0.5, 0.5)
    strict = plan_options(run.way, legs, 0.0, 0.0)
    assert strict[0].guide.path_from((0.5, 1.5)) == ()
