"""gk_planner: optimal plans for logical errands on an occupancy grid (LS-GKDP)."""
