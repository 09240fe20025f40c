"""The paper's figures B to E with our numbers, as PNGs.

B and C: time against cells and against goals. D and E: cumulative time over regrounded tasks on
20 x 20 cells with nine goals and two constraints, from a complete ensemble. The zero-shot policy
is solved once with equal costs of all options (Q_o = I) and then only looked up.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
import time

from comparison import nine_goal_task, random_map, random_places
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
import numpy as np
import product_space

from gk_planner import BaseSpace, Planner, solve_task
from gk_planner.occupancy_map import OccupancyMap

EPISODES = 10
PAPER_MS = 15.0
OURS, THEIRS, MARK = '#00798c', '#d1495b', '#edae49'


def draw(folder: Path) -> list[str]:
    """Write the figures and return what they say in words."""
    folder.mkdir(exist_ok=True)
    return [_scaling(folder / 'figure_b_c.png'), _reuse(folder / 'figure_d_e.png')]


def _episodes(side: int, n_goals: int, solve: Callable) -> np.ndarray:
    """Return the milliseconds of some tasks at random places."""
    times = []
    for episode in range(EPISODES + 1):
        grid_map = random_map(side, episode)
        start, *places = random_places(grid_map, n_goals + 1, episode)
        task = nine_goal_task(places)
        began = time.perf_counter()
        solve(grid_map, task, start)
        times.append((time.perf_counter() - began) * 1e3)
    return np.array(times[1:])


def _ours(grid_map: OccupancyMap, task: object, start: tuple[float, float]) -> None:
    Planner(BaseSpace(grid_map)).plan(task, start)


def _product(grid_map: OccupancyMap, task: object, start: tuple[float, float]) -> None:
    product_space.solve(BaseSpace(grid_map), task, start)


def _scaling(path: Path) -> str:
    figure = Figure(figsize=(11, 4.2), layout='constrained')
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    sides, goals = (10, 20, 40, 80, 160, 320, 640, 1000), (2, 4, 6, 8, 10, 12, 14, 16, 18)
    last = {}
    for solve, label, colour, most in ((_ours, 'gk_planner', OURS, 10**9),
                                       (_product, 'full product space', THEIRS, 2e6)):
        cells = [side for side in sides if side**2 * 2**6 <= most]
        _band(left, [side**2 for side in cells], [_episodes(side, 6, solve) for side in cells],
              label, colour)
        counts = [count for count in goals if 40**2 * 2**count <= most]
        last[label] = [_episodes(40, count, solve) for count in counts]
        _band(right, counts, last[label], label, colour)
    left.set(xscale='log', yscale='log', xlabel='cells', ylabel='time [ms]',
             title='B: six goals, growing map')
    right.set(yscale='log', xlabel='goals', title='C: 40 x 40 cells, growing task')
    for axes in (left, right):
        axes.legend(frameon=False)
    figure.savefig(path, dpi=130)
    n_common = len(last['full product space'])
    ratio = (np.mean(last['full product space'][-1]) / np.mean(last['gk_planner'][n_common - 1]))
    return (f'B, C: time of a whole plan from nothing, base space and options included; mean of '
            f'{EPISODES} random worlds and its 95 % interval. At {goals[n_common - 1]} goals on '
            f'40 x 40 cells the product space takes {ratio:.0f} times as long.')


def _band(axes: Axes, x: Iterable[float], samples: list[np.ndarray], label: str,
          colour: str) -> None:
    means = np.array([sample.mean() for sample in samples])
    error = np.array([1.96 * sample.std(ddof=1) / len(sample)**0.5 for sample in samples])
    axes.plot(list(x), means, 'o-', color=colour, label=label, markersize=4)
    axes.fill_between(list(x), np.maximum(means - error, means / 10), means + error, color=colour,
                      alpha=0.2, linewidth=0)


def _reuse(path: Path, n_tasks: int = 200, n_product: int = 40) -> str:
    grid_map = OccupancyMap(np.zeros((20, 20), dtype=np.int8), 1.0)
    space = BaseSpace(grid_map)
    began = time.perf_counter()
    planner = Planner(space)
    planner.library.complete()
    ensemble_ms = (time.perf_counter() - began) * 1e3
    worlds = [random_places(grid_map, 10, seed) for seed in range(n_tasks)]
    tasks = [(nine_goal_task(places), start) for start, *places in worlds]
    planner.plan(*tasks[0])
    ours = [_timed(lambda: planner.plan(task, start)) for task, start in tasks]  # noqa: B023
    product = [_timed(lambda: product_space.solve(space, task, start))  # noqa: B023
               for task, start in tasks[:n_product]]
    # The zero-shot order, once for all tasks of this form.
    order = [int(name[1:]) for name in
             solve_task(tasks[0][0], np.ones((9, 9)), np.ones(9)).sequence]
    zero = [_timed(lambda: _look_up(planner, worlds, index, order))  # noqa: B023
            for index in range(n_tasks)]
    excess = np.mean([value / planner.plan(task, start).cost for (value, _), (task, start)
                      in zip(zero, tasks, strict=True)])

    figure = Figure(figsize=(11, 4.2), layout='constrained')
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _cumulative(left, [ms for _, ms in product], 0.0, 'full product space', THEIRS)
    _cumulative(left, [PAPER_MS] * n_tasks, 0.0, "the paper's 15 ms a task", MARK)
    _cumulative(left, [ms for _, ms in ours], ensemble_ms, 'gk_planner, with its ensemble', OURS)
    left.set(yscale='log', xlabel='regrounded tasks', ylabel='cumulative time [ms]',
             title='D: nine goals, 20 x 20 cells')
    _cumulative(right, [PAPER_MS] * n_tasks, 0.0, "the paper's 15 ms a task", MARK)
    _cumulative(right, [ms for _, ms in ours], 0.0, 'gk_planner, optimal', OURS)
    _cumulative(right, [ms for _, ms in zero], 0.0, 'zero-shot (equal option costs)', '#3d5a80')
    ours_ms, zero_ms = (float(np.median([ms for _, ms in kind])) for kind in (ours, zero))
    right.set(xlabel='regrounded tasks', ylim=(0, 4 * sum(ms for _, ms in ours)),
              title='E: close-up, the ensemble given')
    for axes in (left, right):
        axes.legend(frameon=False)
    figure.savefig(path, dpi=130)
    return (f'D, E: a regrounded nine-goal task takes {ours_ms:.2g} ms (median of {n_tasks}; the '
            f'paper: 15 ms), the product space {np.median([ms for _, ms in product]):.3g} ms, the '
            f'complete ensemble {ensemble_ms:.3g} ms once. The zero-shot policy takes '
            f'{zero_ms:.2g} ms a task to look up its options; its plans cost {excess:.2f} times '
            'the optimum.')


def _look_up(planner: Planner, worlds: list, index: int, order: list[int]) -> float:
    """Return the metres of visiting the sites in a given order, by options that are known."""
    start, *places = worlds[index]
    cells = [planner.base_space.start_cell(place) for place in (start, *places)]
    stops = [0, *(site + 1 for site in order)]
    options = planner.library.get([cells[stop] for stop in stops[1:]])
    return float(sum(option.metres(np.array([cells[stop]]))[0]
                     for option, stop in zip(options, stops[:-1], strict=True)))


def _timed(function: Callable[[], object]) -> tuple[object, float]:
    began = time.perf_counter()
    result = function()
    return result, (time.perf_counter() - began) * 1e3


def _cumulative(axes: Axes, times: list[float], first: float, label: str, colour: str) -> None:
    axes.plot(np.arange(len(times) + 1), np.cumsum([first, *times]), color=colour, label=label)
