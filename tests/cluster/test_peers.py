"""The processes that hack/bench compares: each kind passes a lock on, and the way to the servers can fall silent."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane import Process, ensure
from controlplane.ports import LOOPBACK, free_port
from peers.kinds import BRIEF, ETCD, OURS, Kind, Way
from peers.wire import Wire
from support.cluster import Cluster
from support.operators import operating
from support.waiting import wait_for

WITHIN_SECONDS = 60.0
STOPPED_WITHIN_SECONDS = 5.0
SILENT_SECONDS = 0.3


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[str]:
    """The URL of an etcd of the test's own."""
    url, peer_url = f"http://{LOOPBACK}:{free_port()}", f"http://{LOOPBACK}:{free_port()}"
    command = [
        str(ensure("etcd")["etcd"]),
        f"--data-dir={tmp_path / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--unsafe-no-fsync",
    ]
    process = Process("etcd", command, tmp_path / "etcd.log")
    try:
        wait_for(lambda: _is_healthy(url), "etcd to be healthy")
        yield url
    finally:
        process.stop(STOPPED_WITHIN_SECONDS)


def _is_healthy(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=1.0) as answer:
        return b"true" in answer.read()
    return False


def test_each_kind_of_lock_is_acquired_and_passed_on(cluster: Cluster, namespace: str, etcd: str) -> None:
    """What is measured does what it says: a lock is taken, renewed and given to the process that waits for it."""
    holder = cluster.service_account(namespace, "holder", "worklease-agent-creator")
    role = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}
    group = "rbac.authorization.k8s.io"
    path = f"/apis/{group}/v1/namespaces/{namespace}"
    cluster.api.create(f"{path}/roles", {"metadata": {"name": "native"}, "rules": [role]}).must()
    binding = {
        "metadata": {"name": "native"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "native"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": holder.username}],
    }
    cluster.api.create(f"{path}/rolebindings", binding).must()
    way = Way(holder.kubeconfig, "c", namespace, etcd)

    async def all_passed() -> None:
        await asyncio.gather(*(_passed_on(way, kind) for kind in (OURS, BRIEF, ETCD)))

    with operating(cluster, namespace):
        asyncio.run(all_passed())


async def _passed_on(way: Way, kind: Kind) -> None:
    """Between two processes, the second of which has had to wait."""
    async with await kind.party(way) as holder, await kind.party(way) as waiter:
        await holder.say("acquire alone 1")
        await holder.until("acquired", ["alone-0"], WITHIN_SECONDS)
        await holder.say("hold passed")
        await holder.until("held", ["passed"], WITHIN_SECONDS)
        await waiter.say("hold passed")
        await holder.until("renewed", ["passed"], WITHIN_SECONDS)
        await holder.say("release passed")
        given = await holder.until("releasing", ["passed"], WITHIN_SECONDS)
        taken = await waiter.until("held", ["passed"], WITHIN_SECONDS)
    assert len(holder.acquired_seconds) == 1
    assert taken["passed"] > given["passed"]


def test_a_silent_wire_keeps_connections_and_passes_nothing_on() -> None:
    """A partition in which every request hangs: nothing is refused, closed or answered."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while content := await reader.read(100):
            writer.write(content)
        writer.close()

    async def played() -> None:
        server = await asyncio.start_server(echo, LOOPBACK, 0)
        async with server, Wire(LOOPBACK, server.sockets[0].getsockname()[1]) as wire:
            reader, writer = await asyncio.open_connection(LOOPBACK, wire.port)
            writer.write(b"before")
            assert await reader.readexactly(6) == b"before"
            wire.fall_silent()
            later_reader, later_writer = await asyncio.open_connection(LOOPBACK, wire.port)
            for one in (writer, later_writer):
                one.write(b"after")
            for one_reader in (reader, later_reader):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(one_reader.read(1), SILENT_SECONDS)
            writer.close()
            later_writer.close()

    asyncio.run(played())
