"""One session of an agent: the leases that it holds, its trouble with them, and whom it tells of changes."""

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from types import TracebackType

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from worklease.client.client import Client
from worklease.client.holding import LostReason
from worklease.client.lease import Lease
from worklease.client.timing import FINAL, Standing
from worklease.errors import LeaseLost, WorkIsLeased
from worklease.mcp.refusals import NotHeldHere, TooMany
from worklease.mcp.results import Warning, clean
from worklease.mcp.tenure import AtEnd, Taking, Tenure

logger = logging.getLogger(__name__)

PAST_MAX = 64
SUBSCRIPTIONS_MAX = 64
IN_JEOPARDY = "Start no effect. Renewing goes on by itself; look at the status again in a few seconds."
LOST = "Stop working on it: it may be another's. Claim it again if it is still to be done."
HANDED_OVER = "The target of the handoff goes on with the work. Stop working on it."


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every session of a server."""

    at_end: AtEnd = AtEnd.RELEASE
    max_silence_seconds: float | None = 900.0
    leases_max: int = 16


def uri_of(work: str) -> str:
    """The resource of a work item."""
    return f"worklease://{work}"


class Agent:
    """Use it with `async with`: its end ends every lease that it holds."""

    def __init__(self, client: Client, terms: Terms) -> None:
        self.client = client
        self.terms = terms
        self.tenures: dict[str, Tenure] = {}
        self.calls = 0
        """How many are on their way."""
        self.called_at = asyncio.get_running_loop().time()
        """When one began or ended last, on the loop's clock."""
        self._owners = asyncio.TaskGroup()
        self._ending = False
        self._past: OrderedDict[str, LeaseLost] = OrderedDict()
        self._news: deque[Warning] = deque(maxlen=PAST_MAX)
        self._bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self._bus, max_subscriptions=SUBSCRIPTIONS_MAX)
        self.subscribed: set[str] = set()
        self.notify: Callable[[str], Awaitable[None]] | None = None
        """How a session of a protocol before 2026-07-28 is told that a resource has changed."""

    async def __aenter__(self) -> "Agent":
        await self._owners.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = True
        await asyncio.gather(*(tenure.end() for tenure in tuple(self.tenures.values())), return_exceptions=True)
        self.listening.close()
        await self._owners.__aexit__(None, None, None)

    def key_of(self, work: str) -> str:
        """NAMESPACE/NAME of what an agent calls NAME."""
        return work if "/" in work else f"{self.client.namespace}/{work}"

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """The agent calls something: it is alive, at the beginning and at the end."""
        self.calls += 1
        try:
            self._progressed()
            yield
        finally:
            self._progressed()
            self.calls -= 1

    def _progressed(self) -> None:
        self.called_at = asyncio.get_running_loop().time()
        for tenure in self.tenures.values():
            if tenure.is_held:
                tenure.lease.progress()

    def held(self, work: str) -> Tenure:
        """What this session holds. Raises LeaseLost if it did until lately, NotHeldHere."""
        key = self.key_of(work)
        tenure = self.tenures.get(key)
        if tenure is not None and tenure.is_held:
            return tenure
        if tenure is not None and tenure.is_granted:
            tenure.lease.require_held()  # it is being ended: this says why
        if (past := self._past.get(key)) is not None:
            raise LeaseLost(past.lease, past.reason, past.message)  # a new one: each raising adds to its traceback
        raise NotHeldHere(key, "this session does not hold it")

    async def take(self, work: str, taking: Callable[[], Taking]) -> Lease:
        """Holds it until the session ends, or the agent says so."""
        key = self.key_of(work)
        if self._ending:
            raise NotHeldHere(key, "this session is ending")
        if key in self.tenures:
            raise WorkIsLeased(key, "this session holds or claims it already: go on with it")
        if len(self.tenures) >= self.terms.leases_max:
            raise TooMany(key, f"this session holds {self.terms.leases_max} leases, and may hold no more")
        tenure = self.tenures[key] = Tenure(key, self._heard, self.terms.at_end)
        try:
            lease = await tenure.begin(self._owners, taking())
        except BaseException:
            if self.tenures.get(key) is tenure:
                del self.tenures[key]
            raise
        self._past.pop(key, None)
        return lease

    def warnings(self) -> tuple[Warning, ...]:
        """What every answer says: each lease in jeopardy, and what has ended since the last answer."""
        news = tuple(self._news)
        self._news.clear()
        granted = [tenure.lease for tenure in self.tenures.values() if tenure.is_granted]
        doubtful = (
            Warning(work=lease.key, standing=lease.standing, advice=advice, detail=clean(lease.trouble))
            for standing, advice in ((Standing.LOST, LOST), (Standing.JEOPARDY, IN_JEOPARDY))
            for lease in granted
            if lease.standing is standing
        )
        return (*news, *doubtful)

    async def _heard(self, tenure: Tenure) -> None:
        """Its standing has changed."""
        if tenure.lease.standing in FINAL and self.tenures.get(tenure.key) is tenure:
            del self.tenures[tenure.key]
            if tenure.lost is not None:
                self._ended(tenure.key, tenure.lost, Standing.LOST, LOST)
            elif not tenure.ended_by_agent:
                error = LeaseLost(tenure.key, LostReason.HANDED_OVER, HANDED_OVER)
                self._ended(tenure.key, error, Standing.ENDED, HANDED_OVER)
        uri = uri_of(tenure.key)
        with contextlib.suppress(Exception):
            await self._bus.publish(ResourceUpdated(uri))
            if self.notify is not None and uri in self.subscribed:
                await self.notify(uri)

    def _ended(self, key: str, error: LeaseLost, standing: Standing, advice: str) -> None:
        self._past[key] = error
        while len(self._past) > PAST_MAX:
            self._past.popitem(last=False)
        detail = clean(f"{error.reason}: {error.message}") if standing is Standing.LOST else None
        self._news.append(Warning(work=key, standing=standing, advice=advice, detail=detail))
