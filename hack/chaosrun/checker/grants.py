"""The grants of each work item: one strictly increasing sequence of epochs, each the revision that it was made from."""

from __future__ import annotations

from collections.abc import Iterator

from .model import History, Promise, State, Version, Violation
from .rules import HELD, said


def check(history: History) -> Iterator[Violation]:
    for name, versions in history.leases():
        yield from _sequence(name, versions)
    for name, before, after in history.changes():
        yield from _grant(name, before, after, history.versions["workleases", name])
    yield from _believed(history)


def _sequence(name: str, versions: list[Version]) -> Iterator[Violation]:
    """Over the whole life of a name, deletion and re-creation included."""
    highest, claim = 0, None
    for version in versions:
        if version.state is None:
            continue
        status = version.status
        epoch = status["epoch"]
        if epoch == 0:
            continue
        if epoch < highest:
            yield Violation(Promise.ONE_EPOCH, name, version.revision, f"epoch {epoch} after epoch {highest}")
        elif epoch == highest and status.get("claimID") != claim:
            text = f"epoch {epoch} granted to claim {status.get('claimID')}, and before to claim {claim}"
            yield Violation(Promise.ONE_EPOCH, name, version.revision, text)
        highest, claim = max(highest, epoch), status.get("claimID")


def _grant(name: str, before: Version | None, after: Version, versions: list[Version]) -> Iterator[Violation]:
    old: State = before.status if before else {"epoch": 0, "phase": "Available"}
    new, spec = after.status, after.spec
    if new["epoch"] == old["epoch"] and new.get("claimID") == old.get("claimID"):
        return
    claim = (before.spec if before else {}).get("claim")

    def wrong(text: str) -> Violation:
        return Violation(Promise.ONE_DECISION, name, after.revision, f"granted epoch {new['epoch']}: {text}")

    if before is None or claim is None:
        yield wrong("no claim was stated")
        return
    if new.get("claimID") != claim["id"]:
        yield wrong(f"claim {new.get('claimID')}, while the claim that was stated is {claim['id']}")
    elif claim["epoch"] != old["epoch"]:
        yield Violation(Promise.PAST_EPOCH, name, after.revision, f"a claim about epoch {claim['epoch']} was granted")
    if (new.get("holderIdentity"), new.get("instance")) != (claim["holderIdentity"], claim["instance"]):
        yield wrong(f"to {new.get('holderIdentity')}, while the claim is {claim['holderIdentity']}'s")
    if not any(v.revision == new["epoch"] and v.uid == after.uid for v in versions if v.revision <= before.revision):
        yield wrong("the epoch is no revision at which the object was read")
    if new.get("leaseTransitions", 0) != old.get("leaseTransitions", 0) + 1:
        yield wrong(f"leaseTransitions went from {old.get('leaseTransitions', 0)} to {new.get('leaseTransitions')}")
    ended = any(said(before.spec, word, old["epoch"]) for word in ("revocation", "release"))
    reserved = old.get("successor") or {}
    by_successor = reserved.get("holderIdentity") == claim["holderIdentity"]
    by_holder = (old.get("holderIdentity"), old.get("instance")) == (claim["holderIdentity"], claim["instance"])
    expired = any(t["epoch"] == old["epoch"] and t.get("endReason") == "Expired" for t in new.get("history", []))
    if old["phase"] in HELD and not (ended or by_successor or by_holder or expired):
        yield wrong(f"while {old.get('holderIdentity')} held it")
    if spec != before.spec:
        yield wrong("the decision changed what was said")


def _believed(history: History) -> Iterator[Violation]:
    """Whoever believes that it holds has been granted just that."""
    granted = {
        (name, version.status["epoch"], version.status.get("claimID"))
        for name, versions in history.leases()
        for version in versions
        if version.state
    }
    told = set()
    for belief in history.beliefs:
        key = belief.lease, belief.epoch, belief.claim
        if key not in granted and key not in told:
            told.add(key)
            text = f"{belief.party} believes in epoch {belief.epoch}, which was never granted to its claim"
            yield Violation(Promise.ONE_EPOCH, belief.lease, 0, text)
