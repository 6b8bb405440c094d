"""What the operator cannot read or decide stalls that one object, and says so; missing kinds make it wait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane, install
from support.cluster import Cluster
from support.operators import Launcher, operator_kubeconfig
from support.speaking import Agent, Work
from support.waiting import wait_for

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workleases.worklease.dev"
NAMESPACE = "default"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane without our kinds."""
    with ControlPlane() as plane:
        yield plane


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    """The properties of the only version's status."""
    properties: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    status: dict[str, Any] = properties["status"]["properties"]
    return status


def test_kinds_that_come_late_and_a_phase_that_nobody_knows(plane: ControlPlane, tmp_path: Path) -> None:
    """Without the CRDs it waits, says so, and starts when they come. An object in a phase of a newer version is
    marked Stalled and told by an Event; all others go on; once it can be read it goes on too. Without an operator the
    kinds are deleted with all their objects, held ones too: nothing waits for a finalizer (case 32).
    """
    own = Cluster(plane.kubeconfig, plane.kubectl, tmp_path)
    launcher = Launcher(own, tmp_path)
    try:
        early = launcher.start(NAMESPACE, kubeconfig=plane.kubeconfig)
        early.serves()
        wait_for(lambda: "install the CRDs" in early.get("/readyz")[1], "/readyz to say it")
        assert early.get("/healthz") == (200, "ok\n")
        install(plane.kubeconfig, plane.kubectl)
        early.ready()
        agent = Agent.of(own.service_account(NAMESPACE, "agent", "worklease-agent"))
        strange, other = (Work.create(own, NAMESPACE, jeopardy_seconds=0) for _ in range(2))
        strange.hold(agent)
        other.hold(agent)
        early.stop()
        assert "Traceback" not in early.log

        know_phase(own, "Paused")
        body = strange.read()
        body["status"]["phase"] = "Paused"
        wait_for(lambda: own.api.replace(f"{strange.path}/status", body).ok, "the phase to be accepted")
        operator = launcher.start(NAMESPACE, kubeconfig=operator_kubeconfig(own)).ready()
        wait_for(lambda: strange.condition("Stalled") == "True/Unreadable", "the object to be marked")
        wait_for(lambda: "Stalled" in [event["reason"] for event in strange.events()], "an Event to say so")
        other.reaches("Expired")
        other.hold(agent.sibling())
        version = strange.read()["metadata"]["resourceVersion"]
        own.api.patch(strange.path, [{"op": "add", "path": "/metadata/labels", "value": {"seen": "again"}}]).must()
        other.say(own.admin, suspend=True).must()
        wait_for(lambda: other.condition("Claimable") == "False/Suspended", "the operator to have seen both")
        seen = strange.read()
        assert seen["metadata"]["resourceVersion"] != version
        assert seen["status"]["phase"] == "Paused"
        body = strange.read()
        body["status"] |= {"phase": "Released", "epoch": body["status"]["epoch"] + 1}
        own.api.replace(f"{strange.path}/status", body).must()
        wait_for(lambda: strange.condition("Stalled") == "False/AsExpected", "the object to be read again")
        assert "Traceback" not in operator.log
        assert operator.log.count("cannot be read") == 1
        operator.stop()
        deleted = own.kubectl("delete", "crd", "workleases.worklease.dev", "handoffs.worklease.dev", "--timeout=30s")
        assert deleted.exit_code == 0, deleted.stderr
    finally:
        launcher.stop()


def know_phase(own: Cluster, phase: str) -> None:
    """Lets the API server take one more phase, as a newer version of the kind would."""
    definition = own.api.get(CRD).must()
    schema_of(definition)["phase"]["enum"].append(phase)
    own.api.replace(CRD, json.loads(json.dumps(definition))).must()
