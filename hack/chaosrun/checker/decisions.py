"""What the operator wrote: each decision follows from what was stored, none is lost, and none lapses a lease early."""

from __future__ import annotations

from collections.abc import Iterator

from .model import FOREVER, History, Promise, State, Version, Violation
from .rules import HELD, UNRECONCILED, said

CAUSES = {"Released": "release", "Revoked": "revocation", "Completed": "completion"}


def check(history: History) -> Iterator[Violation]:
    accepted = _accepted(history)
    for name, before, after in history.changes():
        if before is None or before.status == after.status:
            continue
        yield from _ended(name, before, after)
        yield from _lapsed(name, before, after, history.versions["workleases", name])
        yield from _reserved(name, before, after, accepted)
        yield from _remembered(name, after)
        if before.spec != after.spec:
            text = "one write changed both what was said and what was decided"
            yield Violation(Promise.ONE_DECISION, name, after.revision, text)


def _ended(name: str, before: Version, after: Version) -> Iterator[Violation]:
    old, new, spec = before.status, after.status, before.spec
    if new["epoch"] != old["epoch"] or new["phase"] == old["phase"]:
        return
    cause = CAUSES.get(new["phase"])
    if cause and not said(spec, cause, old["epoch"]):
        text = f"{old['phase']} became {new['phase']} without a {cause} of epoch {old['epoch']}"
        yield Violation(Promise.ONE_DECISION, name, after.revision, text)
    if new["phase"] == "Completed" and any(e["state"] in UNRECONCILED for e in spec.get("effects", [])):
        yield Violation(Promise.RECONCILED, name, after.revision, "completed with unreconciled effects")
    for word in ("completion", "revocation", "release"):
        ended = new["phase"] in ("Released", "Revoked", "Completed")
        if said(spec, word, old["epoch"]) and not ended and old["phase"] in HELD:
            text = f"a {word} of epoch {old['epoch']} was stated, and {old['phase']} became {new['phase']}"
            yield Violation(Promise.ONE_DECISION, name, after.revision, text)


def _lapsed(name: str, before: Version, after: Version, versions: list[Version]) -> Iterator[Violation]:
    """Held to Jeopardy to Expired: not before the time has passed since the last accepted renewal was sent."""
    old, new = before.status, after.status
    epoch = old["epoch"]
    expired = new["phase"] == "Expired" or any(
        t["epoch"] == epoch and t.get("endReason") == "Expired" for t in new.get("history", [])
    )
    if old["phase"] not in HELD or not (expired or (new["phase"] == "Jeopardy" and old["phase"] == "Held")):
        return
    seconds = old["leaseDurationSeconds"] + (old["jeopardyDurationSeconds"] if expired else 0)
    heard = _last_heard(before, versions)
    if heard is None or after.not_after == FOREVER:
        return
    passed = after.not_after - heard.not_before
    if passed < seconds:
        what = "Expired" if expired else "Jeopardy"
        said = f"the last renewal, or the claim, of epoch {epoch} was sent"
        text = f"{what} {passed:.3f} s after {said}, which is good for {seconds} s"
        yield Violation(Promise.TIMING, name, after.revision, text)


def _last_heard(before: Version, versions: list[Version]) -> Version | None:
    """The version with which the tenure was renewed last, else claimed: its holder counts from when that was sent, also
    when the grant was decided in time and stored much later.
    """
    epoch, renewal = before.status["epoch"], before.spec.get("renewal")
    same = [v for v in versions if v.state and v.revision <= before.revision and v.status["epoch"] == epoch]
    if renewal and renewal["epoch"] == epoch:
        return next((v for v in same if v.spec.get("renewal") == renewal), None)
    claim_id = before.status.get("claimID")
    claimed = (v for v in versions if v.state and (v.spec.get("claim") or {}).get("id") == claim_id)
    return next(claimed, same[0] if same else None)


def _accepted(history: History) -> dict[str, list[tuple[int, State]]]:
    """The accepted handoffs by uid, with the revision at which each was accepted first."""
    found: dict[str, list[tuple[int, State]]] = {}
    for (plural, _), versions in history.versions.items():
        for version in versions if plural == "handoffs" else ():
            if (version.spec.get("response") or {}).get("decision") == "Accepted":
                found.setdefault(version.uid, []).append((version.revision, version.spec))
    return found


def _reserved(
    name: str, before: Version, after: Version, accepted: dict[str, list[tuple[int, State]]]
) -> Iterator[Violation]:
    successor = after.status.get("successor")
    if successor is None or successor == before.status.get("successor"):
        return
    answers = accepted.get(successor["handoffUID"], [])
    if not any(
        revision < after.revision
        and spec["to"]["holderIdentity"] == successor["holderIdentity"]
        and spec["workLeaseName"] == name.partition("/")[2]
        for revision, spec in answers
    ):
        text = f"reserved for {successor['holderIdentity']}, and handoff {successor['handoff']} was not accepted"
        yield Violation(Promise.ONE_DECISION, name, after.revision, text)


def _remembered(name: str, after: Version) -> Iterator[Violation]:
    """The history has each tenure once, in their order, the current one last."""
    epochs = [tenure["epoch"] for tenure in after.status.get("history", [])]
    if epochs != sorted(set(epochs)) or (after.status["epoch"] and epochs[-1:] != [after.status["epoch"]]):
        text = f"status.history has the epochs {epochs} at epoch {after.status['epoch']}"
        yield Violation(Promise.ONE_DECISION, name, after.revision, text)
