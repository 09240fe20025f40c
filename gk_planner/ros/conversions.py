"""Messages to the core's types and back; nothing else."""

from collections.abc import Sequence
from itertools import pairwise
import math
from typing import Any

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point as PointMsg
from geometry_msgs.msg import (
    Pose,
    PoseStamped,
    Quaternion,
    Transform,
    TransformStamped,
    Vector3,
)
from nav_msgs.msg import OccupancyGrid, Path
import numpy as np
from std_msgs.msg import Header

from gk_planner.boolean_task import Site, Task
from gk_planner.errors import MapError, TaskError
from gk_planner.execution import Execution
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.results import Plan, PlannedOption, Point
from gk_planner_interfaces.msg import Goal as GoalMsg
from gk_planner_interfaces.msg import Option as OptionMsg
from gk_planner_interfaces.msg import Plan as PlanMsg
from gk_planner_interfaces.msg import Site as SiteMsg
from gk_planner_interfaces.msg import TaskSpec, TaskStatus

Planar = tuple[float, float, float]  # x, y [m], yaw [rad]
IDENTITY: Planar = (0.0, 0.0, 0.0)


def map_from_msg(msg: OccupancyGrid) -> OccupancyMap:
    """Return the map of a message.

    Raises
    ------
    MapError
        If it is empty, its data does not fit its size, or a number is not finite.

    """
    info = msg.info
    if info.width * info.height == 0 or len(msg.data) != info.width * info.height:
        raise MapError(f'map: {info.width} x {info.height} cells with {len(msg.data)} values')
    data = np.frombuffer(msg.data, dtype=np.int8).reshape(info.height, info.width)
    origin = info.origin
    # The message has a float32: the shortest decimal that means it is what the map's maker meant.
    resolution = float(str(np.float32(info.resolution)))
    return OccupancyMap(data, resolution,
                        (origin.position.x, origin.position.y, yaw_of(origin.orientation)))


def map_to_msg(grid_map: OccupancyMap, header: Header) -> OccupancyGrid:
    """Return the message of a map."""
    msg = OccupancyGrid(header=header)
    msg.info.resolution = grid_map.resolution
    msg.info.width, msg.info.height = grid_map.cols, grid_map.rows
    x, y, yaw = grid_map.origin
    msg.info.origin = pose((x, y), yaw)
    msg.data.frombytes(grid_map.data.tobytes())
    return msg


def task_from_spec(spec: TaskSpec, source: str, frame: Planar = IDENTITY) -> Task:
    """Return the task of a message; ``frame`` is where the frame of its sites is in the map.

    Raises
    ------
    TaskError
        Or its children, if it is not a well-formed task.

    """
    goals = {goal.name: list(goal.features) for goal in spec.goals}
    if len(goals) < len(spec.goals):
        raise TaskError(f'{source}: goals: a name is given twice')
    return Task.from_dict({
        'sites': [site_fields(site, frame) for site in spec.sites], 'goals': goals,
        'constraints': list(spec.constraints), 'formula': spec.formula or None,
        'reversible': list(spec.reversible), 'done': list(spec.done),
        'trigger': spec.trigger or None}, source)


def task_to_spec(task: Task, header: Header) -> TaskSpec:
    """Return the message of a task."""
    names = task.goal_names
    return TaskSpec(
        header=header, sites=[_site_msg(site) for site in task.sites],
        goals=[GoalMsg(name=goal.name, features=sorted(goal.features)) for goal in task.goals],
        constraints=[constraint.text for constraint in task.constraints],
        formula=task.formula.text, reversible=[names[goal] for goal in sorted(task.reversible)],
        done=[names[goal] for goal in sorted(task.done)], trigger=task.trigger)


def site_fields(msg: SiteMsg, frame: Planar = IDENTITY) -> dict[str, Any]:
    """Return a site as in the task file; ``frame`` is where its frame is in the map."""
    fields: dict[str, Any] = {'name': msg.name, 'features': list(msg.features)}
    if msg.region:
        fields['region'] = [list(moved((point.x, point.y, 0.0), frame)[:2])
                            for point in msg.region]
    else:
        fields['position'] = list(moved((msg.position.x, msg.position.y, 0.0), frame)[:2])
    if not math.isnan(msg.yaw):
        fields['yaw'] = moved((0.0, 0.0, msg.yaw), frame)[2]
    return fields


