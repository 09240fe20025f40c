#!/bin/sh
# Run a command with the ROS 2 that setup_ros.py prepared:
#   tools/with_ros.sh .venv/bin/python -m pytest
# DDS traffic stays on this machine, in a domain of its own unless ROS_DOMAIN_ID is set.
repo=$(cd "$(dirname "$0")/.." && pwd) || exit
venv=${VENV:-$repo/.venv}
if ! read -r origin _ < "$venv/.gk_planner_setup"; then
  echo 'error: ROS 2 is not set up; run `make setup`' >&2
  exit 1
fi
if [ "$origin" = sourced ]; then
  COLCON_CURRENT_PREFIX=$repo/install
  . "$COLCON_CURRENT_PREFIX/setup.sh"
  unset COLCON_CURRENT_PREFIX
else
  # Python finds its libraries through the wheels' bootstrapper, unless a caller's Python has run it
  # for another environment.
  unset _ROS_WHEELS_BOOTSTRAP_COMPLETE
  export AMENT_PREFIX_PATH="$venv"
fi
export PATH="$venv/bin:$PATH"
export ROS_AUTOMATIC_DISCOVERY_RANGE="${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST}"
export ROS_DOMAIN_ID="${ROS_DOMAIN_ID:-$(($$ % 101 + 1))}"
# Over shared memory the first word of a node is now and then lost, and it is found 3 s later.
export FASTDDS_BUILTIN_TRANSPORTS="${FASTDDS_BUILTIN_TRANSPORTS:-UDPv4}"
exec "$@"
