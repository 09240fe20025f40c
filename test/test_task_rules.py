"""The rules as masks and a program, against the constraints and the formula themselves."""

import itertools

from hypothesis import given, settings
import hypothesis.strategies as st
import numpy as np
import pytest
from random_tasks import random_task

from gk_planner.boolean_task import Task
from gk_planner.full_task_mdp import flip_allowed
from gk_planner.task_rules import ODD, task_rules

seeds = st.integers(0, 2**32 - 1)


def value_of(rules, state):
    """Run the program in plain Python on a state given as a number."""
    stack = []
    for (n_operands, low, high), (ones, zeros) in zip(
            rules.steps.tolist(), rules.literals[:, :, 0].tolist(), strict=True):
        n_true = (state & ones).bit_count() + (~state & zeros).bit_count()
        n_true += sum(stack.pop() for _ in range(n_operands))
        stack.append((n_true + low) % 2 if high == ODD else low <= n_true <= high)
    (value,) = stack
    return bool(value)


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_program_and_masks_mean_formula_and_constraints(seed):
    rng = np.random.default_rng(seed)
    task = random_task(rng, max_goals=6)
    goals = tuple(goal for goal in range(len(task.goals)) if rng.random() < 0.7)
    rules = task_rules(task, goals)
    for values in itertools.product((0, 1), repeat=len(goals)):
        bits = [int(bit) for bit in task.initial_bits]
        for goal, value in zip(goals, values, strict=True):
            bits[goal] = value
        state = sum(value << bit for bit, value in enumerate(values))
        assert value_of(rules, state) == task.formula.holds(bits)
        for bit, goal in enumerate(goals):
            ones, zeros = (int(mask[values[bit], bit, 0]) for mask in (rules.ones, rules.zeros))
            allowed = (rules.possible[values[bit], bit] and state & ones == ones
                       and not state & zeros)
            assert bool(allowed) == flip_allowed(task, tuple(bits), goal)


@pytest.mark.parametrize('formula', [
    'a & a', 'a | a', 'a ^ a', 'a ^ a ^ a', 'a & !a', '!(a & a & b)', 'a <-> a', 'true', 'false',
    '!true', 'true & a', 'false ^ a', '!!a', '!(!a)', 'exactly(2, all_of) ^ a', 'c & d | a',
    'd -> a', 'atmost(0, all_of)', '(a | b) & (a | b)'])
def test_formulas_that_name_a_goal_more_than_once_or_none(formula):
    task = Task.from_dict({
        'sites': [{'name': n, 'features': [n, 'all_of']} for n in 'abcd'],
        'goals': {n: [n, 'all_of'] for n in 'abcd'}, 'done': ['d'], 'formula': formula})
    rules = task_rules(task, (0, 1))
    for state in range(4):
        bits = [bool(state & 1), bool(state & 2), False, True]
        assert value_of(rules, state) == task.formula.holds(bits)


def test_rules_are_worked_out_once():
    task = Task.from_dict({'sites': [{'name': n, 'features': [n]} for n in 'ab']})
    assert task_rules(task, (0, 1)) is task_rules(task, (0, 1))
    assert task_rules(task, (0,)) is not task_rules(task, (0, 1))
