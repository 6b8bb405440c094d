"""Which offers are refused, which are Stale from the start, and what a handoff gives its target."""

from __future__ import annotations

from typing import Any

import pytest

from support.api import HANDOFFS
from support.offering import WITHIN_SECONDS, Offer, Team, signed, target
from support.speaking import SHORTEST_LEASE_SECONDS, Work
from support.waiting import wait_for
from support.words import adds, fresh, removes


def test_the_target_receives_what_was_handed_over(team: Team) -> None:
    """Case 22: message, context and checkpoint are there to read, and the tenure names the handoff and its subject."""
    work, epoch = team.held()
    checkpoint = {"epoch": epoch, "uri": "s3://work/1", "digest": "sha256:1f", "previousDigest": ""}
    work.say(team.alice, checkpoint=checkpoint).must()
    offered: dict[str, Any] = {
        "subject": "charge the rest",
        "message": "Three of five are done.\nThe fourth bounced.",
        "contextRef": {"uri": "https://wiki/invoice", "digest": "sha256:2f"},
        "checkpoint": {"uri": "s3://work/1", "digest": "sha256:1f"},
    }
    offer = Offer.make(work, team.alice, team.bob, epoch=epoch, **offered)
    assert offer.seen()["epoch"] == epoch
    assert offer.condition("CheckpointMoved") == "False/AsOffered"
    offer.accept(team.bob)
    higher = work.hold(team.bob)
    done = offer.reaches("Completed")
    assert (done["grantedEpoch"], done["epoch"]) == (higher, epoch)
    assert higher > epoch
    read = team.bob.identity.api.get(offer.path).must()
    assert {name: read["spec"][name] for name in offered} == offered
    status = team.bob.identity.api.get(work.path).must()["status"]
    assert status["grantReason"] == "Handoff"
    assert status["grantMessage"] == f"handoff {offer.name}: charge the rest"
    before, now = status["history"]
    assert (before["endReason"], before["checkpointDigest"]) == ("HandedOver", "sha256:1f")
    assert (now["handoffUID"], now["grantReason"]) == (read["metadata"]["uid"], "Handoff")
    assert work.read()["spec"]["checkpoint"]["digest"] == "sha256:1f"


def test_both_objects_tell_the_story_in_events(team: Team) -> None:
    """Pending, Accepted, Completed about the handoff; Reserved, Granted about the work; and a Lapsed one of its own."""
    work, epoch = team.held()
    lapsing = Offer.make(work, team.alice, team.bob, claimWithinSeconds=1)
    lapsing.accept(team.bob)
    lapsing.reaches("Lapsed")
    claimed = work.hold(team.alice)
    offer = Offer.make(work, team.alice, team.bob)
    offer.accept(team.bob)
    work.hold(team.bob)
    offer.reaches("Completed")
    assert claimed > epoch

    def told(events: list[dict[str, Any]], *reasons: str) -> bool:
        return set(reasons) <= {event["reason"] for event in events}

    wait_for(lambda: told(offer.events(), "Pending", "Accepted", "Completed"), "the Events", WITHIN_SECONDS)
    wait_for(lambda: told(lapsing.events(), "Pending", "Accepted", "Lapsed"), "the Events", WITHIN_SECONDS)
    wait_for(lambda: told(work.events(), "Reserved", "ReservationEnded", "Granted"), "the Events", WITHIN_SECONDS)
    warnings = {event["reason"] for event in lapsing.events() if event["type"] == "Warning"}
    assert warnings == {"Lapsed"}


def test_a_checkpoint_that_moves_while_the_offer_waits(team: Team) -> None:
    """The sender goes on working: the condition says that what was offered is not where the work stands."""
    work, epoch = team.held()
    first = {"epoch": epoch, "uri": "s3://work/1", "digest": "sha256:1", "previousDigest": ""}
    work.say(team.alice, checkpoint=first).must()
    offer = Offer.make(work, team.alice, team.bob, checkpoint={"uri": "s3://work/1", "digest": "sha256:1"})
    offer.seen()
    second = {"epoch": epoch, "uri": "s3://work/2", "digest": "sha256:2", "previousDigest": "sha256:1"}
    work.say(team.alice, checkpoint=second).must()
    wait_for(lambda: offer.condition("CheckpointMoved") == "True/Moved", "the condition", WITHIN_SECONDS)
    offer.accept(team.bob)
    work.hold(team.bob)
    offer.reaches("Completed")
    assert offer.condition("CheckpointMoved") == "True/Moved"


