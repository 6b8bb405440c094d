"""Everything that somebody may try to write in a state: permitted, late, hostile and senseless alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from celcheck import Speaker
from exploration.objects import CLAIM_ID, NOW, RENEW_TIME, TICK_SECONDS, Object, Raw, names_in, raw_of
from exploration.state import State
from worklease.api.group import API_VERSION
from worklease.api.statements import EPOCH_STATEMENTS
from worklease.protocol.moments import rfc3339_seconds

NAMESPACE, LEASE = "team", "item"
ADMIN = Speaker("admin", verbs=("*",))
AGENTS = (Speaker("alice"), Speaker("bob"), Speaker("carol"))
REMOVED = None
NAMES_MAX = 30
LEASE_SECONDS = TICK_SECONDS
"""A lease lasts for one tick, an answer to a handoff for two."""


@dataclass(frozen=True)
class Scope:
    """How much may happen. Within it, everything is tried."""

    agents: int = 2
    replicas: int = 1
    handoffs: int = 0
    grants_max: int = 2
    jeopardy_seconds: int = TICK_SECONDS
    effects: tuple[str, ...] = ()
    checkpoint: bool = False
    suspension: bool = False
    pairs: bool = False
    losses_max: int = 0
    prompt: bool = False
    """Operators see everything at once, so that longer stories are within reach."""
    statements: tuple[str, ...] = ("claim", "renewal", "release", "completion", "revocation")
    start: tuple[str, ...] = ()
    """Steps that are taken first, in the words of a path: what lies far away is then near."""
    senders: tuple[str, ...] = ("holder", "admin")
    answers: tuple[str, ...] = ("Accepted", "Rejected", "Withdrawn")

    @property
    def speakers(self) -> tuple[Speaker, ...]:
        """The agents of this scope."""
        return AGENTS[: self.agents]


@dataclass(frozen=True)
class Saying:
    """One write: by whom, in words, and the fields of spec as they would be; None takes a field out."""

    speaker: Speaker
    words: str
    changes: tuple[tuple[str, object], ...]


def instance_of(speaker: Speaker) -> str:
    """The one process of each."""
    return f"host:{speaker.name}/1"


def new_lease(scope: Scope, spec: Raw | None = None, uid: str = "u1") -> Raw:
    """A work item that somebody creates, perhaps from a backup of spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": "WorkLease",
        "metadata": {"name": LEASE, "namespace": NAMESPACE, "uid": uid, "resourceVersion": "1"},
        "spec": spec
        or {
            "work": {"type": "t", "id": "i"},
            "leaseDurationSeconds": LEASE_SECONDS,
            "jeopardyDurationSeconds": scope.jeopardy_seconds,
            "suspend": False,
            "effects": [],
        },
    }


def sayings(scope: Scope, state: State) -> Iterator[Saying]:
    """What is tried on the lease."""
    lease = raw_of(state.lease)
    epochs = _epochs(state, lease)
    for speaker in scope.speakers:
        mine = dict(_of_agent(scope, state, lease, speaker, epochs))
        for words, changes in mine.items():
            yield Saying(speaker, words, changes)
        if scope.pairs:
            for (one, first), (other, second) in combinations(mine.items(), 2):
                if not {name for name, _ in first} & {name for name, _ in second}:
                    yield Saying(speaker, f"{one}, and {other}", first + second)
        for name in EPOCH_STATEMENTS:
            if name in lease["spec"]:
                yield Saying(speaker, f"removes the {name}", ((name, REMOVED),))
    yield from _of_administrator(scope, state, lease, epochs)


def _epochs(state: State, lease: Raw) -> list[int]:
    """The current epoch, the one before, and one that has not been."""
    current: int = lease["status"]["epoch"]
    spoken = [raw["epoch"] for raw in lease["spec"].values() if isinstance(raw, dict) and "epoch" in raw]
    past = [
        one for one in (*(tenure["epoch"] for tenure in lease["status"].get("history", ())), *spoken) if one < current
    ]
    return sorted(
        {current, *([max(past)] if past else []), state.next_revision()}, key=lambda one: (one != current, one)
    )


Changes = tuple[tuple[str, object], ...]


def _of_agent(
    scope: Scope, state: State, lease: Raw, speaker: Speaker, epochs: list[int]
) -> Iterator[tuple[str, Changes]]:
    current, spec = epochs[0], lease["spec"]
    for epoch in epochs:
        at = "" if epoch == current else " at a past epoch" if epoch < current else " at an epoch to come"
        if "claim" in scope.statements and (epoch == current or state.memory.grants):
            yield f"claims{at}", (("claim", _claim(state, lease, speaker, epoch)),)
        if not epoch:
            continue
        for name, value in (
            ("renewal", {"epoch": epoch, "renewTime": fresh_names(state)[1]}),
            ("release", {"epoch": epoch, "reason": ""}),
            ("completion", {"epoch": epoch, "outcome": "Succeeded", "message": ""}),
        ):
            if name in scope.statements:
                yield f"states a {name}{at}", ((name, value),)
        for effect in scope.effects:
            if effect not in {one["id"] for one in spec["effects"]}:
                added = {"id": effect, "epoch": epoch, "recipient": "r", "action": "a", "state": "Attempted"}
                yield f"adds effect {effect}{at}", (("effects", [*spec["effects"], added]),)
    if scope.checkpoint and current:
        stored = spec.get("checkpoint", {}).get("digest", "")
        said = {"epoch": current, "uri": "s3://c", "digest": "2" if stored == "1" else "1", "previousDigest": stored}
        yield "moves the checkpoint", (("checkpoint", said),)
    for number, one in enumerate(spec["effects"]):
        rest = [*spec["effects"][:number], *spec["effects"][number + 1 :]]
        yield f"drops effect {one['id']}", (("effects", rest),)
        for to in ("Succeeded", "Unknown", "Attempted"):
            if to != one["state"]:
                moved = [*spec["effects"]]
                moved[number] = {**one, "state": to}
                yield f"moves effect {one['id']} to {to}", (("effects", moved),)


