"""Saying one thing to the API server until it is known whether it was taken: refused, said, or (in time) unknown."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from worklease.api.fields import Part
from worklease.client.clock import Clock
from worklease.client.patience import patiently
from worklease.client.reading import parsed
from worklease.errors import ApiError, Conflict, Refused, Unanswered, Unauthenticated, Unavailable, Unreadable
from worklease.kube.session import JSON_PATCH, Session
from worklease.kube.swap import path_of, read

UNKNOWN = (Unanswered, Unavailable, Unauthenticated)
"""After these it is not known whether the request took effect, or not worth telling."""
ALREADY_EXISTS = "AlreadyExists"
BACKOFF_FIRST_SECONDS = 0.2
BACKOFF_MAX_SECONDS = 3.0
SHORTEST_REQUEST_SECONDS = 0.05
STATEMENT_SECONDS = 5.0
"""How long one request may take where no lease bounds it."""

Patch = list[dict[str, Any]]
Kind = TypeVar("Kind", bound=Part)


def stating(**statements: Any) -> Patch:
    """The JSON patch that says these statements in one write, each whole: nothing of an earlier speaker is kept."""
    return [{"op": "add", "path": f"/spec/{name}", "value": value} for name, value in statements.items()]


class Speech(Generic[Kind]):
    """One thing to say about one object, as often as it takes.

    `said` recognises it in the object, so that a repetition after a lost answer is told from a refusal. `ends` is when
    it has to be known, on `clock`; no request takes longer than `request_seconds`.
    """

    def __init__(
        self,
        session: Session,
        kind: type[Kind],
        namespace: str,
        name: str,
        *,
        said: Callable[[Kind], bool],
        clock: Clock,
        ends: Callable[[], float],
        request_seconds: float,
    ) -> None:
        self._session = session
        self._kind = kind
        self._plural = f"{kind.__name__.lower()}s"
        self._namespace = namespace
        self._name = name
        self._said = said
        self._clock = clock
        self._ends = ends
        self._request_seconds = request_seconds
        self.first_sent_at: float | None = None

    async def patch(self, make: Callable[[], Patch]) -> Kind:
        """Says it by a patch, which is made anew for each attempt. Raises Refused, or what was unknown at the end."""
        path = path_of(self._namespace, self._name, plural=self._plural)
        return await self._repeat(lambda timeout: self._request("PATCH", path, make(), JSON_PATCH, timeout))

    async def create(self, body: dict[str, Any]) -> Kind:
        """Says it by creating the object. Raises Conflict when there is one that does not say it."""
        path = path_of(self._namespace, plural=self._plural)
        return await self._repeat(lambda timeout: self._request("POST", path, body, "application/json", timeout))

    async def _repeat(self, attempt: Callable[[float], Awaitable[Kind]]) -> Kind:
        failures = 0
        while True:
            if self.first_sent_at is None:
                self.first_sent_at = self._clock()
            try:
                return await patiently(lambda: attempt(self._timeout()), self._has_time)
            except UNKNOWN as error:
                unknown: ApiError = error
            except Conflict as error:
                if error.reason == ALREADY_EXISTS:
                    if failures and (work := await self._look()):
                        return work
                    raise
                unknown = error
            except Refused:
                if failures and (work := await self._look()):
                    return work
                raise
            failures += 1
            await self._pause(failures, unknown)
            if work := await self._look():
                return work

    async def _request(self, method: str, path: str, body: Any, content_type: str, within_seconds: float) -> Kind:
        answer = await self._session.request(
            method, path, body, content_type=content_type, timeout_seconds=within_seconds
        )
        try:
            return parsed(self._kind, answer.body)
        except Unreadable as error:  # as good as none
            raise Unanswered(f"{method} {path}: {error}") from error

    async def _look(self) -> Kind | None:
        """The object if it says what we said; None when it does not, or cannot be read now."""
        try:
            async with asyncio.timeout(self._timeout()):
                raw = await read(self._session, self._namespace, self._name, plural=self._plural)
                work = parsed(self._kind, raw)
        except (ApiError, TimeoutError):
            return None
        return work if self._said(work) else None

    async def _pause(self, failures: int, unknown: ApiError) -> None:
        """Waits before the next attempt; raises `unknown` when there is no time for one."""
        after = unknown.retry_after_seconds if isinstance(unknown, Unavailable) else 0.0
        backoff = min(BACKOFF_FIRST_SECONDS * 2.0 ** min(failures - 1, 10), BACKOFF_MAX_SECONDS)
        pause = max(after, backoff * random.uniform(0.5, 1.0))
        if not self._has_time(pause):
            raise unknown
        await asyncio.sleep(pause)

    def _has_time(self, pause_seconds: float) -> bool:
        return self._clock() + pause_seconds < self._ends() - SHORTEST_REQUEST_SECONDS

    def _timeout(self) -> float:
        return max(SHORTEST_REQUEST_SECONDS, min(self._request_seconds, self._ends() - self._clock()))
