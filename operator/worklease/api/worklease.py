"""WorkLease: one object per work item. spec is what was said, status is what was decided."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from worklease.api import statements
from worklease.api.cel import INVALID, Check, Rule, same
from worklease.api.fields import (
    EFFECTS_MAX,
    HISTORY_MAX,
    Condition,
    Count,
    Digest,
    GrantedEpoch,
    Identifier,
    Instance,
    ObjectName,
    Part,
    ReasonWord,
    Timestamp,
    Username,
    Words,
    text,
)
from worklease.api.statements import (
    IS_LEASED,
    Checkpoint,
    Claim,
    Completion,
    Effect,
    Release,
    Renewal,
    Revocation,
)

DEFAULT_LEASE_SECONDS = 600
DEFAULT_JEOPARDY_SECONDS = 30
LeaseSeconds = Annotated[int, Field(ge=10, le=86400, json_schema_extra={"format": "int32"})]
JeopardySeconds = Annotated[int, Field(ge=0, le=3600, json_schema_extra={"format": "int32"})]
WORK_ITSELF = Rule(checks=(Check("work.immutable", "self == oldSelf", "work is immutable"),))


class Phase(StrEnum):
    """Where the work item stands. Available, Expired, Released and Revoked are free: anybody may claim."""

    AVAILABLE = "Available"
    """Nobody has held the work."""
    HELD = "Held"
    """Somebody holds the work, and may cause effects."""
    JEOPARDY = "Jeopardy"
    """The lease has lapsed: its holder may still renew, but causes no effects, and nobody else may have the work."""
    EXPIRED = "Expired"
    """The last holder did not renew in time."""
    RELEASED = "Released"
    """The last holder gave the work back."""
    REVOKED = "Revoked"
    """An administrator ended the last tenure."""
    COMPLETED = "Completed"
    """The work is done: nothing more is said about it, unless an administrator revokes the completion."""


FREE = frozenset({Phase.AVAILABLE, Phase.EXPIRED, Phase.RELEASED, Phase.REVOKED})
LEASED = frozenset({Phase.HELD, Phase.JEOPARDY})


class Work(Part):
    """Which work this is, in the words of the system that it comes from. Immutable."""

    type: Annotated[str, text(63, minimum=1, pattern=r"^[!-~]+$"), Field(description="The kind of work.")]
    id: Annotated[ObjectName, Field(description="The work's id in the system that it comes from.")]


class WorkLeaseSpec(Part):
    """What was said. Agents, people and Git write statements here; the API server refuses what is not permitted."""

    work: Work
    lease_duration_seconds: Annotated[
        LeaseSeconds,
        Field(
            description="How long a lease lasts after its grant and after each renewal. Taken over into status at a "
            "grant: a change never alters a running tenure. A change needs the verb configure."
        ),
    ] = DEFAULT_LEASE_SECONDS
    jeopardy_duration_seconds: Annotated[
        JeopardySeconds,
        Field(
            description="How long a lapsed lease stays in jeopardy, when its holder may still renew but causes no "
            "effects, before anybody else may have the work. Taken over into status at a grant."
        ),
    ] = DEFAULT_JEOPARDY_SECONDS
    suspend: Annotated[
        bool,
        Field(
            description="No new claims are admitted while true; a holder goes on. A change needs the verb configure."
        ),
    ] = False
    claim: Claim | None = None
    renewal: Renewal | None = None
    checkpoint: Checkpoint | None = None
    effects: Annotated[
        tuple[Effect, ...],
        Field(
            max_length=EFFECTS_MAX,
            description="What was done outside, written before it is sent. A tenure that needs more than "
            f"{EFFECTS_MAX} claims again and drops those that are reconciled.",
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
                "default": [],
            },
        ),
    ] = ()
    release: Release | None = None
    revocation: Revocation | None = None
    completion: Completion | None = None


class EffectCounts(Part):
    """How many effects of a tenure were in each state when it ended; a state that none was in is absent."""

    attempted: Annotated[Count | None, Field(description="Sent, with no outcome recorded.")] = None
    succeeded: Annotated[Count | None, Field(description="Known to have happened.")] = None
    failed: Annotated[Count | None, Field(description="Known not to have happened.")] = None
    unknown: Annotated[Count | None, Field(description="Sent, and nobody knows with what outcome.")] = None
    compensated: Annotated[Count | None, Field(description="Happened, and was made good.")] = None


class Tenure(Part):
    """One holder's time with the work, from its grant to its end."""

    epoch: Annotated[GrantedEpoch, Field(description="The epoch of the grant.")]
    claim_id: Annotated[Identifier | None, Field(alias="claimID", description="The claim that was granted.")] = None
    holder_identity: Annotated[Username | None, Field(description="Who held the work.")] = None
    instance: Annotated[Instance | None, Field(description="Which process of that identity.")] = None
    purpose: Annotated[Words | None, Field(description="What the holder said it was going to do.")] = None
    grant_reason: Annotated[ReasonWord | None, Field(description="Why the claim was granted.")] = None
    grant_message: Annotated[Words | None, Field(description="Why, as a sentence.")] = None
    acquire_time: Annotated[Timestamp | None, Field(description="When it was granted.")] = None
    handoff_uid: Annotated[
        Identifier | None, Field(alias="handoffUID", description="The handoff that it was granted by, if any.")
    ] = None
    end_time: Annotated[Timestamp | None, Field(description="When it ended; absent while it lasts.")] = None
    end_reason: Annotated[ReasonWord | None, Field(description="Why it ended, as one word.")] = None
    end_message: Annotated[Words | None, Field(description="Why it ended, in the words of whoever ended it.")] = None
    renewals: Annotated[Count | None, Field(description="Renewals that the operator which ended it had seen.")] = None
    last_renew_time: Annotated[Timestamp | None, Field(description="renewTime of the last renewal.")] = None
    longest_gap_seconds: Annotated[
        Count | None, Field(description="The longest time between two renewals that the operator had seen.")
    ] = None
    checkpoint_digest: Annotated[Digest | None, Field(description="The checkpoint that it left.")] = None
    effects: EffectCounts | None = None


