"""Why a task cannot be done: an irreducible conflict of formula, constraints, features and sites.

Relaxing an element means: formula -> true, constraint -> dropped, feature -> carried somewhere
reachable, site -> reachable. An irreducible conflict still is one with everything else relaxed,
and no longer is when any one of its elements is relaxed too. It is found by QuickXplain (Junker
2004), which asks about k log(n/k) times whether a relaxed task can be done.
"""

from collections.abc import Callable, Sequence
import dataclasses
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.dnf import Clause, clauses
from gk_planner.errors import InfeasibleError, LimitError
from gk_planner.goal_kernel import build_goal_kernel, Legs
from gk_planner.task_policy import solve_task_policy
from gk_planner.task_states import reachable_states, relevant_goals

# How many clauses of the formula are tried one by one before the states are searched instead.
_MAX_CLAUSES = 2000


@dataclass(frozen=True)
class Element:
    """Something that can be relaxed: ``index`` is a site, a goal (feature) or a constraint."""

    kind: str
    index: int


def explain_infeasible(task: Task, legs: Legs, site_nodes: Sequence[NDArray[np.int64]],
                       config: Config) -> InfeasibleError:
    """Return the error that names an irreducible conflict of an infeasible task."""
    elements = _elements(task, legs, site_nodes)

    def conflicts(kept: list[Element]) -> bool:
        return not _can_be_done(task, legs, site_nodes, set(elements) - set(kept), config)

    core = [] if conflicts([]) else _quick_xplain(conflicts, [], [], elements)
    reasons = [_reason(task, element, site_nodes) for element in core
               if element.kind != 'constraint']
    rules = [task.constraints[element.index].text for element in core
             if element.kind == 'constraint']
    if rules:
        reasons.append(('the constraint ' if len(rules) == 1 else 'the constraints ')
                       + ', '.join(f"'{rule}'" for rule in rules)
                       + (' forbids it' if len(rules) == 1 else ' block each other'
                          + _cycle_text(task, core)))
    formula = f"the formula '{_shortened(task.formula.text)}' "
    text = formula + ('can never hold' if not core else 'cannot be made true: '
                      + '; '.join(reasons))
    named = [{'kind': 'formula', 'name': task.formula.text}]
    named += [{'kind': element.kind, 'name': _name(task, element)} for element in core]
    return InfeasibleError(f'{task.source}: {text}', named)


def is_provably_infeasible(task: Task, legs: Legs) -> bool:
    """Return True if no order of completions can do it, decided clause by clause without search.

    False means feasible or not decided: reversible bits, trigger contact, places that are not
    mutually reachable, or too many clauses.
    """
    try:
        return _can_by_clauses(task, legs) is False
    except LimitError:
        return False


def _elements(task: Task, legs: Legs, site_nodes: Sequence[NDArray[np.int64]]) -> list[Element]:
    fixed = task.done - task.reversible
    found = []
    for goal in range(len(task.goals)):
        if goal not in fixed and not task.goal_sites(goal):
            found.append(Element('feature', goal))
    for site, goal in enumerate(task.site_goals):
        nodes = site_nodes[site]
        if goal not in fixed and not (
                nodes.size and np.isfinite(legs.entry[nodes]).all()
                and np.isfinite(legs.flip[:, nodes]).all()):
            found.append(Element('site', site))
    inherited = {rule.source for rule in task.bit_constraints}
    found += [Element('constraint', index) for index in sorted(inherited)]
    return found


def _quick_xplain(conflicts: Callable[[list[Element]], bool], kept: list[Element],
                  added: list[Element], candidates: list[Element]) -> list[Element]:
    if added and conflicts(kept):
        return []
    if len(candidates) <= 1:
        return candidates
    half = len(candidates) // 2
    first, second = candidates[:half], candidates[half:]
    core_second = _quick_xplain(conflicts, kept + first, first, second)
    core_first = _quick_xplain(conflicts, kept + core_second, core_second, first)
    return core_first + core_second


def _can_be_done(task: Task, legs: Legs, site_nodes: Sequence[NDArray[np.int64]],
                 relaxed: set[Element], config: Config) -> bool:
    rules = tuple(rule for index, rule in enumerate(task.constraints)
                  if Element('constraint', index) not in relaxed)
    task = dataclasses.replace(task, constraints=rules)
    legs = _relaxed_legs(task, legs, site_nodes, relaxed)
    reachable = legs.reachable()
    legs = legs.restricted(np.flatnonzero(reachable))
    quick = _can_by_clauses(task, legs)
    if quick is not None:
        return quick
    possible = np.unique(legs.node_goal).tolist()
    goals = tuple(possible) if legs.passes_done else relevant_goals(
        task, possible, drop_harmful=True)
    legs = legs.restricted(np.flatnonzero(np.isin(legs.node_goal, goals)))
    states = reachable_states(task, goals, config.max_task_states)
    policy = solve_task_policy(states, legs, build_goal_kernel(states, legs),
                               completion_cost=0.0, soft=False, max_sweeps=config.max_iterations)
    return bool(np.isfinite(policy.value()))


