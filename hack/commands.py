"""Runs a long command with its output in a file; nothing of it survives an interruption of ours."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from progress import Progress
from tether import tethered

LAST_LINES = 20
GRACE_SECONDS = 5.0


class SetupError(RuntimeError):
    """Something a person has to know: the message says what happened, to what, and what to do next."""


def run_logged(
    command: list[str], what: str, usually: str, log: Path, directory: Path, variables: Mapping[str, str] | None = None
) -> None:
    """Runs `command` in `directory`, showing that it runs. A SetupError has the last lines of its output."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with Progress(what, usually), log.open("wb") as output:
        process = subprocess.Popen(
            tethered(command),
            cwd=directory,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait()
        except BaseException:
            end_group(process)
            raise
    if code:
        with log.open(errors="replace") as lines:
            last = "".join(deque(lines, LAST_LINES)).rstrip()
        raise SetupError(f"{what} failed with exit code {code}:\n{last}\nThe whole output is in {log}")


def end_group(
    process: subprocess.Popen[bytes],
    first: signal.Signals = signal.SIGTERM,
    within_seconds: float = GRACE_SECONDS,
) -> None:
    """Ends a process that leads its own group, and whatever else is in the group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, first)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(within_seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
