"""A server that is killed where its session is between two states: nothing is renewed, and nothing lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from support.agents import over_stdio
from support.cluster import Cluster, Identity
from support.holding import until, wire
from support.operators import operating
from support.speaking import Work
from support.waiting import wait_for
from support.words import now

TOLD_WITHIN_SECONDS = 60.0


def test_killed_in_jeopardy_the_lease_expires_and_its_effect_is_left_to_be_reconciled(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity, tmp_path: Path
) -> None:
    """A server that could not renew, and is gone before it can again, renews nothing any more (cases 20, 29)."""
    work, uri = f"{namespace}/w", f"worklease://{namespace}/w"
    stored = Work(cluster, namespace, "w")

    async def killed() -> None:
        with contextlib.suppress(Exception), wire(agent, tmp_path) as (between, kubeconfig):
            async with over_stdio(agent, kubeconfig=kubeconfig) as one, one.following(uri):
                await one.call("claim", work=work, purpose="p", create=True, lease_seconds=10, jeopardy_seconds=5)
                await one.call("begin_effect", work=work, recipient="payments", action="charge", id="charge-1")
                async with asyncio.timeout(TOLD_WITHIN_SECONDS):
                    assert await one.updated.get() == uri  # held
                    between.silence()
                    assert await one.updated.get() == uri  # in jeopardy
                os.kill(one.process_id, signal.SIGKILL)
                killed_at.append(now())
                between.restore()  # what was on its way may arrive yet

    killed_at: list[str] = []
    with operating(cluster, namespace):
        asyncio.run(killed())
        stored.reaches("Expired")
        assert stored.read()["spec"].get("renewal", {}).get("renewTime", "") < killed_at[0]

        async def going_on() -> None:
            async with over_stdio(other) as two:
                held = await two.call("claim", work=work, purpose="go on")
                assert [effect["id"] for effect in held["unreconciled"]] == ["charge-1"]

        asyncio.run(going_on())


def test_killed_between_its_acceptance_and_its_claim_the_sender_goes_on(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """The acceptance takes effect, nobody claims in time, the handoff lapses and the sender completes (case 24)."""
    work = f"{namespace}/w"
    stored = Work(cluster, namespace, "w")

    async def main() -> None:
        async with over_stdio(agent) as sender:
            with operating(cluster, namespace):
                held = await sender.call("claim", work=work, purpose="p", create=True, lease_seconds=600)
                asked = {"work": work, "to": other.username, "claim_within_seconds": 1}
                offer = (await sender.call("offer_handoff", **asked))["offer"]["handoff"]
                path = f"/apis/worklease.dev/v1alpha1/namespaces/{namespace}/handoffs/{offer.partition('/')[2]}"

                def handoff(part: str) -> dict[str, object]:
                    found: dict[str, object] = cluster.api.get(path).must()[part]
                    return found

                await asyncio.to_thread(wait_for, lambda: "epoch" in handoff("status"), "the operator to see the offer")
            with contextlib.suppress(Exception):
                async with over_stdio(other) as target:
                    accepting = asyncio.create_task(target.call("accept_handoff", handoff=offer))
                    await until(lambda: "response" in handoff("spec"), "the acceptance")
                    os.kill(target.process_id, signal.SIGKILL)
                    await asyncio.gather(accepting, return_exceptions=True)
            with operating(cluster, namespace):
                lapsed = lambda: handoff("status")["phase"] == "Lapsed"  # noqa: E731
                await asyncio.to_thread(wait_for, lapsed, "the handoff to lapse", TOLD_WITHIN_SECONDS)
                await sender.call("complete", work=work, message="done after all")
                await asyncio.to_thread(stored.reaches, "Completed")
                assert stored.epoch == held["lease"]["epoch"]

    asyncio.run(main())
