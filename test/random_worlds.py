"""Random small worlds: a map, a configuration, annotations, a task and a start.

``random_world(seed)`` is a pure function of its seed, so hypothesis can draw the seed alone. Where
a centre may lie exactly on a border or a line, lengths are binary fractions and the map is not
turned, so that rounding decides nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gk_planner.annotations import Annotations
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.errors import TaskError
from gk_planner.full_task_mdp import (
    accepts,
    free_cells,
    FullTaskMdp,
    start_bits,
    step_costs,
)
from gk_planner.occupancy_map import OccupancyMap

COLOURS = ('red', 'blue', 'green')
BINARY = ('&', '^', '|', '->', '<->', 'and', 'xor', 'or')


@dataclass(frozen=True)
class World:
    grid_map: OccupancyMap
    config: Config
    annotations: Annotations | None
    task_mapping: dict[str, Any]
    start: tuple[float, float]

    @property
    def task(self):
        return Task.from_dict(self.task_mapping)


def random_world(rng, *, trigger=None, reversible=None, annotated=None, connectivity=None,
                 max_side=9, max_goals=4):
    """Draw a world; a knob left at None is drawn too.

    Parameters
    ----------
    rng : numpy.random.Generator or int
    trigger : 'action' or 'contact', optional
    reversible : bool, optional
        Whether at least one goal is reversible.
    annotated : bool, optional
        Whether there are keep-outs, weights or one-way lines.
    connectivity : 4 or 8, optional
    max_side, max_goals : int

    """
    rng = np.random.default_rng(rng)
    trigger = trigger or str(rng.choice(['action', 'contact']))
    reversible = bool(rng.random() < 0.35) if reversible is None else reversible
    annotated = bool(rng.random() < 0.4) if annotated is None else annotated
    while True:
        grid_map = random_map(rng, max_side)
        config = random_config(rng, grid_map.resolution, connectivity)
        annotations = random_annotations(rng, grid_map) if annotated else None
        free = np.argwhere(free_cells(grid_map, config, annotations))
        if len(free) < 3:
            continue
        first = tuple(rng.choice(free))
        reached = reachable(first, step_costs(grid_map, config, annotations))
        mapping = random_task(rng, grid_map, reached, trigger, reversible, max_goals)
        try:
            task = Task.from_dict(mapping)
            FullTaskMdp(task, grid_map, config, annotations)
        except TaskError as error:
            if 'share' in str(error):
                continue
            raise
        if accepts(task, start_bits(task)) and rng.random() < 0.9:
            continue
        return World(grid_map, config, annotations, mapping, point_in(rng, grid_map, first))


def random_map(rng, max_side):
    rows, cols = rng.integers(3, max_side, 2, endpoint=True)
    kind = rng.random((rows, cols))
    data = rng.integers(0, 20, (rows, cols))
    data[kind < rng.uniform(0.1, 0.4)] = 100
    data[kind > 0.95] = -1
    data[(kind > 0.9) & (kind < 0.95)] = rng.choice([49, 50, 64, 65])
    yaw = float(rng.uniform(-3, 3)) if rng.random() < 0.2 else 0.0
    x, y = (float(number) for number in rng.integers(-8, 8, 2) / 4)
    return OccupancyMap(data.astype(np.int8), float(rng.choice([0.25, 0.5, 1.0])), (x, y, yaw))


def random_config(rng, resolution, connectivity):
    return Config(
        connectivity=connectivity or int(rng.choice([4, 8])),
        robot_radius=resolution * float(rng.choice([0, 0, 0, 0, 0.5, 1, 1.25])),
        unknown_is_free=bool(rng.random() < 0.3),
        occupied_threshold=int(rng.choice([65, 65, 50])),
        snap_radius=resolution * float(rng.choice([0, 0, 1, 1.5, 2])),
        option_cost=float(rng.choice([0, 0, 0.75, 3])),
        clearance_distance=resolution * float(rng.choice([0, 0, 1.5, 2.5])),
        clearance_weight=float(rng.choice([1, 2, 4])))


def random_annotations(rng, grid_map):
    mark = [rng.random() < 0.5 for _ in range(3)]
    areas = [random_polygon(rng, grid_map, random_cell(rng, grid_map)) for _ in range(3)]
    weights = [{'polygon': area, 'factor': float(rng.choice([1, 1.5, 2, 5]))}
               for area in areas[1:]]
    return Annotations.from_dict({
        'keep_out': areas[:1] * mark[0], 'weights': weights * mark[1],
        'one_way': [random_line(rng, grid_map)] * mark[2]})


def random_line(rng, grid_map):
    """Draw a polyline across the map that no step meets at a vertex."""
    rows, cols = grid_map.data.shape
    if rng.random() < 0.5 and not grid_map.origin[2]:  # through centres or along cell borders
        row = rng.integers(1, 2 * rows) / 2
        line = [(rng.uniform(-1, 1), row), (rng.uniform(1, cols + 1), row)]
        line = line if rng.random() < 0.5 else [(v, u) for u, v in line]
    else:
        line = rng.uniform(-1, (cols + 1, rows + 1), (int(rng.integers(2, 5)), 2))
    return to_map(grid_map, line if rng.random() < 0.5 else line[::-1])


def random_polygon(rng, grid_map, cell):
    """Draw a small polygon at a cell; at times it covers no centre, or has some on its border."""
    u, v = cell[1] + 0.5, cell[0] + 0.5
    kind = rng.random()
    if kind < 0.15:
        corners = [(u + 0.2, v + 0.2), (u + 0.4, v + 0.2), (u + 0.3, v + 0.4)]
    elif kind < 0.3:
        corners = [(u - 0.6, v - 0.7), (u + 1.9, v - 0.4), (u + 0.1, v + 1.8)]
    else:
        sides = [0.125, 0.25, 0.75, 1.25] if grid_map.origin[2] else [0, 0.25, 0.75, 1.25]
        left, low, right, top = rng.choice(sides, 4)
        corners = [(u - left, v - low), (u + right + 0.25, v - low),
                   (u + right + 0.25, v + top + 0.25), (u - left, v + top + 0.25)]
    return to_map(grid_map, corners)


def to_map(grid_map, points):
    """Turn (column, row) coordinates in cells into metres in the map frame."""
    x0, y0, yaw = grid_map.origin
    turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    metres = np.asarray(points, float) * grid_map.resolution @ turn.T + (x0, y0)
    return [(float(x), float(y)) for x, y in metres]


def point_in(rng, grid_map, cell):
    """Draw a point of a cell, off its border."""
    u, v = rng.uniform(0.1, 0.9, 2)
    return to_map(grid_map, [(cell[1] + u, cell[0] + v)])[0]


def random_cell(rng, grid_map):
    return tuple(int(number) for number in rng.integers(0, grid_map.data.shape))


def reachable(first, steps):
    """Return the cells that can be reached, in a fixed order."""
    found = [first]
    for cell in found:
        for move, costs in steps.items():
            there = cell[0] + move[0], cell[1] + move[1]
            if np.isfinite(costs[cell]) and there not in found:
                found.append(there)
    return found


def random_task(rng, grid_map, reached, trigger, reversible, max_goals):
    count = int(rng.integers(1, max_goals + 2))  # the largest number twice as often
    feature_sets = random_feature_sets(rng, min(count, max_goals))
    sites, goals = [], {}
    for number, features in enumerate(feature_sets):
        n_sites = int(rng.choice([0, 1, 2, 3], p=[0.03, 0.57, 0.25, 0.15]))
        if n_sites == 0 or rng.random() < 0.5:
            goals[f'goal_{number}'] = features
        sites += [random_site(rng, grid_map, reached, features) for _ in range(n_sites)]
    if not sites:
        sites, goals = [random_site(rng, grid_map, reached, feature_sets[0])], {}
        feature_sets = feature_sets[:1]
    rng.shuffle(sites)
    for number, site in enumerate(sites):
        site['name'] = f'site_{number}'
    names = list(goal_names(sites, goals).values())
    carried = {feature: sum(feature in features for features in feature_sets)
               for features in feature_sets for feature in features}
    mapping = {'sites': sites, 'trigger': trigger}
    if goals:
        mapping['goals'] = goals
    if rng.random() < 0.6:
        mapping['formula'] = random_formula(rng, names, carried, int(rng.integers(0, 4)))
    mapping['constraints'] = [random_constraint(rng, list(carried))
                              for _ in range(rng.choice([0, 1, 2, 3], p=[0.3, 0.4, 0.2, 0.1]))]
    mapping['done'] = [name for name in names if rng.random() < 0.12]
    mapping['reversible'] = [name for name in names if reversible and rng.random() < 0.5]
    if reversible and not mapping['reversible']:
        mapping['reversible'] = [str(rng.choice(names))]
    return mapping


def goal_names(sites, goals):
    """Map each feature set to its goal's name by the rule of the task file."""
    names = {frozenset(features): name for name, features in goals.items()}
    for site in sites:
        names.setdefault(frozenset(site['features']), '.'.join(site['features']))
    return names


