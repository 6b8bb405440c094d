"""Operators that are killed at a chosen request, forked off one process that has imported everything already.

A line of JSON on standard input starts one: `{"arguments": [...], "log": FILE, "crash_at": N, "when": "before"}`; its
process id is answered. It is killed before the N-th request is sent, or after its answer and before that is used; 0
never. Requests that only ask whether the store answers, or what the cluster has, do not count: they come by chance.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from worklease.controller import command
from worklease.kube.session import Answer, Session

PR_SET_PDEATHSIG = 1


class Nursery:
    """Starts such operators."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._started = 0
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.crashing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
            start_new_session=True,
        )

    def start(self, namespace: str, *flags: str, crash_at: int = 0, when: str = "before") -> Crashing:
        """Starts one for a namespace."""
        assert self._process.stdin
        assert self._process.stdout
        with self._one_at_a_time:
            log = self._directory / f"crashing-{self._started}.log"
            self._started += 1
            arguments = [f"--kubeconfig={self._kubeconfig}", f"--namespace={namespace}", "--listen=127.0.0.1:0", *flags]
            order = {"arguments": arguments, "log": str(log), "crash_at": crash_at, "when": when}
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return Crashing(int(self._process.stdout.readline()), log)

    def stop(self) -> None:
        """Ends all of them."""
        self._process.kill()
        self._process.communicate()


class Crashing:
    """One of them."""

    def __init__(self, process_id: int, log: Path) -> None:
        self.process_id = process_id
        self._log = log

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text(errors="replace")

    def is_alive(self) -> bool:
        """Whether it still runs."""
        try:
            os.kill(self.process_id, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """Ends it at once."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process_id, signal.SIGKILL)


def crash(at: int, when: str) -> None:
    """Makes this process kill itself at its request number `at`."""
    unhindered = Session.request
    count = 0

    async def request(self: Session, method: str, path: str, *arguments: Any, **options: Any) -> Answer:
        nonlocal count
        if path.endswith("?limit=1") or "/namespaces/" not in path:
            return await unhindered(self, method, path, *arguments, **options)
        count += 1
        number = count
        if number == at and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return await unhindered(self, method, path, *arguments, **options)
        finally:
            if number == at:
                os.kill(os.getpid(), signal.SIGKILL)

    Session.request = request  # type: ignore[method-assign]


def become(order: dict[str, Any]) -> None:
    """Is the operator of that order, in a process of its own."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    if order["crash_at"]:
        crash(order["crash_at"], order["when"])
    sys.argv[1:] = order["arguments"]
    command.main()


def main() -> None:
    """Starts what is ordered until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if (process_id := os.fork()) == 0:
            try:
                become(json.loads(line))
            finally:
                os._exit(0)
        print(process_id, flush=True)


if __name__ == "__main__":
    main()
