"""Over HTTP each caller is who its own token says: no token, no tools; one caller's session is nobody else's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from mcp.server.auth.provider import AccessToken

from support.agents import over_http
from support.cluster import Cluster, Identity
from support.speaking import Work
from worklease.mcp.sessions import owner_of

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def asked(url: str, token: str | None, body: dict[str, object], session: str | None = None) -> httpx2.Response:
    """One request, with whatever token."""
    headers = {**ACCEPT}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if session is not None:
        headers |= {"Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25"}
    return httpx2.post(url, json=body, headers=headers, timeout=60)


def test_without_a_token_that_the_api_server_knows_there_are_no_tools(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity, tmp_path: Path
) -> None:
    """401 for none and for an unknown one; a session answers only to whoever opened it."""
    listing: dict[str, object] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    with over_http(cluster, tmp_path / "log") as server:
        for token in (None, "made-up", "x" * 20000):
            assert asked(server.url, token, INITIALIZE).status_code == 401
        opened = asked(server.url, agent.token, INITIALIZE)
        assert opened.status_code == 200
        session = opened.headers["mcp-session-id"]
        assert asked(server.url, None, listing, session).status_code == 401
        assert asked(server.url, other.token, listing, session).status_code == 404
        renewed = cluster.service_account(namespace, "agent")
        assert renewed.token != agent.token
        assert asked(server.url, renewed.token, listing, session).status_code == 200
    written = (tmp_path / "log").read_text()
    assert agent.token not in written
    assert "made-up" not in written


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_what_one_caller_holds_another_cannot_touch(
    mode: str, cluster: Cluster, namespace: str, agent: Identity, other: Identity, tmp_path: Path
) -> None:
    """Each speaks to the API server as itself, a pod's token as that pod."""
    pod = cluster.pod_identity(namespace, "poded", "poded-0", "worklease-agent-creator")
    work = f"{namespace}/w"

    async def main() -> None:
        with over_http(cluster, tmp_path / "log") as server:
            async with (
                server.agent(agent.token, mode) as one,
                server.agent(other.token, mode) as two,
                server.agent(pod.token, mode) as three,
            ):
                await one.call("claim", work=work, purpose="p", create=True)
                for tool, more in (
                    ("renew", {}),
                    ("release", {"reason": "mine now"}),
                    ("complete", {"message": "done"}),
                    ("begin_effect", {"recipient": "r", "action": "a"}),
                ):
                    assert (await two.refused(tool, work=work, **more))["reason"] == "NotHeldHere"
                assert (await two.call("status", work=work))["lease"] is None
                assert agent.username not in str(await two.call("status", work=work))
                refusal = await two.refused("claim", work=f"{namespace}/new", purpose="p", create=True)
                assert refusal["reason"] == "NotPermitted"
                await three.call("claim", work="of-the-pod", purpose="p", create=True)  # in its own namespace

    asyncio.run(main())
    for name, speaker in (("w", agent), ("of-the-pod", pod)):
        tenure = Work(cluster, namespace, name).reaches("Released")["history"][-1]
        assert tenure["holderIdentity"] == speaker.username
        assert not speaker.instance or tenure["instance"] == speaker.instance


@pytest.mark.usefixtures("operator")
def test_sessions_and_what_they_hold_are_bounded(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity, tmp_path: Path
) -> None:
    """One user's sessions leave room for another's, and for its own next; a session holds so much and no more."""
    flags = ("--max-sessions", "2", "--max-sessions-per-user", "1", "--max-leases", "1")

    async def main() -> None:
        with over_http(cluster, tmp_path / "log", *flags) as server:
            async with (
                server.agent(agent.token, "legacy") as one,
                server.agent(other.token, "legacy") as two,
            ):
                opening = [asyncio.to_thread(asked, server.url, agent.token, INITIALIZE) for _ in range(3)]
                assert {answer.status_code for answer in await asyncio.gather(*opening)} == {429}
                await one.call("claim", work=f"{namespace}/a", purpose="p", create=True)
                assert (await one.refused("claim", work=f"{namespace}/b", purpose="p"))["reason"] == "TooMany"
                await two.call("inbox", namespace=namespace)
                await one.call("release", work=f"{namespace}/a", reason="room")
                await one.call("claim", work=f"{namespace}/b", purpose="p", create=True)
            assert asked(server.url, agent.token, INITIALIZE).status_code == 200

    asyncio.run(main())


def test_tokens_of_one_user_with_other_groups_are_other_callers() -> None:
    """What one of them asked for is never done with the other's permissions."""
    owners = {
        owner_of(AccessToken(token=token, client_id="ann", scopes=[], claims={"iss": groups}))
        for token, groups in (("a", "staff"), ("a-renewed", "staff"), ("b", "staff and admins"))
    }
    assert len(owners) == 2
