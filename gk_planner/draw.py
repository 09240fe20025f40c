"""Draw a plan on its map as a PNG."""

import io
import os
from pathlib import Path
import tempfile
import textwrap
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.transforms import Affine2D
import numpy as np

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Site, Task
from gk_planner.errors import InputError
from gk_planner.results import Plan

_GOAL_COLOURS = ('#d1495b', '#00798c', '#edae49', '#3d5a80', '#66a182', '#8d5a97', '#e07a5f',
                 '#5f6caf', '#a3b18a', '#bc6c25')
# Unknown, free, blocked by inflation or keep-out, occupied.
_FLOOR = ListedColormap(['#c9ced6', '#ffffff', '#e3e7ec', '#2f3640'])
_PATH = '#2a9d8f'
_OUTLINE = {'boxstyle': 'round,pad=0.15', 'facecolor': 'white', 'alpha': 0.75,
            'edgecolor': 'none'}
# Inches of the longer side of the map, and the least part of it that the shorter side has.
_SIZE = 9.0
_LEAST_SIDE = 0.25
_DPI = 150
_MAX_LABEL = 28


def draw_plan(file: str | os.PathLike[str], space: BaseSpace, task: Task, plan: Plan,
              start: tuple[float, float] | None = None) -> None:
    """Write a picture of the map, the sites and the plan; the file appears whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.

    """
    picture = io.BytesIO()
    _figure(space, task, plan, start).savefig(picture, format='png', dpi=_DPI)
    try:
        _write_whole(Path(file), picture.getbuffer())
    except OSError as error:
        raise InputError(f'{os.fspath(file)!r}: cannot write the picture: '
                         f'{error.strerror}') from None


def _write_whole(target: Path, content: memoryview) -> None:
    if target.exists() and not target.is_file():
        raise OSError(None, 'it is there already and no regular file')
    part = Path(tempfile.mkdtemp(prefix='.gk_planner_', dir=target.parent)) / 'picture'
    try:
        part.write_bytes(content)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
        part.parent.rmdir()


def _figure(space: BaseSpace, task: Task, plan: Plan,
            start: tuple[float, float] | None) -> Figure:
    low, high = _view(space)
    width, height = _SIZE * (high - low) / np.max(high - low)
    figure = Figure(figsize=(max(width, 3.5) + 1.0, height + 1.2), layout='constrained')
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel='x [m]', ylabel='y [m]', facecolor='#f4f5f7')
    _draw_floor(axes, space)
    axes.set(aspect='equal', xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    for line in space.annotations.one_way:
        axes.plot(*np.array(line).T, color='#b5179e', linestyle='--', linewidth=1.5, zorder=2)
    if start is not None:
        axes.plot(*start, marker='o', color='white', markeredgecolor=_PATH, markeredgewidth=2.5,
                  markersize=17, zorder=4, clip_on=False)
        _label(axes, 'start', start, up=True)
    for site, goal in zip(task.sites, task.site_goals, strict=True):
        _draw_site(axes, site, _GOAL_COLOURS[goal % len(_GOAL_COLOURS)])
    _draw_options(axes, task, plan)
    steps = ' → '.join(option.goal for option in plan.options) or 'nothing to do'
    cost = f'{plan.cost:.2f} m{", optimal" if plan.optimal else ""}'
    columns = int(11 * figure.get_figwidth())
    axes.set_title(textwrap.fill(steps, columns, max_lines=3, placeholder=' …',
                                 break_long_words=False) + f'\n{cost}', fontsize=10)
    return figure


def _view(space: BaseSpace) -> tuple[Any, Any]:
    """Return the corners of what is shown: the map, and more around it if it is very narrow."""
    rows, cols = space.free.shape
    corners = space.grid_map.to_world([(0, 0), (cols, 0), (0, rows), (cols, rows)])
    low, high = corners.min(axis=0), corners.max(axis=0)
    missing = np.maximum(0.0, _LEAST_SIDE * np.max(high - low) - (high - low))
    return low - missing / 2, high + missing / 2


def _draw_floor(axes: Any, space: BaseSpace) -> None:
    grid_map = space.grid_map
    floor = np.where(space.free, 1, 2).astype(np.uint8)
    floor[(grid_map.data < 0) & ~space.free] = 0
    floor[grid_map.data >= space.config.occupied_threshold] = 3
    # No wall is lost on maps with more cells than the picture has dots: the highest value wins.
    merged = -(-max(floor.shape) // int(_SIZE * _DPI))
    for axis, count in enumerate(floor.shape):
        floor = np.maximum.reduceat(floor, np.arange(0, count, merged), axis=axis)
    rows, cols = floor.shape
    x, y, yaw = grid_map.origin
    place = Affine2D().scale(grid_map.resolution * merged).rotate(yaw).translate(x, y)
    axes.imshow(floor, cmap=_FLOOR, vmin=0, vmax=3, origin='lower', interpolation='nearest',
                extent=(0, cols, 0, rows), transform=place + axes.transData)


def _draw_site(axes: Any, site: Site, colour: str) -> None:
    if site.region is not None:
        corners = np.array(site.region)
        axes.fill(*corners.T, color=colour, alpha=0.35, zorder=1.5)
        _label(axes, site.name, corners.mean(axis=0))
    elif site.position is not None:
        axes.plot(*site.position, marker='s', color=colour, markersize=8,
                  markeredgecolor='white', zorder=4.5)
        _label(axes, site.name, site.position)


def _draw_options(axes: Any, task: Task, plan: Plan) -> None:
    numbers: dict[tuple[float, float], list[int]] = {}
    for number, option in enumerate(plan.options, start=1):
        axes.plot(*np.array(option.path).T, color=_PATH, linewidth=2.5, alpha=0.85, zorder=3,
                  solid_capstyle='round')
        numbers.setdefault(option.position, []).append(number)
    for position, steps in numbers.items():
        goal = task.goal_names.index(plan.options[steps[0] - 1].goal)
        axes.annotate(','.join(map(str, steps)), position, color='white', fontsize=8,
                      fontweight='bold', ha='center', va='center', zorder=5,
                      bbox={'boxstyle': 'circle,pad=0.3', 'edgecolor': 'white',
                            'facecolor': _GOAL_COLOURS[goal % len(_GOAL_COLOURS)]})


def _label(axes: Any, name: str, place: Any, up: bool = False) -> None:
    """Write a name below a place, or above it; at the border of the map it grows inwards."""
    low, high = np.transpose([axes.get_xlim(), axes.get_ylim()])
    right, top = (np.asarray(place) - low) / (high - low)
    ha = 'left' if right < 0.12 else 'right' if right > 0.88 else 'center'
    up = (up and top < 0.95) or top < 0.05
    text = name if len(name) <= _MAX_LABEL else name[:_MAX_LABEL - 1] + '…'
    axes.annotate(text, place, xytext=(0, 13 if up else -13), textcoords='offset points',
                  fontsize=8, ha=ha, va='bottom' if up else 'top', color='#1f2933', zorder=6,
                  bbox=_OUTLINE, in_layout=False)
