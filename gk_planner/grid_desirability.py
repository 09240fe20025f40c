"""Desirability of one goal over the whole grid: the log-sum-exp kernel (temperature > 0).

With p_a uniform over the n actions of a cell (moves, a_n, a_g) the saLMDP of the paper
(eq. salmdp_linear_z) reduces to one unknown per cell, z(x) = E_{p_a} z(x, a):

    z(x) (1 - s(x)) = sum_d k(x, x') z(x') + [x = target] / n,    k = exp(-step / T) / n,

where s(x) collects the actions that stay. z spans thousands of orders of magnitude, so each value
is kept as m * 2^e with an integer e of its own: nothing underflows and nothing cancels, since
only positive numbers are added. Two kinds of sweeps, both in the order of falling z, alternate:

* *ratio sweep*: neighbours that come earlier enter with their new value, later ones with their old
  ratio z(x')/z(x). Errors that are constant or vary slowly vanish at once, at any distance.
* *plain sweep*: Gauss-Seidel, which damps the rough errors that the ratio sweep may amplify.

A few dozen rounds reach 1e-9 in log z on a million cells, where plain z-iteration needs tens of
thousands of sweeps and a plain LU underflows.
"""

import math
from typing import NamedTuple

from numba import njit
import numpy as np
from numpy.typing import NDArray

from gk_planner.checkpoint import Checkpoint, proceed
from gk_planner.errors import InputError, NotConvergedError
from gk_planner.grid_shortest_path import Grid, shortest_paths

_LOG2E = 1.0 / math.log(2.0)
_SQRT2 = math.sqrt(2.0)
# Powers of two from 2^-120, below which a summand cannot change a double of order one, to 2^2.
_LOWEST = -120
_POWERS = 2.0 ** np.arange(_LOWEST, 3)
# A round is a plain sweep and so many ratio sweeps.
_RATIO_SWEEPS = 2
# The order of falling z settles early; later a few exchanges suffice.
_SORT_ROUNDS = 8
# Largest -log z of a shortest path; beyond it log z would not show single actions any more.
_MAX_COST = 2.0 ** 50


class Prior(NamedTuple):
    """Passive dynamics and temperature in the form the kernel needs."""

    log2_step: float    # log2 of the gain of a step of cost 1
    log2_choice: float  # log2 of p_a = 1/n
    stay: float         # gain of one action that stays, exp(-1/T)/n


def log_desirability(grid: Grid, target: int, *, n_actions: int, temperature: float,
                     ends_on_entry: bool = False, tolerance: float = 1e-9,
                     max_rounds: int = 10_000, checkpoint: Checkpoint = proceed,
                     ) -> NDArray[np.float64]:
    """Return log z of every cell, -inf where the target cannot be reached.

    Parameters
    ----------
    grid : Grid
        Moves and weights.
    target : int
        Cell of the goal.
    n_actions : int
        Number of actions of a cell: the moves of the connectivity, a_n and a_g.
    temperature : float
        A straight step of weight 1 costs ``1 / temperature``.
    ends_on_entry : bool
        The option ends when the target is entered (trigger contact), not by a_g there.
    tolerance : float
        Largest relative change of z in the last sweep.
    max_rounds : int
        When to give up.
    checkpoint : callable
        Called before every round; may raise to stop.

    Raises
    ------
    InputError
        If the temperature is so low that z exceeds the range of its exponents.
    NotConvergedError
        If ``max_rounds`` rounds do not suffice.

    """
    prior = Prior(-_LOG2E / temperature, -math.log2(n_actions),
                  math.exp(-1.0 / temperature) / n_actions)
    mantissa = np.zeros(grid.moves.size)
    exponent = np.zeros(grid.moves.size, dtype=np.int64)
    value, order = shortest_paths(grid, target)
    if value[order[-1]] > temperature * _MAX_COST:
        raise InputError(f'temperature: must be 0 or at least {value[order[-1]] / _MAX_COST:.1e} '
                         f'on this map, got {temperature:g}')
    if ends_on_entry:
        mantissa[target] = 1.0
        order = order[order != target]
    rank = np.full(grid.moves.size, -1, dtype=np.int32)
    change = np.inf
    for done in range(max_rounds):
        checkpoint()
        _sweep(grid, prior, target, order, rank, mantissa, exponent, False)
        if done < _SORT_ROUNDS:
            order = order[np.argsort(-exponent[order] - np.log2(mantissa[order]), kind='stable')]
        else:
            _sort_again(order, mantissa, exponent)
        rank[order] = np.arange(order.size, dtype=np.int32)
        for _ in range(_RATIO_SWEEPS):
            change = _sweep(grid, prior, target, order, rank, mantissa, exponent, True)
        if change <= tolerance:
            log_z = np.full(grid.moves.size, -np.inf)
            reached = mantissa > 0
            log_z[reached] = np.log(mantissa[reached]) + exponent[reached] / _LOG2E
            return log_z
    raise NotConvergedError(f'desirability of cell {target} at temperature {temperature:g}: '
                            f'z still changes by {change:.1e} after {max_rounds} rounds')


