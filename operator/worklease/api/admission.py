"""How an admission policy is written here: named checks, as for the CRDs, and the questions that they ask.

A policy evaluates every check for every write, so each begins with what lets it end early, mostly a variable that
several share, and asks the authorizer last. A message cannot ask the authorizer: hence one validation for each check.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from worklease.api.cel import Check

CONFIGURE = "configure"
"""May change durations and suspend, restore a backup, and put in order what is left on free work."""
REVOKE = "revoke"
"""May end a tenure, or delete work that is held or has unreconciled effects."""
DELEGATE = "delegate"
"""May claim, or offer a handoff, in the name of somebody else."""
DELETE = "delete"
"""The ordinary verb: who may delete an object may also change its metadata."""

ADMISSION_VERSION = "admissionregistration.k8s.io/v1"
TOKEN_POD = "authentication.kubernetes.io/pod-"


@dataclass(frozen=True)
class Policy:
    """A policy with its binding. `variables` are CEL, evaluated when first used and at most once for each request."""

    name: str
    resource: str
    operations: tuple[str, ...]
    variables: dict[str, str]
    checks: tuple[Check, ...]

    def manifests(self, group: str, without: Collection[str] = ()) -> Iterator[dict[str, Any]]:
        """The policy and its binding, less the checks named in `without`: how a test shows that each is needed."""
        validations = [validation(check) for check in self.checks if check.name not in without]
        if not validations:
            return
        metadata = {"name": f"{self.name}.{group}"}
        matched = {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": list(self.operations),
            "resources": [self.resource],
            "scope": "Namespaced",
        }
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [matched]},
            "variables": [{"name": name, "expression": cel} for name, cel in self.variables.items()],
            "validations": validations,
        }
        yield {"apiVersion": ADMISSION_VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec}
        yield {
            "apiVersion": ADMISSION_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": metadata["name"], "validationActions": ["Deny"]},
        }


def validation(check: Check) -> dict[str, Any]:
    """A check as an entry of a policy's validations."""
    entry = {"expression": check.holds, "message": check.message, "reason": "Forbidden"}
    if check.message_expression:
        entry["messageExpression"] = check.message_expression
    return entry


def may(verb: str, of: str = "object") -> str:
    """Whether the caller has the verb on this object.

    The name is the object's: request.name is empty in a deletion of many, and where the server makes the name up.
    """
    return (
        "authorizer.group(request.resource.group).resource(request.resource.resource)"
        f".namespace(request.namespace).name({of}.metadata.name).check('{verb}').allowed()"
    )


def unsaid(*fields: str) -> str:
    """Whether this write leaves each of these fields of spec as it was; variables.was is the spec before it."""
    return " && ".join(f"object.spec.?{field} == variables.was.?{field}" for field in fields)


def untouched(*fields: str) -> str:
    """Whether this update leaves each of these fields of metadata as it was."""
    return " && ".join(f"object.metadata.?{field} == oldObject.metadata.?{field}" for field in fields)


def own(instance: str) -> str:
    """Whether the caller is this instance.

    A pod's token speaks as that pod and as nothing else: by name and uid, since names come back. A token without a
    pod never speaks as one, even if it is of the same ServiceAccount.
    """
    return f"(variables.pod == '' ? !{instance}.startsWith('pod:') : {instance} == variables.pod)"


CALLER = {
    "user": "request.userInfo.?username.orValue('')",
    "pod": f"request.userInfo.?extra[?'{TOKEN_POD}name'][?0].optMap(name, 'pod:' + name + '/' + "
    f"request.userInfo.extra[?'{TOKEN_POD}uid'][?0].orValue('')).orValue('')",
    "was": "oldObject == null ? dyn({}) : dyn(oldObject.spec)",
}
"""Variables about who speaks. Of a token without a pod, and of a person, `pod` is empty."""