def moved(place: Planar, frame: Planar) -> Planar:
    """Return a pose given in a frame as seen from where the frame's own pose is given."""
    if frame == IDENTITY:
        return place
    x, y, yaw = frame
    cos, sin = math.cos(yaw), math.sin(yaw)
    return (x + cos * place[0] - sin * place[1], y + sin * place[0] + cos * place[1],
            math.remainder(yaw + place[2], math.tau))


def site_from_fields(fields: dict[str, Any]) -> SiteMsg:
    """Return the message of a site as in the task file."""
    return _site_msg(Site.from_dict(fields))


def plan_to_msg(plan: Plan, task: Task, task_id: str, header: Header) -> PlanMsg:
    """Return the message of a plan."""
    return PlanMsg(
        header=header, task_id=task_id, goals=list(task.goal_names),
        options=[OptionMsg(goal=option.goal, site=option.site, cost=option.cost,
                           pose=arrival_pose(option, task), bits=list(option.task_state.values()))
                 for option in plan.options],
        cost=plan.cost, optimal=plan.optimal, bound=plan.bound, success_probability=1.0,
        warnings=list(plan.warnings))


def status_to_msg(execution: Execution | None, header: Header, cost_to_go: float,
                  error_code: int, message: str) -> TaskStatus:
    """Return the message of a task's progress."""
    status = TaskStatus(header=header, error_code=error_code, message=message)
    if execution is None:
        return status
    current = execution.current
    status.task_id = execution.task_id
    status.state = int(execution.state)
    status.goals = list(execution.task.goal_names)
    status.bits = list(execution.bits)
    status.goal_states = [int(state) for state in execution.goal_states]
    status.current_goal = current.goal if current else ''
    status.current_site = current.site if current else ''
    status.cost_to_go = cost_to_go if math.isfinite(cost_to_go) else math.inf
    status.replans = execution.replans
    status.replan_reason = execution.replan_reason
    return status


def arrival_pose(option: PlannedOption, task: Task) -> Pose:
    """Return where an option ends: with the site's yaw, else the heading of the last step."""
    site = next((site for site in task.sites if site.name == option.site), None)
    yaw = site.yaw if site is not None and site.yaw is not None else _headings(option.path)[-1]
    return pose(option.position, yaw)


def path_to_msg(points: Sequence[Point], header: Header) -> Path:
    """Return a path with one pose per point, each heading to the next."""
    poses = [pose(point, yaw) for point, yaw in zip(points, _headings(points), strict=True)]
    return poses_to_msg(poses, header)


def poses_to_msg(poses: Sequence[Pose], header: Header) -> Path:
    """Return a path of given poses."""
    return Path(header=header, poses=[PoseStamped(header=header, pose=place) for place in poses])


def header(frame: str, stamp: Time) -> Header:
    """Return a header."""
    return Header(frame_id=frame, stamp=stamp)


def pose(position: Point, yaw: float) -> Pose:
    """Return a pose in the plane."""
    return Pose(position=PointMsg(x=position[0], y=position[1]),
                orientation=Quaternion(z=math.sin(yaw / 2), w=math.cos(yaw / 2)))


def transform(place: Pose, header: Header, child_frame: str) -> TransformStamped:
    """Return the transform that takes a frame to a pose in the frame of the header."""
    there = place.position
    return TransformStamped(header=header, child_frame_id=child_frame, transform=Transform(
        translation=Vector3(x=there.x, y=there.y, z=there.z), rotation=place.orientation))


def yaw_of(q: Quaternion) -> float:
    """Return the heading of an orientation."""
    return math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z))


def _headings(points: Sequence[Point]) -> list[float]:
    """Heading of each point to the next one; the last keeps that of its last step."""
    steps = [math.atan2(b[1] - a[1], b[0] - a[0])
             for a, b in pairwise(points)]
    return [*steps, steps[-1]] if steps else [0.0] * len(points)


def _site_msg(site: Site) -> SiteMsg:
    msg = SiteMsg(name=site.name, features=list(site.features),
                  yaw=math.nan if site.yaw is None else site.yaw)
    if site.position is not None:
        msg.position = PointMsg(x=site.position[0], y=site.position[1])
    msg.region = [PointMsg(x=x, y=y) for x, y in site.region or ()]
    return msg
