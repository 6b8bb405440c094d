"""What the chart renders: for many values a real API server takes it, and it is what the code generates."""

from __future__ import annotations

import json

import pytest
import yaml

from generation import rendered as generated
from support.cluster import Cluster
from support.gitops import EXAMPLES
from support.helm import EVERYTHING, Helm, Manifest, Values, find
from worklease.api import fence_policy

MONITORING = "monitoring.coreos.com/v1"
MATRIX: dict[str, Values] = {
    "as it is": {},
    "everything": EVERYTHING,
    "one replica, nothing else": {
        "replicas": 1,
        "crds": {"install": False},
        "policies": {"enabled": False},
        "roles": {"aggregate": False},
        "resources": {},
    },
    "fenced objects, few namespaces": {"fence": {"enabled": True}, "operator": {"namespaces": ["team-a"]}},
    "closed network": {"networkPolicy": {"enabled": True, "apiServerPorts": [8443]}},
}


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_the_api_server_takes_every_object(helm: Helm, cluster: Cluster, namespace: str, values: Values) -> None:
    """A dry run of the real server; the Prometheus operator's kinds, which it does not have, are looked at below."""
    for account in ("worklease-operator", "worklease-test"):
        cluster.service_account(namespace, account)
    manifests = [one for one in helm.render(values, namespace) if one["apiVersion"] != MONITORING]
    answer = cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", given=_list(manifests)
    )
    assert answer.exit_code == 0, answer.stderr
    assert answer.stdout.count("(server dry run)") == len(manifests)
    assert "Warning" not in answer.stderr


def test_the_pods_are_restricted(helm: Helm, cluster: Cluster, namespace: str) -> None:
    """A namespace that enforces the restricted Pod Security Standard takes the operator's pod and the test's."""
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.api.patch(f"/api/v1/namespaces/{namespace}", level, "application/merge-patch+json").must()
    manifests = helm.render(EVERYTHING | {"operator": {}, "priorityClassName": ""}, namespace)
    template = find(manifests, "StatefulSet")["spec"]["template"]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": template["spec"]},
        find(manifests, "Pod", "worklease-test"),
    ]
    for pod in pods:
        cluster.service_account(namespace, pod["spec"]["serviceAccountName"])
        answer = cluster.api.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
        assert answer.ok, answer.message
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"].keys() == {"memory"}


@pytest.mark.parametrize("file", ["crds/workleases", "crds/handoffs", "files/policies", "files/fence", "files/roles"])
def test_what_is_generated_is_rendered_unchanged(helm: Helm, file: str) -> None:
    """CRDs, policies and roles are those of the code; the chart adds labels, and that CRDs are kept."""
    (text,) = [
        content
        for path, content in generated().items()
        if f"{path}" in (f"{file}.yaml", f"charts/worklease/{file}.yaml")
    ]
    wanted = [
        one for one in yaml.load_all(text, yaml.CSafeLoader) if one["kind"] not in ("Namespace", "ServiceAccount")
    ]
    manifests = helm.render({"fence": {"enabled": True}})
    for one in wanted:
        found = find(manifests, one["kind"], one["metadata"]["name"])
        assert _without_metadata(found) == _without_metadata(one)
        assert one["metadata"].get("labels", {}).items() <= found["metadata"]["labels"].items()
        kept = found["metadata"].get("annotations", {}).get("helm.sh/resource-policy")
        assert kept == ("keep" if one["kind"] == "CustomResourceDefinition" else None)


def test_controllers_are_exempted_from_the_fence(helm: Helm) -> None:
    """By group or by name, beside the cluster's own parts."""
    fence = EVERYTHING["fence"]
    wanted = fence_policy.manifests(
        (*fence_policy.EXEMPT_GROUPS, *fence["exemptGroups"]), (*fence_policy.EXEMPT_USERS, *fence["exemptUsers"])
    )
    manifests = helm.render(EVERYTHING)
    for one in wanted:
        assert find(manifests, one["kind"], one["metadata"]["name"])["spec"] == one["spec"]


def test_nothing_is_granted_beyond_what_is_generated(helm: Helm) -> None:
    """No role, binding or policy is the chart's own, but that of `helm test`."""
    files = [text for path, text in generated().items() if path.suffix == ".yaml"]
    names = {one["metadata"]["name"] for text in files for one in yaml.load_all(text, yaml.CSafeLoader)}
    for one in helm.render(EVERYTHING | {"operator": {}}):
        if one["kind"].startswith(("ClusterRole", "Role", "Validating")):
            assert one["metadata"]["name"] in names | {"worklease-test"}


def test_no_role_of_an_agent_may_delete_or_revoke(helm: Helm) -> None:
    """Nor does whoever may edit a namespace thereby revoke in it."""
    manifests = helm.render()
    for name in ("worklease-agent", "worklease-agent-creator", "worklease-viewer"):
        verbs = {verb for rule in find(manifests, "ClusterRole", name)["rules"] for verb in rule["verbs"]}
        assert not verbs & {"delete", "deletecollection", "revoke", "delegate", "configure", "*"}
    labels = [one["metadata"]["labels"] for one in manifests if one["kind"] == "ClusterRole"]
    assert not [one for one in labels if "rbac.authorization.k8s.io/aggregate-to-edit" in one]


def test_prometheus_finds_the_operator(helm: Helm) -> None:
    """The ServiceMonitor selects the Service, by labels that it has and a port that it names."""
    manifests = helm.render(EVERYTHING)
    monitor, service = find(manifests, "ServiceMonitor"), find(manifests, "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    pod = find(manifests, "StatefulSet")["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    assert ports[service["spec"]["ports"][0]["targetPort"]] == 8080


def test_every_object_is_labelled_with_its_release(helm: Helm) -> None:
    """So that all of an installation can be listed."""
    for one in helm.render(EVERYTHING):
        assert one["metadata"]["labels"]["app.kubernetes.io/instance"] == "worklease", one["metadata"]["name"]


def test_flux_installs_this_chart_and_waits_for_what_it_has(helm: Helm) -> None:
    """The values of its HelmRelease are taken, and each health check is about an object that there will be."""
    flux = EXAMPLES / "flux"
    platform = list(yaml.safe_load_all((flux / "operator.yaml").read_text()))
    (release,) = [one for one in platform if one["kind"] == "HelmRelease"]
    manifests = helm.render(release["spec"]["values"], release["metadata"]["namespace"])
    there = {(one["kind"], one["metadata"]["name"]) for one in [*platform, *manifests]}
    waiting = yaml.safe_load((flux / "cluster.yaml").read_text())
    assert {(check["kind"], check["name"]) for check in waiting["spec"]["healthChecks"]} <= there
    (needed,) = yaml.safe_load((flux / "kustomization.yaml").read_text())["spec"]["dependsOn"]
    assert needed == {key: waiting["metadata"][key] for key in ("name", "namespace")}


def _list(manifests: list[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})


def _without_metadata(manifest: Manifest) -> Manifest:
    return {key: value for key, value in manifest.items() if key != "metadata"}