def _of_administrator(scope: Scope, state: State, lease: Raw, epochs: list[int]) -> Iterator[Saying]:
    spec = lease["spec"]
    for epoch in epochs if "revocation" in scope.statements else ():
        if not epoch:
            continue
        at = "" if epoch == epochs[0] else " of another epoch"
        revocation = {"epoch": epoch, "reason": "r"}
        yield Saying(ADMIN, f"revokes{at}", (("revocation", revocation),))
        if epoch == epochs[0]:
            for heir in scope.speakers:
                taken = _claim(state, lease, heir, epoch)
                yield Saying(ADMIN, f"takes over for {heir.name}", (("revocation", revocation), ("claim", taken)))
            yield Saying(ADMIN, "revokes and removes the claim", (("revocation", revocation), ("claim", REMOVED)))
    for name in EPOCH_STATEMENTS:
        if name in spec:
            yield Saying(ADMIN, f"removes the {name}", ((name, REMOVED),))
    if scope.suspension:
        yield Saying(ADMIN, "suspends" if not spec["suspend"] else "resumes", (("suspend", not spec["suspend"]),))
    for number, one in enumerate(spec["effects"]):
        if one["state"] in ("Attempted", "Unknown"):
            moved = [*spec["effects"]]
            moved[number] = {**one, "state": "Failed"}
            yield Saying(ADMIN, f"reconciles effect {one['id']}", (("effects", moved),))


def _claim(state: State, lease: Raw, speaker: Speaker, epoch: int) -> Raw:
    return {
        "epoch": epoch,
        "id": fresh_names(state)[0],
        "holderIdentity": speaker.name,
        "instance": instance_of(speaker),
        "purpose": "p",
    }


def fresh_names(state: State) -> tuple[str, str]:
    """A claim's id and a renewal's time that nobody remembers; the first, so that there are few of them."""
    texts = [state.lease.text, *(replica.lease.text for replica in state.replicas if replica.lease)]
    used = {name for text in texts for name in names_in(text)}
    used |= {f'"{replica.seen.renew_time}"' for replica in state.replicas if replica.seen}
    return tuple(  # type: ignore[return-value]
        next(name for name in map(kind.format, range(NAMES_MAX)) if name not in used).strip('"')
        for kind in (CLAIM_ID, RENEW_TIME)
    )


def said(stored: Object, saying: Saying) -> Raw:
    """The lease as it would be written."""
    lease = raw_of(stored)
    spec = {**lease["spec"], **{name: value for name, value in saying.changes if value is not REMOVED}}
    for name, value in saying.changes:
        if value is REMOVED:
            spec.pop(name, None)
    return {**lease, "spec": spec}


def offers(scope: Scope, state: State) -> Iterator[tuple[Speaker, int, Raw]]:
    """New handoffs: by whoever says that they hold, and by an administrator; those are not pinned to an epoch."""
    number = next((number for number, one in enumerate(state.handoffs) if one is None), None)
    if number is None:
        return
    holder = raw_of(state.lease)["status"].get("holderIdentity")
    for target in scope.speakers:
        for sender in scope.speakers:
            if sender != target and ("anybody" in scope.senders or sender.name == holder):
                source = {"from": sender.name, "fromInstance": instance_of(sender)}
                yield sender, number, _offer(number, target, source)
        if "admin" in scope.senders:
            yield ADMIN, number, _offer(number, target, {})


def _offer(number: int, target: Speaker, source: Raw) -> Raw:
    return {
        "apiVersion": API_VERSION,
        "kind": "Handoff",
        "metadata": {
            "name": f"h{number}",
            "namespace": NAMESPACE,
            "uid": f"h{number}",
            "resourceVersion": "1",
            "creationTimestamp": rfc3339_seconds(NOW),
        },
        "spec": {
            "workLeaseName": LEASE,
            **source,
            "to": {"holderIdentity": target.name},
            "acceptWithinSeconds": 2 * TICK_SECONDS,
            "claimWithinSeconds": TICK_SECONDS,
        },
    }


def answers(scope: Scope, state: State) -> Iterator[tuple[Speaker, int, Raw, str]]:
    """Every answer by everybody to each handoff that has none."""
    for number, stored in enumerate(state.handoffs):
        if stored is None or "response" in raw_of(stored)["spec"]:
            continue
        handoff = raw_of(stored)
        for speaker in (*scope.speakers, ADMIN):
            for decision in scope.answers:
                spec = {**handoff["spec"], "response": {"decision": decision, "reason": ""}}
                yield speaker, number, {**handoff, "spec": spec}, decision
