"""The wall clock of a holder's machine may jump: nothing is decided by it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from support.cluster import Cluster, Identity
from support.holding import LEASE_SECONDS, client_of, until
from support.speaking import Work
from worklease import Standing
from worklease.kube import clock
from worklease.protocol.moments import parse_rfc3339

pytestmark = pytest.mark.usefixtures("operator")
JUMPS_SECONDS = (86400.0, -2 * 86400.0, 0.0)


def test_a_wall_clock_that_is_set_back_and_forth_moves_no_deadline(
    cluster: Cluster, namespace: str, agent: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each renewal is stored under the server's own time, later than the last, and the lease stays certain (case 7)."""
    jump = 0.0
    skewed = SimpleNamespace(time=lambda: time.time() + jump, monotonic=time.monotonic)
    monkeypatch.setattr(clock, "time", skewed)  # the only place where this machine's wall clock is read
    work = Work(cluster, namespace, "w")
    times: list[datetime] = []

    async def main() -> None:
        nonlocal jump
        async with (
            client_of(agent) as client,
            client.hold(
                "w", purpose="p", namespace=namespace, lease_seconds=LEASE_SECONDS, jeopardy_seconds=0
            ) as lease,
        ):
            for jump in JUMPS_SECONDS:  # noqa: B007 - the clock above reads it
                deadline = lease.deadline
                assert deadline <= lease.now() + LEASE_SECONDS
                await until(lambda before=deadline: lease.deadline > before, "a renewal")  # type: ignore[misc]
                stored = parse_rfc3339((await asyncio.to_thread(work.read))["spec"]["renewal"]["renewTime"])
                assert stored
                assert abs((stored - datetime.now(UTC)).total_seconds()) < 60.0
                times.append(stored)
                assert lease.standing is Standing.HELD
            async with lease.effect("mail", "send") as effect:
                assert effect.logged.time

    asyncio.run(main())
    assert times == sorted(set(times))
    assert len(work.reaches("Released")["history"]) == 1
