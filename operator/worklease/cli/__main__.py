"""python -m worklease.cli is the command worklease."""

import sys

from worklease.cli.command import main

if __name__ == "__main__":
    sys.exit(main())
