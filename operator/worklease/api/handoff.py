"""Handoff: work offered to a named target, which alone answers, once. An inbox item, not a queue."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from worklease.api.cel import Check, Rule
from worklease.api.fields import (
    Condition,
    Digest,
    GrantedEpoch,
    Instance,
    ObjectName,
    Part,
    StatedEpoch,
    Timestamp,
    Uri,
    Username,
    Words,
    text,
)
from worklease.api.worklease import Metadata

DEFAULT_ACCEPT_SECONDS = 3600
DEFAULT_CLAIM_SECONDS = 300


class HandoffPhase(StrEnum):
    """Where a handoff stands. Pending and Accepted are on their way; every other phase is final."""

    PENDING = "Pending"
    """It waits for the target's answer."""
    ACCEPTED = "Accepted"
    """The target has accepted and it has taken effect: the work is reserved for the target."""
    REJECTED = "Rejected"
    """The target does not want it."""
    WITHDRAWN = "Withdrawn"
    """The sender has taken it back."""
    EXPIRED = "Expired"
    """The target did not answer in time."""
    STALE = "Stale"
    """What it offers is not there any more, or is not its sender's: the message says which."""
    COMPLETED = "Completed"
    """The target was granted the work, under status.grantedEpoch."""
    LAPSED = "Lapsed"
    """The target accepted and did not claim in time: the sender goes on."""


class ResponseDecision(StrEnum):
    """What was answered: the target accepts or rejects, the sender withdraws."""

    ACCEPTED = "Accepted"
    REJECTED = "Rejected"
    WITHDRAWN = "Withdrawn"


class Target(Part):
    """Who may accept, and then claim."""

    holder_identity: Annotated[Username, Field(description="The authenticated username of the target.")]
    instance: Annotated[
        Instance | None, Field(description="Only this process of that identity; absent for any of them.")
    ] = None


class ContextRef(Part):
    """Where the target finds what it needs to know beyond the message."""

    uri: Annotated[Uri, Field(description="Where the target finds it.")]
    digest: Annotated[Digest | None, Field(description="What identifies its content.")] = None


class OfferedCheckpoint(Part):
    """Where the work stood when it was offered."""

    uri: Annotated[Uri, Field(description="Where the checkpoint is stored.")]
    digest: Annotated[Digest, Field(description="What identifies its content.")]


