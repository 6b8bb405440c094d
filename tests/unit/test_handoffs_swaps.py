"""The two swaps, of the work item and of the handoff, in every order and with a crash between them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from support.handoffs import CLAIM_SECONDS, NO_SENDER, UID, Pair, accepted, handoff
from support.leases import (
    BOTH_SECONDS,
    EPOCH,
    VERSION,
    at,
    claim,
    completion,
    reclaim,
    release,
    renewal,
    revocation,
    successor,
    work_lease,
)
from worklease.api.handoff import Handoff, HandoffPhase
from worklease.api.worklease import Phase
from worklease.protocol.decide import decide
from worklease.protocol.handoffs import at_stake
from worklease.protocol.reasons import EventReason, GrantReason

PENDING, ACCEPTED, REJECTED, WITHDRAWN, EXPIRED, STALE, COMPLETED, LAPSED = HandoffPhase


def pair(*offers: Handoff, phase: Phase = Phase.HELD, **said: Any) -> Pair:
    """Work in that phase, and its handoffs."""
    return Pair(work_lease(phase, **said), offers)


def test_an_acceptance_takes_effect_with_the_swap_of_the_work() -> None:
    """First the reservation, and only then does the handoff say Accepted; the sender holds on."""
    before = pair(accepted(handoff()))
    assert before.swap_offer() == before, "the handoff alone decides nothing"
    reserved = before.swap_lease()
    assert (reserved.lease.status.holder_identity, reserved.phases) == ("alice", (PENDING,))
    assert reserved.lease.status.successor == successor(1.0 + CLAIM_SECONDS, instance=None, handoff_uid=UID)
    assert reserved.swap_offer().phases == (ACCEPTED,)
    (notice,) = before.decide_lease(1.0).notices
    assert (notice.reason, notice.note) == (EventReason.RESERVED, "reserved for bob by handoff to-bob")


def test_an_acceptance_that_is_not_pinned_yet_waits_for_that() -> None:
    """What was accepted cannot come to be the next tenure: a claim that is decided first makes no difference."""
    unpinned = pair(accepted(handoff(pinned=None, **NO_SENDER)), claim=reclaim())
    granted = unpinned.swap_lease()
    assert (granted.lease.status.epoch, granted.lease.status.successor) == (VERSION, None)
    assert unpinned.swap_offer().settled().phases == (STALE,)


def test_the_target_is_granted_a_higher_epoch_and_told_what_it_took_over() -> None:
    """Case 22: the tenure names the handoff and its subject; the handoff names the epoch."""
    granted = pair(accepted(handoff())).settled().said(claim=claim()).settled(2.0)
    status, (offer,) = granted.lease.status, granted.offers
    assert (status.grant_reason, status.grant_message) == (GrantReason.HANDOFF, "handoff to-bob: the rest of it")
    assert status.epoch > EPOCH
    assert (offer.status.phase, offer.status.granted_epoch) == (COMPLETED, status.epoch)
    assert [tenure.end_reason for tenure in status.history] == ["HandedOver", None]
    assert (offer.spec.subject, offer.spec.message) == ("the rest of it", None)


SWAPS = ("lease", "offer")


@pytest.mark.parametrize("order", list(itertools.product(SWAPS, repeat=4)))
@pytest.mark.parametrize("claimed_after", list(range(5)))
@pytest.mark.parametrize("phase", [Phase.HELD, Phase.JEOPARDY, Phase.EXPIRED])
def test_in_whatever_order_the_swaps_come_the_end_is_the_same(
    order: tuple[str, ...], claimed_after: int, phase: Phase
) -> None:
    """A crash between the two leaves one of them undone; whichever comes next, nothing is lost or ownerless.

    The target claims as soon as the work is reserved for it, at any point of the order.
    """
    current = pair(accepted(handoff()), phase=phase)
    owned = current.owned
    for step, swap in enumerate(order):
        if step >= claimed_after and current.lease.status.successor is not None and current.lease.spec.claim is None:
            current = current.said(claim=claim())
        current = current.swap_lease() if swap == "lease" else current.swap_offer()
        assert current.owned or not owned, "nobody has the work, and it is reserved for nobody"
        owned = current.owned
        _assert_consistent(current)
    current = current.settled()
    if current.lease.spec.claim is None:
        current = current.said(claim=claim()).settled()
    assert current.phases == (COMPLETED,)
    assert current.lease.status.holder_identity == "bob"
    assert current.offers[0].status.granted_epoch == current.lease.status.epoch


def _assert_consistent(current: Pair) -> None:
    status, (offer,) = current.lease.status, current.offers
    if offer.status.phase is ACCEPTED:
        taken = status.successor is not None or status.history[-1].handoff_uid == UID
        assert taken, "Accepted without effect on the work"


def test_a_reservation_that_its_handoff_has_not_told_is_not_taken_back() -> None:
    """The operator was down between the swaps for longer than claimWithinSeconds: the target still has its time."""
    reserved = pair(accepted(handoff())).swap_lease(1.0)
    late = 2.0 + CLAIM_SECONDS
    assert reserved.decide_lease(late).status is None
    told = reserved.swap_offer(0, late)
    assert told.phases == (ACCEPTED,)
    assert told.swap_lease(late).lease.status.successor is None


def test_a_handoff_that_is_not_known_does_not_keep_a_reservation() -> None:
    """Its object was deleted: the reservation ends at its time, and nothing waits for ever."""
    reserved = pair(accepted(handoff())).swap_lease(1.0)
    gone = Pair(reserved.lease, ())
    assert gone.swap_lease(CLAIM_SECONDS).lease.status.successor is not None
    assert gone.swap_lease(1.0 + CLAIM_SECONDS).lease.status.successor is None


def test_no_claim_in_time_lapses_and_the_sender_goes_on() -> None:
    """Case 24: accepted, but the target never started: the sender is unhindered, and the epoch is the same."""
    lapsed = pair(accepted(handoff()), renewal=renewal(0.0)).settled().settled(2.0 + CLAIM_SECONDS)
    assert lapsed.phases == (LAPSED,)
    status = lapsed.lease.status
    assert (status.successor, status.holder_identity, status.epoch) == (None, "alice", EPOCH)


def test_an_acceptance_that_lapsed_does_not_take_effect_again() -> None:
    """Nor does any other of the same epoch; the sender claims again to offer its work again."""
    lapsed = pair(accepted(handoff())).settled().settled(2.0 + CLAIM_SECONDS)
    second = Pair(lapsed.lease, (*lapsed.offers, accepted(handoff(uid="second"))))
    assert second.settled(3.0 + CLAIM_SECONDS).phases == (LAPSED, STALE)
    again = second.said(claim=reclaim()).swap_lease(4.0 + CLAIM_SECONDS)
    assert again.lease.status.epoch > EPOCH
    third = Pair(again.lease, (*lapsed.offers, accepted(handoff(uid="third", pinned=again.lease.status.epoch))))
    assert third.settled(5.0 + CLAIM_SECONDS).phases == (LAPSED, ACCEPTED)


@pytest.mark.parametrize(
    ("statements", "phase"),
    [
        ({"revocation": revocation()}, STALE),
        ({"revocation": revocation(), "claim": claim(holder_identity="admin", instance="person:1")}, STALE),
        ({"completion": completion()}, STALE),
        ({"release": release()}, STALE),
        ({"claim": reclaim()}, STALE),
        ({}, ACCEPTED),
    ],
    ids=["revoked", "taken over", "completed", "released", "claimed again", "nothing"],
)
def test_an_acceptance_beside_what_ends_the_tenure_is_stale(statements: dict[str, Any], phase: HandoffPhase) -> None:
    """Seen together, the end of the tenure comes first, and nothing is reserved in its name."""
    for order in (("lease", "offer"), ("offer", "lease")):
        current = pair(accepted(handoff()), **statements)
        for swap in order:
            current = current.swap_lease() if swap == "lease" else current.swap_offer()
        current = current.settled()
        assert current.phases == (phase,)
        assert (current.lease.status.successor is not None) == (phase is ACCEPTED)


@pytest.mark.parametrize(
    ("statements", "phase"),
    [
        ({"release": release()}, ACCEPTED),
        ({"revocation": revocation()}, STALE),
        ({"revocation": revocation(), "claim": claim(holder_identity="admin", instance="person:1")}, STALE),
    ],
    ids=["released", "revoked", "taken over"],
)
def test_once_in_effect_an_acceptance_outlives_a_release_but_no_revocation(
    statements: dict[str, Any], phase: HandoffPhase
) -> None:
    """The sender may leave early; an administrator has the last word."""
    current = pair(accepted(handoff())).settled().said(**statements).settled(2.0)
    assert current.phases == (phase,)
    assert (current.lease.status.successor is not None) == (phase is ACCEPTED)


@pytest.mark.parametrize("others_first", [True, False])
def test_revoked_work_is_not_reserved_again(others_first: bool) -> None:
    """An acceptance of an expired tenure whose reservation was revoked does not come back, not even by another."""
    waiting = accepted(handoff(uid="second", created=5.0))
    offers = (waiting, accepted(handoff())) if others_first else (accepted(handoff()), waiting)
    reserved = pair(*offers, phase=Phase.EXPIRED).swap_lease()
    assert reserved.lease.status.successor is not None
    revoked = reserved.said(revocation=revocation()).settled(2.0)
    assert revoked.lease.status.successor is None
    assert set(revoked.phases) == {STALE}


def test_the_reservation_outlives_the_lease() -> None:
    """Accepted, then the sender falls silent: the work expires and is still the target's."""
    reserved = pair(accepted(handoff(claim_within_seconds=10000))).settled()
    expired = reserved.swap_lease(BOTH_SECONDS)
    assert expired.lease.status.phase is Phase.EXPIRED
    assert (expired.lease.status.successor is not None, expired.phases) == (True, (ACCEPTED,))
    granted = expired.said(claim=claim()).settled(BOTH_SECONDS + 1.0)
    assert (granted.lease.status.grant_reason, granted.phases) == ("Handoff", (COMPLETED,))


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ((0.0, "b"), (1.0, "a"), 0),
        ((1.0, "a"), (0.0, "b"), 1),
        ((0.0, "b"), (0.0, "a"), 1),
        ((0.0, "a"), (0.0, "b"), 0),
    ],
)
def test_of_two_acceptances_seen_together_the_oldest_offer_takes_effect(
    first: tuple[float, str], second: tuple[float, str], chosen: int
) -> None:
    """By creationTimestamp, then by uid; the other one is Stale, whichever is looked at first."""
    offers = tuple(accepted(handoff(created=created, uid=uid)) for created, uid in (first, second))
    for known in (offers, offers[::-1]):
        settled = Pair(work_lease(Phase.HELD), known).settled(2.0)
        by_uid = {offer.metadata.uid: offer.status.phase for offer in settled.offers}
        assert by_uid[offers[chosen].metadata.uid] is ACCEPTED
        assert by_uid[offers[1 - chosen].metadata.uid] is STALE


