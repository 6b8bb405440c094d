"""The API server's time: learnt from Date headers cut to the second, carried on by a clock that only goes forward."""

from __future__ import annotations

from email.utils import format_datetime

import pytest

from support.leases import WALL_START, at
from worklease.kube import clock as module
from worklease.kube.clock import RESOLUTION_SECONDS, ServerClock


class Machine:
    """This machine's clocks: wall time, wrong by so much, and monotonic time since an unknown start."""

    def __init__(self, wrong_by_seconds: float = 0.0) -> None:
        self.elapsed = 0.0
        self.wrong_by_seconds = wrong_by_seconds

    def time(self) -> float:
        return WALL_START.timestamp() + self.elapsed + self.wrong_by_seconds

    def monotonic(self) -> float:
        return 777.0 + self.elapsed


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Clocks that a test moves by hand."""
    fake = Machine()
    monkeypatch.setattr(module, "time", fake)
    return fake


def date(seconds: float) -> str:
    """The Date header of an answer that was sent then."""
    return format_datetime(at(seconds).wall, usegmt=True)


def error_seconds(clock: ServerClock, machine: Machine) -> float:
    """How far the clock is from the server's true time, which passes with the machine's."""
    return (clock.now() - at(machine.elapsed).wall).total_seconds()


def test_before_any_answer_this_machines_clock_is_believed(machine: Machine) -> None:
    """There is nothing better yet."""
    clock = ServerClock()
    machine.elapsed = 30.0
    assert error_seconds(clock, machine) == pytest.approx(0)


@pytest.mark.parametrize("wrong_by", [-86400.0, -2.0, 2.0, 86400.0])
def test_the_server_is_believed_where_this_machines_clock_is_wrong(machine: Machine, wrong_by: float) -> None:
    """To within the header's resolution, and carried on by the monotonic clock without another answer."""
    machine.wrong_by_seconds = wrong_by
    clock = ServerClock()
    machine.elapsed = 0.7
    clock.hear(date(0.7), machine.monotonic())
    assert abs(error_seconds(clock, machine)) <= RESOLUTION_SECONDS
    machine.elapsed = 5000.7
    assert abs(error_seconds(clock, machine)) <= RESOLUTION_SECONDS


def test_within_the_second_of_the_header_this_machines_clock_is_believed(machine: Machine) -> None:
    """A right clock is not made worse by a header that is cut to the second."""
    clock = ServerClock()
    for elapsed in (0.0, 0.4, 0.999, 12.5):
        machine.elapsed = elapsed
        clock.hear(date(elapsed), machine.monotonic())
        assert error_seconds(clock, machine) == pytest.approx(0, abs=1e-6)


def test_a_step_of_this_machines_clock_does_not_move_it(machine: Machine) -> None:
    """Somebody who sets the wall clock moves no server's time: the monotonic clock carries it."""
    clock = ServerClock()
    clock.hear(date(0.0), machine.monotonic())
    machine.wrong_by_seconds = 3600.0
    machine.elapsed = 10.0
    assert error_seconds(clock, machine) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("wrong_by", [-86400.0, -5.0, 0.0, 5.0, 86400.0])
def test_an_answer_that_arrives_late_does_not_set_it_back(machine: Machine, wrong_by: float) -> None:
    """The date was written at some time between the request and the answer's arrival, not at its arrival."""
    machine.wrong_by_seconds = wrong_by
    clock = ServerClock()
    clock.hear(date(0.0), machine.monotonic())
    sent_at = machine.monotonic()
    machine.elapsed = 25.0
    clock.hear(date(0.0), sent_at)
    assert abs(error_seconds(clock, machine)) <= RESOLUTION_SECONDS


def test_an_answer_that_arrives_late_is_all_there_is_at_first(machine: Machine) -> None:
    """A right clock of this machine is not made wrong by it."""
    clock = ServerClock()
    sent_at = machine.monotonic()
    machine.elapsed = 25.0
    clock.hear(date(0.0), sent_at)
    assert error_seconds(clock, machine) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("step", [-3600.0, -3.0, 3.0, 3600.0])
def test_a_servers_clock_that_is_set_is_followed(machine: Machine, step: float) -> None:
    """Answers that contradict what was known are believed."""
    machine.wrong_by_seconds = 1e6
    clock = ServerClock()
    clock.hear(date(0.5), machine.monotonic())
    machine.elapsed = 1.0
    clock.hear(date(1.0 + step), machine.monotonic())
    assert abs(error_seconds(clock, machine) - step) <= RESOLUTION_SECONDS


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "yesterday",
        "Mon, 99 Foo 2026 00:00:00 GMT",
        "Mon, 30 Nov 2026",
        "Mon, 30 Nov 2026 12:00:00 +99999999999",
        "Mon, 30 Nov 99999999999 12:00:00 GMT",
        "\x00",
    ],
)
def test_a_header_that_is_no_date_changes_nothing(machine: Machine, header: str | None) -> None:
    """A proxy may answer with anything."""
    clock = ServerClock()
    before = clock.now()
    clock.hear(header, machine.monotonic())
    assert clock.now() == before
