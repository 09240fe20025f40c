"""Conflicts are irreducible, judged by a naive search that relaxes elements literally."""

import itertools
import math
import time

from hypothesis import given, settings
import hypothesis.strategies as st
import numpy as np
import pytest
from random_tasks import cheapest, random_costs, random_task
from test_full_task_mdp import draw

from gk_planner import BaseSpace, Planner, solve_task, Task
from gk_planner.annotations import Annotations
from gk_planner.config import Config
from gk_planner.conflicts import explain_infeasible
from gk_planner.errors import CanceledError, InfeasibleError
from gk_planner.task_solver import legs_of_sites

INF = math.inf


def may_flip(task, constraints, bits, goal):
    """Whether a goal's bit may flip under these constraints, read on features."""
    if bits[goal] and goal not in task.reversible:
        return False
    return not any(
        rule.control_feature in task.goals[goal].features and bits[goal] == rule.control_value
        and any(other != goal and rule.condition_feature in task.goals[other].features
                and bits[other] == rule.condition_value for other in range(len(bits)))
        for rule in constraints)


def can_be_done(task, site_costs, start_costs, relaxed):
    """Search all (bits, place); from where a relaxed site is out of reach, it is at hand."""
    constraints = [rule for index, rule in enumerate(task.constraints)
                   if ('constraint', index) not in relaxed]
    first = (tuple(goal in task.done for goal in range(len(task.goals))), None)
    pending, seen = [first], {first}
    for bits, place in pending:
        if task.formula.holds(bits):
            return True
        legs = start_costs if place is None else site_costs[place]
        for goal in range(len(bits)):
            at_hand = ('feature', goal) in relaxed or any(
                ('site', site) in relaxed and math.isinf(legs[site])
                for site in task.goal_sites(goal))
            there = [place] * at_hand
            there += [site for site in task.goal_sites(goal) if math.isfinite(legs[site])]
            if may_flip(task, constraints, bits, goal):
                after = (*bits[:goal], not bits[goal], *bits[goal + 1:])
            elif task.trigger == 'contact' and bits[goal] and goal not in task.reversible:
                after = bits
            else:
                continue
            fresh = {(after, site) for site in there} - seen
            seen |= fresh
            pending += fresh
    return False


def elements(task):
    """Everything but the formula that can be relaxed, as (kind, index)."""
    for_good = task.done - task.reversible
    return ([('constraint', index) for index in range(len(task.constraints))]
            + [('feature', goal) for goal in range(len(task.goals)) if not task.goal_sites(goal)]
            + [('site', site) for site, goal in enumerate(task.site_goals)
               if goal not in for_good])


def named(task, element):
    kind, index = element
    name = {'constraint': lambda: task.constraints[index].text,
            'site': lambda: task.sites[index].name,
            'feature': lambda: '.'.join(sorted(task.goals[index].features))}[kind]()
    return {'kind': kind, 'name': name}


def check_irreducible(task, site_costs, start_costs, conflicts):
    assert conflicts[0] == {'kind': 'formula', 'name': task.formula.text}
    everything = elements(task)
    left = list(everything)
    core = []
    for item in conflicts[1:]:
        core.append(next(element for element in left if named(task, element) == item))
        left.remove(core[-1])
    relaxed = set(everything) - set(core)
    assert not can_be_done(task, site_costs, start_costs, relaxed), 'still a conflict'
    for element in core:
        assert can_be_done(task, site_costs, start_costs, relaxed | {element}), element


@pytest.mark.parametrize('trigger', ['action', 'contact'])
@pytest.mark.parametrize('reversible', [False, True])
def test_random_conflicts_are_irreducible(trigger, reversible):
    @settings(max_examples=250, deadline=None)
    @given(st.integers(0, 2**32 - 1), st.booleans())
    def check(seed, metric):
        rng = np.random.default_rng(seed)
        task = random_task(rng, trigger=trigger, reversible=reversible, max_goals=4)
        site_costs, start_costs = random_costs(rng, len(task.sites), metric=metric)
        site_costs[rng.random(site_costs.shape) < 0.3] = INF
        if math.isfinite(cheapest(task, site_costs, start_costs)[0]):
            assert can_be_done(task, site_costs, start_costs, set())
            solve_task(task, site_costs, start_costs)
            return
        with pytest.raises(InfeasibleError) as caught:
            solve_task(task, site_costs, start_costs)
        check_irreducible(task, site_costs, start_costs, caught.value.conflicts)

    check()


