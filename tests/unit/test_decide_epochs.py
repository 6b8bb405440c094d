"""The epoch of a grant: the store's revision plus the floor, above everything ever mentioned, or no grant at all."""

from __future__ import annotations

from typing import Any

import pytest

from support.leases import (
    EPOCH,
    VERSION,
    after,
    at,
    checkpoint,
    claim,
    completion,
    decide_at,
    decided_status,
    effect,
    reclaim,
    release,
    renewal,
    revocation,
    said,
    sight,
    successor,
    wall,
    work_lease,
)
from worklease.api.fields import GRANTED_EPOCH_MAX, STATED_EPOCH_MAX, Condition
from worklease.api.handoff import Handoff, HandoffSpec, HandoffStatus, Response, ResponseDecision, Target
from worklease.api.statements import EffectState
from worklease.api.worklease import Metadata, Phase, WorkLeaseStatus
from worklease.protocol.decide import decide, highest_mentioned
from worklease.protocol.reasons import (
    ConditionName,
    ConditionReason,
    EndReason,
    EventReason,
    GrantReason,
    StallReason,
)


def stalled(status: WorkLeaseStatus) -> Condition:
    return next(condition for condition in status.conditions if condition.type == ConditionName.STALLED)


@pytest.mark.parametrize(("version", "floor", "epoch"), [(101, 0, 101), (500, 0, 500), (7, 1000, 1007), (1, 100, 101)])
def test_an_epoch_is_the_stores_revision_plus_the_floor(version: int, floor: int, epoch: int) -> None:
    """The revision that was read, on which the swap is conditioned: no two grants can have the same one."""
    assert decided_status(work_lease(Phase.RELEASED, version=version, claim=claim()), floor=floor).epoch == epoch


@pytest.mark.parametrize("version", [1, EPOCH - 1, EPOCH, "0", "", "abc", "٥٠٠", "9" * 30, "-500", "5e2"])
def test_nothing_is_granted_below_an_epoch_that_was_given_out(version: int | str) -> None:
    """A store restored to an older revision, or one whose revisions are no numbers: Stalled says raise the floor."""
    decision = decide_at(work_lease(Phase.RELEASED, version=version, claim=claim()))
    assert decision.status is not None
    assert (decision.status.phase, decision.status.epoch) == (Phase.RELEASED, EPOCH)
    condition = stalled(decision.status)
    assert (condition.status, condition.reason) == ("True", StallReason.EPOCH_FLOOR_TOO_LOW)
    assert "raise the operator's epoch floor" in condition.message
    assert [(n.reason, n.warning) for n in decision.notices] == [(EventReason.STALLED, True)]


MENTIONS: dict[str, dict[str, Any]] = {
    "renewal": {"renewal": renewal(epoch=VERSION)},
    "checkpoint": {"checkpoint": checkpoint(epoch=VERSION)},
    "effect": {"effects": (effect(epoch=1), effect(name="f", epoch=VERSION))},
    "release": {"release": release(VERSION)},
    "revocation": {"revocation": revocation(VERSION)},
    "completion": {"completion": completion(VERSION)},
}


@pytest.mark.parametrize("statements", MENTIONS.values(), ids=MENTIONS)
def test_nothing_is_granted_at_or_below_an_epoch_that_a_statement_mentions(statements: dict[str, Any]) -> None:
    """A statement that names a later epoch, from a backup, could otherwise speak for a holder to come."""
    lease = work_lease(Phase.RELEASED, claim=claim(), **statements)
    assert highest_mentioned(lease) == VERSION
    assert decided_status(lease).epoch == EPOCH
    assert decided_status(lease, floor=1).epoch == VERSION + 1


def test_the_holder_keeps_its_lease_while_nothing_can_be_granted() -> None:
    """A re-claim that stalls does not end the tenure it would have replaced; expiry is timed as ever."""
    lease = work_lease(Phase.HELD, version=1, claim=reclaim())
    stuck = decided_status(lease)
    assert (stuck.phase, stuck.holder_identity, stuck.observed_claim_id) == (Phase.HELD, "alice", None)
    assert decided_status(lease, 90.0).phase is Phase.EXPIRED


def test_a_reservation_survives_a_stall_until_its_time() -> None:
    """The target's claim stays pending while nothing can be granted, and its reservation ends when it ends."""
    lease = work_lease(Phase.RELEASED, version=1, decided={"successor": successor(20.0)}, claim=claim())
    assert decided_status(lease, 1.0).successor is not None
    assert decided_status(lease, 20.0).successor is None


