"""A writer that never rests on one object cannot keep the operator from deciding about it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster, Identity
from support.operators import Launcher, OperatorProcess
from support.speaking import Agent, Work
from support.stored import DECIDED_WITHIN_SECONDS
from support.waiting import wait_for
from support.words import effect, fresh

CONNECTIONS = 4
LOST_MAX = 4
"""How many swaps a decision may lose. One is lost to any other write; then only what the decision has read counts."""
LEASE_SECONDS = 20


@pytest.fixture
def operator(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator for the test's namespace, in a process that does not share its time with the writers."""
    launcher = Launcher(cluster, tmp_path)
    yield launcher.start(namespace).ready()
    launcher.stop()


def hold_with_effect(work: Work, agent: Agent) -> int:
    """Holds the work, with an effect whose detail may be rewritten for ever."""
    epoch = work.hold(agent)
    work.say(agent, **{"effects/-": effect(epoch, fresh(), detail="")}).must()
    return epoch


@contextmanager
def hammered(work: Work, identity: Identity) -> Iterator[Callable[[], int]]:
    """Rewrites the detail of the effect as fast as the API server takes it, from several connections."""
    ended = threading.Event()
    counter = itertools.count()
    written: list[int] = []

    def write() -> None:
        while not ended.is_set():
            number = next(counter)
            patch = [{"op": "replace", "path": "/spec/effects/0/detail", "value": f"note {number}"}]
            if identity.api.patch(work.path, patch).ok:
                written.append(number)

    threads = [threading.Thread(target=write, daemon=True) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: len(written) > CONNECTIONS, "the writer to be at it")
        yield lambda: len(written)
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def decided(work: Work, decision: Callable[[dict[str, object]], bool], writes: Callable[[], int], what: str) -> None:
    """Waits for a decision while the object is hammered."""
    before, started_monotonic = writes(), time.monotonic()
    wait_for(lambda: decision(work.status), what, DECIDED_WITHIN_SECONDS)
    print(f"{what}: after {time.monotonic() - started_monotonic:.2f} s and {writes() - before} other writes")


def test_a_revocation_and_a_takeover_come_through(
    cluster: Cluster, namespace: str, agent: Agent, operator: OperatorProcess
) -> None:
    """The holder writes all that it may, without a pause: it is revoked, and it is replaced, all the same."""
    revoked, taken_over = (Work.create(cluster, namespace, lease_seconds=600) for _ in range(2))
    for work in (revoked, taken_over):
        epoch = hold_with_effect(work, agent)
        with hammered(work, agent.identity) as writes:
            if work is revoked:
                work.revoke(epoch).must()
                decided(work, lambda status: status["phase"] == "Revoked", writes, "a revocation")
            else:
                claim_id = work.take_over(agent.sibling(), epoch)
                decided(work, partial(is_granted, claim_id), writes, "a takeover")
    assert operator.metric("worklease_swaps_total", result="lost") <= 2 * LOST_MAX


def is_granted(claim_id: str, status: dict[str, Any]) -> bool:
    return status.get("claimID") == claim_id


def test_an_expiry_comes_through(cluster: Cluster, namespace: str, agent: Agent, operator: OperatorProcess) -> None:
    """A holder that writes everything but renewals lapses and expires (case 20)."""
    work = Work.create(cluster, namespace, lease_seconds=LEASE_SECONDS, jeopardy_seconds=1)
    hold_with_effect(work, agent)
    with hammered(work, agent.identity) as writes:
        decided(work, lambda status: status["phase"] == "Expired", writes, "an expiry, with what was left of the lease")
    assert operator.metric("worklease_swaps_total", result="lost") <= 2 * LOST_MAX
    print(f"late by {operator.metric('worklease_expiry_lateness_seconds_sum'):.3f} s in all")


def test_a_grant_comes_through(
    cluster: Cluster, namespace: str, agent: Agent, operator: OperatorProcess, service_account: Callable[..., Identity]
) -> None:
    """Free work whose leftovers somebody keeps rewriting is granted to whoever claims it."""
    keeper = service_account(namespace, "keeper", "worklease-gitops")
    work = Work.create(cluster, namespace, lease_seconds=600)
    epoch = hold_with_effect(work, agent)
    work.release(agent, epoch).must()
    work.reaches("Released")
    with hammered(work, keeper) as writes:
        claim = agent.claim(epoch)
        wait_for(lambda: work.say(agent, claim=claim).ok, "the claim to be in")
        decided(work, lambda status: status.get("claimID") == claim["id"], writes, "a grant")
    assert operator.metric("worklease_swaps_total", result="lost") <= LOST_MAX
