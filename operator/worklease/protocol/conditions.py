"""status.conditions, derived from the rest: a table of types, each with its verdict on a status."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from worklease.api.fields import Condition
from worklease.api.statements import UNRECONCILED
from worklease.api.worklease import LEASED, Phase, WorkLease, WorkLeaseStatus
from worklease.protocol.history import words
from worklease.protocol.moments import Moment, rfc3339
from worklease.protocol.observation import Observation
from worklease.protocol.reasons import ConditionName, ConditionReason, StallReason

CLOCK_SKEW_SECONDS = 10.0
"""How far a renewTime may be from the server's time before ClockSkew says so."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a condition says."""

    true: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Stall:
    """Why the operator cannot act, for condition Stalled."""

    reason: StallReason
    message: str


def claimable(lease: WorkLease, status: WorkLeaseStatus) -> Verdict:
    if lease.metadata.deletion_timestamp is not None:
        return Verdict(False, ConditionReason.DELETING, "the object is being deleted")
    if status.phase is Phase.COMPLETED:
        return Verdict(False, Phase.COMPLETED, "the work is complete")
    if lease.spec.suspend:
        return Verdict(False, ConditionReason.SUSPENDED, "the work is suspended")
    if status.phase in LEASED:
        return Verdict(False, ConditionReason.HELD, "the work is leased")
    if status.successor is not None:
        return Verdict(False, ConditionReason.RESERVED, "the work is reserved for the target of a handoff")
    return Verdict(True, ConditionReason.FREE, "the work is free")


def held(lease: WorkLease, status: WorkLeaseStatus) -> Verdict:
    return Verdict(status.phase is Phase.HELD, status.phase, _PHASE_MESSAGES[status.phase])


def jeopardy(lease: WorkLease, status: WorkLeaseStatus) -> Verdict:
    return Verdict(status.phase is Phase.JEOPARDY, status.phase, _PHASE_MESSAGES[status.phase])


def expired(lease: WorkLease, status: WorkLeaseStatus) -> Verdict:
    return Verdict(status.phase is Phase.EXPIRED, status.phase, _PHASE_MESSAGES[status.phase])


def effects_reconciled(lease: WorkLease, status: WorkLeaseStatus) -> Verdict:
    open_effects = sum(effect.state in UNRECONCILED for effect in lease.spec.effects)
    if open_effects:
        return Verdict(False, ConditionReason.UNRECONCILED, f"{open_effects} effect(s) are Attempted or Unknown")
    return Verdict(True, ConditionReason.RECONCILED, "no effect is Attempted or Unknown")


_PHASE_MESSAGES = {
    Phase.AVAILABLE: "nobody has held the work",
    Phase.HELD: "the lease is held",
    Phase.JEOPARDY: "the lease has lapsed: its holder may renew, but causes no effects",
    Phase.EXPIRED: "the last holder did not renew in time",
    Phase.RELEASED: "the last holder gave the work back",
    Phase.REVOKED: "the last tenure was revoked",
    Phase.COMPLETED: "the work is complete",
}

# Those that decide whether anything has changed; the rest is rewritten when something has. The effects of a holder
# change with every effect, those of free work only when somebody reconciles them.
_SIGNIFICANT: dict[ConditionName, Callable[[WorkLease, WorkLeaseStatus], Verdict]] = {
    ConditionName.CLAIMABLE: claimable,
    ConditionName.HELD: held,
    ConditionName.JEOPARDY: jeopardy,
    ConditionName.EXPIRED: expired,
}


def derive(
    lease: WorkLease,
    status: WorkLeaseStatus,
    stall: Stall | None,
    observation: Observation | None,
    now: Moment,
    *,
    changed: bool,
) -> tuple[Condition, ...]:
    """The conditions for `status`: those it has when neither it (`changed`) nor a significant one has changed."""
    before = {condition.type: condition for condition in status.conditions}
    verdicts: dict[ConditionName, Verdict] = {name: judge(lease, status) for name, judge in _SIGNIFICANT.items()}
    if status.phase not in LEASED:
        verdicts[ConditionName.EFFECTS_RECONCILED] = effects_reconciled(lease, status)
    if stall is not None:
        verdicts[ConditionName.STALLED] = Verdict(True, stall.reason, stall.message)
        if verdicts[ConditionName.CLAIMABLE].true:
            verdicts[ConditionName.CLAIMABLE] = Verdict(False, ConditionReason.STALLED, "no claim can be granted now")
    elif ConditionName.STALLED in before:
        verdicts[ConditionName.STALLED] = Verdict(
            False, ConditionReason.AS_EXPECTED, "the operator acts on this object"
        )
    if not changed and all(_says(before.get(name), verdict) for name, verdict in verdicts.items()):
        return status.conditions
    verdicts[ConditionName.EFFECTS_RECONCILED] = effects_reconciled(lease, status)
    if observation is not None and abs(observation.skew_seconds) > CLOCK_SKEW_SECONDS:
        verdicts[ConditionName.CLOCK_SKEW] = Verdict(
            True, ConditionReason.RENEW_TIME_FAR_OFF, "the holder's renewTime is far from the server's time"
        )
    elif ConditionName.CLOCK_SKEW in before:
        verdicts[ConditionName.CLOCK_SKEW] = Verdict(False, ConditionReason.AS_EXPECTED, "renewTime is as it should be")
    return tuple(condition(name, verdict, before.get(name), now.wall) for name, verdict in verdicts.items())


def _says(condition: Condition | None, verdict: Verdict) -> bool:
    return condition is not None and said(condition) == (str(verdict.true), str(verdict.reason), verdict.message)


def said(condition: Condition) -> tuple[str, str, str]:
    """What a condition says, whatever its type and since when."""
    return condition.status, condition.reason, condition.message


def condition(name: str, verdict: Verdict, before: Condition | None, wall: datetime) -> Condition:
    """The condition of this type from now on: lastTransitionTime moves only when its status does."""
    kept = before is not None and before.status == str(verdict.true)
    return Condition(
        type=str(name),
        status=str(verdict.true),
        last_transition_time=before.last_transition_time if before is not None and kept else rfc3339(wall),
        reason=str(verdict.reason),
        message=words(verdict.message),
    )