def test_rejected_and_withdrawn_keep_the_reason_for_the_other_side(team: Team) -> None:
    """The work stays with its holder, and the answer is there to read."""
    work, epoch = team.held()
    rejected = Offer.make(work, team.alice, team.bob)
    rejected.respond(team.bob, "Rejected", "no capacity").must()
    rejected.reaches("Rejected")
    assert rejected.message == "the target rejected it: no capacity"
    withdrawn = Offer.make(work, team.alice, team.carol)
    withdrawn.respond(team.alice, "Withdrawn", "done it myself").must()
    withdrawn.reaches("Withdrawn")
    assert withdrawn.message == "the sender withdrew it: done it myself"
    late = rejected.respond(team.bob, "Accepted")
    assert (late.status, "answered once" in late.message) == (422, True)
    assert (work.epoch, work.status["holderIdentity"]) == (epoch, team.alice.identity.username)


def test_a_target_that_does_not_exist_keeps_nobody_waiting(team: Team) -> None:
    """Case 23: acceptWithinSeconds, then Expired; the sender holds all the time."""
    work, epoch = team.held()
    offer = Offer.make(
        work, team.alice, team.bob, to={"holderIdentity": "system:serviceaccount:x:gone"}, acceptWithinSeconds=1
    )
    offer.reaches("Expired")
    assert offer.condition("Ready") == "True/Expired"
    late = offer.respond(team.carol, "Accepted")
    assert late.status in (403, 422)
    assert (work.epoch, work.status["phase"]) == (epoch, "Held")


def test_a_lease_that_does_not_exist(team: Team) -> None:
    """Pending with a condition until acceptWithinSeconds, then Expired."""
    nothing = Work(team.cluster, team.namespace, f"work-{fresh()}")
    offer = Offer.make(nothing, team.alice, team.bob, acceptWithinSeconds=3)
    offer.seen()
    assert (offer.status["phase"], offer.condition("WorkLeaseMissing")) == ("Pending", "True/Missing")
    offer.reaches("Expired")


def test_a_lease_that_comes_after_its_handoff(team: Team) -> None:
    """Git applies both in any order: the offer is pinned to the tenure that it finds once there is one."""
    name = f"work-{fresh()}"
    offer = Offer.make(Work(team.cluster, team.namespace, name), team.cluster.admin, team.bob)
    offer.seen()
    work = team.work(name=name)
    wait_for(lambda: offer.condition("WorkLeaseMissing") == "False/Found", "the lease to be seen", WITHIN_SECONDS)
    assert "epoch" not in offer.status
    epoch = work.hold(team.alice)
    wait_for(lambda: offer.status.get("epoch") == epoch, "the offer to be pinned", WITHIN_SECONDS)
    offer.accept(team.bob)
    assert work.hold(team.bob) == offer.reaches("Completed")["grantedEpoch"]


def test_to_oneself_is_refused(team: Team) -> None:
    """The holder to itself, to any process of its own account, and a sibling pod to itself."""
    work, _ = team.held()
    for sender in (team.alice, team.sibling):
        for to in (target(sender), target(sender, instance=True)):
            answer = Offer.ask(work, sender, team.bob, to=to)[1]
            assert (answer.status, "goes to somebody else" in answer.message) == (422, True)


def test_an_offer_of_somebody_who_does_not_hold_blocks_nothing(team: Team) -> None:
    """Stale with the reason, while the holder's own offer, made before or after it, goes on."""
    work, _ = team.held()
    first = Offer.make(work, team.sibling, team.bob)
    own = Offer.make(work, team.alice, team.bob)
    second = Offer.make(work, team.carol, team.bob)
    to_itself = Offer.make(work, team.sibling, team.sibling, to=target(team.alice, instance=True))
    for foreign in (first, second, to_itself):
        foreign.reaches("Stale")
        assert foreign.message.startswith("NotTheHolder: ")
        assert foreign.condition("Ready") == "True/Stale"
    own.accept(team.bob)
    assert work.hold(team.bob) == own.reaches("Completed")["grantedEpoch"]


