"""The task layer alone: from a task and a cost matrix to the cheapest sequence of completions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gk_planner.boolean_task import Task
from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.config import Config
from gk_planner.conflicts import decided_by_clauses, explain_infeasible
from gk_planner.errors import InputError
from gk_planner.goal_kernel import build_goal_kernel, Legs
from gk_planner.task_policy import solve_task_policy, TaskPolicy
from gk_planner.task_states import reachable_states, relevant_goals

# Largest matrix for which the triangle inequality is checked (cubic work).
_MAX_TRIANGLE_CHECK = 300
# Sums of legs that are shorter by this part only are equal up to rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class TaskSolution:
    """A sequence of sites and its cost.

    Attributes
    ----------
    cost : float
        Sum of the legs and completions, in the unit of the matrix.
    sequence : tuple of str
        Names of the sites where goals are completed, in order.
    optimal : bool
        Whether no sequence is cheaper.
    bound : float
        No sequence costs less.
    value : float or None
        At temperature > 0: -log z of the entry.

    """

    cost: float
    sequence: tuple[str, ...]
    optimal: bool
    bound: float
    value: float | None = None


def solve_on_legs(task: Task, legs: Legs, site_nodes: Sequence[NDArray[np.int64]], config: Config,
                  *, completion_cost: float, prune: bool = True,
                  checkpoint: Checkpoint = proceed,
                  ) -> tuple[TaskPolicy, NDArray[np.int64]]:
    """Solve the task on given legs.

    Returns
    -------
    policy : TaskPolicy
        On the nodes that matter.
    nodes : ndarray of int
        The number in ``legs`` of every node of the policy.

    Raises
    ------
    InfeasibleError
        If no sequence makes the formula hold; it carries the irreducible conflict.
    LimitError
        If the table of task states would be too large.

    """
    soft = config.temperature > 0
    reachable = legs.reachable()
    possible = np.unique(legs.node_goal[reachable]).tolist()
    if legs.passes_done:
        goals = tuple(possible)
    elif not prune:
        goals = tuple(goal for goal in possible if goal not in task.done - task.reversible)
    else:
        goals = relevant_goals(task, possible, drop_harmful=not soft)
    nodes = np.flatnonzero(reachable & np.isin(legs.node_goal, goals))
    kept = legs.restricted(nodes)
    if 2 ** len(goals) > config.max_task_states and decided_by_clauses(task, kept) is False:
        raise explain_infeasible(task, legs, site_nodes, config)
    states = reachable_states(task, goals, config.max_task_states, checkpoint)
    checkpoint()
    policy = solve_task_policy(states, kept, build_goal_kernel(states, kept),
                               completion_cost=completion_cost, soft=soft,
                               max_sweeps=config.max_iterations)
    if not np.isfinite(policy.value()):
        raise explain_infeasible(task, legs, site_nodes, config)
    return policy, nodes


def solve_task(task: Task, site_costs: ArrayLike, start_costs: ArrayLike,
               config: Config | None = None) -> TaskSolution:
    """Solve a task on any matrix of costs between its sites.

    Parameters
    ----------
    task : Task
        Its sites need no position.
    site_costs : array_like, shape (n_sites, n_sites)
        ``site_costs[i, j]`` from site i to site j, inf where not feasible; order of
        ``task.sites``.
    start_costs : array_like, shape (n_sites,)
        From the start to every site.
    config : Config, optional
        ``option_cost``, ``temperature`` (the matrices are then -log z) and limits.

    Raises
    ------
    InputError
        If a matrix has the wrong shape, or a negative or NaN entry.
    InfeasibleError
        If the task cannot be done.

    """
    config = config or Config()
    n_sites = len(task.sites)
    between = _checked_costs(site_costs, (n_sites, n_sites), 'site_costs')
    entry = _checked_costs(start_costs, (n_sites,), 'start_costs')
    legs, site_nodes = legs_of_sites(task, between, entry)
    soft = config.temperature > 0
    if task.formula.holds(task.initial_bits):
        return TaskSolution(0.0, (), True, 0.0, 0.0 if soft else None)
    policy, nodes = solve_on_legs(task, legs, site_nodes, config,
                                  completion_cost=config.option_cost,
                                  prune=soft or _is_metric(legs, bool(task.reversible)))
    way = policy.rollout()
    cost, node = 0.0, None
    for jump in way:
        leg = policy.legs.entry if node is None else (
            policy.legs.flip[node] if jump.flips else policy.legs.through[node])
        cost += float(leg[jump.node]) + (config.option_cost if jump.flips else 0.0)
        node = jump.node
    site_of = {int(places[0]): site for site, places in zip(task.sites, site_nodes, strict=True)}
    sequence = tuple(site_of[int(nodes[jump.node])].name for jump in way if jump.flips)
    return TaskSolution(cost, sequence, not soft, 0.0 if soft else cost,
                        policy.value() if soft else None)


def legs_of_sites(task: Task, between: NDArray[np.float64], entry: NDArray[np.float64],
                  ) -> tuple[Legs, list[NDArray[np.int64]]]:
    """Return legs with one node per site, and the node of every site."""
    goals = np.array(task.site_goals, dtype=np.int64)
    order = np.argsort(goals, kind='stable')
    flip = between[np.ix_(order, order)]
    legs = Legs(goals[order], flip, flip, entry[order], task.trigger == 'contact')
    return legs, [np.flatnonzero(order == site) for site in range(len(goals))]


def _checked_costs(values: ArrayLike, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    try:
        costs = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f'{name}: must be an array of numbers of shape {shape}') from None
    if costs.shape != shape:
        raise InputError(f'{name}: expected shape {shape} for {shape[0]} sites, '
                         f'got {costs.shape}')
    if np.isnan(costs).any() or (costs < 0).any():
        raise InputError(f'{name}: entries must be >= 0 or inf, not negative or NaN')
    return costs


def _is_metric(legs: Legs, may_return: bool) -> bool:
    """Whether no stop at a third site makes a way cheaper, so that idle goals cannot help.

    What it costs to stay at a site counts only if a goal can be completed again.
    """
    if len(legs.entry) > _MAX_TRIANGLE_CHECK:
        return False
    direct = np.vstack([legs.flip, legs.entry])
    if not may_return:
        np.fill_diagonal(direct, 0.0)
    return not any((direct[:, middle, None] + direct[middle] < direct * (1 - _ROUNDING)).any()
                   for middle in range(len(legs.entry)))
