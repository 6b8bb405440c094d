"""An operator that is away, is killed between the two swaps, or sees late, loses and repeats no handoff."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.cluster import Cluster, Identity
from support.crashing import Crashing, Nursery
from support.offering import LEASE_SECONDS, WITHIN_SECONDS, Offer, Team, teamed
from support.operators import operating
from support.speaking import Agent, Work
from support.waiting import wait_for
from support.words import now
from worklease.controller.handoffs import Handoffs

CRASHES = {"before": [*range(4, 50, 3), 90], "after": [*range(5, 50, 3), 90]}
"""Every third request from when the watches are open, and one more than the story takes: nothing is killed there."""


@pytest.fixture
def team(cluster: Cluster) -> Iterator[Team]:
    """A team whose operator comes and goes."""
    with teamed(cluster) as team:
        yield team


def test_the_operator_is_down_between_response_and_successor(cluster: Cluster, team: Team) -> None:
    """Meanwhile the target cannot claim and the sender goes on; the next operator lets the acceptance take effect."""
    with operating(cluster, team.namespace):
        work, epoch = team.held()
        offer = Offer.make(work, team.alice, team.bob)
        offer.seen()
        late = Offer.make(work, team.alice, team.carol)
    assert team.bob.identity.api.get(offer.path).must()["status"]["phase"] == "Pending"
    offer.respond(team.bob, "Accepted").must()
    refused = work.say(team.bob, claim=team.bob.claim(epoch))
    assert (refused.status, "work is leased" in refused.message) == (422, True)
    work.renew(team.alice, epoch).must()
    late.respond(team.alice, "Withdrawn").must()
    with operating(cluster, team.namespace):
        offer.reaches("Accepted")
        late.reaches("Withdrawn")
        assert work.hold(team.bob) == offer.reaches("Completed")["grantedEpoch"]


def test_the_inbox_works_without_an_operator(team: Team) -> None:
    """An offer is Pending from the start, so that its target finds and answers it."""
    work = team.work()
    offer = Offer.make(work, team.cluster.admin, team.bob)
    selector = f"spec.to.holderIdentity={team.bob.identity.username},status.phase=Pending"
    path = offer.path.rpartition("/")[0]
    (found,) = team.bob.identity.api.get(path, fieldSelector=selector).must()["items"]
    assert found["metadata"]["name"] == offer.name
    offer.respond(team.bob, "Rejected").must()


def test_a_target_claims_while_the_operator_is_down(cluster: Cluster, team: Team) -> None:
    """A claim in the time of the reservation is granted, however late the operator is."""
    with operating(cluster, team.namespace):
        work, epoch = team.held()
        offer = Offer.make(work, team.alice, team.bob, claimWithinSeconds=12)
        offer.accept(team.bob)
    claim = team.bob.claim(epoch)
    work.say(team.bob, claim=claim).must()
    wait_for(lambda: _is_over(work.status), "the reservation's time to be over", WITHIN_SECONDS)
    with operating(cluster, team.namespace):
        assert work.granted(claim["id"]) == offer.reaches("Completed")["grantedEpoch"]
    assert work.status["grantReason"] == "Handoff"


def test_handoffs_of_work_that_is_deleted_are_told(cluster: Cluster, team: Team) -> None:
    """An acceptance that had taken effect has lapsed; an offer says that its work is missing, and waits for it."""
    with operating(cluster, team.namespace):
        work, _ = team.held()
        accepted = Offer.make(work, team.alice, team.bob)
        accepted.accept(team.bob)
        other, _ = team.held()
        waiting = Offer.make(other, team.alice, team.bob)
        waiting.seen()
        for one in (work, other):
            cluster.admin.api.delete(one.path).must()
        assert "deleted" in accepted.reaches("Lapsed")["conditions"][0]["message"]
        wait_for(lambda: waiting.condition("WorkLeaseMissing") == "True/Missing", "the offer to say so", WITHIN_SECONDS)
        assert waiting.status["phase"] == "Pending"


def _is_over(status: dict[str, Any]) -> bool:
    return bool(status["successor"]["until"] < now())


def test_an_operator_that_sees_handoffs_late_repeats_no_acceptance(
    cluster: Cluster, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its watch of handoffs stands still at an acceptance that has lapsed since: it reads before it reserves."""
    made: list[Handoffs] = []
    deaf: set[Handoffs] = set()
    see, confirm, begin = Handoffs.see, Handoffs.confirm, Handoffs.__init__

    def begun(self: Handoffs, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        made.append(self)

    async def confirmed(self: Handoffs, *arguments: Any, **options: Any) -> None:
        deaf.discard(self)
        await confirm(self, *arguments, **options)

    monkeypatch.setattr(Handoffs, "__init__", begun)
    monkeypatch.setattr(Handoffs, "confirm", confirmed)
    monkeypatch.setattr(Handoffs, "see", lambda self, raw: None if self in deaf else see(self, raw))
    with operating(cluster, team.namespace) as late:
        work, _ = team.held()
        offer = Offer.make(work, team.alice, team.bob, claimWithinSeconds=1)
        offer.seen()
        deaf.add(made[0])
        with operating(cluster, team.namespace):
            accepted = offer.respond(team.bob, "Accepted").must()
            offer.reaches("Lapsed")
        assert accepted["status"]["phase"] == "Pending"
        late.call(lambda: see(made[0], accepted))
        wait_for(lambda: made[0] not in deaf, "the handoff to be read again", WITHIN_SECONDS)
        team.held()
        assert "successor" not in work.status
    assert [event["reason"] for event in work.events()].count("Reserved") == 1


class Story:
    """A grant, an offer that lapses, a new claim, an offer that is completed, whatever the operator does."""

    def __init__(self, work: Work, alice: Agent, bob: Agent, start: Callable[[int], Crashing], crash_at: int) -> None:
        self._work, self._alice, self._bob, self._start = work, alice, bob, start
        self._operator = start(crash_at)
        self._operators = [self._operator]
        self.offers: list[Offer] = []

    @property
    def crashed(self) -> bool:
        """Whether the first operator was killed."""
        return len(self._operators) > 1

    @property
    def logs(self) -> str:
        """What the operators have written."""
        return "".join(operator.log for operator in self._operators)

    def tell(self) -> dict[str, Any]:
        """Says one thing after the other, waiting for each decision; returns the work item at the end."""
        work, alice, bob = self._work, self._alice, self._bob
        self._granted(alice)
        for phase in ("Lapsed", "Completed"):
            offer = Offer.make(work, alice, bob, claimWithinSeconds=1 if phase == "Lapsed" else 600)
            self.offers.append(offer)
            offer.respond(bob, "Accepted").must()
            if phase == "Completed":
                self._until(lambda: "successor" in work.status)
                self._granted(bob)
            self._until(lambda offer=offer, phase=phase: offer.status["phase"] == phase)  # type: ignore[misc]
            if phase == "Lapsed":
                assert "successor" not in work.status
                self._granted(alice)
        self._operator.kill()
        return work.read()

    def _granted(self, agent: Agent) -> None:
        claim = self._work.claim(agent)
        self._until(lambda: self._work.status.get("claimID") == claim)

    def _until(self, decided: Callable[[], bool]) -> None:
        def there() -> bool:
            if not self._operator.is_alive():
                assert not self.crashed, f"it ended by itself:\n{self._operator.log}"
                self._operator = self._start(0)
                self._operators.append(self._operator)
            return decided()

        wait_for(there, f"a decision about {self._work.name}", WITHIN_SECONDS)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_request_of_a_handoff(
    when: str, cluster: Cluster, service_account: Callable[..., Identity], nursery: Nursery, namespace: str
) -> None:
    """kill -9 before or after each request: both swaps are made, once, in the end, and both objects agree."""
    alice, bob = (Agent.of(service_account(namespace, name)) for name in ("alice", "bob"))
    namespaces = contextlib.ExitStack()

    def prepare(number: int) -> Story:
        name = namespaces.enter_context(cluster.namespace("test"))
        for agent in (alice, bob):
            cluster.grant(name, "worklease-agent", agent.identity)
        work = Work.create(cluster, name, f"crash-{number}", lease_seconds=LEASE_SECONDS)
        return Story(work, alice, bob, lambda at: nursery.start(name, crash_at=at, when=when), number)

    with namespaces:
        stories = [prepare(number) for number in CRASHES[when]]
        with ThreadPoolExecutor(len(stories)) as pool:
            ends = list(pool.map(Story.tell, stories))
    for story, whole in zip(stories, ends, strict=True):
        status = whole["status"]
        assert [tenure["grantReason"] for tenure in status["history"]] == ["FirstGrant", "Reclaim", "Handoff"], whole
        lapsed, completed = story.offers
        assert (lapsed.status["phase"], completed.status["phase"]) == ("Lapsed", "Completed")
        assert completed.status["grantedEpoch"] == status["epoch"]
        assert status["history"][-1]["handoffUID"] == completed.read()["metadata"]["uid"]
        assert status["grantMessage"] == f"handoff {completed.name}"
        assert "successor" not in status
        assert "Traceback" not in story.logs
    assert stories[0].crashed
    assert not stories[-1].crashed, "the story takes more requests than crashes were made for"
