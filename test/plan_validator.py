"""One validator for every plan: replays the JSON object of design section 4 step by step.

It shares the geometry and the task rules of the reference (gk_planner.full_task_mdp) and nothing
with the planner. Optimality is not its matter: that is the comparison of costs.
"""

import itertools
import json
import math

from gk_planner.full_task_mdp import (
    accepts,
    cell_at,
    cell_centres,
    flip_allowed,
    flipped,
    FullTaskMdp,
    start_bits,
    start_cell,
)

PLAN_KEYS = {'status', 'cost', 'optimal', 'bound', 'warnings', 'options', 'waypoints', 'timing_ms'}
OPTION_KEYS = {'goal', 'site', 'cost', 'position', 'path', 'task_state'}


def validate(plan_dict, task, grid_map, config, start, annotations=None):
    """Raise an AssertionError that says what is wrong with a plan."""
    check_shape(plan_dict)
    mdp = FullTaskMdp(task, grid_map, config, annotations)
    centres = cell_centres(grid_map)
    bits, cell = start_bits(task), start_cell(mdp, start)
    for number, option in enumerate(plan_dict['options']):
        where = f"option {number} ({option['goal']} at {option['site']})"
        assert not accepts(task, bits), f'{where}: the formula already holds before it'
        path = [to_cell(grid_map, centres, mdp.free, point, where) for point in option['path']]
        assert path[0] == cell, f'{where}: starts at {path[0]}, the robot is at {cell}'
        site_idx = find(task.sites, option['site'], where)
        goal_idx = find(task.goals, option['goal'], where)
        assert task.site_goals[site_idx] == goal_idx, f'{where}: the site has another goal'
        cost = check_path(mdp, bits, path, where) + config.option_cost
        assert close(option['cost'], cost), f"{where}: cost {option['cost']}, should be {cost}"
        cell = path[-1]
        assert option['position'] == option['path'][-1], f'{where}: position is not the path end'
        assert cell in mdp.site_cells[site_idx], f'{where}: {cell} is not a cell of the site'
        assert flip_allowed(task, bits, goal_idx), f'{where}: flip forbidden in {bits}'
        bits = flipped(bits, goal_idx)
        state = {goal.name: bool(bit) for goal, bit in zip(task.goals, bits, strict=True)}
        assert option['task_state'] == state, f'{where}: task_state should be {state}'
    assert accepts(task, bits), f'the formula does not hold at the end, in {bits}'


def check_shape(plan):
    """Check keys, types and the sums that need no map."""
    json.dumps(plan, allow_nan=False)
    assert set(plan) - {'value'} == PLAN_KEYS, f'keys: {sorted(plan)}'
    assert plan['status'] == 'solved', f"status: {plan['status']!r}"
    assert type(plan['optimal']) is bool, f"optimal: {plan['optimal']!r}"
    for key in ('options', 'waypoints', 'warnings'):
        assert type(plan[key]) is list, f'{key} is not a list'
    assert all(type(text) is str for text in plan['warnings']), 'warnings are not strings'
    assert set(plan['timing_ms']) == {'base_space', 'options', 'task'}, 'timing_ms: wrong keys'
    numbers = [plan['cost'], plan['bound'], *plan['timing_ms'].values()]
    for option in plan['options']:
        assert set(option) == OPTION_KEYS, f'option keys: {sorted(option)}'
        assert type(option['goal']) is str and type(option['site']) is str, 'names are not strings'
        assert type(option['path']) is list and option['path'], 'path is not a filled list'
        assert all(type(bit) is bool for bit in option['task_state'].values()), 'task_state: types'
        for point in (option['position'], *option['path']):
            assert type(point) is list and len(point) == 2, f'not a point: {point!r}'
            numbers += point
        numbers.append(option['cost'])
    for number in numbers:
        assert type(number) in (int, float), f'{number!r} is not a plain number'
        assert math.isfinite(number), f'{number!r} is not finite'
    positions = [option['position'] for option in plan['options']]
    assert plan['waypoints'] == positions, 'waypoints are not the positions of the options'
    total = math.fsum(option['cost'] for option in plan['options'])
    assert close(plan['cost'], total), f"cost {plan['cost']}, the options sum to {total}"
    if plan['optimal']:
        assert plan['bound'] == plan['cost'], f"optimal, but bound {plan['bound']} is not the cost"
    assert plan['bound'] <= plan['cost'] * (1 + 1e-9), f"bound {plan['bound']} is above the cost"


def check_path(mdp, bits, path, where):
    """Check every step of an option, and return what they cost together."""
    contact = mdp.task.trigger == 'contact'
    assert not contact or len(path) > 1, f'{where}: a contact needs a step into the site'
    total = 0.0
    for here, there in itertools.pairwise(path):
        costs = mdp.steps.get((there[0] - here[0], there[1] - here[1]))
        assert costs is not None, f'{where}: {here} -> {there} is not a move'
        assert math.isfinite(costs[here]), f'{where}: step {here} -> {there} is barred'
        total += float(costs[here])
    for cell in path[1:-1] if contact else ():
        assert not mdp.touched(bits, cell), f'{where}: touches another site at {cell} on its way'
    return total


def to_cell(grid_map, centres, free, point, where):
    """Return the free cell whose centre a point is."""
    row, col = cell_at(grid_map, point)
    assert 0 <= row < free.shape[0] and 0 <= col < free.shape[1], f'{where}: {point} off the map'
    assert free[row, col], f'{where}: {point} is in a blocked cell'
    assert math.dist(point, centres[row, col]) < 1e-9, f'{where}: {point} is not a cell centre'
    return row, col


def find(named, name, where):
    """Return the index of the item with a name."""
    names = [item.name for item in named]
    assert names.count(name) == 1, f'{where}: {name!r} is not one of {names}'
    return names.index(name)


def close(a, b):
    """Equal up to rounding of the sum."""
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
