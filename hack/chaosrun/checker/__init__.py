"""Checks a history: pure functions from its records to what contradicts a promise, and to what it covers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from chaosrun.history import Record

from . import answers, decisions, effects, grants, handoffs, settled, standing, statements, watches
from .model import History, Violation

CHECKS: tuple[Callable[[History], Iterable[Violation]], ...] = (
    grants.check,
    decisions.check,
    statements.check,
    effects.check,
    handoffs.check,
    standing.check,
    answers.check,
    watches.check,
    settled.check,
)


def check(records: Iterable[Record]) -> list[Violation]:
    """Everything in the history that contradicts a promise."""
    history = History.of(records)
    return [violation for one in CHECKS for violation in one(history)]
