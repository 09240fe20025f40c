"""The planner: ground the task, look up the options, solve the task layer, lay out the waypoints.

This file reads as the algorithm (paper, Algorithm 2, in the affordance subspace); each step is a
module of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import math
import time
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Site, Task
from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.errors import (
    GkPlannerError,
    LimitError,
    RegroundError,
    StartError,
    TaskError,
)
from gk_planner.formula import nearest
from gk_planner.goal_kernel import IntArray
from gk_planner.grounding import ground, Grounding
from gk_planner.option_legs import OptionLegs
from gk_planner.option_library import OptionLibrary
from gk_planner.options import COST_UNIT
from gk_planner.results import Plan
from gk_planner.task_solver import solve_on_legs
from gk_planner.task_states import relevant_goals
from gk_planner.waypoints import plan_options
from gk_planner.yaml_input import name, point, shorten

_Item = TypeVar('_Item')


class Planner:
    """Plans tasks on one base space and keeps the options it has solved; one thread at a time.

    Parameters
    ----------
    base_space : BaseSpace
        The map with its configuration.
    former : Planner, optional
        The planner of the map before a change; options that it knows are repaired where only a
        little has changed.

    Attributes
    ----------
    library : OptionLibrary
        Options by cell, reused by every later call.

    """

    def __init__(self, base_space: BaseSpace, former: 'Planner | None' = None) -> None:
        self.base_space = base_space
        self.library: OptionLibrary = OptionLibrary(
            base_space, None if former is None else former.library)
        self._last_task: Task | None = None
        self._last_start: tuple[float, float] | None = None

    def plan(self, task: Task, start: tuple[float, float] | None = None, *,
             start_tolerance: float = 0.0, checkpoint: Checkpoint = proceed) -> Plan:
        """Return the cheapest plan (at temperature > 0 the most probable one).

        Parameters
        ----------
        task : Task
            What is to be done.
        start : tuple of float, optional
            Position of the robot in metres; the task's own start if not given.
        start_tolerance : float
            A start in a blocked cell leaves through the nearest free one within these metres.
        checkpoint : callable
            Called between the steps of planning; may raise to stop it.

        Raises
        ------
        StartError
            If there is no start, or it is outside the map or blocked.
        TaskError
            If a site cannot be placed on the map.
        InfeasibleError
            If the task cannot be done; names the irreducible conflict.
        LimitError, NotConvergedError
            If a limit of the configuration is met.

        """
        start = start if start is not None else task.start
        if start is None:
            raise StartError(f'{task.source}: no start; give one with the call or in the task')
        start = point(start, 'start', StartError)
        grounding = ground(task, self.base_space, start, start_tolerance)
        # Not a copy with this start: what follows from a task is kept with the object.
        self._last_task, self._last_start = task, start
        return self._solve(task, grounding, start_tolerance, checkpoint)

    def reground(self, sites: Iterable[Mapping[str, Any]], removed: Iterable[str] = (),
                 start: tuple[float, float] | None = None,
                 done: Iterable[str] | None = None) -> Plan:
        """Move, add or remove sites of the last task and plan again.

        The last task is the one planned last, even if it was infeasible. On any error it is kept
        as it was.

        Parameters
        ----------
        sites : iterable of mappings
            Sites as in the task file; a known name replaces that site, a new one adds an
            alternative to a known goal.
        removed : iterable of str
            Names of sites that are gone.
        start : tuple of float, optional
            Where the robot is now; the last start if not given.
        done : iterable of str, optional
            Goals done by now; those of the last task if not given.

        Raises
        ------
        RegroundError
            If there is no last task, a name is unknown, or a site brings a new feature set.
        GkPlannerError
            As from :meth:`plan`.

        """
        if self._last_task is None:
            raise RegroundError('reground: there is no task yet; call plan first')
        last = self._last_task, self._last_start
        task = regrounded(self._last_task, sites, removed, done)
        try:
            return self.plan(task, start if start is not None else self._last_start)
        except GkPlannerError:
            self._last_task, self._last_start = last
            raise

    def _solve(self, task: Task, grounding: Grounding, start_tolerance: float,
               checkpoint: Checkpoint) -> Plan:
        config = self.base_space.config
        soft = config.temperature > 0
        warnings = (*task.warnings, *grounding.warnings, *self.library.warnings)
        timing = {'base_space': self.base_space.build_ms, 'options': 0.0, 'task': 0.0}
        if task.is_done:
            return Plan((), 0.0, True, 0.0, warnings, timing, 0.0 if soft else None)

        began = time.perf_counter()
        # What only an unplaced goal waits for counts too: it may explain why there is no plan.
        goals = range(len(task.goals)) if task.trigger == 'contact' else relevant_goals(
            task, tuple(range(len(task.goals))), drop_harmful=not soft)
        _check_size(grounding, goals, config.max_nodes)
        checkpoint()
        legs = OptionLegs(self.library, grounding, goals, checkpoint)
        table = legs.legs
        timing['options'] = _milliseconds(began)

        began = time.perf_counter()
        if soft:
            completion_cost = config.option_cost / (self.base_space.resolution
                                                    * config.temperature)
        else:
            # The nearest multiple, so that ties among sums of legs stay ties.
            completion_cost = config.option_cost - math.remainder(config.option_cost, COST_UNIT)
        site_nodes = legs.site_nodes()
        run = solve_on_legs(task, table, site_nodes, config,
                            completion_cost=completion_cost, checkpoint=checkpoint)
        options = plan_options(run.way, legs, config.option_cost, start_tolerance)
        timing['task'] = _milliseconds(began)

        cost = float(np.sum([option.cost for option in options]))
        bound = cost if run.bound is None else min(run.bound, cost)
        warnings += _out_of_reach(grounding, goals, table.reachable(), site_nodes)
        plan = Plan(options, cost, run.optimal, bound, warnings, timing, run.value)
        if soft or run.optimal:
            return plan
        return dataclasses.replace(plan, warnings=(*warnings, (
            f'not proven optimal within time_limit {config.time_limit:g} s: any plan costs at '
            f'least {plan.bound:.3f} m, {plan.gap:.1%} less')))


def _check_size(grounding: Grounding, goals: Iterable[int], max_nodes: int) -> None:
    """Refuse a task of too many nodes before any option is solved for them."""
    n_nodes = sum(len(grounding.nodes[goal]) for goal in goals)
    if n_nodes > max_nodes:
        raise LimitError(f'{grounding.task.source}: its goals are completed at {n_nodes} cells, '
                         f'more than max_nodes {max_nodes}; leave out sites or raise max_nodes')


def _out_of_reach(grounding: Grounding, goals: Iterable[int], is_reachable: NDArray[np.bool_],
                  site_nodes: Sequence[IntArray]) -> tuple[str, ...]:
    """Return a warning for each site in free cells that no way leads to.

    Only sites without a node in reach are in doubt: they may have none because they lie inside
    another site of their goal. Then it counts whether the floor leads there.
    """
    task = grounding.task
    doubtful = [site for site, goal in enumerate(task.site_goals)
                if goal in goals and goal not in grounding.fixed_goals
                and grounding.site_cells[site].size and not is_reachable[site_nodes[site]].any()]
    if not doubtful:
        return ()
    floor = grounding.space.reached_from(grounding.start_cell)
    is_contact = task.trigger == 'contact'
    return tuple(f"site '{task.sites[site].name}' cannot be reached" for site in doubtful
                 if (is_contact and site_nodes[site].size)
                 or not floor[grounding.site_cells[site]].any())


def regrounded(task: Task, sites: Iterable[Mapping[str, Any]], removed: Iterable[str],
               done: Iterable[str] | None) -> Task:
    """Return the task with sites replaced, added and removed, and with other goals done.

    Raises
    ------
    RegroundError
        If a name is unknown or a site brings a new feature set.

    """
    known = {site.name: site for site in task.sites}
    for index, gone in enumerate(_names(removed, 'reground: removed')):
        if gone not in known:
            raise RegroundError(
                f"reground: removed[{index}]: no site '{gone}'{nearest(gone, known)}")
        del known[gone]
    given: set[str] = set()
    for index, fields in enumerate(_listed(sites, 'reground: sites')):
        try:
            site = Site.from_dict(fields, f'reground: sites[{index}]')
        except TaskError as error:
            raise RegroundError(error.message) from None
        if site.name in given:
            raise RegroundError(f"reground: sites[{index}].name: '{site.name}' is given twice")
        given.add(site.name)
        if frozenset(site.features) not in {goal.features for goal in task.goals}:
            raise RegroundError(
                f"reground: sites[{index}].features: site '{site.name}' brings the new feature "
                f"set {sorted(site.features)}; that is a new task")
        known[site.name] = site
    try:
        return task.replace(sites=known.values(),
                            done=None if done is None else _goal_indices(task, done))
    except TaskError as error:
        raise RegroundError(error.message) from None


def _goal_indices(task: Task, names: Iterable[str]) -> list[int]:
    indices = []
    for goal in _names(names, 'reground: done'):
        if goal not in task.goal_names:
            hint = nearest(goal, task.goal_names)
            raise RegroundError(f"reground: done: no goal '{goal}'{hint}")
        indices.append(task.goal_names.index(goal))
    return indices


def _names(values: Iterable[str], where: str) -> list[str]:
    return [name(value, f'{where}[{index}]', RegroundError)
            for index, value in enumerate(_listed(values, where))]


def _listed(values: Iterable[_Item], where: str) -> list[_Item]:
    """Return the items of anything that has some; a string is not a list of letters."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise RegroundError(f'{where}: expected a list, got {shorten(values)}')
    return list(values)


def _milliseconds(began: float) -> float:
    return (time.perf_counter() - began) * 1e3