class Response(Part):
    """The answer: written once, by the target (Accepted, Rejected) or by the sender (Withdrawn)."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    decision: Annotated[ResponseDecision, Field(description="Accepted, Rejected or Withdrawn.")]
    reason: Annotated[Words, Field(description="Why, for the other side; may be empty.")]


class HandoffSpec(Part):
    """The offer, immutable, and its one response."""

    work_lease_name: Annotated[ObjectName, Field(description="The WorkLease in the same namespace.")]
    epoch: Annotated[
        StatedEpoch | None,
        Field(
            description="The tenure that is offered. Without it the operator takes the one it finds and writes it in "
            "status.epoch; with it, the offer is Stale as soon as the epoch is another."
        ),
    ] = None
    from_: Annotated[
        Username | None,
        Field(
            alias="from",
            description="The holder who offers; the speaker's own username. Absent for an offer by an administrator or "
            "from Git, which needs the verb delegate.",
        ),
    ] = None
    from_instance: Annotated[Instance | None, Field(description="The sender's own instance; goes with from.")] = None
    to: Target
    subject: Annotated[Words | None, Field(description="What it is about, in a line.")] = None
    message: Annotated[
        str | None,
        text(4096, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$"),
        Field(description="What the target needs to know; may have several lines."),
    ] = None
    context_ref: ContextRef | None = None
    checkpoint: OfferedCheckpoint | None = None
    accept_within_seconds: Annotated[
        int,
        Field(
            ge=1,
            le=604800,
            description="How long the target may take to answer.",
            json_schema_extra={"format": "int32"},
        ),
    ] = DEFAULT_ACCEPT_SECONDS
    claim_within_seconds: Annotated[
        int,
        Field(
            ge=1,
            le=86400,
            description="How long the work is reserved for the target once its acceptance has taken effect.",
            json_schema_extra={"format": "int32"},
        ),
    ] = DEFAULT_CLAIM_SECONDS
    response: Response | None = None


class HandoffStatus(Part):
    """What became of the offer. Only the operator writes here."""

    phase: Annotated[HandoffPhase, Field(description="Where the handoff stands.")] = HandoffPhase.PENDING
    observed_generation: Annotated[
        int | None,
        Field(ge=0, description="The generation that this was decided from.", json_schema_extra={"format": "int64"}),
    ] = None
    epoch: Annotated[GrantedEpoch | None, Field(description="The tenure that is offered.")] = None
    granted_epoch: Annotated[GrantedEpoch | None, Field(description="The epoch that the target was granted.")] = None
    answer_by: Annotated[Timestamp | None, Field(description="Until when the target may answer.")] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            description="Ready (always True, the phase is its reason); CheckpointMoved for an offer with a checkpoint; "
            "WorkLeaseMissing in trouble.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()


class Handoff(Part):
    """An offer of work to a named target. The target accepts or rejects it, once; an accepted one reserves the work
    for the target, whose claim moves it under a higher epoch.
    """

    metadata: Metadata
    spec: HandoffSpec
    status: HandoffStatus = HandoffStatus()

    @property
    def key(self) -> str:
        """namespace/name of the handoff."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def lease_key(self) -> str:
        """namespace/name of the WorkLease."""
        return f"{self.metadata.namespace}/{self.spec.work_lease_name}"


def _same(name: str) -> str:
    now, stored = f"self.spec.{name}", f"oldSelf.spec.{name}"
    return f"(has({now}) ? has({stored}) && {now} == {stored} : !has({stored}))"


_OFFER = [field.alias or name for name, field in HandoffSpec.model_fields.items() if name != "response"]
RULES = (
    Rule(
        field_path=".spec",
        checks=(
            Check(
                "handoff.immutable",
                " && ".join(_same(name) for name in _OFFER),
                "a handoff is immutable; only its response is written, once",
            ),
        ),
    ),
    Rule(
        field_path=".spec.response",
        unless=_same("response"),
        checks=(
            Check("handoff.once", "!has(oldSelf.spec.response)", "a handoff is answered once"),
            Check("handoff.pending", "oldSelf.status.phase == 'Pending'", "the handoff is no longer pending"),
        ),
    ),
    Rule(
        field_path=".spec",
        optional_old_self=True,
        unless="oldSelf.hasValue()",
        checks=(
            Check("handoff.unanswered", "!has(self.spec.response)", "a new handoff has no response"),
            Check(
                "handoff.sender",
                "has(self.spec.from) == has(self.spec.fromInstance)",
                "from and fromInstance go together",
            ),
            Check(
                "handoff.oneself",
                "!has(self.spec.from) || self.spec.from != self.spec.to.holderIdentity"
                " || (has(self.spec.to.instance) && self.spec.to.instance != self.spec.fromInstance)",
                "a handoff goes to somebody else",
            ),
        ),
    ),
)

COLUMNS: list[dict[str, Any]] = [
    {"name": "Lease", "type": "string", "jsonPath": ".spec.workLeaseName"},
    {"name": "From", "type": "string", "jsonPath": ".spec.from"},
    {"name": "To", "type": "string", "jsonPath": ".spec.to.holderIdentity"},
    {"name": "Subject", "type": "string", "jsonPath": ".spec.subject"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Answer-by", "type": "string", "jsonPath": ".status.answerBy"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
SELECTABLE = (".spec.to.holderIdentity", ".spec.from", ".spec.workLeaseName", ".status.phase")
