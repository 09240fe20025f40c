"""Explain a task: its goals and bits, inherited constraints, clauses, states and conflicts."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import BitConstraint, Task
from gk_planner.config import Config
from gk_planner.dnf import clauses, count_clauses, dnf_text
from gk_planner.errors import InfeasibleError, LimitError, StartError
from gk_planner.goal_kernel import Legs
from gk_planner.grounding import ground
from gk_planner.option_legs import OptionLegs
from gk_planner.options import OptionLibrary
from gk_planner.task_solver import legs_of_sites, solve_on_legs
from gk_planner.task_states import reachable_states, relevant_goals

_SHOWN_CLAUSES = 32


@dataclass(frozen=True)
class Explanation:
    """What a task means, and why it cannot be done if so.

    Attributes
    ----------
    clauses : tuple of str or None
        The first clauses of the disjunctive normal form; None if it is too large.
    n_clauses : int or None
    n_states : int or None
        Task states that can be reached; None if there are more than ``max_task_states``.
    relevant : tuple of str
        Goals whose bit can matter.
    conflict : InfeasibleError or None
        Set if the task cannot be done.

    """

    task: Task
    clauses: tuple[str, ...] | None
    n_clauses: int | None
    n_states: int | None
    relevant: tuple[str, ...]
    warnings: tuple[str, ...]
    conflict: InfeasibleError | None
    with_map: bool

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object."""
        task = self.task
        goals = [{'bit': index, 'name': goal.name, 'features': sorted(goal.features),
                  'sites': [task.sites[site].name for site in task.goal_sites(index)],
                  'done': index in task.done, 'reversible': index in task.reversible}
                 for index, goal in enumerate(task.goals)]
        return {'status': 'feasible', 'goals': goals,
                'constraints': [{'constraint': task.constraints[rule.source].text,
                                 'inherited': _rule_text(task, rule)}
                                for rule in task.bit_constraints],
                'formula': task.formula.text,
                'clauses': None if self.clauses is None else list(self.clauses),
                'n_clauses': self.n_clauses, 'relevant_goals': list(self.relevant),
                'reachable_task_states': self.n_states, 'warnings': list(self.warnings)}

    def to_text(self) -> str:
        """Return the explanation for a terminal."""
        task = self.task
        lines = [f'{task.source}: trigger {task.trigger}', 'goals (bit, name, features, sites):']
        width = max(len(name) for name in task.goal_names)
        for index, goal in enumerate(task.goals):
            sites = ', '.join(task.sites[site].name for site in task.goal_sites(index))
            marks = [mark for mark, goals in (('done', task.done),
                                              ('reversible', task.reversible)) if index in goals]
            features = ', '.join(sorted(goal.features))
            lines.append(f'  {index:3d}  {goal.name:<{width}}  {{{features}}}  '
                         f'{sites or "no site"}{"  " + ", ".join(marks) if marks else ""}')
        lines.append('constraints (as written, as inherited by the bits):'
                     if task.bit_constraints else 'constraints: none')
        for rule in task.bit_constraints:
            lines.append(f'  {task.constraints[rule.source].text}:  {_rule_text(task, rule)}')
        lines.append(f'formula: {task.formula.text}')
        if self.clauses is None or self.n_clauses is None:
            lines.append('clauses (DNF): too many to list')
        else:
            lines.append(f'clauses (DNF): {self.n_clauses or "none, it can never hold"}')
            lines += [f'  {clause}' for clause in self.clauses]
            if self.n_clauses > len(self.clauses):
                lines.append(f'  ... and {self.n_clauses - len(self.clauses)} more')
        states = 'more than max_task_states' if self.n_states is None else str(self.n_states)
        lines.append(f'task states that can be reached: {states}, over '
                     f'{len(self.relevant)} of {len(task.goals)} bits '
                     f'({", ".join(self.relevant) or "none matters"})')
        lines += [f'warning: {warning}' for warning in self.warnings]
        if self.conflict is None:
            lines.append('feasible' + ('' if self.with_map else
                                       ' as far as the task alone tells (no map given)'))
        else:
            lines.append('infeasible; irreducible conflict:')
            lines += [f'  {part["kind"]} {part["name"]}' for part in self.conflict.conflicts]
        return '\n'.join(lines)


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
    conflict = None
    try:
        if not task.formula.holds(task.initial_bits):
            solve_on_legs(task, legs, site_nodes, config, completion_cost=0.0)
    except InfeasibleError as error:
        conflict = error
    except LimitError:
        pass
    shown, n_clauses = _clauses(task)
    relevant, n_states = _states(task, legs, config)
    return Explanation(task, shown, n_clauses, n_states,
                       tuple(task.goal_names[goal] for goal in relevant), warnings, conflict,
                       space is not None)


def _clauses(task: Task) -> tuple[tuple[str, ...] | None, int | None]:
    try:
        shown = tuple(dnf_text(clause, task.goal_names)
                      for clause in islice(clauses(task.formula), _SHOWN_CLAUSES))
        return shown, count_clauses(task.formula)
    except LimitError:
        return None, None


def _states(task: Task, legs: Legs, config: Config) -> tuple[tuple[int, ...], int | None]:
    possible = np.unique(legs.node_goal[legs.reachable()]).tolist()
    goals = relevant_goals(task, possible, drop_harmful=config.temperature == 0)
    if legs.passes_done:
        goals = tuple(sorted(set(possible) - (task.done - task.reversible)))
    try:
        return goals, len(reachable_states(task, goals, config.max_task_states).words)
    except LimitError:
        return goals, None


def _rule_text(task: Task, rule: BitConstraint) -> str:
    control, condition = task.goal_names[rule.control], task.goal_names[rule.condition]
    flip = f'{control} may not flip {rule.control_value} -> {1 - rule.control_value}'
    return f'{flip} while {condition} = {rule.condition_value}'
