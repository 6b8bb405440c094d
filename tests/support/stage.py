"""A namespace with everybody who may want to speak there, and work items brought to a state as the operator would.

No operator runs: its ServiceAccount's own token writes the status, so that a test decides what the state is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from support import words
from support.api import Answer
from support.cluster import Cluster, Identity
from support.deciding import FREED, decide, grant, operator_of
from support.stored import Stored
from support.words import Raw, fresh, handoff_manifest, now, work_manifest
from worklease.api.cel import Check
from worklease.api.group import GROUP, VERSION
from worklease.api.policies import POLICIES

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


WORK = {"type": "task", "id": "1"}
"""What each work item of a stage is about."""
MANIFESTS = {"workleases": work_manifest, "handoffs": handoff_manifest}


def claim(identity: Identity, epoch: int = 0, **changes: Any) -> Raw:
    """A claim of `identity` for itself."""
    return words.claim(identity.username, identity.instance or "host:desk/1", epoch, **changes)


class Item(Stored[Identity]):
    """One object of a stage, and the epoch of its latest grant."""

    def __init__(self, stage: Stage, plural: str, name: str) -> None:
        super().__init__(f"{stage.path(plural)}/{name}", stage.root.api, stage.api_version)
        self.stage = stage
        self.epoch = 0

    def identity(self, who: Identity) -> Identity:
        """Whoever speaks, speaks for themselves."""
        return who

    def renew(self, who: Identity) -> Answer:
        """Renews at the current epoch."""
        return self.say(who, renewal={"epoch": self.epoch, "renewTime": now()})

    def decide(self, **status: Any) -> None:
        """Writes status as the operator does; None removes a field."""
        decide(self, self.stage.operator, **status).must()

    def grant(self) -> None:
        """Grants the claim that is stated."""
        self.epoch = grant(self, self.stage.operator)

    def end(self, phase: str) -> None:
        """Ends the tenure."""
        self.decide(phase=phase, **FREED)


@dataclass
class Stage:
    """A namespace of a cluster. Whoever is asked for by name is made at that moment."""

    cluster: Cluster
    namespace: str
    group: str = GROUP
    role_prefix: str = ""
    _known: dict[str, Identity] = field(default_factory=dict)
    _granted: set[str] = field(default_factory=set)

    @property
    def root(self) -> Identity:
        """The cluster's administrator, who may do everything."""
        return self.cluster.admin

    @property
    def api_version(self) -> str:
        """The apiVersion of our objects."""
        return f"{self.group}/{VERSION}"

    @cached_property
    def operator(self) -> Identity:
        """The operator's own ServiceAccount."""
        return operator_of(self.cluster)

    def path(self, plural: str) -> str:
        """The collection of a kind."""
        return f"/apis/{self.api_version}/namespaces/{self.namespace}/{plural}"

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
        body = MANIFESTS[plural](name, api_version=self.api_version, metadata=metadata, **spec)
        answer = who.api.create(self.path(plural), body)
        return Item(self, plural, name), answer

    def work(self, **spec: Any) -> Item:
        """A work item that nobody has claimed."""
        item, answer = self.create(self.root, "workleases", {"work": WORK, **spec})
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


def offered(sender: Identity, target: Identity, **spec: Any) -> Raw:
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
