"""Draw a plan on its map as a PNG."""

import os
from pathlib import Path
import tempfile
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
import numpy as np

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Task
from gk_planner.errors import InputError
from gk_planner.results import Plan

_GOAL_COLOURS = ('#d1495b', '#00798c', '#edae49', '#3d5a80', '#66a182', '#8d5a97', '#e07a5f',
                 '#5f6caf', '#a3b18a', '#bc6c25')
# Unknown, free, blocked by inflation or keep-out, occupied.
_FLOOR = ListedColormap(['#c9ced6', '#ffffff', '#eceff3', '#2f3640'])
_PATH = '#2a9d8f'


def draw_plan(file: str | os.PathLike[str], space: BaseSpace, task: Task, plan: Plan,
              start: tuple[float, float] | None = None) -> None:
    """Write a picture of the map, the sites and the plan; the file appears whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.

    """
    figure = _figure(space, task, plan, start)
    target = Path(file)
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, suffix='.png', delete=False) as part:
            try:
                figure.savefig(part, format='png', dpi=150)
            except BaseException:
                os.unlink(part.name)
                raise
        os.chmod(part.name, 0o644)
        os.replace(part.name, target)
    except OSError as error:
        raise InputError(f'{file}: cannot write the picture: {error.strerror}') from None


def _figure(space: BaseSpace, task: Task, plan: Plan,
            start: tuple[float, float] | None) -> Figure:
    grid_map = space.grid_map
    rows, cols = grid_map.data.shape
    width = 9.0
    figure = Figure(figsize=(width, min(14.0, max(3.0, width * rows / cols)) + 0.8),
                    layout='constrained')
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    floor = np.where(space.free, 1, 2)
    floor[grid_map.data >= space.config.occupied_threshold] = 3
    floor[(grid_map.data < 0) & ~space.free] = 0
    corners_u, corners_v = np.meshgrid(np.arange(cols + 1), np.arange(rows + 1))
    corners = grid_map.to_world(np.column_stack([corners_u.ravel(), corners_v.ravel()]))
    axes.pcolormesh(corners[:, 0].reshape(rows + 1, -1), corners[:, 1].reshape(rows + 1, -1),
                    floor, cmap=_FLOOR, vmin=0, vmax=3, rasterized=True)
    for line in space.annotations.one_way:
        axes.plot(*np.array(line).T, color='#b5179e', linestyle='--', linewidth=1.5, zorder=2)
    _draw_sites(axes, task)
    for number, option in enumerate(plan.options, start=1):
        path = np.array(option.path)
        axes.plot(path[:, 0], path[:, 1], color=_PATH, linewidth=2.5, alpha=0.85, zorder=3,
                  solid_capstyle='round')
        axes.annotate(str(number), option.position, xytext=(6, 6), textcoords='offset points',
                      color='white', fontsize=9, fontweight='bold', zorder=6, ha='center',
                      bbox={'boxstyle': 'circle,pad=0.25', 'color': _PATH})
    if start is not None:
        axes.plot(*start, marker='o', color=_PATH, markeredgecolor='white', markersize=11,
                  zorder=5)
        axes.annotate('start', start, xytext=(0, -14), textcoords='offset points', fontsize=8,
                      ha='center', zorder=6)
    axes.set_aspect('equal')
    axes.set_xlabel('x [m]')
    axes.set_ylabel('y [m]')
    steps = ' → '.join(option.goal for option in plan.options) or 'nothing to do'
    axes.set_title(f'{steps}   ({plan.cost:.2f} m{", optimal" if plan.optimal else ""})',
                   fontsize=11)
    return figure


def _draw_sites(axes: Any, task: Task) -> None:
    for site, goal in zip(task.sites, task.site_goals, strict=True):
        colour = _GOAL_COLOURS[goal % len(_GOAL_COLOURS)]
        if site.region is not None:
            corners = np.array(site.region)
            axes.fill(corners[:, 0], corners[:, 1], color=colour, alpha=0.35, zorder=1.5)
            place = corners.mean(axis=0)
        elif site.position is not None:
            place = np.array(site.position)
            axes.plot(*place, marker='s', color=colour, markersize=9,
                      markeredgecolor='white', zorder=4)
        else:
            continue
        axes.annotate(site.name, place, xytext=(0, -15), textcoords='offset points',
                      fontsize=8, ha='center', color='#1f2933', zorder=6,
                      bbox={'boxstyle': 'round,pad=0.15', 'facecolor': 'white', 'alpha': 0.75,
                            'edgecolor': 'none'})
