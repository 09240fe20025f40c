"""The naive reference: the task planned on the full product of task states and cells.

The full-task-MDP (paper, appendix "Proof of Task-MDP Decomposition") has the kernel
P_sigma o F o P_x on Sigma x X; its deterministic first-exit value is

    v(sigma, x) = min_a q(sigma, x, a) + v(sigma', x'),    v(sigma, x) = 0 where B(sigma).

It is solved here twice, forward by Dijkstra from a start and backward by value iteration, with
code of its own for the geometry and the task rules: tests and benchmarks compare the planner,
which never builds the product, with it. Time and memory grow as 2^goals times cells.
"""

from collections.abc import Iterator
from dataclasses import dataclass
import heapq
import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
import shapely

from gk_planner.annotations import Annotations
from gk_planner.boolean_task import Site, Task
from gk_planner.config import Config
from gk_planner.errors import NotConvergedError, StartError, TaskError
from gk_planner.occupancy_map import OccupancyMap

Cell = tuple[int, int]  # row, column
Bits = tuple[int, ...]  # one 0 or 1 per goal
Floats = NDArray[np.float64]

# Metres within which a point lies on a border or a line, and two distances are equal.
TOUCH = 1e-9


@dataclass(frozen=True)
class FullPlan:
    """An optimal solution of the full-task-MDP.

    Attributes
    ----------
    cost : float
        Metres travelled (weighted) plus the option costs.
    sequence : tuple of (str, str, (int, int))
        Goal name, site name and cell (row, column) of every flip, in order.
    expanded : int
        Number of product states that were settled.

    """

    cost: float
    sequence: tuple[tuple[str, str, Cell], ...]
    expanded: int


def cell_centres(grid_map: OccupancyMap) -> Floats:
    """Return the cell centres in the map frame, shape (rows, cols, 2)."""
    rows, cols = grid_map.data.shape
    x0, y0, yaw = grid_map.origin
    v, u = np.meshgrid(np.arange(rows) + 0.5, np.arange(cols) + 0.5, indexing='ij')
    x = x0 + grid_map.resolution * (u * math.cos(yaw) - v * math.sin(yaw))
    y = y0 + grid_map.resolution * (u * math.sin(yaw) + v * math.cos(yaw))
    return np.stack([x, y], axis=-1)


def cell_at(grid_map: OccupancyMap, xy: tuple[float, float]) -> Cell:
    """Return the (row, column) that holds a point; it may lie outside the map."""
    x0, y0, yaw = grid_map.origin
    dx, dy = xy[0] - x0, xy[1] - y0
    u = (dx * math.cos(yaw) + dy * math.sin(yaw)) / grid_map.resolution
    v = (dy * math.cos(yaw) - dx * math.sin(yaw)) / grid_map.resolution
    return math.floor(v), math.floor(u)


def distance_to_occupied(grid_map: OccupancyMap, config: Config) -> Floats:
    """Return the metres from each cell's centre to the nearest occupied one, inf if none is."""
    occupied = np.argwhere(grid_map.data >= config.occupied_threshold)
    if not len(occupied):
        return np.full(grid_map.data.shape, math.inf)
    cells = np.argwhere(np.ones(grid_map.data.shape, bool))
    distance = cKDTree(occupied).query(cells)[0] * grid_map.resolution
    return np.asarray(distance.reshape(grid_map.data.shape), float)


def covered(polygon: Any, centres: Floats) -> NDArray[np.bool_]:
    """Return which centres lie inside a polygon or on its border."""
    return np.asarray(shapely.dwithin(shapely.Polygon(polygon), shapely.points(centres), TOUCH))


def free_cells(grid_map: OccupancyMap, config: Config,
               annotations: Annotations | None) -> NDArray[np.bool_]:
    """Return the cells in which the robot's centre may be."""
    free = distance_to_occupied(grid_map, config) > config.robot_radius + TOUCH
    if not config.unknown_is_free:
        free &= grid_map.data >= 0
    for polygon in annotations.keep_out if annotations else ():
        free &= ~covered(polygon, cell_centres(grid_map))
    return free


