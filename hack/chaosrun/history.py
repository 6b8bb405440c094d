"""The history of a run: one line of JSON for each event, written before the next thing happens.

`at` is seconds on the clock of this machine that counts sleep, which all processes share; `party` is who wrote it. Each
process appends to a file of its own, so that it can be killed at any time, and the files are merged at the end.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]
MERGED = "history.jsonl"
PARTS = "history-*.jsonl"


def real_seconds() -> float:
    """The clock of every record; no fault of ours touches it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Recorder:
    """Appends the events of one party."""

    def __init__(self, directory: Path, party: str) -> None:
        self.party = party
        path = directory / f"history-{party}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, kind: str, *, at: float | None = None, **fields: Any) -> float:
        """One event, now unless another time is given; returns its time. It is in the file on return."""
        when = real_seconds() if at is None else at
        record = {"at": round(when, 6), "party": self.party, "kind": kind, **fields}
        os.write(self._file, json.dumps(record, separators=(",", ":")).encode() + b"\n")
        return when


def merge(directory: Path) -> list[Record]:
    """All events by their time, also written into one file of the directory."""
    records = sorted(
        (record for path in sorted(directory.glob(PARTS)) for record in read(path)), key=lambda record: record["at"]
    )
    save(directory / MERGED, records)
    return records


def read(path: Path) -> list[Record]:
    """The events of a file. A last line that was cut short by a kill is left out."""
    records: list[Record] = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines):
        if not line:
            continue
        try:
            records.append(json.loads(line))
        except ValueError:
            if number != len(lines) - 1:
                raise
    return records


def save(path: Path, records: Iterable[Record]) -> None:
    """Writes events as a file that read() reads."""
    with path.open("w") as file:
        for record in records:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
