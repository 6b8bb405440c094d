"""The link between this machine and a node, and the addresses of both; each node has a number that no other has."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TextIO

from commands import SetupError

from . import cgroups

NODES = 32
# 198.18.0.0/15 is set apart for tests of networks (RFC 2544), so that no machine's own network is there.
HOST = "198.18.{}.1"
NODE = "198.18.{}.2"
PREFIX_LENGTH = 30
PODS = "198.19.{}.0/24"
LOCKS = Path(tempfile.gettempdir())


class Slot:
    """One number, ours until it is closed or our process ends; what a dead owner left is removed first."""

    def __init__(self) -> None:
        self.number, self._lock = _free()
        self.name = f"worklease{self.number}"
        self.host_address = HOST.format(self.number)
        self.node_address = NODE.format(self.number)
        self.pods = PODS.format(self.number)
        self.far_end = f"{self.name}p"
        self._remove()

    def connect(self) -> None:
        """Makes the link; its far end is still here."""
        _ip("link", "add", self.name, "type", "veth", "peer", "name", self.far_end)
        _ip("address", "add", f"{self.host_address}/{PREFIX_LENGTH}", "dev", self.name)
        _ip("link", "set", self.name, "up")

    def give(self, pid: int) -> None:
        """Moves the far end into the network namespace of a process. From then on this machine reaches the pods."""
        _ip("link", "set", self.far_end, "netns", str(pid))
        _ip("route", "replace", self.pods, "via", self.node_address, "dev", self.name)

    def close(self) -> None:
        """Removes the link and the cgroups, and lets the number go; repeated it does nothing."""
        if not self._lock.closed:
            self._remove()
            self._lock.close()

    def _remove(self) -> None:
        subprocess.run([_program(), "link", "delete", self.name], capture_output=True)
        cgroups.remove(self.name)


def _free() -> tuple[int, TextIO]:
    for number in range(NODES):
        lock = (LOCKS / f"worklease-node-{number}.lock").open("a")
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number, lock
        lock.close()
    raise SetupError(f"{NODES} nodes run on this machine already")


def _ip(*arguments: str) -> None:
    answer = subprocess.run([_program(), *arguments], capture_output=True, text=True)
    if answer.returncode:
        raise SetupError(f"ip {' '.join(arguments)}: {answer.stderr.strip()}")


def _program() -> str:
    return shutil.which("ip") or "/usr/sbin/ip"
