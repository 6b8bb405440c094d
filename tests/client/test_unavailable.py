"""An API server that answers with failures: none of them is a loss, and what was said is said once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import worklease
from support.cluster import Cluster, Identity
from support.holding import LEASE_SECONDS, client_of, until
from support.proxy import Proxy
from support.speaking import Agent as Holder
from support.speaking import Work
from worklease import Standing
from worklease.client.claims import Wanted

pytestmark = pytest.mark.usefixtures("operator")
PATIENCE = {"Retry-After": "3600"}
SLACK_SECONDS = 0.1
FAILURES = [(500, {}), (503, {}), (504, {}), (429, {"Retry-After": "1"})]


class Failing:
    """Answers with a status instead of asking the server, for a while, and counts what it has refused."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.refused = 0
        self.refused_at: list[float] = []
        """When it did so, on the holders' clock."""

    def begin(self, status: int, headers: dict[str, str], times: int | None = None) -> None:
        """From now on, or for so many requests, everything is answered so; watches that are open stay open."""
        self.refused = 0
        self.refused_at.clear()

        def answer(_path: str, _watching: bool) -> int:
            if times is not None and self.refused >= times:
                return 0
            self.refused += 1
            self.refused_at.append(worklease.boot_seconds())
            return status

        self._proxy.refusal_headers = headers
        self._proxy.refuse = answer

    def end(self) -> None:
        """Everything is handed on again."""
        self._proxy.refuse = lambda path, watching: 0


@pytest.fixture
def failing(proxy: Proxy) -> Failing:
    """The failures of that proxy."""
    return Failing(proxy)


@pytest.fixture
def kubeconfig(proxy: Proxy, agent: Identity, tmp_path: Path) -> Path:
    """The agent's credentials, by the proxy."""
    return proxy.kubeconfig(tmp_path, agent.api.token)


@pytest.mark.parametrize(("status", "headers"), FAILURES)
def test_failures_of_the_server_are_jeopardy_at_the_deadline_and_no_loss(
    cluster: Cluster, namespace: str, agent: Identity, kubeconfig: Path, failing: Failing, status: int,
    headers: dict[str, str],
) -> None:  # fmt: skip
    """Whether such a renewal took effect is unknown: it is tried again, past the deadline too, until it is answered."""

    async def main() -> None:
        async with (
            client_of(agent, kubeconfig=kubeconfig) as client,
            client.hold(
                "w", purpose="p", namespace=namespace, lease_seconds=LEASE_SECONDS, jeopardy_seconds=600
            ) as lease,
        ):
            failing.begin(status, headers)
            assert await lease.standing_changed(Standing.HELD) is Standing.JEOPARDY
            assert failing.refused > 1
            with pytest.raises(worklease.LeaseInJeopardy, match="broken"):
                lease.require_held()
            failing.end()
            assert await lease.standing_changed(Standing.JEOPARDY) is Standing.HELD
            assert lease.trouble is None

    asyncio.run(main())
    assert len(Work(cluster, namespace, "w").reaches("Released")["history"]) == 1


def test_retry_after_is_respected_but_not_beyond_the_last_chance(
    namespace: str, agent: Identity, kubeconfig: Path, failing: Failing
) -> None:
    """A server that asks for an hour is asked again before the deadline, and not before there is need to."""

    async def main() -> None:
        async with (
            client_of(agent, kubeconfig=kubeconfig) as client,
            client.hold(
                "w", purpose="p", namespace=namespace, lease_seconds=LEASE_SECONDS, jeopardy_seconds=600
            ) as lease,
        ):
            failing.begin(429, PATIENCE)
            deadline, terms = lease.deadline, lease._holding.belief.terms
            await lease.standing_changed(Standing.HELD)
            first, second, *_ = failing.refused_at
            assert first < second
            assert second >= deadline - terms.request_seconds - SLACK_SECONDS
            failing.end()  # what comes next is due before the expiry, ten minutes from here: it is not waited for

    asyncio.run(main())


def test_a_claim_that_met_failures_is_made_once(
    cluster: Cluster, namespace: str, agent: Identity, kubeconfig: Path, failing: Failing
) -> None:
    """Reading, creating, looking for it again: whichever fails, the claimant holds in the end (case 36)."""

    async def main() -> None:
        async with client_of(agent, kubeconfig=kubeconfig) as client:
            for times in range(1, 6):
                failing.begin(500 if times % 2 else 429, {"Retry-After": "0"}, times)
                async with client.hold(f"w{times}", purpose="p", namespace=namespace) as lease:
                    lease.require_held()
                assert failing.refused == times

    asyncio.run(main())
    for times in range(1, 6):
        assert len(Work(cluster, namespace, f"w{times}").reaches("Released")["history"]) == 1


