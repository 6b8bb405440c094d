"""What agents, people and Git say in spec: each statement, and beside it the rule by which the API server admits it.

`self` is what is being written, `oldSelf` what is stored: the rules are evaluated inside etcd's compare-and-swap, so a
refusal is justified by the state at that instant, also while the operator is down. A statement is atomic: it is said
whole, and has one owner in managedFields.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from worklease.api.cel import Check, Rule, same
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

SAID = {"spec": "self.spec", "stored": "oldSelf.spec"}
"""`spec` is what is being written, `stored` what was said before."""
DECIDED = {"status": "oldSelf.status"}
"""`status` is what the operator has decided so far."""

EPOCH = "status.epoch"
IS_LEASED = "status.phase in ['Held', 'Jeopardy']"
SUCCESSOR = "has(status.successor)"


def unchanged(name: str) -> str:
    """The statement is as it was stored (or absent in both)."""
    return same(f"spec.?{name}", f"stored.?{name}")


def stated(name: str) -> str:
    """The statement about the current epoch, in what is being written."""
    return f"(has(spec.{name}) && spec.{name}.epoch == {EPOCH})"


def stored(name: str) -> str:
    """The statement about the current epoch, as it was before this write."""
    return f"(has(stored.{name}) && stored.{name}.epoch == {EPOCH})"


UNENDED = " && ".join(f"!{stated(name)}" for name in ("revocation", "release", "completion"))
STANDING = f"({IS_LEASED} && {UNENDED})"
REVOKING = f"({stated('revocation')} && !{stored('revocation')})"
CLAIM_PENDING = f"({stored('claim')} && !({same('status.?observedClaimID', 'stored.?claim.?id')}))"
CLAIMED_BY_HOLDER = (
    f"({same('status.?holderIdentity', 'spec.?claim.?holderIdentity')}"
    f" && {same('status.?instance', 'spec.?claim.?instance')})"
)
CLAIMED_BY_SUCCESSOR = (
    f"({SUCCESSOR} && {same('status.successor.holderIdentity', 'spec.claim.holderIdentity')}"
    f" && (!has(status.successor.instance) || {same('status.successor.instance', 'spec.claim.instance')}))"
)
LAST_HEARD = f"({stored('renewal')} ? stored.renewal.renewTime : status.acquireTime)"
TERM_SECONDS = "status.leaseDurationSeconds + status.jeopardyDurationSeconds"

ENDED = "the lease has ended, or this is not its epoch"


def kept(name: str) -> Check:
    """A statement that has force is not taken back: one of the current epoch, unless the work is free again."""
    force = f"{stored(name)} && status.phase in ['Held', 'Jeopardy', 'Completed']"
    return Check(f"{name}.kept", f"has(spec.{name}) || !({force})", f"the {name} still has force")


def when_said(name: str, condition: str) -> str:
    return f"!has(spec.{name}) || ({condition})"


def statement_rule(name: str, *checks: Check) -> Rule:
    """The rule of one statement: it ends early in a write that leaves the statement as it was."""
    return Rule(checks, unless=unchanged(name), given=SAID, then_given=DECIDED, field_path=f".spec.{name}")


class Statement(Part):
    """Something said about one epoch, replaced whole."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    epoch: Annotated[StatedEpoch, Field(description="The epoch that this is about: status.epoch of the tenure.")]


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


