"""What agents, people and Git say in spec: each statement, and beside it the rule by which the API server admits it.

`self` is what is being written, `oldSelf` what is stored: the rules are evaluated inside etcd's compare-and-swap, so a
refusal is justified by the state at that instant, also while the operator is down. A statement is atomic: it is said
whole, and has one owner in managedFields.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from worklease.api.cel import Check, Rule
from worklease.api.fields import (
    CREATED_EPOCH_MAX,
    Digest,
    Identifier,
    Instance,
    ObjectName,
    Part,
    Reason,
    SeenEpoch,
    StatedEpoch,
    Timestamp,
    Uri,
    Username,
    Words,
    text,
)

# --------------------------------------------------------------------------------------------------------- fragments
SPEC, STORED, STATUS = "self.spec", "oldSelf.spec", "oldSelf.status"
EPOCH = f"{STATUS}.epoch"
HELD = f"{STATUS}.phase in ['Held', 'Jeopardy']"
SUCCESSOR = f"has({STATUS}.successor)"


def same(name: str) -> str:
    """The statement is as it was stored (or absent in both)."""
    return f"(has({SPEC}.{name}) ? has({STORED}.{name}) && {SPEC}.{name} == {STORED}.{name} : !has({STORED}.{name}))"


def stated(name: str) -> str:
    """The statement about the current epoch, in what is being written."""
    return f"(has({SPEC}.{name}) && {SPEC}.{name}.epoch == {EPOCH})"


def stored(name: str) -> str:
    """The statement about the current epoch, as it was before this write."""
    return f"(has({STORED}.{name}) && {STORED}.{name}.epoch == {EPOCH})"


UNENDED = " && ".join(f"!{stated(name)}" for name in ("revocation", "release", "completion"))
STANDING = f"({HELD} && {UNENDED})"
REVOKING = f"({stated('revocation')} && !{stored('revocation')})"
CLAIM_PENDING = (
    f"(has({STORED}.claim) && {STORED}.claim.epoch == {EPOCH}"
    f" && {STATUS}.?observedClaimID.orValue('') != {STORED}.claim.id)"
)
CLAIMED_BY_HOLDER = (
    f"({STATUS}.?holderIdentity.orValue('') == {SPEC}.claim.holderIdentity"
    f" && {STATUS}.?instance.orValue('') == {SPEC}.claim.instance)"
)
CLAIMED_BY_SUCCESSOR = (
    f"({SUCCESSOR} && {STATUS}.successor.holderIdentity == {SPEC}.claim.holderIdentity"
    f" && (!has({STATUS}.successor.instance) || {STATUS}.successor.instance == {SPEC}.claim.instance))"
)
LAST_HEARD = f"({stored('renewal')} ? {STORED}.renewal.renewTime : {STATUS}.acquireTime)"
TERM_SECONDS = f"{STATUS}.leaseDurationSeconds + {STATUS}.jeopardyDurationSeconds"

ENDED = "the lease has ended, or this is not its epoch"


def kept(name: str) -> Check:
    """A statement that has force is not taken back: one of the current epoch, unless the work is free again."""
    force = f"{stored(name)} && {STATUS}.phase in ['Held', 'Jeopardy', 'Completed']"
    return Check(f"{name}.kept", f"has({SPEC}.{name}) || !({force})", f"the {name} still has force")


def when_said(name: str, condition: str) -> str:
    return f"!has({SPEC}.{name}) || ({condition})"


class Statement(Part):
    """Something said about one epoch, replaced whole."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    epoch: Annotated[StatedEpoch, Field(description="The epoch that this is about: status.epoch of the tenure.")]


