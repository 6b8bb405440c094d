"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

import time
from collections.abc import Callable
from typing import TypeVar

WITHIN_SECONDS = 30.0
POLL_SECONDS = 0.02

T = TypeVar("T")


def wait_for(
    condition: Callable[[], T | None],
    what: str,
    within_seconds: float = WITHIN_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> T:
    """Returns the condition's first true answer; fails, naming `what` and the last answer, when there is none."""
    deadline_monotonic = time.monotonic() + within_seconds
    while not (answer := condition()):
        if time.monotonic() > deadline_monotonic:
            raise AssertionError(f"waited {within_seconds:g} s for {what}; the last answer was {answer!r}")
        time.sleep(poll_seconds)
    return answer


def pass_time(seconds: float) -> None:
    """Lets time pass in which something must not happen, or must be too late: the time itself is the input."""
    time.sleep(seconds)
