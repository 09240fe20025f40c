"""A simulated robot, the planner and a task: the whole loop without a robot.

The rest of the arguments are those of planner.launch.py, which this file includes.
"""

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    GroupAction,
    IncludeLaunchDescription,
    Shutdown,
)
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

SHARE = FindPackageShare('gk_planner')


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; start the world and the planner, and end both with the world."""
    return LaunchDescription([
        DeclareLaunchArgument(
            'namespace', default_value='', description='namespace of all nodes'),
        DeclareLaunchArgument(
            'map', default_value=PathJoinSubstitution([SHARE, 'maps', 'office.yaml']),
            description='map_server YAML file of the world'),
        DeclareLaunchArgument(
            'task',
            default_value=PathJoinSubstitution([SHARE, 'config', 'tasks', 'office.yaml']),
            description='task file to start with; the robot starts at its start. "\'\'": no '
            'task, and the robot starts at x, y of sim_params_file'),
        DeclareLaunchArgument(
            'params_file',
            default_value=PathJoinSubstitution([SHARE, 'config', 'sim_planner.yaml']),
            description='YAML file with the parameters of the planner'),
        DeclareLaunchArgument(
            'sim_params_file', default_value=PathJoinSubstitution([SHARE, 'config', 'sim.yaml']),
            description='YAML file with the parameters of the world'),
        DeclareLaunchArgument(
            'use_sim_time', default_value='false', choices=['true', 'false'],
            description='the world publishes /clock, and the planner takes its time from there'),
        DeclareLaunchArgument(
            'log_level', default_value='info',
            choices=['debug', 'info', 'warn', 'error', 'fatal'],
            description='log from this level on'),
        # In a scope of its own: there, no map is to be served.
        GroupAction([IncludeLaunchDescription(
            PathJoinSubstitution([SHARE, 'launch', 'planner.launch.py']),
            launch_arguments={'map': '',
                              'params_file': LaunchConfiguration('params_file')}.items())]),
        Node(
            package='gk_planner', executable='sim_node', name='gk_sim',
            namespace=LaunchConfiguration('namespace'), output='screen', on_exit=Shutdown(),
            # Never use_sim_time itself: this node makes the time.
            parameters=[LaunchConfiguration('sim_params_file'), {
                'map': LaunchConfiguration('map'), 'task': LaunchConfiguration('task'),
                'publish_clock': LaunchConfiguration('use_sim_time')}],
            ros_arguments=['--log-level', LaunchConfiguration('log_level')]),
    ])
