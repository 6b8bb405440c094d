"""Watching with kopf, and knowing at every moment whether the watch can see.

kopf watches, resumes, lists again and calls one handler per event. It is used without any of its own storage: no
annotation, no finalizer, no write. What it does not tell, whether bytes and bookmarks still arrive, is read off the
responses of the session that it shares with us.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import kopf

from worklease.api.group import GROUP, VERSION
from worklease.kube.following import SILENT_SECONDS
from worklease.kube.session import Session
from worklease.kube.swap import PAGE

logger = logging.getLogger(__name__)

KINDS = ("workleases", "handoffs")
REOPEN_SECONDS = 2.0
"""How long a watch may be closed before it counts as down: servers close it routinely every half hour or so."""
STUCK_CHECK_SECONDS = 1.0
END_SECONDS = 0.5
KOPF = str(Path(kopf.__file__).parent)


class WatchHealth:
    """Which watches are open, and when each received anything. Times are time.monotonic()."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._heard_at: dict[object, float] = {}
        self.expected = 1
        self.closed_at: float | None = monotonic()
        """Since when fewer are open than are expected."""
        self.ever_open = False
        self.progress_at = monotonic()
        """When a list was answered last: a watch follows on it."""

    def opened(self, watch: object) -> None:
        self._heard_at[watch] = self._monotonic()
        if len(self._heard_at) >= self.expected:
            self.ever_open = True
            self.closed_at = None

    def listed(self) -> None:
        self.progress_at = self._monotonic()

    def heard(self, watch: object) -> None:
        self._heard_at[watch] = self._monotonic()

    def closed(self, watch: object) -> None:
        self._heard_at.pop(watch, None)
        if len(self._heard_at) < self.expected and self.closed_at is None:
            self.closed_at = self._monotonic()

    def excuse(self, seconds: float) -> None:
        """For this long we did not listen."""
        now = self._monotonic()
        self._heard_at = {watch: min(now, heard_at + seconds) for watch, heard_at in self._heard_at.items()}

    def age_seconds(self) -> float:
        """For how long the watch that has been silent, or away, for longest has been so."""
        now = self._monotonic()
        return now - min([now if self.closed_at is None else self.closed_at, *self._heard_at.values()])

    def blind_since(self) -> float | None:
        """Since when something could not be seen, if it is so now."""
        now = self._monotonic()
        silent_since = min(self._heard_at.values(), default=now)
        away_since = now if self.closed_at is None else self.closed_at
        reasons = ((silent_since, SILENT_SECONDS), (away_since, REOPEN_SECONDS))
        return min((since for since, allowed in reasons if now - since > allowed), default=None)


class _HeardContent:
    """The content of a watch's response; says when something was read from it."""

    def __init__(self, content: aiohttp.StreamReader, health: WatchHealth) -> None:
        self._content = content
        self._health = health

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        self._health.opened(self)
        try:
            async for chunk in self._content.iter_chunked(size):
                self._health.heard(self)
                yield chunk
        finally:
            self._health.closed(self)


def response_class_for(health: WatchHealth) -> type[aiohttp.ClientResponse]:
    """A response class for the session: successful lists and watches report to `health`."""

    class Response(aiohttp.ClientResponse):
        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            await super().start(connection)
            if self.status != 200 or self.url.path.rsplit("/", 1)[-1] not in KINDS:
                return self
            if self.url.query.get("watch") != "true":
                health.listed()
            else:
                self.content = _HeardContent(self.content, health)  # type: ignore[assignment]
            return self

    return Response


class _NoProgress(kopf.ProgressStorage):
    """Handlers of raw events keep no progress."""

    def fetch(self, *, key: Any, body: Any) -> None:
        return None

    def store(self, *, key: Any, record: Any, body: Any, patch: Any) -> None:
        return None

    def purge(self, *, key: Any, body: Any, patch: Any) -> None:
        return None

    def touch(self, *, body: Any, patch: Any, value: Any) -> None:
        return None

    def clear(self, *, essence: Any) -> Any:
        return essence


class _NoDiffBase(kopf.DiffBaseStorage):
    """Raw events are not compared with anything, so nothing is copied for that: it would be half of an event's cost."""

    def build(self, *, body: Any, extra_fields: Any = None) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, *, body: Any) -> None:
        return None

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        return None