def infeasible(drawing, features=None, annotations=None, goals=None, **fields):
    """Plan on a picture and return the JSON object of the infeasible task."""
    if goals:
        fields['goals'] = goals
    grid_map, task, start = draw(drawing, features, **fields)
    planner = Planner(BaseSpace(grid_map, Config(connectivity=4), annotations))
    with pytest.raises(InfeasibleError) as caught:
        planner.plan(task, start)
    assert caught.value.exit_status == 3
    answer = caught.value.to_dict()
    assert answer['status'] == 'infeasible'
    assert answer['conflicts'][0] == {'kind': 'formula', 'name': task.formula.text}
    return answer['reason'], [(item['kind'], item['name']) for item in answer['conflicts'][1:]]


@pytest.mark.parametrize('formula', ['a & !a', 'false', '(a | b) & !(b | a)', 'a ^ a'])
def test_contradictory_formula(formula):
    assert infeasible('Sab', formula=formula) == (
        f"task: the formula '{formula}' can never hold", [])


def test_count_beyond_the_goals_there_are():
    reds = {mark: ['red', mark] for mark in 'abc'}
    assert infeasible('Sabc', reds, formula='atleast(5, red)') == (
        "task: the formula 'atleast(5, red)' can never hold", [])


def test_done_for_good():
    assert infeasible('Sab', formula='!a & b', done=['a']) == (
        "task: the formula '!a & b' can no longer hold: 'a' is done and not reversible", [])


def test_precedence_cycle():
    reason, core = infeasible('Sabc', constraints=[
        'a before b', 'b before c', 'c before a', 'c forbids b'])
    assert core == [('constraint', text)
                    for text in ('a before b', 'b before c', 'c before a')]
    assert reason.startswith(
        "task: the formula 'a & b & c' cannot be made true: the constraints 'a before b', "
        "'b before c', 'c before a' form a cycle (")
    assert any(f'({" before ".join(cycle)})' in reason for cycle in
               [('a', 'b', 'c', 'a'), ('b', 'c', 'a', 'b'), ('c', 'a', 'b', 'c')])


def test_the_same_order_written_twice():
    reason, core = infeasible('Sab', constraints=[
        'a before b', 'c(b^0, a^0)', 'b before a', 'c(a^0, b^0)'])
    assert len(core) == 2
    assert {text for _, text in core} & {'a before b', 'c(b^0, a^0)'}
    assert {text for _, text in core} & {'b before a', 'c(a^0, b^0)'}
    assert 'form a cycle (' in reason


def test_constraints_that_are_no_cycle():
    reason, core = infeasible('Sab', constraints=['a before b', 'a forbids b'])
    assert core == [('constraint', 'a before b'), ('constraint', 'a forbids b')]
    assert reason == ("task: the formula 'a & b' cannot be made true: the constraints "
                      "'a before b', 'a forbids b' rule it out together")


def test_one_constraint_against_what_is_done():
    assert infeasible('Sab', constraints=['a forbids b'], done=['a']) == (
        "task: the formula 'a & b' cannot be made true: "
        "the constraint 'a forbids b' rules it out", [('constraint', 'a forbids b')])


def test_goal_that_no_site_carries():
    assert infeasible('Sa', goals={'stamp': ['stamp', 'blue']}, formula='a & stamp') == (
        "task: the formula 'a & stamp' cannot be made true: no site carries 'blue.stamp'",
        [('feature', 'blue.stamp')])


def test_a_needed_predecessor_that_no_site_carries():
    assert infeasible('Sa', goals={'key': ['key']}, constraints=['key before a'],
                      formula='a') == (
        "task: the formula 'a' cannot be made true: no site carries 'key', "
        "and the constraint 'key before a' rules out any other way",
        [('feature', 'key'), ('constraint', 'key before a')])


def test_unreachable_site():
    assert infeasible('S.b#a') == (
        "task: the formula 'b & a' cannot be made true: site 'a' (goal a) cannot be reached",
        [('site', 'a')])


