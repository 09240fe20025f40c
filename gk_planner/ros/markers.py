"""Markers for RViz: sites coloured by the state of their goal, their names and bits, the plan."""

from collections.abc import Sequence

from geometry_msgs.msg import Point as PointMsg
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from gk_planner.execution import Execution, GoalState
from gk_planner.results import Point

_COLOURS = {
    GoalState.PENDING: (0.93, 0.68, 0.29), GoalState.CURRENT: (0.16, 0.62, 0.56),
    GoalState.DONE: (0.40, 0.63, 0.51), GoalState.SKIPPED: (0.6, 0.6, 0.6),
    GoalState.FAILED: (0.82, 0.29, 0.36)}


def clear(header: Header) -> MarkerArray:
    """Return the array that removes every marker."""
    return MarkerArray(markers=[Marker(header=header, action=Marker.DELETEALL)])


def task_markers(execution: Execution, path: Sequence[Point], header: Header) -> MarkerArray:
    """Return sites, names with bits, and the path ahead; what was drawn before goes."""
    markers = clear(header).markers
    states = execution.goal_states
    for index, (site, goal) in enumerate(
            zip(execution.task.sites, execution.task.site_goals, strict=True)):
        corners = site.region or (site.position,)
        place = _centre([corner for corner in corners if corner is not None])
        colour = _colour(_COLOURS[states[goal]])
        disc = _marker(header, 'sites', index, Marker.CYLINDER, colour, (0.3, 0.3, 0.05), place)
        bit = int(execution.bits[goal])
        text = _marker(header, 'names', index, Marker.TEXT_VIEW_FACING, _colour((0.1, 0.1, 0.1)),
                       (0.0, 0.0, 0.25), place)
        text.pose.position.z = 0.4
        text.text = f'{site.name} [{execution.task.goal_names[goal]}={bit}]'
        markers += [disc, text]
        if site.region:
            border = _marker(header, 'regions', index, Marker.LINE_STRIP, colour,
                             (0.04, 0.0, 0.0), (0.0, 0.0))
            border.points = _points([*site.region, site.region[0]])
            markers.append(border)
    line = _marker(header, 'plan', 0, Marker.LINE_STRIP, _colour((0.16, 0.62, 0.56)),
                   (0.05, 0.0, 0.0), (0.0, 0.0))
    line.points = _points(path)
    return MarkerArray(markers=[*markers, line] if len(path) > 1 else markers)


def _marker(header: Header, namespace: str, number: int, kind: int, colour: ColorRGBA,
            scale: tuple[float, float, float], place: Point) -> Marker:
    marker = Marker(header=header, ns=namespace, id=number, type=kind, color=colour)
    marker.scale.x, marker.scale.y, marker.scale.z = scale
    marker.pose.position.x, marker.pose.position.y = place
    marker.pose.orientation.w = 1.0
    return marker


def _centre(corners: Sequence[Point]) -> Point:
    if not corners:
        return 0.0, 0.0
    return (sum(x for x, _ in corners) / len(corners), sum(y for _, y in corners) / len(corners))


def _points(points: Sequence[Point]) -> list[PointMsg]:
    return [PointMsg(x=x, y=y) for x, y in points]


def _colour(rgb: tuple[float, float, float]) -> ColorRGBA:
    return ColorRGBA(r=rgb[0], g=rgb[1], b=rgb[2], a=1.0)