def _relaxed_legs(task: Task, legs: Legs, site_nodes: Sequence[NDArray[np.int64]],
                  relaxed: set[Element]) -> Legs:
    """Legs of cost 0 or inf in which the relaxed places are joined with the start's place."""
    extra = [element.index if element.kind == 'feature' else task.site_goals[element.index]
             for element in relaxed if element.kind == 'feature'
             or (element.kind == 'site' and not site_nodes[element.index].size)]
    n_nodes = len(legs.node_goal)
    joined = [site_nodes[element.index] for element in relaxed if element.kind == 'site']
    places = np.unique(np.concatenate([np.arange(n_nodes, n_nodes + len(extra)), *joined]))
    places = places.astype(np.int64)
    goal = np.append(legs.node_goal, extra).astype(np.int64)
    entry = np.pad(np.isfinite(legs.entry), (0, len(extra)))
    entry[places] = True
    tables = []
    for table in (legs.flip, legs.through):
        free = np.pad(np.isfinite(table), (0, len(extra)))
        free[:, places] = True
        free[places] |= entry
        tables.append(free)
    order = np.argsort(goal, kind='stable')
    flip, through = (np.where(free, 0.0, np.inf)[np.ix_(order, order)] for free in tables)
    return Legs(goal[order], flip, through, np.where(entry, 0.0, np.inf)[order],
                legs.passes_done)


def _can_by_clauses(task: Task, legs: Legs) -> bool | None:
    """Decide feasibility clause by clause; None where this does not apply.

    Without reversible bits and with all places mutually reachable, a clause can be made true if
    and only if the goals it needs, closed under what must come before them, avoid those it
    forbids and have an order.
    """
    reachable = legs.reachable()
    if (legs.passes_done or task.reversible or not np.isfinite(legs.entry[reachable]).all()
            or not np.isfinite(legs.flip[np.ix_(reachable, reachable)]).all()):
        return None
    possible = set(np.unique(legs.node_goal[reachable]).tolist()) - task.done
    fixed = {goal: goal in task.done for goal in range(len(task.goals)) if goal not in possible}
    count = 0
    for clause in islice(clauses(task.formula, fixed), _MAX_CLAUSES):
        count += 1
        if _clause_order(task, clause, possible) is not None:
            return True
    return None if count == _MAX_CLAUSES else False


def _clause_order(task: Task, clause: Clause, possible: set[int]) -> list[int] | None:
    """Return an order of completions that makes a clause true, None if there is none."""
    done = task.done
    needed = set(clause.true - done)
    fresh = set(needed)
    while fresh:
        before = {rule.condition for rule in task.bit_constraints
                  if rule.control in fresh and not rule.control_value
                  and not rule.condition_value and rule.condition not in done}
        fresh = before - needed
        needed |= before
    if needed & clause.false or not needed <= possible:
        return None
    follows: dict[int, set[int]] = {goal: set() for goal in needed}
    for rule in task.bit_constraints:
        if rule.control not in needed or rule.control_value:
            continue
        if not rule.condition_value:
            if rule.condition not in done:
                follows[rule.control].add(rule.condition)
        elif rule.condition in done:
            return None
        elif rule.condition in needed:
            follows[rule.condition].add(rule.control)
    try:
        return list(TopologicalSorter(follows).static_order())
    except CycleError:
        return None


def _reason(task: Task, element: Element, site_nodes: Sequence[NDArray[np.int64]]) -> str:
    if element.kind == 'feature':
        return f"no site carries '{_name(task, element)}'"
    site = task.sites[element.index]
    goal = task.goals[task.site_goals[element.index]].name
    how = 'cannot be reached' if site_nodes[element.index].size else 'is in a blocked cell'
    return f"site '{site.name}' (goal {goal}) {how}"


def _name(task: Task, element: Element) -> str:
    if element.kind == 'site':
        return task.sites[element.index].name
    if element.kind == 'constraint':
        return task.constraints[element.index].text
    return '.'.join(sorted(task.goals[element.index].features))


def _cycle_text(task: Task, core: list[Element]) -> str:
    """Return the precedence cycle among the constraints of a conflict, if there is one."""
    sources = {element.index for element in core if element.kind == 'constraint'}
    follows: dict[int, set[int]] = {}
    for rule in task.bit_constraints:
        if rule.source in sources and not rule.control_value and not rule.condition_value:
            follows.setdefault(rule.control, set()).add(rule.condition)
    try:
        TopologicalSorter(follows).prepare()
    except CycleError as cycle:
        return ' (' + ' before '.join(task.goal_names[goal] for goal in cycle.args[1]) + ')'
    return ''


def _shortened(text: str) -> str:
    text = ' '.join(text.split())
    return text if len(text) <= 120 else text[:117] + '...'
