"""What watches showed: only revisions that the store has, and each watch in their order."""

from __future__ import annotations

from collections.abc import Iterator

from .model import History, Promise, Violation


def check(history: History) -> Iterator[Violation]:
    stored = {
        (plural, name, version.revision)
        for (plural, name), versions in history.versions.items()
        for version in versions
    }
    last: dict[str, int] = {}
    for record in history.of_kind("seen"):
        name, revision = record["object"], record["revision"]
        if (record["plural"], name, revision) not in stored:
            text = f"{record['party']} saw a revision that the store does not have"
            yield Violation(Promise.JUSTIFIED, name, revision, text)
        if revision < last.get(record["watch"], 0):
            text = f"{record['party']} saw it after revision {last[record['watch']]}, in one watch"
            yield Violation(Promise.JUSTIFIED, name, revision, text)
        last[record["watch"]] = revision
