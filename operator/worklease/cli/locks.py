"""Tells the commands of one user on one machine apart where the API server cannot: they speak as one instance.

Whoever runs something under a tenure of that instance has its lock for as long as it runs; another command that would
take the tenure from it, by claiming again, sees so. Without a place for the lock there is none: the API server still
sees to it that one of them loses.
"""

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path
from types import TracebackType

from worklease.client.identity import Identity

FILE_MODE = 0o600
OFFSET_BITS = 62


class Lock:
    """Used with `with`. It is never waited for: `taken` says whether it is ours, or there is no place for one."""

    def __init__(self, server: str, identity: Identity, lease: str) -> None:
        named = "\n".join((server, identity.username, identity.instance, lease))
        digest = hashlib.sha256(named.encode()).digest()
        self._offset = int.from_bytes(digest[:8], "big") >> (64 - OFFSET_BITS)
        self._file: int | None = None
        self.taken = True

    def __enter__(self) -> "Lock":
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: this user has no home
            path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "worklease" / "holds.lock"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        self.again()
        return self

    def again(self) -> bool:
        """Tries once more to have it."""
        if self._file is not None:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._offset)
                self.taken = True
            except (BlockingIOError, PermissionError):
                self.taken = False
            except OSError:  # no locks on that file system
                self.taken = True
        return self.taken

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
