"""Where the background cluster keeps its files, and how anybody tells whether it runs.

The supervisor holds a lock as long as it lives. The lock ends with it, so no process id has to be believed.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

HELD_WITHIN_SECONDS = 5.0
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Operator:
    """The operator that the supervisor has started; `exit_code` is None while it runs."""

    pid: int
    address: str
    exit_code: int | None


@dataclass(frozen=True)
class Node:
    """The node of the cluster: the first process of its namespaces, and where its daemons log."""

    pid: int
    name: str
    logs: str


@dataclass(frozen=True)
class Running:
    """What the supervisor tells once everything is ready."""

    pid: int
    started_time: float
    server: str
    kubectl: str
    pids: dict[str, int]
    empty: bool
    operator: Operator | None
    node: Node | None = None


class State:
    """The files of the cluster in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.up_lock = directory / "up.lock"
        self.alive_lock = directory / "supervisor.pid"
        self.running_file = directory / "running.json"
        self.supervisor_log = directory / "supervisor.log"
        self.operator_log = directory / "operator.log"
        self.operator_kubeconfig = directory / "operator.kubeconfig"
        self.operator_wanted = directory / "operator-wanted"
        self.plane_directory = directory / "plane"
        self.node_directory = directory / "node"
        self.kubeconfig = directory / "kubeconfig"

    @classmethod
    def default(cls) -> State:
        """The state of this person's cluster."""
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        return cls(base / "worklease" / "cluster")

    def hold(self) -> TextIO | None:
        """Takes the lock for life, with our process id in it; None when a supervisor already holds it."""
        file = self.alive_lock.open("a+")
        deadline_monotonic = time.monotonic() + HELD_WITHIN_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # Those who only ask hold it too, for an instant.
                if time.monotonic() > deadline_monotonic:
                    file.close()
                    return None
                time.sleep(POLL_SECONDS)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        return file

    def supervisor_pid(self) -> int | None:
        """The process id of a supervisor that is alive, None when there is none, whatever the file says."""
        try:
            file = self.alive_lock.open("r")
        except FileNotFoundError:
            return None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read(32).strip()
                return int(text) if text.isdecimal() else None
        return None

    def running(self) -> Running | None:
        """What a ready supervisor that is alive has told."""
        pid = self.supervisor_pid()
        try:
            content = json.loads(self.running_file.read_text())
            operator, node = content.pop("operator"), content.pop("node")
            told = Running(
                **content,
                operator=Operator(**operator) if operator else None,
                node=Node(**node) if node else None,
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return told if told.pid == pid else None

    def tell(self, running: Running) -> None:
        """Writes what others may rely on, whole or not at all."""
        temporary = self.running_file.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(running)))
        os.replace(temporary, self.running_file)
