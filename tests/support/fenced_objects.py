"""A namespace with a held work item and a writer of fenced objects, whom nothing but its epoch lets write."""

from __future__ import annotations

from typing import Any

from support.api import Answer
from support.cluster import Identity
from support.stage import Stage, claim
from support.waiting import wait_for
from worklease.api.fence_policy import EPOCH, LABEL, LEASE
from worklease.fencing import Token

MAPS = "/api/v1/namespaces/{}/configmaps"
WRITER = {
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
    "metadata": {"name": "test-object-fence-writer"},
    "rules": [
        {"apiGroups": [""], "resources": ["configmaps", "secrets", "pods"],
         "verbs": ["get", "list", "create", "update", "patch", "delete", "deletecollection"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "create", "update", "patch", "delete"]},
    ],
}  # fmt: skip


class World:
    """A namespace with a held work item, a writer of objects without any verb on WorkLeases, and fenced ConfigMaps."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.maps = MAPS.format(stage.namespace)
        stage.root.api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", WRITER)
        self.writer = stage.cluster.service_account(stage.namespace, "writer", WRITER["metadata"]["name"])  # type: ignore[index]
        self.item = stage.held()
        self.lease = f"{stage.namespace}/{self.item.name}"
        self.epoch = self.item.epoch
        self.seen()

    def seen(self) -> None:
        """Waits until the API server's own view of the WorkLease, which the policy reads, has caught up."""
        probe = self.body("probe")
        wait_for(
            lambda: self.create(probe, dryRun="All").ok or self.item.read()["status"]["phase"] != "Held",
            "the API server to see the grant",
        )

    def manager(self, epoch: int | None = None) -> str:
        """The field manager of a tenure."""
        return Token(self.lease, epoch or self.epoch).field_manager("payer")

    def body(self, name: str, epoch: int | str | None = None, **annotations: str) -> dict[str, Any]:
        """A fenced ConfigMap."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "labels": {LABEL: "true"},
                "annotations": {LEASE: self.lease, EPOCH: str(epoch or self.epoch), **annotations},
            },
            "data": {"amount": "100"},
        }

    def create(self, body: dict[str, Any], who: Identity | None = None, **parameters: str) -> Answer:
        """Creates it, as the writer and with the current tenure's field manager unless told otherwise."""
        parameters.setdefault("fieldManager", self.manager())
        return (who or self.writer).api.create(self.maps, body, **parameters)

    def replace(self, name: str, body: dict[str, Any], manager: str, who: Identity | None = None) -> Answer:
        """Writes it whole."""
        parameters = {"fieldManager": manager} if manager else {}
        return (who or self.writer).api.replace(f"{self.maps}/{name}", body, **parameters)

    def fenced(self, name: str = "charge") -> str:
        """A ConfigMap written by the current tenure."""
        self.create(self.body(name)).must()
        return name

    def take_over(self) -> int:
        """The next tenure; gives its epoch. The old one's is the return value's predecessor."""
        self.item.end("Expired")
        rival = self.stage.who("rival")
        self.item.say(rival, claim=claim(rival, self.epoch)).must()
        self.item.grant()
        self.epoch = self.item.epoch
        self.seen()
        return self.epoch
