"""Markers for RViz: sites coloured by the state of their goal, with their names and bits."""

from collections.abc import Sequence

from geometry_msgs.msg import Point as PointMsg
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from gk_planner.execution import Execution, GoalState
from gk_planner.results import Point

_Colour = tuple[float, float, float]
_COLOURS: dict[GoalState, _Colour] = {
    GoalState.PENDING: (0.93, 0.68, 0.29), GoalState.CURRENT: (0.15, 0.45, 0.85),
    GoalState.DONE: (0.25, 0.65, 0.25), GoalState.SKIPPED: (0.6, 0.6, 0.6),
    GoalState.FAILED: (0.82, 0.29, 0.36)}
# Of labels [m]: width of a letter, height of a line.
_LETTER, _LINE = 0.13, 0.25


def clear(header: Header) -> MarkerArray:
    """Return the array that removes every marker."""
    return MarkerArray(markers=[Marker(header=header, action=Marker.DELETEALL)])


def task_markers(execution: Execution, header: Header) -> MarkerArray:
    """Return sites with their names and bits; what was drawn before goes."""
    markers = clear(header).markers
    states = execution.goal_states
    for index, (site, goal) in enumerate(
            zip(execution.task.sites, execution.task.site_goals, strict=True)):
        state = states[goal]
        current = execution.current
        if state is GoalState.CURRENT and (current is None or site.name != current.site):
            state = GoalState.PENDING  # another way to do the current goal
        corners = site.region or (site.position,)
        place = _centre([corner for corner in corners if corner is not None])
        disc = _marker(header, 'sites', index, Marker.CYLINDER, _COLOURS[state],
                       (0.3, 0.3, 0.05), place)
        bit = int(execution.bits[goal])
        markers += [disc, *_label(header, index, place, [
            site.name, f'{execution.task.goal_names[goal]}={bit}'])]
        if site.region:
            border = _marker(header, 'regions', index, Marker.LINE_STRIP, _COLOURS[state],
                             (0.04, 0.0, 0.0), (0.0, 0.0))
            border.points = [PointMsg(x=x, y=y) for x, y in [*site.region, site.region[0]]]
            markers.append(border)
    return MarkerArray(markers=markers)


def _label(header: Header, number: int, place: Point, lines: Sequence[str]) -> list[Marker]:
    """Return text above a place, on a plate that keeps it readable on walls."""
    x, y = place
    size = (_LETTER * (max(map(len, lines)) + 1), 1.1 * _LINE * len(lines), 0.01)
    above = (x, y + 0.2 + size[1] / 2)
    plate = _marker(header, 'plates', number, Marker.CUBE, (1.0, 1.0, 1.0), size, above)
    plate.color.a, plate.pose.position.z = 0.7, 0.2
    text = _marker(header, 'names', number, Marker.TEXT_VIEW_FACING, (0.1, 0.1, 0.1),
                   (0.0, 0.0, _LINE), above)
    text.text, text.pose.position.z = '\n'.join(lines), 0.4
    return [plate, text]


def _marker(header: Header, namespace: str, number: int, kind: int, colour: _Colour,
            scale: tuple[float, float, float], place: Point) -> Marker:
    marker = Marker(header=header, ns=namespace, id=number, type=kind)
    marker.color = ColorRGBA(r=colour[0], g=colour[1], b=colour[2], a=1.0)
    marker.scale.x, marker.scale.y, marker.scale.z = scale
    marker.pose.position.x, marker.pose.position.y = place
    marker.pose.orientation.w = 1.0
    return marker


def _centre(corners: Sequence[Point]) -> Point:
    if not corners:
        return 0.0, 0.0
    return (sum(x for x, _ in corners) / len(corners), sum(y for _, y in corners) / len(corners))
