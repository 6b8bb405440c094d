"""One process that holds work leases by the client that ships, with the orders and events of main.go."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

from worklease import Client, Lease, boot_seconds
from worklease.client.identity import whoami
from worklease.errors import LeaseLost
from worklease.kube.credentials import Source
from worklease.kube.session import JSON, REQUEST_SECONDS, Answer, Session

LEASE_SECONDS, JEOPARDY_SECONDS = 10, 0
RENEWING_SECONDS = 600
PURPOSE = "peers"
RENEWAL = "/spec/renewal"


def tell(event: str, name: str = "", **more: Any) -> None:
    print(json.dumps({"event": event, "name": name, "at": boot_seconds(), **more}), flush=True)


class RecordedSession(Session):
    """Tells when each renewal was sent, before it is and once it has been accepted."""

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> Answer:
        renews = method == "PATCH" and any(change["path"] == RENEWAL for change in body)
        name, sent_at = path.rsplit("/", 1)[-1], boot_seconds()
        if renews:
            tell("sent", name, at=sent_at)
        answer = await super().request(method, path, body, content_type=content_type, timeout_seconds=timeout_seconds)
        if renews:
            tell("renewed", name, at=sent_at)
        return answer


class Ours:
    """Holds work leases by name, each in a task."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._released: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def obey(self, orders: asyncio.StreamReader) -> None:
        while words := (await orders.readline()).decode().split():
            order, name = words[0], words[1]
            if order == "hold":
                self._released[name] = asyncio.Event()
                task = asyncio.create_task(self._hold(name))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif order == "release":
                self._released[name].set()
            elif order == "acquire":
                await self._acquire(name, int(words[2]))
                tell("done", order)
            elif order == "renew":
                await self._renew(int(name), orders)
                tell("done", order)

    async def _hold(self, name: str) -> None:
        try:
            async with self._holding(name, wait=True):
                tell("held", name)
                try:
                    await self._released[name].wait()
                except asyncio.CancelledError:
                    tell("stopped", name)
                    raise
                tell("releasing", name)
        except LeaseLost:
            pass
        except Exception as error:  # noqa: BLE001 - whoever gives the orders must hear of it
            tell("failed", name, message=f"{type(error).__name__}: {error}")

    def _holding(self, name: str, *, wait: bool | None) -> AbstractAsyncContextManager[Lease]:
        return self._client.hold(
            name,
            purpose=PURPOSE,
            namespace=self._namespace,
            wait=wait,
            lease_seconds=LEASE_SECONDS,
            jeopardy_seconds=JEOPARDY_SECONDS,
        )

    async def _acquire(self, prefix: str, count: int) -> None:
        for index in range(count):
            name, started = f"{prefix}-{index}", boot_seconds()
            async with self._holding(name, wait=None):
                tell("acquired", name, seconds=boot_seconds() - started)

    async def _renew(self, count: int, orders: asyncio.StreamReader) -> None:
        async with self._client.hold(
            "renewed", purpose=PURPOSE, namespace=self._namespace, lease_seconds=RENEWING_SECONDS
        ) as lease:
            tell("prepared")
            await orders.readline()
            for _ in range(count):
                await lease.renew()


async def main(kubeconfig: str, context: str, namespace: str) -> None:
    """Obeys until standard input ends."""
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    session = await RecordedSession.open(Source(kubeconfig, context), user_agent="worklease-peers")
    async with Client(session, await whoami(session, None)) as client:
        tell("ready")
        await Ours(client, namespace).obey(orders)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
