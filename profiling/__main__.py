"""``python -m profiling``."""

import sys

from profiling.cli import main

if __name__ == "__main__":
    sys.exit(main())
