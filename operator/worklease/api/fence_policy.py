"""Kubernetes objects as recipients: the policies that fence every object with the label worklease.dev/fenced=true.

Such an object names its lease and the epoch of its last writer in annotations; a writer restates its epoch at the end
of its field manager, NAME@EPOCH, because an annotation stays while a writer is stale. The first policy compares a
write with the object, the second with the WorkLease itself, so that neither an old epoch nor an invented one passes.
"""

from collections.abc import Collection
from typing import Any, Final

from worklease.api.admission import ADMISSION_VERSION, REVOKE, validation
from worklease.api.cel import Check
from worklease.api.group import API_VERSION, GROUP

LABEL: Final = f"{GROUP}/fenced"
LEASE: Final = f"{GROUP}/lease"
EPOCH: Final = f"{GROUP}/epoch"
DELETE_EPOCH: Final = f"{GROUP}/delete-epoch"

EXEMPT_GROUPS: Final = ("system:nodes", "system:serviceaccounts:kube-system")
EXEMPT_USERS: Final = ("system:kube-controller-manager", "system:kube-scheduler")
"""The cluster's own parts: they carry out what was written, they have no tenure."""

_PART = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_MANAGER = "request.?options.?fieldManager.orValue('')"
_OLD_LEASE = f"oldObject == null ? '' : oldObject.metadata.?annotations[?'{LEASE}'].orValue('')"

VARIABLES: Final = {
    "before": "oldObject == null ? dyn({}) : dyn(oldObject.metadata.?annotations.orValue({}))",
    "after": "object == null ? variables.before : dyn(object.metadata.?annotations.orValue({}))",
    "manager": _MANAGER,
    "lease": f"string(variables.after[?'{LEASE}'].orValue(''))",
    "text": f"string(variables.after[?'{EPOCH}'].orValue(''))",
    "epoch": "variables.text.matches('^[1-9][0-9]{0,15}$') && int(variables.text) <= 9007199254740991"
    " ? int(variables.text) : 0",
    "old_text": f"string(variables.before[?'{EPOCH}'].orValue(''))",
    "old_epoch": "variables.old_text.matches('^[1-9][0-9]{0,15}$') ? int(variables.old_text) : 0",
}
"""For a deletion, what is after is what was before. An epoch that is none counts as 0."""

OBJECT_CHECKS: Final = (
    Check(
        "label",
        f"object == null || object.metadata.?labels[?'{LABEL}'].orValue('') == 'true'",
        f"the label {LABEL} is removed with the verb revoke on the WorkLease",
    ),
    Check(
        "lease",
        f"variables.lease.size() <= 317 && variables.lease.matches('^{_PART}/{_PART}$')",
        f"a fenced object names its lease: the annotation {LEASE} is NAMESPACE/NAME",
    ),
    Check(
        "lease.namespace",
        "request.?namespace.orValue('') == '' || variables.lease.startsWith(request.namespace + '/')",
        f"{LEASE} must name a WorkLease in the object's own namespace",
    ),
    Check(
        "lease.kept",
        f"oldObject == null || variables.before[?'{LEASE}'].orValue(variables.lease) == variables.lease",
        f"{LEASE} is changed with the verb revoke on the WorkLease",
    ),
    Check(
        "epoch",
        "variables.epoch > 0",
        f"the annotation {EPOCH} must be your epoch, a decimal integer from 1 to 9007199254740991",
    ),
    Check(
        "ratchet",
        "variables.epoch >= variables.old_epoch",
        "stale epoch: a later one has been here",
        "'stale epoch ' + variables.text + ' for ' + variables.lease + ': epoch ' + variables.old_text"
        " + ' has been here. Claim the work again before any effect'",
    ),
    Check(
        "manager",
        "object == null || variables.manager.endsWith('@' + variables.text)",
        "the field manager must restate the epoch: --field-manager=NAME@EPOCH",
        "'the field manager must restate the epoch: --field-manager=NAME@' + variables.text"
        " + (variables.manager == '' ? ', and there is none' : ', not ' + variables.manager)",
    ),
    Check(
        "deletion",
        f"object != null || variables.before[?'{DELETE_EPOCH}'].orValue('') == variables.text",
        f"before it deletes a fenced object the holder annotates it with {DELETE_EPOCH}",
        f"'before it deletes a fenced object the holder annotates it: {DELETE_EPOCH}=' + variables.text",
    ),
)
"""What the object itself can tell. These hold for cluster-scoped objects too."""