# ------------------------------------------------------------------------------------------------------------- claim
class Claim(Part):
    """A request to become the holder. It is pending until the operator grants it (status.claimID is its id) or
    refuses it (status.observedClaimID is its id). A new claim needs a fresh id; the same id means the same claim.
    """

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    epoch: Annotated[SeenEpoch, Field(description="status.epoch as the claimant saw it; 0 for the first claim.")]
    id: Annotated[Identifier, Field(description="Made up by the claimant, different for each claim (a UUID).")]
    holder_identity: Annotated[
        Username,
        Field(
            description="Who is to hold: the authenticated username of the speaker. "
            "Another's name needs the verb delegate."
        ),
    ]
    instance: Annotated[
        Instance,
        Field(
            description="Which process of that identity: pod:NAME/UID for a pod's own token, otherwise anything that "
            "tells processes apart and does not begin with 'pod:', such as host:NAME/PID."
        ),
    ]
    purpose: Annotated[Reason, Field(description="What the claimant is going to do, for people who read the history.")]


CLAIM_ITSELF = Rule(
    checks=(
        Check(
            "claim.edited",
            "self.id != oldSelf.id || self == oldSelf",
            "a claim is not edited: a new one needs a fresh id",
        ),
    )
)
CLAIM = Rule(
    field_path=".spec.claim",
    unless=f"(has({SPEC}.claim) ? has({STORED}.claim) && {SPEC}.claim.id == {STORED}.claim.id : !has({STORED}.claim))",
    checks=(
        Check(
            "claim.kept",
            f"has({SPEC}.claim) || !({HELD} || {CLAIM_PENDING}) || {REVOKING}",
            "the claim still has force",
        ),
        Check(
            "claim.suspended",
            when_said("claim", f"!{SPEC}.suspend || {REVOKING} || ({HELD} && {CLAIMED_BY_HOLDER})"),
            "work is suspended",
        ),
        Check(
            "claim.complete",
            when_said("claim", f"{STATUS}.phase != 'Completed' || {stated('revocation')}"),
            "work is complete",
        ),
        Check(
            "claim.leased",
            when_said(
                "claim",
                f"!({HELD}) || {stated('revocation')} || {stated('release')} || {CLAIMED_BY_SUCCESSOR}"
                f" || ({CLAIMED_BY_HOLDER} && !{stated('completion')})",
            ),
            "work is leased",
            f"'work is leased until about %s'.format([timestamp(int({LAST_HEARD}) + {TERM_SECONDS})])",
        ),
        Check(
            "claim.reserved",
            when_said("claim", f"!{SUCCESSOR} || {CLAIMED_BY_SUCCESSOR} || {stated('revocation')}"),
            "work is reserved for the target of a handoff",
        ),
        Check("claim.pending", when_said("claim", f"!{CLAIM_PENDING} || {REVOKING}"), "another claim is being decided"),
        Check(
            "claim.epoch",
            when_said("claim", f"{SPEC}.claim.epoch == {EPOCH}"),
            "the work has moved on since this claim was written: name the epoch in status",
        ),
        Check(
            "claim.fresh",
            when_said(
                "claim",
                f"{STATUS}.?claimID.orValue('') != {SPEC}.claim.id"
                f" && {STATUS}.?observedClaimID.orValue('') != {SPEC}.claim.id",
            ),
            "a new claim needs a fresh id",
        ),
    ),
)


# ------------------------------------------------------------------------------------------------- the holder's words
class Renewal(Statement):
    """The holder is alive and keeps the lease: its deadline moves to one leaseDuration after this was seen."""

    renew_time: Annotated[
        Timestamp,
        Field(
            description="Different from the last one, or nothing was said. For information: "
            "no decision is made from it, the operator times the lease by its own clock."
        ),
    ]


RENEWAL = Rule(
    field_path=".spec.renewal",
    unless=same("renewal"),
    checks=(
        Check("renewal.standing", when_said("renewal", f"{SPEC}.renewal.epoch == {EPOCH} && {STANDING}"), ENDED),
        kept("renewal"),
    ),
)


class Checkpoint(Statement):
    """Where the work stands, for whoever continues it. Replaced by compare-and-swap, never removed."""

    uri: Annotated[Uri, Field(description="Where the checkpoint is stored.")]
    digest: Annotated[Digest, Field(description="What identifies its content, such as sha256:...")]
    previous_digest: Annotated[
        str,
        text(128, pattern=r"^[!-~]*$"),
        Field(description="The digest of the checkpoint that this one replaces; empty for the first."),
    ]


