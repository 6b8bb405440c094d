"""What an agent believes, in the history before it acts on it, on clocks that can be made to go wrong.

The deadline of a belief is what the client computed, on the agent's own clock, not when the agent got round to
noticing it. The history has the clock's rate too, so that the checker knows when that was in truth.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import worklease.client.client as client_module
from worklease.client.deciding import Grant
from worklease.client.holding import Holding
from worklease.client.timing import Belief, Standing
from worklease.kube.clock import ServerClock

from .history import Recorder, real_seconds

FOLLOW_SECONDS = 0.05
true_time = time.time


class Clocks:
    """The monotonic clock that the client is handed, and this process's wall clock; both as a file says."""

    def __init__(self, recorder: Recorder, file: Path) -> None:
        self._recorder = recorder
        self._file = file
        real = real_seconds()
        self._line = real, real, 1.0
        self._offset_seconds = 0.0
        self._told = ""
        self._take("{}")
        time.time = lambda: true_time() + self._offset_seconds
        threading.Thread(target=self._follow, name="clocks", daemon=True).start()

    def __call__(self) -> float:
        """Seconds on the agent's clock."""
        real, shown, rate = self._line
        return shown + (real_seconds() - real) * rate

    def _follow(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                self._take(self._file.read_text())
            time.sleep(FOLLOW_SECONDS)

    def _take(self, text: str) -> None:
        if text == self._told:
            return
        told = json.loads(text)
        self._told = text
        real, shown, rate = self._line
        now = real_seconds()
        self._line = now, shown + (now - real) * rate, float(told.get("rate", 1.0))
        self._offset_seconds = float(told.get("offset_seconds", 0.0))
        self._recorder.write(
            "clock", at=now, shown=self._line[1], rate=self._line[2], offset_seconds=self._offset_seconds
        )


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
