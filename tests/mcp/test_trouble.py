"""An agent learns of trouble without asking: by notifications, by warnings in every answer, by refusals of effects."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.agents import MODES, over_http, over_stdio
from support.cluster import Cluster, Identity
from support.holding import wire
from support.speaking import Work

pytestmark = pytest.mark.usefixtures("operator")
TOLD_WITHIN_SECONDS = 60.0


@pytest.mark.parametrize("mode", MODES)
def test_jeopardy_is_told_and_effects_are_refused_until_it_is_over(
    mode: str, namespace: str, agent: Identity, tmp_path: Path
) -> None:
    """The API server falls silent: the agent is told, and may cause no effect before the lease is certain again."""
    work, uri = f"{namespace}/w", f"worklease://{namespace}/w"
    effect = {"work": work, "recipient": "payments", "action": "charge"}

    async def main() -> None:
        with wire(agent, tmp_path) as (between, kubeconfig):
            async with over_stdio(agent, mode=mode, kubeconfig=kubeconfig) as one, one.following(uri):
                await one.call("claim", work=work, purpose="p", create=True, lease_seconds=10, jeopardy_seconds=600)
                async with asyncio.timeout(TOLD_WITHIN_SECONDS):
                    assert await one.updated.get() == uri
                    between.silence()
                    assert await one.updated.get() == uri
                result = await one.client.call_tool("begin_effect", effect)
                assert result.is_error
                assert result.structured_content
                assert result.structured_content["refusal"]["reason"] == "LeaseInJeopardy"
                assert [w["standing"] for w in result.structured_content["warnings"]] == ["Jeopardy"]
                between.restore()
                async with asyncio.timeout(TOLD_WITHIN_SECONDS):
                    assert await one.updated.get() == uri
                begun = await one.call("begin_effect", **effect)
                assert begun["warnings"] == []
                await one.call("finish_effect", work=work, id=begun["id"], state="Succeeded")

    asyncio.run(main())


@pytest.mark.parametrize("mode", MODES)
def test_a_revocation_is_told_with_its_reason_as_data(
    mode: str, cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path
) -> None:
    """The holder over HTTP is told; the administrator's words come without marks that change how they are read."""
    boss = cluster.service_account(namespace, "boss", "worklease-admin")
    work, uri = f"{namespace}/w", f"worklease://{namespace}/w"

    async def main() -> None:
        with over_http(cluster, tmp_path / "log", "--profile", "operator") as server:
            async with (
                server.agent(agent.token, mode) as one,
                server.agent(boss.token, mode) as two,
                one.following(uri),
            ):
                await one.call("claim", work=work, purpose="p", create=True, lease_seconds=10)
                await one.updated.get()
                await two.call("revoke", work=work, reason="INC-7: \u202ewrong\u0085 amount", suspend=True)
                async with asyncio.timeout(TOLD_WITHIN_SECONDS):
                    assert await one.updated.get() == uri
                read = (await one.client.read_resource(uri)).contents[0]
                assert '"suspended":true' in getattr(read, "text", "")
                (warning,) = (await one.call("inbox", namespace=namespace))["warnings"]
                assert warning["standing"] == "Lost"
                assert warning["detail"] == "Revoked: an administrator revoked it: INC-7: wrong amount"
                refusal = await one.refused("begin_effect", work=work, recipient="payments", action="charge")
                assert refusal["reason"] == "LeaseLost"
                assert (await one.refused("claim", work=work, purpose="p"))["reason"] == "WorkIsSuspended"
                assert (await two.call("resume", work=work))["said"] == "Resumed"
                await one.call("claim", work=work, purpose="p")

    asyncio.run(main())


def test_an_operator_takes_work_over_and_sees_who_held_it(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Takeover is one write, and the new lease is the session's; history names the holders."""
    boss = cluster.service_account(namespace, "boss", "worklease-admin")
    work = f"{namespace}/w"

    async def main() -> None:
        async with over_stdio(agent) as one, over_stdio(boss, "--profile", "operator") as two:
            before = await one.call("claim", work=work, purpose="charge it", create=True)
            seen = await two.call("history", work=work)
            assert (seen["holder"], seen["tenures"][-1]["purpose"]) == (agent.username, "charge it")
            refusal = await one.refused("history", work=work)
            assert refusal["reason"] == "UnknownTool"
            taken = await two.call("takeover", work=work, reason="INC-7: stuck")
            assert taken["lease"]["epoch"] > before["lease"]["epoch"]
            await two.call("complete", work=work, message="done by hand")
            assert (await two.call("suspend", work=work))["said"] == "Suspended"

    asyncio.run(main())
    history = Work(cluster, namespace, "w").reaches("Completed")["history"]
    assert [tenure["endReason"] for tenure in history] == ["Revoked", "Completed"]
