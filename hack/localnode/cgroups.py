"""The cgroups that a node's pods live in, below one directory of its own, in cgroup v1 and v2."""

from __future__ import annotations

import contextlib
from pathlib import Path

from commands import SetupError

ROOT = Path("/sys/fs/cgroup")
V2_MARK = ROOT / "cgroup.controllers"
NEEDED = ("cpu", "cpuset", "memory", "pids")
# Those of version 2 that the kubelet wants enabled wherever the machine has them.
V2_WANTED = ("cpu", "cpuset", "hugetlb", "io", "memory", "pids")
V2_ENABLED = ROOT / "cgroup.subtree_control"
HYBRID = ROOT / "unified"


def lacking() -> list[str]:
    """The controllers that a node needs and this machine does not offer."""
    if V2_MARK.exists():
        offered = V2_MARK.read_text().split()
        return [name for name in NEEDED if name not in offered]
    return [name for name in NEEDED if not (ROOT / name / "tasks").exists()]


def is_version_1() -> bool:
    """Whether the controllers have hierarchies of their own."""
    return not V2_MARK.exists()


def create(name: str) -> None:
    """Makes the directory `name` in every hierarchy. Raises SetupError where the machine does not let it."""
    try:
        for parent in _hierarchies():
            (parent / name).mkdir(exist_ok=True)
        if not is_version_1():
            offered = V2_MARK.read_text().split()
            V2_ENABLED.write_text(" ".join(f"+{controller}" for controller in V2_WANTED if controller in offered))
    except OSError as error:
        raise SetupError(f"no cgroup for a node can be made in {ROOT}: {error}; is this inside a container?") from None


def remove(name: str) -> None:
    """Removes what has no process left in it; repeated by the next node of this name."""
    for parent in _hierarchies():
        found = sorted((parent / name).rglob("*/"), key=lambda path: -len(path.parts))
        for directory in [*found, parent / name]:
            if directory.is_dir():
                with contextlib.suppress(OSError):
                    directory.rmdir()


def _hierarchies() -> list[Path]:
    if not is_version_1():
        return [ROOT]
    return [path for path in sorted(ROOT.iterdir()) if path.is_dir() and not path.is_symlink() and path != HYBRID]
