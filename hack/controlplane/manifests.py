"""Installs worklease's CRDs, policies and roles into a cluster, and returns when the API server goes by them."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from commands import SetupError
from repository import REPOSITORY

CRDS = REPOSITORY / "crds"
CHART_FILES = REPOSITORY / "charts" / "worklease" / "files"

SYSTEM_NAMESPACE = "worklease-system"
OPERATOR = "worklease-operator"
FIELD_MANAGER = "worklease-testbed"
IN_FORCE_WITHIN_SECONDS = 60.0
POLL_SECONDS = 0.1
DENIAL = "worklease's policies are in force"


class InstallError(SetupError):
    """The cluster did not take the manifests; the message is kubectl's own."""


class Kubectl:
    """kubectl, for one kubeconfig."""

    def __init__(self, kubectl: Path, kubeconfig: Path) -> None:
        self._start = [str(kubectl), f"--kubeconfig={kubeconfig}", "--request-timeout=30s"]

    def run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Runs it with `given` as its input, whatever it answers."""
        return subprocess.run([*self._start, *arguments], input=given, capture_output=True, text=True, timeout=120)

    def must(self, *arguments: str, given: str = "") -> str:
        """Its output; an InstallError when it fails."""
        answer = self.run(*arguments, given=given)
        if answer.returncode:
            raise InstallError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout

    def apply(self, *arguments: str, given: str = "") -> None:
        """Server-side apply that takes back what others have changed."""
        self.must(
            "apply", "--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}", *arguments, given=given
        )


def install(kubeconfig: Path, kubectl: Path) -> None:
    """Applies crds/ and the chart's files; on return every kind is served and every policy is enforced."""
    run = Kubectl(kubectl, kubeconfig)
    if _has_manifests(CRDS):
        run.apply("-f", str(CRDS))
        run.must("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
        _wait_until_served(run)
    run.apply("-f", "-", given=_list(_namespace(), _service_account(), _operator_binding()))
    if _has_manifests(CHART_FILES):
        run.apply("-f", str(CHART_FILES))
    _wait_until_enforced(run)


def operator_token(kubeconfig: Path, kubectl: Path, duration: str = "24h") -> str:
    """A token of the operator's own ServiceAccount, so that what the operator may do is what its role says."""
    return (
        Kubectl(kubectl, kubeconfig)
        .must("create", "token", OPERATOR, "--namespace", SYSTEM_NAMESPACE, f"--duration={duration}")
        .strip()
    )


def _has_manifests(directory: Path) -> bool:
    return any(directory.glob("*.yaml"))


def _wait_until_served(run: Kubectl) -> None:
    """A kind that has just been replaced answers 429 for a moment, and discovery may lag behind Established."""
    definitions = json.loads(run.must("get", "-f", str(CRDS), "-o", "json"))
    for definition in definitions.get("items", [definitions]):
        plural = f"{definition['spec']['names']['plural']}.{definition['spec']['group']}"
        _poll(partial(_serves, run, plural), f"{plural} to be served")


def _serves(run: Kubectl, plural: str) -> bool:
    return run.run("get", plural, "--all-namespaces").returncode == 0


def _wait_until_enforced(run: Kubectl) -> None:
    """Waits until a policy that was created after all others denies a write.

    The API server takes up policies and bindings in the order in which they were written and all known ones at
    once, so when the last is in force every one is.
    """
    name = f"worklease-probe-{secrets.token_hex(4)}"
    policy, binding = _probe_policy(name)
    probe = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})

    def denied() -> bool:
        answer = run.run("create", "--dry-run=server", "-f", "-", given=probe)
        return answer.returncode != 0 and DENIAL in answer.stderr

    try:
        run.must("create", "-f", "-", given=json.dumps(policy))
        run.must("create", "-f", "-", given=json.dumps(binding))
        _poll(denied, "admission policies to be enforced")
    finally:
        run.run("delete", "--ignore-not-found", "-f", "-", given=_list(binding, policy))


def _poll(condition: Callable[[], bool], what: str) -> None:
    deadline_monotonic = time.monotonic() + IN_FORCE_WITHIN_SECONDS
    while not condition():
        if time.monotonic() > deadline_monotonic:
            raise InstallError(f"waited {IN_FORCE_WITHIN_SECONDS:.0f} s for {what}; is the API server healthy?")
        time.sleep(POLL_SECONDS)


def _probe_policy(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    version = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
        "resourceNames": [name],
    }
    policy = {
        "apiVersion": version,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": DENIAL}],
        },
    }
    binding = {
        "apiVersion": version,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return policy, binding


def _namespace() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}


def _service_account() -> dict[str, Any]:
    metadata = {"name": OPERATOR, "namespace": SYSTEM_NAMESPACE}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _operator_binding() -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": OPERATOR},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": OPERATOR},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": SYSTEM_NAMESPACE}],
    }


def _list(*objects: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
