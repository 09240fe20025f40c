"""Why a task cannot be done: an irreducible conflict of formula, constraints, features and sites.

Relaxing an element means: formula -> true, constraint -> dropped, feature -> carried somewhere
reachable, site -> reachable. From where a relaxed feature or site was out of reach, its goal can
then be completed on the spot. An irreducible conflict still is one with everything else relaxed,
and no longer is when any one of its elements is relaxed too. It is found by QuickXplain (Junker
2004), which asks about k log(n/k) times whether a relaxed task can be done.
Of several conflicts it tells the one whose elements come first: features, sites, constraints.
"""

from collections.abc import Callable, Sequence
import dataclasses
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import islice

import numpy as np

from gk_planner.boolean_task import Task
from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.config import Config
from gk_planner.constraints import inherit
from gk_planner.dnf import Clause, clauses, is_satisfiable
from gk_planner.errors import InfeasibleError, LimitError
from gk_planner.feasibility import Bools, can_be_accepted
from gk_planner.goal_kernel import IntArray, Legs
from gk_planner.task_states import reachable_states, relevant_goals

# How many clauses of the formula are tried one by one before the states are searched instead.
_MAX_CLAUSES = 2000
# How many reasons, or places, one sentence names.
_MAX_NAMED = 4


@dataclass(frozen=True)
class Element:
    """Something that can be relaxed: ``index`` is a site, a goal (feature) or a constraint."""

    kind: str
    index: int


def explain_infeasible(task: Task, legs: Legs, site_nodes: Sequence[IntArray], config: Config,
                       checkpoint: Checkpoint = proceed) -> InfeasibleError:
    """Return the error that names an irreducible conflict of an infeasible task.

    If the states of a relaxed task do not fit into ``task_memory``, the conflict is still one, but
    may have more elements than it needs.
    """
    reached = _Reach.of(task, legs, site_nodes)
    elements = _elements(task, reached)
    max_bytes = config.task_memory * 1_000_000

    def conflicts(kept: list[Element]) -> bool:
        checkpoint()
        try:
            return not _can_be_done(task, reached, set(elements) - set(kept), max_bytes,
                                    checkpoint)
        except LimitError:
            return False

    core = [] if conflicts([]) else _quick_xplain(conflicts, [], [], elements)
    named = [{'kind': 'formula', 'name': task.formula.text}]
    named += [{'kind': element.kind, 'name': _name(task, element)} for element in core]
    return InfeasibleError(f"{task.source}: the formula '{_shortened(task.formula.text)}' "
                           + _sentence(task, core, legs, site_nodes), named)


def decided_by_clauses(task: Task, legs: Legs) -> bool | None:
    """Return whether some order of completions does the task, decided clause by clause.

    None means not decided: a bit may have to flip back, places are not mutually reachable, or
    there are too many clauses. No task state is listed, so 100 free goals are as quick as 5.
    """
    return _can_by_clauses(task, _Reach.of(task, legs, ()), {})


def _elements(task: Task, reach: '_Reach') -> list[Element]:
    """Return what can be relaxed; to relax a site that is in reach from everywhere is nothing."""
    fixed = task.done - task.reversible
    features = [Element('feature', goal) for goal in range(len(task.goals))
                if goal not in fixed and not task.goal_sites(goal)]
    sites = [Element('site', site) for site, goal in enumerate(task.site_goals)
             if goal not in fixed and reach.out_of_reach[:, site].any()]
    return features + sites + [Element('constraint', index)
                               for index in range(len(task.constraints))]


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


@dataclass(frozen=True, eq=False)
class _Reach:
    """What can be completed from where, over the places that can be reached.

    Places are the nodes that some chain of jumps reaches, and as the last one the start;
    ``flip`` and ``through``[place, node] say whether there is a way, ``out_of_reach``[place, site]
    that there is none to any node of a site.
    """

    place_goal: IntArray
    flip: Bools
    through: Bools
    out_of_reach: Bools
    passes_done: bool

    @classmethod
    def of(cls, task: Task, legs: Legs, site_nodes: Sequence[IntArray]) -> '_Reach':
        nodes = np.flatnonzero(legs.reachable())
        flip, through = (np.isfinite(np.vstack([costs[nodes], legs.entry]))
                         for costs in (legs.flip, legs.through))
        lost = [~flip[:, np.intersect1d(own, nodes)].any(axis=1) for own in site_nodes]
        return cls(np.append(legs.node_goal[nodes], -1), flip[:, nodes], through[:, nodes],
                   np.column_stack([np.empty((len(flip), 0), dtype=bool), *lost]),
                   legs.passes_done)

    def nodes(self, goal: int) -> IntArray:
        return np.flatnonzero(self.place_goal == goal)


