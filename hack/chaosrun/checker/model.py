"""A history as the checks read it: the versions of each object, the calls with their answers, the beliefs.

The store's revisions are a total order. What is not known exactly is when a revision was committed, on the clock of
the other records: not before the first request that led to it or to a later one was sent, which bounds it from below,
and not after anybody had seen it or a later one. A version counts as current whenever it may have been.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from chaosrun.history import Record

from .patches import makes

State = dict[str, Any]
FOREVER = float("inf")


class Promise(StrEnum):
    """What a violation contradicts; the first eight are those of the design, by number."""

    ONE_EPOCH = "1: no epoch is granted twice, and epochs only grow"
    PAST_EPOCH = "2: no statement about a past epoch takes effect"
    NO_EFFECT = "3: no new effect without standing"
    ONE_DECISION = "4: no decision is lost, made twice, or made of something else than what is stored"
    DENIAL = "5: a denial tells the loser only when to come back"
    RECORDED = "6: no attempted effect vanishes"
    RECONCILED = "7: no work is completed with unreconciled effects"
    ACTING = "8: operator and administrators can always act"
    BELIEF = "after an expiry no two parties believe that they hold the work"
    TIMING = "a lease lapses by the time since its renewal was sent, never earlier"
    FENCE = "a recipient with a fence admits no lower epoch after a higher one"
    JUSTIFIED = "an answer is justified by the store's state between its call and itself"


@dataclass(frozen=True)
class Violation:
    """Something in the history that must not be there."""

    promise: Promise
    object: str
    revision: int
    text: str

    def __str__(self) -> str:
        where = f" at revision {self.revision}" if self.revision else ""
        return f"{self.object}{where}: {self.text} [{self.promise}]"


@dataclass
class Version:
    """An object as one revision of the store has it; `state` is None where it was deleted."""

    revision: int
    uid: str
    state: State | None
    not_before: float = 0.0
    not_after: float = FOREVER

    @property
    def spec(self) -> State:
        return dict(self.state["spec"]) if self.state else {}

    @property
    def status(self) -> State:
        return dict(self.state["status"]) if self.state else {}


@dataclass
class Call:
    """One request, with what was answered; an answer that never came is unknown."""

    id: str
    party: str
    method: str
    path: str
    body: Any
    began_at: float
    ended_at: float = FOREVER
    outcome: str = "unknown"
    status: int = 0
    version: int = 0
    message: str = ""
    instance: str = ""
    """As which process of its user it was made."""

    @property
    def target(self) -> tuple[str, str, bool] | None:
        """Plural, NAMESPACE/NAME and whether it is about the status; None for what is not an object of ours."""
        parts = self.path.partition("?")[0].split("/")
        if parts[:4] != ["", "apis", "worklease.dev", "v1alpha1"] or parts[4:5] != ["namespaces"]:
            return None
        namespace, plural, *rest = parts[5:]
        name = rest[0] if rest else (self.body or {}).get("metadata", {}).get("name", "")
        return (plural, f"{namespace}/{name}", rest[1:] == ["status"]) if name else None


@dataclass
class Belief:
    """What one process believed of one tenure at one time; in true seconds."""

    party: str
    lease: str
    epoch: int
    claim: str
    at: float
    deadline: float
    expiry: float
    beyond_bounds: bool = False


@dataclass
class History:
    """Everything, by what it is about."""

    versions: dict[tuple[str, str], list[Version]] = field(default_factory=lambda: defaultdict(list))
    calls: list[Call] = field(default_factory=list)
    beliefs: list[Belief] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[Record]) -> History:
        history = cls(records=sorted(records, key=lambda record: float(record["at"])))
        history._take_calls()
        history._take_versions()
        history.beliefs = list(_beliefs(history.records))
        return history

    def of_kind(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["kind"] == kind]

    def leases(self) -> Iterator[tuple[str, list[Version]]]:
        """Each work item with its versions, deletions among them."""
        return ((name, versions) for (plural, name), versions in self.versions.items() if plural == "workleases")

    def changes(self) -> Iterator[tuple[str, Version | None, Version]]:
        """Each version of a work item with the one before it in the same object's life; None where it was created."""
        for name, versions in self.leases():
            before: Version | None = None
            for version in versions:
                if version.state is not None:
                    yield name, before, version
                before = version if version.state is not None else None

    def current(self, plural: str, name: str, begin: float, end: float) -> Iterator[Version]:
        """Every version that may have been the stored one at some instant between the two; absence is one too."""
        versions = self.versions.get((plural, name), [])
        absent = Version(0, "", None)
        for version, after in itertools.zip_longest([absent, *versions], versions):
            if version.not_before <= end and (after is None or after.not_after >= begin):
                yield version

    def _begun(self, answered: list[Call]) -> Iterator[tuple[int, float]]:
        """Revisions, each with when the request that made it was sent.

        An answer that is ok may be to a request that changed nothing, such as the repetition of one whose answer was
        lost: it names a revision that was there before. So the earliest request that said the same is what counts.
        """
        earliest: dict[str, float] = {}
        for call in self.calls:
            earliest.setdefault(_saying(call), call.began_at)
        before = {
            after.revision: one
            for versions in self.versions.values()
            for one, after in itertools.pairwise(versions)
            if one.state and after.state
        }
        made = {version.revision: version for versions in self.versions.values() for version in versions}
        for call in answered:
            target = call.target
            if call.method == "GET" or target is None or call.version not in made:
                continue
            if call.method == "PATCH" and not target[2]:
                one = before.get(call.version)
                if one is None or not makes(one.spec, call.body, made[call.version].spec):
                    continue
                yield call.version, earliest[_saying(call)]
            else:
                yield call.version, call.began_at

    def _take_calls(self) -> None:
        by_id: dict[str, Call] = {}
        instances = {record["party"]: record["instance"] for record in self.of_kind("instance")}
        for record in self.records:
            if record["kind"] == "call":
                call = Call(
                    record["call"], record["party"], record["method"], record["path"], record.get("body"), record["at"]
                )
                call.instance = instances.get(call.party, "")
                by_id[call.id] = call
                self.calls.append(call)
            elif record["kind"] == "answer" and (answered := by_id.get(record["call"])):
                answered.ended_at = record["at"]
                answered.outcome, answered.status = record["outcome"], record["status"]
                answered.version, answered.message = record.get("version", 0), record.get("message", "")

    def _take_versions(self) -> None:
        seen: list[tuple[int, float]] = []
        ordered: list[Version] = []
        for record in sorted(self.of_kind("store"), key=lambda record: int(record["revision"])):
            versions = self.versions[record["plural"], record["object"]]
            last = versions[-1].state if versions else None
            state: State | None = None
            if not record.get("deleted"):
                # A new object is stored without a status; the server adds the default to whatever it reads.
                before: State = last or {"spec": {}, "status": {}}
                stored: State = record["status"] if "status" in record else before["status"]
                status = {**_DEFAULTS[record["plural"]], **stored}
                state = {"spec": record.get("spec", before["spec"]), "status": status}
            version = Version(record["revision"], record.get("uid", versions[-1].uid if versions else ""), state)
            versions.append(version)
            ordered.append(version)
            seen.append((version.revision, record["at"]))
        answered = [call for call in self.calls if call.outcome == "ok" and call.version]
        begun = sorted(self._begun(answered))
        seen += [(record["revision"], record["at"]) for record in self.of_kind("seen")]
        seen += [(call.version, call.ended_at) for call in answered]
        earliest = _running(begun, max)
        latest = _running(sorted(seen, reverse=True), min)[::-1]
        for version in ordered:
            index = bisect.bisect_right(earliest, (version.revision, FOREVER))
            version.not_before = earliest[index - 1][1] if index else 0.0
            index = bisect.bisect_left(latest, (version.revision, -FOREVER))
            version.not_after = latest[index][1] if index < len(latest) else FOREVER