def plan_with_wall_on(column, drawing, **fields):
    """Plan on a picture of one line after a wall has been put on a column."""
    grid_map, task, start = draw(drawing, **fields)
    blocked = grid_map.data.copy()
    blocked[0, column] = 100
    return Planner(BaseSpace(type(grid_map)(blocked, 1.0, grid_map.origin))).plan(task, start)


def test_occupied_site():
    with pytest.raises(InfeasibleError) as caught:
        plan_with_wall_on(2, 'S.b..')
    assert caught.value.message == ("task: the formula 'b' cannot be made true: "
                                    "site 'b' (goal b) stands in a blocked or walled-in cell")
    assert caught.value.conflicts[1:] == [{'kind': 'site', 'name': 'b'}]


def test_both_alternatives_out_of_reach():
    reason, core = infeasible('a.#Sb#.a')
    assert core == [('site', 'a'), ('site', 'a2')]
    assert reason.endswith("site 'a' (goal a) cannot be reached; "
                           "site 'a2' (goal a) cannot be reached")


def test_many_alternatives_are_told_in_short():
    reason, core = infeasible('a.a.a.a.a.a.#Sb')
    assert len(core) == 6
    assert reason.endswith("site 'a3' (goal a) cannot be reached; 3 more such reasons")


def test_what_a_blocked_goal_waits_for_is_not_blamed():
    # b stands in a wall; c, which b waits for, is at hand.
    with pytest.raises(InfeasibleError) as caught:
        plan_with_wall_on(3, 'Scab', constraints=['c before b', 'b before a'], formula='a')
    assert caught.value.conflicts[1:] == [{'kind': 'site', 'name': 'b'},
                                          {'kind': 'constraint', 'name': 'b before a'}]


def test_one_way_cliff():
    # The line runs upwards between columns 2 and 3, from left to right only.
    cliff = Annotations.from_dict({'one_way': [[[3.0, -1.0], [3.0, 2.0]]]})
    reason, core = infeasible('Sb.a.', annotations=cliff, constraints=['a before b'])
    assert core == [('site', 'b'), ('constraint', 'a before b')]
    assert reason == (
        "task: the formula 'b & a' cannot be made true: site 'b' (goal b) cannot be reached "
        "from site 'a', and the constraint 'a before b' rules out any other way")


def test_sites_of_two_levels_do_not_blame_each_other():
    cliffs = Annotations.from_dict({'one_way': [[[2.0, -1.0], [2.0, 2.0]],
                                                [[4.0, -1.0], [4.0, 2.0]]]})
    _, core = infeasible('Sb.m.a', annotations=cliffs, constraints=['m before b'])
    assert core == [('site', 'b'), ('constraint', 'm before b')]


def test_contact_names_the_site_in_the_way():
    reason, core = infeasible('Sab', constraints=['b before a'], trigger='contact')
    assert core == [('site', 'b'), ('constraint', 'b before a')]
    assert "site 'b' (goal b) cannot be reached from the start" in reason
    assert 'without touching another site' in reason


def test_reversible_bits():
    reason, core = infeasible('Sab', constraints=['c(a^1, b^0)', 'a forbids b'], done=['a'],
                              reversible=['a'], formula='!a & b')
    assert core == [('constraint', 'c(a^1, b^0)'), ('constraint', 'a forbids b')]
    assert reason.endswith("'c(a^1, b^0)', 'a forbids b' rule it out together")


def test_long_formulas_are_shortened_in_the_sentence_only():
    names = [f'g{i}' for i in range(40)]
    task = Task.from_dict({'sites': [{'name': n, 'features': [n]} for n in names],
                           'formula': ' & '.join(names) + '\n & !g0'})
    with pytest.raises(InfeasibleError) as caught:
        solve_task(task, np.ones((40, 40)), np.ones(40))
    assert '\n' not in caught.value.message
    assert len(caught.value.message) < 200
    assert caught.value.conflicts == [{'kind': 'formula', 'name': task.formula.text}]


def hundred(**fields):
    return Task.from_dict({'sites': [{'name': f's{i}', 'features': [f'g{i}']}
                                     for i in range(100)], **fields})


