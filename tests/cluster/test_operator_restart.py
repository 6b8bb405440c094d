"""An operator that starts goes on from the objects: it owes nobody a full term, and takes none away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from support.cluster import Cluster, Identity
from support.operators import operating
from support.speaking import Agent, Work
from support.waiting import wait_for

CallForIdentity = Callable[..., Identity]
LONG_SECONDS = 3600


def long_ago() -> datetime:
    """Longer ago than a long lease lasts."""
    return datetime.now(UTC) - timedelta(seconds=2 * LONG_SECONDS)


def hold_since_long_ago(work: Work, agent: Agent) -> int:
    """Brings the work to where an operator left it long ago: held, and not renewed since its grant."""
    claim = agent.claim(0)
    work.say(agent, claim=claim).must()
    whole = work.read()
    epoch = int(whole["metadata"]["resourceVersion"])
    whole["status"] |= {
        "phase": "Held",
        "epoch": epoch,
        "leaseTransitions": 1,
        "holderIdentity": claim["holderIdentity"],
        "instance": claim["instance"],
        "claimID": claim["id"],
        "acquireTime": long_ago().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "leaseDurationSeconds": LONG_SECONDS,
        "jeopardyDurationSeconds": 0,
    }
    work.cluster.api.replace(f"{work.path}/status", whole).must()
    return epoch


def date_renewal(work: Work, when: datetime | None) -> None:
    """Changes the server's own note of when the renewal was written; None: the notes are lost."""
    whole = work.read()
    if when is None:
        whole["metadata"]["managedFields"] = [{}]
    else:
        (entry,) = (
            entry for entry in whole["metadata"]["managedFields"] if "f:renewal" in entry["fieldsV1"].get("f:spec", {})
        )
        entry["time"] = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    whole["metadata"]["labels"] = {"dated": "differently"}  # without another change the server keeps its times
    work.cluster.api.replace(work.path, whole, fieldManager="history").must()


def has_decided(cluster: Cluster, namespace: str, agent: Agent) -> None:
    """Waits until the operator that runs has seen everything that was there when this is called."""
    Work.create(cluster, namespace).hold(agent)


def test_a_holder_that_died_long_ago_keeps_nobody_waiting(cluster: Cluster, namespace: str, agent: Agent) -> None:
    """The server's own time of the last renewal, else of the grant, bounds the wait after a restart; where it is not
    known, or not to be trusted, the holder has its full term from then on (case 5).
    """
    unrenewed, renewed, fresh_again, unknown = works = [
        Work.create(cluster, namespace, lease_seconds=LONG_SECONDS) for _ in range(4)
    ]
    epochs = [hold_since_long_ago(work, agent) for work in works]
    for work, epoch in list(zip(works, epochs, strict=True))[1:]:
        work.renew(agent, epoch).must()
    date_renewal(renewed, long_ago())
    date_renewal(unknown, None)
    with operating(cluster, namespace, trust_server_times=False):
        has_decided(cluster, namespace, agent)
        assert [work.status["phase"] for work in works] == ["Held"] * 4
    with operating(cluster, namespace):
        unrenewed.reaches("Expired")
        renewed.reaches("Expired")
        has_decided(cluster, namespace, agent)
        assert fresh_again.status["phase"] == "Held"
        assert unknown.status["phase"] == "Held"
        assert unrenewed.hold(agent.sibling()) > epochs[0]


def test_what_was_said_without_an_operator_is_decided_once_there_is_one(
    cluster: Cluster, namespace: str, agent: Agent
) -> None:
    """Statements wait in the objects: with the operator back every one of them is decided."""
    works = [Work.create(cluster, namespace, lease_seconds=LONG_SECONDS) for _ in range(6)]
    released, revoked, completed, taken_over, handed_back, reclaimed = works
    with operating(cluster, namespace):
        epochs = [work.hold(agent) for work in works]
    other = agent.sibling()
    released.release(agent, epochs[0]).must()
    revoked.revoke(epochs[1]).must()
    completed.complete(agent, epochs[2]).must()
    taken_over.take_over(other, epochs[3])
    handed_back.release(agent, epochs[4]).must()
    handed_back.claim(other)
    reclaimed.claim(agent)
    first = Work.create(cluster, namespace, lease_seconds=LONG_SECONDS)
    first.claim(agent)
    again = Work.create(cluster, namespace, lease_seconds=LONG_SECONDS, suspend=True)
    with operating(cluster, namespace):
        released.reaches("Released")
        revoked.reaches("Revoked")
        completed.reaches("Completed")
        expected: dict[Work, list[tuple[str, Any]]] = {
            taken_over: [("FirstGrant", "Revoked"), ("AfterRevocation", None)],
            handed_back: [("FirstGrant", "Released"), ("AfterRelease", None)],
            reclaimed: [("FirstGrant", "Reclaimed"), ("Reclaim", None)],
            first: [("FirstGrant", None)],
        }
        for work, tenures in expected.items():
            wait_for(partial(has_ended, work, tenures), f"{tenures} of {work.name}")
        wait_for(lambda: again.condition("Claimable") == "False/Suspended", "the conditions of the new one")


def has_ended(work: Work, tenures: list[tuple[str, Any]]) -> bool:
    return ends(work) == tenures


def ends(work: Work) -> list[tuple[str, Any]]:
    """Why each tenure began and ended."""
    return [(tenure["grantReason"], tenure.get("endReason")) for tenure in work.history]


def test_a_restart_is_nothing_to_a_holder_that_renews(cluster: Cluster, namespace: str, agent: Agent) -> None:
    """Through several restarts, shorter and longer than its lease, a holder that renews keeps its epoch."""
    work = Work.create(cluster, namespace, lease_seconds=30)
    with operating(cluster, namespace):
        epoch = work.hold(agent)
    for _ in range(3):
        work.renew(agent, epoch).must()
        with operating(cluster, namespace):
            has_decided(cluster, namespace, agent)
            work.renew(agent, epoch).must()
    assert ends(work) == [("FirstGrant", None)]
    assert work.epoch == epoch
