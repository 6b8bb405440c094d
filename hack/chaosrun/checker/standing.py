"""Beliefs against grants: when a lease has expired and is granted anew, its old holder has stopped believing.

A belief lasts until the deadline that was computed, whether or not its process lived to see it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .model import FOREVER, Belief, History, Promise, Violation

AFTER_EXPIRY = "AfterExpiry"


def check(history: History) -> Iterator[Violation]:
    return (violation for belief, violation in _overlaps(history) if not belief.beyond_bounds)


def excused(history: History) -> dict[str, int]:
    """How many beliefs a clock beyond the bounds has touched, and how many of them lasted too long."""
    overlaps = sum(belief.beyond_bounds for belief, _ in _overlaps(history))
    return {"beyond bounds": sum(b.beyond_bounds for b in history.beliefs), "beyond bounds, and too long": overlaps}


def _overlaps(history: History) -> Iterator[tuple[Belief, Violation]]:
    by_tenure: dict[tuple[str, int], list[Belief]] = defaultdict(list)
    for belief in history.beliefs:
        by_tenure[belief.lease, belief.epoch].append(belief)
    for name, before, after in history.changes():
        if before is None or after.status["epoch"] <= before.status["epoch"]:
            continue
        if after.status.get("grantReason") != AFTER_EXPIRY or after.not_after == FOREVER:
            continue
        for belief in by_tenure[name, before.status["epoch"]]:
            if belief.expiry > after.not_after:
                text = (
                    f"{belief.party} believed in epoch {belief.epoch} for {belief.expiry - after.not_after:.3f} s "
                    f"after epoch {after.status['epoch']} had been granted because it had expired"
                )
                yield belief, Violation(Promise.BELIEF, name, after.revision, text)
