"""One server process of the control plane: started tied to us, signalled, ended within a bound, its log at hand."""

from __future__ import annotations

import signal
import subprocess
from collections import deque
from pathlib import Path

from tether import tethered

LAST_LINES = 15
KILLED_WITHIN_SECONDS = 10.0


class Process:
    """A running server. Its output goes to the file `log`; a terminal's Ctrl-C does not reach it."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self.command = command
        self.log = log
        with log.open("ab") as output:
            self._offset = output.tell()
            self._popen = subprocess.Popen(
                tethered(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs, its exit code (negative: the signal) afterwards."""
        return self._popen.poll()

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, unless it has ended."""
        self._popen.send_signal(number)

    def stop(self, within_seconds: float) -> None:
        """Asks it to end, waits, and kills it when it has not ended in time."""
        if self.exit_code is not None:
            return
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            self._popen.wait(within_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kills it and waits until it is gone."""
        self.send(signal.SIGKILL)
        self._popen.wait(KILLED_WITHIN_SECONDS)

    def output(self) -> str:
        """What this run has logged so far, at most the last megabyte of it."""
        with self.log.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(self._offset, end - 2**20))
            return file.read().decode(errors="replace")

    def last_lines(self) -> str:
        """The end of its log, for an error message."""
        return "\n".join(deque(self.output().splitlines(), LAST_LINES))
