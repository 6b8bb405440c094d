"""Starts the supervisor: `python -m localcluster`, from hack/, as hack/cluster up does."""

import sys

from environment import reported

from .supervisor import main

if __name__ == "__main__":
    with reported():
        sys.exit(main(sys.argv[1:]))
