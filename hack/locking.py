"""Locks between processes, on files; one ends with the process that holds it, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def cache_directory() -> Path:
    """The directory that keeps what is built, shared by every clone of the repository on this machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "worklease"


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[str], None]) -> Iterator[None]:
    """Holds the lock `path`. Calls `waiting` with the other process's id before waiting for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            waiting(file.read(32).strip() or "unknown")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
