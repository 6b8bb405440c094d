"""The API server's wall time, carried on by the monotonic clock of this process."""

import math
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RESOLUTION_SECONDS = 1.0


class ServerClock:
    """Learns from the Date header of each answer.

    The header is cut to the second, and was written at some time between the request and the arrival of its answer,
    which may be long after. What answers agree on is kept; within it this machine's own clock is believed.
    """

    def __init__(self) -> None:
        self._offset_seconds = time.time() - time.monotonic()
        self._least, self._most = -math.inf, math.inf

    def hear(self, date: str | None, sent_at: float) -> None:
        """Take the Date header of an answer that has just arrived; its request was sent at this time.monotonic()."""
        if not date:
            return
        try:
            stamp = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):
            return
        monotonic = time.monotonic()
        least, most = stamp - monotonic, stamp + RESOLUTION_SECONDS - sent_at
        if max(least, self._least) <= min(most, self._most):
            least, most = max(least, self._least), min(most, self._most)
        self._least, self._most = least, most  # else the server's clock was set, or it is another server
        self._offset_seconds = min(max(time.time() - monotonic, least), most)

    def now(self) -> datetime:
        """The server's time, to within the header's resolution and the way of the quickest answer."""
        return datetime.fromtimestamp(time.monotonic() + self._offset_seconds, UTC)
