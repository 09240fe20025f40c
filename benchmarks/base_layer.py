"""Rows of the base space and the options, at temperature 0 and above."""

from collections.abc import Iterator

from comparison import compare, Limit, median_ms, random_map, Row
import numpy as np
from product_space import edges
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from skimage.graph import MCP_Geometric

from gk_planner import BaseSpace, Config
from gk_planner.grid_desirability import log_desirability
from gk_planner.options import grid_of, Option, solve_option


def rows() -> Iterator[Row]:
    """One option: shortest paths from every cell to one, with the policy."""
    for side in (400, 1000):
        yield from _one_option(side)


def soft_rows() -> Iterator[Row]:
    """One option at temperature > 0: the same linear system by sparse LU."""
    for temperature in (0.01, 0.1, 1.0, 10.0, 100.0):
        yield _soft_option(temperature)


def _one_option(side: int) -> Iterator[Row]:
    grid_map = random_map(side, side)
    space = BaseSpace(grid_map)
    grid = grid_of(space)
    cells = np.flatnonzero(space.free)
    target = int(cells[0])
    source, end, length = edges(grid)
    graph = sparse.csr_matrix((length, (end, source)), shape=(grid.moves.size,) * 2)
    field = np.where(space.free, 1.0, -1.0)
    work = f'one option, {side} x {side} cells'

    def ours() -> Option:
        return solve_option(grid, space, target)

    np.testing.assert_allclose(dijkstra(graph, indices=target)[cells] * space.resolution,
                               ours().metres(cells), rtol=1e-9)
    yield compare(work, 'scipy dijkstra, graph given', lambda: dijkstra(graph, indices=target),
                  ours, target=3 if side == 1000 else 0)
    yield compare(work, 'scikit-image MCP (cuts corners)',
                  lambda: MCP_Geometric(field).find_costs([divmod(target, field.shape[1])]), ours)
    yield Row(f'base space, {side} x {side} cells', 'two options of ours', 2 * median_ms(ours),
              median_ms(lambda: grid_of(BaseSpace(grid_map))), 1)


def _soft_option(temperature: float) -> Row:
    space = BaseSpace(random_map(400, 3), Config(temperature=temperature))
    grid = grid_of(space)
    target = int(np.flatnonzero(space.free)[0])
    source, end, length = edges(grid)

    def lu() -> np.ndarray:
        gain = np.exp(-length / temperature) / 10
        stay = np.full(grid.moves.size, 2 * np.exp(-1 / temperature) / 10)
        stay[target] /= 2
        matrix = sparse.diags(1 - stay) - sparse.csr_matrix(
            (gain, (source, end)), shape=(grid.moves.size,) * 2)
        right = np.zeros(grid.moves.size)
        right[target] = 0.1
        return sparse.linalg.spsolve(matrix.tocsc(), right)

    def ours() -> np.ndarray:
        return log_desirability(grid, target, n_actions=10, temperature=temperature)

    z, log_z = lu(), ours()
    sound = z > 1e-250
    np.testing.assert_allclose(np.log(z[sound]), log_z[sound], atol=1e-6)
    lost = np.mean(~sound[space.free.ravel()])
    return compare(f'log z, 400 x 400 cells, temperature {temperature:g}', 'sparse LU', lu, ours,
                   target=1, repeats=3,
                   remark=f'LU underflows in {lost:.0%} of the cells' if lost else '')


def limits() -> Iterator[Limit]:
    """What an option takes in memory."""
    for temperature in (0.0, 0.01, 1.0, 100.0):
        space = BaseSpace(random_map(400, 3), Config(temperature=temperature))
        option = solve_option(grid_of(space), space, int(np.flatnonzero(space.free)[0]))
        yield Limit(f'an option kept, temperature {temperature:g}',
                    option.nbytes / space.free.size, 'bytes per cell', 6)
