"""Renewals beside native Leases, claim to grant, expiry lateness, and what the operator costs."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable

from progress import Progress
from worklease.api.fields import HISTORY_MAX

from .figures import Table, milliseconds, percentile
from .world import World, chunks, cpu_seconds, resident_mebibytes

SEQUENTIAL = 400
CLIENTS = 32
CONCURRENT_SECONDS = 5.0
ROUNDS = 3
CLAIMS = 200
LAPSING, LAPSE_SECONDS, SPREAD_SECONDS = 1000, 60, 30.0
COST_RENEWALS = 3000


async def sequential(one: Callable[[], Awaitable[object]], times: int = SEQUENTIAL) -> list[float]:
    """How long each of so many takes, one after the other."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        await one()
        taken.append(time.perf_counter() - started)
    return taken


async def per_second(clients: list[Callable[[], Awaitable[object]]]) -> float:
    """How many all of them do at once."""
    until = time.perf_counter() + CONCURRENT_SECONDS
    done = 0

    async def client(one: Callable[[], Awaitable[object]]) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await one()
            done += 1

    await asyncio.gather(*(client(one) for one in clients))
    return done / CONCURRENT_SECONDS


async def renewals(world: World) -> None:
    """Native Lease PUT and WorkLease renewal, in turn, so that a slow moment hits both."""
    epochs = await world.hold(CLIENTS, "renew", leaseDurationSeconds=3600)
    natives = [await world.create_native(f"native-{index}") for index in range(CLIENTS)]
    names = list(epochs)
    native_times, renewal_times, native_rates, renewal_rates = [], [], [], []
    for _ in range(ROUNDS):
        native_times += await sequential(lambda: world.renew_native(natives[0]))
        renewal_times += await sequential(lambda: world.renew(names[0], epochs[names[0]]))
        native_rates.append(
            await per_second([lambda lease=lease: world.renew_native(lease) for lease in natives])  # type: ignore[misc]
        )
        renewal_rates.append(
            await per_second([lambda name=name: world.renew(name, epochs[name]) for name in names])  # type: ignore[misc]
        )
    table = Table("Renewal, every rule and policy on, the operator running")
    table.row("native Lease PUT, one client, p50 / p99 ms", milliseconds(native_times, 50, 99))
    table.row("WorkLease renewal, one client, p50 / p99 ms", milliseconds(renewal_times, 50, 99))
    table.row("ratio of the medians", f"{percentile(renewal_times, 50) / percentile(native_times, 50):.2f}")
    native, renewal = percentile(native_rates, 50), percentile(renewal_rates, 50)
    table.row(f"native Lease PUTs per second, {CLIENTS} clients", f"{native:.0f}")
    table.row(f"WorkLease renewals per second, {CLIENTS} clients", f"{renewal:.0f}")
    table.row("ratio", f"{renewal / native:.2f}", "aim 0.35")


async def grants(world: World) -> None:
    """From sending a claim to seeing one's own epoch, by a watch, beside a renewal of the same item after each.

    First with items that nobody has held, then with one whose history is full: every write carries the history.
    """
    table = Table("Claim")
    async with _Granted(world) as granted:
        fresh = [f"fresh-{index}" for index in range(CLAIMS)]
        for name in fresh:
            await world.create(name, leaseDurationSeconds=3600)
        _grant_rows(table, "first claim", *await _claimed(world, granted, fresh))
        await world.create("often", leaseDurationSeconds=3600)
        taken, writes = await _claimed(world, granted, ["often"] * (HISTORY_MAX + CLAIMS))
        _grant_rows(table, "full history", taken[HISTORY_MAX:], writes[HISTORY_MAX:])