def test_an_offer_of_somebody_who_does_not_hold_blocks_nobody() -> None:
    """Though it is older and was accepted first."""
    strangers = accepted(handoff(uid="a", created=-5.0, from_="carol"))
    siblings = accepted(handoff(uid="b", created=-5.0, from_instance="pod:a-1/2"))
    own = accepted(handoff(uid="c"))
    assert pair(strangers, siblings, own).settled().phases == (STALE, STALE, ACCEPTED)


def test_nothing_is_reserved_on_an_object_that_is_being_deleted() -> None:
    """Its acceptances wait until it is gone, and expire with their time."""
    deleting = Pair(work_lease(Phase.HELD, deleting=True), (accepted(handoff()),))
    assert deleting.settled().lease.status.successor is None
    assert deleting.settled(1000.0).phases == (EXPIRED,)


def test_a_reservation_is_at_stake_when_it_is_made_ended_or_granted() -> None:
    """Those are the decisions before which the handoff behind it is read again."""
    free, reserved = work_lease(Phase.HELD), work_lease(Phase.HELD, decided={"successor": successor()})
    assert at_stake(free.status, reserved.status) == successor()
    assert at_stake(reserved.status, free.status) == successor()
    assert at_stake(free.status, free.status) is None
    assert at_stake(reserved.status, reserved.status.model_copy(update={"phase": Phase.RELEASED})) is None


def test_a_claim_of_the_target_before_its_acceptance_takes_effect_is_refused() -> None:
    """It is not the successor yet; the refused claim stays refused, a fresh one is granted."""
    early = Pair(work_lease(Phase.HELD, claim=claim()), (accepted(handoff()),)).settled()
    assert (early.lease.status.observed_claim_id, early.phases) == ("claim-b", (ACCEPTED,))
    assert early.said(claim=claim(id="fresh")).settled().phases == (COMPLETED,)


def test_decisions_about_leases_do_not_depend_on_the_order_of_handoffs() -> None:
    """The view has no order of its own."""
    offers = [accepted(handoff(uid=uid, created=created)) for uid, created in (("a", 3.0), ("b", 1.0), ("c", 2.0))]
    lease = work_lease(Phase.HELD)
    chosen = {
        decide(lease, None, at(5), handoffs=order).status.successor.handoff_uid  # type: ignore[union-attr]
        for order in itertools.permutations(offers)
    }
    assert chosen == {"b"}
