"""The task layer alone: from a task and a cost matrix to the cheapest sequence of completions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from numba import njit
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gk_planner.boolean_task import once_per_task, Task
from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.config import Config
from gk_planner.conflicts import decided_by_clauses, explain_infeasible
from gk_planner.errors import InputError, LimitError
from gk_planner.goal_kernel import Legs
from gk_planner.state_listing import FLIP_BYTES, STATE_BYTES
from gk_planner.task_engine import is_installed, solve_by_engine
from gk_planner.task_policy import solve_task_policy, TaskPolicy
from gk_planner.task_states import (
    most_states,
    reachable_states,
    relevant_goals,
    subset_states,
    SubsetStates,
    TaskStates,
)
from gk_planner.task_table import VALUE_BYTES

# Largest matrix for which the triangle inequality is checked (cubic work).
_MAX_TRIANGLE_CHECK = 300
# Sums of legs that are shorter by this part only are equal up to rounding.
_ROUNDING = 1e-12
# With more bits than this it is worth asking the clauses of the formula first.
_MANY_BITS = 16
_DEFAULT = Config()


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
    policy : TaskPolicy or None
        The answer from every reachable task state; None if there is nothing to do, or if the
        task was too large for a table.
    nodes : tuple of str
        Names of the sites that the nodes of the policy stand for, in the order of their numbers.

    """

    cost: float
    sequence: tuple[str, ...]
    optimal: bool
    bound: float
    value: float | None = None
    policy: TaskPolicy | None = field(default=None, repr=False, compare=False)
    nodes: tuple[str, ...] = field(default=(), repr=False, compare=False)


# A jump to a node of given legs, and whether it flips its bit or passes over a done site.
Stop = tuple[int, bool]


@dataclass(frozen=True, eq=False)
class TaskRun:
    """What was found on given legs.

    Attributes
    ----------
    way : tuple of Stop
        From the start to the first state in which the formula holds.
    optimal : bool
        Whether no way is cheaper (at temperature > 0: false).
    bound : float or None
        No way costs less; None stands for the cost of this one.
    policy : TaskPolicy or None
        On the nodes that matter; None if the task was too large for a table.
    nodes : ndarray of int
        The number in the legs of every node of the policy.

    """

    way: tuple[Stop, ...]
    optimal: bool
    bound: float | None
    policy: TaskPolicy | None
    nodes: NDArray[np.int64]

    @property
    def value(self) -> float | None:
        """-log z of the entry at temperature > 0."""
        return self.policy.value() if self.policy is not None and self.policy.soft else None


def solve_on_legs(task: Task, legs: Legs, site_nodes: Sequence[NDArray[np.int64]], config: Config,
                  *, completion_cost: float, prune: bool | None = True, beyond_table: bool = True,
                  checkpoint: Checkpoint = proceed) -> TaskRun:
    """Solve the task on given legs.

    Parameters
    ----------
    task, legs : Task, Legs
        What is to be done, and what it costs to get from node to node.
    site_nodes : sequence of ndarray
        The nodes of every site, for the reason why there is no plan.
    config : Config
        Temperature and limits.
    completion_cost : float
        q_sigma of one completion, in the unit of the legs.
    prune : bool or None
        Leave out goals that cannot matter; right if the legs obey the triangle inequality. None:
        find out whether they do (at temperature > 0: whether no stop opens a way).
    beyond_table : bool
        Search tasks that are too large for a table.
    checkpoint : callable
        Called now and then; may raise to stop.

    Raises
    ------
    InfeasibleError
        If no sequence makes the formula hold; it carries the irreducible conflict.
    LimitError
        If the table of task states would be too large, and nothing else can serve.

    """
    reachable = legs.reachable()
    goals = _goals_that_matter(task, legs, reachable, prune, soft=config.temperature > 0)
    takes_part = reachable
    if len(goals) < len(task.goals):
        takes_part = reachable & _is_among(task, goals)[legs.node_goal]
    nodes = takes_part.nonzero()[0]
    kept = legs.restricted(nodes)
    if len(goals) > _MANY_BITS and decided_by_clauses(task, kept) is False:
        raise explain_infeasible(task, legs, site_nodes, config, checkpoint)
    problem = _Problem(task, goals, kept, nodes, config, completion_cost, checkpoint)
    try:
        run = _by_table(problem)
    except LimitError:
        _check_engine(problem, beyond_table)
        run = _by_engine(problem)
    if run is None:
        raise explain_infeasible(task, legs, site_nodes, config, checkpoint)
    return run


