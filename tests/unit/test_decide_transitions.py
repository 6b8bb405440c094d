"""Which statement leads from which phase to which, as one table; whatever is not in it leaves the phase alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.leases import (
    EPOCH,
    after,
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
    successor,
    wall,
    work_lease,
)
from worklease.api.statements import EffectState, Outcome
from worklease.api.worklease import FREE, LEASED, Phase
from worklease.protocol.reasons import EndReason, EventReason, GrantReason, RefusalReason

HELD, JEOPARDY, COMPLETED = Phase.HELD, Phase.JEOPARDY, Phase.COMPLETED
EXPIRED, RELEASED, REVOKED = Phase.EXPIRED, Phase.RELEASED, Phase.REVOKED
GRANTED_BEFORE = tuple(phase for phase in Phase if phase is not Phase.AVAILABLE)

STATEMENTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "claim": lambda epoch: {"claim": claim(epoch=epoch)},
    "reclaim": lambda epoch: {"claim": reclaim(epoch=epoch)},
    "renewal": lambda epoch: {"renewal": renewal(epoch=epoch)},
    "checkpoint": lambda epoch: {"checkpoint": checkpoint(epoch=epoch)},
    "effect": lambda epoch: {"effects": (effect(EffectState.SUCCEEDED, epoch=epoch),)},
    "release": lambda epoch: {"release": release(epoch)},
    "revocation": lambda epoch: {"revocation": revocation(epoch)},
    "completion": lambda epoch: {"completion": completion(epoch)},
    "takeover": lambda epoch: {"revocation": revocation(epoch), "claim": claim(epoch=epoch)},
}

Entry = Phase | GrantReason | RefusalReason
TRANSITIONS: dict[tuple[Phase, str], Entry] = {
    (HELD, "claim"): RefusalReason.WORK_LEASED,
    (HELD, "reclaim"): GrantReason.RECLAIM,
    (HELD, "release"): RELEASED,
    (HELD, "revocation"): REVOKED,
    (HELD, "completion"): COMPLETED,
    (HELD, "takeover"): GrantReason.AFTER_REVOCATION,
    (JEOPARDY, "claim"): RefusalReason.WORK_LEASED,
    (JEOPARDY, "reclaim"): GrantReason.RECLAIM,
    (JEOPARDY, "release"): RELEASED,
    (JEOPARDY, "revocation"): REVOKED,
    (JEOPARDY, "completion"): COMPLETED,
    (JEOPARDY, "takeover"): GrantReason.AFTER_REVOCATION,
    (EXPIRED, "claim"): GrantReason.AFTER_EXPIRY,
    (EXPIRED, "reclaim"): GrantReason.AFTER_EXPIRY,
    (EXPIRED, "takeover"): GrantReason.AFTER_REVOCATION,
    (RELEASED, "claim"): GrantReason.AFTER_RELEASE,
    (RELEASED, "reclaim"): GrantReason.AFTER_RELEASE,
    (RELEASED, "takeover"): GrantReason.AFTER_REVOCATION,
    (REVOKED, "claim"): GrantReason.AFTER_REVOCATION,
    (REVOKED, "reclaim"): GrantReason.AFTER_REVOCATION,
    (REVOKED, "takeover"): GrantReason.AFTER_REVOCATION,
    (COMPLETED, "claim"): RefusalReason.WORK_COMPLETE,
    (COMPLETED, "reclaim"): RefusalReason.WORK_COMPLETE,
    (COMPLETED, "revocation"): REVOKED,
    (COMPLETED, "takeover"): GrantReason.AFTER_REVOCATION,
}
"""What a statement about the current epoch leads to: a phase, a grant or a refusal. Not listed: nothing is written."""

ENDS = {RELEASED: EventReason.RELEASED, REVOKED: EventReason.REVOKED, COMPLETED: EventReason.COMPLETED}


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("phase", GRANTED_BEFORE)
def test_a_statement_about_the_current_epoch_leads_where_the_table_says(phase: Phase, statement: str) -> None:
    """Each phase with each statement: another phase, a grant, a refusal, or nothing at all."""
    decision = decide_at(work_lease(phase, **STATEMENTS[statement](EPOCH)))
    expected = TRANSITIONS.get((phase, statement))
    if expected is None:
        assert decision.status is None
        return
    assert decision.status is not None
    status, reasons = decision.status, [notice.reason for notice in decision.notices]
    match expected:
        case GrantReason():
            assert (status.phase, status.grant_reason) == (Phase.HELD, expected)
            assert status.epoch > EPOCH
            assert reasons[-1] is EventReason.GRANTED
        case RefusalReason():
            assert (status.phase, status.epoch, status.claim_id) == (phase, EPOCH, "claim-a")
            assert status.observed_claim_id in ("claim-b", "claim-a2")
            assert reasons == [EventReason.CLAIM_REFUSED]
            assert expected.value in decision.notices[0].note
        case Phase():
            assert (status.phase, status.epoch) == (expected, EPOCH)
            assert reasons == [ENDS[expected]]


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("phase", GRANTED_BEFORE)
@pytest.mark.parametrize("epoch", [1, EPOCH - 1, EPOCH + 1])
def test_a_statement_about_another_epoch_has_no_effect(phase: Phase, statement: str, epoch: int) -> None:
    """Neither a delayed statement of an earlier tenure nor one about a later epoch decides anything (case 15)."""
    assert decide_at(work_lease(phase, **STATEMENTS[statement](epoch))).status is None


@pytest.mark.parametrize("phase", Phase)
def test_work_about_which_nothing_is_said_stays_as_it_is(phase: Phase) -> None:
    """Without a statement and before any deadline nothing is written."""
    assert decide_at(work_lease(phase)).status is None


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("deleting", [False, True])
def test_suspension_moves_no_phase(phase: Phase, deleting: bool) -> None:
    """Suspending work neither ends a tenure nor frees work; only what Claimable says changes."""
    decision = decide_at(said(work_lease(phase, deleting=deleting), suspend=True))
    if phase is COMPLETED or deleting:  # Claimable is False for longer than that
        assert decision.status is None
    else:
        assert decision.status is not None
        assert decision.status.phase is phase
        assert decision.notices == ()


@pytest.mark.parametrize("phase", sorted(LEASED))
@pytest.mark.parametrize("statement", ["release", "revocation", "completion"])
def test_the_end_of_a_tenure_leaves_no_holder_but_its_claim_and_terms(phase: Phase, statement: str) -> None:
    """Nobody is shown as holding what is free (case 38); claimID and terms stay until the next grant."""
    status = decided_status(work_lease(phase, **STATEMENTS[statement](EPOCH)))
    assert (status.holder_identity, status.instance) == (None, None)
    assert (status.claim_id, status.lease_duration_seconds, status.jeopardy_duration_seconds) == ("claim-a", 60, 30)
    assert status.lease_transitions == 1


@pytest.mark.parametrize(
    ("statements", "reason", "message"),
    [
        ({"release": release(reason="enough")}, EndReason.RELEASED, "enough"),
        ({"release": release(reason="")}, EndReason.RELEASED, ""),
        ({"revocation": revocation(reason="wedged")}, EndReason.REVOKED, "wedged"),
        ({"completion": completion(message="all sent")}, EndReason.COMPLETED, "all sent"),
        ({"completion": completion(outcome=Outcome.FAILED, message="")}, EndReason.COMPLETED, "Failed"),
    ],
)
def test_the_history_says_how_a_tenure_ended(statements: dict[str, Any], reason: EndReason, message: str) -> None:
    """The entry of the tenure is closed with the reason and in the words of whoever ended it."""
    (tenure,) = decided_status(work_lease(HELD, **statements), seconds=7.0).history
    assert (tenure.epoch, tenure.end_reason, tenure.end_message, tenure.end_time) == (EPOCH, reason, message, wall(7))


@pytest.mark.parametrize("phase", sorted(LEASED))
def test_completion_and_revocation_of_one_epoch_seen_together_are_one_swap_to_revoked(phase: Phase) -> None:
    """Both statements, one decision: Revoked, and one history entry with the revocation's reason."""
    lease = work_lease(phase, completion=completion(), revocation=revocation(reason="not good enough"))
    decision = decide_at(lease)
    assert decision.status is not None
    assert decision.status.phase is REVOKED
    (tenure,) = decision.status.history
    assert (tenure.end_reason, tenure.end_message) == (EndReason.REVOKED, "not good enough")
    assert [notice.reason for notice in decision.notices] == [EventReason.COMPLETED, EventReason.REVOKED]


