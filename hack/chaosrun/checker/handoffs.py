"""Handoffs: answered once, of one accepted at most for each epoch, and told of only what has happened to the work."""

from __future__ import annotations

from collections.abc import Iterator

from .model import Call, History, Promise, State, Version, Violation

FINAL = ("Rejected", "Withdrawn", "Expired", "Stale", "Completed", "Lapsed")
HANDOFF = "Handoff"


def check(history: History) -> Iterator[Violation]:
    reserved = _reserved(history)
    yield from _one_for_each_epoch(reserved)
    granted = _granted(history)
    for (plural, name), versions in history.versions.items():
        if plural == "handoffs":
            yield from _answered_once(name, versions)
            yield from _told(name, versions, reserved, granted)


def justifies(version: Version, call: Call) -> bool:
    """By this version it is right to refuse an answer to the handoff."""
    if call.status == 404 or version.state is None:
        return call.status == 404 and version.state is None
    if "a handoff is answered once" in call.message:
        return bool(version.spec.get("response"))
    if "the handoff is no longer pending" in call.message:
        return bool(version.status["phase"] != "Pending")
    return call.status == 403  # by who it is, not by the state


def _reserved(history: History) -> dict[str, tuple[str, int, int]]:
    """By the uid of a handoff: the work, its epoch and the revision at which the acceptance took effect first."""
    found: dict[str, tuple[str, int, int]] = {}
    for name, versions in history.leases():
        for version in versions:
            if version.state and (successor := version.status.get("successor")):
                found.setdefault(successor["handoffUID"], (name, version.status["epoch"], version.revision))
    return found


def _one_for_each_epoch(reserved: dict[str, tuple[str, int, int]]) -> Iterator[Violation]:
    first: dict[tuple[str, int], str] = {}
    for uid, (name, epoch, revision) in sorted(reserved.items(), key=lambda item: item[1][2]):
        if first.setdefault((name, epoch), uid) != uid:
            yield Violation(Promise.ONE_DECISION, name, revision, f"a second acceptance took effect at epoch {epoch}")


def _granted(history: History) -> dict[str, tuple[int, int]]:
    """By the uid of a handoff: the epoch that was granted by it, and at which revision."""
    found: dict[str, tuple[int, int]] = {}
    for _, before, after in history.changes():
        if before and after.status["epoch"] > before.status["epoch"] and after.status.get("grantReason") == HANDOFF:
            successor = before.status.get("successor") or {}
            last = after.status.get("history", [{}])[-1]
            uid = last.get("handoffUID") or successor.get("handoffUID", "")
            found.setdefault(uid, (after.status["epoch"], after.revision))
    return found


def _answered_once(name: str, versions: list[Version]) -> Iterator[Violation]:
    before: Version | None = None
    for version in versions:
        if before is not None and before.state and version.state and before.spec != version.spec:
            offer, stored = _offer(version.spec), _offer(before.spec)
            if offer != stored or before.spec.get("response") or before.status["phase"] != "Pending":
                text = f"it was changed in phase {before.status['phase']}, or once more"
                yield Violation(Promise.PAST_EPOCH, name, version.revision, text)
        before = version


def _offer(spec: State) -> State:
    return {name: value for name, value in spec.items() if name != "response"}


def _told(
    name: str,
    versions: list[Version],
    reserved: dict[str, tuple[str, int, int]],
    granted: dict[str, tuple[int, int]],
) -> Iterator[Violation]:
    phase = "Pending"
    for version in versions:
        if version.state is None or version.status["phase"] == phase:
            continue
        before, phase = phase, version.status["phase"]

        def wrong(text: str, version: Version = version) -> Violation:
            return Violation(Promise.ONE_DECISION, name, version.revision, text)

        if before in FINAL:
            yield wrong(f"{before} became {phase}")
        took_effect = version.uid in reserved and reserved[version.uid][2] < version.revision
        if phase in ("Accepted", "Completed", "Lapsed") and not took_effect:
            yield wrong(f"{phase}, and the work has not been reserved by it")
        epoch, revision = granted.get(version.uid, (0, version.revision))
        if phase == "Completed" and (version.status.get("grantedEpoch") != epoch or revision >= version.revision):
            yield wrong(f"Completed with epoch {version.status.get('grantedEpoch')}, and it granted {epoch or 'none'}")
