"""What holds for every WorkLease that fits the schema, whatever statements it combines: hypothesis looks for others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.lease_strategies import MARKER, Case, cases, lawful_cases, names
from support.leases import after, at, renewal, work_lease
from support.status_rule import violations
from worklease.api.fields import HISTORY_MAX, STATED_EPOCH_MAX
from worklease.api.handoff import HandoffPhase
from worklease.api.statements import EPOCH_STATEMENTS
from worklease.api.worklease import LEASED, Phase, WorkLease, WorkLeaseStatus
from worklease.protocol.decide import Decision, decide, highest_mentioned
from worklease.protocol.observation import last_heard, observe
from worklease.protocol.reasons import ConditionName, EventReason

quick = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def decided(case: Case) -> Decision:
    return decide(case.lease, case.observation, case.now, floor=case.floor, handoffs=case.handoffs)


def stalled(status: WorkLeaseStatus) -> bool:
    return any(c.type == ConditionName.STALLED and c.status == "True" for c in status.conditions)


def granted(case: Case, decision: Decision) -> bool:
    return any(notice.reason is EventReason.GRANTED for notice in decision.notices)


@quick
@given(cases)
def test_a_decision_is_made_about_every_object(case: Case) -> None:
    """decide never raises, and what it writes fits the schema: patterns, lengths, enums, bounds."""
    decision = decided(case)
    if decision.status is None:
        assert decision.notices == ()
        return
    assert decision.wake_at is None
    assert WorkLeaseStatus.model_validate(decision.status.manifest()) == decision.status
    assert len(decision.status.history) <= HISTORY_MAX


@quick
@given(cases)
def test_a_decision_about_its_own_result_is_to_leave_it(case: Case) -> None:
    """Stored and seen again, the object asks for nothing: no loop of writes, and no second grant."""
    decision = decided(case)
    if decision.status is None:
        assert decided(case) == decision
        return
    metadata = case.lease.metadata
    if metadata.resource_version.isascii() and metadata.resource_version.isdigit() and not stalled(decision.status):
        stored = after(case.lease, decision)
    else:  # with a higher revision there may be an epoch to grant: what was stalled goes on, as it should
        stored = case.lease.model_copy(update={"status": decision.status})
    seen = observe(case.observation, stored, case.now, None)
    again = decided(replace(case, lease=stored, observation=seen))
    assert again.status is None


@quick
@given(lawful_cases)
def test_what_is_written_satisfies_the_rule_of_the_custom_resource(case: Case) -> None:
    """Epochs never go back, a holder or claim changes only with a higher one, an ended tenure stays ended."""
    decision = decided(case)
    if decision.status is not None:
        assert violations(case.lease.status, decision.status) == []


@quick
@given(cases)
def test_a_grant_has_an_epoch_above_everything_that_was_ever_mentioned(case: Case) -> None:
    """It is the revision that was read plus the floor, and a statement may name it."""
    decision = decided(case)
    status, before = decision.status, case.lease.status
    if status is None:
        return
    assert status.epoch >= before.epoch
    if granted(case, decision):
        assert status.epoch == case.floor + int(case.lease.metadata.resource_version)
        assert max(before.epoch, highest_mentioned(case.lease)) < status.epoch <= STATED_EPOCH_MAX
        assert case.lease.metadata.deletion_timestamp is None
        assert status.lease_transitions == (before.lease_transitions or 0) + 1
    else:
        assert status.epoch in (before.epoch, highest_mentioned(case.lease))
        assert status.lease_transitions == before.lease_transitions


@quick
@given(cases)
def test_no_claim_stays_pending(case: Case) -> None:
    """Every claim is granted or refused by the first decision that sees it, deletion and a stall aside."""
    decision = decided(case)
    stored = case.lease if decision.status is None else case.lease.model_copy(update={"status": decision.status})
    if stored.claim_pending:
        assert case.lease.metadata.deletion_timestamp is not None or stalled(stored.status)


@quick
@given(cases)
def test_nobody_is_woken_for_what_is_past_nor_forgotten_with_what_will_come(case: Case) -> None:
    """Without a write the next wake-up lies ahead (no busy loop), and is there while anything will come due."""
    decision = decided(case)
    if decision.status is not None:
        return
    status, seen = case.lease.status, case.observation
    timed = seen is not None and seen.epoch == status.epoch and status.phase in LEASED
    # What took effect is not taken back before the handoff has been told; its own decision comes first.
    untold = {one.metadata.uid for one in case.handoffs if one.status.phase is HandoffPhase.PENDING}
    reserved = status.successor is not None and status.successor.handoff_uid not in untold
    assert (decision.wake_at is not None) == (timed or reserved)
    if decision.wake_at is not None:
        assert decision.wake_at > case.now.clock_seconds


@quick
@given(lawful_cases)
def test_a_wake_up_is_not_too_early_and_not_too_late(case: Case) -> None:
    """Nothing would be written just before it, and something is at its time."""
    decision = decided(case)
    if decision.status is not None or decision.wake_at is None:
        return
    wait = decision.wake_at - case.now.clock_seconds
    if wait > 0.01:
        assert decided(replace(case, now=case.now.later(wait - 0.01))).status is None
    assert decided(replace(case, now=case.now.later(wait + 0.001))).status is not None


@quick
@given(cases)
def test_no_condition_and_no_refusal_names_anybody(case: Case) -> None:
    """A loser learns when to come back, and nothing about the holder or its purpose (case 13)."""
    decision = decided(case)
    if decision.status is None:
        return
    assert MARKER not in str([condition.manifest() for condition in decision.status.conditions])
    for notice in decision.notices:
        if notice.reason not in (EventReason.GRANTED, EventReason.RESERVED):
            assert MARKER not in notice.note


@quick
@given(lawful_cases)
def test_statements_about_other_epochs_decide_nothing(case: Case) -> None:
    """With every statement of another epoch taken out, the same is decided: past words have no effect (case 15)."""
    status, spec = case.lease.status, case.lease.spec
    if status.phase is Phase.AVAILABLE:
        return  # epoch 0: statements of other epochs are what is adopted
    others = {
        name: None
        for name in EPOCH_STATEMENTS
        if (said := getattr(spec, name)) is not None and said.epoch != status.epoch
    }
    others.pop("checkpoint", None)  # it stands for the work, whoever wrote it
    pruned = case.lease.model_copy(update={"spec": spec.model_copy(update=others)})
    decision, without = decided(case), decided(replace(case, lease=pruned))
    for one, other in ((decision, without), (without, decision)):
        if one.status is not None and stalled(one.status):
            return  # an epoch that is mentioned cannot be granted: the one effect that other epochs do have
        assert one.status == other.status


@quick
@given(lawful_cases, names, st.sampled_from(["pod:z/1", "host:z/1"]))
def test_who_speaks_for_free_work_does_not_matter(case: Case, name: str, instance: str) -> None:
    """On work that is free and not reserved, a claim is decided alike whoever it is of."""
    status, claim = case.lease.status, case.lease.spec.claim
    if claim is None or status.phase in LEASED or status.successor is not None:
        return
    other = claim.model_copy(update={"holder_identity": name, "instance": instance})
    lease = case.lease.model_copy(update={"spec": case.lease.spec.model_copy(update={"claim": other})})
    decision = decided(replace(case, lease=lease))
    assert granted(case, decision) == granted(case, decided(case))


managed_fields = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["2026-11-30T12:00:00Z", "t"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["time", "subresource", "fieldsV1", "f:spec", "f:renewal", "f:status", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@quick
@given(managed_fields, st.sampled_from([0, 1]))
def test_no_managed_fields_stop_an_observation(entries: Any, offset: int) -> None:
    """Whatever the server says about its fields, the lease is timed, and never beyond its full durations."""
    lease: WorkLease = work_lease(Phase.HELD, renewal=renewal(epoch=work_lease(Phase.HELD).status.epoch + offset))
    seen = observe(None, lease, at(7), last_heard(lease, entries))
    assert seen is not None
    assert seen.lapses_at <= at(67).clock_seconds
    assert seen.lapses_at <= seen.expires_at <= at(97).clock_seconds
