"""A killed operator leaves nothing half decided: whoever starts next goes on from the objects."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.cluster import Cluster, Identity
from support.crashing import Crashing, Nursery
from support.speaking import SHORTEST_LEASE_SECONDS, Agent, Work
from support.stored import DECIDED_WITHIN_SECONDS
from support.waiting import wait_for

REQUESTS_MIN = 12
REQUESTS_MAX = 21
"""The story takes at least so many requests (its swaps and the Events before the last of them), and fewer than that:
how many reads there are before a lapse is chance."""
LEASE_SECONDS = 300
STORY = [
    ("FirstGrant", "Revoked"),
    ("AfterRevocation", "Reclaimed"),
    ("Reclaim", "Expired"),
    ("AfterExpiry", "Completed"),
]
"""Why each tenure of the story begins and ends."""


@pytest.fixture
def make_namespace(cluster: Cluster) -> Iterator[Callable[[], str]]:
    """Makes namespaces, which are deleted afterwards."""
    with contextlib.ExitStack() as made:
        yield lambda: made.enter_context(cluster.namespace("test"))


class Story:
    """A claim, a takeover, a claim by the holder, its expiry, a claim, the completion: whatever the operator does."""

    def __init__(self, work: Work, agent: Agent, operator: Crashing, start: Callable[[], Crashing]) -> None:
        self._work = work
        self._agent = agent
        self._start = start
        self._crashing = operator
        self._operator = operator

    @property
    def crashed(self) -> bool:
        """Whether the first operator was killed."""
        return self._operator is not self._crashing

    @property
    def logs(self) -> str:
        """What the operators have written."""
        return self._crashing.log + (self._operator.log if self.crashed else "")

    def tell(self) -> dict[str, Any]:
        """Says one thing after the other, waiting for each decision; returns the object at the end."""
        work, first, second = self._work, self._agent, self._agent.sibling()
        self._granted(work.claim(first))
        epoch = self._granted(work.take_over(second, work.epoch))
        self._terms(SHORTEST_LEASE_SECONDS)
        self._granted(work.claim(second))
        self._terms(LEASE_SECONDS)
        self._until(lambda status: status["phase"] == "Expired")
        epoch = self._granted(work.claim(first))
        work.complete(first, epoch).must()
        self._until(lambda status: status["phase"] == "Completed")
        whole = work.read()
        self._operator.kill()
        return whole

    def _terms(self, lease_seconds: int) -> None:
        """Those of the next grant: only the tenure that is to expire is short, however slow the machine is."""
        self._work.say(self._work.cluster.admin, leaseDurationSeconds=lease_seconds).must()

    def _granted(self, claim_id: str) -> int:
        return int(self._until(lambda status: status.get("claimID") == claim_id)["epoch"])

    def _until(self, decided: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        def there() -> dict[str, Any] | None:
            if not self._operator.is_alive():
                assert not self.crashed, f"it ended by itself:\n{self._operator.log}"
                self._operator = self._start()
            status = self._work.status
            return status if decided(status) else None

        return wait_for(there, f"a decision about {self._work.name}", DECIDED_WITHIN_SECONDS)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_request_loses_and_repeats_nothing(
    when: str,
    cluster: Cluster,
    make_namespace: Callable[[], str],
    service_account: Callable[..., Identity],
    nursery: Nursery,
) -> None:
    """kill -9 before or after each request of a story: every statement is decided once, no epoch comes twice."""
    identity = service_account(make_namespace(), "agent")

    def prepare(number: int) -> Story:
        namespace = make_namespace()
        cluster.grant(namespace, "worklease-agent", identity)
        work = Work.create(cluster, namespace, f"crash-{number}", lease_seconds=LEASE_SECONDS, jeopardy_seconds=1)
        crashing = nursery.start(namespace, crash_at=number, when=when)
        return Story(work, Agent.of(identity), crashing, lambda: nursery.start(namespace))

    stories = [prepare(number) for number in range(1, REQUESTS_MAX + 1)]
    with ThreadPoolExecutor(len(stories)) as pool:
        ends = list(pool.map(Story.tell, stories))
    for story, whole in zip(stories, ends, strict=True):
        status = whole["status"]
        assert [(tenure["grantReason"], tenure["endReason"]) for tenure in status["history"]] == STORY, whole
        epochs = [tenure["epoch"] for tenure in status["history"]]
        assert epochs == sorted(set(epochs))
        assert status["leaseTransitions"] == len(STORY)
        assert whole["spec"]["claim"]["id"] == status["claimID"]
        assert "observedClaimID" not in status
        assert "Traceback" not in story.logs
    assert all(story.crashed for story in stories[:REQUESTS_MIN])
    assert not stories[-1].crashed, "the story takes more requests than crashes were made for"
