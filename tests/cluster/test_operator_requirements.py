"""The operator says which requirement a cluster does not meet, waits for it, and neither dies nor restarts for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane, install, operator_token
from support.cluster import Cluster, Identity
from support.operators import Launcher, OperatorProcess
from support.proxy import Proxy
from support.speaking import Agent, Work
from support.waiting import wait_for
from worklease.api.group import GROUP
from worklease.controller.requirements import SERVED, too_old

OLD = {"major": "1", "minor": "31", "gitVersion": "v1.31.9"}
TOO_OLD = "the API server is Kubernetes v1.31.9, and worklease needs 1.32 or newer: upgrade it"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def launcher(cluster: Cluster, tmp_path: Path) -> Iterator[Launcher]:
    """Starts operators, and ends them."""
    launcher = Launcher(cluster, tmp_path)
    yield launcher
    launcher.stop()


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane without our kinds."""
    with ControlPlane() as plane:
        yield plane


def says(operator: OperatorProcess, sentence: str) -> None:
    """Waits until readiness gives the sentence; the log has it too, and the process is alive."""
    wait_for(lambda: operator.get("/readyz") == (503, f"{sentence}\n"), f"/readyz to say: {sentence}")
    assert sentence in operator.log
    assert operator.get("/healthz") == (200, "ok\n")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (OLD, TOO_OLD),
        ({"major": "1", "minor": "31+"}, "the API server is Kubernetes 1.31, and worklease needs 1.32 or newer"),
        ({"major": "0", "minor": "99"}, "is Kubernetes 0.99"),
        ({"major": "1", "minor": "32", "gitVersion": "v1.32.0"}, None),
        ({"major": "1", "minor": "32+"}, None),
        ({"major": "1", "minor": "100"}, None),
        ({"major": "2", "minor": "0"}, None),
        ({"major": "", "minor": ""}, None),
        ({"major": None, "minor": {}}, None),
        ({}, None),
    ],
)
def test_a_version_is_compared_as_two_numbers(version: dict[str, Any], said: str | None) -> None:
    """With what providers append to them; one that cannot be read is not held against the cluster."""
    found = too_old(version)
    assert found is None if said is None else said in (found or "")


def test_an_api_server_that_is_too_old_is_named(
    cluster: Cluster,
    namespace: str,
    launcher: Launcher,
    proxy: Proxy,
    tmp_path: Path,
    service_account: Callable[..., Identity],
) -> None:
    """Not ready, with both versions, until the server has been upgraded; leases are decided all the while."""
    proxy.instead = lambda path: OLD if path == "/version" else None
    token = operator_token(cluster.kubeconfig, cluster.kubectl_path)
    operator = launcher.start(namespace, kubeconfig=proxy.kubeconfig(tmp_path, token))
    operator.serves()
    says(operator, TOO_OLD)
    Work.create(cluster, namespace).hold(Agent.of(service_account(namespace, "agent", "worklease-agent")))
    proxy.instead = lambda path: None
    operator.ready()
    assert f"what was missing is there now ({TOO_OLD})" in operator.log
    assert "Traceback" not in operator.log


def test_an_older_api_server_is_noticed_when_the_connection_comes_back(
    cluster: Cluster, namespace: str, launcher: Launcher, proxy: Proxy, tmp_path: Path
) -> None:
    """What stands behind an address may have been replaced during an outage."""
    token = operator_token(cluster.kubeconfig, cluster.kubectl_path)
    operator = launcher.start(namespace, kubeconfig=proxy.kubeconfig(tmp_path, token)).ready()
    proxy.refuse = lambda path, watching: 503
    proxy.cut()
    wait_for(lambda: not operator.is_ready(), "the operator to notice the outage")
    proxy.instead = lambda path: OLD if path == "/version" else None
    proxy.refuse = lambda path, watching: 0
    says(operator, TOO_OLD)


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("workleases", f"the operator may not get, list, watch workleases.{GROUP} in"),
        ("handoffs", f"the operator may not get, list, watch handoffs.{GROUP} in"),
        ("workleases/status", f"the operator may not update, patch workleases/status.{GROUP} in"),
        ("handoffs/status", f"the operator may not update, patch handoffs/status.{GROUP} in"),
        ("events", "the operator may not create, patch events.events.k8s.io in"),
    ],
)
def test_a_permission_that_is_missing_is_named(
    left_out: str,
    said: str,
    cluster: Cluster,
    namespace: str,
    launcher: Launcher,
    service_account: Callable[..., Identity],
) -> None:
    """Each rule of its role, by verbs and resource; once it is granted, the operator is ready."""
    rules = cluster.api.get(f"{ROLES}/worklease-operator").must()["rules"]
    partial = f"{namespace}-partial"
    body = {"metadata": {"name": partial}, "rules": [rule for rule in rules if left_out not in rule["resources"]]}
    cluster.api.create(ROLES, body).must()
    identity = service_account(namespace, "operator")
    cluster.grant(namespace, partial, identity)
    operator = launcher.start(namespace, kubeconfig=identity.kubeconfig)
    operator.serves()
    says(operator, f"{said} namespace {namespace}: give its account the ClusterRole worklease-operator of the chart")
    cluster.grant(namespace, "worklease-operator", identity)
    operator.ready()
    assert "Traceback" not in operator.log


def test_each_kind_that_is_not_served_is_named(plane: ControlPlane, tmp_path: Path) -> None:
    """Both CRDs, then the one that is left; the operator is ready when it has come, in the same process."""
    own = Cluster(plane.kubeconfig, plane.kubectl, tmp_path)
    launcher = Launcher(own, tmp_path)
    try:
        operator = launcher.start("default", kubeconfig=plane.kubeconfig)
        operator.serves()
        says(
            operator, f"the API server does not serve {', '.join(f'{one}.{GROUP}' for one in SERVED)}: install the CRDs"
        )
        install(plane.kubeconfig, plane.kubectl)
        operator.ready()
        handoffs = own.api.get(f"{CRDS}/handoffs.{GROUP}").must()
        own.kubectl("delete", "crd", f"handoffs.{GROUP}", "--timeout=30s")
        operator.stop()
        second = launcher.start("default", kubeconfig=plane.kubeconfig)
        second.serves()
        says(second, f"the API server does not serve handoffs.{GROUP}, handoffs/status.{GROUP}: install the CRDs")
        again = {key: handoffs[key] for key in ("apiVersion", "kind", "spec")}
        own.api.create(CRDS, {**again, "metadata": {"name": f"handoffs.{GROUP}"}}).must()
        second.ready()
        assert "Traceback" not in operator.log + second.log
    finally:
        launcher.stop()
