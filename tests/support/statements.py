"""Ways of saying things about a work item: each statement as a JSON patch that says it whole.

A saying is made first and spoken later, by whoever says it about the work item of the moment: `renews()`,
`claims(past)`. Two in one write are joined by `&`: a takeover is `revokes() & claims()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from support import words
from support.api import Answer
from support.cluster import Cluster, Identity
from support.deciding import decided, grant, operator_of
from support.stored import Stored
from support.words import Operations, Raw, adds, effect, fresh, now, work_manifest
from worklease.api.group import GROUP, VERSION

ALICE, BOB, ADMIN, OPERATOR = "alice", "bob", "admin", "operator"
AGENT_ROLE = "worklease-agent"

INSTANCES = {ALICE: "host:aspen/1", BOB: "host:birch/1", ADMIN: "host:desk/1"}
"""Which process each speaker is; alice's is marked by a word that no message should repeat."""
PURPOSES = {ALICE: "amalgamate the ledgers", BOB: "do something else", ADMIN: "look into it"}
HOLDERS_WORDS = (ALICE, "aspen", "amalgamate", "ledgers")
"""What gives away that alice holds, in which process and what for."""

Deed = Callable[["Work", str], Answer]
"""Something that somebody does to a work item, and the answer."""
Epoch = Callable[["Work"], int]


@dataclass(frozen=True)
class Scene:
    """Where work items are made, and with whose credentials each speaker speaks there."""

    namespace: str
    voices: Mapping[str, Identity]
    group: str = GROUP
    version: str = VERSION

    @property
    def api_version(self) -> str:
        """The apiVersion of its work items."""
        return f"{self.group}/{self.version}"

    @property
    def collection(self) -> str:
        """The path of its work items."""
        return f"/apis/{self.api_version}/namespaces/{self.namespace}/workleases"

    def work(self) -> Work:
        """A work item that is yet to be created."""
        return Work(self, f"w-{fresh()}")


@contextmanager
def staged(cluster: Cluster) -> Iterator[Scene]:
    """A scene with two agents, an administrator and the operator's own account, which writes status in its place."""
    with cluster.namespace("said") as namespace:
        voices = {name: cluster.service_account(namespace, name, AGENT_ROLE) for name in (ALICE, BOB)}
        yield Scene(namespace, voices | {ADMIN: cluster.admin, OPERATOR: operator_of(cluster)})


def unguarded(cluster: Cluster, namespace: str, group: str, version: str = VERSION) -> Scene:
    """A scene of a group that no policy guards: the administrator lends everybody a voice."""
    names = (ALICE, BOB, ADMIN, OPERATOR)
    return Scene(namespace, {name: replace(cluster.admin, username=name) for name in names}, group, version)


class Work(Stored[str]):
    """A work item that the speakers of a scene speak about, its epoch, and its epoch before that."""

    def __init__(self, scene: Scene, name: str) -> None:
        super().__init__(f"{scene.collection}/{name}", scene.voices[ADMIN].api, scene.api_version)
        self.scene = scene
        self.epoch = 0
        self.past = 0

    def identity(self, who: str) -> Identity:
        """The voice of a speaker."""
        return self.scene.voices[who]

    def username(self, who: str) -> str:
        """The name under which the API server knows a speaker."""
        return self.identity(who).username

    def create(self, who: str, spec: Raw, **metadata: Any) -> Answer:
        """Creates it."""
        body = work_manifest(self.name, api_version=self.api_version, metadata=metadata, **spec)
        return self.identity(who).api.create(self.scene.collection, body)

    def patch(self, who: str, operations: Operations, **parameters: str) -> Answer:
        """Speaks about it; the operator speaks about its status."""
        path = f"{self.path}/status" if who == OPERATOR else self.path
        return self.identity(who).api.patch(path, operations, **parameters)

    def grant(self) -> None:
        """Does what the operator does with a claim that may be granted."""
        self.past, self.epoch = self.epoch, grant(self, self.identity(OPERATOR))


def current(work: Work) -> int:
    """The epoch in status."""
    return work.epoch


def past(work: Work) -> int:
    """The epoch before."""
    return work.past


def beyond(work: Work) -> int:
    """An epoch that has not been granted."""
    return work.epoch + 1


