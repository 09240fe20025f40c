"""Sites and goals, and how they are read from the fields of a task file.

A site (x,a)_g carries features; a goal is a set of features. Every distinct feature set of the
sites is a goal, so H_alpha is a bijection (paper, Definition "BOG task"): first the goals that
the file names, in its order, then the feature sets of the sites in the order of the sites.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gk_planner.errors import TaskError
from gk_planner.formula import nearest
from gk_planner.yaml_input import (
    check_keys,
    mapping,
    name,
    number,
    Point,
    point,
    Points,
    polygon,
    required,
    sequence,
)

_SITE_KEYS = ('name', 'features', 'position', 'region', 'yaw')


@dataclass(frozen=True)
class Site:
    """A place that carries features.

    Attributes
    ----------
    name : str
        Its name, unique in the task.
    features : tuple of str
        As written; the order matters only for the default name of the goal.
    position : tuple of float, optional
        Point (x, y) in metres in the map frame.
    region : tuple of points, optional
        Corners of a polygon, instead of the position.
    yaw : float, optional
        Heading in radians on arrival.

    """

    name: str
    features: tuple[str, ...]
    position: Point | None = None
    region: Points | None = None
    yaw: float | None = None

    @classmethod
    def from_dict(cls, fields: object, where: str = 'site') -> 'Site':
        """Read a site from a mapping as in a task file.

        Raises
        ------
        TaskError
            If a field is missing, unknown or malformed.

        """
        site = mapping(fields, where, TaskError)
        check_keys(site, _SITE_KEYS, where, TaskError)
        position, region, yaw = (site.get(key) for key in ('position', 'region', 'yaw'))
        if position is not None and region is not None:
            raise TaskError(f'{where}.region: the site has a position too; give one of them')
        return cls(
            name(required(site, 'name', where, TaskError), f'{where}.name', TaskError),
            read_features(required(site, 'features', where, TaskError), f'{where}.features'),
            None if position is None else point(position, f'{where}.position', TaskError),
            None if region is None else polygon(region, f'{where}.region', TaskError),
            None if yaw is None else number(yaw, f'{where}.yaw', TaskError))

    def to_dict(self) -> dict[str, Any]:
        """Return the mapping of the task file; fields without a value are left out."""
        fields: dict[str, Any] = {'name': self.name, 'features': list(self.features)}
        if self.position is not None:
            fields['position'] = list(self.position)
        if self.region is not None:
            fields['region'] = [list(corner) for corner in self.region]
        if self.yaw is not None:
            fields['yaw'] = self.yaw
        return fields


@dataclass(frozen=True)
class Goal:
    """A set of features with a name; completing it flips its bit."""

    name: str
    features: frozenset[str]


def read_features(value: object, where: str) -> tuple[str, ...]:
    """Return a list or set of different features, at least one."""
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    features = tuple(name(feature, f'{where}[{index}]', TaskError)
                     for index, feature in enumerate(sequence(value, where, TaskError)))
    if not features:
        raise TaskError(f'{where}: give at least one feature')
    for index, feature in enumerate(features):
        if feature in features[:index]:
            raise TaskError(f"{where}[{index}]: the feature '{feature}' is given twice")
    return features


def read_sites(value: object, where: str) -> tuple[Site, ...]:
    """Return the sites of a list of mappings."""
    return tuple(Site.from_dict(fields, f'{where}[{index}]')
                 for index, fields in enumerate(sequence(value, where, TaskError)))


def read_goals(value: object, sites: Sequence[Site], source: str) -> tuple[Goal, ...]:
    """Return the goals that the file names, then those that only the sites induce."""
    goals = [
        Goal(name(key, f'{source}: goals', TaskError),
             frozenset(read_features(features, f'{source}: goals.{key}')))
        for key, features in mapping(value, f'{source}: goals', TaskError).items()]
    known = {goal.features for goal in goals}
    taken = {goal.name for goal in goals}
    for index, site in enumerate(sites):
        features = frozenset(site.features)
        if features in known:
            continue
        default = '.'.join(site.features)
        if default in taken:
            raise TaskError(
                f"{source}: sites[{index}].features: the default name '{default}' of this goal is "
                "another goal's name; name this feature set under goals")
        known.add(features)
        taken.add(default)
        goals.append(Goal(default, features))
    return tuple(goals)


def read_goal_list(value: object, goal_idx: Mapping[str, int], where: str) -> frozenset[int]:
    """Return the indices of a list of different goal names."""
    indices: set[int] = set()
    for position, entry in enumerate(sequence(value, where, TaskError)):
        goal = name(entry, f'{where}[{position}]', TaskError)
        if goal not in goal_idx:
            raise TaskError(f"{where}[{position}]: unknown goal '{goal}'{nearest(goal, goal_idx)}")
        if goal_idx[goal] in indices:
            raise TaskError(f"{where}[{position}]: the goal '{goal}' is given twice")
        indices.add(goal_idx[goal])
    return frozenset(indices)