@once_per_task
def _is_among(task: Task, goals: tuple[int, ...]) -> NDArray[np.bool_]:
    is_among = np.zeros(len(task.goals), dtype=bool)
    is_among[list(goals)] = True
    return is_among


class _Problem(NamedTuple):
    """A task on the legs between the nodes that matter, and the numbers of these nodes."""

    task: Task
    goals: tuple[int, ...]
    legs: Legs
    nodes: NDArray[np.int64]
    config: Config
    completion_cost: float
    checkpoint: Checkpoint


def _goals_that_matter(task: Task, legs: Legs, reachable: NDArray[np.bool_], prune: bool | None,
                       soft: bool) -> tuple[int, ...]:
    possible = tuple(sorted(set(legs.node_goal[reachable].tolist())))
    if legs.passes_done:
        return possible
    relevant = relevant_goals(task, possible, drop_harmful=not soft)
    if relevant == possible or prune or (
            prune is None and _is_metric(legs, bool(task.reversible), soft)):
        return relevant
    return tuple(goal for goal in possible if goal not in task.done - task.reversible)


def _by_table(problem: _Problem) -> TaskRun | None:
    task, goals, legs, nodes, config, completion_cost, checkpoint = problem
    max_bytes = config.task_memory * 1_000_000
    soft = config.temperature > 0
    states: SubsetStates | TaskStates | None = None
    if not legs.passes_done:
        states = subset_states(task, goals, max_bytes)
    if states is None:
        states = reachable_states(task, goals, max_bytes, checkpoint)
    policy = solve_task_policy(states, legs, completion_cost=completion_cost, soft=soft,
                               max_sweeps=config.max_iterations, max_bytes=max_bytes,
                               checkpoint=checkpoint)
    places, n_nodes = nodes.tolist(), len(nodes)
    way = tuple([(places[column % n_nodes], column < n_nodes)
                 for column in policy.follow().columns.tolist()])
    if not way:
        return None
    return TaskRun(way, not soft, 0.0 if soft else None, policy, nodes)


def _by_engine(problem: _Problem) -> TaskRun | None:
    task, goals, legs, nodes, config, completion_cost, checkpoint = problem
    run = solve_by_engine(task, goals, legs, completion_cost=completion_cost,
                          time_limit=config.time_limit, checkpoint=checkpoint)
    if run is None:
        return None
    return TaskRun(tuple((node, True) for node in nodes[list(run.nodes)].tolist()),
                   run.optimal, None if run.optimal else run.bound, None, nodes)


def _check_engine(problem: _Problem, is_wanted: bool) -> None:
    """Raise the error that says how large the table would be, if there is no way around it."""
    task, goals, legs, _, config, *_ = problem
    if legs.passes_done or config.temperature > 0 or not task.reversible.isdisjoint(goals):
        advice = ('reversible goals, trigger contact and temperature > 0 need the table; '
                  'add constraints or raise task_memory')
    elif is_wanted and is_installed():
        return
    else:
        advice = ('install OR-Tools (pip install ortools) to search without the table, add '
                  'constraints or raise task_memory')
    raise LimitError(f'{task.source}: the table of task states does not fit into task_memory '
                     f'{config.task_memory} MB; over {len(goals)} goals it has up to '
                     f'{_size(problem)}; {advice}')


