"""Tells a person on stderr what is being done, how long that usually takes and how long it has taken so far."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

LINE_EVERY_SECONDS = 30.0


def say(text: str) -> None:
    """Prints one line of prose, away from stdout, which belongs to what scripts read."""
    print(text, file=sys.stderr, flush=True)


class Progress:
    """Shows that a step is running: a ticking line on a terminal, one line every 30 s anywhere else."""

    def __init__(self, what: str, usually: str = "", stream: TextIO | None = None) -> None:
        self.what = f"{what} (usually {usually})" if usually else what
        self.stream = stream or sys.stderr
        self._ended = threading.Event()
        self._started_monotonic = 0.0
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Progress:
        self._started_monotonic = time.monotonic()
        if not self.stream.isatty():
            self._write(f"{self.what} ...\n")
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._ticker.join()
        outcome = "done" if error is None else "stopped"
        self._write(f"{self._line()}: {outcome}\n")

    def _line(self) -> str:
        elapsed_seconds = int(time.monotonic() - self._started_monotonic)
        start_of_line = "\r" if self.stream.isatty() else ""
        return f"{start_of_line}{self.what}, {elapsed_seconds // 60}:{elapsed_seconds % 60:02d}"

    def _tick(self) -> None:
        on_terminal = self.stream.isatty()
        while not self._ended.wait(1.0 if on_terminal else LINE_EVERY_SECONDS):
            self._write(self._line() if on_terminal else f"{self._line()} so far\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()