def cell_weights(grid_map: OccupancyMap, config: Config,
                 annotations: Annotations | None) -> Floats:
    """Return the traversal weights: clearance layer times the factors of all covering polygons."""
    weights = np.ones(grid_map.data.shape)
    if config.clearance_distance > 0:
        nearness = 1 - distance_to_occupied(grid_map, config) / config.clearance_distance
        weights += (config.clearance_weight - 1) * np.maximum(0, nearness)
    for polygon, factor in annotations.weights if annotations else ():
        weights[covered(polygon, cell_centres(grid_map))] *= factor
    return weights


def crosses_backwards(p: Floats, q: Floats, a: Floats, b: Floats) -> NDArray[np.bool_]:
    """Return which steps p -> q cross the segment a -> b from its right to its left.

    A point on the line is on the right; touching an end of the segment is crossing it.
    """
    def left_of(origin: Any, heading: Any, point: Any) -> Any:
        """Signed distance of a point to the left of a directed line."""
        offset = point - origin
        cross = heading[..., 0] * offset[..., 1] - heading[..., 1] * offset[..., 0]
        return cross / np.hypot(heading[..., 0], heading[..., 1])

    from_right = left_of(a, b - a, p) <= TOUCH
    to_left = left_of(a, b - a, q) > TOUCH
    side_a, side_b = left_of(p, q - p, a), left_of(p, q - p, b)
    meets = (np.minimum(side_a, side_b) <= TOUCH) & (np.maximum(side_a, side_b) >= -TOUCH)
    return np.asarray(from_right & to_left & meets)


def shifted(values: NDArray[Any], move: Cell, outside: Any) -> NDArray[Any]:
    """Return the array whose entry at a cell is the value at cell + move."""
    rows, cols = values.shape[:2]
    frame = ((1, 1), (1, 1)) + ((0, 0),) * (values.ndim - 2)
    padded = np.pad(values, frame, constant_values=outside)
    return padded[1 + move[0]:1 + move[0] + rows, 1 + move[1]:1 + move[1] + cols]


def step_costs(grid_map: OccupancyMap, config: Config,
               annotations: Annotations | None) -> dict[Cell, Floats]:
    """Return for each move (row, column) the cost of making it from every cell, inf if barred."""
    free = free_cells(grid_map, config, annotations)
    weights = cell_weights(grid_map, config, annotations)
    centres = cell_centres(grid_map)
    costs: dict[Cell, Floats] = {}
    for move in itertools.product((-1, 0, 1), (-1, 0, 1)):
        if move == (0, 0) or (config.connectivity == 4 and 0 not in move):
            continue
        # For a straight move, the cells beside it are its own two ends.
        allowed = (free & shifted(free, move, False)
                   & shifted(free, (move[0], 0), False) & shifted(free, (0, move[1]), False))
        for line in annotations.one_way if annotations else ():
            ends = shapely.get_coordinates(shapely.LineString(line))
            for a, b in itertools.pairwise(ends):
                allowed &= ~crosses_backwards(centres, shifted(centres, move, math.nan), a, b)
        length = grid_map.resolution * math.hypot(*move)
        mean_weight = (weights + shifted(weights, move, math.inf)) / 2
        costs[move] = np.where(allowed, length * mean_weight, math.inf)
    return costs


def site_cells(site: Site, grid_map: OccupancyMap, free: NDArray[np.bool_],
               snap_radius: float) -> frozenset[Cell]:
    """Return the free cells at which a site is completed; none if it is unreachable."""
    if site.region:
        inside = np.argwhere(covered(site.region, cell_centres(grid_map)))
        spot = shapely.Polygon(site.region).representative_point()
        own = [(int(r), int(c)) for r, c in inside] or [cell_at(grid_map, (spot.x, spot.y))]
    elif site.position is None:
        raise TaskError(f'site {site.name}: needs a position or a region to be planned on a map')
    else:
        own = [cell_at(grid_map, site.position)]
    free_list = [(int(r), int(c)) for r, c in np.argwhere(free)]
    if found := set(own) & set(free_list):
        return frozenset(found)
    # Whole squared numbers, so that equally near cells tie exactly; argwhere orders them.
    squares = [min((r - r0) ** 2 + (c - c0) ** 2 for r0, c0 in own) for r, c in free_list]
    reach = ((snap_radius + TOUCH) / grid_map.resolution) ** 2
    if not squares or min(squares) > reach:
        return frozenset()
    return frozenset({free_list[squares.index(min(squares))]})