def random_feature_sets(rng, count):
    """Draw distinct feature sets: a colour, two colours, or a colour with an ID."""
    found = []
    while len(found) < count:
        kind, colours = rng.random(), [str(name) for name in rng.permutation(COLOURS)]
        features = colours[:1] if kind < 0.5 else colours[:2]
        if kind > 0.7:
            features = [colours[0], f'id_{len(found)}']
        if set(features) not in map(set, found):
            found.append(features)
    return found


def random_site(rng, grid_map, reached, features):
    near = rng.random() < 0.85
    cell = reached[rng.integers(len(reached))] if near else random_cell(rng, grid_map)
    site = {'name': '', 'features': [str(name) for name in rng.permutation(features)]}
    if rng.random() < 0.3:
        site['region'] = [list(corner) for corner in random_polygon(rng, grid_map, cell)]
    else:
        site['position'] = list(point_in(rng, grid_map, cell))
    return site


def random_constraint(rng, features):
    one, other = (str(name) for name in rng.choice(features, 2))
    if one == other and len(features) > 1 and rng.random() < 0.9:
        other = next(name for name in features if name != one)
    kind = rng.random()
    if kind < 0.45:
        return f'{one} before {other}'
    if kind < 0.6:
        return f'{one} forbids {other}'
    return f'c({one}^{rng.integers(2)}, {other}^{rng.integers(2)})'


def random_formula(rng, names, carried, depth):
    """Draw a formula over all operators; depth 0 is a literal or a count."""
    if depth == 0:
        kind, name = rng.random(), str(rng.choice(names))
        if kind < 0.6:
            return name
        if kind < 0.75:
            return f'!{name}' if kind < 0.7 else f'not {name}'
        if kind < 0.78:
            return str(rng.choice(['true', 'false']))
        feature = str(rng.choice(list(carried)))
        if kind < 0.88:
            return f'{rng.choice(["all", "any"])}({feature})'
        count = rng.integers(0, carried[feature], endpoint=True)
        return f'{rng.choice(["atleast", "atmost", "exactly"])}({count}, {feature})'
    parts = [random_formula(rng, names, carried, depth - 1) for _ in range(2)]
    operator = rng.choice(BINARY, p=[0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    text = f'{parts[0]} {operator} {parts[1]}'
    return str(rng.choice(['({})', '({})', '!({})', '{}'], p=[0.4, 0.4, 0.1, 0.1])).format(text)
