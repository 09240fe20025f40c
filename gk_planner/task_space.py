"""Task space alone: an LMDP over bit vectors, before any goal has a place in the world.

Action alpha_i flips bit i and alpha_epsilon flips nothing (P_sigma). The cost
``q = q_sigma_alpha + q_sigma`` (eq. BOG_order_cost) is infinite on forbidden flips, so that the
policy u_alpha(alpha'|sigma') of the state-action LMDP keeps every constraint (Section "Boolean
Ordered Goal Task").
"""

from collections.abc import Iterable, Sequence
import math

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gk_planner.errors import InputError
from gk_planner.state_action_lmdp import BoolArray, StateActionLMDP

MAX_BITS = 16

Constraint = tuple[int, int, int, int]


def task_space_lmdp(n_bits: int, constraints: Iterable[Constraint], accepting: npt.ArrayLike, *,
                    irreversible: Sequence[bool] | None = None, cost: float = 1.0,
                    epsilon_probability: float = 0.0) -> StateActionLMDP:
    """Build the LMDP on Sigma = all bit vectors with the actions alpha_epsilon, alpha_1, ...

    Task state sigma is an integer whose bit i is ``(sigma >> i) & 1``; action 0 is alpha_epsilon
    and action i + 1 flips bit i. All state-actions of accepting task states are terminals of cost
    0. Without alpha_epsilon in the passive dynamics and with irreversible bits, desirability flows
    one flip a sweep, so that z-iteration is exact after n_bits sweeps for the flips, and after one
    more for alpha_epsilon itself.

    Parameters
    ----------
    n_bits : int
        Number of goals, from 1 to 16.
    constraints : iterable of (control, control_value, condition, condition_value)
        c(sigma_i^a, sigma_j^b): bit i, now at a, may not flip while bit j is b.
    accepting : bool mask of length 2 ** n_bits, or a sequence of task states
        Sigma_T.
    irreversible : sequence of bool, optional
        Which bits never flip back from 1; default all.
    cost : float
        The constant of q_sigma_alpha + q_sigma outside Sigma_T.
    epsilon_probability : float
        p_alpha of alpha_epsilon; the rest is shared evenly by the flips.

    Raises
    ------
    InputError
        If an argument is out of its range.

    """
    if not 1 <= n_bits <= MAX_BITS:
        raise InputError(f'n_bits: must be from 1 to {MAX_BITS}, got {n_bits}')
    if not 0 < cost < math.inf:
        raise InputError(f'cost: must be finite and above 0, got {cost}')
    if not 0 <= epsilon_probability < 1:
        raise InputError(f'epsilon_probability: must be in [0, 1), got {epsilon_probability}')
    sigma = np.arange(2 ** n_bits)
    accepted = _accepting_mask(sigma.size, accepting)
    q = np.full((sigma.size, n_bits + 1), float(cost))
    q[:, 1:][forbidden_flips(n_bits, constraints, irreversible)] = math.inf
    q[accepted] = 0.0
    flip = np.concatenate([[0], 1 << np.arange(n_bits)])
    after = (sigma[:, None] ^ flip).ravel()
    prior = np.full(n_bits + 1, (1 - epsilon_probability) / n_bits)
    prior[0] = epsilon_probability
    return StateActionLMDP(
        transition=sparse.csr_array(
            (np.ones(after.size), after, np.arange(after.size + 1)), shape=(q.size, sigma.size)),
        passive=np.tile(prior, (sigma.size, 1)), cost=q,
        terminal=np.repeat(accepted[:, None], n_bits + 1, axis=1))


def forbidden_flips(n_bits: int, constraints: Iterable[Constraint],
                    irreversible: Sequence[bool] | None = None) -> BoolArray:
    """Return which flips are forbidden, shape (2 ** n_bits, n_bits): eq. BOG_order_cost.

    Raises
    ------
    InputError
        If a constraint names no bit or value, or ``irreversible`` has the wrong length.

    """
    fixed = [True] * n_bits if irreversible is None else list(irreversible)
    if len(fixed) != n_bits:
        raise InputError(f'irreversible: expected {n_bits} flags, got {len(fixed)}')
    bits = (np.arange(2 ** n_bits)[:, None] >> np.arange(n_bits)) & 1
    forbidden = np.asarray((bits == 1) & np.array(fixed, dtype=bool))
    for control, control_value, condition, condition_value in constraints:
        if not (0 <= control < n_bits and 0 <= condition < n_bits
                and {control_value, condition_value} <= {0, 1}):
            raise InputError(
                f'constraints: expected bits from 0 to {n_bits - 1} and values 0 or 1, got '
                f'{(control, control_value, condition, condition_value)}')
        forbidden[:, control] |= ((bits[:, control] == control_value)
                                  & (bits[:, condition] == condition_value))
    return forbidden


def _accepting_mask(n_states: int, accepting: npt.ArrayLike) -> BoolArray:
    given = np.asarray(accepting)
    mask = np.zeros(n_states, dtype=bool)
    if given.dtype == bool and given.shape == mask.shape:
        mask[:] = given
    elif (given.dtype.kind in 'iu' and given.ndim == 1
          and np.all((given >= 0) & (given < n_states))):
        mask[given] = True
    else:
        raise InputError(f'accepting: expected a mask of length {n_states} or task states from 0 '
                         f'to {n_states - 1}, got {accepting!r}')
    if not mask.any():
        raise InputError('accepting: at least one task state must be accepting')
    return mask
