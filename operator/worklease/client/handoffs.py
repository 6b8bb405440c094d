"""Handoffs from both sides: offering one's tenure, the inbox, and the answer, which is given once."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode

from worklease.api.group import API_VERSION
from worklease.api.handoff import (
    ContextRef,
    Handoff,
    HandoffPhase,
    HandoffSpec,
    OfferedCheckpoint,
    Response,
    ResponseDecision,
)
from worklease.client.claims import Wanted
from worklease.client.clock import Clock
from worklease.client.deciding import DECIDED_SECONDS, LOOK_AFTER_SECONDS, Grant
from worklease.client.holding import Holding
from worklease.client.identity import Identity
from worklease.client.reading import parsed
from worklease.client.refusals import statement_refusal
from worklease.client.speech import STATEMENT_SECONDS, Patch, Speech
from worklease.errors import ClaimUndecided, HandoffOver, LeaseError, NotFound, Refused
from worklease.kube.following import Follower
from worklease.kube.session import Session
from worklease.kube.swap import path_of, read

if TYPE_CHECKING:
    from worklease.client.lease import Lease

PLURAL = "handoffs"
NAME_MAX = 240
INBOX_MAX = 500
FINAL = frozenset(HandoffPhase) - {HandoffPhase.PENDING, HandoffPhase.ACCEPTED}


class Taker(Protocol):
    """How a client claims and holds."""

    async def claimed(self, wanted: Wanted, wait_seconds: float | None) -> Grant:
        """A grant, waited for so long."""

    def held(
        self, grant: Grant, max_silence_seconds: float | None = None
    ) -> "contextlib.AbstractAsyncContextManager[Lease]":
        """Runs a block under the grant."""


class Offer:
    """One handoff, as its target or its sender sees it."""

    def __init__(self, desk: "Desk", handoff: Handoff, holding: Holding | None = None) -> None:
        self._desk = desk
        self._holding = holding
        self.handoff = handoff

    def __repr__(self) -> str:
        return f"<Offer {self.handoff.key} of {self.handoff.spec.work_lease_name}, {self.phase}>"

    @property
    def name(self) -> str:
        """The name of the Handoff."""
        return self.handoff.metadata.name

    @property
    def lease_key(self) -> str:
        """NAMESPACE/NAME of the work."""
        return self.handoff.lease_key

    @property
    def phase(self) -> HandoffPhase:
        """What had become of it when it was last read."""
        return self.handoff.status.phase

    @property
    def sender(self) -> str | None:
        """Who offers; None for an administrator's offer."""
        return self.handoff.spec.from_

    @property
    def subject(self) -> str | None:
        """What it is about, in a line."""
        return self.handoff.spec.subject

    @property
    def message(self) -> str | None:
        """What the target needs to know."""
        return self.handoff.spec.message

    @property
    def context(self) -> ContextRef | None:
        """Where there is more to know."""
        return self.handoff.spec.context_ref

    @property
    def checkpoint(self) -> OfferedCheckpoint | None:
        """Where the work stood."""
        return self.handoff.spec.checkpoint

    @contextlib.asynccontextmanager
    async def accept(
        self, *, purpose: str | None = None, reason: str = "", max_silence_seconds: float | None = None
    ) -> "AsyncIterator[Lease]":
        """Accepts, claims once the acceptance has taken effect, and runs the block under the lease, as hold() does.

        Safe to repeat after a failure. Raises HandoffOver when it can no longer be accepted.
        """
        grant = await self.claimed(purpose=purpose, reason=reason)
        async with self._desk.taker.held(grant, max_silence_seconds) as lease:
            yield lease

    async def claimed(self, *, purpose: str | None = None, reason: str = "") -> Grant:
        """Accepts and claims, and leaves the renewing to the caller."""
        await self._answer(ResponseDecision.ACCEPTED, reason)
        await self._taken_effect()
        spec = self.handoff.spec
        wanted = Wanted(
            namespace=self.handoff.metadata.namespace,
            name=spec.work_lease_name,
            purpose=purpose or spec.subject or f"accepted handoff {self.name}",
        )
        return await self._desk.taker.claimed(wanted, float(spec.claim_within_seconds))

    async def reject(self, reason: str) -> None:
        """Declines, for good: the sender goes on."""
        await self._answer(ResponseDecision.REJECTED, reason)

    async def withdraw(self, reason: str) -> None:
        """Takes back one's own offer, unless it has been answered."""
        await self._answer(ResponseDecision.WITHDRAWN, reason)

    async def settled(self) -> HandoffPhase:
        """Waits until nothing more becomes of it, and returns what has. Completed: the target holds the work."""
        if self._holding is not None:
            self._holding.being_handed_over += 1
        try:
            phase = await self._until(lambda handoff: handoff.status.phase in FINAL)
        finally:
            if self._holding is not None:
                self._holding.being_handed_over -= 1
        if phase is HandoffPhase.COMPLETED and self._holding is not None:
            self._holding.finish()
        return phase

    async def _taken_effect(self) -> None:
        limit = asyncio.timeout(DECIDED_SECONDS)
        try:
            async with limit:
                phase = await self._until(lambda handoff: handoff.status.phase is not HandoffPhase.PENDING)
        except TimeoutError:
            if not limit.expired():
                raise
            said = f"the acceptance has not taken effect within {DECIDED_SECONDS:g} s: is the operator running?"
            raise ClaimUndecided(self.lease_key, said) from None
        if phase is not HandoffPhase.ACCEPTED:
            raise self._over()

    async def _until(self, reached: Callable[[Handoff], bool]) -> HandoffPhase:
        metadata = self.handoff.metadata
        changes = self._desk.follower.follow(
            metadata.namespace, metadata.name, plural=PLURAL, silent_seconds=LOOK_AFTER_SECONDS
        )
        async with contextlib.aclosing(changes):
            while True:
                try:
                    self.handoff = parsed(Handoff, await anext(changes))
                except NotFound as error:
                    raise HandoffOver(self.lease_key, "Gone", f"handoff {self.name} has been deleted") from error
                if reached(self.handoff):
                    return self.phase

    async def _answer(self, decision: ResponseDecision, reason: str) -> None:
        metadata = self.handoff.metadata
        response = Response(decision=decision, reason=reason)
        ends = self._desk.clock() + DECIDED_SECONDS
        speech = Speech(
            self._desk.session,
            Handoff,
            metadata.namespace,
            metadata.name,
            said=lambda handoff: handoff.spec.response == response,
            clock=self._desk.clock,
            ends=lambda: ends,
            request_seconds=STATEMENT_SECONDS,
        )
        patch: Patch = [{"op": "add", "path": "/spec/response", "value": response.manifest()}]
        try:
            self.handoff = await speech.patch(lambda: patch)
        except NotFound as error:
            raise HandoffOver(self.lease_key, "Gone", f"there is no handoff {self.name}") from error
        except Refused as error:
            raw = await read(self._desk.session, metadata.namespace, metadata.name, plural=PLURAL)
            self.handoff = parsed(Handoff, raw)
            answered = self.handoff.spec.response
            if answered is not None and answered.decision is decision:
                return
            raise self._refusal(error) from error

    def _refusal(self, error: Refused) -> LeaseError:
        if self.handoff.spec.response is not None or self.phase is not HandoffPhase.PENDING:
            return self._over()
        return statement_refusal(self.lease_key, error)

    def _over(self) -> HandoffOver:
        spec, status = self.handoff.spec, self.handoff.status
        why = next((c.message for c in status.conditions if c.type == "Ready" and c.message), "")
        if status.phase is HandoffPhase.PENDING and spec.response is not None:
            why = f"it has been answered: {spec.response.decision}"
        said = f"handoff {self.name} is {status.phase}" + (f": {why}" if why else "")
        return HandoffOver(self.lease_key, status.phase, said)


