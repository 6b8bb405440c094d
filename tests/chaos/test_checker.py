"""The checker of histories: what is right passes, and each thing that must never happen is reported as what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.histories import LEASE, PATH, Tale, held
from chaosrun.checker import check
from chaosrun.checker.model import Promise


def expired(tale: Tale) -> Tale:
    """The lease of alice expires, not before its time."""
    return tale.pass_by(10).decide(phase="Jeopardy").pass_by(2).end("Expired", "Expired")


def revoked(tale: Tale) -> Tale:
    """An administrator revokes, and the operator has seen it."""
    tale.say("root", revocation={"epoch": tale.status["epoch"], "reason": "r"})
    return tale.end("Revoked", "Revoked")


def taken_over() -> tuple[Tale, int]:
    """Alice held, and root has taken over; with the epoch of alice."""
    tale = held()
    old = tale.status["epoch"]
    tale.claim("root", "r1", revocation={"epoch": old, "reason": "r"})
    return tale.grant("AfterRevocation"), old


def accepted() -> Tale:
    """Alice offers to bob, who accepts, and the acceptance has taken effect."""
    return held().handoff().handoff(answer="Accepted").reserve().handoff(phase="Accepted", answer="Accepted")


def handed_over() -> Tale:
    """Bob has claimed and holds."""
    tale = accepted().claim("bob", "b1").grant("Handoff")
    tale.status["history"][-1]["handoffUID"] = "uid-h"
    return tale.handoff(phase="Completed", answer="Accepted", grantedEpoch=tale.status["epoch"])


def full() -> Tale:
    """Alice holds, and her list of effects is full."""
    tale = held()
    for number in range(64):
        tale.add_effect("alice", f"e{number}", tale.status["epoch"])
    return tale


RIGHT: dict[str, Callable[[], Tale]] = {
    "held and renewed": held,
    "handed over": handed_over,
    "accepted, and the target does not come": lambda: (
        accepted().decide(successor=None).handoff(phase="Lapsed", answer="Accepted")
    ),
    "granted after an expiry": lambda: expired(held()).claim("bob", "b1").grant("AfterExpiry").believe("bob", 9.0),
    "granted after a revocation while the old holder believes": lambda: taken_over()[0],
    "an effect logged, sent and settled": lambda: (
        lambda t: t.set_effects("alice", [{**t.spec["effects"][0], "state": "Succeeded"}])
    )((lambda t: t.add_effect("alice", "e1", t.status["epoch"]).deliver(t.status["epoch"], "e1"))(held())),
    "the work is complete, reopened and deleted": lambda: revoked(
        (lambda t: t.say("alice", completion={"epoch": t.status["epoch"], "outcome": "Succeeded", "message": ""}))(
            held()
        ).end("Completed", "Completed")
    ).delete(),
    "a refusal that the stored state justifies": lambda: held().refuse(
        "bob", 422, "spec.claim: Forbidden: work is leased until about 2026-01-01T00:00:00Z", **_claim(held(), "bob")
    ),
    "an effect that is logged again after a lost answer": lambda: (
        lambda tale: tale.refuse_patch(
            "alice", 422, "spec.effects[1]: Duplicate value", [{**ADD_EFFECT, "value": tale.spec["effects"][0]}]
        )
    )(held().add_effect("alice", "e1", held().status["epoch"])),
    "one effect more than the list takes": lambda: full().refuse_patch(
        "alice", 422, "spec.effects: Too many: 65: must have at most 64 items", [{**ADD_EFFECT, "value": {"id": "e65"}}]
    ),
    "a grant that is stored late lapses by its claim": lambda: (
        Tale().claim("alice", "a1").pass_by(8).grant().pass_by(3).decide(phase="Jeopardy")
    ),
    "a mailbox without a fence gets effects in any order": lambda: (
        lambda pair: pair[0].deliver(pair[0].status["epoch"], "late-1", "mailbox").deliver(pair[1], "late-2", "mailbox")
    )(taken_over()),
}


ADD_EFFECT: dict[str, object] = {"op": "add", "path": "/spec/effects/-"}


def _claim(tale: Tale, user: str) -> dict[str, object]:
    made = {"id": "c9", "holderIdentity": user, "instance": f"host:{user}/1", "purpose": "p"}
    return {"claim": {"epoch": tale.status["epoch"], **made}}


@pytest.mark.parametrize("what", RIGHT)
def test_a_history_in_which_all_is_right_has_no_violation(what: str) -> None:
    """What the protocol permits is never reported."""
    assert check(RIGHT[what]().records) == []


def the_same_epoch_twice() -> Tale:
    tale = held()
    old = tale.status["epoch"]
    return tale.claim("root", "r1", revocation={"epoch": old, "reason": "r"}).grant("AfterRevocation", epoch=old)


def a_lower_epoch_after_re_creation() -> Tale:
    tale = held().delete()
    tale.status, tale.spec = {"phase": "Available", "epoch": 0}, {**tale.spec, "claim": None}
    tale.spec.pop("claim")
    tale._store()
    return tale.claim("bob", "b1").grant(epoch=50)


def a_claim_that_was_not_stated() -> Tale:
    return Tale().claim("alice", "a1").grant(claimID="other")


def a_claim_about_a_past_epoch() -> Tale:
    return expired(held()).claim("bob", "b1", epoch=1).grant("AfterExpiry")


def granted_while_held() -> Tale:
    return held().claim("bob", "b1").grant("AfterExpiry")


def a_renewal_about_a_past_epoch() -> Tale:
    tale, old = taken_over()
    return tale.say("root", renewal={"epoch": old, "renewTime": "2026-01-01T00:00:01Z"})


def an_effect_after_the_revocation() -> Tale:
    tale = held()
    tale.say("root", revocation={"epoch": tale.status["epoch"], "reason": "r"})
    return tale.add_effect("alice", "e1", tale.status["epoch"])


def an_effect_in_jeopardy() -> Tale:
    tale = held().pass_by(10).decide(phase="Jeopardy")
    return tale.add_effect("alice", "e1", tale.status["epoch"])


def an_effect_while_an_earlier_one_is_attempted() -> Tale:
    tale = held()
    tale.add_effect("alice", "e1", tale.status["epoch"])
    expired(tale).claim("bob", "b1").grant("AfterExpiry")
    return tale.add_effect("bob", "e2", tale.status["epoch"])


def an_attempted_effect_vanishes() -> Tale:
    tale = held()
    tale.add_effect("alice", "e1", tale.status["epoch"])
    return tale.set_effects("alice", [])


def an_effect_that_was_not_logged() -> Tale:
    tale = held()
    return tale.deliver(tale.status["epoch"], "e1")


def completed_with_an_attempted_effect() -> Tale:
    tale = held()
    tale.add_effect("alice", "e1", tale.status["epoch"])
    return tale.say("alice", completion={"epoch": tale.status["epoch"], "outcome": "Succeeded", "message": ""})


def a_lower_epoch_at_the_fence() -> Tale:
    tale, old = taken_over()
    return tale.deliver(tale.status["epoch"], "late-1").deliver(old, "late-2")


def a_revoked_epoch_at_a_recipient_that_asks() -> Tale:
    tale = revoked(held()).pass_by(1)
    return tale.deliver(tale.status["epoch"], "late-1", "vault")


def jeopardy_too_early() -> Tale:
    return held().pass_by(8).decide(phase="Jeopardy")


def expiry_too_early() -> Tale:
    return held().pass_by(10).decide(phase="Jeopardy").pass_by(0.2).end("Expired", "Expired")


def two_believers() -> Tale:
    tale = held()
    tale.believe("alice", 30.0)
    return expired(tale).claim("bob", "b1").grant("AfterExpiry")


def a_belief_in_what_was_not_granted() -> Tale:
    return held().believe("bob", 9.0, epoch=12345)


def ended_without_a_cause() -> Tale:
    return held().end("Released", "Released")


def a_completion_that_is_lost() -> Tale:
    tale = held()
    tale.say("alice", completion={"epoch": tale.status["epoch"], "outcome": "Succeeded", "message": ""})
    return expired(tale)


def a_reservation_without_an_acceptance() -> Tale:
    return held().handoff().reserve()


def two_acceptances_of_one_epoch() -> Tale:
    tale = accepted().decide(successor=None).handoff(phase="Lapsed", answer="Accepted")
    return tale.handoff("other").handoff("other", answer="Accepted").reserve("other")


def accepted_before_it_has_taken_effect() -> Tale:
    return held().handoff().handoff(answer="Accepted").handoff(phase="Accepted", answer="Accepted")


def completed_without_a_grant() -> Tale:
    tale = accepted()
    return tale.handoff(phase="Completed", answer="Accepted", grantedEpoch=tale.status["epoch"])


def a_final_phase_that_changes() -> Tale:
    return held().handoff(phase="Rejected", answer="Rejected").handoff(phase="Stale", answer="Rejected")


def a_handoff_that_is_answered_twice() -> Tale:
    return held().handoff().handoff(answer="Rejected").handoff(answer="Accepted")


def said_and_decided_in_one_write() -> Tale:
    tale = held()
    tale.spec = {**tale.spec, "suspend": True}
    return tale.pass_by(10).decide(phase="Jeopardy")


def a_refusal_without_a_reason() -> Tale:
    message = "spec.claim: Forbidden: work is leased until about 2026-01-01T00:00:00Z"
    return Tale().refuse("bob", 422, message, **_claim(Tale(), "bob"))


def a_denial_that_names_the_holder() -> Tale:
    message = "work is leased until about 2026-01-01T00:00:00Z by host:alice/1"
    return held().refuse("bob", 422, message, **_claim(held(), "bob"))


def an_answer_from_the_past() -> Tale:
    tale = held()
    call = tale._call("bob#1", "GET", "/apis/worklease.dev/v1alpha1/namespaces/ns/workleases/item", None)
    return tale.event("bob#1", "answer", call=call, outcome="ok", status=200, version=101)


def a_revision_that_is_seen_before_it_is_made() -> Tale:
    tale = held().renew("alice", "2026-01-01T00:00:05Z")
    stored = next(record for record in reversed(tale.records) if record["kind"] == "store")
    stored["at"] -= 1.0
    return tale


def a_revision_that_only_a_watch_has_seen() -> Tale:
    tale = held()
    return tale.event("bob#1", "seen", watch="1", plural="workleases", object=LEASE, revision=tale.revision + 1)


def a_watch_that_goes_back() -> Tale:
    tale = held()
    for revision in (tale.revision, tale.revision - 1):
        tale.event("bob#1", "seen", watch="1", plural="workleases", object=LEASE, revision=revision)
    return tale


def a_write_that_is_not_stored() -> Tale:
    tale = held()
    call = tale._call("alice#1", "PATCH", PATH, [{"op": "add", "path": "/spec/suspend", "value": True}])
    return tale.event("alice#1", "answer", call=call, outcome="ok", status=200, version=tale.revision)


def somebody_else_speaks_for_the_holder() -> Tale:
    return held().renew("bob", "2026-01-01T00:00:05Z")


def an_item_that_nobody_can_take() -> Tale:
    return held().event("run", "settled", unsettled={LEASE: "its own grant: TimeoutError"})


WRONG: dict[Callable[[], Tale], Promise] = {
    the_same_epoch_twice: Promise.ONE_EPOCH,
    a_lower_epoch_after_re_creation: Promise.ONE_EPOCH,
    a_belief_in_what_was_not_granted: Promise.ONE_EPOCH,
    a_claim_about_a_past_epoch: Promise.PAST_EPOCH,
    a_renewal_about_a_past_epoch: Promise.PAST_EPOCH,
    an_effect_after_the_revocation: Promise.NO_EFFECT,
    an_effect_in_jeopardy: Promise.NO_EFFECT,
    an_effect_while_an_earlier_one_is_attempted: Promise.NO_EFFECT,
    a_revoked_epoch_at_a_recipient_that_asks: Promise.NO_EFFECT,
    a_claim_that_was_not_stated: Promise.ONE_DECISION,
    granted_while_held: Promise.ONE_DECISION,
    ended_without_a_cause: Promise.ONE_DECISION,
    a_completion_that_is_lost: Promise.ONE_DECISION,
    a_reservation_without_an_acceptance: Promise.ONE_DECISION,
    two_acceptances_of_one_epoch: Promise.ONE_DECISION,
    accepted_before_it_has_taken_effect: Promise.ONE_DECISION,
    completed_without_a_grant: Promise.ONE_DECISION,
    a_final_phase_that_changes: Promise.ONE_DECISION,
    a_handoff_that_is_answered_twice: Promise.PAST_EPOCH,
    said_and_decided_in_one_write: Promise.ONE_DECISION,
    a_denial_that_names_the_holder: Promise.DENIAL,
    an_attempted_effect_vanishes: Promise.RECORDED,
    an_effect_that_was_not_logged: Promise.RECORDED,
    completed_with_an_attempted_effect: Promise.RECONCILED,
    an_item_that_nobody_can_take: Promise.ACTING,
    two_believers: Promise.BELIEF,
    jeopardy_too_early: Promise.TIMING,
    expiry_too_early: Promise.TIMING,
    a_lower_epoch_at_the_fence: Promise.FENCE,
    a_refusal_without_a_reason: Promise.JUSTIFIED,
    an_answer_from_the_past: Promise.JUSTIFIED,
    a_write_that_is_not_stored: Promise.JUSTIFIED,
    a_revision_that_only_a_watch_has_seen: Promise.JUSTIFIED,
    a_watch_that_goes_back: Promise.JUSTIFIED,
    a_revision_that_is_seen_before_it_is_made: Promise.JUSTIFIED,
    somebody_else_speaks_for_the_holder: Promise.NO_EFFECT,
}


@pytest.mark.parametrize("tell", WRONG, ids=lambda tell: tell.__name__)
def test_what_must_never_happen_is_reported_as_the_promise_that_it_breaks(tell: Callable[[], Tale]) -> None:
    """Each promise has at least one history that breaks it, and no check is silent about it."""
    assert WRONG[tell] in {violation.promise for violation in check(tell().records)}


def test_every_promise_has_a_history_that_breaks_it() -> None:
    """A promise that no history could break would be checked in vain."""
    assert set(WRONG.values()) == set(Promise)


def test_a_repetition_after_a_lost_answer_does_not_make_the_write_a_later_one() -> None:
    """The repetition changes nothing, and its answer names the revision that was made long before it was sent."""
    tale = held()
    tale.renew("alice", "2026-01-01T00:00:07Z")
    tale.records = [record for record in tale.records if record is not tale.records[-1]]
    call = tale.pass_by(5)._call("alice#1", "PATCH", PATH, tale.records[-2]["body"])
    tale.event("alice#1", "answer", call=call, outcome="ok", status=200, version=tale.revision)
    assert check(tale.pass_by(5.5).decide(phase="Jeopardy").records) == []


def test_a_belief_under_a_clock_beyond_the_bounds_is_excused() -> None:
    """A holder whose clock runs at half the rate believes too long: that is outside of what is promised."""
    tale = Tale()
    tale.event("alice#1", "clock", shown=tale.now, rate=0.5, offset_seconds=0.0)
    tale.claim("alice", "a1").grant().believe("alice", 9.0)
    expired(tale).claim("bob", "b1").grant("AfterExpiry")
    assert check(tale.records) == []


def test_a_belief_lasts_until_its_deadline_in_true_time() -> None:
    """A clock that is slow within the bounds still ends a belief later than it says."""
    tale = Tale()
    tale.event("alice#1", "clock", shown=50.0, rate=0.9996, offset_seconds=0.0)
    tale.claim("alice", "a1").grant()
    epoch, claim = tale.status["epoch"], "a1"
    shown = 50.0 + (tale.now - 1000.2) + 60.0
    tale.event("alice#1", "belief", lease=LEASE, epoch=epoch, claim=claim, deadline=shown, expiry=shown)
    expired(tale).claim("bob", "b1").grant("AfterExpiry")
    assert {violation.promise for violation in check(tale.records)} == {Promise.BELIEF}
