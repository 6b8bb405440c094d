"""Whom the client is to the API server while a lease is held: tokens that end and are rotated, and pods."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import worklease
from support.cluster import Cluster, Identity
from support.holding import LEASE_SECONDS, client_of, until
from support.speaking import Work
from worklease import LostReason, Standing

pytestmark = pytest.mark.usefixtures("operator")
CACHED_SECONDS = 60.0
"""The API server goes by a token that has ended for some seconds more."""


class Rotated:
    """A kubeconfig whose token is in a file, and tokens that end with the Secret that they are bound to."""

    def __init__(self, cluster: Cluster, namespace: str, agent: Identity, directory: Path) -> None:
        self._cluster = cluster
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self._token_path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{agent.username.split(':')[-1]}/token"
        self.file = directory / "token"
        self.kubeconfig = directory / "kubeconfig-rotated"
        config = json.loads(agent.kubeconfig.read_text())
        config["users"][0]["user"] = {"tokenFile": str(self.file)}
        self.kubeconfig.write_text(json.dumps(config))

    def put(self, name: str) -> None:
        """A token that is valid as long as the Secret `name`, into the file."""
        made = self._cluster.api.create(self._secrets, {"metadata": {"name": name}}).must()
        bound = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": made["metadata"]["uid"]}
        request = {"spec": {"expirationSeconds": 3600, "boundObjectRef": bound}}
        self.file.write_text(self._cluster.api.create(self._token_path, request).must()["status"]["token"])

    def end(self, name: str) -> None:
        """From now on that token is refused with 401."""
        self._cluster.api.delete(f"{self._secrets}/{name}").must()


def test_a_token_that_ends_and_is_rotated_costs_no_lease(
    cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path
) -> None:
    """401 is unknown: the credentials are read again at each one, and with the new token the lease is certain again."""
    rotated = Rotated(cluster, namespace, agent, tmp_path)
    rotated.put("first")

    async def main() -> None:
        durations: dict[str, Any] = {"lease_seconds": LEASE_SECONDS, "jeopardy_seconds": 600}
        async with (
            client_of(agent, kubeconfig=rotated.kubeconfig) as client,
            client.hold("w", purpose="p", namespace=namespace, **durations) as lease,
        ):
            await asyncio.to_thread(rotated.end, "first")
            await until(lambda: lease.trouble, "a renewal with the token that has ended", CACHED_SECONDS)
            assert "Unauthorized" in str(lease.trouble)
            await lease.standing_changed(Standing.HELD)
            await asyncio.to_thread(rotated.file.write_text, "no.such.token")
            tried = client.session.credentials
            await until(lambda: tried._configuration.api_key["BearerToken"].endswith("no.such.token"), "a look at it")
            assert lease.standing is Standing.JEOPARDY
            await asyncio.to_thread(rotated.put, "second")
            assert await lease.standing_changed(Standing.JEOPARDY) is Standing.HELD
            async with lease.effect("mail", "send"):
                pass

    asyncio.run(main())
    assert len(Work(cluster, namespace, "w").reaches("Released")["history"]) == 1


def test_a_token_that_is_never_renewed_ends_the_block_and_not_by_a_refusal(
    cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path
) -> None:
    """Without credentials nothing is certain: the lease is Uncertain, and expires."""
    rotated = Rotated(cluster, namespace, agent, tmp_path)
    rotated.put("only")

    async def main() -> None:
        async with (
            client_of(agent, kubeconfig=rotated.kubeconfig) as client,
            client.hold("w", purpose="p", namespace=namespace, lease_seconds=LEASE_SECONDS, jeopardy_seconds=0),
        ):
            await asyncio.to_thread(rotated.end, "only")
            await asyncio.Event().wait()

    with pytest.raises(worklease.LeaseLost) as lost:
        asyncio.run(main())
    assert lost.value.reason == LostReason.UNCERTAIN
    Work(cluster, namespace, "w").reaches("Expired")


def test_two_pods_of_one_service_account_are_two_holders(cluster: Cluster, namespace: str) -> None:
    """The same identity, another instance: the second is refused, waits for its turn, and ends nothing of the first."""
    first = cluster.pod_identity(namespace, "worker", "worker-0", "worklease-agent-creator")
    second = cluster.pod_identity(namespace, "worker", "worker-1")

    async def main() -> tuple[int, int]:
        async with client_of(first) as one, client_of(second) as two:
            assert one.identity.username == two.identity.username
            assert (one.identity.instance, two.identity.instance) == (first.instance, second.instance)
            async with one.hold("w", purpose="p", namespace=namespace) as lease:
                with pytest.raises(worklease.WorkIsLeased):
                    async with two.hold("w", purpose="p", namespace=namespace):
                        raise AssertionError("two holders")
                waiting = asyncio.create_task(waited(two))
                await lease.checkpoint("s3://work/1", "sha256:1")
                assert not waiting.done()
                assert lease.standing is Standing.HELD
            return lease.epoch, await waiting

    async def waited(client: worklease.Client) -> int:
        async with client.hold("w", purpose="p", namespace=namespace, wait=60) as lease:
            return lease.epoch

    epochs = asyncio.run(main())
    tenures = Work(cluster, namespace, "w").reaches("Released")["history"]
    assert [tenure["instance"] for tenure in tenures] == [first.instance, second.instance]
    assert epochs == tuple(tenure["epoch"] for tenure in tenures)


HOLDER = """
import asyncio, sys
import worklease

async def main():
    source = worklease.Source(sys.argv[1])
    async with worklease.hold("w", purpose="p", namespace=sys.argv[2], lease_seconds=10, source=source) as lease:
        print("held", lease.epoch, flush=True)
        await asyncio.Event().wait()

try:
    asyncio.run(main())
except worklease.LeaseLost as lost:
    print("lost", lost.reason, flush=True)
"""


def start(identity: Identity, namespace: str) -> subprocess.Popen[str]:
    """A process of this identity that holds the work."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(identity.kubeconfig), namespace],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_restarted_container_gets_its_work_back_and_what_was_left_of_it_has_lost(
    cluster: Cluster, namespace: str
) -> None:
    """The processes of a pod are one instance: the second claims again, and the first is told that it was Reclaimed."""
    pod = cluster.pod_identity(namespace, "worker", "worker-0", "worklease-agent-creator")
    processes = [start(pod, namespace)]
    try:
        assert processes[0].stdout
        first = processes[0].stdout.readline().split()
        processes.append(start(pod, namespace))
        assert processes[1].stdout
        second = processes[1].stdout.readline().split()
        assert (first[0], second[0]) == ("held", "held")
        assert int(first[1]) < int(second[1])
        assert processes[0].communicate(timeout=60.0)[0].split() == ["lost", "Reclaimed"]
        processes[1].send_signal(signal.SIGINT)  # case 9: given back, not left to lapse
        processes[1].communicate(timeout=60.0)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    ends = [tenure["endReason"] for tenure in Work(cluster, namespace, "w").reaches("Released")["history"]]
    assert ends == ["Reclaimed", "Released"]
