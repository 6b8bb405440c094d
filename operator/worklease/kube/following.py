"""Objects as they change: read, then watched, and read again whenever the watch ends, fails or falls silent."""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import aiohttp

from worklease.errors import (
    ApiError,
    ConfigurationError,
    Forbidden,
    NotFound,
    Refused,
    Unanswered,
    Unauthenticated,
    Unavailable,
)
from worklease.kube.session import REQUEST_SECONDS, Session, failure
from worklease.kube.swap import path_of, read, read_list

SILENT_SECONDS = 75.0
"""Servers send a bookmark about every minute: after this long without a byte, a watch is not one."""
WATCH_SECONDS = 300
LASTING_SECONDS = 1.0
"""A watch that ends sooner, and brought nothing, counts as a failure: a server may end each of them."""
BACKOFF_FIRST_SECONDS = 0.1
BACKOFF_MAX_SECONDS = 5.0
LINE_MAX_BYTES = 2**24
DENIALS_MAX = 5
"""As many in a row are waited out, about 2 s: a server that begins to serve knows neither roles nor bindings yet."""
DENIALS_APART_SECONDS = 60.0
""""In a row" are those that follow each other sooner."""
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
        failures, denials, denied_at = 0, 0, time.monotonic()
        while True:
            try:
                if known is None:
                    known = await read(self._session, namespace, name, plural=plural)
                    yield known
                async with contextlib.aclosing(self._changes(namespace, known, plural, silent_seconds)) as changes:
                    async for changed in changes:
                        failures = 0
                        yield changed
            except Forbidden as error:
                now = time.monotonic()
                denials = denials + 1 if now - denied_at < DENIALS_APART_SECONDS else 1
                denied_at = now
                if denials > DENIALS_MAX:
                    raise
                await _pause(denials, error)
            except PASSING as error:
                failures += 1
                await _pause(failures, error)
            known = None

    async def follow_all(
        self, namespace: str, *, field_selector: str = "", plural: str = "workleases"
    ) -> AsyncGenerator["Picture", None]:
        """Every object that is selected (in all namespaces when `namespace` is empty), and all changes, for ever.

        Gives one and the same picture, brought up to date each time. Failures are waited out and shown in it; what
        does not pass (Refused) is raised.
        """
        picture = Picture()
        failures = 0
        while True:
            try:
                items, version = await read_list(self._session, namespace, plural=plural, field_selector=field_selector)
                picture.take(items)
                yield picture
                async with contextlib.aclosing(
                    self._events(namespace, field_selector, version, plural, SILENT_SECONDS)
                ) as events:
                    async for kind, changed in events:
                        failures = 0
                        picture.see(kind, changed)
                        yield picture
            except PASSING as error:
                failures += 1
                picture.fail(error)
                yield picture
                await _pause(failures, error)
            except Refused as error:
                if error.status != 410:  # the list took so long that its next page was gone
                    raise
                failures += 1
                await _pause(failures, error)

    async def _changes(
        self, namespace: str, known: Raw, plural: str, silent_seconds: float
    ) -> AsyncGenerator[Raw, None]:
        """One watch of one object, until it ends. Raises ApiError."""
        metadata = known["metadata"]
        selector = f"metadata.name={metadata['name']}"
        async with contextlib.aclosing(
            self._events(namespace, selector, metadata["resourceVersion"], plural, silent_seconds)
        ) as events:
            async for kind, changed in events:
                if kind == "DELETED":
                    raise NotFound(f"{plural} {metadata['name']} has been deleted", status=404)
                yield changed

    async def _events(
        self, namespace: str, field_selector: str, version: str, plural: str, silent_seconds: float
    ) -> AsyncGenerator[tuple[str, Raw], None]:
        """One watch, until it ends. Raises ApiError."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            **({"fieldSelector": field_selector} if field_selector else {}),
            "resourceVersion": version,
            "timeoutSeconds": str(random.randint(WATCH_SECONDS, 2 * WATCH_SECONDS)),
        }
        path = f"{path_of(namespace, plural=plural)}?{urlencode(query)}"
        opened_at, heard = time.monotonic(), False
        async with contextlib.aclosing(self._lines(path, silent_seconds)) as lines:
            async for line in lines:
                event = json.loads(line)
                kind, changed = event.get("type"), event.get("object") or {}
                if kind == "ERROR":
                    if changed.get("code") == 410:
                        break
                    raise failure(int(changed.get("code") or 500), "the watch ended", changed)
                heard = True
                if kind != "BOOKMARK":
                    yield kind, changed
        if not heard and time.monotonic() - opened_at < LASTING_SECONDS:
            raise Unanswered(f"GET {path}: the watch ended as soon as it was open")

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
        except ConfigurationError as error:
            raise Unauthenticated(f"GET {path}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unanswered(f"GET {path}: {type(error).__name__}: {error}") from error


class Picture:
    """The objects of a kind as they are known, by namespace and name, and what the latest news about them was."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Raw] = {}
        self.changed: list[Raw] = []
        """What is new or different since the picture was given out before."""
        self.gone: list[Raw] = []
        """What has been deleted since then."""
        self.trouble: ApiError | None = None
        """Why nothing is heard now; None when all is well."""

    def take(self, items: list[Raw]) -> None:
        """Everything, read anew."""
        before, self.objects = self.objects, {key_of(item): item for item in items}
        self.changed = [item for key, item in self.objects.items() if _version(before.get(key)) != _version(item)]
        self.gone = [item for key, item in before.items() if key not in self.objects]
        self.trouble = None

    def see(self, kind: str, changed: Raw) -> None:
        """One event of a watch."""
        self.trouble = None
        self.changed, self.gone = ([], [changed]) if kind == "DELETED" else ([changed], [])
        if kind == "DELETED":
            self.objects.pop(key_of(changed), None)
        else:
            self.objects[key_of(changed)] = changed

    def fail(self, error: ApiError) -> None:
        """Nothing is heard."""
        self.changed, self.gone, self.trouble = [], [], error


def key_of(raw: Raw) -> tuple[str, str]:
    """Namespace and name."""
    return raw["metadata"].get("namespace") or "", raw["metadata"]["name"]


def _version(raw: Raw | None) -> str | None:
    return raw["metadata"].get("resourceVersion") if raw else None


async def _pause(failures: int, error: ApiError) -> None:
    """Waits before the next attempt, longer each time, and at least for as long as the server asks."""
    after = error.retry_after_seconds if isinstance(error, Unavailable) else 0.0
    backoff = min(BACKOFF_FIRST_SECONDS * 2.0 ** min(failures - 1, 10), BACKOFF_MAX_SECONDS)
    await asyncio.sleep(max(after, backoff * random.uniform(0.5, 1.0)))


def _refusal(response: aiohttp.ClientResponse, path: str, raw: bytes) -> ApiError:
    try:
        body = json.loads(raw)
    except ValueError:
        body = {"message": raw[:500].decode(errors="replace")}
    return failure(response.status, f"GET {path}", body if isinstance(body, dict) else {})
