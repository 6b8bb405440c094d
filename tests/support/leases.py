"""Small builders of WorkLeases for the tests of the decisions: a test names only what it is about.

A lease that is built here is at rest: its conditions are those that the operator would have written.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from worklease.api.statements import (
    Checkpoint,
    Claim,
    Completion,
    Effect,
    EffectState,
    Outcome,
    Release,
    Renewal,
    Revocation,
)
from worklease.api.worklease import (
    LEASED,
    Metadata,
    Phase,
    Successor,
    Tenure,
    Work,
    WorkLease,
    WorkLeaseSpec,
    WorkLeaseStatus,
)
from worklease.protocol import conditions
from worklease.protocol.decide import Decision, decide
from worklease.protocol.moments import Moment, rfc3339
from worklease.protocol.observation import Observation, observe

EPOCH = 100
VERSION = 500
LEASE_SECONDS = 60
JEOPARDY_SECONDS = 30
BOTH_SECONDS = LEASE_SECONDS + JEOPARDY_SECONDS
ALICE: dict[str, Any] = {"holder_identity": "alice", "instance": "pod:a-0/1"}
BOB: dict[str, Any] = {"holder_identity": "bob", "instance": "pod:b-0/1"}
CLOCK_START = 5000.0
WALL_START = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(seconds: float) -> Moment:
    """So many seconds after a lease that is built here was granted."""
    return Moment(CLOCK_START, WALL_START).later(seconds)


def wall(seconds: float) -> str:
    """The same instant as status stores it."""
    return rfc3339(WALL_START + timedelta(seconds=seconds))


def claim(**fields: Any) -> Claim:
    """Bob's claim of the current epoch."""
    return Claim(**{"epoch": EPOCH, "id": "claim-b", **BOB, "purpose": "to go on", **fields})


def reclaim(**fields: Any) -> Claim:
    """A fresh claim of Alice, who holds."""
    return claim(**{"id": "claim-a2", **ALICE, **fields})


def renewal(seconds: float = 0.0, epoch: int = EPOCH) -> Renewal:
    """Written by a holder whose clock is right."""
    return Renewal(epoch=epoch, renew_time=wall(seconds))


def checkpoint(digest: str = "sha256:1", epoch: int = EPOCH) -> Checkpoint:
    return Checkpoint(epoch=epoch, uri="s3://bucket/state", digest=digest, previous_digest="")


def effect(state: EffectState = EffectState.SUCCEEDED, name: str = "e", epoch: int = EPOCH) -> Effect:
    return Effect(id=name, epoch=epoch, recipient="mail", action="send", state=state)


def release(epoch: int = EPOCH, reason: str = "enough for today") -> Release:
    return Release(epoch=epoch, reason=reason)


def revocation(epoch: int = EPOCH, reason: str = "the pod is wedged") -> Revocation:
    return Revocation(epoch=epoch, reason=reason)


def completion(epoch: int = EPOCH, outcome: Outcome = Outcome.SUCCEEDED, message: str = "done") -> Completion:
    return Completion(epoch=epoch, outcome=outcome, message=message)


def successor(until_seconds: float = 1000.0, **fields: Any) -> Successor:
    """The work is reserved for Bob."""
    given = {"handoff": "to-bob", "handoff_uid": "uid-h", "until": wall(until_seconds), **BOB, **fields}
    return Successor(**given)


def status(phase: Phase, **fields: Any) -> WorkLeaseStatus:
    """What the operator has decided about work in that phase; Alice holds, or held last."""
    if phase is Phase.AVAILABLE:
        return WorkLeaseStatus(**fields)
    standing = phase in LEASED
    tenure = Tenure(
        epoch=EPOCH,
        claim_id="claim-a",
        **ALICE,
        purpose="to begin",
        grant_reason="FirstGrant",
        acquire_time=wall(0),
        end_time=None if standing else wall(0),
        end_reason=None if standing else phase.value,
        end_message=None if standing else "as it was",
    )
    defaults: dict[str, Any] = {
        "epoch": EPOCH,
        "lease_transitions": 1,
        "claim_id": "claim-a",
        "acquire_time": wall(0),
        "lease_duration_seconds": LEASE_SECONDS,
        "jeopardy_duration_seconds": JEOPARDY_SECONDS,
        "grant_reason": "FirstGrant",
        "history": (tenure,),
        **(ALICE if standing else {}),
    }
    return WorkLeaseStatus(phase=phase, **{**defaults, **fields})


def work_lease(
    phase: Phase = Phase.AVAILABLE,
    *,
    version: int | str = VERSION,
    deleting: bool = False,
    decided: dict[str, Any] | None = None,
    **said: Any,
) -> WorkLease:
    """A WorkLease in that phase; `said` goes into spec, `decided` into status."""
    terms = {"lease_duration_seconds": LEASE_SECONDS, "jeopardy_duration_seconds": JEOPARDY_SECONDS}
    lease = WorkLease(
        metadata=Metadata(
            name="item",
            namespace="team",
            uid="uid-1",
            resource_version=str(version),
            deletion_timestamp="2026-11-30T12:00:00Z" if deleting else None,
        ),
        spec=WorkLeaseSpec(work=Work(type="ticket", id="T-1"), **{**terms, **said}),
        status=status(phase, **(decided or {})),
    )
    if decided is not None and "conditions" in decided:
        return lease
    derived = conditions.derive(lease, lease.status, None, None, at(0), changed=True)
    return lease.model_copy(update={"status": lease.status.model_copy(update={"conditions": derived})})


def after(lease: WorkLease, decision: Decision) -> WorkLease:
    """The lease once the decision has been stored."""
    if decision.status is None:
        return lease
    version = str(int(lease.metadata.resource_version) + 1)
    metadata = lease.metadata.model_copy(update={"resource_version": version})
    return lease.model_copy(update={"status": decision.status, "metadata": metadata})


def said(lease: WorkLease, **statements: Any) -> WorkLease:
    """The lease once these statements have been stored."""
    version = str(int(lease.metadata.resource_version) + 1)
    return lease.model_copy(
        update={
            "spec": lease.spec.model_copy(update=statements),
            "metadata": lease.metadata.model_copy(update={"resource_version": version}),
        }
    )


def sight(lease: WorkLease, seconds: float = 0.0) -> Observation | None:
    """What an operator knows that sees the lease for the first time, and has no server's times."""
    return observe(None, lease, at(seconds), None)


def decide_at(lease: WorkLease, seconds: float = 1.0, *, seen_at: float = 0.0, floor: int = 0) -> Decision:
    """The decision about a lease that was first seen a moment ago."""
    return decide(lease, sight(lease, seen_at), at(seconds), floor=floor)


def decided_status(lease: WorkLease, seconds: float = 1.0, *, seen_at: float = 0.0, floor: int = 0) -> WorkLeaseStatus:
    """The status that is written; fails where none is."""
    decision = decide_at(lease, seconds, seen_at=seen_at, floor=floor)
    assert decision.status is not None, "nothing was decided"
    return decision.status
