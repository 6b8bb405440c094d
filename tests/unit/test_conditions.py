"""status.conditions: what each says in each phase, when it is written, and that it names nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.leases import (
    after,
    at,
    claim,
    decide_at,
    decided_status,
    effect,
    reclaim,
    release,
    renewal,
    said,
    sight,
    successor,
    wall,
    work_lease,
)
from worklease.api.fields import Condition
from worklease.api.statements import EffectState
from worklease.api.worklease import FREE, LEASED, Phase, WorkLease, WorkLeaseStatus
from worklease.protocol.conditions import CLOCK_SKEW_SECONDS, Stall, derive
from worklease.protocol.decide import decide
from worklease.protocol.observation import Observation, observe
from worklease.protocol.reasons import ConditionName, ConditionReason, StallReason

ALWAYS = [
    ConditionName.CLAIMABLE,
    ConditionName.HELD,
    ConditionName.JEOPARDY,
    ConditionName.EXPIRED,
    ConditionName.EFFECTS_RECONCILED,
]
MARKER = "zz-secret-zz"


def bare(lease: WorkLease) -> WorkLease:
    """The lease as one that no operator has seen yet."""
    return lease.model_copy(update={"status": lease.status.model_copy(update={"conditions": ()})})


def conditions_of(status: WorkLeaseStatus) -> dict[str, Condition]:
    return {condition.type: condition for condition in status.conditions}


def verdict(lease: WorkLease, name: ConditionName) -> tuple[str, str]:
    """The condition's status and reason, on an object that no operator has seen yet."""
    condition = conditions_of(decided_status(bare(lease)))[name]
    return condition.status, condition.reason


@pytest.mark.parametrize("phase", Phase)
def test_every_object_carries_the_same_conditions(phase: Phase) -> None:
    """`kubectl wait` finds each type on every object that the operator has seen, in one order."""
    status = decided_status(bare(work_lease(phase)))
    assert [condition.type for condition in status.conditions] == ALWAYS
    assert {condition.last_transition_time for condition in status.conditions} == {wall(1)}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize(
    ("name", "true_in"),
    [
        (ConditionName.HELD, {Phase.HELD}),
        (ConditionName.JEOPARDY, {Phase.JEOPARDY}),
        (ConditionName.EXPIRED, {Phase.EXPIRED}),
    ],
)
def test_the_conditions_of_a_phase_are_true_in_it_alone(phase: Phase, name: ConditionName, true_in: set[Phase]) -> None:
    """The reason is the phase, so that a person who sees only the condition knows where the work stands."""
    assert verdict(work_lease(phase), name) == (str(phase in true_in), phase.value)


CLAIMABLE: dict[str, tuple[Phase, dict[str, Any], dict[str, Any], str, str]] = {
    **{phase.value: (phase, {}, {}, "True", ConditionReason.FREE) for phase in sorted(FREE)},
    "Held": (Phase.HELD, {}, {}, "False", ConditionReason.HELD),
    "Jeopardy": (Phase.JEOPARDY, {}, {}, "False", ConditionReason.HELD),
    "Completed": (Phase.COMPLETED, {}, {}, "False", "Completed"),
    "suspended": (Phase.RELEASED, {"suspend": True}, {}, "False", ConditionReason.SUSPENDED),
    "held and suspended": (Phase.HELD, {"suspend": True}, {}, "False", ConditionReason.SUSPENDED),
    "completed and suspended": (Phase.COMPLETED, {"suspend": True}, {}, "False", "Completed"),
    "reserved": (Phase.RELEASED, {}, {"successor": successor()}, "False", ConditionReason.RESERVED),
    "reserved and suspended": (
        Phase.EXPIRED,
        {"suspend": True},
        {"successor": successor()},
        "False",
        ConditionReason.SUSPENDED,
    ),
    "held and reserved": (Phase.HELD, {}, {"successor": successor()}, "False", ConditionReason.HELD),
}


@pytest.mark.parametrize(("phase", "spoken", "decided", "true", "reason"), CLAIMABLE.values(), ids=CLAIMABLE)
def test_claimable_is_what_a_waiter_waits_for(
    phase: Phase, spoken: dict[str, Any], decided: dict[str, Any], true: str, reason: str
) -> None:
    """True exactly when a claim by anybody would be admitted; else the reason that will last longest."""
    assert verdict(work_lease(phase, decided=decided, **spoken), ConditionName.CLAIMABLE) == (true, reason)


@pytest.mark.parametrize("phase", Phase)
def test_nothing_is_claimable_of_an_object_that_is_being_deleted(phase: Phase) -> None:
    """The API server refuses every claim of it."""
    assert verdict(work_lease(phase, deleting=True), ConditionName.CLAIMABLE) == ("False", ConditionReason.DELETING)


