"""Who is granted the work and why, who is refused and why, and what a grant writes."""

from __future__ import annotations

from typing import Any

import pytest

from support.leases import (
    ALICE,
    EPOCH,
    JEOPARDY_SECONDS,
    LEASE_SECONDS,
    VERSION,
    after,
    at,
    claim,
    completion,
    decide_at,
    decided_status,
    reclaim,
    release,
    revocation,
    said,
    sight,
    successor,
    wall,
    work_lease,
)
from worklease.api.worklease import FREE, LEASED, Phase
from worklease.protocol.decide import decide
from worklease.protocol.reasons import ConditionName, EndReason, EventReason, GrantReason, RefusalReason


def test_the_first_claim_is_granted() -> None:
    """A claim of epoch 0 on work that nobody has held: FirstGrant, and everything a holder needs to know."""
    decision = decide_at(work_lease(claim=claim(epoch=0)), seconds=3.0)
    status = decision.status
    assert status is not None
    assert (status.phase, status.grant_reason) == (Phase.HELD, GrantReason.FIRST_GRANT)
    assert (status.holder_identity, status.instance, status.claim_id) == ("bob", "pod:b-0/1", "claim-b")
    assert (status.acquire_time, status.lease_transitions, status.epoch) == (wall(3), 1, VERSION)
    assert (status.lease_duration_seconds, status.jeopardy_duration_seconds) == (LEASE_SECONDS, JEOPARDY_SECONDS)
    (tenure,) = status.history
    assert (tenure.epoch, tenure.claim_id, tenure.holder_identity) == (VERSION, "claim-b", "bob")
    assert (tenure.purpose, tenure.grant_reason, tenure.acquire_time) == ("to go on", "FirstGrant", wall(3))
    assert (tenure.end_time, tenure.end_reason, tenure.handoff_uid) == (None, None, None)
    assert [(n.reason, n.note) for n in decision.notices] == [
        (EventReason.GRANTED, f"epoch {VERSION} granted to bob: FirstGrant")
    ]


REASONS: dict[str, tuple[Phase, dict[str, Any], GrantReason, str]] = {
    "released": (Phase.RELEASED, {}, GrantReason.AFTER_RELEASE, "the last holder gave the work back"),
    "expired": (Phase.EXPIRED, {}, GrantReason.AFTER_EXPIRY, "the last holder did not renew in time"),
    "revoked": (Phase.REVOKED, {}, GrantReason.AFTER_REVOCATION, "the last tenure was revoked"),
    "revoked with its revocation": (
        Phase.REVOKED,
        {"revocation": revocation(reason="wedged")},
        GrantReason.AFTER_REVOCATION,
        "wedged",
    ),
    "released in passing": (
        Phase.HELD,
        {"release": release()},
        GrantReason.AFTER_RELEASE,
        "the last holder gave the work back",
    ),
    "taken over": (
        Phase.JEOPARDY,
        {"revocation": revocation(reason="on call")},
        GrantReason.AFTER_REVOCATION,
        "on call",
    ),
    "reopened": (
        Phase.COMPLETED,
        {"revocation": revocation(reason="reopened")},
        GrantReason.AFTER_REVOCATION,
        "reopened",
    ),
}


@pytest.mark.parametrize(("phase", "statements", "reason", "message"), REASONS.values(), ids=REASONS)
def test_a_grant_says_why(phase: Phase, statements: dict[str, Any], reason: GrantReason, message: str) -> None:
    """The reason and its sentence stand in status and in the tenure's history entry."""
    status = decided_status(work_lease(phase, claim=claim(), **statements))
    assert (status.grant_reason, status.grant_message) == (reason, message)
    assert (status.history[-1].grant_reason, status.history[-1].grant_message) == (reason, message)


def test_a_release_is_granted_on_in_the_swap_that_sees_it() -> None:
    """A waiter that claimed right after the release waits for no second decision: two tenures in one status."""
    status = decided_status(work_lease(Phase.HELD, release=release(reason="bye"), claim=claim()))
    old, new = status.history
    assert (old.end_reason, old.end_message, new.epoch) == (EndReason.RELEASED, "bye", VERSION)


@pytest.mark.parametrize("phase", sorted(LEASED))
def test_the_holders_reclaim_is_a_grant_with_a_fresh_epoch(phase: Phase) -> None:
    """Reclaim: the old tenure ends as Reclaimed, and the same holder goes on under a higher epoch."""
    status = decided_status(work_lease(phase, claim=reclaim()))
    assert (status.phase, status.grant_reason, status.claim_id) == (Phase.HELD, GrantReason.RECLAIM, "claim-a2")
    assert (status.holder_identity, status.epoch, status.lease_transitions) == ("alice", VERSION, 2)
    assert [tenure.end_reason for tenure in status.history] == [EndReason.RECLAIMED, None]


