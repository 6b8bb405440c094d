"""Runs transactions step by step in a given order, against a real server, without guessing when one has to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import psycopg

from support.waiting import wait_for

SETTLED_WITHIN_SECONDS = 30.0
GLANCE_SECONDS = 0.001

Step = Callable[[psycopg.Connection], object]


def schedules(*lengths: int) -> Iterator[tuple[int, ...]]:
    """Every order in which actors with so many steps each can take turns, as a sequence of the actors' numbers."""
    if not any(lengths):
        yield ()
    for number, length in enumerate(lengths):
        if length:
            left = [*lengths[:number], length - 1, *lengths[number + 1 :]]
            yield from ((number, *rest) for rest in schedules(*left))


@dataclass
class Actor:
    """One transaction: a connection, the steps still to take, and how it went."""

    name: str
    connection: psycopg.Connection
    steps: list[Step]
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    running: Future[object] | None = None
    failure: psycopg.Error | None = None

    @property
    def finished(self) -> bool:
        """Nothing is left to do, or it failed."""
        return self.failure is not None or (self.running is None and not self.steps)

    def settle(self) -> None:
        """Takes note of the end of the running step. A failure rolls the transaction back."""
        if self.running is None or not self.running.done():
            return
        error = self.running.exception()
        self.running = None
        if isinstance(error, psycopg.Error):
            self.failure = error
            self.connection.rollback()
        elif error is not None:
            raise error


class Stage:
    """Lets actors take turns. An actor whose step waits for a lock is passed over until it goes on."""

    def __init__(self, actors: Sequence[Actor], observer: psycopg.Connection) -> None:
        self.actors = actors
        self.observer = observer
        self.finished_in_order: list[Actor] = []

    def play(self, schedule: Sequence[int]) -> list[Actor]:
        """Plays the schedule, then whatever had to wait. Gives the actors in the order in which they finished."""
        for number in schedule:
            self.turn(self.actors[number])
        wait_for(self._everybody_finished, "all transactions to end", SETTLED_WITHIN_SECONDS)
        for actor in self.actors:
            actor.thread.shutdown()
        return self.finished_in_order

    def _everybody_finished(self) -> bool:
        for actor in self.actors:
            self.turn(actor)
        return all(actor.finished for actor in self.actors)

    def turn(self, actor: Actor) -> None:
        """Starts the actor's next step, unless it is still in one, and returns when that is done or has to wait."""
        self._settle_all()
        if actor.running is None and actor.steps and actor.failure is None:
            step = actor.steps.pop(0)
            actor.running = actor.thread.submit(step, actor.connection)
            wait_for(lambda: self._done_or_waiting(actor), f"{actor.name} to go on or wait for a lock")
        self._settle_all()

    def _done_or_waiting(self, actor: Actor) -> bool:
        if actor.running is None or actor.running in wait([actor.running], GLANCE_SECONDS).done:
            return True
        row = self.observer.execute(
            "SELECT cardinality(pg_blocking_pids(%s)) > 0", (actor.connection.info.backend_pid,)
        ).fetchone()
        return bool(row and row[0])

    def _settle_all(self) -> None:
        for actor in self.actors:
            if actor not in self.finished_in_order:
                actor.settle()
                if actor.finished:
                    self.finished_in_order.append(actor)