def test_hundred_free_goals_with_one_out_of_reach_are_infeasible_at_once():
    costs, start_costs = np.ones((100, 100)), np.ones(100)
    costs[:, 42] = start_costs[42] = INF
    began = time.perf_counter()
    with pytest.raises(InfeasibleError) as caught:
        solve_task(hundred(), costs, start_costs)
    assert time.perf_counter() - began < 20
    assert caught.value.conflicts[1:] == [{'kind': 'site', 'name': 's42'}]
    assert caught.value.message.endswith("site 's42' (goal g42) cannot be reached")


@pytest.mark.parametrize('trigger', ['action', 'contact'])
def test_hundred_goals_in_a_cycle(trigger):
    constraints = [f'g{i} before g{(i + 1) % 100}' for i in range(100)]
    with pytest.raises(InfeasibleError) as caught:
        solve_task(hundred(constraints=constraints, trigger=trigger), np.ones((100, 100)),
                   np.ones(100))
    assert len(caught.value.conflicts) == 101


def test_a_limit_met_while_explaining_does_not_hide_that_there_is_no_plan():
    # Nothing can begin before x, which is out of reach; with it, 30 goals would be free, and a
    # cliff keeps their order from being decided without search.
    names = ['x', 'key', *(f'b{i}' for i in range(30))]
    task = Task.from_dict({
        'sites': [{'name': n, 'features': [n, n[0] * 2]} for n in names],
        'constraints': ['x before key', 'key before bb']})
    costs, start_costs = np.ones((32, 32)), np.ones(32)
    costs[:, 0] = start_costs[0] = costs[2, 3:] = INF
    with pytest.raises(InfeasibleError) as caught:
        solve_task(task, costs, start_costs, Config(task_memory=1))
    assert caught.value.conflicts[1:] == [{'kind': 'site', 'name': 'x'}]


def test_every_reason_is_one_sentence_that_names_its_elements():
    worlds = itertools.product(['S.b#a', 'Sab', 'Sa#b'],
                               [['a before b', 'b before a'], ['a forbids b', 'b forbids a'], []])
    for drawing, constraints in worlds:
        if drawing == 'Sab' and not constraints:
            continue
        reason, core = infeasible(drawing, constraints=constraints)
        assert '\n' not in reason
        assert not reason.endswith('.')
        for _, name in core:
            assert f"'{name}'" in reason


def two_chains(n_goals, **fields):
    return Task.from_dict({
        'sites': [{'name': f's{goal}', 'features': [f'g{goal}']} for goal in range(n_goals)],
        'constraints': [f'g{goal} before g{goal + 2}' for goal in range(n_goals - 2)], **fields})


def test_a_site_out_of_reach_among_many_goals_of_which_one_is_reversible():
    # Without the constraints, 2^40 states could be reached.
    task, ways, entry = two_chains(40, reversible=['g0']), np.ones((40, 40)), np.ones(40)
    assert solve_task(task, ways, entry).cost == 40
    ways[:, 39] = entry[39] = INF
    with pytest.raises(InfeasibleError) as caught:
        solve_task(task, ways, entry)
    assert [entry['name'] for entry in caught.value.conflicts[1:]] == ['s39']


def test_a_million_states_of_a_counting_formula_do_not_blur_the_conflict():
    task = Task.from_dict({
        'sites': [*({'name': f's{i}', 'features': ['red', f'f{i}']} for i in range(20)),
                  {'name': 'lost', 'features': ['lost']}],
        'constraints': ['lost before f3', 'f3 forbids f4', 'f5 before f6'],
        'formula': '(exactly(5, red) | exactly(7, red)) & red.f3'})
    site_costs, start_costs = np.ones((21, 21)), np.ones(21)
    site_costs[:, 20] = start_costs[20] = INF
    with pytest.raises(InfeasibleError) as caught:
        solve_task(task, site_costs, start_costs)
    assert [part['name'] for part in caught.value.conflicts[1:]] == ['lost', 'lost before f3']


def test_explaining_can_be_stopped():
    task, ways, entry = two_chains(8), np.ones((8, 8)), np.ones(8)
    ways[:, 7] = entry[7] = INF
    legs, site_nodes = legs_of_sites(task, ways, entry)

    def stop():
        raise CanceledError('stopped')

    with pytest.raises(CanceledError):
        explain_infeasible(task, legs, site_nodes, Config(), stop)
