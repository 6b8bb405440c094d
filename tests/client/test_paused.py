"""A process that was stopped, and an API server that was: what a holder does when it goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import worklease
from controlplane import ControlPlane, install
from support.cluster import Cluster, Identity
from support.holding import client_of
from support.operators import Launcher
from support.speaking import Agent, Work
from support.waiting import pass_time, wait_for
from worklease import Standing

HOLDER = """
import asyncio, sys, time
import worklease

async def main():
    source = worklease.Source(sys.argv[1])
    async with worklease.hold("w", purpose="p", namespace=sys.argv[2], lease_seconds=10, jeopardy_seconds=0,
                              source=source) as lease:
        while True:
            lease.require_held()
            print("effect", worklease.boot_seconds(), flush=True)
            await asyncio.sleep(0.02)

try:
    asyncio.run(main())
except worklease.LeaseLost as lost:
    print("lost", lost.reason, flush=True)
"""


@pytest.mark.usefixtures("operator")
def test_a_process_that_was_stopped_across_its_expiry_makes_no_effect(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """The first thing that it learns is that it has lost; somebody else holds by then (cases 1, 27)."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(agent.kubeconfig), namespace],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout
        assert holder.stdout.readline().startswith("effect")
        holder.send_signal(signal.SIGSTOP)
        stopped_at = worklease.boot_seconds()
        successor = Agent.of(other)
        work = Work(cluster, namespace, "w")
        wait_for(lambda: work.status["phase"] == "Expired", "the lease to expire", 60.0)
        work.hold(successor)
        holder.send_signal(signal.SIGCONT)
        *effects, last = holder.communicate(timeout=60.0)[0].splitlines()
    finally:
        holder.kill()
        holder.wait()
    assert last.split()[0] == "lost"
    assert all(float(line.split()[1]) <= stopped_at for line in effects)
    assert work.status["phase"] == "Held"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane that may be broken."""
    with ControlPlane() as plane:
        install(plane.kubeconfig, plane.kubectl)
        yield plane


def test_an_api_server_that_hangs_ends_the_blocks_whose_time_is_up_and_no_others(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """Shorter than the deadline, an outage is not noticed; longer, the block is quiescent; beyond the grace it ends,
    while whoever had more time holds again (case 6).
    """
    own = Cluster(plane.kubeconfig, plane.kubectl, tmp_path)
    launcher = Launcher(own, tmp_path)
    outcomes: dict[str, str] = {}

    async def holder(client: worklease.Client, name: str, lease_seconds: int, jeopardy_seconds: int) -> None:
        durations: dict[str, Any] = {"lease_seconds": lease_seconds, "jeopardy_seconds": jeopardy_seconds}
        try:
            async with client.hold(name, purpose="p", namespace="default", **durations) as lease:
                held.release()
                await resumed.wait()
                was = lease.standing
                while lease.standing is Standing.JEOPARDY:
                    await lease.standing_changed(Standing.JEOPARDY)
                outcomes[name] = f"{was} {lease.standing}"
        except worklease.LeaseLost as lost:
            outcomes[name] = lost.reason

    async def main() -> None:
        identity = own.service_account("default", "agent", "worklease-agent-creator")
        async with client_of(identity) as client, asyncio.timeout(120), asyncio.TaskGroup() as tasks:
            for name, durations in {"short": (10, 0), "patient": (10, 600), "long": (600, 0)}.items():
                tasks.create_task(holder(client, name, *durations))
            for _ in range(3):
                await held.acquire()
            plane.pause("kube-apiserver")
            await asyncio.to_thread(pass_time, 12.0)
            plane.resume("kube-apiserver")
            resumed.set()

    held, resumed = asyncio.Semaphore(0), asyncio.Event()
    try:
        launcher.start("default").ready()
        asyncio.run(main())
    finally:
        launcher.stop()
    assert outcomes == {"short": "Uncertain", "patient": "Jeopardy Held", "long": "Held Held"}
