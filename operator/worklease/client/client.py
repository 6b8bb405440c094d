"""Opens the way to the API server, and holds leases by it: one connection pool and one identity for any number."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from worklease.api.worklease import Work
from worklease.client.claims import Claimant, Wanted
from worklease.client.clock import Clock, boot_seconds
from worklease.client.deciding import Grant, finishing
from worklease.client.handoffs import Desk, Offer
from worklease.client.holding import Holding
from worklease.client.identity import Identity, whoami
from worklease.client.lease import RELEASE_SECONDS, Lease
from worklease.client.places import Places
from worklease.client.scope import Scope
from worklease.client.timing import FINAL, Standing
from worklease.kube.credentials import Source
from worklease.kube.following import Follower
from worklease.kube.session import Session

USER_AGENT = "worklease-client"
JUMP_CHECK_SECONDS = 1.0
JUMP_SECONDS = 0.5
ENDED_NORMALLY = "the work's block has ended"
ENDED_CANCELLED = "the work was cancelled"


class Client:
    """Holds leases. Use it with `async with await Client.open()`; one for a process is enough."""

    def __init__(self, session: Session, identity: Identity, *, clock: Clock = boot_seconds) -> None:
        self.session = session
        self.identity = identity
        self.clock = clock
        self.follower = Follower(session)
        self.desk = Desk(session, self.follower, identity, clock, self)
        self._places = Places(session.credentials.server, identity.username, identity.instance)
        self._holdings: set[Holding] = set()
        self._jumps: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, source: Source | None = None, *, instance: str | None = None, clock: Clock = boot_seconds
    ) -> "Client":
        """As whom KUBECONFIG, the pod's ServiceAccount or ~/.kube/config says. Raises ConfigurationError, ApiError."""
        session = await Session.open(source, user_agent=USER_AGENT)
        try:
            return cls(session, await whoami(session, instance), clock=clock)
        except BaseException:
            await session.close()
            raise

    async def __aenter__(self) -> Self:
        self._jumps = asyncio.create_task(self._watch_for_jumps())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._jumps is not None:
            self._jumps.cancel()
            await asyncio.gather(self._jumps, return_exceptions=True)
        self._places.leave_all()
        await self.follower.__aexit__(kind, error, trace)
        await self.session.close()

    @property
    def namespace(self) -> str:
        """The one that the credentials name."""
        return self.session.credentials.namespace

    def claimant(self, wanted: Wanted) -> Claimant:
        """Claims for this process."""
        return Claimant(self.session, self.follower, self.identity, self.clock, wanted, self._places)

    async def claimed(self, wanted: Wanted, wait_seconds: float | None) -> Grant:
        """A grant of this work, waited for so many seconds at most; None waits for ever."""
        return await self.claimant(wanted).when_free(wait_seconds)

    async def inbox(self, namespace: str | None = None) -> list[Offer]:
        """The handoffs to us that wait for an answer; "" looks into all namespaces."""
        return await self.desk.inbox(self.namespace if namespace is None else namespace)

    @contextlib.asynccontextmanager
    async def hold(
        self,
        name: str,
        *,
        purpose: str,
        work_type: str | None = None,
        work_id: str | None = None,
        namespace: str | None = None,
        create: bool = True,
        wait: float | bool | None = None,
        lease_seconds: int | None = None,
        jeopardy_seconds: int | None = None,
        max_silence_seconds: float | None = None,
    ) -> AsyncIterator[Lease]:
        """Claims the work, renews while the block runs, cancels the block when the lease is lost, releases at the end.

        See worklease.hold() for the arguments, and for what is raised.
        """
        wanted = Wanted(
            namespace=namespace or self.namespace,
            name=name,
            purpose=purpose,
            work=Work(type=work_type or "work", id=work_id or name) if create else None,
            lease_seconds=lease_seconds,
            jeopardy_seconds=jeopardy_seconds,
        )
        if not wait:
            grant = await self.claimant(wanted).now()
        else:
            grant = await self.claimed(wanted, None if wait is True else float(wait))
        async with self.held(grant, max_silence_seconds) as lease:
            yield lease

    @contextlib.asynccontextmanager
    async def held(self, grant: Grant, max_silence_seconds: float | None = None) -> AsyncIterator[Lease]:
        """Runs the block under a grant, and ends the tenure with it unless the block has done so."""
        scope = Scope()
        holding = Holding(self.session, self.clock, grant, scope, max_silence_seconds)
        lease = Lease(holding, self.desk)
        self._holdings.add(holding)
        failure: BaseException | None = None
        try:
            holding.start()
            yield lease
        except BaseException as error:
            failure = error
            raise
        finally:
            before = holding.finish()
            self._holdings.discard(holding)
            self._places.leave(holding.key)
            ours = await scope.close(failure)
            # Once begun it is ended, for a while: a release that is cut off leaves the work held by nobody.
            await finishing(_ended(holding, lease, before, _reason(failure)), RELEASE_SECONDS)
            if holding.was_lost and (failure is None or ours):
                raise holding.lost() from None

    async def _watch_for_jumps(self) -> None:
        """Timers stand still while the machine sleeps; the leases' clock does not."""
        loop = asyncio.get_running_loop()
        offset = self.clock() - loop.time()
        while True:
            await asyncio.sleep(JUMP_CHECK_SECONDS)
            if self.clock() - loop.time() - offset > JUMP_SECONDS:
                offset = self.clock() - loop.time()
                for holding in tuple(self._holdings):
                    holding.wake()


