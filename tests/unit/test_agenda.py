"""When an object is settled: by one worker at a time, at its due time, after its head start, again after a failure."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from worklease.controller.agenda import Agenda
from worklease.controller.clock import WatchClock
from worklease.kube.clock import ServerClock

WITHIN_SECONDS = 30.0
HEAD_START_SECONDS = 0.05
WORKERS = 3


class Settled:
    """Remembers what was settled, and lets a test hold a worker up."""

    def __init__(self) -> None:
        self.uids: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.happened = asyncio.Condition()

    async def __call__(self, uid: str) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.may_go_on.wait()
        self.at_once -= 1
        async with self.happened:
            self.uids.append(uid)
            self.happened.notify_all()

    async def times(self, count: int) -> None:
        async with asyncio.timeout(WITHIN_SECONDS), self.happened:
            await self.happened.wait_for(lambda: len(self.uids) >= count)


@contextlib.asynccontextmanager
async def running(agenda: Agenda) -> AsyncIterator[None]:
    """The agenda with its workers."""
    async with asyncio.TaskGroup() as group:
        jobs = [group.create_task(agenda.work()) for _ in range(WORKERS)]
        jobs.append(group.create_task(agenda.keep_deadlines()))
        yield
        for job in jobs:
            job.cancel()


def played(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


def test_what_happens_to_an_object_while_it_is_settled_has_it_settled_once_more() -> None:
    """One worker at a time, and no news lost; ten times the same news are one."""

    async def story() -> None:
        settled = Settled()
        agenda = Agenda(WatchClock(ServerClock()), settled)
        settled.may_go_on.clear()
        async with running(agenda):
            agenda.now("a")
            await asyncio.sleep(0)
            for _ in range(10):
                await asyncio.sleep(0)
                agenda.now("a")
            settled.may_go_on.set()
            await settled.times(2)
        assert settled.uids == ["a", "a"]
        assert settled.most_at_once == 1

    played(story)


def test_news_do_not_put_off_an_object_that_waits_for_its_head_start() -> None:
    """A replica that is not first settles an object that never rests all the same, when the first one is dead."""

    async def story() -> None:
        settled = Settled()
        agenda = Agenda(WatchClock(ServerClock()), settled, lambda uid: HEAD_START_SECONDS)
        async with running(agenda):
            hammering = asyncio.create_task(_hammer(agenda))
            await settled.times(1)
            hammering.cancel()

    played(story)


async def _hammer(agenda: Agenda) -> None:
    while True:
        agenda.now("a")
        await asyncio.sleep(0)


def test_an_older_look_at_an_object_does_not_put_off_news_of_it() -> None:
    """What was heard during the head start is settled after it, though a worker found nothing to do before."""

    async def story() -> None:
        settled = Settled()
        agenda = Agenda(WatchClock(ServerClock()), settled, lambda uid: HEAD_START_SECONDS)
        async with running(agenda):
            agenda.now("a")
            agenda.settled("a", agenda._clock.seconds() + 3600.0)
            await settled.times(1)

    played(story)


def test_what_is_hopeless_is_not_tried_again_for_every_news(caplog: pytest.LogCaptureFixture) -> None:
    """A status that the server refuses is not sent again at each renewal."""

    async def story() -> None:
        settled = Settled()
        agenda = Agenda(WatchClock(ServerClock()), settled)
        async with running(agenda):
            agenda.failed("a", hopeless=True)
            agenda.now("a")
            agenda.now("b")
            await settled.times(1)
        assert settled.uids == ["b"]
        agenda.forget("a")

    played(story)


def test_what_was_hopeless_and_went_well_all_the_same_is_settled_at_once_again() -> None:
    """Another decision on the same object was stored: nothing is held against it any more."""

    async def story() -> None:
        settled = Settled()
        agenda = Agenda(WatchClock(ServerClock()), settled)
        async with running(agenda):
            agenda.failed("a", hopeless=True)
            agenda.succeeded("a")
            agenda.now("a")
            await settled.times(1)
        assert settled.uids == ["a"]

    played(story)


def test_a_defect_in_settling_one_object_stops_no_other() -> None:
    """The worker goes on, and what went wrong can be told while it is handled."""
    told: list[tuple[str, str]] = []

    async def story() -> None:
        settled = Settled()

        async def settle(uid: str) -> None:
            if uid == "bad":
                raise RuntimeError("a defect")
            await settled(uid)

        agenda = Agenda(
            WatchClock(ServerClock()), settle, on_defect=lambda uid: told.append((uid, str(sys.exc_info()[1])))
        )
        async with running(agenda):
            for uid in ("bad", *"abcdef"):
                agenda.now(uid)
            await settled.times(6)
        agenda.forget("bad")

    played(story)
    assert told == [("bad", "a defect")]
