"""Property tests: plans cost what the full product space says, and every plan is valid."""

from hypothesis import given, settings
import hypothesis.strategies as st
import numpy as np
from plan_validator import validate
import pytest
from random_worlds import random_world

from gk_planner import BaseSpace, Planner
from gk_planner.errors import InfeasibleError
from gk_planner.full_task_mdp import solve_full_task_mdp


def check_against_product_space(world):
    task = world.task
    exact = solve_full_task_mdp(task, world.grid_map, world.config, world.start,
                                world.annotations)
    planner = Planner(BaseSpace(world.grid_map, world.config, world.annotations))
    if exact is None:
        with pytest.raises(InfeasibleError):
            planner.plan(task, world.start)
        return
    plan = planner.plan(task, world.start).to_dict()
    validate(plan, task, world.grid_map, world.config, world.start, world.annotations)
    assert plan['optimal']
    np.testing.assert_allclose(plan['cost'], exact.cost, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize('trigger', ['action', 'contact'])
@pytest.mark.parametrize('reversible', [False, True])
@pytest.mark.parametrize('annotated', [False, True])
def test_plans_are_optimal_and_valid(trigger, reversible, annotated):
    @settings(max_examples=300, deadline=None)
    @given(st.integers(0, 2**32 - 1))
    def check(seed):
        check_against_product_space(random_world(
            seed, trigger=trigger, reversible=reversible, annotated=annotated))

    check()
