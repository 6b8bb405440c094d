"""Saying statements about a work item as an agent or an administrator does: a JSON patch that adds each one whole."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from support.api import WORKLEASES, Answer
from support.cluster import Cluster, Identity
from support.waiting import wait_for

SHORTEST_LEASE_SECONDS = 10
"""The shortest lease that the API takes."""
DECIDED_WITHIN_SECONDS = 90.0
"""For a decision of an operator on a machine that does much else."""
API_VERSION = "worklease.dev/v1alpha1"


def now() -> str:
    """The time, as a statement carries it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def fresh() -> str:
    """An id that nobody has used."""
    return secrets.token_hex(8)


def said(**statements: Any) -> list[dict[str, Any]]:
    """The JSON patch that says these statements in one write."""
    return [{"op": "add", "path": f"/spec/{name}", "value": value} for name, value in statements.items()]


@dataclass(frozen=True)
class Agent:
    """A process that claims work: whose credential it uses, and which of its processes it says that it is."""

    identity: Identity
    instance: str

    @classmethod
    def of(cls, identity: Identity) -> Agent:
        """A new process of this identity."""
        return cls(identity, identity.instance or f"host:test/{fresh()}")

    def sibling(self) -> Agent:
        """Another process of the same identity, without a pod."""
        return replace(self, instance=f"host:test/{fresh()}")

    def claim(self, epoch: int, **changes: Any) -> dict[str, Any]:
        """A claim for itself at this epoch."""
        return {
            "epoch": epoch,
            "id": fresh(),
            "holderIdentity": self.identity.username,
            "instance": self.instance,
            "purpose": "to do the work",
            **changes,
        }


class Work:
    """One work item. It is read as the administrator, and spoken about as whoever is named."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.name = name
        self.path = f"{WORKLEASES.format(namespace)}/{name}"

    @classmethod
    def create(
        cls,
        cluster: Cluster,
        namespace: str,
        name: str = "",
        *,
        lease_seconds: int = SHORTEST_LEASE_SECONDS,
        jeopardy_seconds: int = 0,
        by: Identity | None = None,
        **spec: Any,
    ) -> Work:
        """Creates it, with the shortest lease unless told otherwise."""
        work = cls(cluster, namespace, name or f"work-{fresh()}")
        body = {
            "apiVersion": API_VERSION,
            "kind": "WorkLease",
            "metadata": {"name": work.name},
            "spec": {
                "work": {"type": "test", "id": work.name},
                "leaseDurationSeconds": lease_seconds,
                "jeopardyDurationSeconds": jeopardy_seconds,
                **spec,
            },
        }
        (by or cluster.admin).api.create(WORKLEASES.format(namespace), body).must()
        return work

    def read(self) -> dict[str, Any]:
        """The object."""
        return self.cluster.api.get(self.path).must()

    @property
    def status(self) -> dict[str, Any]:
        """What was decided."""
        status: dict[str, Any] = self.read()["status"]
        return status

    @property
    def epoch(self) -> int:
        """The epoch of the latest grant."""
        return int(self.status["epoch"])

    @property
    def history(self) -> list[dict[str, Any]]:
        """The tenures so far."""
        tenures: list[dict[str, Any]] = self.status.get("history", [])
        return tenures

    def say(self, speaker: Agent | Identity, **statements: Any) -> Answer:
        """Says these statements in one write."""
        identity = speaker.identity if isinstance(speaker, Agent) else speaker
        return identity.api.patch(self.path, said(**statements))

    def claim(self, agent: Agent, **changes: Any) -> str:
        """Claims the work at the epoch in status; returns the claim's id."""
        claim = agent.claim(self.epoch, **changes)
        self.say(agent, claim=claim).must()
        return str(claim["id"])

    def granted(self, claim_id: str) -> int:
        """The epoch of the grant of this claim, when it is there."""

        def there() -> int:
            status = self.status
            return int(status["epoch"]) if status.get("claimID") == claim_id else 0

        return wait_for(there, f"the grant of {self.name}", DECIDED_WITHIN_SECONDS)

    def hold(self, agent: Agent, **changes: Any) -> int:
        """Claims the work and waits for the grant; returns its epoch."""
        return self.granted(self.claim(agent, **changes))

    def renew(self, agent: Agent, epoch: int) -> Answer:
        """Renews at this epoch."""
        return self.say(agent, renewal={"epoch": epoch, "renewTime": now()})

    def release(self, agent: Agent, epoch: int, reason: str = "enough for today") -> Answer:
        """Gives the work back."""
        return self.say(agent, release={"epoch": epoch, "reason": reason})

    def complete(self, agent: Agent, epoch: int, message: str = "all is done") -> Answer:
        """Declares the work done."""
        return self.say(agent, completion={"epoch": epoch, "outcome": "Succeeded", "message": message})

    def revoke(self, epoch: int, reason: str = "its agent is gone") -> Answer:
        """Ends the tenure as the administrator."""
        return self.say(self.cluster.admin, revocation={"epoch": epoch, "reason": reason})

    def take_over(self, agent: Agent, epoch: int, reason: str = "it got stuck") -> str:
        """Revokes this epoch and claims for `agent` in one write, as the administrator; returns the claim's id."""
        claim = agent.claim(epoch)
        self.say(self.cluster.admin, revocation={"epoch": epoch, "reason": reason}, claim=claim).must()
        return str(claim["id"])

    def reaches(self, phase: str, within_seconds: float = DECIDED_WITHIN_SECONDS) -> dict[str, Any]:
        """Waits for this phase; returns the status that has it."""

        def there() -> dict[str, Any] | None:
            status = self.status
            return status if status["phase"] == phase else None

        return wait_for(there, f"{self.name} to be {phase}", within_seconds) or {}

    def condition(self, kind: str) -> str:
        """A condition as `Status/Reason`; empty when it is not there."""
        for condition in self.status.get("conditions", []):
            if condition["type"] == kind:
                return f"{condition['status']}/{condition['reason']}"
        return ""

    def events(self) -> list[dict[str, Any]]:
        """The Events about this object, this uid only."""
        uid = self.read()["metadata"]["uid"]
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        items = self.cluster.api.get(path).must()["items"]
        return [event for event in items if event.get("regarding", {}).get("uid") == uid]