def test_work_is_not_claimable_while_the_operator_cannot_grant() -> None:
    """The claim that it cannot grant is pending, and every other one is refused meanwhile."""
    lease = work_lease(Phase.RELEASED)
    stall = Stall(StallReason.EPOCH_FLOOR_TOO_LOW, "raise it")
    derived = derive(lease, lease.status, stall, None, at(5), changed=False)
    claimable = next(c for c in derived if c.type == ConditionName.CLAIMABLE)
    assert (claimable.status, claimable.reason) == ("False", ConditionReason.STALLED)


@pytest.mark.parametrize("state", EffectState)
def test_effects_are_reconciled_when_none_is_attempted_or_unknown(state: EffectState) -> None:
    """Of whichever epoch they are."""
    lease = work_lease(Phase.RELEASED, effects=(effect(EffectState.SUCCEEDED, "e1"), effect(state, "e2", epoch=1)))
    expected = (
        ("False", ConditionReason.UNRECONCILED)
        if state in (EffectState.ATTEMPTED, EffectState.UNKNOWN)
        else ("True", ConditionReason.RECONCILED)
    )
    assert verdict(lease, ConditionName.EFFECTS_RECONCILED) == expected


def test_conditions_are_written_on_an_object_that_no_operator_has_seen() -> None:
    """A waiter may wait for Claimable on new work; the second decision writes nothing."""
    lease = bare(work_lease())
    decision = decide_at(lease)
    assert decision.status is not None
    assert decision.notices == ()
    assert decide_at(after(lease, decision)).status is None


@pytest.mark.parametrize("phase", sorted(set(Phase) - {Phase.COMPLETED}))
def test_suspension_is_written_at_once_and_taken_back_at_once(phase: Phase) -> None:
    """Who waits for Claimable learns of both; nothing but Claimable changes."""
    lease = work_lease(phase)
    suspended = after(lease, decide_at(said(lease, suspend=True), 5.0))
    changed = {c.type for c in suspended.status.conditions} - {
        c.type for c in suspended.status.conditions if c in lease.status.conditions
    }
    assert changed == {ConditionName.CLAIMABLE}
    assert suspended.status.model_copy(update={"conditions": lease.status.conditions}) == lease.status
    resumed = decided_status(suspended, 6.0)
    assert conditions_of(resumed)[ConditionName.CLAIMABLE].reason == verdict(lease, ConditionName.CLAIMABLE)[1]


def test_a_condition_keeps_its_time_while_its_status_is_the_same() -> None:
    """lastTransitionTime moves with status only, also where the reason changes (Kubernetes API conventions)."""
    lease = work_lease(Phase.HELD)
    released = after(lease, decide_at(said(lease, release=release()), 20.0))
    now = conditions_of(released.status)
    assert (now[ConditionName.CLAIMABLE].status, now[ConditionName.CLAIMABLE].last_transition_time) == (
        "True",
        wall(20),
    )
    assert (now[ConditionName.HELD].status, now[ConditionName.HELD].last_transition_time) == ("False", wall(20))
    jeopardy, expired = now[ConditionName.JEOPARDY], now[ConditionName.EXPIRED]
    assert (jeopardy.reason, jeopardy.last_transition_time) == ("Released", wall(0))
    assert (expired.reason, expired.last_transition_time) == ("Released", wall(0))


@pytest.mark.parametrize("phase", sorted(set(Phase) - LEASED))
def test_reconciling_the_effects_of_work_that_nobody_holds_is_said_at_once(phase: Phase) -> None:
    """Whoever waits for EffectsReconciled waits for a person, not for a transition."""
    lease = work_lease(phase, effects=(effect(EffectState.UNKNOWN),))
    lease = after(bare(lease), decide_at(bare(lease)))
    reconciled = decided_status(said(lease, effects=(effect(EffectState.SUCCEEDED),)), 9.0)
    condition = conditions_of(reconciled)[ConditionName.EFFECTS_RECONCILED]
    assert (condition.status, condition.last_transition_time) == ("True", wall(9))


def test_effects_of_a_holder_write_nothing() -> None:
    """EffectsReconciled is brought up to date with the next transition: an effect costs no status write."""
    lease = said(work_lease(Phase.HELD), effects=(effect(EffectState.ATTEMPTED),))
    assert decide_at(lease).status is None
    assert conditions_of(decided_status(lease, 60.0))[ConditionName.EFFECTS_RECONCILED].status == "False"


def test_a_transition_that_changes_no_other_condition_brings_effects_up_to_date() -> None:
    """A re-claim leads from Held to Held; what it says about effects is of now all the same."""
    lease = said(work_lease(Phase.HELD), effects=(effect(EffectState.UNKNOWN),), claim=reclaim())
    assert conditions_of(decided_status(lease))[ConditionName.EFFECTS_RECONCILED].status == "False"


def observed_skew(lease: WorkLease, skew_seconds: float) -> Observation:
    seen = sight(lease)
    assert seen is not None
    return replace(seen, skew_seconds=skew_seconds)


