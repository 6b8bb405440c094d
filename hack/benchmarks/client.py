"""What holding by the Python client costs: a claim beside its raw requests, a waiter, a thousand leases, imports."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from worklease import Client, boot_seconds, hold
from worklease.kube.credentials import Source
from worklease.kube.session import JSON, JSON_PATCH, Session
from worklease.kube.swap import path_of

from .figures import Table, milliseconds, percentile
from .world import World

CLAIMS = 150
OPENINGS = 40
HANDED_ON = 100
MANY = 1000
IDLE_SECONDS = 10.0
RENEWED_SECONDS = 120
STARTS = 5
WAITING_SECONDS = 0.1
WORK = "client"

WAITER = """
import asyncio, sys
import worklease

async def main():
    kubeconfig, context, namespace, name = sys.argv[1:]
    source = worklease.Source(kubeconfig, context)
    async with await worklease.Client.open(source) as client:
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            print("waiting", flush=True)
            async with client.hold(name, purpose="bench", namespace=namespace, wait=True):
                print(worklease.boot_seconds(), flush=True)
            print("released", flush=True)

asyncio.run(main())
"""


async def measured(source: Source, world: World) -> None:
    """Every figure of the client."""
    await _claims(source, world)
    await _waiter(source, world)
    _starts()
    await _many(source, world)


async def _claims(source: Source, world: World) -> None:
    """A hold, and the requests that it makes: read, claim, watch until the grant. In turn, one after the other."""
    await world.create(WORK)
    by_client, by_requests, opening, raw_opening = [], [], [], []
    async with await Client.open(source) as client, world.session.connections() as connections:
        for _ in range(CLAIMS):
            await _free(world)
            started = time.perf_counter()
            async with client.hold(WORK, purpose="bench", namespace=world.namespace):
                by_client.append(time.perf_counter() - started)
            await _free(world)
            by_requests.append(await _claimed_raw(world, connections))
    for _ in range(OPENINGS):
        await _free(world)
        started = time.perf_counter()
        async with hold(WORK, purpose="bench", namespace=world.namespace, source=source):
            opening.append(time.perf_counter() - started)
        await _free(world)
        started = time.perf_counter()
        session = await Session.open(source, user_agent="worklease-bench")
        async with session, session.connections() as connections:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            url = f"{session.credentials.server}/apis/authentication.k8s.io/v1/selfsubjectreviews"
            await _asked(connections, url, "POST", review)
            await _claimed_raw(world, connections, lambda: raw_opening.append(time.perf_counter() - started))  # noqa: B023
    table = Table("Claiming by the client")
    table.row("client.hold() -> in the block, p50 / p99 ms", milliseconds(by_client, 50, 99))
    table.row("read, claim and watch as raw requests, p50 / p99 ms", milliseconds(by_requests, 50, 99))
    table.row("ratio of the medians", f"{percentile(by_client, 50) / percentile(by_requests, 50):.2f}")
    table.row("worklease.hold(), which opens a client, p50 / p99 ms", milliseconds(opening, 50, 99))
    table.row("the same as raw requests, p50 / p99 ms", milliseconds(raw_opening, 50, 99))
    table.row("ratio of the medians", f"{percentile(opening, 50) / percentile(raw_opening, 50):.2f}")


async def _claimed_raw(world: World, connections: ClientSession, done: Callable[[], None] | None = None) -> float:
    """How long it takes until the grant is seen; the work is released afterwards."""
    started = time.perf_counter()
    url = world.session.credentials.server + path_of(world.namespace, WORK)
    work = await _asked(connections, url)
    claim = world.claim(work["status"]["epoch"])
    work = await _asked(connections, url, "PATCH", _said("claim", claim), JSON_PATCH)
    version = work["metadata"]["resourceVersion"]
    async with contextlib.aclosing(
        world.changes(connections, version, fieldSelector=f"metadata.name={WORK}")
    ) as changes:
        while work["status"].get("claimID") != claim["id"]:
            work = await anext(changes)
    taken = time.perf_counter() - started
    if done:
        done()
    release = {"epoch": work["status"]["epoch"], "reason": "bench"}
    await _asked(connections, url, "PATCH", _said("release", release), JSON_PATCH)
    return taken


async def _free(world: World) -> None:
    """Returns when nobody holds the work: the operator has seen the last release."""
    while True:
        work = await world.read(WORK)
        if work["status"]["phase"] not in ("Held", "Jeopardy"):
            return
        await asyncio.sleep(0.01)


def _said(name: str, statement: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"op": "add", "path": f"/spec/{name}", "value": statement}]


async def _asked(
    connections: ClientSession, url: str, method: str = "GET", body: object = None, content_type: str = JSON
) -> dict[str, Any]:
    data, headers = (None, {}) if body is None else (json.dumps(body), {"Content-Type": content_type})
    async with connections.request(method, url, data=data, headers=headers) as response:
        response.raise_for_status()
        answer: dict[str, Any] = await response.json()
        return answer


async def _waiter(source: Source, world: World) -> None:
    """One process gives the work back, another one that waits for it holds."""
    handed_on = []
    arguments = (source.kubeconfig or "", source.context or "", world.namespace, WORK)
    waiter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WAITER, *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert waiter.stdin
    assert waiter.stdout
    try:
        async with await Client.open(source) as client:
            for _ in range(HANDED_ON):
                async with client.hold(WORK, purpose="bench", namespace=world.namespace, wait=True) as lease:
                    waiter.stdin.write(b"\n")
                    await waiter.stdout.readline()
                    await asyncio.sleep(WAITING_SECONDS)
                    released_at = boot_seconds()
                    await lease.release("bench")
                handed_on.append(float(await waiter.stdout.readline()) - released_at)
                await waiter.stdout.readline()
    finally:
        waiter.stdin.close()
        await waiter.wait()
    table = Table("A waiter in another process")
    table.row("release() called -> it holds, p50 / p99 ms", milliseconds(handed_on, 50, 99), "aim p99 100")


async def _many(source: Source, world: World) -> None:
    """What a thousand leases cost in one process: between renewals, and for each of them."""
    table = Table(f"{MANY} leases held in one process")
    for lease_seconds, seconds in ((3600, IDLE_SECONDS), (RENEWED_SECONDS, RENEWED_SECONDS / 3)):
        prefix = f"many-{lease_seconds}"
        async with await Client.open(source) as client, world.holding(client, prefix, MANY, lease_seconds):
            spent, at = time.process_time(), time.perf_counter()
            await asyncio.sleep(seconds)
            share = (time.process_time() - spent) / (time.perf_counter() - at)
        if lease_seconds > RENEWED_SECONDS:
            table.row("of a core between renewals", f"{share:.2%}", "aim 5%")
        else:
            table.row(f"of a core with leases of {lease_seconds} s, renewals included", f"{share:.1%}")
            table.row("processor time for each renewal, ms", f"{share * seconds / MANY * 1e3:.2f}")


def _starts() -> None:
    """From the start of a process to its end, in turn; processor time, which other processes do not disturb much."""
    command = str(Path(sys.executable).with_name("worklease"))
    measured = {
        "python -c pass": ([sys.executable, "-c", "pass"], ""),
        "python -c 'import kubernetes.client'": ([sys.executable, "-c", "import kubernetes.client"], ""),
        "python -c 'import worklease'": ([sys.executable, "-c", "import worklease"], "aim 150"),
        "python -c 'import worklease; worklease.hold'": (
            [sys.executable, "-c", "import worklease; worklease.hold"],
            "",
        ),
        "worklease --help": ([sys.executable, command, "--help"], "aim 250"),
    }
    walls: dict[str, list[float]] = {name: [] for name in measured}
    spent: dict[str, list[float]] = {name: [] for name in measured}
    for name in itertools.chain.from_iterable([list(measured)] * STARTS):
        before, started = _children_seconds(), time.perf_counter()
        subprocess.run(measured[name][0], check=True, stdout=subprocess.DEVNULL, env=os.environ)
        walls[name].append(time.perf_counter() - started)
        spent[name].append(_children_seconds() - before)
    table = Table("Starting a process, p50 ms: elapsed / processor time")
    for name, (_, aim) in measured.items():
        table.row(name, f"{percentile(walls[name], 50) * 1e3:.0f} / {percentile(spent[name], 50) * 1e3:.0f}", aim)


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
