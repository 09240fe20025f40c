"""Goal-conditioned options o_g = (u_g, beta_g) on the base space.

An option controls from any cell to its target (paper, "Defining Options"). At temperature 0 its
policy is the exact shortest path; above 0 it is the saLMDP policy
u(a|x) ~ p_a exp(-q(x, a)) z(x'), of which ``path`` follows the most probable moves. beta is 1 at
the target and where the target cannot be reached (eq. termination).
"""

from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import NDArray

from gk_planner.base_space import BaseSpace
from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.compact_field import compact, CompactField
from gk_planner.grid_desirability import log_desirability
from gk_planner.grid_shortest_path import (
    ARRIVED,
    descend,
    follow,
    Grid,
    NO_WAY,
    path_costs,
    shortest_values,
    step_cost,
)

# Costs are multiples of 2^-36 m: sums of them are exact, so that equal ways tie exactly.
COST_UNIT = 2.0 ** -36

Cells = NDArray[np.int64]


def grid_of(space: BaseSpace) -> Grid:
    """Return what the kernels need of a base space."""
    weight = np.empty(0) if space.weight is None else space.weight.ravel()
    return Grid(space.moves, space.offsets[:space.config.connectivity], weight)


@dataclass(frozen=True, eq=False)
class Option:
    """The policy that brings the robot to one cell.

    Attributes
    ----------
    target : int
        The cell where the option ends.
    direction : ndarray of uint8
        The (most probable) move of every cell, ``ARRIVED`` at the target, ``NO_WAY`` elsewhere.
    log_z : CompactField, ndarray of float64 or None
        log z of every cell at temperature > 0.
    ends_on_entry : bool
        Entering the target completes the goal (trigger contact): from the target itself the
        option leaves and comes back.

    """

    grid: Grid
    resolution: float
    temperature: float
    target: int
    direction: NDArray[np.uint8]
    log_z: CompactField | NDArray[np.float64] | None
    ends_on_entry: bool

    @property
    def nbytes(self) -> int:
        """Bytes of memory that this option alone needs."""
        floor = self.grid.moves.nbytes if self.ends_on_entry else 0
        return self.direction.nbytes + floor + (self.log_z.nbytes if self.log_z is not None else 0)

    def is_feasible(self, cell: int) -> bool:
        """Return whether the target is reached from the cell (hitting theorem, simple_thm)."""
        return bool(self.direction[cell] != NO_WAY)

    def termination(self, cell: int) -> float:
        """Return beta(x): 1 where the option ends in success or failure, else 0."""
        return float(cell == self.target or not self.is_feasible(cell))

    def path(self, cell: int) -> Cells:
        """Return the cells from ``cell`` to the target."""
        return np.asarray(follow(self.direction, self.grid.offsets, cell, self.target))

    def metres(self, cells: Cells) -> NDArray[np.float64]:
        """Return the cost in metres of the path from each cell, inf where there is none."""
        return np.asarray(
            path_costs(self.grid, self.direction, cells, self.target) * self.resolution)

    def values(self, cells: Cells) -> NDArray[np.float64]:
        """Return v_g: at temperature 0 metres, rounded to the cost unit, above it -log z."""
        if self.log_z is None:
            return np.asarray(np.rint(self.metres(cells) / COST_UNIT) * COST_UNIT)
        values = -self.log_z[cells]
        if self.ends_on_entry:
            values[cells == self.target] = self._return_value()
        return values

    def move_probabilities(self, cell: int) -> NDArray[np.float64]:
        """Return u(a|x) over the moves, a_n and a_g (eq. salmdp_pol)."""
        n_moves = self.grid.offsets.size
        u = np.zeros(n_moves + 2)
        if not self.is_feasible(cell):
            return u
        if self.log_z is None:
            u[n_moves + 1 if self.direction[cell] == ARRIVED else self.direction[cell]] = 1.0
            return u
        log_stay = -self.values(np.array([cell]))[0] - 1 / self.temperature
        log_u = np.append(self._log_gains(cell), [log_stay] * 2)
        if cell == self.target and not self.ends_on_entry:
            log_u[-1] = 0.0
        u = np.exp(log_u - log_u.max())
        return np.asarray(u / u.sum())

    def _log_gains(self, cell: int) -> NDArray[np.float64]:
        """log(exp(-q(x, a)) z(x')) of every move, -inf where it is impossible."""
        assert self.log_z is not None
        gains = np.full(self.grid.offsets.size, -np.inf)
        for move, offset in enumerate(self.grid.offsets):
            if (self.grid.moves[cell] >> move) & 1:
                cost = step_cost(self.grid, cell, move) / self.temperature
                gains[move] = self.log_z[cell + offset] - cost
        return gains

    def _return_value(self) -> float:
        """-log z of leaving the target and entering it again."""
        n_actions = self.grid.offsets.size + 2
        log_total = float(np.logaddexp.reduce(self._log_gains(self.target)))
        return math.log(n_actions - 2 * math.exp(-1 / self.temperature)) - log_total


def solve_option(grid: Grid, space: BaseSpace, target: int, *, ends_on_entry: bool = False,
                 checkpoint: Checkpoint = proceed) -> Option:
    """Solve one option over the whole grid.

    Raises
    ------
    NotConvergedError
        At temperature > 0, if the iteration does not reach its tolerance.

    """
    checkpoint()
    config = space.config
    log_z = None
    if config.temperature > 0:
        log_z = log_desirability(
            grid, target, n_actions=grid.offsets.size + 2, temperature=config.temperature,
            ends_on_entry=ends_on_entry, max_rounds=config.max_iterations,
            checkpoint=checkpoint)
        value, step_scale = -log_z, 1 / config.temperature
    else:
        value, step_scale = shortest_values(grid, target), 1.0
    direction = descend(grid, value, step_scale)
    if not ends_on_entry:
        direction[target] = ARRIVED
    direction.setflags(write=False)
    return Option(grid, space.resolution, config.temperature, target, direction,
                  None if log_z is None else compact(log_z), ends_on_entry)