@njit(cache=True, nogil=True)
def _sort_again(order: NDArray[np.int32], mantissa: NDArray[np.float64],
                exponent: NDArray[np.int64]) -> None:
    """Sort cells that are nearly in the order of falling z, by insertion."""
    for index in range(1, order.size):
        cell = order[index]
        place = index
        while place > 0:
            other = order[place - 1]
            if exponent[other] > exponent[cell] or (
                    exponent[other] == exponent[cell] and mantissa[other] >= mantissa[cell]):
                break
            order[place] = other
            place -= 1
        order[place] = cell


@njit(cache=True, nogil=True)
def _gain(prior: Prior, cost: float) -> tuple[float, int]:
    """k = exp(-cost/T)/n as mantissa and exponent."""
    log2_k = prior.log2_step * cost + prior.log2_choice
    whole = math.floor(log2_k)
    return 2.0 ** (log2_k - whole), int(whole)


@njit(cache=True, nogil=True)
def _sweep(grid: Grid, prior: Prior, target: int, order: NDArray[np.int32],  # noqa: C901
           rank: NDArray[np.int32], mantissa: NDArray[np.float64], exponent: NDArray[np.int64],
           by_ratio: bool) -> float:
    """Update z in place, by ratio or plainly; returns the largest relative change by ratio.

    A number m * 2^e is added to a sum of order 2^top if e - top is at least ``_LOWEST``.
    """
    moves, offsets, weight = grid
    gain_m, gain_e = np.empty(offsets.size), np.empty(offsets.size, dtype=np.int64)
    for move in range(offsets.size):
        gain_m[move], gain_e[move] = _gain(prior, 1.0 if move < 4 else _SQRT2)
    largest = 0.0
    for index in range(order.size):
        cell = order[index]
        old_m, old_e = mantissa[cell], exponent[cell]
        left = 1.0 - 2.0 * prior.stay
        total, top = 0.0, -(1 << 60)
        if cell == target:
            total, top = _gain(prior, 0.0)
            left += prior.stay
        for move in range(offsets.size):
            if not (moves[cell] >> move) & 1:
                continue
            other = cell + offsets[move]
            other_m, other_e = mantissa[other], exponent[other]
            if other_m == 0.0:
                continue
            k_m, k_e = gain_m[move], gain_e[move]
            if weight.size:
                mean = 0.5 * (weight[cell] + weight[other])
                k_m, k_e = _gain(prior, mean if move < 4 else mean * _SQRT2)
            if by_ratio and rank[other] > index:
                lead = min(other_e - old_e, 2)
                if lead >= _LOWEST and k_e >= _LOWEST:
                    ratio = min(other_m * _POWERS[lead - _LOWEST] / old_m, 1.0)
                    left -= k_m * _POWERS[k_e - _LOWEST] * ratio
                continue
            ahead = k_e + other_e - top
            if ahead > 0:
                total = total * _POWERS[-ahead - _LOWEST] if -ahead >= _LOWEST else 0.0
                total, top = total + k_m * other_m, k_e + other_e
            elif ahead >= _LOWEST:
                total += k_m * other_m * _POWERS[ahead - _LOWEST]
        new_m, new_e = math.frexp(total / left)
        new_e += top
        if by_ratio:
            ahead = max(min(new_e - old_e, 1000), -1000)
            largest = max(largest, abs(new_m / old_m * 2.0 ** ahead - 1.0))
        mantissa[cell], exponent[cell] = new_m, new_e
    return largest
