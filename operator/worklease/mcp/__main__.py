"""python -m worklease.mcp is the command worklease-mcp."""

import sys

from worklease.mcp.command import main

if __name__ == "__main__":
    sys.exit(main())
