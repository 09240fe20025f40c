"""Legs: what it costs to jump from node to node, and the cells driven on the way.

This is the deterministic option kernel with its cost q_o: by the hitting theorem (simple_thm) an
option reaches its goal wherever its value is finite, so the matrix of values is J and q_o in one.
"""

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.goal_kernel import Legs
from gk_planner.grounding import Grounding
from gk_planner.option_library import OptionLibrary
from gk_planner.options import Cells, Option


class OptionLegs:
    """The options to the nodes of some goals, and the legs between these nodes.

    Parameters
    ----------
    library : OptionLibrary
        Where options are kept.
    grounding : Grounding
        The sites on the base space.
    goals : iterable of int
        The goals whose nodes take part, in rising order.
    checkpoint : callable
        Called between options; may raise to stop.

    Attributes
    ----------
    node_goal, node_cell : ndarray of int
        Goal and cell of every node; nodes of one goal stand together.

    """

    def __init__(self, library: OptionLibrary, grounding: Grounding, goals: Iterable[int],
                 checkpoint: Checkpoint = proceed) -> None:
        self.grounding = grounding
        self.is_contact = grounding.task.trigger == 'contact'
        chosen = list(goals)
        cells = [grounding.nodes[goal] for goal in chosen]
        self.node_cell: Cells = np.concatenate([np.empty(0, dtype=np.int64), *cells])
        self.node_goal = np.repeat(np.array(chosen, dtype=np.int64), [len(c) for c in cells])
        if self.is_contact:
            self._options = library.avoiding(grounding.walls, self.node_cell, checkpoint)
            self._inside = self._solve_inside(library, checkpoint)
        else:
            self._options = library.get(self.node_cell, checkpoint)
            self._inside = {}

    @cached_property
    def legs(self) -> Legs:
        """Costs between the nodes and from the start."""
        starts = np.append(self.node_cell, self.grounding.start_cell)
        columns = [option.values(starts) for option in self._options]
        table = np.column_stack([np.empty((len(starts), 0)), *columns])
        flip, entry = table[:-1], table[-1]
        through = flip
        if self.is_contact:
            through = flip.copy()
            for node, option in self._inside.items():
                mates = np.flatnonzero(self.node_goal == self.node_goal[node])
                through[mates, node] = np.minimum(
                    flip[mates, node], option.values(self.node_cell[mates]))
        return Legs(self.node_goal, flip, through, entry, self.is_contact)

    def site_nodes(self) -> list[NDArray[np.int64]]:
        """Return for every site of the task the nodes on its cells."""
        task, cells = self.grounding.task, self.grounding.site_cells
        return [np.flatnonzero((self.node_goal == task.site_goals[site])
                               & np.isin(self.node_cell, cells[site]))
                for site in range(len(task.sites))]

    def way(self, origin: int | None, node: int, flips: bool) -> tuple[Cells, float]:
        """Return the cells of one jump and its metres; ``origin`` None is the start."""
        cell = self.grounding.start_cell if origin is None else int(self.node_cell[origin])
        option = self._options[node]
        if not flips and origin is not None and node in self._inside and (
                self._inside[node].values(np.array([cell]))[0]
                <= option.values(np.array([cell]))[0]):
            option = self._inside[node]
        return option.path(cell), float(option.metres(np.array([cell]))[0])

    def option_to(self, node: int) -> Option:
        """Return the option that ends at a node."""
        return self._options[node]

    def _solve_inside(self, library: OptionLibrary, checkpoint: Checkpoint,
                      ) -> dict[int, Option]:
        """Options within the cells of one irreversible goal, for when it is done: free floor."""
        inside: dict[int, Option] = {}
        for goal in np.unique(self.node_goal).tolist():
            cells = self.grounding.goal_cells[goal]
            if goal in self.grounding.task.reversible or len(cells) < 2:
                continue
            nodes = np.flatnonzero(self.node_goal == goal)
            options = library.inside(cells, self.node_cell[nodes], checkpoint)
            inside |= zip(nodes.tolist(), options, strict=True)
        return inside