def _can_be_done(task: Task, reach: _Reach, relaxed: set[Element], max_bytes: int,
                 checkpoint: Checkpoint) -> bool:
    rules = tuple(rule for index, rule in enumerate(task.constraints)
                  if Element('constraint', index) not in relaxed)
    task = dataclasses.replace(task, constraints=rules)
    on_the_spot: dict[int, Bools] = {}
    for element in relaxed:
        if element.kind == 'feature':
            on_the_spot[element.index] = np.ones(len(reach.place_goal), dtype=bool)
        elif element.kind == 'site':
            goal, lost = task.site_goals[element.index], reach.out_of_reach[:, element.index]
            if lost.any():
                on_the_spot[goal] = on_the_spot.get(goal, False) | lost
    quick = _can_by_clauses(task, reach, on_the_spot)
    if quick is not None:
        return quick
    goals = tuple(sorted({*on_the_spot, *reach.place_goal[:-1].tolist()}))
    if _is_closed(reach):
        goals = relevant_goals(task, goals, drop_harmful=True)
    states = reachable_states(task, goals, max_bytes, checkpoint)
    return can_be_accepted(states, reach.place_goal, reach.flip, reach.through, on_the_spot,
                           passes_done=reach.passes_done, checkpoint=checkpoint)


def _is_closed(reach: _Reach) -> bool:
    """Whether no stop opens a way, so that goals which cannot matter need no visit."""
    ways = reach.flip.astype(np.float32)
    return not reach.passes_done and bool(((ways @ ways[:-1])[~reach.flip] == 0).all())


def _can_by_clauses(task: Task, reach: _Reach, on_the_spot: dict[int, Bools]) -> bool | None:
    """Decide feasibility clause by clause; None where this does not apply.

    A clause can be made true only if the bits that can flip allow it. It can without flipping any
    back if the goals it needs, closed under what must come before them, avoid those it forbids and
    have an order; if every goal can be completed from every place, this suffices.
    """
    possible = frozenset({*on_the_spot, *reach.place_goal[:-1].tolist()}
                         - (task.done - task.reversible))
    fixed = {goal: goal in task.done for goal in range(len(task.goals)) if goal not in possible}
    count, has_order = 0, False
    try:
        for clause in islice(clauses(task.formula, fixed), _MAX_CLAUSES):
            count, has_order = count + 1, _has_order(task, clause, possible)
            if has_order:
                break
    except LimitError:
        return None
    if not has_order:
        return None if count == _MAX_CLAUSES or (count and task.reversible) else False
    is_open = all((reach.flip[:, reach.nodes(goal)].any(axis=1) | (reach.place_goal == goal)
                   | on_the_spot.get(goal, False)).all() for goal in possible)
    return True if is_open else None


def _has_order(task: Task, clause: Clause, possible: frozenset[int]) -> bool:
    """Return whether some order of completions makes a clause true, no bit flipping back."""
    done = task.done
    if clause.false & done:
        return False
    needed = set(clause.true - done)
    fresh = set(needed)
    while fresh:
        before = {rule.condition for rule in task.bit_constraints
                  if rule.control in fresh and not rule.control_value
                  and not rule.condition_value and rule.condition not in done}
        fresh = before - needed
        needed |= before
    if needed & clause.false or not needed <= possible:
        return False
    follows: dict[int, set[int]] = {goal: set() for goal in needed}
    for rule in task.bit_constraints:
        if rule.control not in needed or rule.control_value:
            continue
        if not rule.condition_value:
            if rule.condition not in done:
                follows[rule.control].add(rule.condition)
        elif rule.condition in done:
            return False
        elif rule.condition in needed:
            follows[rule.condition].add(rule.control)
    return not _cycle(follows)


