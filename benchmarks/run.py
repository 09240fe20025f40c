"""Measure gk_planner beside other ways to do the same work, and write docs/benchmarks.md.

Every row is one piece of work done by both in the same run, alternating; times are medians and
what counts is the ratio. Before timing, both answers are compared.
"""

from collections.abc import Callable
from pathlib import Path
import platform
import statistics
import time

import algorithm_2
import numpy as np
import scipy
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from gk_planner import BaseSpace, Config, Planner, solve_task, Task
from gk_planner.full_task_mdp import solve_full_task_mdp
from gk_planner.grid_desirability import log_desirability
from gk_planner.grid_shortest_path import Grid, shortest_paths
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.options import grid_of

OUTPUT = Path(__file__).resolve().parent.parent / 'docs' / 'benchmarks.md'
Row = tuple[str, str, float, float]


def main() -> None:
    """Run all comparisons and write the table."""
    rows = [*options(), *desirabilities(), *task_layers(), *product_spaces()]
    lines = ['# Benchmarks', '', 'Written by `make bench`; ratios of medians within one run.', '',
             f'Python {platform.python_version()}, numpy {np.__version__}, scipy '
             f'{scipy.__version__}, {platform.machine()}.', '',
             '| work | against | theirs [ms] | ours [ms] | ratio |', '|---|---|---:|---:|---:|']
    for work, against, theirs, ours in rows:
        lines.append(f'| {work} | {against} | {theirs:.3g} | {ours:.3g} | {theirs / ours:.3g} |')
        print(lines[-1])
    lines += ['', *latencies()]
    OUTPUT.write_text('\n'.join(lines) + '\n', encoding='utf-8')


def latencies() -> list[str]:
    """Answers of the node while it plans; nothing where ROS 2 is not installed."""
    try:
        import node_latency
    except ImportError:
        return ['Latency of the node: not measured, ROS 2 is not installed.']
    alone, answered, stopped = node_latency.measure()
    return ['The node, planning 12 goals on 1000 x 1000 cells (medians, loopback):', '',
            '| what | ms |', '|---|---:|', f'| `set_task` until its answer | {alone:.0f} |',
            f'| `cancel` during planning, until its answer | {answered:.0f} |',
            f'| `cancel` during planning, until planning has stopped | {stopped:.0f} |']


def compare(work: str, against: str, theirs: Callable[[], object], ours: Callable[[], object],
            repeats: int = 5) -> Row:
    """Time two functions in turns, after one unmeasured call of each."""
    times: list[list[float]] = [[], []]
    for _ in range(repeats + 1):
        for kind, function in enumerate((theirs, ours)):
            began = time.perf_counter()
            function()
            times[kind].append((time.perf_counter() - began) * 1e3)
    return (work, against, *(statistics.median(kind[1:]) for kind in times))


