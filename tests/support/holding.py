"""Holding leases in tests: a client by an identity's own credentials, a clock that can jump, a server in between."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.cluster import Identity
from support.waiting import POLL_SECONDS
from worklease import Client, Source
from worklease.client.clock import boot_seconds
from worklease.errors import Unanswered
from worklease.kube.session import Answer

WITHIN_SECONDS = 60.0
LEASE_SECONDS = 10


class Skewed:
    """The holder's clock, which a test may set forward as a sleep of the machine does."""

    def __init__(self) -> None:
        self.slept_seconds = 0.0

    def __call__(self) -> float:
        return boot_seconds() + self.slept_seconds


@contextlib.asynccontextmanager
async def client_of(
    identity: Identity, *, kubeconfig: Path | None = None, clock: Skewed | None = None, instance: str | None = None
) -> AsyncIterator[Client]:
    """A client that speaks as this identity, by another kubeconfig when one is given."""
    source = Source(str(kubeconfig or identity.kubeconfig))
    async with await Client.open(source, instance=instance, clock=clock or boot_seconds) as client:
        yield client


async def until(condition: Callable[[], object], what: str, within_seconds: float = WITHIN_SECONDS) -> None:
    """Waits in the event loop for a condition (a function without arguments)."""
    deadline_monotonic = asyncio.get_running_loop().time() + within_seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline_monotonic, f"waited {within_seconds:g} s for {what}"
        await asyncio.sleep(POLL_SECONDS)


class Wire:
    """A TCP connection to the API server that can go silent: it accepts, and nothing passes any more."""

    def __init__(self, server: str) -> None:
        parts = urlsplit(server)
        self._target = (parts.hostname or "", parts.port or 443)
        self._passing = threading.Event()
        self._passing.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = False
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self) -> None:
        """From now on nothing passes, in either direction."""
        self._passing.clear()

    def restore(self) -> None:
        """What was held back goes on, and what is new passes."""
        self._passing.set()

    def close(self) -> None:
        """Ends it."""
        self._ended = True
        self._passing.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError), source, sink:
            while (data := source.recv(65536)) and not self._ended:
                self._passing.wait()
                sink.sendall(data)


@contextlib.contextmanager
def wire(identity: Identity, directory: Path) -> Iterator[tuple[Wire, Path]]:
    """A wire to the identity's API server, and a kubeconfig that leads over it."""
    config = json.loads(identity.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    between = Wire(cluster["server"])
    cluster["server"] = f"https://127.0.0.1:{between.port}"
    path = directory / f"kubeconfig-{between.port}"
    path.write_text(json.dumps(config))
    try:
        yield between, path
    finally:
        between.close()


@contextlib.contextmanager
def losing_answers(client: Client, method: str, times: int = 1) -> Iterator[list[str]]:
    """The next requests of this method take effect, and their answers are lost. Gives the paths of those."""
    lost: list[str] = []
    request = client.session.request

    async def requested(verb: str, path: str, body: Any = None, **options: Any) -> Answer:
        answer = await request(verb, path, body, **options)
        if verb == method and len(lost) < times:
            lost.append(path)
            raise Unanswered(f"{verb} {path}: the answer was lost")
        return answer

    client.session.request = requested  # type: ignore[method-assign,assignment]
    try:
        yield lost
    finally:
        client.session.request = request  # type: ignore[method-assign]
        assert len(lost) == times, f"{len(lost)} answers were lost, not {times}"


class CancelledAt:
    """Awaits something, and cancels the task when it suspends for the n-th time."""

    def __init__(self, work: Coroutine[Any, Any, Any], suspension: int) -> None:
        self.work = work
        self.suspension = suspension
        self.seen = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self.work.__await__()
        given: Any = None
        error: BaseException | None = None
        while True:
            try:
                waited = steps.throw(error) if error else steps.send(given)
            except StopIteration as end:
                return end.value
            error = None
            self.seen += 1
            if self.seen == self.suspension:
                task = asyncio.current_task()
                assert task
                task.cancel()
            try:
                given = yield waited
            except BaseException as raised:  # noqa: BLE001 - it is thrown into the work
                error = raised