def _cycle(follows: dict[int, set[int]]) -> list[int]:
    """Return a cycle, each goal before the next one, or an empty list."""
    try:
        TopologicalSorter(follows).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _sentence(task: Task, core: list[Element], legs: Legs,
              site_nodes: Sequence[IntArray]) -> str:
    """Say in what follows 'the formula ...' why it cannot be made true."""
    if not core:
        return _formula_reason(task)
    reasons = [f"no site carries '{_name(task, element)}'" for element in core
               if element.kind == 'feature']
    reasons += [_site_reason(task, element.index, legs, site_nodes) for element in core
                if element.kind == 'site']
    told = _joined(reasons, '; ', 'more such reasons')
    rules = [element.index for element in core if element.kind == 'constraint']
    if not rules:
        return f'cannot be made true: {told}'
    names = ', '.join(f"'{task.constraints[index].text}'" for index in rules)
    one = len(rules) == 1
    if reasons:
        rest = f'and the constraint {names} rules' if one else f'and the constraints {names} rule'
        return f'cannot be made true: {told}, {rest} out any other way'
    if one:
        return f'cannot be made true: the constraint {names} rules it out'
    cycle = _precedence_cycle(task, rules)
    return (f'cannot be made true: the constraints {names} '
            + (f'form a cycle ({cycle})' if cycle else 'rule it out together'))


def _formula_reason(task: Task) -> str:
    fixed = sorted(task.formula.support() & (task.done - task.reversible))
    try:
        was_possible = bool(fixed) and is_satisfiable(task.formula)
    except LimitError:
        was_possible = False
    if not was_possible:
        return 'can never hold'
    names = _joined([f"'{task.goal_names[goal]}'" for goal in fixed], ', ', 'more')
    return (f'can no longer hold: {names} '
            + ('is' if len(fixed) == 1 else 'are') + ' done and not reversible')


def _site_reason(task: Task, index: int, legs: Legs, site_nodes: Sequence[IntArray]) -> str:
    goal = task.site_goals[index]
    site = f"site '{task.sites[index].name}' (goal {task.goals[goal].name})"
    reachable = legs.reachable()
    nodes = site_nodes[index]
    if not nodes.size:
        return f'{site} stands in a blocked or walled-in cell'
    if not reachable[nodes].any():
        return f'{site} cannot be reached'
    ways = np.isfinite(np.vstack([legs.flip, legs.entry])[:, nodes[reachable[nodes]]])
    is_stuck = np.asarray(~ways.any(axis=1))
    origins = ['the start'] * bool(is_stuck[-1])
    origins += [f"site '{task.sites[other].name}'" for other, own in enumerate(site_nodes)
                if (is_stuck[own] & reachable[own]).any()
                and (task.site_goals[other] != goal or goal in task.reversible)]
    how = ' without touching another site' if legs.passes_done else ''
    return f'{site} cannot be reached from {_joined(origins, " or ", "other places")}{how}'


def _joined(texts: list[str], separator: str, rest: str) -> str:
    if len(texts) > _MAX_NAMED:
        texts = [*texts[:_MAX_NAMED - 1], f'{len(texts) - _MAX_NAMED + 1} {rest}']
    return separator.join(texts)


def _name(task: Task, element: Element) -> str:
    if element.kind == 'site':
        return task.sites[element.index].name
    if element.kind == 'constraint':
        return task.constraints[element.index].text
    return '.'.join(sorted(task.goals[element.index].features))


def _precedence_cycle(task: Task, rules: list[int]) -> str:
    """Return 'a before b before a' if these constraints say so."""
    follows: dict[int, set[int]] = {}
    for rule in inherit([task.constraints[index] for index in rules], task.feature_goals):
        if not rule.control_value and not rule.condition_value:
            follows.setdefault(rule.control, set()).add(rule.condition)
    return ' before '.join(task.goal_names[goal] for goal in _cycle(follows))


def _shortened(text: str) -> str:
    text = ' '.join(text.split())
    return text if len(text) <= 120 else text[:117] + '...'
