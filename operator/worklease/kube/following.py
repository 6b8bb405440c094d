"""One object as it changes: read, then watched, and read again whenever the watch ends, fails or falls silent."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import aiohttp

from worklease.errors import ApiError, NotFound, Unanswered, Unauthenticated, Unavailable
from worklease.kube.session import REQUEST_SECONDS, Session, failure
from worklease.kube.swap import path_of, read

SILENT_SECONDS = 75.0
"""Servers send a bookmark about every minute: after this long without a byte, a watch is not one."""
WATCH_SECONDS = 300
BACKOFF_FIRST_SECONDS = 0.1
BACKOFF_MAX_SECONDS = 5.0
LINE_MAX_BYTES = 2**24
PASSING = (Unanswered, Unavailable, Unauthenticated)
"""Failures after which it is tried again."""

Raw = dict[str, Any]


class Follower:
    """Follows any number of objects at a time, each by a connection of its own. Close it with `async with`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._http = session.connections(limit=0)

    async def __aenter__(self) -> "Follower":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def follow(
        self,
        namespace: str,
        name: str,
        *,
        plural: str = "workleases",
        known: Raw | None = None,
        silent_seconds: float = SILENT_SECONDS,
    ) -> AsyncGenerator[Raw, None]:
        """The object as it is, then each change of it, for ever; begins after `known` when that is given.

        Waits out whatever passes; what does not is raised: NotFound when there is no such object (any more), Refused.
        """
        failures = 0
        while True:
            try:
                if known is None:
                    known = await read(self._session, namespace, name, plural=plural)
                    yield known
                async with contextlib.aclosing(self._changes(namespace, known, plural, silent_seconds)) as changes:
                    async for changed in changes:
                        failures = 0
                        yield changed
            except PASSING as error:
                failures += 1
                after = error.retry_after_seconds if isinstance(error, Unavailable) else 0.0
                backoff = min(BACKOFF_FIRST_SECONDS * 2.0 ** min(failures - 1, 10), BACKOFF_MAX_SECONDS)
                await asyncio.sleep(max(after, backoff * random.uniform(0.5, 1.0)))
            known = None

    async def _changes(
        self, namespace: str, known: Raw, plural: str, silent_seconds: float
    ) -> AsyncGenerator[Raw, None]:
        """One watch, until it ends. Raises ApiError."""
        metadata = known["metadata"]
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "fieldSelector": f"metadata.name={metadata['name']}",
            "resourceVersion": metadata["resourceVersion"],
            "timeoutSeconds": str(random.randint(WATCH_SECONDS, 2 * WATCH_SECONDS)),
        }
        path = f"{path_of(namespace, plural=plural)}?{urlencode(query)}"
        async with contextlib.aclosing(self._lines(path, silent_seconds)) as lines:
            async for line in lines:
                event = json.loads(line)
                kind, changed = event.get("type"), event.get("object") or {}
                if kind == "ERROR":
                    if changed.get("code") == 410:
                        return
                    raise failure(int(changed.get("code") or 500), "the watch ended", changed)
                if kind == "DELETED":
                    raise NotFound(f"{plural} {metadata['name']} has been deleted", status=404)
                if kind != "BOOKMARK":
                    yield changed

    async def _lines(self, path: str, silent_seconds: float) -> AsyncGenerator[bytes, None]:
        credentials = self._session.credentials
        buffer = bytearray()
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(REQUEST_SECONDS):
                    response = await stack.enter_async_context(
                        self._http.get(
                            credentials.server + path,
                            server_hostname=credentials.tls_server_name,
                            allow_redirects=False,
                        )
                    )
                if response.status != 200:
                    async with asyncio.timeout(REQUEST_SECONDS):
                        raise _refusal(response, path, await response.content.read(LINE_MAX_BYTES))
                while True:
                    async with asyncio.timeout(silent_seconds):
                        chunk = await response.content.readany()
                    if not chunk:
                        return
                    buffer += chunk
                    *complete, rest = buffer.split(b"\n")
                    buffer = bytearray(rest)
                    if len(buffer) > LINE_MAX_BYTES:
                        raise Unanswered(f"GET {path}: a line of more than {LINE_MAX_BYTES} bytes")
                    for line in complete:
                        yield bytes(line)
        except TimeoutError as error:
            raise Unanswered(f"GET {path}: nothing was heard for too long") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unanswered(f"GET {path}: {type(error).__name__}: {error}") from error


def _refusal(response: aiohttp.ClientResponse, path: str, raw: bytes) -> ApiError:
    try:
        body = json.loads(raw)
    except ValueError:
        body = {"message": raw[:500].decode(errors="replace")}
    return failure(response.status, f"GET {path}", body if isinstance(body, dict) else {})
