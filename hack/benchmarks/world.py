"""The things that are measured: a session as an agent, work leases that somebody holds, native Leases."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from aiohttp import ClientSession

from progress import Progress
from worklease import Client
from worklease.kube.session import JSON_PATCH, Session
from worklease.kube.swap import path_of

INSTANCE = "host:bench/1"
SETUP_CLIENTS = 24
CLAIMING = 16
CLAIMS_PER_SECOND = 30
"""About what 16 claimants get on 2 cores."""


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True)
class World:
    """A namespace on a server, and whom to be there."""

    session: Session
    namespace: str
    username: str

    @property
    def leases_path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    def claim(self, epoch: int = 0) -> dict[str, Any]:
        return {
            "epoch": epoch,
            "id": secrets.token_hex(8),
            "holderIdentity": self.username,
            "instance": INSTANCE,
            "purpose": "bench",
        }

    async def create(self, name: str, **spec: Any) -> dict[str, Any]:
        body = {
            "apiVersion": "worklease.dev/v1alpha1",
            "kind": "WorkLease",
            "metadata": {"name": name},
            "spec": {"work": {"type": "bench", "id": name}, **spec},
        }
        return (await self.session.request("POST", path_of(self.namespace), body)).body

    async def say(self, name: str, **statements: Any) -> dict[str, Any]:
        patch = [{"op": "add", "path": f"/spec/{key}", "value": value} for key, value in statements.items()]
        answer = await self.session.request("PATCH", path_of(self.namespace, name), patch, content_type=JSON_PATCH)
        return answer.body

    async def renew(self, name: str, epoch: int) -> None:
        await self.say(name, renewal={"epoch": epoch, "renewTime": now()})

    async def read(self, name: str) -> dict[str, Any]:
        return (await self.session.request("GET", path_of(self.namespace, name))).body

    async def epochs(self) -> dict[str, int]:
        """The epochs of what is held, by name."""
        answer = await self.session.request("GET", path_of(self.namespace), timeout_seconds=120)
        held = (item for item in answer.body["items"] if item["status"]["phase"] == "Held")
        return {item["metadata"]["name"]: item["status"]["epoch"] for item in held}

    async def hold(self, count: int, prefix: str, **spec: Any) -> dict[str, int]:
        """Make `count` held leases; their epochs by name."""
        names = iter([f"{prefix}-{index}" for index in range(count)])

        async def client() -> None:
            for name in names:
                await self.create(name, claim=self.claim(), **spec)

        await asyncio.gather(*(client() for _ in range(SETUP_CLIENTS)))
        return await self.granted(count, prefix)

    async def granted(self, count: int, prefix: str, above: Mapping[str, int] | None = None) -> dict[str, int]:
        """Wait until so many leases are held, under a higher epoch than in `above`; their epochs by name."""
        before = above or {}
        while True:
            epochs = await self.epochs()
            held = {n: e for n, e in epochs.items() if n.startswith(f"{prefix}-") and e > before.get(n, 0)}
            if len(held) >= count:
                return held
            await asyncio.sleep(0.2)

    @contextlib.asynccontextmanager
    async def holding(self, client: Client, prefix: str, count: int, lease_seconds: int) -> AsyncIterator[None]:
        """So many leases held by the client, each by a task, claimed by a few at a time."""
        entering, everybody, over = asyncio.Semaphore(CLAIMING), asyncio.Barrier(count + 1), asyncio.Event()

        async def one(name: str) -> None:
            held = client.hold(name, purpose="bench", namespace=self.namespace, lease_seconds=lease_seconds)
            async with contextlib.AsyncExitStack() as stack:
                async with entering:
                    await stack.enter_async_context(held)
                await everybody.wait()
                await over.wait()
                async with entering:
                    await stack.aclose()

        async with asyncio.TaskGroup() as tasks:
            with Progress(f"claiming {count} leases of {lease_seconds} s", f"{count / CLAIMS_PER_SECOND:.0f} s"):
                for number in range(count):
                    tasks.create_task(one(f"{prefix}-{number}"))
                await everybody.wait()
            yield
            over.set()

    async def create_native(self, name: str) -> dict[str, Any]:
        spec = {"holderIdentity": self.username, "leaseDurationSeconds": 600, "renewTime": now()}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
        return (await self.session.request("POST", self.leases_path, body)).body

    async def renew_native(self, lease: dict[str, Any]) -> None:
        lease["spec"]["renewTime"] = now()
        path = f"{self.leases_path}/{lease['metadata']['name']}"
        lease["metadata"] = (await self.session.request("PUT", path, lease)).body["metadata"]

    async def version(self) -> str:
        """The resourceVersion of the namespace's WorkLeases now."""
        listed = (await self.session.request("GET", path_of(self.namespace) + "?limit=1")).body
        return str(listed["metadata"]["resourceVersion"])

    async def watch(self, seconds: float, since: str = "") -> AsyncIterator[dict[str, Any]]:
        """Every WorkLease of the namespace as it changes from that version, or from now, on."""
        version = since or await self.version()
        async with self.session.connections() as connections:
            async for changed in self.changes(connections, version, timeoutSeconds=int(seconds) + 1):
                yield changed

    async def changes(
        self, connections: ClientSession, since: str, **query: str | int
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The same over connections that are open already, of the objects that a query selects."""
        asked = urlencode({"watch": "true", "resourceVersion": since, **query})
        async with connections.get(f"{self.session.credentials.server}{path_of(self.namespace)}?{asked}") as response:
            while line := await response.content.readline():
                yield json.loads(line)["object"]


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


def resident_mebibytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def chunks(values: Iterable[str], parts: int) -> list[list[str]]:
    listed = list(values)
    return [list(itertools.islice(listed, start, None, parts)) for start in range(parts)]