def _saying(call: Call) -> str:
    return json.dumps([call.party.partition("#")[0], call.method, call.path, call.body], sort_keys=True)


_DEFAULTS: dict[str, State] = {"workleases": {"phase": "Available", "epoch": 0}, "handoffs": {"phase": "Pending"}}


def _running(pairs: list[tuple[int, float]], choose: Any) -> list[tuple[int, float]]:
    times = itertools.accumulate((time for _, time in pairs), choose)
    return [(revision, time) for (revision, _), time in zip(pairs, times, strict=True)]


def _beliefs(records: list[Record]) -> Iterator[Belief]:
    """The beliefs in true time: each ends at its computed expiry, or when its holder said that it is over."""
    clocks: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for record in records:
        if record["kind"] == "clock":
            clocks[record["party"]].append((record["at"], record["shown"], record["rate"]))
    latest: dict[tuple[str, str, int], Belief] = {}
    for record in records:
        if record["kind"] not in ("belief", "belief-end"):
            continue
        key = record["party"], record["lease"], record["epoch"]
        if record["kind"] == "belief-end":
            if key in latest:
                ended = latest[key]
                ended.deadline, ended.expiry = min(ended.deadline, record["at"]), min(ended.expiry, record["at"])
            continue
        clock = clocks[record["party"]] or TRUE_CLOCK
        belief = Belief(
            record["party"],
            record["lease"],
            record["epoch"],
            record["claim"],
            record["at"],
            _true(clock, record["deadline"]),
            _true(clock, record["expiry"]),
        )
        belief.beyond_bounds = any(
            abs(rate - 1) > RATE_BOUND and at <= belief.expiry and until >= belief.at - LONGEST_LEASE_SECONDS
            for (at, _, rate), until in zip(clock, [*(at for at, _, _ in clock[1:]), FOREVER], strict=True)
        )
        latest[key] = belief
        yield belief


TRUE_CLOCK = [(0.0, 0.0, 1.0)]
RATE_BOUND = 500e-6
LONGEST_LEASE_SECONDS = 12.0
"""A clock that was wrong this long before a belief may have moved the time at which its renewal was sent."""


def _true(clock: list[tuple[float, float, float]], shown: float) -> float:
    """When a clock showed this, by its records."""
    for (at, at_shown, rate), following in itertools.zip_longest(clock, clock[1:]):
        if following is None or shown < following[1]:
            return at + (shown - at_shown) / rate
    raise AssertionError("a clock has at least one record")
