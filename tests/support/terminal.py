"""A program on a terminal of its own: what it draws there, and what a person does to it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence

from support.waiting import wait_for

WITHIN_SECONDS = 60.0


class Terminal:
    """Runs a program until it is left with `with`. `drawn` is all that it has written, escape sequences included."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], *, columns: int = 200, lines: int = 50):
        self._words = words
        self._environment = {**environment, "TERM": "xterm"}
        for name in ("COLUMNS", "LINES"):
            self._environment.pop(name, None)
        self._size = (columns, lines)
        self.drawn = ""

    def __enter__(self) -> Terminal:
        self._ours, theirs = os.openpty()
        columns, lines = self._size
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._process = subprocess.Popen(
            self._words, env=self._environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(WITHIN_SECONDS)
        os.close(self._ours)

    def resize(self, columns: int, lines: int) -> None:
        """Makes it another size, as a person does to a window."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._process.send_signal(signal.SIGWINCH)

    def type(self, text: str) -> None:
        """Types this."""
        os.write(self._ours, text.encode())

    def interrupt(self) -> int:
        """Presses Ctrl-C; the exit code."""
        self.signal(signal.SIGINT)
        return self.ends()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the program."""
        self._process.send_signal(number)

    def ends(self) -> int:
        """Waits for its end; the exit code."""
        code = self._process.wait(WITHIN_SECONDS)
        self._reader.join(WITHIN_SECONDS)
        return code

    def shows(self, text: str, since: int = 0) -> None:
        """Waits until this is drawn, after the first `since` characters."""
        wait_for(lambda: text in self.drawn[since:], f"{text!r} on the terminal", WITHIN_SECONDS)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # nobody writes to it any more
            while data := os.read(self._ours, 65536):
                self.drawn += data.decode(errors="replace")
