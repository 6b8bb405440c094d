"""Who may say what: the ValidatingAdmissionPolicies of both kinds.

The CEL rules of the CRDs say what is permitted at this instant, whoever asks; these policies say who may ask. They see
a write only after those rules have admitted it, and they never see a write of /status: RBAC alone guards that.
"""

from collections.abc import Collection
from typing import Any

from worklease.api import metadata
from worklease.api.admission import CALLER, CONFIGURE, DELEGATE, REVOKE, Policy, may, own, unsaid
from worklease.api.cel import Check
from worklease.api.group import GROUP
from worklease.api.statements import IS_LEASED

WRITES = ("CREATE", "UPDATE")
HOLDERS_STATEMENTS = ("renewal", "effects", "checkpoint", "release", "completion")
STATEMENTS = (*HOLDERS_STATEMENTS, "claim", "revocation")
SETTINGS = ("suspend", "leaseDurationSeconds", "jeopardyDurationSeconds")
WAS_LEASED = f"oldObject.{IS_LEASED}"


def _renewal_owners(where: str) -> str:
    owns = "'f:renewal' in f.?fieldsV1[?'f:spec'].orValue({})"
    return f"{where}.metadata.?managedFields.orValue([]).filter(f, {owns})"


HOLDS = "oldObject.status.?holderIdentity == optional.of(variables.user) && " + own(
    "oldObject.status.?instance.orValue('')"
)
SENDS = "object.spec.?from == optional.of(variables.user) && " + own("object.spec.?fromInstance.orValue('')")
RECEIVES = (
    "object.spec.to.holderIdentity == variables.user"
    f" && (!has(object.spec.to.instance) || {own('object.spec.to.instance')})"
)

WORKLEASE_CHECKS = (
    Check(
        "holder",
        f"oldObject == null || ({unsaid(*HOLDERS_STATEMENTS)}) || variables.holds"
        f" || (!({WAS_LEASED}) && {may(CONFIGURE)})",
        "only the holder makes this statement, as the user and the process that hold the work; on work that nobody "
        "holds it needs the verb configure",
    ),
    Check(
        "claim.identity",
        f"!variables.claims || object.spec.claim.holderIdentity == variables.user || {may(DELEGATE)}",
        "claim.holderIdentity must be your own username: to claim for somebody else needs the verb delegate",
        "'claim.holderIdentity must be ' + variables.user + ': to claim for somebody else needs the verb delegate'",
    ),
    Check(
        "claim.instance",
        "!variables.claims || object.spec.claim.holderIdentity != variables.user || "
        + own("object.spec.claim.instance"),
        "claim.instance must be your own",
        "variables.pod == '' ? 'claim.instance must not begin with pod: this credential is not bound to a pod'"
        " : 'claim.instance must be ' + variables.pod",
    ),
    Check(
        "claim.going",
        "!variables.claims || !has(object.metadata.deletionTimestamp)",
        "the work item is being deleted: it takes no claims",
    ),
    Check(
        "claim.removal",
        "has(object.spec.claim) || oldObject == null || !has(oldObject.spec.claim)"
        f" || !({unsaid('revocation')}) || {may(CONFIGURE)}",
        "a claim is removed with the verb configure",
    ),
    Check(
        "revocation",
        f"({unsaid('revocation')}) || {may(REVOKE)}",
        "a revocation is written, and removed, with the verb revoke",
    ),
    Check(
        "settings",
        f"oldObject == null || ({unsaid(*SETTINGS)}) || {may(CONFIGURE)}",
        "suspend, leaseDurationSeconds and jeopardyDurationSeconds are changed with the verb configure",
    ),
    Check(
        "history",
        "oldObject != null || (object.spec.?claim.?epoch.orValue(0) == 0 && object.spec.?effects.orValue([]) == []"
        + "".join(f" && !has(object.spec.{name})" for name in HOLDERS_STATEMENTS if name != "effects")
        + f") || {may(CONFIGURE)}",
        "a new work item has no history: its first claim names epoch 0; to restore what was said before needs the "
        "verb configure",
    ),
)
# Who has the verb delete may change metadata, but the time of a renewal only whoever could end the tenure anyway.
RENEWAL_TIME = Check(
    "renewal.time",
    f"oldObject == null || !({WAS_LEASED}) || !has(oldObject.spec.renewal) || !({unsaid('renewal')}) || variables.holds"
    f" || {_renewal_owners('oldObject')}.all(o, {_renewal_owners('object')}.exists(f, "
    f"f.?time.orValue('') >= o.?time.orValue(''))) || {may(REVOKE)}",
    "the server's time of the last renewal would be lost or go back: leave managedFields alone, and try again",
)
# A namespace that is being deleted takes its work along; who may delete a namespace is not for us to say.
DELETION_CHECKS = (
    Check(
        "deletion",
        f"(!({WAS_LEASED}) && oldObject.spec.?effects.orValue([]).all(e, !(e.state in ['Attempted', 'Unknown'])))"
        f" || has(namespaceObject.metadata.deletionTimestamp) || {may(REVOKE, of='oldObject')}",
        "the work is held or has unreconciled effects: to delete it all the same needs the verb revoke",
    ),
)
HANDOFF_CHECKS = (
    Check(
        "handoff.sender",
        f"oldObject != null || variables.sends || {may(DELEGATE)}",
        "from and fromInstance must be your own: to hand over what you do not hold needs the verb delegate",
        "'from must be ' + variables.user + ' and fromInstance ' + (variables.pod == '' ? 'not that of a pod' : "
        "variables.pod) + ': to hand over what you do not hold needs the verb delegate'",
    ),
    Check(
        "handoff.target",
        f"({unsaid('response')}) || object.spec.?response.?decision.orValue('') == 'Withdrawn' || ({RECEIVES})",
        "only the target of a handoff answers it, as the user and the process that it names",
    ),
    Check(
        "handoff.withdrawal",
        f"({unsaid('response')}) || object.spec.?response.?decision.orValue('') != 'Withdrawn' || variables.sends"
        f" || {may(DELEGATE)}",
        "only the sender of a handoff withdraws it; for somebody else that needs the verb delegate",
    ),
)

POLICIES = (
    Policy(
        "workleases",
        resource="workleases",
        operations=WRITES,
        variables=CALLER
        | {"holds": HOLDS, "claims": f"has(object.spec.claim) && !({unsaid('claim')})"}
        | metadata.variables(STATEMENTS),
        checks=(*WORKLEASE_CHECKS, *metadata.CHECKS, RENEWAL_TIME),
    ),
    Policy("workleases-deletion", resource="workleases", operations=("DELETE",), variables={}, checks=DELETION_CHECKS),
    Policy(
        "handoffs",
        resource="handoffs",
        operations=WRITES,
        variables=CALLER | {"sends": SENDS} | metadata.variables(("response",)),
        checks=(*HANDOFF_CHECKS, *metadata.CHECKS),
    ),
)


def manifests(group: str = GROUP, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """Every policy and its binding, ready to be applied, less the checks named in `without`."""
    return [manifest for policy in POLICIES for manifest in policy.manifests(group, without)]
