"""Rows of the task layer: the same cost matrix, the same optimum."""

from collections.abc import Iterator
import time

import algorithm_2
from comparison import compare, median_ms, Row
import cp_sat
import fast_downward
import numpy as np

from gk_planner import Config, solve_task, Task
from gk_planner.task_solver import TaskSolution

Pairs = list[tuple[int, int]]


def task_of(n_goals: int, before: Pairs) -> Task:
    """Return a task that wants all goals, in a given partial order."""
    return Task.from_dict({
        'sites': [{'name': f's{i}', 'features': [f'g{i}']} for i in range(n_goals)],
        'constraints': [f'g{first} before g{then}' for first, then in before]})


def costs_of(n_goals: int) -> tuple[np.ndarray, np.ndarray]:
    """Return distances between random places, and from the start."""
    places = np.random.default_rng(n_goals).random((n_goals + 1, 2)) * 10
    costs = np.hypot(*(places[:, None] - places).transpose(2, 0, 1))
    return costs[1:, 1:], costs[0, 1:]


def rows() -> Iterator[Row]:
    """Few goals with two constraints."""
    for n_goals in (9, 12):
        yield from _few_goals(n_goals)
    yield _many_goals(20)


def rich_orders(seconds: float = 60.0) -> Iterator[Row]:
    """Many goals in chains with cross links, against a minute of CP-SAT."""
    for n_goals in (50, 100, 150):
        yield _rich_order(n_goals, seconds)


def _few_goals(n_goals: int) -> Iterator[Row]:
    before = [(0, 1), (2, 3)]
    task, (between, entry) = task_of(n_goals, before), costs_of(n_goals)
    work = f'task layer, {n_goals} goals, 2 constraints'
    soft = Config(temperature=1.0)

    def ours() -> float:
        return _solved(task, between, entry).cost

    def ours_soft() -> float | None:
        return _solved(task, between, entry, soft).value

    def literal() -> float:
        return algorithm_2.solve(task, between, entry)[0]

    def engine() -> float:
        return cp_sat.solve(between, entry, before, workers=workers).cost

    def planner() -> float:
        return fast_downward.solve(between, entry, before).cost

    workers = _best_workers(between, entry, before)
    np.testing.assert_allclose(literal(), ours_soft(), rtol=1e-9)
    np.testing.assert_allclose(engine(), ours(), rtol=1e-5)
    np.testing.assert_allclose(planner(), ours(), rtol=1e-3)
    searching = [cp_sat.solve(between, entry, before, workers=workers).search_ms,
                 fast_downward.solve(between, entry, before).search_ms]

    def fresh(config: Config | None = None) -> TaskSolution:
        return _solved(task_of(n_goals, before), between, entry, config)

    anew, anew_soft = median_ms(fresh), median_ms(lambda: fresh(soft))
    yield compare(work, "the paper's Algorithm 2, literally", literal, ours_soft, target=100,
                  repeats=15, remark=f'ours anew {anew_soft:.2g} ms')
    yield compare(work, 'OR-Tools CP-SAT', engine, ours, target=50, repeats=15,
                  remark=f'{workers} workers, search alone {searching[0]:.2g} ms; ours anew '
                         f'{anew:.2g} ms')
    yield compare(work, 'Fast Downward, A* with LM-cut', planner, ours, target=500, repeats=15,
                  remark=f'search alone {searching[1]:.2g} ms; ours anew {anew:.2g} ms')


def _many_goals(n_goals: int) -> Row:
    before = [(0, 1), (2, 3)]
    task, (between, entry) = task_of(n_goals, before), costs_of(n_goals)
    workers = _best_workers(between, entry, before)
    np.testing.assert_allclose(cp_sat.solve(between, entry, before, workers=workers).cost,
                               _solved(task, between, entry).cost, rtol=1e-5)
    return compare(f'task layer, {n_goals} goals, 2 constraints', 'OR-Tools CP-SAT',
                   lambda: cp_sat.solve(between, entry, before, workers=workers),
                   lambda: _solved(task, between, entry), target=1, repeats=5,
                   remark=f'{workers} workers')


def _rich_order(n_goals: int, seconds: float) -> Row:
    before = _chains(n_goals, width=4, links=n_goals // 4)
    task, (between, entry) = task_of(n_goals, before), costs_of(n_goals)
    solution = _solved(task, between, entry)
    ours = median_ms(lambda: _solved(task, between, entry), 3)
    began = time.perf_counter()
    answer = cp_sat.solve(between, entry, before, seconds=seconds)
    theirs = (time.perf_counter() - began) * 1e3
    assert answer.bound <= solution.cost + 1e-3 and answer.cost >= solution.cost - 1e-3
    if answer.optimal:
        reached = 'proven too'
    elif np.isfinite(answer.cost):
        reached = (f'{answer.cost / solution.cost - 1:.1%} above the optimum, bound '
                   f'{1 - answer.bound / solution.cost:.1%} below')
    else:
        reached = 'no plan'
    return Row(f'proven optimum, {n_goals} goals, {len(before)} constraints, '
               f'{len(solution.policy.states)} task states',
               f'OR-Tools CP-SAT, {seconds:g} s', theirs, ours, 1, f'CP-SAT: {reached}')


def _solved(task: Task, between: np.ndarray, entry: np.ndarray,
            config: Config | None = None) -> TaskSolution:
    """Solve by the table, which answers from every reachable state."""
    solution = solve_task(task, between, entry, config)
    assert solution.policy is not None
    return solution


def _best_workers(between: np.ndarray, entry: np.ndarray, before: Pairs) -> int:
    """Return the number of workers with which CP-SAT is fastest here."""
    return min((1, 2, 8), key=lambda workers: median_ms(
        lambda: cp_sat.solve(between, entry, before, workers=workers), 3))


def _chains(n_goals: int, width: int, links: int) -> Pairs:
    """Return the order of some chains, and random links from one to a later place of another."""
    rng = np.random.default_rng(n_goals)
    pairs = [(goal, goal + width) for goal in range(n_goals - width)]
    for _ in range(links):
        first, then = sorted(rng.integers(0, n_goals, 2).tolist())
        if then - first > width and first % width != then % width:
            pairs.append((first, then))
    return sorted(set(pairs))