def test_an_effect_that_met_failures_is_logged_once(
    cluster: Cluster, namespace: str, agent: Identity, kubeconfig: Path, failing: Failing
) -> None:
    """Its block runs once the log is written, and its outcome is written in the end."""

    async def main() -> None:
        async with (
            client_of(agent, kubeconfig=kubeconfig) as client,
            client.hold("w", purpose="p", namespace=namespace) as lease,
        ):
            failing.begin(503, {}, 3)
            async with lease.effect("mail", "send"):
                assert failing.refused == 3
                failing.begin(429, {"Retry-After": "1"}, 2)
            await lease.complete("sent")

    asyncio.run(main())
    work = Work(cluster, namespace, "w")
    work.reaches("Completed")
    assert [effect["state"] for effect in work.read()["spec"]["effects"]] == ["Succeeded"]


def test_a_claim_gives_up_when_its_caller_said_so(
    namespace: str, agent: Identity, kubeconfig: Path, failing: Failing
) -> None:
    """A server that only fails ends in WaitedTooLong, and nothing is left that tries."""

    async def main() -> None:
        async with client_of(agent, kubeconfig=kubeconfig) as client:
            before = asyncio.all_tasks()
            failing.begin(500, {})
            with pytest.raises(worklease.WaitedTooLong):
                async with client.hold("w", purpose="p", namespace=namespace, wait=1.0):
                    raise AssertionError("held")
            failing.end()
            await until(lambda: asyncio.all_tasks() <= before, "every task to have ended")

    asyncio.run(main())


def test_a_conflict_while_a_tenure_is_resumed_is_no_end_of_it(
    cluster: Cluster, namespace: str, agent: Identity, kubeconfig: Path, proxy: Proxy
) -> None:
    """The server gives up patching an object that others write to (409): the renewal is sent again."""
    conflicts: list[str] = []
    seen: list[str] = []

    def answer(path: str, watching: bool) -> int:
        if watching or not path.endswith("/workleases/w"):
            return 0
        seen.append(path)  # the object is read first; what follows is the renewal
        if len(seen) == 2:
            conflicts.append(path)
            return 409
        return 0

    async def main() -> None:
        async with (
            client_of(agent, instance="one") as before,
            before.hold("w", purpose="p", namespace=namespace, lease_seconds=60) as lease,
        ):
            claim_id, epoch = lease.claim_id, lease.epoch
            lease.let_lapse()
        async with client_of(agent, kubeconfig=kubeconfig, instance="one") as after:
            proxy.refuse = answer
            grant = await after.claimant(Wanted(namespace, "w", "p")).resumed(claim_id)
            assert conflicts
            assert grant.epoch == epoch

    asyncio.run(main())


def test_a_server_that_begins_to_serve_and_denies_everything_refuses_nobody(
    cluster: Cluster, namespace: str, agent: Identity, kubeconfig: Path, failing: Failing
) -> None:
    """It knows neither roles nor bindings yet: who we are, the claim and the effect are asked again for a moment."""

    async def main() -> None:
        failing.begin(403, {}, 2)
        async with client_of(agent, kubeconfig=kubeconfig) as client:
            assert failing.refused == 2
            for times in range(1, 4):
                failing.begin(403, {}, times)
                async with client.hold(f"w{times}", purpose="p", namespace=namespace) as lease:
                    assert failing.refused == times
                    failing.begin(403, {}, times)
                    async with lease.effect("mail", "send"):
                        assert failing.refused == times

    asyncio.run(main())
    for times in range(1, 4):
        work = Work(cluster, namespace, f"w{times}")
        assert len(work.reaches("Released")["history"]) == 1
        assert [effect["state"] for effect in work.read()["spec"]["effects"]] == ["Succeeded"]


def test_a_waiter_waits_on_through_the_denials_of_a_server_that_begins_to_serve(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity, kubeconfig: Path, failing: Failing, proxy: Proxy
) -> None:
    """Its watch is cut, what it asks is denied for a moment, and it claims when the work is free."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    holder = Holder.of(other)
    epoch = work.hold(holder)

    async def waited(client: worklease.Client) -> int:
        async with client.hold("w", purpose="p", namespace=namespace, wait=60) as lease:
            return lease.epoch

    async def main() -> None:
        async with client_of(agent, kubeconfig=kubeconfig) as client:
            waiting = asyncio.create_task(waited(client))
            await until(lambda: proxy.watches() == 1, "the waiter to watch")
            failing.begin(403, {}, 3)
            await asyncio.to_thread(proxy.cut)
            await until(lambda: failing.refused == 3 and proxy.watches() == 1, "it to watch again")
            await asyncio.to_thread(lambda: work.release(holder, epoch).must())
            assert await waiting > epoch

    asyncio.run(main())


@pytest.mark.parametrize("wait", [None, 60.0])
def test_a_denial_that_does_not_pass_is_believed_soon(
    cluster: Cluster, namespace: str, agent: Identity, kubeconfig: Path, failing: Failing, wait: float | None
) -> None:
    """The same request four times, and no more."""
    Work.create(cluster, namespace, "w")

    async def main() -> None:
        async with client_of(agent, kubeconfig=kubeconfig) as client:
            failing.begin(403, {})
            with pytest.raises(worklease.ClaimRefused, match="broken"):
                async with client.hold("w", purpose="p", namespace=namespace, wait=wait):
                    raise AssertionError("held")
            assert failing.refused == 4

    asyncio.run(main())