def flip_allowed(task: Task, bits: Bits, goal_idx: int) -> bool:
    """Say whether a goal's bit may flip now (paper, q_sigma_alpha of the BOG task)."""
    if bits[goal_idx] and goal_idx not in task.reversible:
        return False
    for rule in task.constraints:
        if (rule.control_feature in task.goals[goal_idx].features
                and bits[goal_idx] == rule.control_value):
            for other_idx, other in enumerate(task.goals):
                if (other_idx != goal_idx and rule.condition_feature in other.features
                        and bits[other_idx] == rule.condition_value):
                    return False
    return True


def flipped(bits: Bits, goal_idx: int) -> Bits:
    """Return the task state with one bit flipped."""
    return (*bits[:goal_idx], 1 - bits[goal_idx], *bits[goal_idx + 1:])


def accepts(task: Task, bits: Bits) -> bool:
    """Say whether the formula holds."""
    return bool(task.formula.holds([bool(bit) for bit in bits]))


def start_bits(task: Task) -> Bits:
    """Return the task state at the start."""
    return tuple(int(idx in task.done) for idx in range(len(task.goals)))


class FullTaskMdp:
    """The transitions of the full-task-MDP.

    Parameters
    ----------
    task : Task
    grid_map : OccupancyMap
    config : Config
    annotations : Annotations, optional

    Raises
    ------
    TaskError
        If sites of different goals share a cell under ``trigger: contact``.

    """

    def __init__(self, task: Task, grid_map: OccupancyMap, config: Config,
                 annotations: Annotations | None = None) -> None:
        self.task, self.grid_map, self.option_cost = task, grid_map, config.option_cost
        self.free = free_cells(grid_map, config, annotations)
        self.steps = step_costs(grid_map, config, annotations)
        self.site_cells = [site_cells(site, grid_map, self.free, config.snap_radius)
                           for site in task.sites]
        # The affordance F: cell -> {goal: the first of its sites there}.
        self.goals_at: dict[Cell, dict[int, int]] = {}
        for site_idx, cells in enumerate(self.site_cells):
            for cell in cells:
                self.goals_at.setdefault(cell, {}).setdefault(task.site_goals[site_idx], site_idx)
        if task.trigger == 'contact':
            for cell, goals in self.goals_at.items():
                if len(goals) > 1:
                    names = ' and '.join(task.sites[idx].name for idx in goals.values())
                    raise TaskError(f'sites: {names} share cell {cell}; under trigger: contact '
                                    'sites of different goals need cells of their own')

    def touched(self, bits: Bits, cell: Cell) -> list[tuple[int, int]]:
        """Return (goal, site) where entering a cell flips a bit, or tries to, under contact."""
        return [(goal_idx, site_idx) for goal_idx, site_idx in self.goals_at.get(cell, {}).items()
                if not bits[goal_idx] or goal_idx in self.task.reversible]

    def successors(self, bits: Bits, cell: Cell) -> Iterator[tuple[float, Bits, Cell, int | None]]:
        """Yield cost, task state, cell and completed site (or None) of every possible action."""
        contact = self.task.trigger == 'contact'
        for move, costs in self.steps.items():
            if math.isfinite(cost := float(costs[cell])):
                there = cell[0] + move[0], cell[1] + move[1]
                touched = self.touched(bits, there) if contact else []
                if not touched:
                    yield cost, bits, there, None
                for goal_idx, site_idx in touched:
                    if flip_allowed(self.task, bits, goal_idx):
                        yield cost + self.option_cost, flipped(bits, goal_idx), there, site_idx
        for goal_idx, site_idx in {} if contact else self.goals_at.get(cell, {}).items():
            if flip_allowed(self.task, bits, goal_idx):
                yield self.option_cost, flipped(bits, goal_idx), cell, site_idx


