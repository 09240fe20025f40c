"""Constraints on features, and the constraints on bits that goals inherit from them.

c(A^a, B^b) says that a goal carrying feature A, whose bit is now a, may not flip while another
goal carrying B has the bit b. The induced set on bits (paper, Section "Boolean Ordered Goal
Task") is C_Sigma = {c(sigma_i^a, sigma_j^b) : i != j, A in goal i, B in goal j}. In words,
``X before Y`` is c(Y^0, X^0) and ``X forbids Y`` is c(Y^0, X^1).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
import re

from gk_planner.errors import ConstraintError, LimitError
from gk_planner.yaml_input import shorten

MAX_PAIRS = 1_000_000  # of goals that inherit a constraint

_NAME = r'([A-Za-z_][A-Za-z0-9_.]*)'
_WORDED = re.compile(rf'\s*{_NAME}\s+(before|forbids)\s+{_NAME}\s*')
_SYMBOLIC = re.compile(
    rf'\s*c\s*\(\s*{_NAME}\s*\^\s*([01])\s*,\s*{_NAME}\s*\^\s*([01])\s*\)\s*')


@dataclass(frozen=True)
class Constraint:
    """c(control^control_value, condition^condition_value) on features.

    Attributes
    ----------
    text : str
        The constraint as written.
    control_feature, control_value : str, int
        Goals with this feature may not flip away from this value ...
    condition_feature, condition_value : str, int
        ... while another goal with this feature has this value.

    """

    text: str
    control_feature: str
    control_value: int
    condition_feature: str
    condition_value: int

    @classmethod
    def parse(cls, text: object, where: str = 'constraint') -> 'Constraint':
        """Read ``X before Y``, ``X forbids Y`` or ``c(A^a, B^b)``.

        Raises
        ------
        ConstraintError
            If the text has none of these forms.

        """
        if isinstance(text, str):
            if found := _WORDED.fullmatch(text):
                first, verb, second = found.groups()
                return cls(text.strip(), second, 0, first, int(verb == 'forbids'))
            if found := _SYMBOLIC.fullmatch(text):
                control, a, condition, b = found.groups()
                return cls(text.strip(), control, int(a), condition, int(b))
        halved = isinstance(text, str) and text.count('(') != text.count(')')
        raise ConstraintError(
            f"{where}: expected 'X before Y', 'X forbids Y' or 'c(X^a, Y^b)' with a and b 0 or 1, "
            f'got {shorten(text)}' + ('; inside [...] quote it' if halved else ''))


@dataclass(frozen=True, slots=True)
class BitConstraint:
    """Goal ``control``, at ``control_value``, may not flip while ``condition`` has its value.

    ``source`` is the index of the first constraint that it is inherited from.
    """

    control: int
    control_value: int
    condition: int
    condition_value: int
    source: int


def check_pairs(constraints: Sequence[Constraint], feature_goals: Mapping[str, Sequence[int]],
                where: str) -> None:
    """Refuse constraints that more pairs of goals inherit than can be listed."""
    n_pairs = 0
    for index, constraint in enumerate(constraints):
        n_pairs += (len(feature_goals[constraint.control_feature])
                    * len(feature_goals[constraint.condition_feature]))
        if n_pairs > MAX_PAIRS:
            raise LimitError(f"{where}: constraints[{index}]: with '{constraint.text}' {n_pairs} "
                             f'pairs of goals inherit a constraint; at most {MAX_PAIRS} may')


def inherit(constraints: Sequence[Constraint],
            feature_goals: Mapping[str, Sequence[int]]) -> tuple[BitConstraint, ...]:
    """Return the constraints on bits that pairs of different goals inherit, each once."""
    sources: dict[tuple[int, int, int, int], int] = {}
    for source, constraint in enumerate(constraints):
        for control in feature_goals[constraint.control_feature]:
            for condition in feature_goals[constraint.condition_feature]:
                if control != condition:
                    sources.setdefault((control, constraint.control_value,
                                        condition, constraint.condition_value), source)
    return tuple(BitConstraint(*bits, source) for bits, source in sources.items())


def why_idle(constraint: Constraint, feature_goals: Mapping[str, Sequence[int]],
             placed: Collection[int], reversible: Collection[int],
             done: Collection[int]) -> str | None:
    """Return why a constraint can never forbid anything, or None if it can."""
    conditions = feature_goals[constraint.condition_feature]
    controls = [goal for goal in feature_goals[constraint.control_feature]
                if any(condition != goal for condition in conditions)]
    if not controls:
        return 'no two different goals carry its features'
    feature = constraint.control_feature
    if not any(goal in placed for goal in controls):
        return 'no site carries a goal that it could forbid'
    if constraint.control_value == 1 and not any(goal in reversible for goal in controls):
        return f"no goal with the feature '{feature}' is reversible"
    if constraint.control_value == 0 and all(
            goal in done and goal not in reversible for goal in controls):
        return f"every goal with the feature '{feature}' is done and irreversible"
    return None
