"""Finding the processes of a test by a path in their command line, since their parents may be gone."""

import os
import subprocess
import sys
from pathlib import Path

HACK = Path(__file__).resolve().parents[2] / "hack"


def processes_with(text: str) -> dict[int, str]:
    """The running processes, by id, whose command line contains `text`."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if text in command:
                found[int(entry.name)] = command
    return found


def start_python(code: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Runs a piece of Python that may import what lies in hack/, with more environment variables."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(HACK), **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
