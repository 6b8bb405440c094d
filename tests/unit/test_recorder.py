"""Recording Events never delays a decision and never grows: a budget for each object, a bound for all of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, Counter

from worklease.controller.recorder import (
    NOTE_BYTES_MAX,
    PER_OBJECT_BURST,
    PER_OBJECT_REFILL_SECONDS,
    QUEUE_MAX,
    SERIES_MAX,
    Recorder,
    event_name,
    note_of,
)
from worklease.kube.session import Session
from worklease.protocol.decide import Notice
from worklease.protocol.reasons import EventReason

NOTICE = (Notice(EventReason.GRANTED, "granted"),)


class Clock:
    """The time of the event loop, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Recording:
    """A recorder whose queue nobody writes out: what it takes and what it drops is all there is to see."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        unused = cast(Session, None)
        self.recorder = Recorder(unused, Counter("dropped", "Dropped.", registry=self.registry))

    def record(self, uid: str, times: int = 1) -> None:
        for _ in range(times):
            self.recorder.record("WorkLease", "team", "item", uid, NOTICE)

    @property
    def queued(self) -> int:
        return self.recorder._queue.qsize()

    @property
    def dropped(self) -> float:
        return self.registry.get_sample_value("dropped_total") or 0.0


def in_a_loop(test: Callable[[Recording, Clock], Awaitable[None]]) -> None:
    """Runs the test in an event loop whose time stands still."""

    async def run() -> None:
        clock = Clock()
        loop: Any = asyncio.get_running_loop()
        real, loop.time = loop.time, clock
        try:
            await test(Recording(), clock)
        finally:
            loop.time = real

    asyncio.run(run())


def test_one_object_cannot_say_more_than_its_budget() -> None:
    """What exceeds it is counted and dropped; another object's words are not affected."""

    async def test(recording: Recording, clock: Clock) -> None:
        recording.record("loud", PER_OBJECT_BURST + 40)
        assert (recording.queued, recording.dropped) == (PER_OBJECT_BURST, 40)
        recording.record("quiet")
        assert (recording.queued, recording.dropped) == (PER_OBJECT_BURST + 1, 40)

    in_a_loop(test)


def test_a_budget_is_filled_up_again_and_never_beyond_its_size() -> None:
    """One more word every so often; a long silence is worth one burst."""

    async def test(recording: Recording, clock: Clock) -> None:
        recording.record("loud", PER_OBJECT_BURST)
        clock.seconds += PER_OBJECT_REFILL_SECONDS * 3
        recording.record("loud", 5)
        assert (recording.queued, recording.dropped) == (PER_OBJECT_BURST + 3, 2)
        clock.seconds += PER_OBJECT_REFILL_SECONDS * 10_000
        recording.record("loud", PER_OBJECT_BURST + 1)
        assert (recording.queued, recording.dropped) == (2 * PER_OBJECT_BURST + 3, 3)

    in_a_loop(test)


def test_the_queue_is_bounded_and_recording_never_waits() -> None:
    """When Events cannot be written, decisions go on, and what does not fit is counted."""

    async def test(recording: Recording, clock: Clock) -> None:
        for number in range(QUEUE_MAX + 7):
            recording.record(f"uid-{number}")
        assert (recording.queued, recording.dropped) == (QUEUE_MAX, 7)

    in_a_loop(test)


def test_budgets_of_objects_that_fell_silent_are_forgotten() -> None:
    """Memory does not follow the number of objects that ever were."""

    async def test(recording: Recording, clock: Clock) -> None:
        for number in range(SERIES_MAX + 100):
            recording.record(f"uid-{number}")
        assert len(recording.recorder._budgets) == SERIES_MAX

    in_a_loop(test)


def test_what_was_not_written_when_the_operator_ends_is_counted() -> None:
    """The last flush waits only so long."""

    async def test() -> None:
        recording = Recording()
        recording.record("a", 3)
        await recording.recorder.flush(0.0)
        assert recording.dropped == 3

    asyncio.run(test())


@pytest.mark.parametrize("character", ["w", "é", "\N{PERFORMING ARTS}"])
@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 1024, 5000])
def test_a_note_is_cut_to_the_bytes_that_the_api_server_takes(character: str, length: int) -> None:
    """The reason of a revocation may be that many characters of four bytes each; none is cut in two."""
    note = note_of("x" + character * length)
    assert len(note.encode()) <= NOTE_BYTES_MAX
    assert ("x" + character * length).startswith(note)
    assert len(note.encode()) > NOTE_BYTES_MAX - 4 or len(note) == length + 1


@pytest.mark.parametrize("name", ["item", "a" * 253, "a" * 199 + "-" + "b" * 20, "a" * 198 + ".-" + "b" * 20])
def test_an_event_has_a_name_that_is_one(name: str) -> None:
    """A name that is cut does not end with a character that a name cannot have there; no two Events share one."""
    one, other = event_name(name), event_name(name)
    assert one != other
    assert len(one) <= 253
    assert re.fullmatch(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?[.])*[a-z0-9]([-a-z0-9]*[a-z0-9])?", one)
