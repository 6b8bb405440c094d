"""The API server's wall time, carried on by the monotonic clock of this process."""

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RESOLUTION_SECONDS = 1.0


class ServerClock:
    """Learns from the Date header of each answer.

    The header is cut to the second. Within that second this machine's own clock is believed, beyond it the server's.
    """

    def __init__(self) -> None:
        self._offset_seconds = time.time() - time.monotonic()

    def hear(self, date: str | None) -> None:
        """Take the Date header of an answer that has just arrived."""
        if not date:
            return
        try:
            stamp = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):
            return
        monotonic = time.monotonic()
        earliest = stamp - monotonic
        own = time.time() - monotonic
        self._offset_seconds = min(max(own, earliest), earliest + RESOLUTION_SECONDS)

    def now(self) -> datetime:
        """The server's time, to within the header's resolution and the answer's way."""
        return datetime.fromtimestamp(time.monotonic() + self._offset_seconds, UTC)