def test_a_released_epoch_offered_again(team: Team) -> None:
    """Case 30: what was given back cannot be given away any more."""
    work, epoch = team.held()
    work.release(team.alice, epoch).must()
    work.reaches("Released", within_seconds=WITHIN_SECONDS)
    offer = Offer.make(work, team.alice, team.bob, epoch=epoch)
    offer.reaches("Stale")
    assert offer.message.startswith("TenureEnded: ")
    assert "successor" not in work.status


def test_a_stale_epoch_is_named(team: Team) -> None:
    """Case 30: an offer of an earlier tenure, by who had it, comes to nothing."""
    work, epoch = team.held()
    higher = work.hold(team.alice)
    assert higher > epoch
    offer = Offer.make(work, team.alice, team.bob, epoch=epoch)
    offer.reaches("Stale")
    assert offer.message.startswith("EpochMoved: ")


def test_a_handoff_recreated_after_it_ended(team: Team) -> None:
    """Case 31: with its epoch it is Stale; to the one who holds now it is Stale; neither moves anything."""
    work, epoch = team.held()
    pinned = Offer.make(work, team.cluster.admin, team.bob, "pinned", epoch=epoch)
    pinned.accept(team.bob)
    higher = work.hold(team.bob)
    pinned.reaches("Completed")
    for name, spec, reason in (("pinned", {"epoch": epoch}, "EpochMoved: "), ("open", {}, "AlreadyTheHolder: ")):
        team.cluster.api.delete(f"{HANDOFFS.format(team.namespace)}/{name}")
        again = Offer.make(work, team.cluster.admin, team.bob, name, **spec)
        again.reaches("Stale")
        assert again.message.startswith(reason)
    assert (work.epoch, work.status["holderIdentity"]) == (higher, team.bob.identity.username)


def test_a_handoff_without_an_epoch_recreated_under_another_holder(team: Team) -> None:
    """Case 31: it is a new offer: nothing moves until its target accepts again."""
    work, epoch = team.held()
    offer = Offer.make(work, team.cluster.admin, team.bob, f"rota-{fresh()}")
    offer.accept(team.bob)
    work.hold(team.bob)
    offer.reaches("Completed")
    work.release(team.bob, work.epoch).must()
    work.reaches("Released", within_seconds=WITHIN_SECONDS)
    third = work.hold(team.carol)
    team.cluster.api.delete(offer.path).must()
    again = Offer.make(work, team.cluster.admin, team.bob, offer.name)
    assert (again.seen()["phase"], again.status["epoch"]) == ("Pending", third)
    assert "successor" not in work.status
    again.accept(team.bob)
    assert work.hold(team.bob) > third > epoch


def test_free_work_is_handed_over_by_an_administrator(team: Team) -> None:
    """Work whose holder fell silent is reserved for the target, and nobody else gets it in between."""
    work, epoch = team.held(lease_seconds=SHORTEST_LEASE_SECONDS)
    work.reaches("Expired", within_seconds=WITHIN_SECONDS)
    offer = Offer.make(work, team.cluster.admin, team.bob)
    assert offer.seen()["epoch"] == epoch
    offer.accept(team.bob)
    refused = work.say(team.carol, claim=team.carol.claim(epoch))
    assert (refused.status, "reserved for the target" in refused.message) == (422, True)
    assert work.hold(team.bob) == offer.reaches("Completed")["grantedEpoch"]


def test_a_reservation_of_free_work_can_be_revoked(team: Team) -> None:
    """Nobody is kept out for a day by an offer: the verb revoke frees the work, and the handoff is Stale."""
    work, epoch = team.held(lease_seconds=SHORTEST_LEASE_SECONDS)
    work.reaches("Expired", within_seconds=WITHIN_SECONDS)
    offer = Offer.make(work, team.cluster.admin, team.bob, claimWithinSeconds=86400)
    offer.accept(team.bob)
    work.revoke(epoch).must()
    offer.reaches("Stale")
    assert offer.message.startswith("TenureEnded: ")
    assert "successor" not in work.status
    assert work.hold(team.carol) > epoch


