"""python -m worklease.mcp is the command worklease-mcp."""

import sys

from worklease.extras import mcp

if __name__ == "__main__":
    sys.exit(mcp())