def test_a_targets_claim_that_stalled_is_refused_when_its_reservation_ends() -> None:
    """The sender still holds, so the claim is one of somebody else: refused in the same swap, and nothing stalls."""
    lease = work_lease(Phase.HELD, version=1, decided={"successor": successor(20.0)}, claim=claim())
    decision = decide_at(lease, 20.0)
    assert decision.status is not None
    assert (decision.status.successor, decision.status.observed_claim_id) == (None, "claim-b")
    assert [n.reason for n in decision.notices] == [EventReason.RESERVATION_ENDED, EventReason.CLAIM_REFUSED]
    assert decide_at(after(lease, decision), 20.0).status is None


def test_a_stall_is_written_once() -> None:
    """The second decision about stalled work writes nothing, and does not come back for it by itself."""
    lease = work_lease(Phase.RELEASED, version=1, claim=claim())
    stuck = after(lease, decide_at(lease))
    decision = decide_at(stuck, 500.0)
    assert (decision.status, decision.wake_at, stuck.claim_pending) == (None, None, True)


def test_the_claim_is_granted_once_the_floor_is_high_enough() -> None:
    """A restart with a higher floor grants what was pending, and Stalled is over."""
    lease = work_lease(Phase.RELEASED, version=1, claim=claim())
    stuck = after(lease, decide_at(lease))
    status = decided_status(stuck, 9.0, floor=EPOCH)
    assert (status.phase, status.epoch) == (Phase.HELD, EPOCH + 2)
    condition = stalled(status)
    assert (condition.status, condition.reason) == ("False", ConditionReason.AS_EXPECTED)
    assert condition.last_transition_time == wall(9)


@pytest.mark.parametrize(("version", "floor"), [(STATED_EPOCH_MAX + 1, 0), (2, STATED_EPOCH_MAX - 1), (10**18, 0)])
def test_nothing_is_granted_above_what_a_statement_may_name(version: int, floor: int) -> None:
    """A holder could not renew under such an epoch."""
    status = decided_status(work_lease(Phase.RELEASED, version=version, claim=claim()), floor=floor)
    assert (status.phase, status.epoch) == (Phase.RELEASED, EPOCH)
    assert stalled(status).reason == StallReason.EPOCH_FLOOR_TOO_HIGH
    assert "lower the epoch floor" in stalled(status).message


def test_the_largest_epoch_that_a_statement_may_name_is_granted() -> None:
    """The bound itself is still usable."""
    lease = work_lease(Phase.RELEASED, version=STATED_EPOCH_MAX, claim=claim())
    assert decided_status(lease).epoch == STATED_EPOCH_MAX


def test_an_epoch_at_the_maximum_stalls_the_work_and_nothing_else() -> None:
    """Above the largest epoch there is none to grant; the object says so, and the tenure still ends by expiry."""
    lease = work_lease(Phase.HELD, decided={"epoch": GRANTED_EPOCH_MAX})
    assert decided_status(lease, 90.0).phase is Phase.EXPIRED


def test_a_lost_status_is_adopted_before_anything_is_granted() -> None:
    """Epoch 0 with statements about a later one: go on from the highest mentioned, as work that was given back."""
    spoken: dict[str, Any] = {"claim": claim(epoch=5), "renewal": renewal(epoch=EPOCH), "effects": (effect(epoch=7),)}
    decision = decide_at(work_lease(**spoken), seconds=4.0)
    status = decision.status
    assert status is not None
    assert (status.phase, status.epoch, status.holder_identity) == (Phase.RELEASED, EPOCH, None)
    assert (status.claim_id, status.lease_transitions) == (None, None)
    (tenure,) = status.history
    assert (tenure.epoch, tenure.end_reason, tenure.end_time) == (EPOCH, EndReason.ADOPTED, wall(4))
    assert [(n.reason, n.warning) for n in decision.notices] == [(EventReason.ADOPTED, True)]


