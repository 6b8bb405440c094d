"""Whether the store answers, which an open watch does not tell: a server that hangs keeps its watches open and silent.

Holders cannot renew while it does not answer, so nothing may come due by that time. And what was written into it then
is the first thing that it does when it goes on: whatever is due is written only to a store that has just answered.
"""

import asyncio
import logging
import time

from worklease.api.group import GROUP
from worklease.errors import ApiError, NotFound
from worklease.kube.session import Session

logger = logging.getLogger(__name__)

PULSE_SECONDS = 1.0
"""The store is asked for something small after it has answered nothing for this long, and every so often then.

Also before an earlier question is answered: a store that is slow goes on answering, a store that hangs does not.
"""
ASKED_MAX = 10
DOWN_AFTER_SECONDS = 3.0
"""After this long without an answer it counts as down, from its last answer on."""
FRESH_SECONDS = 0.25
COMPLAIN_SECONDS = 10.0


class Pulse:
    """Keeps asking the store for one object of the collection at `path`. Times are time.monotonic()."""

    def __init__(self, session: Session, path: str) -> None:
        self._session = session
        self._path = f"{path}?limit=1"
        self.trouble: str | None = None
        self._complained_at = 0.0
        self._listening_since = 0.0
        self._asked: set[asyncio.Task[None]] = set()

    async def keep(self) -> None:
        """Ask whenever nobody else has for a while, for as long as the operator runs."""
        while True:
            answered_at = self._session.answered_at
            quiet_seconds = PULSE_SECONDS if answered_at is None else time.monotonic() - answered_at
            if quiet_seconds < PULSE_SECONDS:
                await asyncio.sleep(PULSE_SECONDS - quiet_seconds)
                continue
            if len(self._asked) < ASKED_MAX:
                asked = asyncio.create_task(self._ask())
                self._asked.add(asked)
                asked.add_done_callback(self._asked.discard)
            await asyncio.sleep(PULSE_SECONDS)

    async def _ask(self) -> None:
        try:
            await self._session.request("GET", self._path)
            self.trouble = None
        except ApiError as error:
            self._complain(error)

    def fresh(self) -> bool:
        """It has answered only just now."""
        answered_at = self._session.answered_at
        return answered_at is not None and time.monotonic() - answered_at <= FRESH_SECONDS

    def beats(self) -> bool:
        """It has answered, and does."""
        return self._session.answered_at is not None and self.silent_since() is None

    def silent_since(self) -> float | None:
        """Since when it has answered nothing, if it counts as down now."""
        if self._session.answered_at is None:
            return None
        heard_at = max(self._session.answered_at, self._listening_since)
        return heard_at if time.monotonic() - heard_at > DOWN_AFTER_SECONDS else None

    def excuse(self) -> None:
        """Until now we did not listen."""
        self._listening_since = time.monotonic()

    def _complain(self, error: ApiError) -> None:
        if isinstance(error, NotFound):
            self.trouble = f"the API server does not serve workleases.{GROUP}: install the CRDs"
        else:
            self.trouble = f"workleases cannot be listed: {error}"
        if time.monotonic() - self._complained_at > COMPLAIN_SECONDS:
            self._complained_at = time.monotonic()
            logger.warning("%s", self.trouble)