def random_map(side: int, rng: np.random.Generator) -> OccupancyMap:
    """Return a square map with boxes on about a fifth of it."""
    data = np.zeros((side, side), dtype=np.int8)
    for _ in range(40):
        row, col = rng.integers(0, side, 2)
        height, width = rng.integers(1, max(2, side // 8), 2)
        data[row:row + height, col:col + width] = 100
    return OccupancyMap(data, 0.05)


def edges(grid: Grid) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sources, targets and lengths of all moves."""
    parts = []
    for move, offset in enumerate(grid.offsets):
        source = np.flatnonzero((grid.moves >> move) & 1)
        length = np.full(len(source), 1.0 if move < 4 else np.sqrt(2))
        parts.append((source, source + offset, length))
    source, target, length = (np.concatenate(column) for column in zip(*parts, strict=True))
    return source, target, length


def options() -> list[Row]:
    """One option: shortest paths from every cell to one."""
    rows = []
    for side in (400, 1000):
        space = BaseSpace(random_map(side, np.random.default_rng(side)))
        grid = grid_of(space)
        target = int(np.flatnonzero(space.free)[0])
        source, end, length = edges(grid)
        graph = sparse.csr_matrix((length, (end, source)), shape=(grid.moves.size,) * 2)
        np.testing.assert_allclose(dijkstra(graph, indices=target),
                                   shortest_paths(grid, target)[0], rtol=1e-9)
        rows.append(compare(f'one option, {side} x {side} cells', 'scipy dijkstra',
                            lambda graph=graph, target=target: dijkstra(graph, indices=target),
                            lambda grid=grid, target=target: shortest_paths(grid, target)))
    return rows


def desirabilities() -> list[Row]:
    """One option at temperature > 0: the linear system by sparse LU, and by ordered sweeps."""
    rows = []
    space = BaseSpace(random_map(200, np.random.default_rng(3)))
    grid = grid_of(space)
    target = int(np.flatnonzero(space.free)[0])
    source, end, length = edges(grid)
    for temperature in (100.0, 10.0):
        def lu(temperature: float = temperature) -> np.ndarray:
            gain = np.exp(-length / temperature) / 10
            stay = np.full(grid.moves.size, 2 * np.exp(-1 / temperature) / 10)
            stay[target] /= 2
            matrix = sparse.diags(1 - stay) - sparse.csr_matrix(
                (gain, (source, end)), shape=(grid.moves.size,) * 2)
            right = np.zeros(grid.moves.size)
            right[target] = 0.1
            return sparse.linalg.spsolve(matrix.tocsc(), right)

        def ours(temperature: float = temperature) -> np.ndarray:
            return log_desirability(grid, target, n_actions=10, temperature=temperature)

        z, log_z = lu(), ours()
        sound = z > 1e-250
        np.testing.assert_allclose(np.log(z[sound]), log_z[sound], atol=1e-6)
        rows.append(compare(f'log z, 200 x 200 cells, temperature {temperature:g}', 'sparse LU',
                            lu, ours))
    return rows


def task_layers() -> list[Row]:
    """Nine and twelve goals with two constraints: Algorithm 2 literally, and one sweep."""
    rows = []
    for n_goals in (9, 12):
        rng = np.random.default_rng(n_goals)
        task = Task.from_dict({
            'sites': [{'name': f's{i}', 'features': [f'g{i}']} for i in range(n_goals)],
            'constraints': ['g0 before g1', 'g2 before g3']})
        places = rng.random((n_goals + 1, 2)) * 10
        costs = np.hypot(*(places[:, None] - places).transpose(2, 0, 1)) + 0.1

        def literal(task: Task = task, costs: np.ndarray = costs) -> float:
            return algorithm_2.solve(task, costs[1:, 1:], costs[0, 1:])

        def ours(task: Task = task, costs: np.ndarray = costs) -> float | None:
            return solve_task(task, costs[1:, 1:], costs[0, 1:],
                              Config(temperature=1.0)).value

        np.testing.assert_allclose(literal(), ours(), rtol=1e-9)
        rows.append(compare(f'task layer, {n_goals} goals, 2 constraints',
                            "the paper's Algorithm 2 (sparse matrix, z-iteration)",
                            literal, ours))
    return rows


def product_spaces() -> list[Row]:
    """A whole plan: Dijkstra on the full product space, and options with the goal kernel."""
    rng = np.random.default_rng(5)
    grid_map = random_map(40, rng)
    free = np.argwhere(grid_map.data == 0)
    places = [grid_map.centre_of(*cell) for cell in free[rng.permutation(len(free))[:7]].tolist()]
    task = Task.from_dict({'sites': [{'name': f's{i}', 'features': [f'g{i}'], 'position': place}
                                     for i, place in enumerate(places[1:])]})

    def full() -> float:
        plan = solve_full_task_mdp(task, grid_map, Config(), places[0])
        assert plan is not None
        return plan.cost

    def ours() -> float:
        return Planner(BaseSpace(grid_map)).plan(task, places[0]).cost

    np.testing.assert_allclose(full(), ours(), rtol=1e-9)
    return [compare('whole plan, 40 x 40 cells, 6 goals', 'full product space (heap Dijkstra)',
                    full, ours, repeats=3)]


if __name__ == '__main__':
    main()
