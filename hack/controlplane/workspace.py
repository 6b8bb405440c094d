"""A temporary directory that is removed by its owner, and by the next owner when its own was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "worklease-"
OWNED = "owned"
REMOVALS = 40
REMOVAL_PAUSE_SECONDS = 0.05


class Workspace:
    """A fresh directory, marked as in use by a lock that ends with this process."""

    def __init__(self) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # The lock is held before the file has the name that others look for.
        unseen = self.path / f".{OWNED}"
        self._lock = unseen.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.replace(unseen, self.path / OWNED)

    def remove(self) -> None:
        """Removes the directory and everything in it, also while a server that is about to end still writes there."""
        for _ in range(REMOVALS):
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.path.exists():
                break
            time.sleep(REMOVAL_PAUSE_SECONDS)
        self._lock.close()


def _remove_abandoned(base: Path) -> None:
    for mark in base.glob(f"{PREFIX}*/{OWNED}"):
        with contextlib.suppress(OSError), mark.open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(mark.parent, ignore_errors=True)