def test_reopened_work_keeps_how_it_was_completed() -> None:
    """The tenure ended when it was completed, with what its holder said; the next grant tells of the revocation."""
    lease = work_lease(HELD, completion=completion())
    completed = after(lease, decide_at(lease))
    assert [tenure.end_reason for tenure in completed.status.history] == [EndReason.COMPLETED]
    reopened = said(completed, revocation=revocation(reason="reopened"))
    status = decided_status(reopened, seconds=9.0)
    assert status.phase is REVOKED
    assert status.history == completed.status.history


@pytest.mark.parametrize("phase", sorted(LEASED))
def test_completion_wins_over_release_and_revocation_over_both(phase: Phase) -> None:
    """The order is completion, revocation, release: a release never hides that the work is done or was taken away."""
    both: dict[str, Any] = {"completion": completion(), "release": release()}
    assert decided_status(work_lease(phase, **both)).phase is COMPLETED
    assert decided_status(work_lease(phase, **both, revocation=revocation())).phase is REVOKED
    assert decided_status(work_lease(phase, release=release(), revocation=revocation())).phase is REVOKED


def test_takeover_is_one_decision_with_the_revocations_reason() -> None:
    """Revocation and claim in one write: the old tenure ends Revoked, the new one begins, in a single status."""
    decision = decide_at(work_lease(HELD, revocation=revocation(reason="on call"), claim=claim()))
    assert decision.status is not None
    old, new = decision.status.history
    assert (old.epoch, old.end_reason, old.end_message) == (EPOCH, EndReason.REVOKED, "on call")
    assert (new.grant_reason, new.grant_message, new.holder_identity) == ("AfterRevocation", "on call", "bob")
    assert (decision.status.holder_identity, decision.status.claim_id) == ("bob", "claim-b")
    assert [notice.reason for notice in decision.notices] == [EventReason.REVOKED, EventReason.GRANTED]


