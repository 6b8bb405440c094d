"""Ours beside leader election of client-go and mutexes of etcd: real processes, one server, one run, ratios."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from controlplane import ControlPlane, ensure, install
from onecluster import Access, namespace, operator
from peers.kinds import BRIEF, CLIENT_GO, ETCD, IMPATIENT, OURS, Kind, Way
from peers.party import Party
from peers.wire import Wire
from progress import Progress
from worklease import boot_seconds

from .figures import Table, milliseconds, percentile
from .world import cpu_seconds

AGENT, ROLE = "peers", "worklease-agent-creator"
ROUNDS, ACQUIRED_PER_ROUND = 4, 50
RELEASED, TRIALS = 30, 24
RENEWED = {OURS: 1500, CLIENT_GO: 2000, ETCD: 10000}
GAP_SECONDS = 0.1
"""Between one lock and the next: many are renewed and expire side by side, and not in one moment."""
SETTLED_SECONDS = 5.0
"""Longer than a candidate of client-go sleeps between two looks, and than anybody takes to the first renewal."""
STAGGER_SECONDS = 0.43
"""Between one process and the next of a kind: not in step with the half seconds in which etcd looks."""
HELD_SECONDS, NEXT_SECONDS, RENEWED_SECONDS = 30.0, 60.0, 120.0
IDLE_SECONDS, CALM_SECONDS = 4.0, 1.0
NOT_IN_NAMES = re.compile("[^a-z0-9]+")

Loss = Callable[[Way, Kind, list[str]], Awaitable[list[float]]]
"""How locks are lost, and what is measured of it in seconds."""


@dataclass(frozen=True)
class Servers:
    """What is asked: kube-apiserver and etcd, whose processor time is counted, and everybody's way to them."""

    way: Way
    pids: tuple[int, int]
    operator_pid: int


