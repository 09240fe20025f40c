"""The Boolean ordered-goal task (Sigma, A_sigma, C_Psi, Psi, H_alpha, B).

Completing goal i flips bit i of the task state sigma, unless an inherited constraint forbids it:
q(sigma, alpha_i) = inf if there is c(sigma_i^a, sigma_j^b) with sigma(i) = a and sigma(j) = b
(paper, Definition "BOG task", def:BOG, and eq:BOG_order_cost). The affordance F = H_alpha o H_psi
maps every site over its features to its goal. The task is done when the formula B holds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
from dataclasses import dataclass, field
import functools
from functools import cached_property
import os
from typing import Any, Concatenate, ParamSpec, TypeVar

from gk_planner.constraints import (
    BitConstraint,
    check_pairs,
    Constraint,
    inherit,
    why_idle,
)
from gk_planner.errors import ConstraintError, FormulaError, TaskError
from gk_planner.formula import Formula, FORMULA_WORDS, nearest, parse
from gk_planner.task_file import Goal, read_goal_list, read_goals, read_sites, Site
from gk_planner.yaml_input import check_keys, load_mapping, mapping, point, sequence, shorten

__all__ = ['TRIGGERS', 'BitConstraint', 'Constraint', 'Goal', 'Site', 'Task', 'once_per_task']

TRIGGERS = ('action', 'contact')
_Given = ParamSpec('_Given')
_Result = TypeVar('_Result')
_KEYS = ('sites', 'goals', 'constraints', 'formula', 'reversible', 'done', 'start', 'trigger')


@dataclass(frozen=True)
class Task:
    """Sites, goals, constraints and formula, checked against one another.

    Attributes
    ----------
    sites : tuple of Site
        The places, with different names; the feature set of each is a goal.
    goals : tuple of Goal
        Bit i belongs to ``goals[i]``.
    constraints : tuple of Constraint
        On features; ``bit_constraints`` has what the goals inherit.
    formula : Formula
        Over goal indices.
    reversible, done : frozenset of int
        Goals whose bit may flip back, and goals already done at the start.
    start : tuple of float, optional
        Point (x, y) in metres in the map frame.
    trigger : str
        ``action`` or ``contact``.
    source : str
        How messages begin; the file, if there is one.

    Raises
    ------
    TaskError
        Or its children FormulaError and ConstraintError, if the parts do not fit together.
    LimitError
        If too many pairs of goals inherit a constraint.

    """

    sites: tuple[Site, ...]
    goals: tuple[Goal, ...]
    constraints: tuple[Constraint, ...]
    formula: Formula
    reversible: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()
    start: tuple[float, float] | None = None
    trigger: str = 'action'
    source: str = field(default='task', compare=False)

    def __post_init__(self) -> None:
        if not self.goals:
            raise TaskError(f'{self.source}: the task has no goals; give sites or goals')
        self._check_names()
        self._check_indices()
        self._check_features()
        if self.trigger not in TRIGGERS:
            raise TaskError(f"{self.source}: trigger: must be 'action' or 'contact', "
                            f'got {shorten(self.trigger)}')

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what follows from the fields; it is worked out again where it is needed."""
        return {spec.name: getattr(self, spec.name) for spec in dataclasses.fields(self)}

    def _check_names(self) -> None:
        for name in self.goal_names:
            if name in FORMULA_WORDS:
                raise TaskError(f"{self.source}: goals.{name}: '{name}' is a word of the formula "
                                'language; give the goal another name under goals')
        site_fields = [f'sites[{index}].name' for index in range(len(self.sites))]
        goal_fields = [f'goals.{name}' for name in self.goal_names]
        for what, fields, values in (
                ('name', site_fields, [site.name for site in self.sites]),
                ('name', goal_fields, self.goal_names),
                ('feature set', goal_fields,
                 [tuple(sorted(goal.features)) for goal in self.goals])):
            _check_distinct(what, fields, values, self.source)

    def _check_indices(self) -> None:
        known = range(len(self.goals))
        for name, indices in (('reversible', self.reversible), ('done', self.done),
                              ('formula', self.formula.support())):
            if not all(index in known for index in indices):
                error = FormulaError if name == 'formula' else TaskError
                raise error(f'{self.source}: {name}: a goal index is outside 0 .. {known[-1]}')

    def _check_features(self) -> None:
        known = self._goal_of
        for index, site in enumerate(self.sites):
            if frozenset(site.features) not in known:
                raise TaskError(f"{self.source}: sites[{index}].features: no goal of site "
                                f"'{site.name}' has the feature set {shorten(site.features)}")
        for index, constraint in enumerate(self.constraints):
            for feature in (constraint.control_feature, constraint.condition_feature):
                if feature not in self.feature_goals:
                    raise ConstraintError(
                        f"{self.source}: constraints[{index}]: no site or goal carries the "
                        f"feature '{feature}'{nearest(feature, self.feature_goals)}")
        check_pairs(self.constraints, self.feature_goals, self.source)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> 'Task':
        """Read a task file (YAML).

        Raises
        ------
        TaskError
            Or its children, if the file is not a well-formed task; the message starts with the
            file and names the field.

        """
        return cls.from_dict(load_mapping(path, TaskError), os.fspath(path))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], source: str = 'task') -> 'Task':
        """Read a task from a mapping with the fields of a task file.

        Parameters
        ----------
        fields : mapping
            ``sites``, ``goals``, ``constraints``, ``formula``, ``reversible``, ``done``,
            ``start`` and ``trigger``; each may be left out or None.
        source : str
            How messages begin.

        Raises
        ------
        TaskError
            Or its children, if the mapping is not a well-formed task.

        """
        check_keys(mapping(fields, source, TaskError), _KEYS, source, TaskError)
        given = {key: value for key, value in fields.items() if value is not None}
        sites = read_sites(given.get('sites', ()), f'{source}: sites')
        goals = read_goals(given.get('goals', {}), sites, source)
        constraints = tuple(
            Constraint.parse(text, f'{source}: constraints[{index}]') for index, text in enumerate(
                sequence(given.get('constraints', ()), f'{source}: constraints', TaskError)))
        goal_idx = {goal.name: index for index, goal in enumerate(goals)}
        start = given.get('start')
        # Checks that the goals fit together come before the formula that names them.
        plain = cls(
            sites, goals, constraints, Formula.conjunction(range(len(goals)), tuple(goal_idx)),
            read_goal_list(given.get('reversible', ()), goal_idx, f'{source}: reversible'),
            read_goal_list(given.get('done', ()), goal_idx, f'{source}: done'),
            None if start is None else point(start, f'{source}: start', TaskError),
            given.get('trigger', 'action'), source)
        if 'formula' not in given:
            return plain
        return dataclasses.replace(plain, formula=_read_formula(given['formula'], plain))

    def to_dict(self) -> dict[str, Any]:
        """Return the mapping of a task file that reads as this task."""
        names = self.goal_names
        fields: dict[str, Any] = {
            'sites': [site.to_dict() for site in self.sites],
            'goals': {goal.name: sorted(goal.features) for goal in self.goals},
            'constraints': [constraint.text for constraint in self.constraints],
            'formula': self.formula.text,
            'reversible': [names[index] for index in sorted(self.reversible)],
            'done': [names[index] for index in sorted(self.done)]}
        if self.start is not None:
            fields['start'] = list(self.start)
        return {**fields, 'trigger': self.trigger}

    def replace(self, *, sites: Iterable[Site] | None = None, done: Iterable[int] | None = None,
                start: tuple[float, float] | None = None) -> 'Task':
        """Return a checked copy with other sites, done goals or start; None keeps what is there.

        Goals keep their indices. A site with a feature set that no goal has is refused, because
        it would make another task.
        """
        return dataclasses.replace(
            self, sites=self.sites if sites is None else tuple(sites),
            done=self.done if done is None else frozenset(done),
            start=self.start if start is None else start)

    @cached_property
    def goal_names(self) -> tuple[str, ...]:
        """Names of the goals in the order of the bits."""
        return tuple(goal.name for goal in self.goals)

    @cached_property
    def feature_goals(self) -> dict[str, tuple[int, ...]]:
        """For every feature the goals that carry it, in the order of the bits."""
        carriers: dict[str, list[int]] = {}
        for index, goal in enumerate(self.goals):
            for feature in sorted(goal.features):
                carriers.setdefault(feature, []).append(index)
        return {feature: tuple(goals) for feature, goals in carriers.items()}

    @cached_property
    def site_goals(self) -> tuple[int, ...]:
        """The affordance F = H_alpha o H_psi: for every site its goal."""
        return tuple(self._goal_of[frozenset(site.features)] for site in self.sites)

    def goal_sites(self, goal: int) -> tuple[int, ...]:
        """Return the indices of the sites that complete a goal."""
        return self._sites_of.get(goal, ())

    @cached_property
    def bit_constraints(self) -> tuple[BitConstraint, ...]:
        """The induced set C_Sigma: what pairs of different goals inherit, each once."""
        return inherit(self.constraints, self.feature_goals)

    @cached_property
    def initial_bits(self) -> tuple[bool, ...]:
        """The task state at the start."""
        return tuple(index in self.done for index in range(len(self.goals)))

    @cached_property
    def is_done(self) -> bool:
        """Whether the formula holds at the start."""
        return self.formula.holds(self.initial_bits)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is well formed and yet probably not meant: constraints that forbid nothing."""
        reasons = ((index, constraint, why_idle(
            constraint, self.feature_goals, self.site_goals, self.reversible, self.done))
                   for index, constraint in enumerate(self.constraints))
        return tuple(f"constraints[{index}] '{constraint.text}' has no effect: {reason}"
                     for index, constraint, reason in reasons if reason)

    @cached_property
    def derived(self) -> dict[Any, Any]:
        """Room for :func:`once_per_task`; a task never changes."""
        return {}

    @cached_property
    def _goal_of(self) -> dict[frozenset[str], int]:
        return {goal.features: index for index, goal in enumerate(self.goals)}

    @cached_property
    def _sites_of(self) -> dict[int, tuple[int, ...]]:
        sites: dict[int, list[int]] = {}
        for site, goal in enumerate(self.site_goals):
            sites.setdefault(goal, []).append(site)
        return {goal: tuple(indices) for goal, indices in sites.items()}


def once_per_task(function: Callable[Concatenate[Task, _Given], _Result],
                  ) -> Callable[Concatenate[Task, _Given], _Result]:
    """Let a function of a task (and of hashable arguments) work out each result only once."""
    @functools.wraps(function)
    def remembered(task: Task, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        key = (function, args, *kwargs.items())
        if key not in task.derived:
            task.derived[key] = function(task, *args, **kwargs)
        result: _Result = task.derived[key]
        return result

    return remembered


def _check_distinct(what: str, fields: Sequence[str], values: Sequence[str | tuple[str, ...]],
                    source: str) -> None:
    first: dict[str | tuple[str, ...], str] = {}
    for name, value in zip(fields, values, strict=True):
        if value in first:
            raise TaskError(f'{source}: {name}: the {what} {shorten(value)} is already in use, '
                            f'see {first[value]}')
        first[value] = name


def _read_formula(value: object, task: Task) -> Formula:
    where = f'{task.source}: formula'
    if not isinstance(value, str):
        raise FormulaError(f'{where}: expected text, got {shorten(value)}; quote it')
    return parse(value, task.goal_names, task.feature_goals, where)
