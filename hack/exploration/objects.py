"""The objects of a state in a canonical form: equal where nothing that is decided, admitted or promised differs.

Revisions and epochs matter by their order alone, so they are taken out of the text and renumbered. Times are kept
relative to now, which is always the same instant.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

from worklease.api.handoff import Handoff
from worklease.api.worklease import LEASED, WorkLease
from worklease.protocol.moments import Moment

Raw = dict[str, Any]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT = Moment(0.0, NOW)
TICK_SECONDS = 10
OLDEST_SECONDS = 40
"""A time longer ago than this is as old as it gets."""
TIMELESS = "2999-01-01T00:00:00.000000Z"
"""Stands for every time that nothing is decided by."""
REVISIONS = frozenset({"epoch", "grantedEpoch", "resourceVersion"})
CACHED = 200_000
_TIME = re.compile(r"202[0-9]-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]{6})?Z")
_UNREAD_OF_TENURE = (
    "acquireTime",
    "endTime",
    "renewals",
    "longestGapSeconds",
    "lastRenewTime",
    "effects",
    "checkpointDigest",
    "claimID",
    "purpose",
    "grantMessage",
    "endMessage",
)


class Object(NamedTuple):
    """A text in which each revision is its place in `revisions`."""

    text: str
    revisions: tuple[int, ...]


def canonical(raw: Raw) -> Object:
    """The canonical form of an object as the API server has it."""
    revisions: list[int] = []
    return Object(
        intern(json.dumps(_slotted(_plain(raw), revisions), sort_keys=True, separators=(",", ":"))), tuple(revisions)
    )


def _plain(raw: Raw) -> Raw:
    status = dict(raw.get("status", {}))
    if "history" in status:
        status["history"] = [
            {name: value for name, value in tenure.items() if name not in _UNREAD_OF_TENURE}
            for tenure in status["history"]
        ]
    if "conditions" in status:
        status["conditions"] = [{**one, "lastTransitionTime": TIMELESS} for one in status["conditions"]]
        if raw["kind"] == "Handoff" and status["phase"] in (
            "Completed",
            "Stale",
            "Lapsed",
        ):  # says an epoch in words, and is final
            status["conditions"] = [{**one, "message": ""} for one in status["conditions"]]
    if "acquireTime" in status and status["phase"] not in LEASED:
        status["acquireTime"] = TIMELESS
    return {**raw, "status": status}


def _slotted(node: Any, revisions: list[int], name: str = "") -> Any:
    if isinstance(node, dict):
        return {key: _slotted(node[key], revisions, key) for key in sorted(node)}
    if isinstance(node, list):
        return [_slotted(one, revisions) for one in node]
    if name in REVISIONS:
        revisions.append(int(node))
        return len(revisions) - 1
    return node


def _filled(node: Any, revisions: tuple[int, ...], name: str = "") -> Any:
    if isinstance(node, dict):
        return {key: _filled(value, revisions, key) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(one, revisions) for one in node]
    if name in REVISIONS:
        return str(revisions[node]) if name == "resourceVersion" else revisions[node]
    return node


@lru_cache(CACHED)
def raw_of(stored: Object) -> Raw:
    """The object; not to be changed."""
    filled: Raw = _filled(json.loads(stored.text), stored.revisions)
    return filled


@lru_cache(CACHED)
def lease_of(stored: Object) -> WorkLease:
    """The object as the decisions read it."""
    return WorkLease.model_validate(raw_of(stored))


@lru_cache(CACHED)
def handoff_of(stored: Object) -> Handoff:
    """The object as the decisions read it."""
    return Handoff.model_validate(raw_of(stored))


def version_of(stored: Object) -> int:
    """Its resourceVersion."""
    return int(raw_of(stored)["metadata"]["resourceVersion"])


@lru_cache(CACHED)
def later(text: str) -> str:
    """The text of an object one tick later."""
    return intern(_TIME.sub(lambda match: _earlier(match[0]), text))


def _earlier(time: str) -> str:
    moved = max(datetime.fromisoformat(time) - timedelta(seconds=TICK_SECONDS), NOW - timedelta(seconds=OLDEST_SECONDS))
    return moved.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if "." in time else "%Y-%m-%dT%H:%M:%SZ")


@lru_cache(CACHED)
def names_in(text: str) -> tuple[str, ...]:
    """The names that are made up: ids of claims and times of renewals, in the order in which they occur."""
    return tuple(dict.fromkeys(NAMES.findall(text)))


@lru_cache(CACHED)
def renamed(text: str, names: tuple[tuple[str, str], ...]) -> str:
    """The text with other names."""
    mapping = dict(names)
    return intern(NAMES.sub(lambda match: mapping[match[0]], text))


_UNREAD_BY_RULES = (
    "history",
    "conditions",
    "acquireTime",
    "leaseTransitions",
    "grantReason",
    "grantMessage",
    "answerBy",
)
CLAIM_ID, RENEW_TIME = '"c{}"', '"2999-01-02T00:00:{:02}Z"'
NAMES = re.compile(r'"c[0-9]+"|"2999-01-02[^"]*"')


@lru_cache(CACHED)
def judged(old: str, new: str, subresource: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """What the verdict on a write may depend on: a text, and the places of the revisions in the old and new object.

    A statement is judged without what no rule and no policy reads, and names that are made up go by their equality.
    """
    texts: list[str] = []
    places: list[tuple[int, ...]] = []
    for text in (old, new):
        kept: list[int] = []
        raw = json.loads(text) if text else {}
        raw.get("metadata", {}).pop("resourceVersion", None)
        for name in () if subresource else _UNREAD_BY_RULES:
            raw.get("status", {}).pop(name, None)
        texts.append(json.dumps(_gathered(raw, kept), sort_keys=True))
        places.append(tuple(kept))
    names: dict[str, str] = {}
    whole = NAMES.sub(lambda match: names.setdefault(match[0], f'"n{len(names)}"'), "\n".join(texts))
    return whole, places[0], places[1]


def _gathered(node: Any, kept: list[int], name: str = "") -> Any:
    if isinstance(node, dict):
        return {key: _gathered(node[key], kept, key) for key in sorted(node)}
    if isinstance(node, list):
        return [_gathered(one, kept) for one in node]
    if name in REVISIONS:
        kept.append(node)
        return 0
    return node


def ago(seconds: int) -> str:
    """The server's time so long ago."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
