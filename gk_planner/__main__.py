"""Run the command line with ``python -m gk_planner``."""

import sys

from gk_planner.cli import main

if __name__ == '__main__':
    sys.exit(main())
