"""A namespace with everybody who may want to speak there, and work items brought to a state as the operator would.

No operator runs: its ServiceAccount's own token writes the status, so that a test decides what the state is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from support.api import Answer
from support.cluster import Cluster, Identity
from worklease.api.cel import Check
from worklease.api.policies import POLICIES

GROUP = "worklease.dev"
OPERATOR = "system:serviceaccount:worklease-system:worklease-operator"

PODS = {
    "agent": ("agent", "agent-0"),
    "sibling": ("agent", "agent-1"),
    "rival": ("rival", "rival-0"),
}
"""Who speaks with the token of a pod: the ServiceAccount and the pod."""
ACCOUNTS = {
    "unbound": "agent",
    "desk": "desk",
    "creator": "creator",
    "gitops": "gitops",
    "handler": "handler",
    "chief": "chief",
    "viewer": "viewer",
}
"""Who speaks with a token that is bound to no pod."""
ROLES = {
    "agent": "worklease-agent",
    "rival": "worklease-agent",
    "desk": "worklease-agent",
    "creator": "worklease-agent-creator",
    "gitops": "worklease-gitops",
    "handler": "worklease-handler",
    "chief": "worklease-admin",
    "viewer": "worklease-viewer",
}
"""The ClusterRole of each ServiceAccount."""


def now() -> str:
    """The time, as a statement carries it: never the same twice."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def fresh() -> str:
    """An id that nobody has used."""
    return secrets.token_hex(8)


def claim(identity: Identity, epoch: int = 0, **changes: Any) -> dict[str, Any]:
    """A claim of `identity` for itself."""
    return {
        "epoch": epoch,
        "id": fresh(),
        "holderIdentity": identity.username,
        "instance": identity.instance or "host:desk/1",
        "purpose": "to see who may",
        **changes,
    }


def effect(epoch: int, name: str = "e1", state: str = "Attempted") -> dict[str, Any]:
    """An effect under `epoch`."""
    return {"id": name, "epoch": epoch, "recipient": "mail", "action": "send", "state": state}


def add(**statements: Any) -> list[dict[str, Any]]:
    """The JSON patch that says each statement whole."""
    return [{"op": "add", "path": f"/spec/{name}", "value": value} for name, value in statements.items()]


def remove(*paths: str) -> list[dict[str, Any]]:
    """The JSON patch that removes what is at these paths."""
    return [{"op": "remove", "path": path} for path in paths]


@dataclass
class Item:
    """One object of ours, and how to speak about it."""

    stage: Stage
    plural: str
    name: str
    epoch: int = 0

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.stage.path(self.plural)}/{self.name}"

    def read(self) -> dict[str, Any]:
        """The object."""
        return self.stage.root.api.get(self.path).must()

    def patch(self, who: Identity, *operations: dict[str, Any], **parameters: str) -> Answer:
        """Says something with a JSON patch."""
        return who.api.patch(self.path, list(operations), **parameters)

    def say(self, who: Identity, **statements: Any) -> Answer:
        """Says these statements, in one write."""
        return self.patch(who, *add(**statements))

    def renew(self, who: Identity) -> Answer:
        """Renews at the current epoch."""
        return self.say(who, renewal={"epoch": self.epoch, "renewTime": now()})

    def replace(self, who: Identity, change: Callable[[dict[str, Any]], None], **parameters: str) -> Answer:
        """Writes the whole object back after a change to it."""
        whole = self.read()
        change(whole)
        return who.api.replace(self.path, whole, **parameters)

    def apply(self, who: Identity, manager: str, **spec: Any) -> Answer:
        """Applies on the server side, by force."""
        body = {
            "apiVersion": self.stage.api_version,
            "kind": KINDS[self.plural],
            "metadata": {"name": self.name},
            "spec": spec,
        }
        return who.api.patch(self.path, body, "application/apply-patch+yaml", fieldManager=manager, force="true")

    def decide(self, **status: Any) -> None:
        """Writes status as the operator does; a field that is None is removed."""
        whole = self.read()
        merged = {**whole["status"], **status}
        whole["status"] = {name: value for name, value in merged.items() if value is not None}
        self.stage.operator.api.replace(f"{self.path}/status", whole).must()

    def grant(self) -> None:
        """Grants the claim that is stated."""
        whole = self.read()
        stated = whole["spec"]["claim"]
        self.epoch = max(whole["status"]["epoch"] + 1, int(whole["metadata"]["resourceVersion"]))
        self.decide(
            phase="Held",
            epoch=self.epoch,
            holderIdentity=stated["holderIdentity"],
            instance=stated["instance"],
            claimID=stated["id"],
            acquireTime=now(),
            leaseDurationSeconds=600,
            jeopardyDurationSeconds=30,
            successor=None,
        )

    def end(self, phase: str) -> None:
        """Ends the tenure."""
        self.decide(phase=phase, holderIdentity=None, instance=None)


