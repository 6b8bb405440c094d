"""One process holds many leases by one client, and asks for nothing but their renewals."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest

from support.cluster import Cluster, Identity
from support.holding import client_of, until
from support.speaking import Work
from worklease import Lease, Standing
from worklease.kube.session import Answer

HELD = 200
DURATIONS: dict[str, Any] = {"lease_seconds": 30, "jeopardy_seconds": 600}
"""Jeopardy is long: a machine that is slow with all of them makes none of them lost."""
GRANTED_WITHIN_SECONDS = 120.0
RENEWED_WITHIN_SECONDS = 120.0


@pytest.mark.usefixtures("operator")
def test_many_leases_are_held_in_one_process_by_their_renewals_alone(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """Between renewals nothing is asked, no watch stays open, and each lease is renewed in its own time."""
    sent: Counter[str] = Counter()

    async def main() -> None:
        async with client_of(agent) as client, contextlib.AsyncExitStack() as stack:

            async def hold(number: int) -> Lease:
                held = client.hold(f"w{number}", purpose="p", namespace=namespace, **DURATIONS)
                return await stack.enter_async_context(held)

            async with asyncio.timeout(GRANTED_WITHIN_SECONDS):
                leases = [await hold(number) for number in range(HELD)]
            request = client.session.request

            async def counted(method: str, path: str, body: Any = None, **options: Any) -> Answer:
                sent[f"{method} {body[0]['path'] if isinstance(body, list) else ''}"] += 1
                return await request(method, path, body, **options)

            client.session.request = counted  # type: ignore[method-assign]
            confirmed = {lease.key: lease._holding.belief.confirmed_at for lease in leases}

            def renewed() -> bool:
                return all(lease._holding.belief.confirmed_at > confirmed[lease.key] for lease in leases)

            await until(renewed, "each lease to be renewed", RENEWED_WITHIN_SECONDS)
            await until(lambda: {lease.standing for lease in leases} == {Standing.HELD}, "all to be certain")
            assert set(sent) == {"PATCH /spec/renewal"}
            assert sent["PATCH /spec/renewal"] >= HELD
            client.session.request = request  # type: ignore[method-assign]

    asyncio.run(main())
    for number in (0, HELD // 2, HELD - 1):
        assert len(Work(cluster, namespace, f"w{number}").reaches("Released")["history"]) == 1
