"""What becomes of one handoff: a table of where it stands and how the work stands, and what people are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.handoffs import (
    ACCEPT_SECONDS,
    CLAIM_SECONDS,
    NO_SENDER,
    UID,
    Pair,
    accepted,
    answered,
    handoff,
    judge,
    judged,
    offered_checkpoint,
    response,
)
from support.leases import ALICE, BOB, CLOCK_START, EPOCH, checkpoint, revocation, successor, wall, work_lease
from worklease.api.handoff import SELECTABLE, Handoff, HandoffPhase, HandoffSpec, ResponseDecision, Target
from worklease.api.worklease import Phase, Tenure, WorkLease
from worklease.protocol.handoffs import OPEN
from worklease.protocol.reasons import HandoffConditionName, StaleReason

PENDING, ACCEPTED, REJECTED, WITHDRAWN, EXPIRED, STALE, COMPLETED, LAPSED = HandoffPhase
GRANTED = Tenure(epoch=EPOCH + 9, handoff_uid=UID, grant_reason="Handoff", **BOB)


def reserved(phase: Phase = Phase.HELD, uid: str = UID) -> WorkLease:
    """Work that is reserved for Bob."""
    return work_lease(phase, decided={"successor": successor(handoff_uid=uid)})


def handed_over() -> WorkLease:
    """Work that Bob was granted by the handoff."""
    return work_lease(Phase.HELD, decided={"epoch": EPOCH + 9, **BOB, "history": (GRANTED,)})


def of_another_epoch() -> WorkLease:
    """Work that somebody holds under a later epoch."""
    return work_lease(Phase.HELD, decided={"epoch": EPOCH + 5})


# What was offered, and how the work stands -> the phase of: an offer without an answer; an accepted one that has not
# taken effect; one that says that it was accepted.
SITUATIONS: dict[str, tuple[WorkLease | None, HandoffPhase, HandoffPhase, HandoffPhase]] = {
    "the sender holds": (work_lease(Phase.HELD), PENDING, PENDING, LAPSED),
    "in jeopardy": (work_lease(Phase.JEOPARDY), PENDING, PENDING, LAPSED),
    "expired since": (work_lease(Phase.EXPIRED), PENDING, PENDING, LAPSED),
    "released": (work_lease(Phase.RELEASED), STALE, STALE, LAPSED),
    "revoked": (work_lease(Phase.REVOKED), STALE, STALE, STALE),
    "expired, then revoked": (work_lease(Phase.EXPIRED, revocation=revocation()), STALE, STALE, STALE),
    "released, then revoked": (work_lease(Phase.RELEASED, revocation=revocation()), STALE, STALE, STALE),
    "completed": (work_lease(Phase.COMPLETED), STALE, STALE, STALE),
    "a later epoch": (of_another_epoch(), STALE, STALE, STALE),
    "re-created": (work_lease(Phase.AVAILABLE), STALE, STALE, STALE),
    "reserved by it": (reserved(), ACCEPTED, ACCEPTED, ACCEPTED),
    "reserved by it and released": (reserved(Phase.RELEASED), ACCEPTED, ACCEPTED, ACCEPTED),
    "reserved by it and expired": (reserved(Phase.EXPIRED), ACCEPTED, ACCEPTED, ACCEPTED),
    "reserved by another": (reserved(uid="other"), STALE, STALE, LAPSED),
    "granted by it": (handed_over(), COMPLETED, COMPLETED, COMPLETED),
    "gone": (None, PENDING, PENDING, LAPSED),
}


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("stage", ["offered", "answered", "accepted"])
def test_phase_follows_from_the_handoff_and_the_work(situation: str, stage: str) -> None:
    """Each phase from which a handoff still moves, with each situation of the work."""
    lease, *expected = SITUATIONS[situation]
    offer = {"offered": handoff(), "answered": accepted(handoff()), "accepted": accepted(handoff(ACCEPTED))}[stage]
    status = judge(offer, lease).status or offer.status
    assert status.phase is expected[["offered", "answered", "accepted"].index(stage)]
    assert (status.granted_epoch is None) == (status.phase is not COMPLETED)


@pytest.mark.parametrize("phase", [phase for phase in HandoffPhase if phase not in OPEN])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_final_phase_is_final(phase: HandoffPhase, situation: str) -> None:
    """Whatever becomes of the work, a handoff that has ended is never written again (case 31)."""
    decision = judge(accepted(handoff(phase)), SITUATIONS[situation][0], 1e6)
    assert (decision.status, decision.wake_at, decision.notices) == (None, None, ())


STALE_BECAUSE: dict[str, tuple[Handoff, WorkLease, StaleReason]] = {
    "a sibling of the holder": (handoff(from_instance="pod:a-1/2"), work_lease(Phase.HELD), StaleReason.NOT_THE_HOLDER),
    "somebody else": (handoff(from_="carol"), work_lease(Phase.HELD), StaleReason.NOT_THE_HOLDER),
    "somebody else, expired": (handoff(from_="carol"), work_lease(Phase.EXPIRED), StaleReason.NOT_THE_HOLDER),
    "somebody else, reserved": (handoff(from_="carol"), reserved(uid="other"), StaleReason.NOT_THE_HOLDER),
    "of an earlier epoch": (handoff(epoch=EPOCH - 1), work_lease(Phase.HELD), StaleReason.EPOCH_MOVED),
    "of an epoch to come": (handoff(epoch=EPOCH + 1), work_lease(Phase.HELD), StaleReason.EPOCH_MOVED),
    "released": (handoff(), work_lease(Phase.RELEASED), StaleReason.TENURE_ENDED),
    "revocation said": (handoff(), work_lease(Phase.HELD, revocation=revocation()), StaleReason.TENURE_ENDED),
    "after its acceptance, revoked": (handoff(ACCEPTED), work_lease(Phase.REVOKED), StaleReason.TENURE_ENDED),
    "after its acceptance, later": (handoff(ACCEPTED), of_another_epoch(), StaleReason.EPOCH_MOVED),
    "to the holder": (
        handoff(**NO_SENDER, to=Target(holder_identity=ALICE["holder_identity"])),
        work_lease(Phase.HELD),
        StaleReason.ALREADY_THE_HOLDER,
    ),
    "to the holder's process": (
        handoff(**NO_SENDER, to=Target(**ALICE)),
        work_lease(Phase.JEOPARDY),
        StaleReason.ALREADY_THE_HOLDER,
    ),
    "another was accepted": (handoff(), reserved(uid="other"), StaleReason.ANOTHER_ACCEPTED),
}


@pytest.mark.parametrize("what", STALE_BECAUSE)
def test_stale_says_why(what: str) -> None:
    """The reason, as a constant and as a sentence, in the condition and the Event."""
    offer, lease, reason = STALE_BECAUSE[what]
    decision = judge(offer, lease)
    assert decision.status is not None
    assert decision.status.phase is STALE
    (notice,) = decision.notices
    assert notice.note.startswith(f"{reason.value}: ")
    assert notice.warning
    ready = next(one for one in decision.status.conditions if one.type == "Ready")
    assert (ready.status, ready.reason, ready.message) == ("True", "Stale", notice.note)


def test_a_sibling_process_of_the_holder_may_be_the_target_by_its_instance() -> None:
    """Identity and process count together: from one pod of a ServiceAccount to another one of it."""
    to_sibling = handoff(to=Target(holder_identity=ALICE["holder_identity"], instance="pod:a-1/2"))
    assert judge(accepted(to_sibling), work_lease(Phase.HELD)).status is None
    assert judged(to_sibling, work_lease(Phase.HELD)).phase is PENDING


@pytest.mark.parametrize("taken", [ACCEPTED, LAPSED])
def test_at_most_one_acceptance_takes_effect_for_each_epoch(taken: HandoffPhase) -> None:
    """Also once the target of the first one did not claim: the sender claims again to offer its work again."""
    other = accepted(handoff(taken, uid="other"))
    status = judged(accepted(handoff()), work_lease(Phase.HELD), 1.0, other)
    assert status.phase is STALE
    assert status.conditions[0].message.startswith("AnotherAccepted: ")
    earlier = accepted(handoff(taken, uid="other", pinned=EPOCH - 1))
    assert judge(accepted(handoff()), work_lease(Phase.HELD), 1.0, earlier).status is None


@pytest.mark.parametrize("lease", [work_lease(Phase.HELD), work_lease(Phase.AVAILABLE), None])
def test_an_offer_without_an_answer_expires(lease: WorkLease | None) -> None:
    """Case 23: a target that does not exist, or does not answer, keeps nobody waiting."""
    offer = handoff(pinned=None)
    waiting = offer.model_copy(update={"status": judged(offer, lease)})
    assert waiting.status.answer_by == wall(ACCEPT_SECONDS)[:19] + "Z"
    early = judge(waiting, lease, ACCEPT_SECONDS - 1.0)
    assert (early.status, early.wake_at) == (None, CLOCK_START + ACCEPT_SECONDS)
    late = judge(waiting, lease, ACCEPT_SECONDS + 0.0)
    assert late.status is not None
    assert late.status.phase is EXPIRED
    assert [(notice.reason, notice.warning) for notice in late.notices] == [(EXPIRED, True)]


def test_an_answer_that_was_admitted_counts_however_late_it_is_seen() -> None:
    """The API server admits an answer while the phase is Pending; an operator that was away does not undo that."""
    late = ACCEPT_SECONDS + 1e5
    assert judge(accepted(handoff()), work_lease(Phase.HELD), late).status is None
    rejected = answered(handoff(), response(ResponseDecision.REJECTED, "no time"))
    assert judged(rejected, work_lease(Phase.HELD), late).phase is REJECTED


@pytest.mark.parametrize(
    ("decision", "phase", "message"),
    [
        (ResponseDecision.REJECTED, REJECTED, "the target rejected it: no time"),
        (ResponseDecision.WITHDRAWN, WITHDRAWN, "the sender withdrew it: no time"),
    ],
)
@pytest.mark.parametrize("lease", [work_lease(Phase.HELD), work_lease(Phase.REVOKED), of_another_epoch(), None])
def test_a_refusal_is_a_refusal_whatever_became_of_the_work(
    decision: ResponseDecision, phase: HandoffPhase, message: str, lease: WorkLease | None
) -> None:
    """Rejected and Withdrawn are reported as said, with the reason for the other side."""
    status = judged(answered(handoff(), response(decision, "no time")), lease)
    assert (status.phase, status.conditions[0].message) == (phase, message)


def test_an_acceptance_of_nothing_expires_and_says_so() -> None:
    """Accepted while the work item is missing, or has no tenure: not "the target did not answer"."""
    for lease in (None, work_lease(Phase.AVAILABLE)):
        offer = accepted(handoff(pinned=None))
        assert judged(offer, lease).conditions[0].message == "accepted: there is nothing to hand over yet"
        status = judged(offer, lease, ACCEPT_SECONDS)
        assert status.phase is EXPIRED
        assert "it was accepted" in status.conditions[0].message


@pytest.mark.parametrize("phase", [Phase.HELD, Phase.JEOPARDY, Phase.EXPIRED])
def test_an_offer_without_an_epoch_is_pinned_to_the_tenure_there_is(phase: Phase) -> None:
    """Git names no epoch: the operator writes down the one it finds, and from then on it is that one."""
    offer = handoff(pinned=None, **NO_SENDER)
    status = judged(offer, work_lease(phase))
    assert (status.phase, status.epoch) == (PENDING, EPOCH)
    assert judged(offer.model_copy(update={"status": status}), of_another_epoch()).phase is STALE


@pytest.mark.parametrize("phase", [Phase.AVAILABLE, Phase.RELEASED, Phase.REVOKED, Phase.COMPLETED])
def test_an_offer_without_an_epoch_waits_where_there_is_no_tenure_to_hand_over(phase: Phase) -> None:
    """It stays Pending until acceptWithinSeconds, and is pinned should there be a tenure by then."""
    status = judged(handoff(pinned=None, **NO_SENDER), work_lease(phase))
    assert (status.phase, status.epoch) == (PENDING, None)


def conditions_of(offer: Handoff, lease: WorkLease | None) -> dict[str, tuple[str, str]]:
    status = judge(offer, lease).status or offer.status
    return {one.type: (one.status, one.reason) for one in status.conditions}


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("phase", sorted(OPEN))
def test_ready_is_true_in_every_phase(situation: str, phase: HandoffPhase) -> None:
    """Case 34: a handoff that waits, or came to nothing, is no broken install; its phase is the reason."""
    status = judge(handoff(phase), SITUATIONS[situation][0]).status
    assert status is not None
    assert conditions_of(handoff(phase), SITUATIONS[situation][0])["Ready"] == ("True", status.phase.value)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("sha256:1", ("False", "AsOffered")),
        ("sha256:2", ("True", "Moved")),
        (None, ("True", "Moved")),
    ],
)
def test_a_checkpoint_that_moved_since_the_offer_is_a_condition(stored: str | None, expected: tuple[str, str]) -> None:
    """Case 22: the target is not surprised by work that went on since it was offered."""
    said: dict[str, Any] = {} if stored is None else {"checkpoint": checkpoint(stored)}
    offer = handoff(checkpoint=offered_checkpoint())
    assert conditions_of(offer, work_lease(Phase.HELD, **said))[HandoffConditionName.CHECKPOINT_MOVED] == expected


def test_an_offer_without_a_checkpoint_has_no_condition_about_one() -> None:
    """Nothing can have moved that was not offered."""
    assert HandoffConditionName.CHECKPOINT_MOVED not in conditions_of(handoff(), work_lease(Phase.HELD))


def test_the_condition_about_the_checkpoint_keeps_how_things_stood_at_the_end() -> None:
    """What the new holder does with the work later is not told about the handoff."""
    offer = accepted(handoff(ACCEPTED, checkpoint=offered_checkpoint()))
    seen = offer.model_copy(
        update={"status": judged(offer, reserved().model_copy(update={"spec": with_checkpoint("sha256:1")}))}
    )
    done = judged(seen, handed_over().model_copy(update={"spec": with_checkpoint("sha256:7")}))
    assert done.phase is COMPLETED
    assert [(c.status, c.reason) for c in done.conditions if c.type == "CheckpointMoved"] == [("False", "AsOffered")]


def with_checkpoint(digest: str) -> Any:
    return work_lease(Phase.HELD, checkpoint=checkpoint(digest)).spec


def test_a_missing_work_item_is_a_condition_that_clears() -> None:
    """Pending with WorkLeaseMissing while there is no such item; False once there is one."""
    offer = handoff(pinned=None)
    missing = judged(offer, None)
    assert (missing.phase, missing.epoch) == (PENDING, None)
    condition = next(c for c in missing.conditions if c.type == HandoffConditionName.WORK_LEASE_MISSING)
    assert (condition.status, condition.message) == ("True", "there is no WorkLease item in this namespace")
    there = conditions_of(offer.model_copy(update={"status": missing}), work_lease(Phase.HELD))
    assert there[HandoffConditionName.WORK_LEASE_MISSING] == ("False", "Found")


def test_each_transition_is_told_once() -> None:
    """The first sight and every change of phase is an Event; a condition that moves is none."""
    offer = handoff(pinned=None, checkpoint=offered_checkpoint())
    first = judge(offer, work_lease(Phase.HELD, checkpoint=checkpoint("sha256:1")))
    assert [notice.reason for notice in first.notices] == [PENDING]
    assert first.status is not None
    seen = offer.model_copy(update={"status": first.status})
    moved = judge(seen, work_lease(Phase.HELD, checkpoint=checkpoint("sha256:2")), 2.0)
    assert moved.status is not None
    assert moved.notices == ()
    assert [notice.reason for notice in judge(seen, reserved(), 3.0).notices] == [ACCEPTED]


def test_the_observed_generation_follows_an_answer_that_waits() -> None:
    """A tool that compares generations does not take a waiting handoff for one in progress."""
    offer = accepted(handoff(pinned=None))
    assert judged(offer, None).observed_generation == 2
    assert judged(offer, work_lease(Phase.AVAILABLE)).observed_generation == 2


def test_the_reservation_lasts_as_long_as_the_offer_says() -> None:
    """claimWithinSeconds counts from when the acceptance takes effect."""
    pair = Pair(work_lease(Phase.HELD), (accepted(handoff()),)).swap_lease(4.0)
    assert pair.lease.status.successor == successor(
        4.0 + CLAIM_SECONDS, holder_identity="bob", instance=None, handoff_uid=UID
    )


def test_the_documentation_names_every_phase_reason_condition_and_selectable_field() -> None:
    """What people read is what the code says."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "handoffs.md").read_text()
    for constants in (HandoffPhase, StaleReason, HandoffConditionName, ResponseDecision):
        for constant in constants:
            assert f"| `{constant.value}`" in page or f"`, `{constant.value}` |" in page, constant
    for path in SELECTABLE:
        assert f"`{path.removeprefix('.')}`" in page
    for field in HandoffSpec.model_fields.values():
        assert field.alias is not None
        assert f"`{field.alias}`" in page
