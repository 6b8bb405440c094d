"""What an agent believes, in the history before it acts on it, on clocks that can be made to go wrong.

The deadline of a belief is what the client computed, on the agent's own clock, not when the agent got round to
noticing it. The history has the clock's rate too, so that the checker knows when that was in truth.
"""

from __future__ import annotations

import json
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import worklease.client.client as client_module
from worklease.client.claims import Grant
from worklease.client.holding import Holding
from worklease.client.timing import Belief, Standing
from worklease.kube.clock import ServerClock

from .history import Recorder, real_seconds

true_time = time.time


class Clocks:
    """The monotonic clock that the client is handed, and this process's wall clock; both as a file says."""

    def __init__(self, recorder: Recorder, file: Path) -> None:
        self._recorder = recorder
        self._file = file
        self._real = self._shown = real_seconds()
        self._rate = 1.0
        self._offset_seconds = 0.0
        self._load()
        signal.signal(signal.SIGUSR1, lambda number, frame: self._load())
        time.time = lambda: true_time() + self._offset_seconds

    def __call__(self) -> float:
        """Seconds on the agent's clock."""
        return self._shown + (real_seconds() - self._real) * self._rate

    def _load(self) -> None:
        try:
            told = json.loads(self._file.read_text())
        except OSError:
            told = {}
        real = real_seconds()
        self._shown += (real - self._real) * self._rate
        self._real = real
        self._rate = float(told.get("rate", 1.0))
        self._offset_seconds = float(told.get("offset_seconds", 0.0))
        self._recorder.write("clock", at=real, shown=self._shown, rate=self._rate, offset_seconds=self._offset_seconds)


class RecordedBelief(Belief):
    """A belief that says in the history what it is, before anybody can act on it."""

    def __init__(self, grant: Grant, lease: str, recorder: Recorder) -> None:
        super().__init__(grant.terms, grant.sent_at)
        self._recorder = recorder
        self._about: dict[str, Any] = {"lease": lease, "epoch": grant.epoch, "claim": grant.claim_id}
        self._say(grant.sent_at)

    def confirm(self, sent_at: float, now: float) -> bool:
        self._say(max(self.confirmed_at, sent_at))
        return super().confirm(sent_at, now)

    def end(self, final: Standing) -> bool:
        ended = super().end(final)
        if ended:
            self._recorder.write("belief-end", **self._about, standing=str(final))
        return ended

    def _say(self, confirmed_at: float) -> None:
        self._recorder.write(
            "belief",
            **self._about,
            deadline=confirmed_at + self.terms.certain_seconds,
            expiry=confirmed_at + self.terms.safe_seconds,
        )


def record_beliefs(recorder: Recorder) -> None:
    """From now on the history has what every holding of this process believes."""

    class RecordedHolding(Holding):
        def __init__(self, session: Any, clock: Any, grant: Grant, *rest: Any) -> None:
            super().__init__(session, clock, grant, *rest)
            self.belief = RecordedBelief(grant, grant.work.key, recorder)

    client_module.__dict__["Holding"] = RecordedHolding


def renew_by_wall_clock() -> None:
    """This process writes renewTime as a shell script does: by its own wall clock, however wrong."""
    ServerClock.now = lambda self: datetime.fromtimestamp(time.time(), UTC)  # type: ignore[method-assign]