def _size(problem: _Problem) -> str:
    """Tell how many states and bytes the table may have; both may be beyond all floats."""
    task, goals, legs, *_ = problem
    n_states = Decimal(most_states(task, goals))
    # On the average half of the bits may flip, and all where they may flip back or be passed.
    part = 1 if legs.passes_done or not task.reversible.isdisjoint(goals) else 2
    n_further_values = len(legs.node_goal) - len(goals)
    state_bytes = STATE_BYTES + 8 * -(-len(goals) // 64) + (
        len(goals) * FLIP_BYTES + n_further_values * VALUE_BYTES) // part
    return f'{n_states:.3g} states and {n_states * state_bytes / 1_000_000:.3g} MB'


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
    config = config or _DEFAULT
    n_sites = len(task.sites)
    between = _checked_costs(site_costs, (n_sites, n_sites), 'site_costs')
    entry = _checked_costs(start_costs, (n_sites,), 'start_costs')
    legs, site_nodes = legs_of_sites(task, between, entry)
    soft = config.temperature > 0
    if task.is_done:
        return TaskSolution(0.0, (), True, 0.0, 0.0 if soft else None)
    run = solve_on_legs(task, legs, site_nodes, config, completion_cost=config.option_cost,
                        prune=None)
    names = _node_names(task)
    cost, origin = 0.0, -1
    for node, flips in run.way:
        cost += legs.entry.item(node) if origin < 0 else legs.flip.item(origin, node)
        cost += config.option_cost if flips else 0.0
        origin = node
    return TaskSolution(cost, tuple([names[node] for node, flips in run.way if flips]),
                        run.optimal, cost if run.bound is None else min(run.bound, cost),
                        run.value, run.policy,
                        tuple([names[node] for node in run.nodes.tolist()]) if run.policy else ())


def legs_of_sites(task: Task, between: NDArray[np.float64], entry: NDArray[np.float64],
                  ) -> tuple[Legs, Sequence[NDArray[np.int64]]]:
    """Return legs with one node per site, and the node of every site."""
    order, pairs, node_goal, site_nodes = _site_order(task)
    flip = between.take(pairs)
    return Legs(node_goal, flip, flip, entry.take(order), task.trigger == 'contact'), site_nodes


@once_per_task
def _site_order(task: Task) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64],
                                     list[NDArray[np.int64]]]:
    """Return the sites in the order of their goals, and the places of pairs of them in a matrix.

    And the goal of each in this order, and the place of every site in it.
    """
    goals = np.array(task.site_goals, dtype=np.int64)
    order = np.argsort(goals, kind='stable')
    pairs = order[:, None] * len(order) + order
    return order, pairs, goals[order], list(np.argsort(order)[:, None])


@once_per_task
def _node_names(task: Task) -> list[str]:
    return [task.sites[site].name for site in _site_order(task)[0]]


def _checked_costs(values: ArrayLike, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    try:
        costs = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f'{name}: must be an array of numbers of shape {shape}') from None
    if costs.size == 0:
        costs = costs.reshape(shape if 0 in shape else -1)
    if costs.shape != shape:
        raise InputError(f'{name}: expected shape {shape} for {shape[0]} sites, '
                         f'got {costs.shape}')
    if not np.minimum.reduce(costs, axis=None, initial=0.0) >= 0:  # NaN is the least
        raise InputError(f'{name}: entries must be >= 0 or inf, not negative or NaN')
    return costs


def _is_metric(legs: Legs, may_return: bool, soft: bool) -> bool:
    """Whether no stop at a third site makes a way cheaper, so that idle goals cannot help.

    What it costs to stay at a site counts only if a goal can be completed again. ``soft``: only
    whether there is a way counts, and not what it costs.
    """
    if len(legs.entry) > _MAX_TRIANGLE_CHECK:
        return False
    flip, entry = legs.flip, legs.entry
    if soft:
        flip, entry = (np.where(np.isfinite(costs), 0.0, np.inf) for costs in (flip, entry))
    return bool(_obeys_triangle(flip, entry, may_return))


@njit(cache=True, nogil=True)
def _obeys_triangle(costs: NDArray[np.float64], entry: NDArray[np.float64], may_return: bool,
                    ) -> bool:
    """costs[i, j] <= costs[i, k] + costs[k, j], also where i is the start."""
    for origin in range(-1, entry.size):
        row = entry if origin < 0 else costs[origin]
        for middle in range(entry.size):
            first = row[middle] if may_return or origin != middle else 0.0
            for end in range(entry.size):
                second = costs[middle, end] if may_return or middle != end else 0.0
                direct = row[end] if may_return or origin != end else 0.0
                if first + second < direct * (1 - _ROUNDING):
                    return False
    return True