def settings() -> kopf.OperatorSettings:
    """kopf as a watcher only."""
    configured = kopf.OperatorSettings()
    configured.persistence.progress_storage = _NoProgress()
    configured.persistence.diffbase_storage = _NoDiffBase()
    configured.posting.enabled = False
    configured.scanning.disabled = True
    configured.queueing.exit_timeout = 0.2
    configured.queueing.idle_timeout = 1.0
    configured.watching.inactivity_timeout = SILENT_SECONDS
    configured.watching.reconnect_backoff = 0.1
    configured.watching.chunk_size = PAGE
    configured.networking.request_timeout = 30.0
    configured.networking.connect_timeout = 5.0
    configured.networking.error_backoffs = (0.1, 0.3, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0)
    configured.process.ultimate_exiting_timeout = None
    return configured


class Kind(Protocol):
    """What hears of the objects of one kind."""

    def heard(self) -> None:
        """An event of the watch has come."""

    def see(self, raw: dict[str, Any]) -> None:
        """An object as it is now."""

    def forget(self, uid: str) -> None:
        """An object is gone."""


def registry(
    session: Session,
    health: WatchHealth,
    kinds: dict[str, Kind],
    opened: list[aiohttp.ClientSession],
) -> kopf.OperatorRegistry:
    """The handlers: raw events only. The connections that kopf is given are added to `opened`."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.login(registry=handlers)
    async def login(**_: Any) -> kopf.AiohttpSession:
        connections = session.connections(response_class_for(health))
        opened.append(connections)
        return kopf.AiohttpSession(server=session.credentials.server, aiohttp_session=connections)

    for plural, kind in kinds.items():
        kopf.on.event(GROUP, VERSION, plural, registry=handlers, id=plural)(_handler(kind))

    return handlers


def _handler(kind: Kind) -> Callable[..., Any]:
    async def seen(type: str | None, event: Any, **_: Any) -> None:
        raw = event["object"]
        kind.heard()
        if type == "DELETED":
            kind.forget(raw["metadata"]["uid"])
        else:
            kind.see(raw)

    return seen


class WatchNotOpenError(Exception):
    """kopf does not open a watch although it could: it looks for the kinds that the server serves only once."""


async def watch(
    session: Session,
    health: WatchHealth,
    kinds: dict[str, Kind],
    namespaces: tuple[str, ...],
    stop: asyncio.Event,
    *,
    on_started: Callable[[], None],
    stuck: Callable[[], bool],
) -> None:
    """Watch until `stop` is set.

    Raises whatever kopf gives up with, which it does on any error that it cannot name, and WatchNotOpenError once
    `stuck()` says so. kopf sets signal handlers of its own: `on_started` is called when it has.
    """
    opened: list[aiohttp.ClientSession] = []
    stopping = asyncio.create_task(stop.wait())
    tasks: set[asyncio.Task[Any]] = {stopping}
    try:
        # Not kopf.operator(): that ends by ending every task of the loop that is younger than it, and waits for them.
        tasks.update(
            await kopf.spawn_tasks(
                registry=registry(session, health, kinds, opened),
                # For peering, which is not used: kopf would ask for the name of a user that may have none.
                identity="worklease-operator",  # type: ignore[arg-type]
                settings=settings(),
                standalone=True,
                clusterwide=not namespaces,
                namespaces=namespaces,
            )
        )
        on_started()
        done: set[asyncio.Task[Any]] = set()
        while not done:
            done, _ = await asyncio.wait(tasks, timeout=STUCK_CHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not done and stuck():
                raise WatchNotOpenError("no watch has been opened although the API server answers")
        if stopping not in done:
            for task in done:
                task.result()
            raise WatchNotOpenError("kopf ended")
    finally:
        await _ended(tasks)
        await _ended(_left_over())
        for connections in opened:
            await connections.close()


async def _ended(tasks: set["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await asyncio.gather(*tasks, return_exceptions=True)


def _left_over() -> set["asyncio.Task[Any]"]:
    """What kopf leaves running when one of its watchers fails: the watchers of other kinds and namespaces."""
    return {task for task in asyncio.all_tasks() if _file_of(task).startswith(KOPF)}


def _file_of(task: "asyncio.Task[Any]") -> str:
    code = getattr(task.get_coro(), "cr_code", None)
    return code.co_filename if code is not None else ""