@pytest.mark.parametrize("phase", sorted(LEASED))
@pytest.mark.parametrize("other", [{"holder_identity": "bob"}, {"instance": "pod:a-0/2"}])
def test_only_the_holding_process_reclaims(phase: Phase, other: dict[str, str]) -> None:
    """The same identity in another process is somebody else, also one whose pod's name was used again."""
    status = decided_status(work_lease(phase, claim=reclaim(**other)))
    assert (status.phase, status.observed_claim_id, status.holder_identity) == (phase, "claim-a2", "alice")


@pytest.mark.parametrize("phase", sorted(LEASED))
def test_a_reclaim_at_its_deadline_follows_the_expiry(phase: Phase) -> None:
    """Expiry first, then the grant: the history shows that the lease was not held throughout."""
    lease = work_lease(phase, claim=reclaim())
    decision = decide(lease, sight(lease), at(90.0))
    assert decision.status is not None
    assert decision.status.grant_reason == GrantReason.AFTER_EXPIRY
    assert [tenure.end_reason for tenure in decision.status.history] == [EndReason.EXPIRED, None]
    assert [notice.reason for notice in decision.notices] == [EventReason.EXPIRED, EventReason.GRANTED]


def test_a_waiters_claim_that_was_pending_at_the_expiry_is_granted_in_the_same_swap() -> None:
    """Expiry and the next grant are one decision (case 20)."""
    lease = work_lease(Phase.JEOPARDY, claim=claim())
    assert decided_status(lease, seconds=90.0).grant_reason == GrantReason.AFTER_EXPIRY


def test_a_grant_takes_over_the_terms_of_spec_and_only_a_grant_does() -> None:
    """Durations that were changed while the work was held come into force with the next tenure."""
    lease = work_lease(Phase.HELD, lease_duration_seconds=10, jeopardy_duration_seconds=0)
    assert decide_at(lease).status is None
    jeopardy = decided_status(lease, seconds=60.0)
    assert (jeopardy.phase, jeopardy.lease_duration_seconds) == (Phase.JEOPARDY, 60)
    granted = decided_status(said(lease, claim=reclaim()))
    assert (granted.lease_duration_seconds, granted.jeopardy_duration_seconds) == (10, 0)


def test_the_transitions_count_grants_only() -> None:
    """Neither a renewal, a jeopardy nor an end of a tenure counts (case 3)."""
    lease = work_lease(Phase.HELD, decided={"lease_transitions": 7})
    assert decided_status(lease, seconds=60.0).lease_transitions == 7
    assert decided_status(lease, seconds=90.0).lease_transitions == 7
    assert decided_status(said(lease, release=release())).lease_transitions == 7
    assert decided_status(said(lease, claim=reclaim())).lease_transitions == 8


REFUSALS: dict[str, tuple[Phase, dict[str, Any], RefusalReason]] = {
    "completed": (Phase.COMPLETED, {"claim": claim()}, RefusalReason.WORK_COMPLETE),
    "completed, by its last holder": (Phase.COMPLETED, {"claim": reclaim()}, RefusalReason.WORK_COMPLETE),
    "completed in this swap": (Phase.HELD, {"completion": completion(), "claim": claim()}, RefusalReason.WORK_COMPLETE),
    "completed by the claimant": (
        Phase.HELD,
        {"completion": completion(), "claim": reclaim()},
        RefusalReason.WORK_COMPLETE,
    ),
    "held": (Phase.HELD, {"claim": claim()}, RefusalReason.WORK_LEASED),
    "in jeopardy": (Phase.JEOPARDY, {"claim": claim()}, RefusalReason.WORK_LEASED),
}