@pytest.mark.parametrize("skew", [-3600.0, -CLOCK_SKEW_SECONDS - 1, CLOCK_SKEW_SECONDS + 1, 3600.0])
def test_a_holders_clock_that_is_far_off_is_said_with_the_next_transition(skew: float) -> None:
    """ClockSkew appears with a transition, not by itself, and is taken back with a later one (case 7)."""
    lease = work_lease(Phase.HELD)
    assert decide(lease, observed_skew(lease, skew), at(1)).status is None
    status = decide(lease, observed_skew(lease, skew), at(60)).status
    assert status is not None
    condition = conditions_of(status)[ConditionName.CLOCK_SKEW]
    assert (condition.status, condition.reason) == ("True", ConditionReason.RENEW_TIME_FAR_OFF)
    jeopardy = lease.model_copy(update={"status": status})
    seen = replace(observed_skew(lease, 0.0), lapses_at=at(200).clock_seconds)
    back = decide(jeopardy, seen, at(80)).status
    assert back is not None
    condition = conditions_of(back)[ConditionName.CLOCK_SKEW]
    assert (condition.status, condition.reason, condition.last_transition_time) == (
        "False",
        ConditionReason.AS_EXPECTED,
        wall(80),
    )


@pytest.mark.parametrize("skew", [-CLOCK_SKEW_SECONDS, 0.0, CLOCK_SKEW_SECONDS])
def test_a_holders_clock_within_the_tolerance_is_not_worth_a_condition(skew: float) -> None:
    """The condition is absent where all has always been well."""
    status = decide(work_lease(Phase.HELD), observed_skew(work_lease(Phase.HELD), skew), at(60)).status
    assert status is not None
    assert ConditionName.CLOCK_SKEW not in conditions_of(status)


def test_skew_is_measured_from_a_renewal_that_the_operator_saw() -> None:
    """Not from one that was there when it started: that one is simply old."""
    lease = work_lease(Phase.HELD, renewal=renewal(0))
    assert decide(lease, observe(None, lease, at(3000), None), at(3060)).status is not None
    status = decided_status(lease, 3060.0, seen_at=3000.0)
    assert ConditionName.CLOCK_SKEW not in conditions_of(status)


def test_stalled_stays_visible_after_it_is_over() -> None:
    """An object that could not be acted on says False afterwards, and never mentions it before."""
    lease = work_lease(Phase.RELEASED)
    stall = Stall(StallReason.EPOCH_FLOOR_TOO_LOW, "raise it")
    stuck = derive(lease, lease.status, stall, None, at(5), changed=False)
    condition = next(c for c in stuck if c.type == ConditionName.STALLED)
    assert (condition.status, condition.reason, condition.message) == ("True", "EpochFloorTooLow", "raise it")
    status = lease.status.model_copy(update={"conditions": stuck})
    assert derive(lease, status, stall, None, at(6), changed=False) is stuck
    over = derive(lease, status, None, None, at(7), changed=False)
    condition = next(c for c in over if c.type == ConditionName.STALLED)
    assert (condition.status, condition.last_transition_time) == ("False", wall(7))


def test_a_stall_for_another_reason_is_written() -> None:
    """Message and reason count, not only True."""
    lease = work_lease(Phase.RELEASED)
    low, high = (Stall(reason, "m") for reason in (StallReason.EPOCH_FLOOR_TOO_LOW, StallReason.EPOCH_FLOOR_TOO_HIGH))
    status = lease.status.model_copy(
        update={"conditions": derive(lease, lease.status, low, None, at(5), changed=False)}
    )
    moved = next(c for c in derive(lease, status, high, None, at(6), changed=False) if c.type == ConditionName.STALLED)
    assert (moved.reason, moved.last_transition_time) == (StallReason.EPOCH_FLOOR_TOO_HIGH, wall(5))


@pytest.mark.parametrize("phase", Phase)
def test_no_condition_names_the_holder_or_its_purpose(phase: Phase) -> None:
    """A condition is what a loser reads: it learns when to come back, not from whom to steal (case 13)."""
    marked = {"holder_identity": MARKER, "instance": MARKER} if phase in LEASED else {}
    decided = {**marked, "claim_id": MARKER} if phase is not Phase.AVAILABLE else {}
    loser = claim(epoch=work_lease(phase).status.epoch)
    lease = work_lease(phase, decided=decided)
    lease = said(lease, claim=loser, effects=(effect(EffectState.UNKNOWN, MARKER),))
    for seconds in (1.0, 60.0, 90.0):
        decision = decide_at(lease, seconds)
        assert decision.status is not None
        refusals = [n.note for n in decision.notices if n.reason.value == "ClaimRefused"]
        assert MARKER not in str([c.manifest() for c in decision.status.conditions]) + str(refusals)
