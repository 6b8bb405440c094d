"""Every kind of fault, and a schedule in which each occurs: made from a seed alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Network(StrEnum):
    """What a party's way to the API server may suffer from."""

    CUT = "cut"
    """Connections break, and new ones break too."""
    HANG = "hang"
    """Requests are accepted and never answered."""
    DROP = "drop"
    """Writes happen, and their answers are lost."""
    DELAY = "delay"
    """Answers come late."""
    TOO_MANY = "429"
    """Everything is answered 429 with Retry-After."""
    BROKEN = "500"
    """Everything is answered 500."""
    SLOW_WATCH = "slow-watch"
    """Each line of a watch comes late."""


class Process(StrEnum):
    """What may happen to a process."""

    PAUSE = "pause"
    """SIGSTOP, later SIGCONT."""
    KILL = "kill"
    """SIGKILL, later started again."""


class Clock(StrEnum):
    """What may happen to an agent's clocks."""

    WALL_FORWARD = "wall-forward"
    """Its wall clock is an hour ahead."""
    WALL_BACK = "wall-back"
    """Its wall clock is an hour behind."""
    FAST = "drift-fast"
    """Its monotonic clock runs 0.04 % fast: within the bounds."""
    SLOW = "drift-slow"
    """Its monotonic clock runs 0.04 % slow: within the bounds."""
    TOO_SLOW = "drift-beyond"
    """Its monotonic clock runs at 0.6 of the true rate: beyond the bounds, so that it believes too long."""


RATES = {Clock.FAST: 1.0004, Clock.SLOW: 0.9996, Clock.TOO_SLOW: 0.6}
OFFSETS_SECONDS = {Clock.WALL_FORWARD: 3600.0, Clock.WALL_BACK: -3600.0}

Fault = Network | Process | Clock
AGENT, OPERATOR, API_SERVER, ETCD = "agent", "operator", "kube-apiserver", "etcd"
KINDS: tuple[tuple[str, Fault], ...] = (
    *((AGENT, fault) for fault in (*Network, *Process, *Clock)),
    *((OPERATOR, fault) for fault in (*Network, *Process)),
    *((server, fault) for server in (API_SERVER, ETCD) for fault in Process),
)
"""Every fault with what it befalls."""
LONG_SECONDS = (2.0, 14.0)
"""For a party: longer than a lease of 10 s, or not."""
SHORT_SECONDS = (1.0, 4.0)
"""For a server, without which nobody gets anywhere."""


@dataclass(frozen=True)
class Planned:
    """One fault: when it begins after the start, for how long, what it is and whom it befalls (by number)."""

    after_seconds: float
    lasts_seconds: float
    target: str
    number: int
    fault: Fault

    @property
    def kind(self) -> str:
        """Its name in the history: `agent cut`."""
        return f"{self.target} {self.fault}"


def schedule(
    seed: int, seconds: float, counts: dict[str, int], kinds: Sequence[tuple[str, Fault]] = KINDS
) -> list[Planned]:
    """Faults for so long, every kind before any is repeated; `counts` is how many agents and operators there are.

    A schedule that is too short for all kinds is made denser rather than leaving one out.
    """
    chance = random.Random(seed)
    pause = min(2.5, seconds / len(kinds))
    planned: list[Planned] = []
    now = 0.0
    for target, fault in _rounds(chance, kinds):
        now += pause * chance.uniform(0.5, 1.45)
        if now > seconds and len(planned) >= len(kinds):
            return planned
        lasts = chance.uniform(*(LONG_SECONDS if target in counts else SHORT_SECONDS))
        planned.append(Planned(round(now, 2), round(lasts, 2), target, chance.randrange(counts.get(target, 1)), fault))
    raise AssertionError("the rounds do not end")


def _rounds(chance: random.Random, kinds: Sequence[tuple[str, Fault]]) -> Iterator[tuple[str, Fault]]:
    while True:
        order = list(kinds)
        chance.shuffle(order)
        yield from order
