"""What leases cost the API server while they are held by the client: every write of anybody's, as the server counts."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

from onecluster import Contexts
from progress import Progress
from worklease import Client
from worklease.kube.credentials import Source

from .figures import Table
from .world import World, cpu_seconds, resident_mebibytes

HELD = (100, 1000)
LEASE_SECONDS_MIN, RENEWALS_PER_SECOND_MAX, RENEWALS_PER_LEASE = 120, 25, 3
DEFAULT_RENEWAL_SECONDS = 200
HOUR_SECONDS = 3600
TOLD_SECONDS, QUIET_SECONDS, LOOKS_MAX = 60.0, 3.0, 60
REQUESTS = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
GROUPS = ("worklease.dev", "events.k8s.io")
WRITES = ("POST", "PUT", "PATCH", "APPLY")
"""Nobody deletes here but who cleans up after an earlier measurement."""


async def counted(source: Source, world: World, contexts: Contexts, operator_pid: int, held: int) -> None:
    """Over one renewal interval of each lease."""
    lease_seconds = max(LEASE_SECONDS_MIN, held * RENEWALS_PER_LEASE // RENEWALS_PER_SECOND_MAX)
    window_seconds = lease_seconds / RENEWALS_PER_LEASE
    async with await Client.open(source) as client, world.holding(client, "counted", held, lease_seconds):
        await _told(contexts)
        before, spent = _writes(contexts), cpu_seconds(operator_pid)
        with Progress(f"counting writes with {held} held leases", f"{window_seconds:.0f} s"):
            await asyncio.sleep(window_seconds)
        spent = cpu_seconds(operator_pid) - spent
        writes = _writes(contexts) - before
        memory = resident_mebibytes(operator_pid)
    renewals = writes["workleases"]
    total = sum(writes.values())
    table = Table(f"{held} leases of {lease_seconds} s, held by the client for {window_seconds:.0f} s")
    table.row("writes of the leases", f"{renewals}", "renewals")
    table.row("writes of their status, of events, and others", f"{total - renewals}", _others(writes))
    hourly = total / held * HOUR_SECONDS / DEFAULT_RENEWAL_SECONDS
    table.row("writes per lease-hour at the default duration", f"{hourly:.1f}", "client-go at its default: 1800")
    table.row("the operator's share of a core", f"{spent / window_seconds:.2%}")
    table.row("its processor time per lease and hour at the default, s", f"{spent / renewals * hourly:.3f}")
    table.row("its resident memory, MiB", f"{memory:.0f}")


async def _told(contexts: Contexts) -> None:
    """Waits until the events of the grants have been written, which the operator spreads over time."""
    with Progress("waiting for the events of the grants", f"{TOLD_SECONDS:.0f} s"):
        events = -1
        for _ in range(LOOKS_MAX):
            before, events = events, _writes(contexts)["events"]
            if events == before:
                return
            await asyncio.sleep(QUIET_SECONDS)


def _others(writes: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in writes.items() if what != "workleases" and count)


def _writes(contexts: Contexts) -> Counter[str]:
    """How many writes the API server has answered so far, by resource and subresource."""
    found: Counter[str] = Counter()
    for request in REQUESTS.finditer(contexts.kubectl("get", "--raw", "/metrics")):
        labels = dict(LABEL.findall(request["labels"]))
        if labels["group"] in GROUPS and labels["verb"] in WRITES:
            found["/".join(filter(None, (labels["resource"], labels["subresource"])))] += int(float(request["count"]))
    return found