class Successor(Part):
    """For whom the work is reserved once an accepted handoff has taken effect."""

    holder_identity: Annotated[Username, Field(description="Who alone may claim until then.")]
    instance: Annotated[Instance | None, Field(description="Which process of that identity, if it matters.")] = None
    handoff: Annotated[ObjectName, Field(description="The name of the handoff.")]
    handoff_uid: Annotated[Identifier, Field(alias="handoffUID", description="Its uid: a name can be re-created.")]
    until: Annotated[Timestamp, Field(description="When the reservation ends without a claim.")]


class WorkLeaseStatus(Part):
    """What was decided. Only the operator writes here."""

    phase: Annotated[Phase, Field(description="Where the work item stands.")] = Phase.AVAILABLE
    epoch: Annotated[
        GrantedEpoch,
        Field(
            description="The fencing epoch of the latest grant. It only grows: a recipient refuses any lower one than "
            "it has seen."
        ),
    ] = 0
    lease_transitions: Annotated[Count | None, Field(description="How many grants there have been.")] = None
    holder_identity: Annotated[Username | None, Field(description="The holder; absent when the work is free.")] = None
    instance: Annotated[Instance | None, Field(description="Which process of the holder.")] = None
    claim_id: Annotated[
        Identifier | None,
        Field(alias="claimID", description="The claim of the latest grant: yours, or somebody else's."),
    ] = None
    observed_claim_id: Annotated[
        Identifier | None, Field(alias="observedClaimID", description="The claim that the operator refused last.")
    ] = None
    acquire_time: Annotated[Timestamp | None, Field(description="When the latest grant was made.")] = None
    lease_duration_seconds: Annotated[LeaseSeconds | None, Field(description="The terms of the latest grant.")] = None
    jeopardy_duration_seconds: Annotated[
        JeopardySeconds | None, Field(description="The terms of the latest grant.")
    ] = None
    grant_reason: Annotated[ReasonWord | None, Field(description="Why this holder, as one word.")] = None
    grant_message: Annotated[Words | None, Field(description="Why this holder, as a sentence.")] = None
    successor: Successor | None = None
    history: Annotated[
        tuple[Tenure, ...],
        Field(
            max_length=HISTORY_MAX,
            description=f"The last {HISTORY_MAX} tenures, the oldest first.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            description="Claimable, Held, Jeopardy, Expired, EffectsReconciled, and Stalled or ClockSkew in trouble.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()

    def is_held_by(self, holder_identity: str, instance: str) -> bool:
        """This very process holds the work."""
        return self.phase in LEASED and (self.holder_identity, self.instance) == (holder_identity, instance)

    def is_reserved_for(self, holder_identity: str, instance: str) -> bool:
        """This process is the target of an accepted handoff, for whom alone the work is kept."""
        kept = self.successor
        return kept is not None and kept.holder_identity == holder_identity and kept.instance in (None, instance)

    def pending(self, claim: Claim | None) -> Claim | None:
        """The claim, when by this status it has been neither granted nor refused."""
        if claim is None or claim.epoch != self.epoch or claim.id == self.observed_claim_id:
            return None
        return claim


_HIGHER = "status.epoch > was.epoch"
_SAME_CLAIM = same("status.?claimID", "was.?claimID")
_SAME_HOLDER = f"{same('status.?holderIdentity', 'was.?holderIdentity')} && {same('status.?instance', 'was.?instance')}"
_TERMS = ("holderIdentity", "instance", "claimID", "acquireTime", "leaseDurationSeconds", "jeopardyDurationSeconds")
# What the operator itself may not write, whatever it believes.
STATUS_RULE = Rule(
    field_path=".status",
    reason=INVALID,
    # The API server lets no write of spec touch status: the most frequent one is told from the rest at little cost.
    unless=f"!({same('self.spec.?renewal', 'oldSelf.spec.?renewal')})",
    then_given={"status": "self.status", "was": "oldSelf.status"},
    checks=(
        Check("status.epoch", "status.epoch >= was.epoch", "an epoch never goes back"),
        Check(
            "status.grant",
            f"{_HIGHER} || ({_SAME_CLAIM} && (!has(status.holderIdentity) || ({_SAME_HOLDER})))",
            "another holder or claim needs a higher epoch",
        ),
        Check(
            "status.ended",
            f"{_HIGHER} || {same('status.phase', 'was.phase')} || was.phase in ['Available', 'Held', 'Jeopardy']"
            " || (was.phase == 'Completed' && status.phase == 'Revoked')",
            "an ended tenure does not come back at its epoch",
        ),
        Check(
            "status.terms",
            f"!({IS_LEASED}) || ({' && '.join(f'has(status.{name})' for name in _TERMS)})",
            "a held lease has a holder, a claim and terms",
        ),
    ),
)
RULES: dict[str, tuple[Rule, ...]] = {
    "": (*statements.RULES, STATUS_RULE),
    "spec.work": (WORK_ITSELF,),
    **{f"spec.effects.items.{name}".rstrip("."): rules for name, rules in statements.EFFECT_ITSELF.items()},
}
"""Every rule, by the level at which it stands: it sees that level and what is below."""


class Metadata(Part):
    """What we read of an object's metadata."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generation: int | None = None


class WorkLease(Part):
    """A lease on one work item: who holds it, until when, under which fencing epoch, and what was done under it."""

    metadata: Metadata
    spec: WorkLeaseSpec
    status: WorkLeaseStatus = WorkLeaseStatus()

    @property
    def key(self) -> str:
        """namespace/name: the work's identity for its whole life."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def claim_pending(self) -> bool:
        """A claim is there that has been neither granted nor refused."""
        return self.status.pending(self.spec.claim) is not None


COLUMNS: list[dict[str, Any]] = [
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Holder", "type": "string", "jsonPath": ".status.holderIdentity"},
    {"name": "Epoch", "type": "integer", "jsonPath": ".status.epoch"},
    {"name": "Since", "type": "date", "jsonPath": ".status.acquireTime"},
    {"name": "Suspended", "type": "boolean", "jsonPath": ".spec.suspend"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Work", "type": "string", "jsonPath": ".spec.work.id", "priority": 1},
    {"name": "Instance", "type": "string", "jsonPath": ".status.instance", "priority": 1},
    {"name": "Renewed", "type": "date", "jsonPath": ".spec.renewal.renewTime", "priority": 1},
    {"name": "Reason", "type": "string", "jsonPath": ".status.grantReason", "priority": 1},
]
SELECTABLE = (".status.phase", ".status.holderIdentity", ".spec.work.type", ".spec.work.id")