def claim(work: Work, who: str, epoch: int, **changes: Any) -> Raw:
    """A claim for oneself."""
    return words.claim(work.username(who), INSTANCES[who], epoch, **{"purpose": PURPOSES[who], **changes})


def successor(work: Work, who: str, **changes: Any) -> Raw:
    """The work reserved for somebody, by a handoff that took effect."""
    return {"holderIdentity": work.username(who), "handoff": "h", "handoffUID": fresh(), "until": now(), **changes}


@dataclass(frozen=True)
class Saying:
    """What somebody is going to say: operations that are made when it is spoken."""

    operations: Callable[[Work, str], Operations]

    def __and__(self, other: Saying) -> Saying:
        """Both in one write."""
        return Saying(lambda work, who: [*self.operations(work, who), *other.operations(work, who)])

    def __call__(self, work: Work, who: str) -> Answer:
        """Says it."""
        return work.patch(who, self.operations(work, who))


def states(name: str, value: Callable[[Work, str], Any]) -> Saying:
    """The field `name` of spec, whole."""
    return Saying(lambda work, who: adds(**{name: value(work, who)}))


def claims(epoch: Epoch = current, **changes: Any) -> Saying:
    """Claims for oneself."""
    return states("claim", lambda work, who: claim(work, who, epoch(work), **changes))


def claims_again(**changes: Any) -> Saying:
    """Says the stored claim once more."""
    return states("claim", lambda work, who: {**work.read()["spec"]["claim"], **changes})


def renews(epoch: Epoch = current, **changes: Any) -> Saying:
    """Renews."""
    return states("renewal", lambda work, who: {"epoch": epoch(work), "renewTime": now(), **changes})


def checkpoints(digest: str = "sha256:1", previous: str = "", epoch: Epoch = current) -> Saying:
    """Replaces the checkpoint whose digest is `previous`."""
    stated = {"uri": "s3://work/1", "digest": digest, "previousDigest": previous}
    return states("checkpoint", lambda work, who: {"epoch": epoch(work), **stated})


def releases(epoch: Epoch = current, reason: str = "out of time") -> Saying:
    """Gives the work back."""
    return states("release", lambda work, who: {"epoch": epoch(work), "reason": reason})


def completes(epoch: Epoch = current, message: str = "done") -> Saying:
    """Declares the work done."""
    return states("completion", lambda work, who: {"epoch": epoch(work), "outcome": "Succeeded", "message": message})


def revokes(epoch: Epoch = current, reason: str = "incident") -> Saying:
    """Ends the tenure, or reopens completed work."""
    return states("revocation", lambda work, who: {"epoch": epoch(work), "reason": reason})


def configures(**settings: Any) -> Saying:
    """Changes suspend or the durations."""
    return Saying(lambda work, who: adds(**settings))


def logs(name: str = "e1", state: str = "Attempted", epoch: Epoch = current, **changes: Any) -> Saying:
    """Adds an effect."""
    return states("effects/-", lambda work, who: effect(epoch(work), name, state, **changes))


def moves(name: str, state: str, **changes: Any) -> Saying:
    """Changes the state, and perhaps more, of an effect that is there."""

    def operations(work: Work, who: str) -> Operations:
        place = f"effects/{_place(work, name)}"
        return adds(**{f"{place}/{key}": value for key, value in {"state": state, **changes}.items()})

    return Saying(operations)


def drops(name: str) -> Saying:
    """Removes an effect."""
    return Saying(lambda work, who: words.removes(f"/spec/effects/{_place(work, name)}"))


def removes(*names: str) -> Saying:
    """Removes statements."""
    return Saying(lambda work, who: words.removes(*(f"/spec/{name}" for name in names)))


def decides(**decision: Any) -> Saying:
    """What the operator writes into status; None removes a field, a function is asked for the value."""

    def operations(work: Work, who: str) -> Operations:
        return decided(**{name: value(work) if callable(value) else value for name, value in decision.items()})

    return Saying(operations)


def creates(**spec: Any) -> Deed:
    """Makes the work item, with these fields; a function is asked for the value, given the work and the speaker."""

    def deed(work: Work, who: str) -> Answer:
        return work.create(who, {name: said(work, who) if callable(said) else said for name, said in spec.items()})

    return deed


def _place(work: Work, effect_id: str) -> int:
    return [one["id"] for one in work.read()["spec"]["effects"]].index(effect_id)
