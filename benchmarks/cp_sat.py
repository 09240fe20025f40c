"""OR-Tools CP-SAT on ordered tours: circuit, positions along it, precedences and a hint.

Arcs that no order allows are left out: against a precedence, and past a goal in between. The hint
is the greedy tour that always goes to the nearest goal allowed.
"""

from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

_SCALE = 1e6


@dataclass(frozen=True)
class Answer:
    """The best tour: its cost (inf if none was found), bound, whether proven; and search time."""

    cost: float
    bound: float
    optimal: bool
    search_ms: float


def solve(between: np.ndarray, entry: np.ndarray, before: list[tuple[int, int]], *,
          seconds: float = 60.0, workers: int = 8) -> Answer:
    """Visit every site once from the start, ``before`` giving pairs (first, then)."""
    n = len(entry)
    precedes = _closure(before, n)
    skips = precedes.astype(int) @ precedes.astype(int) > 0
    model = cp_model.CpModel()
    arcs = {(n, j): model.new_bool_var('') for j in range(n) if not precedes[:, j].any()}
    arcs |= {(i, n): model.new_bool_var('') for i in range(n) if not precedes[i].any()}
    arcs |= {(i, j): model.new_bool_var('') for i in range(n) for j in range(n)
             if i != j and not precedes[j, i] and not skips[i, j]}
    model.add_circuit([(i, j, arc) for (i, j), arc in arcs.items()])
    after = precedes.sum(axis=1)
    ahead = precedes.sum(axis=0)
    position = [model.new_int_var(int(ahead[i]), int(n - 1 - after[i]), '') for i in range(n)]
    if before:
        for (i, j), arc in arcs.items():
            if i < n and j < n:
                model.add(position[j] == position[i] + 1).only_enforce_if(arc)
        for first, then in before:
            model.add(position[first] + 1 <= position[then])
    costs = np.vstack([between, entry])
    model.minimize(sum(round(costs[i, j] * _SCALE) * arc for (i, j), arc in arcs.items() if j < n))
    _hint(model, arcs, position, _greedy(costs, precedes))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return Answer(solver.objective_value / _SCALE if found else np.inf,
                  solver.best_objective_bound / _SCALE, status == cp_model.OPTIMAL,
                  solver.wall_time * 1e3)


def _hint(model: cp_model.CpModel, arcs: dict, position: list, tour: list[int]) -> None:
    n = len(position)
    used = set(zip([n, *tour], [*tour, n], strict=True))
    for ends, arc in arcs.items():
        model.add_hint(arc, ends in used)
    for place, goal in enumerate(tour):
        model.add_hint(position[goal], place)


def _greedy(costs: np.ndarray, precedes: np.ndarray) -> list[int]:
    n = costs.shape[1]
    tour: list[int] = []
    while len(tour) < n:
        left = [j for j in range(n) if j not in tour
                and all(i in tour for i in np.flatnonzero(precedes[:, j]))]
        tour.append(min(left, key=lambda j: costs[tour[-1] if tour else n, j]))
    return tour


def _closure(pairs: list[tuple[int, int]], size: int) -> np.ndarray:
    related = np.zeros((size, size), dtype=bool)
    for first, then in pairs:
        related[first, then] = True
    for middle in range(size):
        related |= np.outer(related[:, middle], related[middle])
    return related
