"""The full product space, as fast as compiled code makes it: one sparse graph, scipy's dijkstra.

Nodes are (task state, cell); moves keep the task state, a goal's cell flips its bit. This is what
planning without options and goal kernel has to solve.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from gk_planner import BaseSpace, Task
from gk_planner.dnf import clauses
from gk_planner.grid_shortest_path import Grid
from gk_planner.options import grid_of


def solve(space: BaseSpace, task: Task, start: tuple[float, float]) -> float:
    """Return the metres of the cheapest plan; every goal has one site, a point."""
    grid = grid_of(space)
    n_cells, n_states = grid.moves.size, 2 ** len(task.goals)
    source, end, length = edges(grid)
    states = np.arange(n_states)[:, None] * n_cells
    rows, cols = [(states + source).ravel()], [(states + end).ravel()]
    costs = [np.tile(length * space.resolution, n_states)]
    for goal in range(len(task.goals)):
        site, = task.goal_sites(goal)
        cell = space.start_cell(task.sites[site].position)
        allowed = _may_flip(task, goal)
        rows.append(allowed * n_cells + cell)
        cols.append((allowed | 1 << goal) * n_cells + cell)
        costs.append(np.full(allowed.size, 1e-12))  # an entry of 0 would be no edge
    graph = sparse.csr_matrix(
        (np.concatenate(costs), (np.concatenate(rows), np.concatenate(cols))),
        shape=(n_states * n_cells,) * 2)
    ends = np.flatnonzero(terminal_states(task))[:, None] * n_cells + np.arange(n_cells)
    return float(dijkstra(graph, indices=space.start_cell(start))[ends].min())


def edges(grid: Grid) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sources, ends and lengths in cells of all moves."""
    parts = []
    for move, offset in enumerate(grid.offsets):
        source = np.flatnonzero((grid.moves >> move) & 1)
        parts.append((source, source + offset, np.full(source.size, 1.0 if move < 4 else 2**0.5)))
    source, end, length = (np.concatenate(column) for column in zip(*parts, strict=True))
    return source, end, length


def terminal_states(task: Task) -> np.ndarray:
    """Return which task states satisfy the formula."""
    states = np.arange(2 ** len(task.goals))
    holds = np.zeros(states.size, dtype=bool)
    for clause in clauses(task.formula):
        true, false = (sum(1 << goal for goal in goals) for goals in (clause.true, clause.false))
        holds |= (states & true == true) & (states & false == 0)
    return holds


def _may_flip(task: Task, goal: int) -> np.ndarray:
    states = np.arange(2 ** len(task.goals))
    allowed = states >> goal & 1 == 0
    for rule in task.bit_constraints:
        if rule.control == goal:
            allowed &= ((states >> rule.control & 1 != rule.control_value)
                        | (states >> rule.condition & 1 != rule.condition_value))
    return states[allowed]
