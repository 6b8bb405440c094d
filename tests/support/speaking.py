"""Work items spoken about as agents and administrators do, and awaited: what an operator decides about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from support import words
from support.api import WORKLEASES, Answer
from support.cluster import Cluster, Identity
from support.stored import DECIDED_WITHIN_SECONDS, Stored
from support.waiting import wait_for
from support.words import Raw, fresh, now

SHORTEST_LEASE_SECONDS = 10
"""The shortest lease that the API takes."""


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

    def claim(self, epoch: int, **changes: Any) -> Raw:
        """A claim for itself at this epoch."""
        return words.claim(self.identity.username, self.instance, epoch, **changes)


class Spoken(Stored[Agent | Identity]):
    """One object that agents speak about, and others."""

    def identity(self, who: Agent | Identity) -> Identity:
        """An agent's, or their own."""
        return who.identity if isinstance(who, Agent) else who


class Work(Spoken):
    """One work item, and what agents say about it."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        super().__init__(f"{WORKLEASES.format(namespace)}/{name}", cluster.api)
        self.cluster = cluster

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
        spec = {"leaseDurationSeconds": lease_seconds, "jeopardyDurationSeconds": jeopardy_seconds, **spec}
        (by or cluster.admin).api.create(WORKLEASES.format(namespace), words.work_manifest(work.name, **spec)).must()
        return work

    @property
    def epoch(self) -> int:
        """The epoch of the latest grant."""
        return int(self.status["epoch"])

    @property
    def history(self) -> list[Raw]:
        """The tenures so far."""
        tenures: list[Raw] = self.status.get("history", [])
        return tenures

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
