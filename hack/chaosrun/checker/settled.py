"""The end of a run: with every fault healed, each item could be taken from whoever had it, held, and given back."""

from __future__ import annotations

from collections.abc import Iterator

from .model import History, Promise, Violation


def check(history: History) -> Iterator[Violation]:
    for record in history.of_kind("settled"):
        for name, why in record["unsettled"].items():
            yield Violation(Promise.ACTING, name, 0, f"it could not be settled after the faults: {why}")