@pytest.mark.parametrize(("phase", "statements", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_a_claim_that_cannot_be_granted_is_refused_in_the_swap_that_sees_it(
    phase: Phase, statements: dict[str, Any], reason: RefusalReason
) -> None:
    """No phase leaves a claim pending: observedClaimID names it, and an Event says why."""
    decision = decide_at(work_lease(phase, **statements))
    assert decision.status is not None
    assert (decision.status.epoch, decision.status.observed_claim_id) == (EPOCH, statements["claim"].id)
    refusal = decision.notices[-1]
    assert (refusal.reason, refusal.warning) == (EventReason.CLAIM_REFUSED, True)
    assert reason.value in refusal.note


@pytest.mark.parametrize(("phase", "statements", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_a_refused_claim_is_never_looked_at_again(
    phase: Phase, statements: dict[str, Any], reason: RefusalReason
) -> None:
    """A refused claim is granted neither when the work becomes free nor when completed work is reopened."""
    lease = work_lease(phase, **statements)
    refused = after(lease, decide_at(lease))
    freed = after(refused, decide_at(said(refused, revocation=revocation())))
    assert freed.status.phase is Phase.REVOKED
    assert not freed.claim_pending
    assert decide_at(freed).status is None


def test_the_first_of_two_claims_wins_and_the_second_is_told() -> None:
    """The loser of a race is refused on the object, never told that it succeeded (case 18)."""
    lease = work_lease(Phase.RELEASED, claim=reclaim())
    held = after(lease, decide_at(lease))
    late = said(held, claim=claim(epoch=held.status.epoch))
    status = decided_status(late)
    assert (status.claim_id, status.observed_claim_id, status.holder_identity) == ("claim-a2", "claim-b", "alice")


def test_a_grant_clears_the_claim_that_was_refused_before() -> None:
    """observedClaimID says something about the current epoch only."""
    lease = work_lease(Phase.RELEASED, decided={"observed_claim_id": "claim-c"}, claim=claim())
    assert decided_status(lease).observed_claim_id is None


def test_a_pending_claim_does_not_outlive_its_epoch() -> None:
    """After 17 tenures a claim without an epoch, or with the first one, has no force (case 31)."""
    for stale in (claim(epoch=0), claim(epoch=EPOCH - 1)):
        lease = work_lease(Phase.RELEASED, claim=stale)
        assert not lease.claim_pending
        assert decide_at(lease).status is None


@pytest.mark.parametrize("phase", sorted(FREE))
def test_a_claim_admitted_before_a_suspension_is_granted(phase: Phase) -> None:
    """The API decides whether a claim is admitted; once it is, the lease's rules alone decide."""
    epoch = 0 if phase is Phase.AVAILABLE else EPOCH
    assert decided_status(work_lease(phase, suspend=True, claim=claim(epoch=epoch))).phase is Phase.HELD


RESERVED_PHASES = [Phase.HELD, Phase.JEOPARDY, Phase.RELEASED, Phase.EXPIRED]


@pytest.mark.parametrize("phase", RESERVED_PHASES)
def test_the_target_of_a_handoff_is_granted_the_work_that_is_reserved_for_it(phase: Phase) -> None:
    """Handoff: whether the sender still holds or not, with the handoff's name and uid in the history."""
    status = decided_status(work_lease(phase, decided={"successor": successor()}, claim=claim()))
    assert (status.grant_reason, status.grant_message) == (GrantReason.HANDOFF, "handoff to-bob")
    assert (status.holder_identity, status.epoch, status.successor) == ("bob", VERSION, None)
    assert status.history[-1].handoff_uid == "uid-h"
    ended = status.history[0].end_reason
    assert ended == (EndReason.HANDED_OVER if phase in LEASED else phase.value)


@pytest.mark.parametrize("phase", RESERVED_PHASES)
@pytest.mark.parametrize("claimant", [ALICE, {"holder_identity": "carol"}], ids=["sender", "third"])
def test_reserved_work_is_refused_to_everybody_else(phase: Phase, claimant: dict[str, str]) -> None:
    """Nobody but the target, the sender included, gets work for which an acceptance has taken effect."""
    decision = decide_at(work_lease(phase, decided={"successor": successor()}, claim=claim(**claimant)))
    assert decision.status is not None
    assert (decision.status.observed_claim_id, decision.status.epoch) == ("claim-b", EPOCH)
    assert decision.status.successor == successor()
    reason = RefusalReason.WORK_LEASED if phase in LEASED and claimant is not ALICE else RefusalReason.WORK_RESERVED
    assert reason.value in decision.notices[-1].note


def test_a_successor_may_be_any_process_or_a_single_one() -> None:
    """A handoff to an identity is taken by any of its processes; one to an instance by that instance only."""
    anyone = successor(instance=None)
    elsewhere = claim(instance="pod:b-1/9")
    assert decided_status(work_lease(Phase.HELD, decided={"successor": anyone}, claim=elsewhere)).phase is Phase.HELD
    refused = decided_status(work_lease(Phase.HELD, decided={"successor": successor()}, claim=elsewhere))
    assert (refused.epoch, refused.observed_claim_id) == (EPOCH, "claim-b")


@pytest.mark.parametrize("statement", ["release", "expiry"])
def test_a_reservation_outlives_the_senders_tenure(statement: str) -> None:
    """Released and Expired keep the successor until its time: nothing is ownerless before the target comes."""
    given: dict[str, Any] = {"release": release()} if statement == "release" else {}
    lease = work_lease(Phase.HELD, decided={"successor": successor()}, **given)
    status = decided_status(lease, seconds=90.0 if statement == "expiry" else 1.0)
    assert status.phase in (Phase.RELEASED, Phase.EXPIRED)
    assert status.successor == successor()


@pytest.mark.parametrize(
    "statements",
    [{"revocation": revocation()}, {"completion": completion()}, {"revocation": revocation(), "claim": claim()}],
    ids=["revoked", "completed", "taken over"],
)
def test_a_reservation_ends_with_revocation_completion_and_every_grant(statements: dict[str, Any]) -> None:
    """It is cleared in the same swap."""
    reserved = successor(holder_identity="carol")
    assert decided_status(work_lease(Phase.HELD, decided={"successor": reserved}, **statements)).successor is None


def test_a_target_that_is_revoked_with_the_tenure_is_an_ordinary_claimant() -> None:
    """A revocation beats the handoff: the target's pending claim is granted, but after a revocation."""
    lease = work_lease(Phase.HELD, decided={"successor": successor()}, revocation=revocation(), claim=claim())
    status = decided_status(lease)
    assert (status.grant_reason, status.history[-1].handoff_uid) == (GrantReason.AFTER_REVOCATION, None)


@pytest.mark.parametrize("phase", RESERVED_PHASES)
def test_a_reservation_ends_at_its_time(phase: Phase) -> None:
    """No claim in time: the sender goes on, or the work is free for everybody (case 24)."""
    lease = work_lease(phase, decided={"successor": successor(20.0)})
    waiting = decide_at(lease, 19.0)
    assert (waiting.status, waiting.wake_at) == (None, at(20.0).clock_seconds)
    decision = decide_at(lease, 20.0)
    assert decision.status is not None
    assert (decision.status.phase, decision.status.successor) == (phase, None)
    assert [notice.reason for notice in decision.notices] == [EventReason.RESERVATION_ENDED]
    claimable = next(c for c in decision.status.conditions if c.type == ConditionName.CLAIMABLE)
    assert claimable.status == ("True" if phase in FREE else "False")


def test_a_targets_claim_that_is_seen_at_the_end_of_the_reservation_is_in_time() -> None:
    """A pending claim comes before the successor's deadline."""
    lease = work_lease(Phase.RELEASED, decided={"successor": successor(20.0)}, claim=claim())
    assert decided_status(lease, 500.0).grant_reason == GrantReason.HANDOFF


def test_a_reservation_until_a_day_that_does_not_exist_is_over() -> None:
    """A time that fits the pattern and is none, such as the 31st of February, reserves nothing for ever."""
    reserved = successor().model_copy(update={"until": "2026-02-31T00:00:00Z"})
    assert decided_status(work_lease(Phase.RELEASED, decided={"successor": reserved})).successor is None


@pytest.mark.parametrize("phase", sorted(FREE))
def test_nothing_is_granted_on_an_object_that_is_being_deleted(phase: Phase) -> None:
    """The claim stays pending, nothing is written, and nobody is woken for it."""
    lease = work_lease(phase, deleting=True, claim=claim(epoch=0 if phase is Phase.AVAILABLE else EPOCH))
    decision = decide_at(lease)
    assert (decision.status, decision.wake_at) == (None, None)


def test_everything_but_grants_goes_on_while_an_object_is_being_deleted() -> None:
    """Ends, lapses, refusals, adoption and reservations are decided as ever."""
    held = work_lease(Phase.HELD, deleting=True)
    assert decided_status(said(held, release=release())).phase is Phase.RELEASED
    assert decided_status(said(held, revocation=revocation())).phase is Phase.REVOKED
    assert decided_status(said(held, completion=completion())).phase is Phase.COMPLETED
    assert decided_status(held, 60.0).phase is Phase.JEOPARDY
    assert decided_status(held, 90.0).phase is Phase.EXPIRED
    assert decided_status(said(held, claim=claim())).observed_claim_id == "claim-b"
    assert decided_status(work_lease(deleting=True, release=release())).epoch == EPOCH
    reserved = work_lease(Phase.RELEASED, deleting=True, decided={"successor": successor(20.0)})
    assert decided_status(reserved, 21.0).successor is None


def test_a_takeover_of_an_object_that_is_being_deleted_is_a_revocation() -> None:
    """The old tenure ends at once; nobody gets a new one."""
    status = decided_status(work_lease(Phase.HELD, deleting=True, revocation=revocation(), claim=claim()))
    assert (status.phase, status.epoch, status.holder_identity) == (Phase.REVOKED, EPOCH, None)
