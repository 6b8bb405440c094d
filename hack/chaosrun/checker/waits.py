"""How long what was said waited for its decision, faults included: a figure, not a promise."""

from __future__ import annotations

import statistics

from .model import History, Version
from .rules import HELD, said


def milliseconds(history: History) -> dict[str, int]:
    """The median and the longest, and how many there were."""
    seen = {record["revision"]: float(record["at"]) for record in history.of_kind("store")}
    waited: list[float] = []
    for _, versions in history.leases():
        since: float | None = None
        for version in versions:
            undecided = version.state is not None and _undecided(version)
            if undecided and since is None:
                since = seen[version.revision]
            elif not undecided and since is not None:
                waited.append(seen[version.revision] - since)
                since = None
    if not waited:
        return {}
    told = {"median": statistics.median(waited), "longest": max(waited)}
    return {"decisions": len(waited), **{name: round(1000 * seconds) for name, seconds in told.items()}}


def _undecided(version: Version) -> bool:
    spec, status = version.spec, version.status
    epoch, claim = status["epoch"], spec.get("claim")
    pending = claim is not None and claim["epoch"] == epoch and claim["id"] != status.get("observedClaimID")
    ended = any(said(spec, name, epoch) for name in ("release", "completion", "revocation"))
    return pending or (ended and status["phase"] in HELD)
