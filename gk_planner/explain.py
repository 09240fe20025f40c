"""Explain a task: its goals and bits, inherited constraints, clauses, states and conflicts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.conflicts import decided_by_clauses, explain_infeasible
from gk_planner.dnf import clauses, count_clauses, dnf_text
from gk_planner.errors import InfeasibleError, LimitError, StartError
from gk_planner.goal_kernel import Legs
from gk_planner.grounding import ground
from gk_planner.option_legs import OptionLegs
from gk_planner.option_library import OptionLibrary
from gk_planner.task_solver import legs_of_sites, solve_on_legs
from gk_planner.task_states import reachable_states, relevant_goals

_SHOWN_CLAUSES = 20
_SHOWN_NAMES = 12
# What c(sigma_i^a, sigma_j^b) says about goal i, by (a, b), and how the goals j are joined.
_RULES = {(0, 0): ('{} waits for {}', ' and '),
          (0, 1): ('{} is forbidden once {} is done', ' or '),
          (1, 0): ('{} may not be undone before {}', ' and '),
          (1, 1): ('{} may not be undone once {} is done', ' or ')}


@dataclass(frozen=True)
class Explanation:
    """What a task means, and why it cannot be done if so.

    Attributes
    ----------
    clauses : tuple of str or None
        The first clauses of the disjunctive normal form; None if it is too large.
    n_clauses : int or None
    n_states : int or None
        Task states that can be reached; None if a limit of the configuration is met.
    relevant : tuple of str
        Goals whose bit can matter.
    conflict : InfeasibleError or None
        Set if the task cannot be done.
    limit : LimitError or None
        Set if a limit was met before it was known whether the task can be done.

    """

    task: Task
    clauses: tuple[str, ...] | None
    n_clauses: int | None
    n_states: int | None
    relevant: tuple[str, ...]
    warnings: tuple[str, ...]
    conflict: InfeasibleError | None
    limit: LimitError | None
    with_map: bool

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object; that of the conflict is part of it if there is one."""
        task, names = self.task, self.task.goal_names
        goals = [{'bit': index, 'name': goal.name, 'features': sorted(goal.features),
                  'sites': [task.sites[site].name for site in task.goal_sites(index)],
                  'done': index in task.done, 'reversible': index in task.reversible}
                 for index, goal in enumerate(task.goals)]
        inherited = [{'constraint': task.constraints[rule.source].text,
                      'inherited': f'c({names[rule.control]}^{rule.control_value}, '
                                   f'{names[rule.condition]}^{rule.condition_value})'}
                     for rule in task.bit_constraints]
        head: dict[str, Any] = {'status': 'feasible'}
        if self.conflict is not None:
            head = self.conflict.to_dict()
        elif self.limit is not None:
            head = {'status': 'undecided', 'reason': self.limit.message}
        return {**head, 'goals': goals, 'constraints': inherited, 'formula': task.formula.text,
                'clauses': None if self.clauses is None else list(self.clauses),
                'n_clauses': self.n_clauses, 'relevant_goals': list(self.relevant),
                'reachable_task_states': self.n_states, 'warnings': list(self.warnings)}

    def to_text(self) -> str:
        """Return the explanation for a terminal."""
        warnings = (f'warning: {warning}' for warning in self.warnings)
        return '\n'.join([*self._goal_lines(), *self._constraint_lines(), *self._formula_lines(),
                          self._state_line(), *warnings, *self._verdict_lines()])

    def _goal_lines(self) -> Iterator[str]:
        task = self.task
        features = ['{' + ', '.join(sorted(goal.features)) + '}' for goal in task.goals]
        widths = [max(map(len, column)) for column in (task.goal_names, features)]
        yield f'goals (bit, name, features, sites), completed by {task.trigger}:'
        for index, name in enumerate(task.goal_names):
            sites = _listed(task.sites[site].name for site in task.goal_sites(index))
            marks = (' (done)' * (index in task.done)
                     + ' (reversible)' * (index in task.reversible))
            yield (f'  {index:3d}  {name:<{widths[0]}}  {features[index]:<{widths[1]}}  '
                   f'{sites or "no site carries it"}{marks}')

    def _constraint_lines(self) -> Iterator[str]:
        task, names = self.task, self.task.goal_names
        inherited: dict[int, dict[tuple[int, int, int], list[str]]] = {}
        for rule in task.bit_constraints:
            kind = rule.control, rule.control_value, rule.condition_value
            inherited.setdefault(rule.source, {}).setdefault(kind, []).append(
                names[rule.condition])
        yield 'constraints, and what the goals inherit:' if task.constraints \
            else 'constraints: none'
        for index, constraint in enumerate(task.constraints):
            yield f'  {constraint.text}' + ('' if index in inherited else ': adds nothing')
            for (control, *values), conditions in inherited.get(index, {}).items():
                text, joint = _RULES[values[0], values[1]]
                yield '    ' + text.format(names[control], _listed(conditions, joint))

    def _formula_lines(self) -> Iterator[str]:
        yield f'formula: {" ".join(self.task.formula.text.split())}'
        if self.clauses is None or self.n_clauses is None:
            yield 'clauses (DNF): too many to find'
            return
        yield f'clauses (DNF): {self.n_clauses or "none, it can never hold"}'
        yield from (f'  {clause}' for clause in self.clauses)
        if self.n_clauses > len(self.clauses):
            yield f'  ... and {self.n_clauses - len(self.clauses)} more'

    def _state_line(self) -> str:
        idle = [name for name in self.task.goal_names if name not in self.relevant]
        count = 'more than fit into task_memory' if self.n_states is None else str(self.n_states)
        return (f'task states that can be reached: {count}, over {len(self.relevant)} of '
                f'{len(self.task.goals)} bits'
                + (f' (without {_listed(idle)})' if idle else ''))

    def _verdict_lines(self) -> Iterator[str]:
        if self.conflict is not None:
            yield 'infeasible; these conflict, and no longer do without any one of them:'
            yield from (f'  {part["kind"]:<10}  {" ".join(part["name"].split())}'
                        for part in self.conflict.conflicts)
        elif self.limit is not None:
            yield f'undecided: {self.limit.message}'
        else:
            yield 'feasible' if self.with_map else 'feasible if every site can be reached (no map)'


