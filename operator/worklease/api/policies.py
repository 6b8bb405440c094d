"""Who may say what: the ValidatingAdmissionPolicies of both kinds, as data.

The CEL rules of the CRDs say what is permitted at this instant, whoever asks; these policies say who may ask. They see
a write only after those rules have admitted it, and they never see a write of /status: RBAC alone guards that.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

GROUP = "worklease.dev"

CONFIGURE = "configure"
"""May change durations and suspend, restore a backup, and put in order what is left on free work."""
REVOKE = "revoke"
"""May end a tenure, or delete work that is held or has unreconciled effects."""
DELEGATE = "delegate"
"""May claim, or offer a handoff, in the name of somebody else."""
DELETE = "delete"
"""The ordinary verb: who may delete an object may also change its labels, annotations, owners and finalizers."""

LABELS_MAX = 32
"""How many labels a new object may have."""
LAST_APPLIED_MAX = 8192
"""Characters of kubectl's last-applied annotation on a new object. etcd stores up to six bytes for each."""
MANAGED_FIELDS_MAX = 65536
"""Characters of managedFields, printed. A request may carry its own, and what etcd cannot store stops every writer."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
TOKEN_POD = "authentication.kubernetes.io/pod-"


@dataclass(frozen=True)
class Validation:
    """A condition (CEL) under its name, and what is said when it is false: a sentence, or a CEL string expression."""

    name: str
    holds: str
    message: str = ""
    message_expression: str = ""

    def manifest(self) -> dict[str, str]:
        """The entry of spec.validations."""
        spoken = (
            {"messageExpression": self.message_expression} if self.message_expression else {"message": self.message}
        )
        return {"expression": self.holds, **spoken, "reason": "Forbidden"}


@dataclass(frozen=True)
class Policy:
    """A policy with its binding. `variables` are CEL, evaluated when first used and at most once for each request."""

    name: str
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    variables: dict[str, str]
    validations: tuple[Validation, ...]

    def manifests(self, group: str, without: Collection[str] = ()) -> Iterator[dict[str, Any]]:
        """The policy and its binding, less the validations named in `without`: how a test shows that each is needed."""
        kept = [validation.manifest() for validation in self.validations if validation.name not in without]
        if not kept:
            return
        rule = {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": list(self.operations),
            "resources": list(self.resources),
            "scope": "Namespaced",
        }
        metadata = {"name": f"{self.name}.{group}"}
        yield {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [rule]},
                "variables": [{"name": name, "expression": cel} for name, cel in self.variables.items()],
                "validations": kept,
            },
        }
        yield {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": metadata["name"], "validationActions": ["Deny"]},
        }


def may(verb: str, of: str = "object") -> str:
    """Whether the caller has the verb on this object.

    The name is the object's: request.name is empty in a deletion of many and where the server makes the name up.
    """
    return (
        "authorizer.group(request.resource.group).resource(request.resource.resource)"
        f".namespace(request.namespace).name({of}.metadata.name).check('{verb}').allowed()"
    )


def said(*fields: str) -> str:
    """Whether this write says, changes or removes one of these fields of spec. variables.was is what stood there."""
    return " || ".join(f"object.spec.?{field} != variables.was.?{field}" for field in fields)


def changed(*fields: str) -> str:
    """Whether an update changes one of these fields of metadata."""
    return " || ".join(f"object.metadata.?{field} != oldObject.metadata.?{field}" for field in fields)


def own(instance: str) -> str:
    """Whether the caller is this instance.

    A pod's token speaks as that pod and as nothing else: by name and uid, since names come back. A token without a
    pod never speaks as one, even if it is of the same ServiceAccount.
    """
    return f"(variables.pod == '' ? !{instance}.startsWith('pod:') : {instance} == variables.pod)"


CALLER = {
    "user": "request.userInfo.?username.orValue('')",
    "podName": f"request.userInfo.?extra[?'{TOKEN_POD}name'][?0].orValue('')",
    "podUID": f"request.userInfo.?extra[?'{TOKEN_POD}uid'][?0].orValue('')",
    "pod": "variables.podName == '' ? '' : 'pod:' + variables.podName + '/' + variables.podUID",
    "was": "oldObject == null ? dyn({}) : dyn(oldObject.spec)",
}
WRITES = ("CREATE", "UPDATE")
HELD = "oldObject.status.phase in ['Held', 'Jeopardy']"
RENEWAL_OWNERS = "metadata.managedFields.filter(f, has(f.fieldsV1) && 'f:renewal' in f.fieldsV1[?'f:spec'].orValue({}))"

STATEMENTS = Policy(
    name="worklease-statements",
    resources=("workleases",),
    operations=WRITES,
    variables=CALLER
    | {
        "claims": f"has(object.spec.claim) && ({said('claim')})",
        "revokes": said("revocation"),
        "speaks": said("renewal", "effects", "checkpoint", "release", "completion"),
        "holds": "oldObject.status.?holderIdentity.orValue('') == variables.user && "
        + own("oldObject.status.?instance.orValue('')"),
    },
    validations=(
        Validation(
            "holder",
            f"oldObject == null || !variables.speaks || variables.holds || (!({HELD}) && {may(CONFIGURE)})",
            "only the holder makes this statement, as the user and the process that hold the work; "
            "on work that nobody holds it needs the verb configure",
        ),
        Validation(
            "claim-identity",
            f"!variables.claims || object.spec.claim.holderIdentity == variables.user || {may(DELEGATE)}",
            message_expression="'claim.holderIdentity must be ' + variables.user + "
            "': to claim for somebody else needs the verb delegate'",
        ),
        Validation(
            "claim-instance",
            "!variables.claims || object.spec.claim.holderIdentity != variables.user || "
            + own("object.spec.claim.instance"),
            message_expression="variables.pod == '' ? 'claim.instance must not begin with pod: "
            "this credential is not bound to a pod' : 'claim.instance must be ' + variables.pod",
        ),
        Validation(
            "claim-of-what-goes",
            "!variables.claims || !has(object.metadata.deletionTimestamp)",
            "the work item is being deleted: it takes no claims",
        ),
        Validation(
            "claim-removal",
            "has(object.spec.claim) || oldObject == null || !has(oldObject.spec.claim) || variables.revokes || "
            + may(CONFIGURE),
            "to remove a claim needs the verb configure",
        ),
        Validation("revocation", f"!variables.revokes || {may(REVOKE)}", "a revocation needs the verb revoke"),
        Validation(
            "settings",
            f"oldObject == null || !({said('suspend', 'leaseDurationSeconds', 'jeopardyDurationSeconds')}) || "
            + may(CONFIGURE),
            "suspend, leaseDurationSeconds and jeopardyDurationSeconds are changed with the verb configure",
        ),
        Validation(
            "history",
            "oldObject != null || !(object.spec.?claim.?epoch.orValue(0) > 0 || object.spec.?effects.orValue([]) != []"
            + "".join(f" || has(object.spec.{field})" for field in ("renewal", "checkpoint", "release", "completion"))
            + f") || {may(CONFIGURE)}",
            "a new work item has no history: its first claim names epoch 0, and to restore what was said before needs "
            "the verb configure",
        ),
        Validation(
            "time-of-renewal",
            f"oldObject == null || !({HELD}) || !has(oldObject.spec.renewal) || {said('renewal')} || "
            f"variables.holds || oldObject.{RENEWAL_OWNERS}.all(o, object.{RENEWAL_OWNERS}.exists(f, "
            f"f.?time.orValue('') >= o.?time.orValue(''))) || {may(REVOKE)}",
            "the server's time of the last renewal would be lost or go back: leave managedFields alone and try again",
        ),
    ),
)

ANNOTATIONS = "{}.metadata.?annotations.orValue({{}})"
METADATA = Policy(
    name="worklease-metadata",
    resources=("workleases", "handoffs"),
    operations=WRITES,
    variables={
        "lastApplied": f"object.metadata.?annotations[?'{LAST_APPLIED}'].orValue('')",
        "grows": "size(object.metadata.?managedFields.orValue([])) > 0 && (oldObject == null || "
        "object.metadata.managedFields.exists(f, !oldObject.metadata.?managedFields.orValue([]).exists(o, "
        "o.?fieldsV1 == f.?fieldsV1)))",
    },
    validations=(
        Validation(
            "ownership",
            "(oldObject == null ? has(object.metadata.ownerReferences) || has(object.metadata.finalizers) : "
            f"{changed('labels', 'ownerReferences', 'finalizers')}) == false || {may(DELETE)}",
            "labels, ownerReferences and finalizers are changed by those who may delete",
        ),
        Validation(
            "annotations",
            "(oldObject == null ? object.metadata.?annotations.orValue({}).exists(key, key != "
            f"'{LAST_APPLIED}') : {changed('annotations')}) == false || {may(DELETE)}",
            "annotations are written by those who may delete: say a statement with a JSON patch, or with server-side "
            "apply and a field manager of its own",
        ),
        Validation(
            "silence",
            "oldObject == null || object.spec != oldObject.spec || !("
            f"{changed('managedFields', 'generateName', 'selfLink')}) || {may(DELETE)}",
            "a write that says nothing new changes nothing",
        ),
        Validation(
            "names",
            "(oldObject == null ? size(object.metadata.?generateName.orValue('')) <= 253 : "
            f"!({changed('generateName', 'selfLink')}))",
            "generateName and selfLink are not changed, and at most 253 characters",
        ),
        Validation(
            "size",
            f"oldObject != null || (size(object.metadata.?labels.orValue({{}})) <= {LABELS_MAX} && "
            f"size(variables.lastApplied) <= {LAST_APPLIED_MAX}) || {may(DELETE)}",
            f"a new object has at most {LABELS_MAX} labels and {LAST_APPLIED_MAX} characters of last-applied",
        ),
        Validation(
            "managed-fields",
            f"!variables.grows || size('%s'.format([object.metadata.managedFields])) <= {MANAGED_FIELDS_MAX} || "
            + may(DELETE),
            "metadata.managedFields is too large: set it to [{}] in the same write",
        ),
    ),
)

DELETION = Policy(
    name="worklease-deletion",
    resources=("workleases",),
    operations=("DELETE",),
    variables={},
    validations=(
        Validation(
            "deletion",
            f"(!({HELD}) && oldObject.spec.?effects.orValue([]).all(e, !(e.state in ['Attempted', 'Unknown']))) || "
            f"has(namespaceObject.metadata.deletionTimestamp) || {may(REVOKE, of='oldObject')}",
            "the work is held or has unreconciled effects: revoke and reconcile it first, or have the verb revoke",
        ),
    ),
)

HANDOFFS = Policy(
    name="worklease-handoffs",
    resources=("handoffs",),
    operations=WRITES,
    variables=CALLER
    | {
        "decision": f"({said('response')}) ? object.spec.?response.?decision.orValue('') : 'none'",
        "sends": "has(object.spec.from) && object.spec.from == variables.user && "
        + own("object.spec.?fromInstance.orValue('')"),
        "receives": "object.spec.to.holderIdentity == variables.user && "
        f"(!has(object.spec.to.instance) || {own('object.spec.to.instance')})",
    },
    validations=(
        Validation(
            "sender",
            f"oldObject != null || variables.sends || {may(DELEGATE)}",
            message_expression="'from must be ' + variables.user + ' and fromInstance ' + (variables.pod == '' ? "
            "'not that of a pod' : variables.pod) + ': to hand over what you do not hold needs the verb delegate'",
        ),
        Validation(
            "answer",
            "variables.decision in ['none', 'Withdrawn'] || variables.receives",
            "only the target of a handoff answers it, as the user and the process that it names",
        ),
        Validation(
            "withdrawal",
            f"variables.decision != 'Withdrawn' || variables.sends || {may(DELEGATE)}",
            "only the sender of a handoff withdraws it; for somebody else that needs the verb delegate",
        ),
    ),
)

POLICIES = (STATEMENTS, METADATA, DELETION, HANDOFFS)


def manifests(group: str = GROUP, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """Every policy and its binding, ready to be applied."""
    return [manifest for policy in POLICIES for manifest in policy.manifests(group, without)]