@pytest.mark.parametrize("state", [EffectState.ATTEMPTED, EffectState.UNKNOWN])
def test_work_is_never_completed_with_unreconciled_effects(state: EffectState) -> None:
    """A completion beside an effect that is Attempted or Unknown has no force, were the API ever to admit it."""
    effects = (effect(EffectState.SUCCEEDED, "e1"), effect(state, "e2", epoch=EPOCH - 1))
    lease = work_lease(HELD, completion=completion(), effects=effects)
    assert decide_at(lease).status is None
    reconciled = said(lease, effects=(effect(EffectState.FAILED, "e2"),))
    assert decided_status(reconciled).phase is COMPLETED


@pytest.mark.parametrize("phase", sorted(FREE))
def test_work_that_was_held_by_nobody_before_its_object_cannot_be_ended(phase: Phase) -> None:
    """Releasing, completing or revoking free work does nothing: "released: 0" is no success (case 25)."""
    if phase is Phase.AVAILABLE:
        return
    for statement in ("release", "completion", "revocation"):
        assert decide_at(work_lease(phase, **STATEMENTS[statement](EPOCH))).status is None


@pytest.mark.parametrize("phase", [RELEASED, EXPIRED])
def test_revocation_of_free_work_ends_its_reservation(phase: Phase) -> None:
    """Work that is free but reserved for the target of a handoff can be freed for everybody."""
    decision = decide_at(work_lease(phase, decided={"successor": successor()}, revocation=revocation()))
    assert decision.status is not None
    assert (decision.status.phase, decision.status.successor) == (phase, None)
    assert [notice.reason for notice in decision.notices] == [EventReason.RESERVATION_ENDED]
