"""What each role can do and cannot, and that the documentation of it is true."""

import json
import re
import secrets
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity, KubectlAnswer
from support.stage import Stage, claim
from support.waiting import wait_for
from support.words import now
from worklease.api import group, roles

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "rbac.md"
REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"

READ = {"get", "list", "watch"}
SPEAK = READ | {"update", "patch"}
CREATE = SPEAK | {"create"}
VERBS = CREATE | {"delete", "deletecollection", "configure", "revoke", "delegate"}
POWERS = {
    "worklease-viewer": (READ, READ),
    "worklease-agent": (SPEAK, CREATE),
    "worklease-agent-creator": (CREATE, CREATE),
    "worklease-gitops": (CREATE | {"delete", "configure"}, CREATE | {"delete"}),
    "worklease-handler": (SPEAK | {"revoke", "delegate"}, CREATE),
    "worklease-admin": (VERBS, VERBS - {"configure", "revoke"}),
    "view": (READ, READ),
    "edit": (READ, READ),
    "admin": (VERBS, VERBS - {"configure", "revoke"}),
}


def verbs(cluster: Cluster, namespace: str, user: str, resource: str, subresource: str = "") -> set[str]:
    """What a user may do there with a kind of ours."""

    def may(verb: str) -> bool:
        asked = {
            "namespace": namespace,
            "group": group.GROUP,
            "resource": resource,
            "subresource": subresource,
            "verb": verb,
        }
        body = {"spec": {"user": user, "resourceAttributes": asked}}
        return bool(cluster.api.create(REVIEW, body).must()["status"]["allowed"])

    return {verb for verb in VERBS if may(verb)}


def bind(cluster: Cluster, namespace: str, role: str, user: str) -> None:
    """Binds a ClusterRole in a namespace."""
    body = {
        "metadata": {"name": secrets.token_hex(4)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    cluster.api.create(f"{RBAC}/namespaces/{namespace}/rolebindings", body).must()


@pytest.mark.parametrize("role", POWERS)
def test_role_has_these_verbs_and_no_others(role: str, cluster: Cluster, namespace: str) -> None:
    """Each role, and the built-in ones that contain ours, has what the documentation says; none writes status."""
    user = f"user-{secrets.token_hex(4)}"
    bind(cluster, namespace, role, user)
    work, handoffs = POWERS[role]
    wait_for(lambda: verbs(cluster, namespace, user, "workleases") == work, f"{role} to mean {sorted(work)}")
    assert verbs(cluster, namespace, user, "handoffs") == handoffs
    for resource in ("workleases", "handoffs"):
        assert verbs(cluster, namespace, user, resource, "status") == set()


def test_documentation_tells_of_every_role() -> None:
    """The tables of docs/rbac.md are about the roles that there are."""
    text = DOCUMENT.read_text()
    assert set(re.findall(r"^\| `(worklease-[a-z-]+)`", text, re.MULTILINE)) == set(roles.GRANTS)


def documented() -> list[tuple[str, str]]:
    """Each command of docs/rbac.md with the answer that it names."""
    blocks = re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.strip().splitlines()]
    return [(command, answer) for command, _, answer in (line.partition(" # ") for line in lines)]


def test_documented_commands_answer_as_documented(namespace: str, kubectl: Callable[..., KubectlAnswer]) -> None:
    """Every line of docs/rbac.md is run as it stands, in a namespace of another name."""
    commands = documented()
    assert len([answer for _, answer in commands if answer]) > 5
    for command, answer in commands:
        program, *arguments = shlex.split(re.sub(r"\bdemo\b", namespace, command))
        assert program == "kubectl"

        def as_documented(arguments: list[str] = arguments, answer: str = answer) -> bool:
            result = kubectl(*arguments)
            if not answer:
                assert result.exit_code == 0, result.stderr
            return not answer or result.stdout.strip() == answer

        wait_for(as_documented, command)


def test_kubectl_warns_of_our_verbs_and_grants_them(namespace: str, kubectl: Callable[..., KubectlAnswer]) -> None:
    """The warning that the documentation calls expected is what kubectl says."""
    result = kubectl("create", "role", "r", "--verb=revoke", "--resource=workleases", f"--namespace={namespace}")
    assert result.exit_code == 0
    assert "Warning: 'revoke' is not a standard resource verb" in result.stderr


def test_agent_of_one_item_sees_and_claims_that_alone(
    stage: Stage, service_account: Callable[..., Identity], kubectl: Callable[..., KubectlAnswer]
) -> None:
    """With resourceNames an agent reads, watches and claims its item, and no other."""
    mine, other = stage.work(), stage.work()
    agent = service_account(stage.namespace, "reporter")
    where = f"--namespace={stage.namespace}"
    role = ["role", "report", "--verb=get,list,watch,update,patch", "--resource=workleases"]
    kubectl("create", *role, f"--resource-name={mine.name}", where)
    kubectl("create", "rolebinding", "r", "--role=report", f"--serviceaccount={stage.namespace}:reporter", where)
    wait_for(lambda: agent.api.get(mine.path).ok, "the role to be in force")
    mine.say(agent, claim=claim(agent)).must()
    assert (
        kubectl("get", "workleases", f"--field-selector=metadata.name={mine.name}", where, identity=agent).exit_code
        == 0
    )
    assert kubectl("get", "workleases", where, identity=agent).exit_code == 1
    assert other.say(agent, claim=claim(agent)).status == 403


def test_wildcard_verbs_are_all_verbs(stage: Stage, service_account: Callable[..., Identity]) -> None:
    """A role with verbs ["*"] revokes, configures and delegates, and still speaks for no holder."""
    everything = service_account(stage.namespace, "everything")
    rule = {"apiGroups": [stage.group], "resources": ["workleases"], "verbs": ["*"]}
    roles_path = f"{RBAC}/namespaces/{stage.namespace}"
    stage.root.api.create(f"{roles_path}/roles", {"metadata": {"name": "everything"}, "rules": [rule]}).must()
    binding = {
        "metadata": {"name": "everything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "everything"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": everything.username}],
    }
    stage.root.api.create(f"{roles_path}/rolebindings", binding).must()
    item = stage.held()
    wait_for(lambda: everything.api.get(item.path).ok, "the role to be in force")
    assert "only the holder" in item.renew(everything).message
    item.say(everything, suspend=True).must()
    revocation = {"epoch": item.epoch, "reason": "it hung"}
    item.say(everything, revocation=revocation, claim=claim(stage.who("rival"), item.epoch)).must()