async def _ended(holding: Holding, lease: Lease, before: Standing, reason: str) -> None:
    """The renewing has ended, and the work is given back unless the tenure was over before."""
    await holding.close()
    if before not in FINAL:
        await lease._give_back(reason)


def _reason(failure: BaseException | None) -> str:
    if failure is None:
        return ENDED_NORMALLY
    if isinstance(failure, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
        return ENDED_CANCELLED
    return f"the work failed: {type(failure).__name__}"


@contextlib.asynccontextmanager
async def hold(
    name: str,
    *,
    purpose: str,
    work_type: str | None = None,
    work_id: str | None = None,
    namespace: str | None = None,
    create: bool = True,
    wait: float | bool | None = None,
    lease_seconds: int | None = None,
    jeopardy_seconds: int | None = None,
    max_silence_seconds: float | None = None,
    source: Source | None = None,
) -> AsyncIterator[Lease]:
    """Holds the work item `name` for as long as the block runs: `async with worklease.hold(...) as lease`.

    name, namespace: the WorkLease; the namespace defaults to that of the credentials.
    purpose: what is going to be done, for people who read the history.
    create: make the item when there is none, as work `work_type`/`work_id`, with these durations in seconds. An item
        that exists keeps its own durations.
    wait: None to fail at once, seconds to wait at most, True to wait for ever until the work is free.
    max_silence_seconds: a body that neither speaks nor calls lease.progress() for this long is no longer renewed.

    Raises ClaimRefused (WorkIsLeased with `until`, WorkIsSuspended, WorkIsReserved, WorkIsComplete), WaitedTooLong,
    ClaimUndecided, NotPermitted or ApiError before the block runs, and LeaseLost out of a block that was cancelled.
    """
    async with (
        await Client.open(source) as client,
        client.hold(
            name,
            purpose=purpose,
            work_type=work_type,
            work_id=work_id,
            namespace=namespace,
            create=create,
            wait=wait,
            lease_seconds=lease_seconds,
            jeopardy_seconds=jeopardy_seconds,
            max_silence_seconds=max_silence_seconds,
        ) as lease,
    ):
        yield lease


@contextlib.asynccontextmanager
async def inbox(namespace: str | None = None, *, source: Source | None = None) -> AsyncIterator[list[Offer]]:
    """The handoffs that wait for our answer: `async with worklease.inbox() as offers`. Answer them inside the block."""
    async with await Client.open(source) as client:
        yield await client.inbox(namespace)
