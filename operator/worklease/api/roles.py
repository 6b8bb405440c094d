"""What each kind of speaker is granted: ClusterRoles for people, agents and tools, and the operator's own account.

Verbs beside the usual ones (configure, revoke, delegate) mean something to the admission policies alone.
"""

from typing import Any

from worklease.api.admission import CONFIGURE, DELEGATE, DELETE, REVOKE
from worklease.api.group import GROUP

NAMESPACE = "worklease-system"
OPERATOR = "worklease-operator"

WORK, HANDOFFS = "workleases", "handoffs"
READ = ("get", "list", "watch")
WRITE = ("update", "patch")
CREATE = "create"

GRANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "worklease-viewer": {WORK: READ, HANDOFFS: READ},
    "worklease-agent": {WORK: (*READ, *WRITE), HANDOFFS: (*READ, CREATE, *WRITE)},
    "worklease-agent-creator": {WORK: (*READ, CREATE, *WRITE), HANDOFFS: (*READ, CREATE, *WRITE)},
    "worklease-gitops": {
        WORK: (*READ, CREATE, *WRITE, DELETE, CONFIGURE),
        HANDOFFS: (*READ, CREATE, *WRITE, DELETE),
    },
    "worklease-handler": {WORK: (*READ, *WRITE, REVOKE, DELEGATE), HANDOFFS: (*READ, CREATE, *WRITE)},
    "worklease-admin": {
        WORK: (*READ, CREATE, *WRITE, DELETE, "deletecollection", CONFIGURE, REVOKE, DELEGATE),
        HANDOFFS: (*READ, CREATE, *WRITE, DELETE, "deletecollection", DELEGATE),
    },
}
"""The verbs of each role on each kind. None of them reaches /status: only the operator decides."""

AGGREGATED = {"worklease-viewer": "view", "worklease-admin": "admin"}
"""The built-in role that each becomes a part of.

`view` is itself a part of `edit`, and that is all `edit` gets: who may deploy into a namespace does not thereby claim
its work. `admin` hands out roles in its namespace, and nobody can hand out more than they have.
"""


def _role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if name in AGGREGATED:
        metadata["labels"] = {f"rbac.authorization.k8s.io/aggregate-to-{AGGREGATED[name]}": "true"}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def _rule(group: str, resource: str, verbs: tuple[str, ...]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


EVENTS = [_rule("", "events", READ), _rule("events.k8s.io", "events", READ)]
"""Read with the objects, so that `kubectl describe` and `kubectl events` tell the story."""


def operator_rules(group: str = GROUP) -> list[dict[str, Any]]:
    """What the operator needs: it reads both kinds, writes nothing of them but status, and records events."""
    return [
        *(_rule(group, kind, READ) for kind in (WORK, HANDOFFS)),
        *(_rule(group, f"{kind}/status", WRITE) for kind in (WORK, HANDOFFS)),
        _rule("events.k8s.io", "events", (CREATE, "patch")),
    ]


def manifests(group: str = GROUP) -> list[dict[str, Any]]:
    """Every role, the operator's namespace and account, and the binding that gives it its role in the whole cluster."""
    roles = [
        _role(name, [*(_rule(group, kind, verbs) for kind, verbs in kinds.items()), *EVENTS])
        for name, kinds in GRANTS.items()
    ]
    return [
        *roles,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": OPERATOR, "namespace": NAMESPACE}},
        _role(OPERATOR, operator_rules(group)),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": OPERATOR},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": OPERATOR},
            "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": NAMESPACE}],
        },
    ]