def start_cell(mdp: FullTaskMdp, start: tuple[float, float]) -> Cell:
    """Return the free cell of a start, or raise a StartError."""
    row, col = cell_at(mdp.grid_map, start)
    rows, cols = mdp.free.shape
    if not (0 <= row < rows and 0 <= col < cols and mdp.free[row, col]):
        raise StartError(f'start: {start} must lie in a free cell of the map')
    return row, col


def solve_full_task_mdp(task: Task, grid_map: OccupancyMap, config: Config,
                        start: tuple[float, float],
                        annotations: Annotations | None = None) -> FullPlan | None:
    """Solve a task by Dijkstra's algorithm on the full product space (temperature 0).

    Parameters
    ----------
    task : Task
    grid_map : OccupancyMap
    config : Config
    start : (float, float)
        Metres in the map frame.
    annotations : Annotations, optional

    Returns
    -------
    FullPlan or None
        None if the task is infeasible.

    """
    mdp = FullTaskMdp(task, grid_map, config, annotations)
    first = start_bits(task), start_cell(mdp, start)
    best = {first: 0.0}
    flips: dict[tuple[Bits, Cell], Any] = {first: None}  # linked back: (cell, site, flips before)
    settled: set[tuple[Bits, Cell]] = set()
    queue = [(0.0, first)]
    while queue:
        cost, state = heapq.heappop(queue)
        if state in settled:
            continue
        settled.add(state)
        if accepts(task, state[0]):
            return FullPlan(cost, _sequence(task, flips[state]), len(settled))
        for step, bits, cell, site_idx in mdp.successors(*state):
            if cost + step < best.get((bits, cell), math.inf):
                best[bits, cell] = cost + step
                done = flips[state]
                flips[bits, cell] = done if site_idx is None else (cell, site_idx, done)
                heapq.heappush(queue, (cost + step, (bits, cell)))
    return None


def _sequence(task: Task, flips: Any) -> tuple[tuple[str, str, Cell], ...]:
    """Unroll the linked flips into goal name, site name and cell, first flip first."""
    steps: list[tuple[str, str, Cell]] = []
    while flips:
        cell, site_idx, flips = flips
        goal = task.goals[task.site_goals[site_idx]]
        steps.append((goal.name, task.sites[site_idx].name, cell))
    return tuple(reversed(steps))


def value_iteration(task: Task, grid_map: OccupancyMap, config: Config,
                    annotations: Annotations | None = None) -> Floats:
    """Solve the full-task-MDP for every task state and cell by value iteration.

    Returns
    -------
    ndarray, shape (2, ..., 2, rows, cols)
        Cost to go, one axis of length 2 per goal: ``values[(*bits, row, col)]``; inf where the
        task cannot be completed.

    Raises
    ------
    NotConvergedError
        After ``config.max_iterations`` sweeps.

    """
    mdp = FullTaskMdp(task, grid_map, config, annotations)
    states = list(itertools.product((0, 1), repeat=len(task.goals)))
    values = np.full((2,) * len(task.goals) + mdp.free.shape, math.inf)
    for bits in states:
        if accepts(task, bits):
            values[bits][mdp.free] = 0
    for _ in range(config.max_iterations):
        swept = values.copy()
        for bits in states:
            if not accepts(task, bits):
                swept[bits] = _backup(mdp, values, bits)
        if np.array_equal(swept, values):
            return values
        values = swept
    raise NotConvergedError(f'max_iterations: {config.max_iterations} sweeps were too few')


def _backup(mdp: FullTaskMdp, values: Floats, bits: Bits) -> Floats:
    """Return min_a q + v(sigma', x') over the cells, for one task state."""
    contact = mdp.task.trigger == 'contact'
    completing = np.full(mdp.free.shape, math.inf)  # of flipping a bit at a cell
    entered = values[bits].copy()                   # of being at a cell just stepped into
    for cell in mdp.goals_at:
        for goal_idx, _ in mdp.touched(bits, cell):
            if flip_allowed(mdp.task, bits, goal_idx):
                after = mdp.option_cost + values[flipped(bits, goal_idx)][cell]
                completing[cell] = min(completing[cell], after)
            if contact:
                entered[cell] = completing[cell]
    moving = [costs + shifted(entered, move, math.inf) for move, costs in mdp.steps.items()]
    return np.asarray(np.min(moving if contact else [*moving, completing], axis=0))