def explain(task: Task, space: BaseSpace | None = None,
            start: tuple[float, float] | None = None, config: Config | None = None,
            ) -> Explanation:
    """Explain a task, on a map if one is given, else as if every site could be reached.

    Raises
    ------
    StartError, TaskError
        If a map is given and the task cannot be placed on it.

    """
    config = space.config if space is not None else config or Config()
    warnings = task.warnings
    if space is None:
        n_sites = len(task.sites)
        legs, site_nodes = legs_of_sites(task, np.zeros((n_sites, n_sites)), np.zeros(n_sites))
    else:
        if start is None:
            raise StartError(f'{task.source}: no start; give --start X Y or start in the task')
        grounding = ground(task, space, start)
        warnings = (*warnings, *grounding.warnings)
        placed = [goal for goal, nodes in enumerate(grounding.nodes) if nodes.size]
        option_legs = OptionLegs(OptionLibrary(space), grounding, placed)
        legs, site_nodes = option_legs.legs, option_legs.site_nodes()
    conflict, limit = _decide(task, legs, site_nodes, config)
    shown, n_clauses = _clauses(task)
    relevant = _relevant(task, legs, config)
    n_states = None if limit else _count_states(task, relevant, config)
    return Explanation(task, shown, n_clauses, n_states,
                       tuple(task.goal_names[goal] for goal in relevant), warnings, conflict,
                       limit, space is not None)


def _decide(task: Task, legs: Legs, site_nodes: Sequence[NDArray[np.int64]], config: Config,
            ) -> tuple[InfeasibleError | None, LimitError | None]:
    """Return why the task cannot be done, or what kept that from being known."""
    if task.is_done:
        return None, None
    try:
        # Clause by clause is much quicker than to search the task states, where it decides.
        decided = decided_by_clauses(task, legs)
        if decided is not None:
            return (None if decided else explain_infeasible(task, legs, site_nodes, config)), None
        solve_on_legs(task, legs, site_nodes, config, completion_cost=0.0, beyond_table=False)
    except InfeasibleError as error:
        return error, None
    except LimitError as error:
        return None, error
    return None, None


def _clauses(task: Task) -> tuple[tuple[str, ...] | None, int | None]:
    try:
        shown = tuple(dnf_text(clause, task.goal_names)
                      for clause in islice(clauses(task.formula), _SHOWN_CLAUSES))
        return shown, count_clauses(task.formula)
    except LimitError:
        return None, None


def _relevant(task: Task, legs: Legs, config: Config) -> tuple[int, ...]:
    possible = tuple(np.unique(legs.node_goal[legs.reachable()]).tolist())
    if legs.passes_done:
        return tuple(sorted(set(possible) - (task.done - task.reversible)))
    return relevant_goals(task, possible, drop_harmful=config.temperature == 0)


def _count_states(task: Task, goals: tuple[int, ...], config: Config) -> int | None:
    try:
        return len(reachable_states(task, goals, config.task_memory * 1_000_000))
    except LimitError:
        return None


def _listed(names: Iterable[str], joint: str = ', ') -> str:
    """Join names, the first ones if they are many."""
    names = list(names)
    shown = names[:_SHOWN_NAMES]
    if len(names) > len(shown):
        return ', '.join(shown) + f', ... ({len(names)} in all)'
    return ', '.join(shown[:-1]) + joint * (len(shown) > 1) + ''.join(shown[-1:])
