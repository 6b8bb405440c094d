"""The operator's own clock for deadlines: it stands still while the watch is blind.

A failed watch is not the holders' fault: nothing comes due during an outage, and afterwards every deadline is later by
the outage's length.
"""

import time
from collections.abc import Callable

from worklease.kube.clock import ServerClock
from worklease.protocol.moments import Moment


class WatchClock:
    """Seconds that the watch has been able to see."""

    def __init__(self, server_clock: ServerClock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._server_clock = server_clock
        self._monotonic = monotonic
        self._blind_seconds = 0.0
        self._blind_since: float | None = None

    @property
    def blind(self) -> bool:
        return self._blind_since is not None

    def seconds(self) -> float:
        now = self._monotonic() if self._blind_since is None else self._blind_since
        return now - self._blind_seconds

    def moment(self) -> Moment:
        return Moment(self.seconds(), self._server_clock.now())

    def stop(self, since: float) -> None:
        """The watch has seen nothing since this monotonic time."""
        if self._blind_since is None:
            self._blind_since = since

    def resume(self) -> float:
        """The watch sees again; returns the seconds for which it did not."""
        if self._blind_since is None:
            return 0.0
        blind = max(0.0, self._monotonic() - self._blind_since)
        self._blind_seconds += blind
        self._blind_since = None
        return blind
