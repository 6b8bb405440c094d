"""Answers that cannot be read: of a newer schema, or of something that is no API server. Said in a line, with 1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import worklease
from support.cluster import Cluster, Identity
from support.holding import LEASE_SECONDS, client_of, until
from support.proxy import Proxy
from support.shell import Shell
from support.speaking import Agent, Work
from worklease import Standing
from worklease.cli.exits import Exit
from worklease.errors import Unreadable

pytestmark = pytest.mark.usefixtures("operator")
PAGE = b"<html><title>Sign in</title></html>"


def newer(name: str) -> Callable[[str, bytes], bytes]:
    """Rewords answers about this item, and lists, to a phase that this version does not know."""

    def reword(path: str, body: bytes) -> bytes:
        return body.replace(b'"phase":"Held"', b'"phase":"Napping"') if path.endswith((name, "workleases")) else body

    return reword


@pytest.mark.parametrize(
    "words",
    [
        ("status", "w"),
        ("history", "w"),
        ("tree", "w"),
        ("renew", "w"),
        ("claim", "w"),
        ("claim", "w", "--dry-run=server"),
        ("hold", "w", "--", "true"),
        ("suspend", "w"),
        ("revoke", "w", "--reason", "INC-7"),
    ],
)
def test_work_of_a_newer_schema_is_named(
    cluster: Cluster, namespace: str, proxy: Proxy, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Which one, and what about it; it is not the caller who is wrong."""
    Work.create(cluster, namespace, "w", lease_seconds=600).hold(Agent.of(cluster.admin))
    proxy.reword = newer("w")
    shell = Shell(cluster.admin, namespace, kubeconfig=proxy.kubeconfig(tmp_path, cluster.admin.token))
    code, out, err = shell.call(*words)
    assert (code, out, err.count("\n")) == (Exit.ERROR, "", 1)
    assert f"{namespace}/w cannot be read: status.phase: " in err


def test_one_item_of_a_newer_schema_does_not_hide_the_others(
    cluster: Cluster, namespace: str, proxy: Proxy, tmp_path: Path
) -> None:
    """The table shows what its status says, and that the rest is not known."""
    Work.create(cluster, namespace, "v")
    Work.create(cluster, namespace, "w", lease_seconds=600).hold(Agent.of(cluster.admin))
    proxy.reword = newer("w")
    shell = Shell(cluster.admin, namespace, kubeconfig=proxy.kubeconfig(tmp_path, cluster.admin.token))
    code, out, err = shell.call("status", "-o", "wide")
    assert (code, err) == (Exit.DONE, "")
    assert [line.split()[1:3] for line in out.splitlines()[1:]] == [["v", "Available"], ["w", "Napping"]]
    assert "cannot be read: status.phase" in out
    assert '"phase": "Napping"' in shell.call("status", "w", "-o", "json")[1]


def test_a_page_for_signing_in_is_no_api_server(cluster: Cluster, namespace: str, proxy: Proxy, tmp_path: Path) -> None:
    """It answers 200 with HTML: to the question who we are, or later."""
    Work.create(cluster, namespace, "w")
    shell = Shell(cluster.admin, namespace, kubeconfig=proxy.kubeconfig(tmp_path, cluster.admin.token))
    proxy.reword = lambda path, body: PAGE
    code, _, err = shell.call("status")
    assert (code, err.count("\n")) == (Exit.ERROR, 1)
    assert "it may be no API server: <html>" in err
    proxy.reword = lambda path, body: PAGE if path.endswith("/w") else body
    code, _, err = shell.call("status", "w")
    assert (code, err.count("\n")) == (Exit.ERROR, 1)
    assert "the answer is no WorkLease" in err


def test_a_renewal_answered_with_a_page_is_unknown(
    cluster: Cluster, namespace: str, agent: Identity, proxy: Proxy, tmp_path: Path
) -> None:
    """Renewing goes on, and the lease is certain again when the API server answers (case 36)."""
    Work.create(cluster, namespace, "w", lease_seconds=LEASE_SECONDS, jeopardy_seconds=60)

    async def main() -> None:
        kubeconfig = proxy.kubeconfig(tmp_path, agent.token)
        async with (
            client_of(agent, kubeconfig=kubeconfig) as client,
            client.hold("w", purpose="p", namespace=namespace) as lease,
        ):
            proxy.reword = lambda path, body: PAGE
            await until(lambda: lease.trouble is not None, "a renewal that is answered with a page")
            proxy.reword = lambda path, body: body
            before = lease.deadline
            await until(lambda: lease.deadline > before and lease.standing is Standing.HELD, "the next renewal")

    asyncio.run(main())


def test_a_claim_of_what_cannot_be_read_says_so_at_once(
    cluster: Cluster, namespace: str, agent: Identity, proxy: Proxy, tmp_path: Path
) -> None:
    """An error of worklease, and not one of a library below it."""
    Work.create(cluster, namespace, "w", lease_seconds=600).hold(Agent.of(cluster.admin))
    proxy.reword = newer("w")

    async def main() -> None:
        async with client_of(agent, kubeconfig=proxy.kubeconfig(tmp_path, agent.token)) as client:
            with pytest.raises(Unreadable, match=f"{namespace}/w cannot be read") as raised:
                async with client.hold("w", purpose="p", namespace=namespace, wait=True):
                    raise AssertionError("nobody can hold it")
            assert isinstance(raised.value, worklease.WorkleaseError)

    asyncio.run(main())
