"""The library of options: solved once, kept within a budget, repaired after a map change.

A new grounding only looks up other options (policy remappability, P1 of the paper). An option is
taken from where it is had most cheaply: from the library, from an ensemble on disk, from the
library of the map before, repaired, or else it is solved.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
import dataclasses
import os

import numpy as np

from gk_planner.base_space import BaseSpace
from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.ensemble import Ensemble
from gk_planner.grid_shortest_path import Grid
from gk_planner.option_repair import changed_cells, repaired
from gk_planner.options import Cells, grid_of, Option, solve_option


class OptionLibrary:
    """Options by target cell.

    Besides the options on the open floor it keeps those of ``trigger: contact``: on a floor whose
    ``walls`` (cells of sites) may be left but not entered, except the target, and on a floor that
    is ``inside`` a set of cells.

    Beyond ``config.option_memory`` the options that were not used for longest are forgotten, after
    the call that needs them: whoever holds an option keeps it. Options of former maps, with their
    grids, have what is left. One library serves one thread at a time.

    Parameters
    ----------
    space : BaseSpace
        Where the options lead.
    former : OptionLibrary, optional
        The library of the map before a change: what is known there is repaired, where that is
        less work than to solve it again.

    Attributes
    ----------
    nbytes : int
        Memory of all options of this map; those of an ensemble stay on disk.
    ensemble : Ensemble or None
        That of ``config.ensemble_file``.

    Raises
    ------
    EnsembleError
        If ``config.ensemble_file`` cannot be used.

    """

    def __init__(self, space: BaseSpace, former: 'OptionLibrary | None' = None) -> None:
        self.space = space
        self.grid = grid_of(space)
        self.nbytes = 0
        # In the order of use, the last one last.
        self._options: dict[tuple[str, bytes, int], Option] = {}
        self._former: dict[int, Option] = {} if former is None else former._known_elsewhere(self)
        file = space.config.ensemble_file
        self.ensemble = Ensemble(file) if file else None
        # Options that are right as they are, and options that may be repaired.
        self._ready: Mapping[int, Option] = {}
        self._similar: Mapping[int, Option] = {}
        if self.ensemble is not None and self.ensemble.fits(space):
            self._ready = self.ensemble
        elif self.ensemble is not None and self.ensemble.resembles(space):
            self._similar = self.ensemble

    def __len__(self) -> int:
        return len(self._options)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever plans with these options should know."""
        if self.ensemble is None or self._ready is self.ensemble:
            return ()
        return (f"ensemble_file '{self.ensemble.path}' was made for another map or other "
                'settings; options are solved here',)

    def get(self, targets: Iterable[int], checkpoint: Checkpoint = proceed) -> list[Option]:
        """Return the options to the given cells on the open floor."""
        return self._get('open', b'', targets, lambda _: self.grid, checkpoint,
                         ends_on_entry=False)

    def complete(self) -> list[Option]:
        """Return the complete ensemble: one option for every free cell."""
        return self.get(np.flatnonzero(self.space.free))

    def avoiding(self, walls: Cells, targets: Iterable[int],
                 checkpoint: Checkpoint = proceed) -> list[Option]:
        """Return options that enter no cell of ``walls`` but their target, and end on entry."""
        floor = _without_entries(self.grid, walls)

        def grid_to(target: int) -> Grid:
            moves = floor.moves.copy()
            for move, offset in enumerate(self.grid.offsets):
                source = target - offset
                if 0 <= source < moves.size:
                    moves[source] |= self.grid.moves[source] & np.uint8(1 << move)
            return self.grid._replace(moves=moves)

        return self._get('walls', walls.tobytes(), targets, grid_to, checkpoint,
                         ends_on_entry=True)

    def inside(self, cells: Cells, targets: Iterable[int],
               checkpoint: Checkpoint = proceed) -> list[Option]:
        """Return options that move within a set of cells only, and end on entry."""
        outside = np.ones(self.grid.moves.size, dtype=bool)
        outside[cells] = False
        floor = _without_entries(self.grid, np.flatnonzero(outside))
        moves = np.where(outside, np.uint8(0), floor.moves)
        return self._get('inside', cells.tobytes(), targets,
                         lambda _: floor._replace(moves=moves), checkpoint, ends_on_entry=True)

    def _get(self, kind: str, floor: bytes, targets: Iterable[int],
             grid_to: Callable[[int], Grid], checkpoint: Checkpoint, *,
             ends_on_entry: bool) -> list[Option]:
        wanted = [int(target) for target in targets]
        found = self._from_ensemble(wanted) if kind == 'open' else {}
        missing = [target for target in dict.fromkeys(wanted)
                   if target not in found and (kind, floor, target) not in self._options]
        changes = self._changes(missing) if kind == 'open' else {}

        def solve(target: int) -> Option:
            option = self._repair(target, changes) if changes else None
            return option or solve_option(grid_to(target), self.space, target,
                                          ends_on_entry=ends_on_entry, checkpoint=checkpoint)

        if missing:
            with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
                for option in pool.map(solve, missing):
                    self._options[kind, floor, option.target] = option
                    self.nbytes += option.nbytes
        for target in wanted:
            if target not in found:
                found[target] = self._options.pop((kind, floor, target))
                self._options[kind, floor, target] = found[target]
        self._forget()
        return [found[target] for target in wanted]

    def _from_ensemble(self, targets: Iterable[int]) -> dict[int, Option]:
        return {target: dataclasses.replace(self._ready[target], grid=self.grid)
                for target in targets if target in self._ready}

    def _forget(self) -> None:
        self._former = _latest(self._former, self._budget - self.nbytes)
        while self.nbytes > self._budget:
            self.nbytes -= self._options.pop(next(iter(self._options))).nbytes

    @property
    def _budget(self) -> int:
        return self.space.config.option_memory * 1_000_000

    def _known_elsewhere(self, other: 'OptionLibrary') -> dict[int, Option]:
        """Return the options that can be repaired for another library, at temperature 0."""
        if (self.space.free.shape != other.space.free.shape
                or self.grid.offsets.size != other.grid.offsets.size
                or self.space.config.temperature > 0 or other.space.config.temperature > 0):
            return {}
        known = {**self._former, **{target: option for (kind, _, target), option
                                    in self._options.items() if kind == 'open'}}
        return _latest(known, self._budget)

    def _changes(self, targets: Iterable[int]) -> dict[int, Cells]:
        """Return by former grid the cells that have changed since."""
        grids = [known[target].grid for target in targets
                 for known in (self._former, self._similar) if target in known]
        return {id(grid.moves): changed_cells(grid, self.grid)
                for grid in {id(grid.moves): grid for grid in grids}.values()}

    def _repair(self, target: int, changes: dict[int, Cells]) -> Option | None:
        former = self._former.pop(target, None) or self._similar.get(target)
        if former is None:
            return None
        direction = repaired(former.direction, target, former.grid, self.grid,
                             changes[id(former.grid.moves)])
        if direction is None:
            return None
        direction.setflags(write=False)
        return Option(self.grid, self.space.resolution, 0.0, target, direction, None, False)


def _latest(options: dict[int, Option], room: int) -> dict[int, Option]:
    """Return the last options that fit into so many bytes, with the grids of their maps."""
    kept: dict[int, Option] = {}
    grids: set[int] = set()
    for target, option in reversed(options.items()):
        grid = option.grid
        room -= option.nbytes
        if id(grid.moves) not in grids:
            grids.add(id(grid.moves))
            room -= grid.moves.nbytes + grid.weight.nbytes
        if room < 0:
            break
        kept[target] = option
    return dict(reversed(kept.items()))


def _without_entries(grid: Grid, walls: Cells) -> Grid:
    """Return the grid without the moves that enter a wall."""
    moves = grid.moves.copy()
    for move, offset in enumerate(grid.offsets):
        sources = walls - offset
        sources = sources[(sources >= 0) & (sources < moves.size)]
        moves[sources] &= np.uint8(255 - (1 << move))
    return grid._replace(moves=moves)