_SAID = " && ".join(
    f"params.spec.?{name}.?epoch.orValue(0) != variables.epoch" for name in ("revocation", "release", "completion")
)

STANDING_CHECK: Final = Check(
    "standing",
    "variables.epoch < 1 || variables.epoch < variables.old_epoch"
    " || variables.lease != params.metadata.namespace + '/' + params.metadata.name || ("
    "params.?status.?epoch.orValue(0) == variables.epoch && params.?status.?phase.orValue('') == 'Held'"
    f" && !has(params.status.successor) && {_SAID})",
    "this epoch has no standing now",
    "params.?status.?epoch.orValue(0) == variables.epoch"
    " ? 'epoch ' + variables.text + ' has no standing for ' + variables.lease + ' now: the WorkLease is '"
    " + params.?status.?phase.orValue('Available') + ' or its end has been stated'"
    " : 'epoch ' + variables.text + ' is not the epoch of ' + variables.lease + ', which is '"
    " + string(params.?status.?epoch.orValue(0))"
    " + ' as far as this API server has seen; after a fresh grant try again'",
)
"""Evaluated once for each WorkLease of the namespace. All but the one that the object names pass, and so does what
the checks of the object refuse in better words."""


def manifests(
    exempt_groups: Collection[str] = EXEMPT_GROUPS, exempt_users: Collection[str] = EXEMPT_USERS
) -> list[dict[str, Any]]:
    """Both policies with their bindings. A controller of yours that writes fenced objects is exempted by its group."""
    conditions = _match_conditions(exempt_groups, exempt_users)
    of_object = _policy("worklease-fence", "*", conditions, OBJECT_CHECKS)
    of_lease = _policy("worklease-fence-standing", "Namespaced", conditions, (STANDING_CHECK,))
    of_lease["spec"]["paramKind"] = {"apiVersion": API_VERSION, "kind": "WorkLease"}
    # Without a namespace here the WorkLeases are those of the object's own namespace. Deny would be applied before the
    # match conditions, to the namespace controller too: a namespace without WorkLeases could never be emptied.
    every_lease = {"selector": {}, "parameterNotFoundAction": "Allow"}
    return [
        of_object,
        _binding("worklease-fence"),
        of_lease,
        _binding("worklease-fence-standing", paramRef=every_lease),
    ]


def _policy(name: str, scope: str, conditions: list[dict[str, str]], checks: tuple[Check, ...]) -> dict[str, Any]:
    everything = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["*"],
        "scope": scope,
    }
    ours = {"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    return {
        "apiVersion": ADMISSION_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "objectSelector": {"matchLabels": {LABEL: "true"}},
                "resourceRules": [everything],
                "excludeResourceRules": [ours],
            },
            "matchConditions": conditions,
            "variables": [{"name": name, "expression": cel} for name, cel in VARIABLES.items()],
            "validations": [validation(check) for check in checks],
        },
    }


def _match_conditions(groups: Collection[str], users: Collection[str]) -> list[dict[str, str]]:
    """Who is fenced: everybody but the cluster's own parts, and those who may revoke and do not speak as a tenure."""
    namespace = "(request.?namespace.orValue('') != '' ? request.namespace : lease.split('/')[0])"
    name = "(lease.contains('/') ? lease.split('/')[1] : '')"
    may_revoke = (
        f"authorizer.group('{GROUP}').resource('workleases').namespace({namespace}).name({name})"
        f".check('{REVOKE}').allowed()"
    )
    return [
        {
            "name": "not-the-cluster-itself",
            "expression": f"!request.userInfo.?groups.orValue([]).exists(group, group in {sorted(groups)!r})"
            f" && !(request.userInfo.?username.orValue('') in {sorted(users)!r})",
        },
        {
            "name": "as-a-tenure-or-without-the-verb-revoke",
            "expression": f"{_MANAGER}.matches('@[0-9]+$') || !([{_OLD_LEASE}].exists(lease, {may_revoke}))",
        },
    ]


def _binding(name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": ADMISSION_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], **more},
    }
