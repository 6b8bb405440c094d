"""Whether the store has just answered: a pause of the operator neither makes it look down nor makes it look fresh."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from worklease.controller.pulse import DOWN_AFTER_SECONDS, Pulse


def pulse(answered_seconds_ago: float | None) -> Pulse:
    """The pulse of a session that was answered then."""
    answered_at = None if answered_seconds_ago is None else time.monotonic() - answered_seconds_ago
    return Pulse(cast(Any, SimpleNamespace(answered_at=answered_at)), "/path")


@pytest.mark.parametrize(
    ("answered_seconds_ago", "fresh", "beats"),
    [(None, False, False), (0.0, True, True), (1.0, False, True), (DOWN_AFTER_SECONDS + 1, False, False)],
)
def test_the_store_is_judged_by_its_last_answer(answered_seconds_ago: float | None, fresh: bool, beats: bool) -> None:
    """Fresh right after an answer, down some seconds later; before the first one neither."""
    judged = pulse(answered_seconds_ago)
    assert (judged.fresh(), judged.beats()) == (fresh, beats)


def test_after_a_pause_the_store_is_not_down_and_not_fresh() -> None:
    """Nobody listened: what is due is written only after the store has answered again."""
    judged = pulse(60.0)
    judged.excuse()
    assert judged.silent_since() is None
    assert not judged.fresh()
