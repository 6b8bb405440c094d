"""What comes of each statement with an operator running: grants, ends, what people and programs see of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from support.cluster import Cluster, Identity
from support.operators import OperatorThread
from support.speaking import Agent, Work
from support.waiting import wait_for
from support.words import adds, fresh, now
from worklease.api.fields import HISTORY_MAX

CallForIdentity = Callable[..., Identity]
KIND = "workleases.worklease.dev"
CLAIMANTS = 16


def kubectl_wait(work: Work, condition: str) -> None:
    """Waits as a person does; fails with what kubectl says."""
    answer = work.cluster.kubectl(
        "wait", f"{KIND}/{work.name}", f"--namespace={work.namespace}", f"--for={condition}", "--timeout=90s"
    )
    assert answer.exit_code == 0, answer.stderr


def ends(work: Work) -> list[tuple[str, str | None]]:
    """Why each tenure began and ended."""
    return [(tenure["grantReason"], tenure.get("endReason")) for tenure in work.history]


def test_from_the_first_claim_to_the_completion(
    cluster: Cluster, namespace: str, agent: Agent, operator: OperatorThread
) -> None:
    """A claim, renewals, the release, another's claim, its expiry, a takeover and the completion: each is awaited with
    `kubectl wait` after renewals have happened (case 34), each is in the history and told by an Event (cases 14, 20).
    """
    first, second, third = agent, agent.sibling(), agent.sibling()
    work = Work.create(cluster, namespace, lease_seconds=20, jeopardy_seconds=5)
    kubectl_wait(work, "condition=Claimable")
    claim_id = work.claim(first)
    kubectl_wait(work, f"jsonpath={{.status.claimID}}={claim_id}")
    epoch = work.epoch
    for _ in range(3):
        work.renew(first, epoch).must()
    kubectl_wait(work, "condition=Held")
    assert work.status["leaseTransitions"] == 1
    work.release(first, epoch, "no more time").must()
    kubectl_wait(work, "condition=Claimable")
    assert work.status["phase"] == "Released"

    claim_id = work.claim(second)
    kubectl_wait(work, f"jsonpath={{.status.claimID}}={claim_id}")
    work.renew(second, work.epoch).must()
    kubectl_wait(work, "condition=Jeopardy")
    assert work.condition("Held") == "False/Jeopardy"
    assert work.condition("Claimable") == "False/Held"
    kubectl_wait(work, "condition=Expired")
    kubectl_wait(work, "condition=Claimable")

    work.hold(second)
    claim_id = work.take_over(third, work.epoch, "it does nothing")
    kubectl_wait(work, f"jsonpath={{.status.claimID}}={claim_id}")
    epoch = work.epoch
    work.renew(third, epoch).must()
    work.complete(third, epoch, "it is done").must()
    kubectl_wait(work, "jsonpath={.status.phase}=Completed")
    assert work.condition("Claimable") == "False/Completed"
    work.revoke(epoch, "not done after all").must()
    kubectl_wait(work, "condition=Claimable")

    assert ends(work) == [
        ("FirstGrant", "Released"),
        ("AfterRelease", "Expired"),
        ("AfterExpiry", "Revoked"),
        ("AfterRevocation", "Completed"),
    ]
    tenures = work.history
    assert [tenure["epoch"] for tenure in tenures] == sorted({tenure["epoch"] for tenure in tenures})
    assert [tenure["endMessage"] for tenure in tenures][2:] == ["it does nothing", "it is done"]
    assert tenures[3]["grantMessage"] == "it does nothing"
    assert tenures[0]["renewals"] == 3
    assert all(tenure["acquireTime"] <= tenure["endTime"] for tenure in tenures)
    counted = {"Granted": 4, "Released": 1, "Jeopardy": 1, "Expired": 1, "Revoked": 2, "Completed": 1}
    wait_for(lambda: Counter(event["reason"] for event in work.events()) == counted, "an Event for each transition")
    assert {event["type"] for event in work.events() if event["reason"] in ("Expired", "Revoked")} == {"Warning"}
    listed = cluster.kubectl("events", "--for", f"{KIND}/{work.name}", "--namespace", namespace).stdout
    assert "it does nothing" in listed


def test_a_renewal_is_written_by_its_holder_alone(
    cluster: Cluster, namespace: str, agent: Agent, operator: OperatorThread
) -> None:
    """The operator writes nothing for a renewal (case 33), and it moves neither epoch nor transitions (cases 3, 16)."""
    work = Work.create(cluster, namespace, lease_seconds=600)
    epoch = work.hold(agent)
    before = work.read()
    seen = operator.metric("worklease_watch_events_total", kind="WorkLease")
    answer = before
    renewals = 20
    for _ in range(renewals):
        answer = work.renew(agent, epoch).must()
    wait_for(
        lambda: operator.metric("worklease_watch_events_total", kind="WorkLease") >= seen + renewals,
        "the operator to see them",
    )
    after = work.read()
    assert after["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]
    assert after["status"] == before["status"]
    assert operator.metric("worklease_leases", phase="Held") == 1


def test_no_clock_of_a_holder_decides(cluster: Cluster, namespace: str, agent: Agent, operator: OperatorThread) -> None:
    """renewTime far in the past does not end a lease, nor does one far in the future keep it (case 7)."""
    past, future = (Work.create(cluster, namespace, lease_seconds=20) for _ in range(2))
    for work, year in ((past, "2001"), (future, "2999")):
        epoch = work.hold(agent)
        work.say(agent, renewal={"epoch": epoch, "renewTime": f"{year}-01-01T00:00:00Z"}).must()
    past_epoch = past.epoch
    wait_for(
        lambda: (
            past.say(agent, renewal={"epoch": past_epoch, "renewTime": "2001" + now()[4:]}).must()
            and future.status["phase"] == "Expired"
        ),
        "the lease with the future renewTime to expire",
    )
    assert past.status["phase"] == "Held"
    assert future.condition("ClockSkew") == "True/RenewTimeFarOff"


def test_one_of_many_simultaneous_claims_is_granted(
    cluster: Cluster, namespace: str, agent: Agent, operator: OperatorThread
) -> None:
    """Whoever was told that its claim is in has the work; all others were refused (case 18)."""
    work = Work.create(cluster, namespace, lease_seconds=60)
    claimants = [agent.sibling() for _ in range(CLAIMANTS)]
    claims = [claimant.claim(0) for claimant in claimants]
    with ThreadPoolExecutor(CLAIMANTS) as pool:
        answers = list(pool.map(lambda pair: work.say(pair[0], claim=pair[1]), zip(claimants, claims, strict=True)))
    admitted = [claim for claim, answer in zip(claims, answers, strict=True) if answer.ok]
    assert len(admitted) == 1
    work.granted(admitted[0]["id"])
    assert {answer.status for answer in answers} == {200, 422}
    told = {answer.message.split("Forbidden: ")[-1].split(" about ")[0] for answer in answers if not answer.ok}
    assert told <= {
        "another claim is being decided",
        "work is leased until",
        "the work has moved on since this claim was written: name the epoch in status",
    }
    assert not any(admitted[0]["instance"] in answer.message for answer in answers if not answer.ok)
    assert ends(work) == [("FirstGrant", None)]


def test_a_statement_repeated_after_a_lost_answer_is_accepted(
    cluster: Cluster, namespace: str, agent: Agent, operator: OperatorThread
) -> None:
    """The same claim and the same renewal said again change nothing and are not refused (case 36)."""
    work = Work.create(cluster, namespace, lease_seconds=60)
    claim = agent.claim(0)
    work.say(agent, claim=claim).must()
    work.say(agent, claim=claim).must()
    epoch = work.granted(claim["id"])
    work.say(agent, claim=claim).must()
    renewal = {"epoch": epoch, "renewTime": now()}
    work.say(agent, renewal=renewal).must()
    version = work.read()["metadata"]["resourceVersion"]
    assert work.say(agent, renewal=renewal).must()["metadata"]["resourceVersion"] == version
    release = {"epoch": epoch, "reason": "enough"}
    work.say(agent, release=release).must()
    work.say(agent, release=release).must()
    assert work.reaches("Released")["leaseTransitions"] == 1


def test_a_zombie_ends_nothing_and_keeps_nothing(
    cluster: Cluster, namespace: str, agent: Agent, operator: OperatorThread
) -> None:
    """What the old holder says after a takeover is refused and ends no later tenure (cases 11, 15, 30, 37)."""
    work = Work.create(cluster, namespace, lease_seconds=60)
    old = work.hold(agent)
    work.renew(agent, old).must()
    other = agent.sibling()
    new = work.granted(work.take_over(other, old))
    checkpoint = {"epoch": old, "uri": "s3://bucket/1", "digest": "sha256:1", "previousDigest": ""}
    effect = {"id": fresh(), "epoch": old, "recipient": "mail", "action": "send", "state": "Attempted"}
    assert not work.renew(agent, old).ok
    assert not work.release(agent, old).ok
    assert not work.complete(agent, old).ok
    assert not work.say(agent, checkpoint=checkpoint).ok
    assert not work.say(agent, **{"effects/-": effect}).ok
    assert not work.say(agent, claim=agent.claim(old)).ok
    assert not work.revoke(old).ok
    work.renew(other, new).must()
    assert ends(work) == [("FirstGrant", "Revoked"), ("AfterRevocation", None)]


def test_free_work_shows_no_holder(cluster: Cluster, namespace: str, agent: Agent, operator: OperatorThread) -> None:
    """The holder fields are empty in every phase in which nobody holds (case 38), and nothing is deleted (case 31)."""
    expired = Work.create(cluster, namespace)
    released, revoked, completed = (Work.create(cluster, namespace, lease_seconds=600) for _ in range(3))
    works = (expired, released, revoked, completed)
    epochs = [work.hold(agent) for work in works]
    assert all(work.status["holderIdentity"] == agent.identity.username for work in works[1:])
    released.release(agent, epochs[1]).must()
    revoked.revoke(epochs[2]).must()
    completed.complete(agent, epochs[3]).must()
    phases = ("Expired", "Released", "Revoked", "Completed")
    for work, phase in zip(works, phases, strict=True):
        status = work.reaches(phase)
        assert not {"holderIdentity", "instance"} & status.keys()
        assert status["history"][-1]["holderIdentity"] == agent.identity.username
        assert "finalizers" not in work.read()["metadata"]
    assert expired.condition("Expired") == "True/Expired"


def test_completed_work_takes_no_statement(
    cluster: Cluster, namespace: str, agent: Agent, operator: OperatorThread
) -> None:
    """Nothing but the revocation of its completion is admitted about completed work (case 21)."""
    work = Work.create(cluster, namespace, lease_seconds=60)
    epoch = work.hold(agent)
    work.complete(agent, epoch).must()
    work.reaches("Completed")
    assert not work.renew(agent, epoch).ok
    assert not work.release(agent, epoch).ok
    assert not work.complete(agent, epoch, "once more").ok
    assert not work.say(agent, claim=agent.claim(epoch)).ok
    assert not work.say(cluster.admin, claim=agent.claim(epoch)).ok
    assert work.status["phase"] == "Completed"


def test_history_shows_a_work_item_that_fails_again_and_again(
    cluster: Cluster, namespace: str, agent: Agent, operator: OperatorThread
) -> None:
    """A poisoned item's transitions count on, its last tenures stay, with the longest texts there are (case 17)."""
    work = Work.create(cluster, namespace, lease_seconds=60)
    words = "界" * 1024
    tenures = HISTORY_MAX + 2
    for _ in range(tenures):
        epoch = work.hold(agent, purpose=words)
        work.release(agent, epoch, words).must()
        work.reaches("Released")
    status = work.status
    assert status["leaseTransitions"] == tenures
    assert len(status["history"]) == HISTORY_MAX
    assert {tenure["endReason"] for tenure in status["history"]} == {"Released"}
    assert all(tenure["purpose"] == tenure["endMessage"] == words for tenure in status["history"])
    assert operator.metric("worklease_grants_total", reason="AfterRelease") == tenures - 1
    assert operator.metric("worklease_status_too_large_total") == 0


def test_a_suspension_keeps_the_holder_and_admits_nobody(
    cluster: Cluster, namespace: str, agent: Agent, operator: OperatorThread
) -> None:
    """Suspended work says so to those who wait, and is claimable again afterwards."""
    work = Work.create(cluster, namespace, lease_seconds=60)
    epoch = work.hold(agent)
    work.say(cluster.admin, suspend=True).must()
    work.renew(agent, epoch).must()
    work.release(agent, epoch).must()
    work.reaches("Released")
    wait_for(lambda: work.condition("Claimable") == "False/Suspended", "the condition to say so")
    assert "work is suspended" in work.say(agent, claim=agent.claim(epoch)).message
    cluster.admin.api.patch(work.path, adds(suspend=False)).must()
    kubectl_wait(work, "condition=Claimable")
    assert work.hold(agent) > epoch