class Desk:
    """What offers need of a client: who we are, how to ask, and how to take what is handed over."""

    def __init__(self, session: Session, follower: Follower, identity: Identity, clock: Clock, taker: "Taker") -> None:
        self.session = session
        self.follower = follower
        self.identity = identity
        self.clock = clock
        self.taker = taker

    async def inbox(self, namespace: str) -> list[Offer]:
        """The offers to us that wait for an answer, the oldest first; in all namespaces when it is empty."""
        selector = f"spec.to.holderIdentity={_escaped(self.identity.username)},status.phase={HandoffPhase.PENDING}"
        query = urlencode({"fieldSelector": selector, "limit": INBOX_MAX})
        answer = await self.session.request("GET", f"{path_of(namespace, plural=PLURAL)}?{query}")
        handoffs = [parsed(Handoff, item) for item in answer.body.get("items") or []]
        mine = [h for h in handoffs if h.spec.to.instance in (None, self.identity.instance)]
        waiting = [h for h in mine if h.spec.response is None]
        return [Offer(self, h) for h in sorted(waiting, key=lambda h: h.metadata.creation_timestamp or "")]

    async def find(self, namespace: str, name: str) -> Offer:
        """The handoff of this name. Raises NotFound."""
        return Offer(self, parsed(Handoff, await read(self.session, namespace, name, plural=PLURAL)))

    async def offer(self, namespace: str, spec: HandoffSpec, holding: Holding | None = None) -> Offer:
        """Creates a handoff; its name begins with that of the work."""
        name = f"{spec.work_lease_name[:NAME_MAX].rstrip('.-')}-{secrets.token_hex(4)}"
        body = {
            "apiVersion": API_VERSION,
            "kind": "Handoff",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec.manifest(),
        }
        ends = self.clock() + DECIDED_SECONDS
        speech = Speech(
            self.session,
            Handoff,
            namespace,
            name,
            said=lambda handoff: handoff.spec == spec,
            clock=self.clock,
            ends=lambda: ends,
            request_seconds=STATEMENT_SECONDS,
        )
        try:
            return Offer(self, await speech.create(body), holding)
        except Refused as error:
            raise statement_refusal(f"{namespace}/{spec.work_lease_name}", error) from error


def _escaped(value: str) -> str:
    """A value in a field selector."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
