"""Random tasks without places, random cost matrices, and a naive solver for them.

The solver is Dijkstra's algorithm over pairs (task state, site) with the task rules of the naive
reference, which reads constraints on features directly.
"""

import heapq
import math

import numpy as np
from random_worlds import goal_names, random_constraint, random_feature_sets, random_formula

from gk_planner.boolean_task import Task
from gk_planner.full_task_mdp import accepts, flip_allowed, flipped, start_bits


def random_task(rng, *, reversible=None, trigger='action', max_goals=5, n_constraints=None):
    """Draw a task; ``reversible`` None lets chance decide whether there are reversible bits."""
    rng = np.random.default_rng(rng)
    reversible = bool(rng.random() < 0.5) if reversible is None else reversible
    feature_sets = random_feature_sets(rng, int(rng.integers(1, max_goals + 1)))
    sites, goals = [], {}
    for number, features in enumerate(feature_sets):
        n_sites = int(rng.choice([0, 1, 2], p=[0.08, 0.62, 0.3]))
        if n_sites == 0 or rng.random() < 0.3:
            goals[f'goal_{number}'] = features
        sites += [{'features': features} for _ in range(n_sites)]
    rng.shuffle(sites)
    sites = [{'name': f's{number}', **site} for number, site in enumerate(sites)]
    names = list(goal_names(sites, goals).values())
    carried = {feature: sum(feature in features for features in feature_sets)
               for features in feature_sets for feature in features}
    count = int(rng.integers(0, 5)) if n_constraints is None else n_constraints
    fields = {
        'sites': sites, 'goals': goals, 'trigger': trigger,
        'constraints': [random_constraint(rng, list(carried)) for _ in range(count)],
        'done': [name for name in names if rng.random() < 0.2],
        'reversible': [name for name in names if reversible and rng.random() < 0.6]}
    if rng.random() < 0.8:
        fields['formula'] = random_formula(rng, names, carried, int(rng.integers(0, 4)))
    return Task.from_dict(fields)


def random_costs(rng, n_sites, *, metric, whole=False):
    """Draw costs between sites and from the start; some are infinite, none is symmetric.

    Whole numbers tie often and add without rounding; a metric matrix is closed under detours.
    """
    rng = np.random.default_rng(rng)
    costs = rng.integers(0, 6, (n_sites + 1, n_sites)).astype(float)
    if not whole:
        costs += rng.random(costs.shape)
    costs[rng.random(costs.shape) < rng.choice([0.0, 0.1, 0.4])] = math.inf
    if metric:
        np.fill_diagonal(costs, 0.0)
        for middle in range(n_sites):
            costs = np.minimum(costs, costs[:, middle, None] + costs[middle])
    return costs[:-1], costs[-1]


def cheapest(task, site_costs, start_costs, option_cost=0.0):
    """Return (cost, fewest completions at that cost), or (inf, 0) if it cannot be done."""
    passes = task.trigger == 'contact'
    queue = [(0.0, 0, start_bits(task), -1)]
    settled = set()
    while queue:
        cost, n_flips, bits, site = heapq.heappop(queue)
        if accepts(task, bits):
            return cost, n_flips
        if (bits, site) in settled:
            continue
        settled.add((bits, site))
        legs = start_costs if site < 0 else site_costs[site]
        for other, leg in enumerate(legs):
            goal = task.site_goals[other]
            if not math.isfinite(leg):
                continue
            if flip_allowed(task, bits, goal):
                heapq.heappush(queue, (cost + leg + option_cost, n_flips + 1,
                                       flipped(bits, goal), other))
            elif passes and bits[goal] and goal not in task.reversible:
                heapq.heappush(queue, (cost + leg, n_flips, bits, other))
    return math.inf, 0


def cost_of(task, sequence, site_costs, start_costs, option_cost=0.0):
    """Replay a sequence of site names; it must keep every rule and end when the formula holds."""
    names = [site.name for site in task.sites]
    bits, legs, total = start_bits(task), start_costs, 0.0
    for name in sequence:
        site = names.index(name)
        goal = task.site_goals[site]
        assert not accepts(task, bits), 'the task ends the first time that the formula holds'
        assert flip_allowed(task, bits, goal), f'{name} flips a bit against a rule'
        total += legs[site] + option_cost
        bits, legs = flipped(bits, goal), site_costs[site]
    assert accepts(task, bits)
    return float(total)