CLAIM = statement_rule(
    "claim",
    Check(
        "claim.edited",
        f"!({same('spec.?claim.?id', 'stored.?claim.?id')})",
        "a claim is not edited: a new one needs a fresh id",
    ),
    Check(
        "claim.kept", f"has(spec.claim) || !({IS_LEASED} || {CLAIM_PENDING}) || {REVOKING}", "the claim still has force"
    ),
    Check(
        "claim.suspended",
        when_said("claim", f"!spec.suspend || {REVOKING} || ({IS_LEASED} && {CLAIMED_BY_HOLDER})"),
        "work is suspended",
    ),
    Check(
        "claim.complete",
        when_said("claim", f"status.phase != 'Completed' || {stated('revocation')}"),
        "work is complete",
    ),
    Check(
        "claim.leased",
        when_said(
            "claim",
            f"!({IS_LEASED}) || {stated('revocation')} || {stated('release')} || {CLAIMED_BY_SUCCESSOR}"
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
        when_said("claim", f"spec.claim.epoch == {EPOCH}"),
        "the work has moved on since this claim was written: name the epoch in status",
    ),
    Check(
        "claim.fresh",
        when_said("claim", "!(optional.of(spec.claim.id) in [status.?claimID, status.?observedClaimID])"),
        "a new claim needs a fresh id",
    ),
)


class Renewal(Statement):
    """The holder is alive and keeps the lease: its deadline moves to one leaseDuration after this was seen."""

    renew_time: Annotated[
        Timestamp,
        Field(
            description="Different from the last one, or nothing was said. For information: "
            "no decision is made from it, the operator times the lease by its own clock."
        ),
    ]


RENEWAL = statement_rule(
    "renewal",
    Check("renewal.standing", when_said("renewal", f"spec.renewal.epoch == {EPOCH} && {STANDING}"), ENDED),
    kept("renewal"),
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


CHECKPOINT = statement_rule(
    "checkpoint",
    Check("checkpoint.kept", "has(spec.checkpoint)", "a checkpoint is replaced, never removed"),
    Check("checkpoint.standing", when_said("checkpoint", f"spec.checkpoint.epoch == {EPOCH} && {STANDING}"), ENDED),
    Check(
        "checkpoint.swap",
        when_said("checkpoint", same("spec.checkpoint.previousDigest", "stored.?checkpoint.?digest.orValue('')")),
        "the checkpoint has changed since it was read: name the digest that is stored",
    ),
)


class Release(Statement):
    """The holder gives the work back unfinished. A claim of somebody else is admitted from then on."""

    reason: Annotated[Words, Field(description="Why, for people who read the history.")]


RELEASE = statement_rule(
    "release",
    Check(
        "release.standing",
        when_said("release", f"spec.release.epoch == {EPOCH} && {IS_LEASED} && !{stored('release')}"),
        ENDED,
    ),
    Check(
        "release.unended",
        when_said("release", f"!{stated('revocation')} && !{stated('completion')}"),
        ENDED,
    ),
    kept("release"),
)


class Outcome(StrEnum):
    """How completed work ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Completion(Statement):
    """The holder declares the work done. Nobody claims it again, unless an administrator revokes the completion."""

    outcome: Annotated[Outcome, Field(description="Whether the work succeeded or failed.")]
    message: Annotated[Words, Field(description="The result in a sentence.")]


COMPLETION = statement_rule(
    "completion",
    Check(
        "completion.standing",
        when_said(
            "completion",
            f"spec.completion.epoch == {EPOCH} && status.phase == 'Held' && !{stored('completion')}"
            f" && !{stated('revocation')} && !{stated('release')}",
        ),
        ENDED,
    ),
    Check("completion.successor", when_said("completion", f"!{SUCCESSOR}"), "the work is being handed over"),
    Check(
        "completion.effects",
        when_said("completion", "self.spec.effects.all(e, !(e.state in ['Attempted', 'Unknown']))"),
        "effects must be reconciled before completion: none may be Attempted or Unknown",
    ),
    kept("completion"),
)


class Revocation(Statement):
    """An administrator ends a tenure at once (verb revoke), or reopens completed work. With a claim in the same write
    it is a takeover, and its reason is the takeover's.
    """

    reason: Annotated[Reason, Field(description="Why; it is kept in the history.")]


REVOCATION = statement_rule(
    "revocation",
    Check(
        "revocation.standing",
        when_said(
            "revocation",
            f"spec.revocation.epoch == {EPOCH} && !{stored('revocation')}"
            f" && (status.phase in ['Held', 'Jeopardy', 'Completed'] || {SUCCESSOR})",
        ),
        ENDED,
    ),
    kept("revocation"),
)


class EffectState(StrEnum):
    """How far an effect is known to have got."""

    ATTEMPTED = "Attempted"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    COMPENSATED = "Compensated"


UNRECONCILED = frozenset({EffectState.ATTEMPTED, EffectState.UNKNOWN})

FORWARD = (
    "self == oldSelf"
    " || (oldSelf == 'Attempted' && self in ['Succeeded', 'Failed', 'Unknown'])"
    " || (oldSelf == 'Unknown' && self in ['Succeeded', 'Failed', 'Compensated'])"
    " || (oldSelf == 'Succeeded' && self == 'Compensated')"
)
FORWARD_ONLY = (
    "an effect moves from Attempted to Succeeded, Failed or Unknown, from Unknown to Succeeded, Failed or Compensated,"
    " from Succeeded to Compensated"
)


def fixed(name: str, condition: str) -> tuple[Rule, ...]:
    return (Rule(checks=(Check(name, condition, "what an effect is never changes; only its state moves"),)),)


EFFECT_ITSELF = {
    "": fixed("effect.digest", same("self.?digest", "oldSelf.?digest")),
    "epoch": fixed("effect.epoch", "self == oldSelf"),
    "recipient": fixed("effect.recipient", "self == oldSelf"),
    "action": fixed("effect.action", "self == oldSelf"),
    "state": (Rule(checks=(Check("effect.forward", FORWARD, FORWARD_ONLY),)),),
}
"""The rules of each effect, by the field at which they stand: the list is a map, so the same id is the same effect."""


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


NONE_ADDED = "ids.all(id, id in storedIDs)"
EFFECTS = Rule(
    field_path=".spec.effects",
    # Bound once: to look for each effect among all others costs a fifth of a second when there are 64.
    given={"ids": "self.spec.effects.map(e, e.id)", "storedIDs": "oldSelf.spec.effects.map(e, e.id)"},
    # The same ids are the same effects, of which EFFECT_ITSELF has judged the changes.
    unless=same("ids", "storedIDs"),
    then_given=SAID | DECIDED,
    checks=(
        Check(
            "effects.attempted",
            f"self.spec.effects.all(e, e.id in storedIDs || (e.state == 'Attempted' && e.epoch == {EPOCH}))",
            "a new effect is logged as Attempted, at the current epoch",
        ),
        Check(
            "effects.standing",
            f"{NONE_ADDED} || (status.phase == 'Held' && {STANDING} && !{SUCCESSOR})",
            "a new effect needs a lease that is held, not in jeopardy, ended or being handed over",
        ),
        Check(
            "effects.reconciled",
            f"{NONE_ADDED} || oldSelf.spec.effects.all(e, e.epoch >= {EPOCH} || e.state != 'Attempted')",
            "effects of earlier epochs must be reconciled first",
        ),
        Check(
            "effects.dropped",
            "oldSelf.spec.effects.all(e, e.id in ids"
            f" || (e.epoch < {EPOCH} && !(e.state in ['Attempted', 'Unknown'])))",
            "only reconciled effects of earlier epochs may be dropped",
        ),
    ),
)

EPOCH_STATEMENTS = ("claim", "renewal", "checkpoint", "release", "revocation", "completion")
CREATION = Rule(
    field_path=".spec",
    optional_old_self=True,
    unless="oldSelf.hasValue()",
    checks=(
        Check(
            "creation.epoch",
            " && ".join(
                f"(!has(self.spec.{n}) || self.spec.{n}.epoch <= {CREATED_EPOCH_MAX})" for n in EPOCH_STATEMENTS
            )
            + f" && self.spec.effects.all(e, e.epoch <= {CREATED_EPOCH_MAX})",
            "an epoch as large as that leaves no room above it",
        ),
    ),
)

RULES = (RENEWAL, CLAIM, EFFECTS, CHECKPOINT, RELEASE, COMPLETION, REVOCATION, CREATION)
