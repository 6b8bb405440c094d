"""How soon an accepted handoff moves the work, and what handoffs that have ended cost the operator."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from progress import Progress
from worklease.kube.session import JSON_PATCH
from worklease.kube.swap import path_of

from .figures import Table, milliseconds, percentile
from .world import World, chunks, resident_mebibytes

HANDED_OVER = 150
WRITES = 100
RESOLVED, RESOLVING_CLIENTS = 10000, 16
INSTANCES = ("host:bench/1", "host:bench/2")


class _Baton:
    """One work item that two processes hand to each other, and the changes of it as a watch sees them."""

    def __init__(self, world: World, name: str, epoch: int) -> None:
        self.world, self.name, self.epoch = world, name, epoch
        self.holder = 0
        self._seen: asyncio.Queue[tuple[dict[str, Any], float]] = asyncio.Queue()

    async def follow(self) -> None:
        async for seen in self.world.watch(600):
            if seen["metadata"]["name"] == self.name:
                self._seen.put_nowait((seen["status"], time.perf_counter()))

    async def _until(self, field: str, value: str) -> tuple[dict[str, Any], float]:
        while True:
            status, seen_at = await self._seen.get()
            found = status.get(field)
            if found == value or (isinstance(found, dict) and found["handoff"] == value):
                return status, seen_at

    async def hand_over(self, name: str) -> tuple[float, float]:
        """Offer, accept, claim; seconds from the acceptance to the successor, and from the claim to the epoch."""
        sender, target = INSTANCES[self.holder], INSTANCES[1 - self.holder]
        await offer(self.world, name, self.name, sender, target)
        path = path_of(self.world.namespace, name, plural="handoffs")
        while True:
            if "epoch" in (await self.world.session.request("GET", path)).body["status"]:
                break
            await asyncio.sleep(0.005)
        accepted_at = time.perf_counter()
        response = {"op": "add", "path": "/spec/response", "value": {"decision": "Accepted", "reason": ""}}
        await self.world.session.request("PATCH", path, [response], content_type=JSON_PATCH)
        _, reserved_at = await self._until("successor", name)
        claim = {**self.world.claim(self.epoch), "instance": target}
        claimed_at = time.perf_counter()
        await self.world.say(self.name, claim=claim)
        status, granted_at = await self._until("claimID", claim["id"])
        self.epoch, self.holder = status["epoch"], 1 - self.holder
        return reserved_at - accepted_at, granted_at - claimed_at


async def offer(world: World, name: str, lease: str, sender: str, target: str, **spec: Any) -> None:
    """Create a handoff from one process of the account to another one."""
    body = {
        "apiVersion": "worklease.dev/v1alpha1",
        "kind": "Handoff",
        "metadata": {"name": name},
        "spec": {
            "workLeaseName": lease,
            "from": world.username,
            "fromInstance": sender,
            "to": {"holderIdentity": world.username, "instance": target},
            **spec,
        },
    }
    await world.session.request("POST", path_of(world.namespace, plural="handoffs"), body)


async def handed_over(world: World) -> None:
    """One work item goes back and forth, one handoff after the other."""
    (name, epoch) = next(iter((await world.hold(1, "baton", leaseDurationSeconds=3600)).items()))
    writes = []
    for _ in range(WRITES):
        started = time.perf_counter()
        await world.renew(name, epoch)
        writes.append(time.perf_counter() - started)
    baton = _Baton(world, name, epoch)
    following = asyncio.create_task(baton.follow())
    await asyncio.sleep(0.5)
    times = [await baton.hand_over(f"to-{number}") for number in range(HANDED_OVER)]
    following.cancel()
    reserved, granted = ([pair[index] for pair in times] for index in (0, 1))
    write = percentile(writes, 50)
    table = Table(f"{HANDED_OVER} handoffs of one work item, the operator running")
    table.row("one WorkLease write, p50 ms", f"{write * 1e3:.1f}")
    table.row("acceptance sent -> successor seen, p50 / p99 ms", milliseconds(reserved, 50, 99))
    table.row("as a multiple of one WorkLease write", f"{percentile(reserved, 50) / write:.1f}", "aim 3")
    table.row("target's claim sent -> its epoch seen, p50 / p99 ms", milliseconds(granted, 50, 99))


async def resolved(world: World, operator_pid: int) -> None:
    """The operator's memory for handoffs that have ended, each with a message of the largest size."""
    (name, _) = next(iter((await world.hold(1, "still", leaseDurationSeconds=86400)).items()))
    await _resolve(world, name, "first", RESOLVING_CLIENTS)
    before = resident_mebibytes(operator_pid)
    with Progress(f"ending {RESOLVED} handoffs", f"{RESOLVED / 60:.0f} s"):
        await _resolve(world, name, "ended", RESOLVED)
    grown = resident_mebibytes(operator_pid) - before
    table = Table(f"The operator with {RESOLVED} handoffs that have ended")
    table.row("resident memory for each, KiB", f"{grown * 1024 / RESOLVED:.2f}", "aim 1.5")


async def _resolve(world: World, lease: str, prefix: str, count: int) -> None:
    names = [f"{prefix}-{number}" for number in range(count)]

    async def client(part: list[str]) -> None:
        for name in part:
            await offer(world, name, lease, *INSTANCES, epoch=1, message="m" * 4096)

    await asyncio.gather(*(client(part) for part in chunks(names, RESOLVING_CLIENTS)))
    path = path_of(world.namespace, plural="handoffs") + "?limit=1&fieldSelector=status.phase%3DPending"
    while True:
        if not (await world.session.request("GET", path, timeout_seconds=60)).body["items"]:
            return
        await asyncio.sleep(0.5)
