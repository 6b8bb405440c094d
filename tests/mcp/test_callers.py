"""Over HTTP each caller is who its own token says: no token, no tools; one caller's session is nobody else's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthenticationError

from support.agents import over_http
from support.cluster import Cluster, Identity
from support.proxy import Proxy
from support.speaking import Work
from worklease.mcp.callers import ApiServer, Callers
from worklease.mcp.sessions import owner_of
from worklease.mcp.strangers import ASKED_AT_ONCE, UNKNOWN_FOR_SECONDS, UNKNOWN_MAX, Strangers

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


class Clock:
    """A clock that a test sets."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_token_that_is_not_known_is_asked_about_again_only_after_a_while() -> None:
    """For some seconds it is unknown without asking; then it may have become known. What is remembered is bounded."""
    clock = Clock()
    strangers = Strangers(clock)
    strangers.note(b"digest")
    assert strangers.are_unknown(b"digest")
    assert not strangers.are_unknown(b"another")
    for number in range(UNKNOWN_MAX):
        strangers.note(str(number).encode())
    assert not strangers.are_unknown(b"digest")
    clock.seconds += UNKNOWN_FOR_SECONDS
    assert not strangers.are_unknown(b"1")


def test_a_peer_with_many_unknown_tokens_is_served_slowly_and_others_as_ever() -> None:
    """So many at once, then one a second; a token that turns out to be known does not count."""
    clock = Clock()
    strangers = Strangers(clock)
    assert [strangers.may_ask("peer") for _ in range(ASKED_AT_ONCE + 1)] == [True] * ASKED_AT_ONCE + [False]
    assert strangers.may_ask("another")
    clock.seconds += 1.0
    assert [strangers.may_ask("peer") for _ in range(2)] == [True, False]
    strangers.was_known("peer")
    assert [strangers.may_ask("peer") for _ in range(2)] == [True, False]
    clock.seconds += 1e6
    assert [strangers.may_ask("peer") for _ in range(ASKED_AT_ONCE + 1)][-2:] == [True, False]


def test_unknown_tokens_cost_the_api_server_little(cluster: Cluster, agent: Identity) -> None:
    """The same token is one question, and of many few are asked about; who is known goes on, and others are asked."""
    proxy = Proxy(cluster)
    questions: list[str] = []
    status = 0

    def count(path: str, _watching: bool) -> int:
        questions.append(path)
        return status

    proxy.refuse = count
    callers = Callers(ApiServer(f"http://127.0.0.1:{proxy.port}", None))

    async def main() -> None:
        nonlocal status
        assert await callers.caller(agent.token, "peer")
        for _ in range(5):
            assert await callers.caller("made-up", "peer") is None
        assert len(questions) == 2
        refused = 0
        for number in range(2 * ASKED_AT_ONCE):
            try:
                assert await callers.caller(f"made-up-{number}", "peer") is None
            except AuthenticationError:
                refused += 1
        assert refused
        assert len(questions) == 2 + 2 * ASKED_AT_ONCE - refused
        assert await callers.caller(agent.token, "peer")
        for status in (403, 500):  # noqa: B007 - the proxy answers it: a server that begins to serve, and one that fails: the token may be known
            for _ in range(2 * ASKED_AT_ONCE):
                with pytest.raises(AuthenticationError, match="API server"):
                    await callers.caller("another", "another peer")
        status = 0
        assert await callers.caller("another", "another peer") is None

    asyncio.run(main())
    proxy.stop()


def test_a_peer_whose_unknown_tokens_are_too_many_is_told_to_come_back(
    cluster: Cluster, agent: Identity, tmp_path: Path
) -> None:
    """503 with Retry-After to what is not known yet; a caller that is known is served."""
    with over_http(cluster, tmp_path / "log") as server:
        assert asked(server.url, agent.token, INITIALIZE).status_code == 200
        answers = [asked(server.url, f"made-up-{number}", INITIALIZE) for number in range(2 * ASKED_AT_ONCE)]
        assert {answer.status_code for answer in answers} == {401, 503}
        assert {answer.headers.get("Retry-After") for answer in answers if answer.status_code == 503} == {"5"}
        assert asked(server.url, agent.token, INITIALIZE).status_code == 200


def test_tokens_of_one_user_with_other_groups_are_other_callers() -> None:
    """What one of them asked for is never done with the other's permissions."""
    owners = {
        owner_of(AccessToken(token=token, client_id="ann", scopes=[], claims={"iss": groups}))
        for token, groups in (("a", "staff"), ("a-renewed", "staff"), ("b", "staff and admins"))
    }
    assert len(owners) == 2