CHECKPOINT = Rule(
    field_path=".spec.checkpoint",
    unless=same("checkpoint"),
    checks=(
        Check("checkpoint.kept", f"has({SPEC}.checkpoint)", "a checkpoint is replaced, never removed"),
        Check(
            "checkpoint.standing", when_said("checkpoint", f"{SPEC}.checkpoint.epoch == {EPOCH} && {STANDING}"), ENDED
        ),
        Check(
            "checkpoint.swap",
            when_said("checkpoint", f"{SPEC}.checkpoint.previousDigest == {STORED}.?checkpoint.?digest.orValue('')"),
            "the checkpoint has changed since it was read: name the digest that is stored",
        ),
    ),
)


class Release(Statement):
    """The holder gives the work back unfinished. A claim of somebody else is admitted from then on."""

    reason: Annotated[Words, Field(description="Why, for people who read the history.")]


RELEASE = Rule(
    field_path=".spec.release",
    unless=same("release"),
    checks=(
        Check(
            "release.standing",
            when_said("release", f"{SPEC}.release.epoch == {EPOCH} && {HELD} && !{stored('release')}"),
            ENDED,
        ),
        Check(
            "release.unended",
            when_said("release", f"!{stated('revocation')} && !{stated('completion')}"),
            ENDED,
        ),
        kept("release"),
    ),
)


