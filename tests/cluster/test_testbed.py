"""The testbed's cluster, namespaces and identities are what the other tests take them for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane import install, manifests
from support.cluster import Cluster, Identity, KubectlAnswer
from support.waiting import wait_for


def who(identity: Identity) -> dict[str, object]:
    """What the API server takes an identity for."""
    answer = identity.api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).must()
    return dict(answer["status"]["userInfo"])


def test_administrator_is_authenticated_by_the_kubeconfig(cluster: Cluster) -> None:
    """The administrator's kubeconfig verifies the server by its authority and may do everything."""
    assert "system:masters" in str(who(cluster.admin)["groups"])
    assert cluster.ca_file.read_text().startswith("-----BEGIN CERTIFICATE-----")


def test_static_user_speaks_by_their_own_token(
    as_user: Callable[[str], Identity], kubectl: Callable[..., KubectlAnswer]
) -> None:
    """A static user is who their name says, and may read nothing before a role is bound to them."""
    alice = as_user("alice")
    assert who(alice)["username"] == "alice"
    answer = kubectl("get", "pods", "--namespace=default", identity=alice)
    assert answer.exit_code == 1
    assert 'User "alice" cannot list resource "pods"' in answer.stderr


def test_service_account_has_its_role_when_the_fixture_returns(
    cluster: Cluster, namespace: str, service_account: Callable[..., Identity]
) -> None:
    """A ServiceAccount may at once do in its namespace what the role says, and nothing elsewhere."""
    viewer = service_account(namespace, "viewer", "view")
    assert viewer.username == f"system:serviceaccount:{namespace}:viewer"
    assert viewer.api.get(f"/api/v1/namespaces/{namespace}/pods").ok
    assert viewer.api.get("/api/v1/namespaces/default/pods").status == 403


def test_pod_identity_carries_the_pods_uid(namespace: str, pod_identity: Callable[..., Identity]) -> None:
    """A pod-bound token names its pod and that pod's uid."""
    identity = pod_identity(namespace, "agent", "agent-0")
    extra = who(identity)["extra"]
    assert isinstance(extra, dict)
    (pod,) = extra["authentication.kubernetes.io/pod-name"]
    (uid,) = extra["authentication.kubernetes.io/pod-uid"]
    assert identity.instance == f"pod:{pod}/{uid}"


def test_garbage_collector_deletes_what_has_lost_its_owner(cluster: Cluster, namespace: str) -> None:
    """The controller-manager is real: an object whose owner does not exist is collected."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    cluster.api.create(maps, {"metadata": {"name": "orphan", "ownerReferences": [owner]}}).must()
    wait_for(lambda: cluster.api.get(f"{maps}/orphan").status == 404, "the garbage collector to delete the orphan")


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  matchConstraints:
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
    resourceRules:
    - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}
  validations:
  - {{expression: "object.metadata.name == '{allowed}'"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec: {{policyName: {name}, validationActions: [Deny]}}
"""


def test_policies_are_in_force_when_install_returns(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy is enforced from the first write after install(), when it is new and when it has been changed."""
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    monkeypatch.setattr(manifests, "CHART_FILES", tmp_path)
    monkeypatch.setattr(manifests, "CRDS", tmp_path / "none")
    policy = tmp_path / "policy.yaml"
    try:
        for allowed, refused in (("first", "second"), ("second", "first")):
            policy.write_text(POLICY.format(name=f"of-{namespace}", namespace=namespace, allowed=allowed))
            install(cluster.kubeconfig, cluster.kubectl_path)
            assert cluster.api.create(maps, {"metadata": {"name": refused}}, dryRun="All").status == 422
            assert cluster.api.create(maps, {"metadata": {"name": allowed}}, dryRun="All").ok
    finally:
        cluster.kubectl("delete", "-f", str(policy))
    assert "worklease-probe" not in cluster.kubectl("get", "validatingadmissionpolicies", "-o", "name").stdout
