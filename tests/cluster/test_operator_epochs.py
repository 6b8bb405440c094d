"""An epoch is given out once, whatever happens to the object or to the operator's settings, and no ghost is granted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.api import WORKLEASES
from support.cluster import Cluster, Identity
from support.operators import Launcher, operating
from support.speaking import Agent, Work
from support.waiting import wait_for
from support.words import work_manifest
from worklease.api.fields import CREATED_EPOCH_MAX

CallForIdentity = Callable[..., Identity]
OF_THE_SERVER = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")


def restore(work: Work, backup: dict[str, Any], by: Identity) -> None:
    """Creates the object again as it was kept, without what the server adds; status is not taken at a creation."""
    kept = {name: value for name, value in backup["metadata"].items() if name not in OF_THE_SERVER}
    by.api.create(WORKLEASES.format(work.namespace), {**backup, "metadata": kept}).must()


def delete(work: Work) -> None:
    """Deletes the object as the administrator, held or not."""
    work.cluster.api.delete(work.path).must()


def test_a_re_created_work_item_has_a_higher_epoch(cluster: Cluster, namespace: str, agent: Agent) -> None:
    """Deletion and re-creation under the same name go on above the old epochs; the old holder is refused (case 15)."""
    with operating(cluster, namespace):
        work = Work.create(cluster, namespace, "again", lease_seconds=60)
        old = work.hold(agent)
        delete(work)
        other = agent.sibling()
        work = Work.create(cluster, namespace, "again", claim=other.claim(0), by=cluster.admin)
        new = wait_for(lambda: work.epoch, "the claim at creation to be granted")
        assert new > old
        assert not work.renew(agent, old).ok
        assert not work.release(agent, old).ok
        assert work.status["instance"] == other.instance


def test_a_restored_item_goes_on_from_what_it_mentions(
    cluster: Cluster, namespace: str, agent: Agent, service_account: CallForIdentity
) -> None:
    """A backup of held work comes back free, above every epoch that it mentions, and not to its former holder."""
    restorer = service_account(namespace, "restorer", "worklease-admin")
    with operating(cluster, namespace):
        work = Work.create(cluster, namespace, lease_seconds=60)
        first = work.hold(agent)
        work.release(agent, first).must()
        work.reaches("Released")
        second = work.hold(agent)
        work.renew(agent, second).must()
        backup = work.read()
        delete(work)
        restore(work, backup, restorer)
        status = work.reaches("Released")
        assert status["epoch"] == second
        assert [tenure["endReason"] for tenure in status["history"]] == ["Adopted"]
        assert not work.renew(agent, second).ok
        assert work.hold(agent.sibling()) > second


def test_restored_work_that_was_completed_stays_completed(
    cluster: Cluster, namespace: str, agent: Agent, service_account: CallForIdentity
) -> None:
    """Nobody claims the backup of completed work (case 21); revoking the completion reopens it, as before."""
    restorer = service_account(namespace, "restorer", "worklease-admin")
    with operating(cluster, namespace):
        work = Work.create(cluster, namespace, lease_seconds=60)
        epoch = work.hold(agent)
        work.complete(agent, epoch).must()
        work.reaches("Completed")
        backup = work.read()
        delete(work)
        restore(work, backup, restorer)
        assert work.reaches("Completed")["epoch"] == epoch
        answer = work.say(agent, claim=agent.claim(epoch))
        assert "work is complete" in answer.message
        work.revoke(epoch, "it was not done after all").must()
        work.reaches("Revoked")
        assert work.hold(agent) > epoch


def test_a_floor_that_is_too_low_stalls_what_it_concerns(
    cluster: Cluster, namespace: str, agent: Agent, tmp_path: Path
) -> None:
    """An operator whose floor was lowered grants nothing at or below an epoch that was given out, says so on that
    object, and goes on with the others; with the floor raised the pending claim is granted.
    """
    floor = 10**9
    launcher = Launcher(cluster, tmp_path)
    try:
        with operating(cluster, namespace, floor=floor):
            work = Work.create(cluster, namespace, lease_seconds=60)
            high = work.hold(agent)
            assert high > floor
            work.release(agent, high).must()
            work.reaches("Released")
        operator = launcher.start(namespace).ready()
        pending = work.claim(agent)
        wait_for(lambda: work.condition("Stalled") == "True/EpochFloorTooLow", "the object to be marked")
        (event,) = wait_for(lambda: [e for e in work.events() if e["reason"] == "Stalled"], "an Event to say so")
        assert event["type"] == "Warning"
        assert "raise the operator's epoch floor" in event["note"]
        assert operator.metric("worklease_stalls_total", reason="EpochFloorTooLow") == 1
        assert 0 < Work.create(cluster, namespace).hold(agent) < floor
        assert work.epoch == high
        assert operator.log.count("nothing is granted") == 1
        assert "Traceback" not in operator.log
    finally:
        launcher.stop()
    with operating(cluster, namespace, floor=floor):
        assert work.granted(pending) > high
        assert work.condition("Stalled") == "False/AsExpected"


def test_the_highest_epoch_that_may_be_restored_leaves_room(
    cluster: Cluster, namespace: str, agent: Agent, service_account: CallForIdentity
) -> None:
    """An object that mentions 2^51 is stalled until the floor is raised as far, and is granted then; more is refused
    at creation.
    """
    restorer = service_account(namespace, "restorer", "worklease-admin")
    revocation = {"epoch": CREATED_EPOCH_MAX + 1, "reason": "too high"}
    too_high = work_manifest("too-high", revocation=revocation)
    assert not cluster.api.create(WORKLEASES.format(namespace), too_high).ok
    renewal = {"epoch": CREATED_EPOCH_MAX, "renewTime": "2026-01-01T00:00:00Z"}
    with operating(cluster, namespace):
        work = Work.create(cluster, namespace, by=restorer, renewal=renewal)
        assert work.reaches("Released")["epoch"] == CREATED_EPOCH_MAX
        pending = work.claim(agent)
        wait_for(lambda: work.condition("Stalled") == "True/EpochFloorTooLow", "the object to be marked")
    with operating(cluster, namespace, floor=CREATED_EPOCH_MAX):
        epoch = work.granted(pending)
        assert epoch > CREATED_EPOCH_MAX
        work.renew(agent, epoch).must()
        work.release(agent, epoch).must()
        work.reaches("Released")
        assert work.hold(agent) > epoch
