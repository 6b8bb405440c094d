"""What the chart makes of its values: what it refuses, and in which words; what it says when it is installed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

import values
from support.helm import CHART, EVERYTHING, NAMESPACE, RELEASE, Helm, Values, find

REFUSED: list[tuple[Values, str]] = [
    ({"replica": 3}, "additional properties 'replica' not allowed"),
    ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
    ({"replicas": 65}, "at '/replicas': maximum: got 65, want 64"),
    ({"replicas": "two"}, "at '/replicas': got string, want integer"),
    ({"image": {"repository": ""}}, "at '/image/repository': minLength: got 0, want 1"),
    ({"image": {"pullPolicy": "Sometimes"}}, "value must be one of 'Always', 'IfNotPresent', 'Never'"),
    ({"image": {"digest": "latest"}}, 'image.digest is sha256: and 64 hexadecimal digits, not "latest"'),
    ({"image": {"pullSecrets": ["registry"]}}, "at '/image/pullSecrets/0': got string, want object"),
    ({"operator": {"epochFloor": -1}}, "at '/operator/epochFloor': minimum: got -1, want 0"),
    ({"operator": {"epochFloor": 2**51 + 1}}, "at '/operator/epochFloor': maximum"),
    ({"operator": {"logFormat": "xml"}}, "at '/operator/logFormat': value must be one of 'text', 'json'"),
    ({"operator": {"logLevel": "loud"}}, "value must be one of 'debug', 'info', 'warning', 'error'"),
    ({"operator": {"namespaces": ["Team"]}}, 'a namespace is a name such as team-a, not "Team"'),
    ({"operator": {"namespaces": ["a", "a"]}}, "items at 0 and 1 are equal"),
    ({"operator": {"floor": 1}}, "at '/operator': additional properties 'floor' not allowed"),
    ({"policies": {"enabled": "no"}}, "at '/policies/enabled': got string, want boolean"),
    ({"resources": {"memory": "1Gi"}}, "at '/resources': additional properties 'memory' not allowed"),
    ({"fence": {"exemptUsers": ["a' || true || 'b"]}}, "are names such as system:serviceaccounts:team-a"),
    ({"podLabels": {"app.kubernetes.io/name": "mine"}}, "podLabels may not set app.kubernetes.io/name"),
    ({"networkPolicy": {"apiServerPorts": []}}, "at '/networkPolicy/apiServerPorts': minItems: got 0, want 1"),
    ({"networkPolicy": {"apiServerPorts": [70000]}}, "maximum: got 70,000, want 65,535"),
    ({"networkPolicy": {"metricsFrom": ["a/b"]}}, 'a namespace is a name such as team-a, not "a/b"'),
    ({"monitoring": {"serviceMonitor": {"interval": "often"}}}, 'is a duration such as 30s, not "often"'),
]


@pytest.mark.parametrize(("given", "said"), REFUSED, ids=[json.dumps(given)[:60] for given, _ in REFUSED])
def test_a_value_that_makes_no_sense_is_refused_with_a_sentence(helm: Helm, given: Values, said: str) -> None:
    """The sentence names the value, what it is and what it may be."""
    assert said in helm.refused("template", RELEASE, str(CHART), values=given)


def test_an_api_server_that_is_too_old_is_refused(helm: Helm) -> None:
    """Field selectors on custom resources and policies with every function used here are served from 1.32 on."""
    said = helm.refused("template", RELEASE, str(CHART), "--kube-version=1.31.9")
    assert "chart requires kubeVersion: >=1.32.0-0 which is incompatible with Kubernetes v1.31.9" in said


def test_the_chart_is_well_formed(helm: Helm) -> None:
    """helm lint finds nothing, with the values as they are and with all of them changed."""
    helm.must("lint", "--strict", str(CHART))
    helm.must("lint", "--strict", str(CHART), values=EVERYTHING)


def _leaves() -> dict[str, tuple[Any, dict[str, Any]]]:
    """The default and the schema of each value."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    return {path: (value, one) for path, value, one in values.leaves(defaults, schema)}


def test_every_value_is_described() -> None:
    """The schema knows each value of values.yaml, and says what it is for."""
    assert [path for path, (_, one) in _leaves().items() if "description" not in one] == []


def test_changing_every_value_is_tested() -> None:
    """EVERYTHING leaves out only what is on by default, or says nothing by itself."""
    same = {path for path, (default, _) in _leaves().items() if _at(EVERYTHING, path) in (None, default)}
    assert same == {
        "crds.install",
        "policies.enabled",
        "roles.aggregate",
        "image.tag",
        "image.pullPolicy",
        "resources",
        "networkPolicy.apiServerPorts",
        "monitoring.serviceMonitor.interval",
        "monitoring.dashboard.labels",
    }


def _at(tree: Any, path: str) -> Any:
    for part in path.split("."):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def test_the_operator_is_told_what_the_values_say(helm: Helm) -> None:
    """Each value of `operator` is a flag that worklease-operator has."""
    manifests = helm.render(EVERYTHING)
    (container,) = find(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example/worklease@sha256:{'0' * 64}"
    assert container["args"] == [
        "--listen=:8080",
        "--replicas=3",
        f"--epoch-floor={2**40}",
        "--distrust-server-times",
        "--namespace=team-a",
        "--namespace=team-b",
        "--log-format=text",
        "--log-level=debug",
    ]


def test_the_arguments_are_taken_by_the_operator(helm: Helm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the values, in the pod whose name ends in a number."""
    from worklease.controller.command import options

    monkeypatch.setattr("socket.gethostname", lambda: "worklease-operator-1")
    for given in ({}, EVERYTHING):
        (container,) = find(helm.render(given), "StatefulSet")["spec"]["template"]["spec"]["containers"]
        chosen, _, _ = options(container["args"])
        assert chosen.settings.ordinal == 1
        assert chosen.settings.replicas == given.get("replicas", 2)


def test_one_replica_has_no_disruption_budget(helm: Helm) -> None:
    """Else no node could be drained."""
    kinds = {manifest["kind"] for manifest in helm.render({"replicas": 1})}
    assert "PodDisruptionBudget" not in kinds
    assert "PodDisruptionBudget" in {manifest["kind"] for manifest in helm.render()}


def test_what_is_turned_off_is_not_rendered(helm: Helm) -> None:
    """CRDs, policies and aggregation, each by its value."""
    off = {"crds": {"install": False}, "policies": {"enabled": False}, "roles": {"aggregate": False}}
    manifests = helm.render(off)
    kinds = {manifest["kind"] for manifest in manifests}
    assert not kinds & {"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    labels = [label for manifest in manifests for label in manifest["metadata"].get("labels", {})]
    assert not [label for label in labels if "aggregate-to" in label]


def test_the_notes_warn_of_missing_policies(helm: Helm) -> None:
    """Whoever turns them off is told what that means."""
    dry = ("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client")
    assert "WARNING: policies.enabled is false" in helm.must(*dry, values={"policies": {"enabled": False}})
    assert "WARNING" not in helm.must(*dry, values={})
