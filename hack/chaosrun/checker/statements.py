"""What was said and stored: every write is one that the table of statements admits, said by whoever may say it."""

from __future__ import annotations

from collections.abc import Iterator

from .model import Call, History, Promise, Version, Violation
from .rules import PatchError, patched, refused, speaks_for_holder

PROMISES = {
    "effects": Promise.NO_EFFECT,
    "effect": Promise.RECORDED,
    "completion": Promise.RECONCILED,
}
"""By the part before the dot of a check's name; any other statement that is admitted wrongly is about a past epoch."""


def check(history: History) -> Iterator[Violation]:
    made_by = {call.version: call for call in history.calls if call.outcome == "ok" and call.method == "PATCH"}
    for name, before, after in history.changes():
        if before is None or before.state is None:
            continue
        if before.spec == after.spec:
            continue
        for failed in sorted(refused(before.state, after.spec)):
            promise = Promise.RECORDED if failed == "effects.dropped" else _promise(failed)
            text = f"a write was admitted against {failed}, at epoch {before.status['epoch']}, {before.status['phase']}"
            yield Violation(promise, name, after.revision, text)
        if call := made_by.get(after.revision):
            yield from _spoken(name, before, after, call)


def _promise(failed: str) -> Promise:
    return PROMISES.get(failed.partition(".")[0], Promise.PAST_EPOCH)


def _spoken(name: str, before: Version, after: Version, call: Call) -> Iterator[Violation]:
    """A write that was answered ok is in the store as it was said, and was said by the holder where it must be."""
    target = call.target
    assert before.state is not None
    if target is None or target[1] != name or target[2]:
        return
    try:
        expected = patched({"spec": before.spec}, call.body)["spec"]
    except PatchError:
        yield Violation(
            Promise.JUSTIFIED, name, after.revision, f"{call.party}'s patch was answered ok, and does not apply"
        )
        return
    if expected != after.spec:
        yield Violation(Promise.JUSTIFIED, name, after.revision, f"{call.party} was answered ok for something else")
    speaker, holder = call.party.partition("#")[0], before.status.get("holderIdentity")
    if speaks_for_holder(before.state, after.spec) and holder not in (None, speaker):
        text = f"{speaker} spoke for the holder {holder}"
        yield Violation(Promise.NO_EFFECT, name, after.revision, text)