@pytest.mark.parametrize("epoch", [0, 5, EPOCH])
def test_old_claims_have_no_force_after_an_adoption(epoch: int) -> None:
    """Whoever claimed before the status was lost claims again: nothing is granted to a ghost."""
    lease = work_lease(claim=claim(epoch=epoch), renewal=renewal(epoch=EPOCH))
    adopted = after(lease, decide_at(lease))
    assert not adopted.claim_pending
    assert decide_at(adopted).status is None
    fresh = said(adopted, claim=claim(id="claim-b2"))
    status = decided_status(fresh)
    assert (status.phase, status.grant_reason) == (Phase.HELD, GrantReason.AFTER_RELEASE)
    assert status.epoch > EPOCH


@pytest.mark.parametrize("statements", MENTIONS.values(), ids=MENTIONS)
def test_every_statement_counts_for_an_adoption(statements: dict[str, Any]) -> None:
    """The epoch is the highest that anything mentions, so that no recipient sees it go back."""
    assert decided_status(work_lease(**statements)).epoch == VERSION


def test_a_backup_of_completed_work_comes_back_completed() -> None:
    """Restored work that was done is not done again; revoking the completion reopens it."""
    lease = work_lease(completion=completion(), claim=claim(epoch=EPOCH))
    adopted = after(lease, decide_at(lease))
    assert (adopted.status.phase, adopted.status.epoch) == (Phase.COMPLETED, EPOCH)
    assert decide_at(adopted).status is None
    assert decided_status(said(adopted, revocation=revocation())).phase is Phase.REVOKED


def test_a_backup_of_completed_work_with_its_revocation_comes_back_revoked() -> None:
    """Completion and revocation of the adopted epoch are decided in the swap that adopts it."""
    status = decided_status(work_lease(completion=completion(), revocation=revocation()))
    assert (status.phase, status.epoch) == (Phase.REVOKED, EPOCH)
    assert [tenure.end_reason for tenure in status.history] == [EndReason.REVOKED]


def test_a_completion_of_an_earlier_epoch_does_not_complete_restored_work() -> None:
    """Work that was reopened and held again after its completion comes back as given back."""
    assert decided_status(work_lease(completion=completion(EPOCH - 1), renewal=renewal())).phase is Phase.RELEASED


def test_a_completion_with_unreconciled_effects_does_not_complete_restored_work() -> None:
    """A backup cannot say what the API would not have admitted."""
    lease = work_lease(completion=completion(), effects=(effect(EffectState.UNKNOWN),))
    assert decided_status(lease).phase is Phase.RELEASED


def test_only_lost_status_is_adopted() -> None:
    """Statements about a later epoch move nothing on work that has a history."""
    for phase in Phase:
        if phase is not Phase.AVAILABLE:
            assert decide_at(work_lease(phase, renewal=renewal(epoch=VERSION))).status is None


def test_a_claim_of_epoch_zero_alone_is_no_reason_to_adopt() -> None:
    """New work that is created with its first claim is granted at once."""
    assert decided_status(work_lease(claim=claim(epoch=0))).phase is Phase.HELD


def test_an_adopted_epoch_at_the_bound_of_creation_leaves_room_above_it() -> None:
    """The largest epoch that a new object may mention can be exceeded by a floor that the operator may have."""
    lease = work_lease(release=release(2**51))
    adopted = after(lease, decide_at(lease))
    claimed = said(adopted, claim=claim(epoch=2**51))
    assert stalled(decided_status(claimed)).reason == StallReason.EPOCH_FLOOR_TOO_LOW
    assert decided_status(claimed, floor=2**51).epoch == 2**51 + VERSION + 2


def test_an_acceptance_takes_effect_after_the_claim_that_stalled() -> None:
    """A re-claim that waits for a higher floor comes first; the acceptance does not make it somebody else's claim."""
    lease = work_lease(Phase.HELD, version=1)
    offer = Handoff(
        status=HandoffStatus(epoch=lease.status.epoch),
        metadata=Metadata(name="to-bob", namespace="team", uid="uid-h", creation_timestamp=wall(0)),
        spec=HandoffSpec(
            work_lease_name="item",
            from_="alice",
            from_instance="pod:a-0/1",
            to=Target(holder_identity="bob"),
            response=Response(decision=ResponseDecision.ACCEPTED, reason=""),
        ),
    )
    seen = sight(lease)
    accepted = decide(lease, seen, at(1), handoffs=(offer,))
    assert accepted.status is not None
    assert accepted.status.successor is not None
    stuck = decide(said(lease, claim=reclaim()), seen, at(1), handoffs=(offer,))
    assert stuck.status is not None
    assert stuck.status.successor is None
    assert stalled(stuck.status).status == "True"
