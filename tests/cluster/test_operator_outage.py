"""An outage of the API server, or of the operator itself, costs no holder its lease and lets no dead holder stay."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane import ControlPlane, install
from support.cluster import Cluster, Identity
from support.operators import Launcher
from support.speaking import SHORTEST_LEASE_SECONDS, Agent, Work
from support.waiting import pass_time, wait_for

LONGER_THAN_A_LEASE_SECONDS = SHORTEST_LEASE_SECONDS + 4
NAMESPACE = "default"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane that may be broken."""
    with ControlPlane() as plane:
        install(plane.kubeconfig, plane.kubectl)
        yield plane


def api_server_hangs(plane: ControlPlane) -> None:
    """It accepts connections, keeps its watches open, and answers nothing."""
    plane.pause("kube-apiserver")
    pass_time(LONGER_THAN_A_LEASE_SECONDS)
    plane.resume("kube-apiserver")


def api_server_dies(plane: ControlPlane) -> None:
    """It crashes, and is started again."""
    plane.kill("kube-apiserver")
    pass_time(LONGER_THAN_A_LEASE_SECONDS)
    plane.restart("kube-apiserver")


def store_hangs(plane: ControlPlane) -> None:
    """The API server is there, its store is not."""
    plane.pause("etcd")
    pass_time(LONGER_THAN_A_LEASE_SECONDS)
    plane.resume("etcd")


def renewed(works: list[Work], epochs: list[int], agent: Agent) -> list[bool]:
    """Renews each of them; says which renewals were admitted."""
    return [work.renew(agent, epoch).ok for work, epoch in zip(works, epochs, strict=False)]


@pytest.mark.parametrize("outage", [api_server_hangs, api_server_dies, store_hangs])
def test_an_outage_longer_than_the_lease_expires_nobody(
    outage: Callable[[ControlPlane], None], plane: ControlPlane, tmp_path: Path
) -> None:
    """Who renewed before an outage still holds after it and may renew; who does not come back expires (case 35)."""
    own = Cluster(plane.kubeconfig, plane.kubectl, tmp_path)
    launcher = Launcher(own, tmp_path)
    try:
        operator = launcher.start(NAMESPACE).ready()
        agent = Agent.of(own.service_account(NAMESPACE, "agent", "worklease-agent"))
        works = [Work.create(own, NAMESPACE, jeopardy_seconds=jeopardy) for jeopardy in (0, 1, 0)]
        epochs = [work.hold(agent) for work in works]
        *kept, abandoned = works
        for work, epoch in zip(works, epochs, strict=True):
            work.renew(agent, epoch).must()
        outage(plane)
        wait_for(lambda: all(renewed(kept, epochs, agent)), "the holders to be able to renew")
        wait_for(
            lambda: renewed(kept, epochs, agent) and abandoned.status["phase"] == "Expired",
            "the one that nobody renews to expire",
        )
        assert all(renewed(kept, epochs, agent)), (operator.log, [work.history for work in kept])
        assert [len(work.history) for work in works] == [1, 1, 1]
        assert operator.process.poll() is None
        assert "Traceback" not in operator.log, operator.log
    finally:
        launcher.stop()


def test_a_paused_operator_expires_nobody_who_renewed_meanwhile(
    cluster: Cluster, namespace: str, service_account: Callable[..., Identity], tmp_path: Path
) -> None:
    """An operator that wakes with every deadline due looks again first: renewed leases stay, the others end."""
    launcher = Launcher(cluster, tmp_path)
    try:
        operator = launcher.start(namespace).ready()
        agent = Agent.of(service_account(namespace, "agent", "worklease-agent"))
        wait_for(lambda: operator.metric("worklease_watch_blind_seconds_total"), "the leases to be timed")
        works = [Work.create(cluster, namespace) for _ in range(3)]
        claim_ids = [work.claim(agent) for work in works]
        epochs = [work.granted(claim_id) for work, claim_id in zip(works, claim_ids, strict=True)]
        *kept, abandoned = works
        operator.send(signal.SIGSTOP)
        pass_time(LONGER_THAN_A_LEASE_SECONDS)
        assert all(renewed(kept, epochs, agent))
        operator.send(signal.SIGCONT)
        wait_for(
            lambda: renewed(kept, epochs, agent) and abandoned.status["phase"] == "Expired",
            "the one that nobody renews to expire",
        )
        assert all(renewed(kept, epochs, agent)), (operator.log, [work.history for work in kept])
        assert "Traceback" not in operator.log, operator.log
    finally:
        launcher.stop()