KINDS = {"workleases": "WorkLease", "handoffs": "Handoff"}


@dataclass
class Stage:
    """A namespace of a cluster. Whoever is asked for by name is made at that moment."""

    cluster: Cluster
    namespace: str
    group: str = GROUP
    role_prefix: str = ""
    operator_name: str = OPERATOR
    _known: dict[str, Identity] = field(default_factory=dict)
    _granted: set[str] = field(default_factory=set)

    @property
    def root(self) -> Identity:
        """The cluster's administrator, who may do everything."""
        return self.cluster.admin

    @property
    def api_version(self) -> str:
        """The apiVersion of our objects."""
        return f"{self.group}/v1alpha1"

    @cached_property
    def operator(self) -> Identity:
        """The operator's own ServiceAccount."""
        _, _, namespace, name = self.operator_name.split(":")
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token = self.root.api.create(path, {"spec": {"expirationSeconds": 3600}}).must()["status"]["token"]
        return self.cluster.as_token(self.operator_name, token)

    def path(self, plural: str) -> str:
        """The collection of a kind."""
        return f"/apis/{self.group}/v1alpha1/namespaces/{self.namespace}/{plural}"

    def who(self, name: str) -> Identity:
        """Somebody by name: one of PODS or ACCOUNTS, or `root`."""
        if name == "root":
            return self.root
        if name not in self._known:
            self._known[name] = self._make(name)
        return self._known[name]

    def _make(self, name: str) -> Identity:
        account, pod = PODS.get(name, (ACCOUNTS.get(name, ""), ""))
        if pod:
            identity = self.cluster.pod_identity(self.namespace, account, pod)
        else:
            identity = self.cluster.service_account(self.namespace, account)
        if account not in self._granted:
            self.cluster.grant(self.namespace, self.role_prefix + ROLES[account], identity)
            self._granted.add(account)
        return identity

    def create(self, who: Identity, plural: str, spec: dict[str, Any], **metadata: Any) -> tuple[Item, Answer]:
        """Creates an object as somebody, and says how that went."""
        name = f"{plural[:4]}-{fresh()}"
        body = {
            "apiVersion": self.api_version,
            "kind": KINDS[plural],
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
        answer = who.api.create(self.path(plural), body)
        return Item(self, plural, name), answer

    def work(self, **spec: Any) -> Item:
        """A work item that nobody has claimed."""
        item, answer = self.create(self.root, "workleases", {"work": {"type": "task", "id": "1"}, **spec})
        answer.must()
        return item

    def held(self, by: str = "agent", **spec: Any) -> Item:
        """A work item that `by` holds and has renewed."""
        return self.hold(self.work(**spec), by)

    def hold(self, item: Item, by: str = "agent") -> Item:
        """Makes `by` the holder of free work, with one renewal."""
        holder = self.who(by)
        item.say(holder, claim=claim(holder)).must()
        item.grant()
        item.renew(holder).must()
        return item

    def offer(self, by: str = "agent", **spec: Any) -> Item:
        """A handoff from `by` to the rival's ServiceAccount."""
        sender = self.who(by)
        item, answer = self.create(sender, "handoffs", offered(sender, self.who("rival"), **spec))
        answer.must()
        return item


def offered(sender: Identity, target: Identity, **spec: Any) -> dict[str, Any]:
    """The spec of an offer from one to another; a field that is None is left out."""
    whole = {
        "workLeaseName": "w",
        "from": sender.username,
        "fromInstance": sender.instance or "host:desk/1",
        "to": {"holderIdentity": target.username},
        **spec,
    }
    return {name: value for name, value in whole.items() if value is not None}


@dataclass(frozen=True)
class Row:
    """One line of a table: who says what about which object, and which check refuses it; None when it is admitted."""

    what: str
    who: str
    given: Callable[[Stage], Item]
    says: Callable[[Item, Identity], Answer]
    refused: str | None = None
    words: tuple[str, ...] = ()

    def answer(self, stage: Stage) -> Answer:
        """Plays it."""
        item = self.given(stage)
        return self.says(item, stage.who(self.who))


CHECKS: dict[str, Check] = {check.name: check for policy in POLICIES for check in policy.checks}


def judge(row: Row, stage: Stage) -> None:
    """Asserts that the answer is the row's: granted, or refused by exactly that check, in its words."""
    answer = row.answer(stage)
    if row.refused is None:
        assert answer.ok, f"{row.who}: {answer.message}"
        return
    assert answer.status == 403, f"{row.who}: {answer.status} {answer.message}"
    said = answer.message.partition("denied request: ")[2]
    check = CHECKS[row.refused]
    assert said == check.message or (check.message_expression and row.words and all(w in said for w in row.words)), said
