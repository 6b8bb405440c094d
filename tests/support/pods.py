"""Pods of the project's image that run one command to its end, or in the background, with a ServiceAccount's token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support.cluster import Cluster
from support.shared_node import IMAGE
from support.waiting import wait_for

WITHIN_SECONDS = 120.0
# Not more often: the API server has the same two cores as all pods.
POLL_SECONDS = 0.3
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True)
class Ended:
    """How a pod's command ended, and what it printed."""

    exit_code: int
    log: str


class Pods:
    """Starts pods in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def start(self, name: str, account: str, *command: str) -> None:
        """Starts one, with the token of a ServiceAccount that is there."""
        spec = {
            "serviceAccountName": account,
            "restartPolicy": "Never",
            "containers": [{"name": "it", "image": IMAGE, "command": list(command), "securityContext": RESTRICTED}],
        }
        self.cluster.api.create(self._path, {"metadata": {"name": name}, "spec": spec}).must()

    def run(self, name: str, account: str, *command: str) -> Ended:
        """Runs one to its end."""
        self.start(name, account, *command)

        def ended() -> dict[str, Any]:
            statuses = self.cluster.api.get(f"{self._path}/{name}").must()["status"].get("containerStatuses") or [{}]
            return dict(statuses[0].get("state", {}).get("terminated") or {})

        code = wait_for(ended, f"pod {name} to end", WITHIN_SECONDS, POLL_SECONDS)["exitCode"]
        return Ended(code, self.log(name))

    def log(self, name: str) -> str:
        """What it has printed."""
        return self.cluster.kubectl("-n", self.namespace, "logs", name).stdout