class _Granted:
    """Waits, by one watch, until a claim is granted."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: asyncio.Queue[tuple[str, int, float]] = asyncio.Queue()

    async def __aenter__(self) -> _Granted:
        self._following = asyncio.create_task(self._follow(await self._world.version()))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._following.cancel()

    async def _follow(self, since: str) -> None:
        async for seen in self._world.watch(600, since):
            if "claimID" in seen["status"]:
                self._seen.put_nowait((seen["status"]["claimID"], seen["status"]["epoch"], time.perf_counter()))

    async def grant(self, claim_id: str) -> tuple[int, float]:
        """The epoch of its grant, and when that was seen."""
        while True:
            granted_id, epoch, seen_at = await self._seen.get()
            if granted_id == claim_id:
                return epoch, seen_at


async def _claimed(world: World, granted: _Granted, names: list[str]) -> tuple[list[float], list[float]]:
    """How long each claim took to its grant, and a renewal of the same item thereafter."""
    taken, writes, epochs = [], [], dict.fromkeys(names, 0)
    for name in names:
        claim = world.claim(epochs[name])
        started = time.perf_counter()
        await world.say(name, claim=claim)
        epochs[name], seen_at = await granted.grant(claim["id"])
        taken.append(seen_at - started)
        writes += await sequential(functools.partial(world.renew, name, epochs[name]), 1)
    return taken, writes


def _grant_rows(table: Table, what: str, taken: list[float], writes: list[float]) -> None:
    table.row(f"{what}: sent -> claimant sees its epoch, p50 / p99 ms", milliseconds(taken, 50, 99))
    multiple = percentile(taken, 50) / percentile(writes, 50)
    table.row(f"{what}: as a multiple of a renewal of that item", f"{multiple:.1f}", "aim 2.5")


async def expiries(world: World) -> None:
    """How late leases expire that were renewed all over a while; seen from outside, by a watch."""
    with Progress(f"granting {LAPSING} leases, then letting them lapse", "140 s"):
        epochs = await world.hold(LAPSING, "lapse", leaseDurationSeconds=86400, jeopardyDurationSeconds=0)
        names = list(epochs)
        for part in chunks(names, 10):
            await asyncio.gather(*(_reclaim(world, name, epochs[name]) for name in part))
        epochs = await world.granted(LAPSING, "lapse", above=epochs)
        due_at: dict[str, float] = {}
        late: dict[str, float] = {}

        async def follow() -> None:
            async for seen in world.watch(SPREAD_SECONDS + LAPSE_SECONDS + 20):
                name = seen["metadata"]["name"]
                if seen["status"]["phase"] == "Expired" and name in due_at and name not in late:
                    late[name] = time.perf_counter() - due_at[name]
                    if len(late) == len(due_at) == LAPSING:
                        return

        async def renew(name: str, delay: float) -> None:
            await asyncio.sleep(delay)
            await world.renew(name, epochs[name])
            due_at[name] = time.perf_counter() + LAPSE_SECONDS

        following = asyncio.create_task(follow())
        await asyncio.gather(*(renew(n, i * SPREAD_SECONDS / LAPSING) for i, n in enumerate(epochs)))
        await following
    lateness = list(late.values())
    table = Table(f"Expiry of {len(lateness)} leases")
    table.row("due -> seen as Expired, p50 / p99 / max ms", milliseconds(lateness, 50, 99, 100), "aim p99 50")


async def _reclaim(world: World, name: str, epoch: int) -> None:
    patch = {"leaseDurationSeconds": LAPSE_SECONDS, "claim": world.claim(epoch)}
    await world.say(name, **patch)


async def operator_cost(world: World, operator_pid: int, held: int) -> None:
    """Processor time for each renewal, and memory, while `held` leases are held."""
    with Progress(f"granting {held} leases", f"{held / 80:.0f} s"):
        epochs = await world.hold(held, f"held{held}", leaseDurationSeconds=86400)
    names = list(epochs)
    await asyncio.sleep(3.0)
    idle_from, idle_at = cpu_seconds(operator_pid), time.perf_counter()
    await asyncio.sleep(5.0)
    idle = (cpu_seconds(operator_pid) - idle_from) / (time.perf_counter() - idle_at)
    before = cpu_seconds(operator_pid)

    async def client(part: list[str]) -> None:
        for name in part:
            await world.renew(name, epochs[name])

    each = max(1, COST_RENEWALS // len(names)) if len(names) < COST_RENEWALS else 1
    chosen = (names * each)[:COST_RENEWALS]
    await asyncio.gather(*(client(part) for part in chunks(chosen, CLIENTS)))
    await asyncio.sleep(1.0)
    cost = (cpu_seconds(operator_pid) - before) / len(chosen)
    table = Table(f"The operator with {held} held leases")
    table.row("processor time for each renewal, ms", f"{cost * 1e3:.2f}", "aim 0.5")
    table.row("of a core between renewals", f"{idle:.1%}")
    table.row("resident memory, MiB", f"{resident_mebibytes(operator_pid):.0f}", "aim 200 with 10000")
