"""The ROS 2 layer: thin nodes that convert, call the core, publish, or map an error."""
