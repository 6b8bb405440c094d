"""Handing work over as people and agents do: an offer, its one answer, the target's claim; and a place for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from support.api import HANDOFFS, Answer
from support.cluster import Cluster, Identity
from support.operators import operating
from support.speaking import Agent, Spoken, Work
from support.waiting import wait_for
from support.words import fresh, handoff_manifest

WITHIN_SECONDS = 60.0
"""Longer than a loaded machine needs for anything here."""
LEASE_SECONDS = 600
"""A lease that does not lapse while a test runs."""


def target(agent: Agent, *, instance: bool = False) -> dict[str, Any]:
    """The field `to`: this identity, and this process of it only if it matters."""
    return {"holderIdentity": agent.identity.username, **({"instance": agent.instance} if instance else {})}


def signed(agent: Agent) -> dict[str, Any]:
    """The fields of an offer in one's own name."""
    return {"from": agent.identity.username, "fromInstance": agent.instance}


class Offer(Spoken):
    """One handoff, and what its sender and target say about it."""

    def __init__(self, work: Work, name: str) -> None:
        super().__init__(f"{HANDOFFS.format(work.namespace)}/{name}", work.cluster.api)
        self.work = work

    @classmethod
    def ask(
        cls, work: Work, by: Agent | Identity, receiver: Agent, /, name: str = "", **spec: Any
    ) -> tuple[Offer, Answer]:
        """Offer it, in one's own name if it is an agent's, and see what the API server says."""
        offer = cls(work, name or f"offer-{fresh()}")
        own = signed(by) if isinstance(by, Agent) else {}
        body = handoff_manifest(offer.name, **{"workLeaseName": work.name, **own, "to": target(receiver), **spec})
        return offer, offer.identity(by).api.create(HANDOFFS.format(work.namespace), body)

    @classmethod
    def make(cls, work: Work, by: Agent | Identity, receiver: Agent, /, name: str = "", **spec: Any) -> Offer:
        """Offer it."""
        offer, answer = cls.ask(work, by, receiver, name, **spec)
        answer.must()
        return offer

    def respond(self, who: Agent | Identity, decision: str, reason: str = "") -> Answer:
        """Answer it."""
        return self.say(who, response={"decision": decision, "reason": reason})

    def accept(self, who: Agent) -> None:
        """Accept it, and wait until that has taken effect."""
        self.respond(who, "Accepted").must()
        self.reaches("Accepted")

    def seen(self) -> dict[str, Any]:
        """Wait until the operator has seen it; its status."""
        wait_for(lambda: "answerBy" in self.status, f"{self.name} to be seen", WITHIN_SECONDS)
        return self.status

    @property
    def message(self) -> str:
        """What the condition Ready says."""
        return str(next(one["message"] for one in self.status["conditions"] if one["type"] == "Ready"))


@dataclass
class Team:
    """A namespace with agents in pods: two of one account, two of others."""

    cluster: Cluster
    namespace: str
    alice: Agent = field(init=False)
    sibling: Agent = field(init=False)
    bob: Agent = field(init=False)
    carol: Agent = field(init=False)

    def __post_init__(self) -> None:
        self.alice = self.pod("alice", "alice-0")
        self.sibling = self.pod("alice", "alice-1")
        self.bob = self.pod("bob", "bob-0")
        self.carol = self.pod("carol", "carol-0")

    def pod(self, account: str, name: str) -> Agent:
        """A pod with a token of its own."""
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/rolebindings"
        user = f"system:serviceaccount:{self.namespace}:{account}"
        bound = any(one["subjects"][0]["name"] == user for one in self.cluster.api.get(path).must()["items"])
        role = None if bound else "worklease-agent"
        return Agent.of(self.cluster.pod_identity(self.namespace, account, name, role))

    def work(self, **spec: Any) -> Work:
        """A work item that nobody holds."""
        return Work.create(self.cluster, self.namespace, **{"lease_seconds": LEASE_SECONDS, **spec})

    def held(self, by: Agent | None = None, **spec: Any) -> tuple[Work, int]:
        """A work item that somebody holds, by default Alice, and its epoch."""
        work = self.work(**spec)
        return work, work.hold(by or self.alice)


@contextlib.contextmanager
def teamed(cluster: Cluster) -> Iterator[Team]:
    """A team in a new namespace, deleted afterwards."""
    with cluster.namespace("team") as name:
        yield Team(cluster, name)


@contextlib.contextmanager
def working(cluster: Cluster) -> Iterator[Team]:
    """A team with an operator."""
    with teamed(cluster) as team, operating(cluster, team.namespace):
        yield team
