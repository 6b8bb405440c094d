"""Whatever happens to its watches, the operator comes back to them and misses nothing for good."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.operators import OperatorThread, operating, operator_kubeconfig
from support.proxy import Proxy
from support.speaking import Agent, Work
from support.waiting import wait_for

LEASE_SECONDS = 120
SOON_SECONDS = 30.0
"""Far less than what is held off for a status that the API server will never take."""
WATCHES = 2
"""One of each kind."""


@pytest.fixture
def kubeconfig(cluster: Cluster, proxy: Proxy, tmp_path: Path) -> Path:
    """The operator's own credentials, by way of the proxy."""
    token = json.loads(
        cluster.kubectl("config", "view", "--raw", f"--kubeconfig={operator_kubeconfig(cluster)}", "-o", "json").stdout
    )["users"][0]["user"]["token"]
    return proxy.kubeconfig(tmp_path, token)


def line(kind: str, **status: object) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": {"kind": "Status", "apiVersion": "v1", **status}}).encode() + b"\n"


def an_error_in_the_stream(proxy: Proxy) -> None:
    """The server reports an internal error in a watch."""
    proxy.inject(line("ERROR", code=500, message="etcdserver: broken"))


def an_error_in_one_of_the_streams(proxy: Proxy) -> None:
    """The server reports an internal error in the watch of one kind."""
    proxy.inject(line("ERROR", code=500, message="etcdserver: broken"), "/workleases")


def a_version_too_old(proxy: Proxy) -> None:
    """The server has forgotten the version from which a watch goes on."""
    proxy.inject(line("ERROR", code=410, reason="Expired", message="too old resource version"))


def a_cut_connection(proxy: Proxy) -> None:
    """The connections of the watches are gone."""
    proxy.cut()


def half_a_line(proxy: Proxy) -> None:
    """The connections end in the middle of an event."""
    proxy.cut(line("ADDED", code=1)[:20])


def no_json(proxy: Proxy) -> None:
    """Something else answers in the server's place."""
    proxy.inject(b"<html>Bad gateway</html>\n")


def lists_that_are_gone(proxy: Proxy) -> None:
    """The server cannot continue a list."""
    answered: list[str] = []

    def gone(path: str, watching: bool) -> int:
        if path.endswith("/workleases") and len(answered) < 3:
            answered.append(path)
            return 410
        return 0

    proxy.refuse = gone
    proxy.cut()
    proxy.inject(line("ERROR", code=410))


@pytest.mark.parametrize(
    "trouble",
    [
        an_error_in_the_stream,
        an_error_in_one_of_the_streams,
        a_version_too_old,
        a_cut_connection,
        half_a_line,
        no_json,
        lists_that_are_gone,
    ],
)
def test_watching_goes_on_after(
    trouble: Callable[[Proxy], None], cluster: Cluster, namespace: str, agent: Agent, proxy: Proxy, kubeconfig: Path
) -> None:
    """Claims that are made while the watch is broken are granted, holders keep theirs, and nothing is left over."""
    with operating(cluster, namespace, kubeconfig=kubeconfig) as operator:
        held = Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS)
        epoch = held.hold(agent)
        wait_for(lambda: proxy.watches() == WATCHES, "both watches to be open")
        trouble(proxy)
        Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS).hold(agent)
        held.renew(agent, epoch).must()
        wait_for(operator.is_ready, "the operator to be ready again")
        wait_for(lambda: proxy.watches() == WATCHES, "both watches to be open again, and no more")
        Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS).hold(agent)
        assert held.epoch == epoch
        assert proxy.watches() == WATCHES


def test_a_deletion_that_the_watch_did_not_tell_is_noticed(
    cluster: Cluster, namespace: str, agent: Agent, proxy: Proxy, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that went in a gap of the watch is forgotten at the next resync."""
    monkeypatch.setattr("worklease.controller.kinds.RESYNC_SECONDS", 1.0)
    with operating(cluster, namespace, kubeconfig=kubeconfig) as operator:
        works = [Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS) for _ in range(3)]
        for work in works:
            work.hold(agent)
        known(operator, 3)
        proxy.swallow = lambda event: event["type"] == "DELETED"
        cluster.api.delete(works[0].path).must()
        known(operator, 2)
        works[1].hold(agent)


def known(operator: OperatorThread, held: int) -> None:
    """Waits until the operator knows so many held leases."""
    wait_for(lambda: operator.metric("worklease_leases", phase="Held") == held, f"{held} leases to be known as held")


def test_a_watch_that_is_open_and_silent_is_replaced(
    cluster: Cluster, namespace: str, agent: Agent, proxy: Proxy, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch without bookmarks is taken for down: a claim that it did not tell is granted over the next one, and a
    renewal that it did not tell keeps its lease.
    """
    monkeypatch.setattr("worklease.controller.watch.SILENT_SECONDS", 4.0)
    with operating(cluster, namespace, kubeconfig=kubeconfig):
        work = Work.create(cluster, namespace, lease_seconds=20)
        epoch = work.hold(agent)
        wait_for(lambda: proxy.watches() == WATCHES, "both watches to be open")
        proxy.freeze()
        other = Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS)
        claim_id = other.claim(agent)
        work.renew(agent, epoch).must()
        other.granted(claim_id)
        work.renew(agent, epoch).must()
        assert work.epoch == epoch


def test_a_denial_that_passes_holds_a_decision_up_for_a_moment(
    cluster: Cluster, namespace: str, agent: Agent, proxy: Proxy, kubeconfig: Path
) -> None:
    """A server that starts denies everything until it has read its roles: the grant follows soon after."""
    denied: list[str] = []

    def deny(path: str, watching: bool) -> int:
        if path.endswith("/status") and len(denied) < 3:
            denied.append(path)
            return 403
        return 0

    with operating(cluster, namespace, kubeconfig=kubeconfig) as operator:
        wait_for(lambda: proxy.watches() == WATCHES, "both watches to be open")
        proxy.refuse = deny
        work = Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS)
        claim_id = work.claim(agent)
        wait_for(lambda: work.status.get("claimID") == claim_id, "the grant", SOON_SECONDS)
        assert operator.metric("worklease_swaps_total", result="failed") == len(denied) == 3


def test_a_lease_is_timed_from_its_grant_whatever_the_servers_clock_said_then(
    cluster: Cluster, namespace: str, agent: Agent, proxy: Proxy, kubeconfig: Path
) -> None:
    """The server's times bound only tenures that began before the operator did: this one it saw begin."""
    with operating(cluster, namespace, kubeconfig=kubeconfig):
        wait_for(lambda: proxy.watches() == WATCHES, "both watches to be open")
        Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS).hold(agent)
        proxy.ahead_seconds = lambda path: 0.0 if path.endswith("/status") else -10.0 * LEASE_SECONDS
        Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS).hold(agent)
        work = Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS)
        epoch = work.hold(agent)
        for _ in range(2):
            Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS).hold(agent)
        work.renew(agent, epoch).must()
        assert (work.epoch, work.status["phase"]) == (epoch, "Held")


def test_a_user_without_a_name_may_run_it(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some clusters run every pod under a number that no passwd file knows."""

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1000680000")

    monkeypatch.setattr("getpass.getuser", nobody)
    with operating(cluster, namespace) as operator:
        assert operator.is_ready()
