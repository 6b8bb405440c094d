"""The recipients' own records: what they admitted, in which order, and whether it was logged before it was sent."""

from __future__ import annotations

from collections.abc import Iterator

from chaosrun.history import Record

from .model import FOREVER, History, Promise, Version, Violation

ADMITTED = "admitted"
LATE = "late-"
"""How the id of an effect begins that is sent without having been logged, as a zombie does on purpose."""


def check(history: History) -> Iterator[Violation]:
    deliveries = [record for record in history.of_kind("delivery") if record["outcome"] == ADMITTED]
    yield from _in_order(deliveries)
    first = _first_logged(history)
    for delivery in deliveries:
        yield from _standing(history, delivery)
        if not delivery["effect"].startswith(LATE):
            yield from _logged(delivery, first.get((delivery["lease"], delivery["effect"])))


def passed_by(deliveries: list[Record], fenced: bool) -> list[Record]:
    """The deliveries that were admitted after one of a later epoch, at recipients with or without a fence."""
    highest: dict[tuple[str, str], int] = {}
    passed = []
    for delivery in deliveries:
        if delivery["outcome"] != ADMITTED or (delivery["fence"] != "none") is not fenced:
            continue
        key = delivery["recipient"], delivery["lease"]
        if delivery["epoch"] < highest.get(key, 0):
            passed.append(delivery)
        highest[key] = max(delivery["epoch"], highest.get(key, 0))
    return passed


def _in_order(deliveries: list[Record]) -> Iterator[Violation]:
    for delivery in passed_by(deliveries, fenced=True):
        text = f"{delivery['recipient']} admitted epoch {delivery['epoch']} after a later one"
        yield Violation(Promise.FENCE, delivery["lease"], 0, text)


def _standing(history: History, delivery: Record) -> Iterator[Violation]:
    """A recipient that asks the API server admits only what had standing at some instant while it asked."""
    if "live" not in delivery["fence"] or delivery["asked_at"] is None:
        return
    seen = history.current("workleases", delivery["lease"], delivery["asked_at"], delivery["at"])
    if not any(_has_standing(version, delivery["epoch"]) for version in seen):
        text = f"{delivery['recipient']} admitted epoch {delivery['epoch']}, which had no standing"
        yield Violation(Promise.NO_EFFECT, delivery["lease"], 0, text)


def _has_standing(version: Version, epoch: int) -> bool:
    status, spec = version.status, version.spec
    ended = any((spec.get(name) or {}).get("epoch") == epoch for name in ("revocation", "release", "completion"))
    held = status.get("phase") == "Held" and status.get("epoch") == epoch
    return held and not ended and "successor" not in status


def _first_logged(history: History) -> dict[tuple[str, str], float]:
    """When each effect can have been logged at the earliest."""
    first: dict[tuple[str, str], float] = {}
    for name, versions in history.leases():
        for version in versions:
            for effect in version.spec.get("effects", []):
                first.setdefault((name, effect["id"]), version.not_before)
    return first


def _logged(delivery: Record, logged_at: float | None) -> Iterator[Violation]:
    if (FOREVER if logged_at is None else logged_at) > delivery["at"]:
        text = f"{delivery['recipient']} got effect {delivery['effect']} before it was logged"
        yield Violation(Promise.RECORDED, delivery["lease"], 0, text)
