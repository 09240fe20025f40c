"""The planner on a robot: map and pose come from others, such as Nav2's map_server and AMCL.

With the argument ``map`` the map is served from a file, by a map_server of its own.

An argument that is left empty leaves its parameter to the params_file.
"""

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

SHARE = FindPackageShare('gk_planner')
# As in nav2_bringup: each namespace has a TF of its own.
TF = [('/tf', 'tf'), ('/tf_static', 'tf_static')]


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; start the planner and, if asked, RViz and a map_server."""
    return LaunchDescription([
        DeclareLaunchArgument(
            'namespace', default_value='', description='namespace of all nodes'),
        DeclareLaunchArgument(
            'params_file', default_value=PathJoinSubstitution([SHARE, 'config', 'planner.yaml']),
            description='YAML file with the parameters of the planner'),
        DeclareLaunchArgument(
            'use_sim_time', default_value='', choices=['', 'true', 'false'],
            description='take the time from /clock; empty: as in params_file'),
        DeclareLaunchArgument(
            'autostart', default_value='', choices=['', 'true', 'false'],
            description='configure and activate by itself, false under a lifecycle manager; '
            'empty: as in params_file'),
        DeclareLaunchArgument(
            'map', default_value='',
            description='map_server YAML file to serve as the topic map (package '
            'nav2_map_server); empty: the map comes from elsewhere'),
        DeclareLaunchArgument(
            'task', default_value='',
            description='task file to start with; empty: task_file of params_file'),
        DeclareLaunchArgument(
            'rviz', default_value='false', choices=['true', 'false'],
            description='show map, plan, sites and bits in RViz'),
        DeclareLaunchArgument(
            'log_level', default_value='info',
            choices=['debug', 'info', 'warn', 'error', 'fatal'],
            description='log from this level on'),
        OpaqueFunction(function=show, condition=IfCondition(LaunchConfiguration('rviz'))),
        # After RViz: where that is not installed, launch stops before there is a node to leave.
        OpaqueFunction(function=serve_map),
        OpaqueFunction(function=start_planner),
    ])


def show(context: LaunchContext) -> list[Node]:
    """Return RViz with the view of the planner."""
    return [Node(
        package='rviz2', executable='rviz2', namespace=LaunchConfiguration('namespace'),
        arguments=['-d', PathJoinSubstitution([SHARE, 'launch', 'gk_planner.rviz'])],
        parameters=[given(context, {'use_sim_time': LaunchConfiguration('use_sim_time')})],
        remappings=TF)]


def serve_map(context: LaunchContext) -> list[Node]:
    """Return a map_server and who activates it, if there is a file to serve."""
    if not LaunchConfiguration('map').perform(context):
        return []
    common = {'namespace': LaunchConfiguration('namespace'), 'output': 'screen'}
    clock = given(context, {'use_sim_time': LaunchConfiguration('use_sim_time')})
    return [
        Node(package='nav2_map_server', executable='map_server', name='map_server', **common,
             parameters=[{'yaml_filename': LaunchConfiguration('map'), **clock}]),
        Node(package='nav2_lifecycle_manager', executable='lifecycle_manager',
             name='lifecycle_manager_map', **common,
             parameters=[{'autostart': True, 'node_names': ['map_server'], **clock}])]


def start_planner(context: LaunchContext) -> list[Node]:
    """Return the planner with the parameters that were given as arguments."""
    parameters = given(context, {'use_sim_time': LaunchConfiguration('use_sim_time'),
                                 'autostart': LaunchConfiguration('autostart'),
                                 'task_file': LaunchConfiguration('task')})
    return [Node(
        package='gk_planner', executable='planner_node', name='gk_planner',
        namespace=LaunchConfiguration('namespace'), output='screen',
        parameters=[LaunchConfiguration('params_file'), parameters], remappings=TF,
        ros_arguments=['--log-level', LaunchConfiguration('log_level')])]


def given(context: LaunchContext, parameters: dict[str, LaunchConfiguration],
          ) -> dict[str, LaunchConfiguration]:
    """Return the parameters whose argument is not empty."""
    return {name: value for name, value in parameters.items() if value.perform(context)}