def test_operator_writes_status_and_events_and_nothing_else(stage: Stage) -> None:
    """The operator's own token: it reads both kinds everywhere, decides, records, and can do nothing more."""
    item, operator = stage.held(), stage.operator
    for plural in ("workleases", "handoffs"):
        assert operator.api.get(f"/apis/{stage.group}/v1alpha1/{plural}").ok
    swap = [
        {"op": "test", "path": "/status/epoch", "value": item.epoch},
        {"op": "replace", "path": "/status/phase", "value": "Jeopardy"},
    ]
    operator.api.patch(f"{item.path}/status", swap).must()
    event = {
        "metadata": {"generateName": "event-"},
        "eventTime": now(),
        "reportingController": "worklease.dev/operator",
        "reportingInstance": "one",
        "action": "Grant",
        "reason": "Held",
        "type": "Normal",
        "note": "",
        "regarding": {
            "apiVersion": stage.api_version,
            "kind": "WorkLease",
            "name": item.name,
            "namespace": stage.namespace,
        },
    }
    made = operator.api.create(EVENTS.format(stage.namespace), event).must()
    series = {"series": {"count": 2, "lastObservedTime": now()}}
    events = EVENTS.format(stage.namespace)
    operator.api.patch(f"{events}/{made['metadata']['name']}", series, "application/merge-patch+json").must()
    for refusal in (
        item.renew(operator),
        item.say(operator, revocation={"epoch": item.epoch, "reason": "r"}),
        operator.api.delete(item.path),
        stage.create(operator, "workleases", {})[1],
        operator.api.get(f"/api/v1/namespaces/{stage.namespace}/secrets"),
        operator.api.get(f"/api/v1/namespaces/{stage.namespace}/pods"),
        operator.api.get("/api/v1/namespaces"),
        operator.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
    ):
        assert refusal.status == 403
    rules = [rule for rule in roles.manifests() if rule["metadata"]["name"] == roles.OPERATOR and "rules" in rule]
    assert "*" not in json.dumps(rules)
