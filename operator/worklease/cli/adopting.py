"""How `hold` comes by its lease: as a process of its own, or by going on with what this user's shells hold already.

Such a tenure (of a takeover, or a claim by hand) is claimed again by its own instance: under a new epoch, also while
the work is suspended.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

from worklease.api.worklease import WorkLease
from worklease.cli.connection import Connection, shell_instance
from worklease.cli.locks import Lock
from worklease.client.claimable import held_by
from worklease.client.claims import PASSING, Wanted
from worklease.client.deciding import Grant
from worklease.client.reading import parsed
from worklease.errors import NotFound, WaitedTooLong, WorkIsLeased
from worklease.kube.swap import read

PROCESS = "host:"
LOOK_SECONDS = 0.5


@contextlib.asynccontextmanager
async def speaker(client: Connection, wanted: Wanted) -> AsyncIterator[tuple[Connection, Lock]]:
    """The client that claims, and the lock of its instance on this work."""
    async with contextlib.AsyncExitStack() as stack:
        shells = replace(client.identity, instance=shell_instance())
        # The instance of a running `hold` is in the environment of its command: what runs there does not take its work.
        if not client.identity.pod_bound and not shells.instance.startswith((PROCESS, "pod:")):
            work = await _read(client, wanted)
            if work is not None and held_by(work, shells):
                client = await stack.enter_async_context(client.speaking_as(shells.instance))
        yield client, stack.enter_context(Lock(client.session.credentials.server, client.identity, wanted.lease))


async def granted(client: Connection, lock: Lock, wanted: Wanted, wait: float | bool | None) -> Grant:
    """A grant of the work. What another `hold` of this instance holds is not claimed from it."""
    until = None if wait is True else client.clock() + float(wait or 0.0)
    left = wait
    while not lock.again():
        work = await _read(client, wanted)
        if work is None or not held_by(work, client.identity):
            break
        if not wait:
            raise WorkIsLeased(wanted.lease, "another `worklease hold` of this instance holds it")
        if until is not None and client.clock() >= until:
            raise WaitedTooLong(wanted.lease, f"the work was not free within {float(wait):g} s")
        await asyncio.sleep(LOOK_SECONDS)
        left = wait if until is None else until - client.clock()
    return await claimed(client, wanted, left)


async def claimed(client: Connection, wanted: Wanted, wait: float | bool | None) -> Grant:
    """A grant at once, or as soon as the work is free; what it waits for is said."""
    try:
        return await client.claimant(wanted).now()
    except PASSING as error:
        if not wait or (wait is not True and wait <= 0):
            raise
        print(f"worklease: {error}; waiting", file=sys.stderr)
    return await client.claimed(wanted, None if wait is True else float(wait))


async def _read(client: Connection, wanted: Wanted) -> WorkLease | None:
    with contextlib.suppress(NotFound):
        return parsed(WorkLease, await read(client.session, wanted.namespace, wanted.name))
    return None