def test_held_work_is_handed_over_by_an_administrator(team: Team) -> None:
    """Without a sender: the operator pins the tenure that it finds, and the holder goes on until the target claims."""
    work, epoch = team.held()
    offer = Offer.make(work, team.cluster.admin, team.bob)
    assert offer.seen()["epoch"] == epoch
    offer.accept(team.bob)
    work.renew(team.alice, epoch).must()
    assert work.hold(team.bob) > epoch


def test_the_targets_pod_is_replaced_between_acceptance_and_claim(team: Team) -> None:
    """Offered to an identity, its next pod claims; offered to one pod, only that one, or it lapses."""
    first, second = team.pod("bob", f"b-{fresh()}"), team.pod("bob", f"b-{fresh()}")
    work, _ = team.held()
    offer = Offer.make(work, team.alice, first)
    offer.accept(first)
    assert work.hold(second) == offer.reaches("Completed")["grantedEpoch"]

    work, epoch = team.held()
    offer = Offer.make(work, team.alice, first, to=target(first, instance=True), claimWithinSeconds=3)
    other = offer.respond(second, "Accepted")
    assert (other.status, "only the target" in other.message) == (403, True)
    offer.accept(first)
    refused = work.say(second, claim=second.claim(epoch))
    assert (refused.status, "work is leased" in refused.message) == (422, True)
    offer.reaches("Lapsed")
    assert (work.epoch, work.status["holderIdentity"]) == (epoch, team.alice.identity.username)
    work.say(
        team.alice,
        **{"effects/-": {"id": "e1", "epoch": epoch, "recipient": "m", "action": "a", "state": "Attempted"}},
    ).must()


ABSURD: dict[str, dict[str, Any]] = {
    "message": {"message": "m" * 4097},
    "control characters": {"message": "\u0007"},
    "subject": {"subject": "s" * 1025},
    "subject of two lines": {"subject": "a\nb"},
    "context": {"contextRef": {"uri": "u" * 2049}},
    "checkpoint": {"checkpoint": {"uri": "s3://x", "digest": "d" * 129}},
    "checkpoint without digest": {"checkpoint": {"uri": "s3://x"}},
    "target": {"to": {"holderIdentity": "h" * 513}},
    "no target": {"to": {}},
    "instance": {"to": {"holderIdentity": "h", "instance": "i" * 321}},
    "answer within no time": {"acceptWithinSeconds": 0},
    "answer within a year": {"acceptWithinSeconds": 31536000},
    "claim within no time": {"claimWithinSeconds": 0},
    "claim within a week": {"claimWithinSeconds": 604800},
    "epoch 0": {"epoch": 0},
    "an epoch beyond all": {"epoch": 2**53},
    "lease": {"workLeaseName": "w" * 254},
}


@pytest.mark.parametrize("what", ABSURD)
def test_absurd_sizes_are_refused_by_the_schema(what: str, team: Team) -> None:
    """Every string and number has its bounds; nobody can reserve what nobody could free."""
    work = Work(team.cluster, team.namespace, "none")
    answer = Offer.ask(work, team.alice, team.bob, **ABSURD[what])[1]
    assert answer.status == 422, answer.message
    assert f"spec.{next(iter(ABSURD[what]))}" in answer.message


def test_an_offer_is_immutable_and_answered_once(team: Team) -> None:
    """Not even its sender changes it: to offer something else it withdraws and offers anew."""
    work, _ = team.held()
    offer = Offer.make(work, team.alice, team.bob)
    for name, value in {"message": "x", "claimWithinSeconds": 7, "to": target(team.carol)}.items():
        change = adds(**{name: value})
        refused = team.alice.identity.api.patch(offer.path, change)
        assert (refused.status, "immutable" in refused.message) == (422, True)
    offer.respond(team.bob, "Rejected").must()
    removal = offer.patch(team.bob, removes("/spec/response"))
    assert (removal.status, "answered once" in removal.message) == (422, True)
    assert {**signed(team.alice)}.items() <= offer.read()["spec"].items()
