"""What was said and stored: every write is one that the table of statements admits, said by whoever may say it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .model import Call, History, Promise, Version, Violation
from .patches import makes
from .rules import refused, speaks_for_holder

PROMISES = {
    "effects": Promise.NO_EFFECT,
    "effect": Promise.RECORDED,
    "completion": Promise.RECONCILED,
}
"""By the part before the dot of a check's name; any other statement that is admitted wrongly is about a past epoch."""


def check(history: History) -> Iterator[Violation]:
    said: dict[int, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.outcome == "ok" and call.method == "PATCH" and call.target is not None and not call.target[2]:
            said[call.version].append(call)
    for name, before, after in history.changes():
        for call in said[after.revision]:
            yield from _spoken(name, before, after, call)
        if before is None or before.state is None or before.spec == after.spec:
            continue
        for failed in sorted(refused(before.state, after.spec)):
            promise = Promise.RECORDED if failed == "effects.dropped" else _promise(failed)
            text = f"a write was admitted against {failed}, at epoch {before.status['epoch']}, {before.status['phase']}"
            yield Violation(promise, name, after.revision, text)


def _promise(failed: str) -> Promise:
    return PROMISES.get(failed.partition(".")[0], Promise.PAST_EPOCH)


def _spoken(name: str, before: Version | None, after: Version, call: Call) -> Iterator[Violation]:
    """A write that was answered ok is in the store as it was said, and was said by the holder where it must be."""
    if before is None or before.state is None or not makes(before.spec, call.body, after.spec):
        # What changes nothing is answered with the revision that is there.
        if not makes(after.spec, call.body, after.spec):
            text = f"{call.party} was answered ok for something else than what is stored"
            yield Violation(Promise.JUSTIFIED, name, after.revision, text)
        return
    speaker, holder = call.party.partition("#")[0], before.status.get("holderIdentity")
    if speaks_for_holder(before.state, after.spec) and holder not in (None, speaker):
        text = f"{speaker} spoke for the holder {holder}"
        yield Violation(Promise.NO_EFFECT, name, after.revision, text)