class Outcome(StrEnum):
    """How completed work ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Completion(Statement):
    """The holder declares the work done. Nobody claims it again, unless an administrator revokes the completion."""

    outcome: Annotated[Outcome, Field(description="Succeeded or Failed.")]
    message: Annotated[Words, Field(description="The result in a sentence.")]


COMPLETION = Rule(
    field_path=".spec.completion",
    unless=same("completion"),
    checks=(
        Check(
            "completion.standing",
            when_said(
                "completion",
                f"{SPEC}.completion.epoch == {EPOCH} && {STATUS}.phase == 'Held' && !{stored('completion')}"
                f" && !{stated('revocation')} && !{stated('release')}",
            ),
            ENDED,
        ),
        Check("completion.successor", when_said("completion", f"!{SUCCESSOR}"), "the work is being handed over"),
        Check(
            "completion.effects",
            when_said("completion", f"{SPEC}.effects.all(e, !(e.state in ['Attempted', 'Unknown']))"),
            "effects must be reconciled before completion: none may be Attempted or Unknown",
        ),
        kept("completion"),
    ),
)


# ------------------------------------------------------------------------------------------ the administrator's word
class Revocation(Statement):
    """An administrator ends a tenure at once (verb revoke), or reopens completed work. With a claim in the same write
    it is a takeover, and its reason is the takeover's.
    """

    reason: Annotated[Reason, Field(description="Why; it is kept in the history.")]


REVOCATION = Rule(
    field_path=".spec.revocation",
    unless=same("revocation"),
    checks=(
        Check(
            "revocation.standing",
            when_said(
                "revocation",
                f"{SPEC}.revocation.epoch == {EPOCH} && !{stored('revocation')}"
                f" && ({STATUS}.phase in ['Held', 'Jeopardy', 'Completed'] || {SUCCESSOR})",
            ),
            ENDED,
        ),
        kept("revocation"),
    ),
)


# ----------------------------------------------------------------------------------------------------------- effects
class EffectState(StrEnum):
    """How far an effect is known to have got."""

    ATTEMPTED = "Attempted"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    COMPENSATED = "Compensated"


UNRECONCILED = frozenset({EffectState.ATTEMPTED, EffectState.UNKNOWN})

EFFECT_ITSELF = (
    Rule(
        checks=(
            Check(
                "effect.same",
                "self.epoch == oldSelf.epoch && self.recipient == oldSelf.recipient && self.action == oldSelf.action"
                " && has(self.digest) == has(oldSelf.digest) && (!has(self.digest) || self.digest == oldSelf.digest)",
                "what an effect is never changes; only its state moves",
            ),
        )
    ),
    Rule(
        checks=(
            Check(
                "effect.forward",
                "self.state == oldSelf.state"
                " || (oldSelf.state == 'Attempted' && self.state in ['Succeeded', 'Failed', 'Unknown'])"
                " || (oldSelf.state == 'Unknown' && self.state in ['Succeeded', 'Failed', 'Compensated'])"
                " || (oldSelf.state == 'Succeeded' && self.state == 'Compensated')",
                "an effect moves from Attempted to Succeeded, Failed or Unknown, from Unknown to Succeeded, Failed"
                " or Compensated, from Succeeded to Compensated",
            ),
        )
    ),
)


class Effect(Part):
    """Something done outside under the lease, logged as Attempted before it is sent and reconciled after."""

    id: Annotated[Identifier, Field(description="Made up by the holder; a good idempotency key for the recipient.")]
    epoch: Annotated[StatedEpoch, Field(description="The epoch under which it was attempted.")]
    recipient: Annotated[ObjectName, Field(description="The system that receives it.")]
    action: Annotated[ObjectName, Field(description="What the recipient is asked to do.")]
    digest: Annotated[Digest | None, Field(description="What identifies the request's content.")] = None
    state: Annotated[EffectState, Field(description="How far it is known to have got.")]
    time: Annotated[Timestamp | None, Field(description="When the holder last wrote it, by the holder's clock.")] = None
    detail: Annotated[Words | None, Field(description="What is worth knowing about its outcome.")] = None


STORED_EFFECT = f"{STORED}.effects.exists(o, o.id == e.id)"
NONE_ADDED = f"{SPEC}.effects.all(e, {STORED_EFFECT})"
EFFECTS = Rule(
    field_path=".spec.effects",
    unless=f"{SPEC}.effects == {STORED}.effects",
    checks=(
        Check(
            "effects.attempted",
            f"{SPEC}.effects.all(e, {STORED_EFFECT} || (e.state == 'Attempted' && e.epoch == {EPOCH}))",
            "a new effect is logged as Attempted, at the current epoch",
        ),
        Check(
            "effects.standing",
            f"{NONE_ADDED} || ({STATUS}.phase == 'Held' && {STANDING} && !{SUCCESSOR})",
            "a new effect needs a lease that is held, not in jeopardy, ended or being handed over",
        ),
        Check(
            "effects.reconciled",
            f"{NONE_ADDED} || {STORED}.effects.all(o, o.epoch >= {EPOCH} || o.state != 'Attempted')",
            "effects of earlier epochs must be reconciled first",
        ),
        Check(
            "effects.dropped",
            f"{STORED}.effects.all(o, {SPEC}.effects.exists(e, e.id == o.id)"
            f" || (o.epoch < {EPOCH} && !(o.state in ['Attempted', 'Unknown'])))",
            "only reconciled effects of earlier epochs may be dropped",
        ),
    ),
)

# ---------------------------------------------------------------------------------------------------------- creation
STATEMENTS = ("claim", "renewal", "checkpoint", "release", "revocation", "completion")
CREATION = Rule(
    field_path=".spec",
    optional_old_self=True,
    unless="oldSelf.hasValue()",
    checks=(
        Check(
            "creation.epoch",
            " && ".join(f"(!has({SPEC}.{n}) || {SPEC}.{n}.epoch <= {CREATED_EPOCH_MAX})" for n in STATEMENTS)
            + f" && {SPEC}.effects.all(e, e.epoch <= {CREATED_EPOCH_MAX})",
            "an epoch as large as that leaves no room above it",
        ),
    ),
)

RULES = (RENEWAL, CLAIM, EFFECTS, CHECKPOINT, RELEASE, COMPLETION, REVOCATION, CREATION)