def run() -> None:
    """Every comparison, on a control plane of its own."""
    binaries = ensure("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
    plane = ControlPlane(controller_manager=True, binaries=binaries)
    with tempfile.TemporaryDirectory(prefix="worklease-peers-") as temporary:
        directory = Path(temporary)
        try:
            with Progress("starting a control plane", "6 s"):
                plane.start()
                install(plane.kubeconfig, plane.kubectl)
            name = f"peers-{secrets.token_hex(3)}"
            access = Access(plane.kubeconfig, plane.kubectl)
            with namespace(access, directory / "kubeconfig", name) as contexts:
                contexts.add_agent(AGENT, ROLE)
                verbs = "--verb=create,get,update"
                contexts.kubectl("create", "role", AGENT, "--resource=leases.coordination.k8s.io", verbs)
                contexts.kubectl(
                    "create", "rolebinding", "native", f"--role={AGENT}", f"--serviceaccount={name}:{AGENT}"
                )
                with operator(contexts, directory / "operator.log") as process:
                    way = Way(contexts.path, AGENT, name, plane.etcd_server)
                    pids = (plane.pid("kube-apiserver"), plane.pid("etcd"))
                    asyncio.run(compared(Servers(way, pids, process.pid)))
        finally:
            plane.stop()


async def compared(servers: Servers) -> None:
    """Prints one table."""
    table = Table("Peers, each row p50 / p99 / max, and its p50 as a multiple of ours")
    with Progress("acquiring", "10 s"):
        taken = await acquired(servers.way, (OURS, CLIENT_GO, ETCD))
    _rows(table, "uncontended acquire, ms", taken)
    with Progress("releasing to a waiting process", "50 s"):
        passed = {kind: await released(servers.way, kind) for kind in (OURS, CLIENT_GO, BRIEF, ETCD)}
    _rows(table, "release -> a waiting process holds, ms", passed)
    with Progress("killing holders", "35 s"):
        late = await _side_by_side(killed, servers.way, (OURS, CLIENT_GO, BRIEF, ETCD))
    _rows(table, "holder killed: true expiry -> a waiting process holds, ms", late, early=True)
    with Progress("cutting holders off in silence", "45 s"):
        both = await _side_by_side(cut_off, servers.way, (OURS, CLIENT_GO, IMPATIENT, BRIEF, ETCD))
    table.row("silent partition: next holder -> the old one stops, s", "", "negative is safe, positive: both act")
    for kind, seconds in both.items():
        figures = " / ".join(f"{percentile(seconds, percent):+.2f}" for percent in (50, 99, 100)) if seconds else "-"
        overlaps = sum(value > 0 for value in seconds)
        table.row(f"  {kind.name}", figures, f"both act in {overlaps} of {len(seconds)}; {kind.terms}")
    with Progress("renewing", "50 s"):
        await _costs(table, servers)


async def _side_by_side(measure: Loss, way: Way, kinds: Sequence[Kind]) -> dict[Kind, list[float]]:
    """All kinds at once, and of each kind all processes."""

    async def one(kind: Kind) -> list[float]:
        names = _names(measure.__name__, kind, TRIALS)

        async def part(number: int) -> list[float]:
            await asyncio.sleep(number * STAGGER_SECONDS)
            return await measure(way, kind, names[number :: kind.processes])

        return [seconds for found in await asyncio.gather(*map(part, range(kind.processes))) for seconds in found]

    return dict(zip(kinds, await asyncio.gather(*map(one, kinds)), strict=True))


def _rows(table: Table, title: str, measured: dict[Kind, list[float]], *, early: bool = False) -> None:
    table.row(title, "")
    for kind, seconds in measured.items():
        ratio = "" if kind is OURS else f"{_ratio(seconds, measured[OURS])} x ours; "
        before = f", {sum(value < 0 for value in seconds)} too early" if early else ""
        figures = milliseconds(seconds, 50, 99, 100) if seconds else "-"
        table.row(f"  {kind.name}", figures, f"{ratio}{len(seconds)} trials{before}; {kind.terms}")


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> str:
    return f"{percentile(theirs, 50) / percentile(ours, 50):.2f}" if theirs and ours else "?"


async def acquired(way: Way, kinds: Sequence[Kind]) -> dict[Kind, list[float]]:
    """Locks that nobody else wants, by each kind in turns, so that a slow moment hits all."""
    async with contextlib.AsyncExitStack() as stack:
        parties = {kind: await stack.enter_async_context(await kind.party(way)) for kind in kinds}
        for round_number in range(ROUNDS):
            for number, party in enumerate(parties.values()):
                party.forget("done", "acquire")
                await party.say(f"acquire acquired-{number}-{round_number} {ACQUIRED_PER_ROUND}")
                await party.until("done", ["acquire"], RENEWED_SECONDS)
        return {kind: party.acquired_seconds for kind, party in parties.items()}


async def released(way: Way, kind: Kind) -> list[float]:
    """One process gives its locks back, one after the other; another one waits for all of them."""
    names = _names("released", kind, RELEASED)
    async with await kind.party(way) as holder, await kind.party(way) as waiter:
        await _held(holder, waiter, names)
        for name in names:
            await holder.say(f"release {name}")
            if kind.watches:
                await waiter.until("held", [name], NEXT_SECONDS)
            await asyncio.sleep(GAP_SECONDS)
        taken = await waiter.until("held", names, NEXT_SECONDS)
        given = _times(holder, "releasing", names)
    return [taken[name] - at for name, at in given.items() if taken[name] > at]


async def killed(way: Way, kind: Kind, names: list[str]) -> list[float]:
    """How long after the lock has truly expired a waiting process holds it; below zero is too early."""
    async with await kind.party(way) as holder, await kind.party(way) as waiter:
        await _held(holder, waiter, names)
        killed_at = boot_seconds()
        holder.kill()
        await holder.ended()
        taken = await waiter.until("held", names, NEXT_SECONDS)
        alive = [name for name in names if holder.last("stopped", name) is None]
        renewed = _times(holder, "renewed", [name for name in alive if _is_known(holder, name)])
    return [taken[name] - at - kind.expires_seconds for name, at in renewed.items() if taken[name] > killed_at]


async def cut_off(way: Way, kind: Kind, names: list[str]) -> list[float]:
    """From the next holder's grant to the old one's last belief, when every request of the old one hangs."""
    async with (
        _wires(way) as (wired, fall_silent),
        await kind.party(wired) as holder,
        await kind.party(way) as waiter,
    ):
        await _held(holder, waiter, names)
        silent_at = boot_seconds()
        fall_silent()
        taken = await waiter.until("held", names, NEXT_SECONDS)
        stopped = await holder.until("stopped", names, NEXT_SECONDS)
    return [stopped[name] - at for name, at in taken.items() if min(at, stopped[name]) > silent_at]


def _times(party: Party, event: str, names: Iterable[str]) -> dict[str, float]:
    """When this last happened, without the locks that were lost before; a machine that is busy loses some."""
    times = {}
    for name in names:
        at, stopped = party.last(event, name), party.last("stopped", name)
        if at is not None and (stopped is None or stopped >= at):
            times[name] = at
    return times


def _is_known(holder: Party, name: str) -> bool:
    """No renewal was on its way: nobody can tell whether it arrived."""
    sent = holder.last("sent", name)
    return sent is None or sent == holder.last("renewed", name)


async def _held(holder: Party, waiter: Party, names: Iterable[str]) -> None:
    """All held by one, wanted by the other, and renewed at least once."""
    for name in names:
        await holder.say(f"hold {name}")
        await asyncio.sleep(GAP_SECONDS)
    await holder.until("held", names, HELD_SECONDS)
    for name in names:
        await waiter.say(f"hold {name}")
    await asyncio.sleep(SETTLED_SECONDS)


def _names(what: str, kind: Kind, count: int) -> list[str]:
    return [f"{NOT_IN_NAMES.sub('-', f'{what}-{kind.name}')}-{index}" for index in range(count)]


@contextlib.asynccontextmanager
async def _wires(way: Way) -> AsyncIterator[tuple[Way, Callable[[], None]]]:
    """The same way through something that can fall silent, and what makes it so."""
    config = json.loads(way.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    async with _wire(cluster["server"]) as to_server, _wire(way.etcd) as to_etcd:
        cluster["server"] = f"https://127.0.0.1:{to_server.port}"
        kubeconfig = way.kubeconfig.with_name(f"kubeconfig-{to_server.port}")
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(config))

        def fall_silent() -> None:
            to_server.fall_silent()
            to_etcd.fall_silent()

        yield dataclasses.replace(way, kubeconfig=kubeconfig, etcd=f"http://127.0.0.1:{to_etcd.port}"), fall_silent


def _wire(url: str) -> Wire:
    address = urlsplit(url)
    assert address.hostname
    assert address.port
    return Wire(address.hostname, address.port)


async def _costs(table: Table, servers: Servers) -> None:
    """Processor time of the servers that take part for each renewal; what they spend anyway is taken off."""
    costs, operator_cost = {}, 0.0
    for kind, count in RENEWED.items():
        operator_before = cpu_seconds(servers.operator_pid)
        costs[kind] = await _renewed(kind, count, servers)
        if kind is OURS:
            operator_cost = (cpu_seconds(servers.operator_pid) - operator_before) / count
    table.row("server processor time for each renewal, ms", "", "what the servers spend anyway is taken off")
    for kind, cost in costs.items():
        note = f"and the operator {operator_cost * 1e3:.2f}" if kind is OURS else f"{cost / costs[OURS]:.3f} x ours"
        table.row(f"  {kind.name}", f"{cost * 1e3:.3f}", f"{note}; {RENEWED[kind]} renewals")


async def _renewed(kind: Kind, count: int, servers: Servers) -> float:
    pids = servers.pids[-1:] if kind is ETCD else servers.pids
    loop = asyncio.get_running_loop()

    def spent() -> float:
        return sum(cpu_seconds(pid) for pid in pids)

    await asyncio.sleep(CALM_SECONDS)
    before, at = spent(), loop.time()
    await asyncio.sleep(IDLE_SECONDS)
    idle = (spent() - before) / (loop.time() - at)
    async with await kind.party(servers.way) as party:
        await party.say(f"renew {count}")
        await party.until("prepared", [""], RENEWED_SECONDS)
        await asyncio.sleep(CALM_SECONDS)
        before, at = spent(), loop.time()
        await party.say("begin now")
        await party.until("done", ["renew"], RENEWED_SECONDS)
        return (spent() - before - idle * (loop.time() - at)) / count
