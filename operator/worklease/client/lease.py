"""A held lease, as the work's block sees it: its epoch, its standing, and what the holder says under it."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from worklease.api.fields import EFFECTS_MAX
from worklease.api.handoff import ContextRef, HandoffSpec, OfferedCheckpoint, Target
from worklease.api.statements import (
    UNRECONCILED,
    Checkpoint,
    Completion,
    Effect,
    EffectState,
    Outcome,
    Release,
)
from worklease.api.worklease import Phase, WorkLease
from worklease.client.deciding import finishing
from worklease.client.effects import ReportedEffect, appending, moving, new_effect, room
from worklease.client.handoffs import Desk, Offer
from worklease.client.holding import Holding, ended
from worklease.client.identity import Identity
from worklease.client.reading import parsed
from worklease.client.reclaiming import reclaim
from worklease.client.refusals import needs_held, statement_refusal
from worklease.client.speech import Patch, Speech, stating
from worklease.client.timing import FINAL, Standing
from worklease.errors import ApiError, EffectFailed, LeaseError, Refused, StatementRefused
from worklease.fencing.token import Token
from worklease.kube.swap import TEST_FAILED, read
from worklease.protocol.moments import rfc3339

RELEASE_SECONDS = 5.0
RECORD_SECONDS = 2.0
"""How long the record of an effect may take when the block is being ended."""
SEEN_SECONDS = 5.0
"""How long the operator may take to see a renewal that was accepted in jeopardy."""
RETRIES_MAX = 5
WORDS_MAX = 1024
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]+")


class Lease:
    """What `async with worklease.hold(...) as lease` gives. Everything it says names its epoch."""

    def __init__(self, holding: Holding, desk: Desk) -> None:
        self._holding = holding
        self._desk = desk

    @property
    def identity(self) -> Identity:
        """As whom it is held."""
        return self._desk.identity

    def __repr__(self) -> str:
        return f"<Lease {self.key} epoch {self.epoch} {self.standing}>"

    @property
    def key(self) -> str:
        """NAMESPACE/NAME of the work item."""
        return self._holding.key

    @property
    def epoch(self) -> int:
        """The fencing epoch of this tenure; another one after reclaim()."""
        return self._holding.epoch

    @property
    def claim_id(self) -> str:
        """The id of the claim that was granted."""
        return self._holding.claim_id

    @property
    def token(self) -> Token:
        """The fencing token for recipients: `.to_headers()`, `.to_environ()`, or `str()` of it for a SQL session."""
        return Token(self.key, self.epoch, self.claim_id)

    def field_manager(self, name: str) -> str:
        """NAME@EPOCH: the field manager of a write to a fenced Kubernetes object. Raises ValueError when too long."""
        return self.token.field_manager(name)

    @property
    def standing(self) -> Standing:
        """Held, Jeopardy or Lost, by the clock at this instant; Ended after the holder's own word."""
        return self._holding.standing

    @property
    def deadline(self) -> float:
        """Until when effects are permitted unless a renewal moves it, on `worklease.boot_seconds()`."""
        return self._holding.belief.deadline

    @property
    def expiry(self) -> float:
        """By when the block is cancelled unless a renewal moves it: from then on the work may be another's."""
        return self._holding.belief.expiry

    def now(self) -> float:
        """The time on the clock of `deadline` and `expiry`."""
        return self._holding.clock()

    @property
    def trouble(self) -> str | None:
        """Why the last renewal is not known to be accepted; None when it is."""
        return self._holding.trouble

    @property
    def work(self) -> WorkLease:
        """The work item as it was in the latest answer."""
        return self._holding.work

    async def standing_changed(self, standing: Standing) -> Standing:
        """Waits until the standing is another than this one, and returns it."""
        return await self._holding.changed(standing)

    def require_held(self) -> None:
        """Raises LeaseInJeopardy or LeaseLost unless effects are permitted at this instant."""
        self._holding.require(held=True)

    def progress(self) -> None:
        """The work is alive: puts off the end of `max_silence_seconds`. Statements and effects do so too."""
        self._holding.progressed()

    async def renew(self) -> None:
        """Renews now rather than in due time, and waits until that is accepted. Raises LeaseLost."""
        await self._holding.renewed()

    def let_lapse(self) -> None:
        """Ends belief and renewing, and says nothing: the work is free once the lease has lapsed."""
        self._holding.finish()

    @contextlib.asynccontextmanager
    async def effect(
        self, recipient: str, action: str, *, digest: str | None = None, id: str | None = None
    ) -> AsyncIterator[ReportedEffect]:
        """One effect outside: logged as Attempted before the body runs, and as what became of it afterwards.

        Succeeded when the body ends, Failed when it raises EffectFailed, Unknown when it raises anything else or is
        cancelled: then the recipient may have got it. Raises LeaseInJeopardy or LeaseLost before the body runs, and
        EffectsUnreconciled while an earlier tenure's effect is still Attempted.
        """
        async with self._holding.turns.effect(), self._logged(recipient, action, digest, id) as reported:
            yield reported

    @contextlib.asynccontextmanager
    async def _logged(
        self, recipient: str, action: str, digest: str | None, id: str | None
    ) -> AsyncIterator[ReportedEffect]:
        self.require_held()
        if not self.effects_left:
            said = f"the log holds {EFFECTS_MAX} effects of this tenure: go on under a fresh epoch, by reclaim()"
            raise StatementRefused(self.key, said)
        logged = new_effect(id, self.epoch, recipient, action, digest, self._now())
        begun = self._say(
            lambda: appending(logged, self.work),
            lambda work: any(effect.id == logged.id and effect.epoch == self.epoch for effect in work.spec.effects),
            ends=self._holding.belief.deadline,
        )
        try:
            await finishing(begun, RECORD_SECONDS)
            self.require_held()  # writing took time
        except LeaseError:
            await self._not_sent(logged.id, "the lease was not certain")
            raise
        except asyncio.CancelledError:
            await self._not_sent(logged.id, "cancelled")
            raise
        reported = ReportedEffect(logged, self.token)
        try:
            yield reported
        except EffectFailed as failure:
            await self._record(logged.id, EffectState.FAILED, str(failure) or reported.detail)
            raise
        except Exception as error:
            await self._record_briefly(logged.id, EffectState.UNKNOWN, reported.detail or type(error).__name__)
            raise
        except BaseException:
            await self._record_briefly(logged.id, EffectState.UNKNOWN, reported.detail or "cancelled")
            raise
        await self._record(logged.id, EffectState.SUCCEEDED, reported.detail)

    async def _not_sent(self, id: str, why: str) -> None:
        """What was logged, if it was, is certain not to happen."""
        if any(effect.id == id for effect in self.work.spec.effects):
            await self._record_briefly(id, EffectState.FAILED, f"it was not sent: {why}")

    @property
    def effects_left(self) -> int:
        """How many more effects this tenure may log; with none left, reclaim() gives a fresh epoch."""
        return room(self.work, self.epoch)

    async def unreconciled(self) -> tuple[Effect, ...]:
        """The effects whose outcome is not known, those of earlier tenures included."""
        await self._look()
        return tuple(effect for effect in self.work.spec.effects if effect.state in UNRECONCILED)

    async def reconcile(self, id: str, state: EffectState | str, detail: str = "") -> None:
        """Says what became of an effect: Succeeded, Failed or Compensated; Unknown when it cannot be found out."""
        async with self._holding.turns.statement():
            self._holding.require(held=False)
            await self._look()
            wanted = EffectState(state)
            stored = next((effect for effect in self.work.spec.effects if effect.id == id), None)
            if stored is None:
                raise StatementRefused(self.key, f"there is no effect {id}")
            if stored.state is EffectState.ATTEMPTED and wanted is EffectState.COMPENSATED:
                await self._record(id, EffectState.UNKNOWN, detail)
            await self._record(id, wanted, detail)

    async def _record(self, id: str, state: EffectState, detail: str | None) -> None:
        await self._recorded(id, state, detail, max(self._holding.belief.expiry, self._soon()))

    async def _record_briefly(self, id: str, state: EffectState, detail: str) -> None:
        """While another error is on its way: when it fails the effect stays Attempted, to be reconciled."""
        with contextlib.suppress(Exception):
            await self._recorded(id, state, detail, min(self._holding.belief.expiry, self._soon()))

    async def _recorded(self, id: str, state: EffectState, detail: str | None, ends: float) -> None:
        """Cancelled, it goes on for a moment: an outcome that is known is not left unwritten for that."""
        at = self._now()
        saying = self._say(
            lambda: moving(self.work, id, state, words(detail or ""), at),
            lambda work: any(effect.id == id and effect.state is state for effect in work.spec.effects),
            ends=ends,
        )
        await finishing(saying, RECORD_SECONDS)

    def _soon(self) -> float:
        return self._holding.clock() + RECORD_SECONDS

    async def checkpoint(self, uri: str, digest: str) -> None:
        """Says where the work stands, for whoever continues it. Allowed in jeopardy."""

        def patch() -> Patch:
            stored = self.work.spec.checkpoint
            previous = stored.digest if stored else ""
            return stating(checkpoint=_checkpoint(self.epoch, uri, digest, previous).manifest())

        def said(work: WorkLease) -> bool:
            stored = work.spec.checkpoint
            return stored is not None and (stored.epoch, stored.uri, stored.digest) == (self.epoch, uri, digest)

        async with self._holding.turns.statement():
            self._holding.require(held=False)
            await self._say(patch, said, ends=self._holding.belief.expiry)

    async def complete(self, message: str, outcome: Outcome | str = Outcome.SUCCEEDED) -> None:
        """Declares the work done. With it this tenure ends; the block goes on to its end without a lease."""
        async with self._holding.turns.statement(), self._holding.ending:
            self.require_held()
            completion = Completion(epoch=self.epoch, outcome=Outcome(outcome), message=words(message))
            await self._say(
                lambda: stating(completion=completion.manifest()),
                lambda work: work.spec.completion == completion,
                ends=self._holding.belief.deadline,
            )
            self._holding.finish()

    async def hand_over(
        self,
        to: str,
        *,
        instance: str | None = None,
        subject: str | None = None,
        message: str | None = None,
        context_uri: str | None = None,
        context_digest: str | None = None,
        accept_within_seconds: int | None = None,
        claim_within_seconds: int | None = None,
    ) -> Offer:
        """Offers this tenure, with its checkpoint, to the user `to` (and to one instance of it, if given).

        The lease is held, and renewed, until the target's claim is granted: `await offer.settled()` waits for what
        becomes of it. Once accepted, no new effects are admitted here.
        """
        async with self._holding.turns.statement():
            self._holding.require(held=False)
            stored = self.work.spec.checkpoint
            spec = HandoffSpec(
                work_lease_name=self.work.metadata.name,
                epoch=self.epoch,
                from_=self.identity.username,
                from_instance=self.identity.instance,
                to=Target(holder_identity=to, instance=instance),
                subject=subject,
                message=message,
                context_ref=ContextRef(uri=context_uri, digest=context_digest) if context_uri else None,
                checkpoint=OfferedCheckpoint(uri=stored.uri, digest=stored.digest) if stored else None,
                **_given(accept_within_seconds=accept_within_seconds, claim_within_seconds=claim_within_seconds),
            )
            return await self._desk.offer(self.work.metadata.namespace, spec, self._holding)

    async def reclaim(self, purpose: str | None = None) -> None:
        """Claims the work again, for the same holder: the block goes on under a fresh epoch, with a log that has room.

        `purpose` is what goes into the history; None keeps it. The lease takes the durations that spec has now. Effects
        that begin meanwhile wait for it. Raises EffectsUnreconciled while an effect is under way, ClaimRefused when the
        old epoch goes on (WorkIsReserved once a handoff has taken effect). A call that is cancelled goes on by itself.
        One that comes while another is under way, for the same purpose or none, has its outcome; for another purpose it
        claims after that.
        """
        await self._holding.reclaim(lambda: reclaim(self._desk, self._holding, purpose), purpose)

    async def release(self, reason: str) -> None:
        """Gives the work back unfinished, now. Belief ends before it is tried; nothing is raised when it fails."""
        if self._holding.finish() in FINAL:
            raise self._holding.lost()
        await finishing(self._give_back(reason), RELEASE_SECONDS)

    async def _give_back(self, reason: str) -> None:
        """The release itself, after belief has ended: bounded, and silent about failure, since the lease lapses.

        But for one: a tenure that had been revoked before was lost, which the end of the block says.
        """
        now = self._holding.clock()
        ends = min(now + RELEASE_SECONDS, self._holding.belief.expiry)
        release = Release(epoch=self.epoch, reason=words(reason))
        with contextlib.suppress(Exception):
            try:
                await self._speech(lambda work: work.spec.release == release, ends).patch(
                    lambda: stating(release=release.manifest())
                )
            except Refused:
                await self._holding.look_for_revocation()

    async def _say(self, patch: Callable[[], Patch], said: Callable[[WorkLease], bool], *, ends: float) -> None:
        """Says something whose patch depends on what is stored; again when that has changed in the meantime."""
        for attempt in range(RETRIES_MAX):
            try:
                self._holding.see(await self._speech(said, ends).patch(patch))
            except Refused as error:
                if attempt + 1 < RETRIES_MAX:
                    if TEST_FAILED in str(error):
                        await self._look()
                        if said(self.work):
                            break
                        continue
                    if needs_held(error) and await self._is_certain_again(ends):
                        continue
                await self._holding.look_for_end()
                raise statement_refusal(self.key, error) from error
            break
        self._holding.progressed()

    async def _is_certain_again(self, ends: float) -> bool:
        """Whether status was only behind: renewed in jeopardy, a holder is certain before the operator has said so."""
        if self._holding.standing is not Standing.HELD:
            return False
        metadata = self.work.metadata
        changes = self._desk.follower.follow(metadata.namespace, metadata.name)
        with contextlib.suppress(ApiError, TimeoutError):
            async with (
                asyncio.timeout(min(SEEN_SECONDS, ends - self._holding.clock())),
                contextlib.aclosing(changes),
            ):
                while True:
                    work = parsed(WorkLease, await anext(changes))
                    if ended(work, self.epoch) is not None or work.status.successor is not None:
                        return False
                    if work.status.phase is Phase.HELD:
                        return True
        return False

    def _speech(self, said: Callable[[WorkLease], bool], ends: float) -> Speech[WorkLease]:
        metadata = self.work.metadata
        return Speech(
            self._holding.session,
            WorkLease,
            metadata.namespace,
            metadata.name,
            said=said,
            clock=self._holding.clock,
            ends=lambda: ends,
            request_seconds=self._holding.belief.terms.request_seconds,
        )

    async def _look(self) -> None:
        metadata = self.work.metadata
        self._holding.see(parsed(WorkLease, await read(self._holding.session, metadata.namespace, metadata.name)))

    def _now(self) -> str:
        return rfc3339(self._holding.session.server_clock.now())

    @property
    def is_handed_over(self) -> bool:
        """An accepted handoff has taken effect: the target may claim, and no new effects are admitted."""
        status = self.work.status
        return status.phase is Phase.HELD and status.successor is not None


def words(text: str) -> str:
    """A sentence as the API takes it: on one line, and not too long."""
    return _CONTROLS.sub(" ", text)[:WORDS_MAX]


def _given(**values: int | None) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _checkpoint(epoch: int, uri: str, digest: str, previous: str) -> Checkpoint:
    return Checkpoint(epoch=epoch, uri=uri, digest=digest, previous_digest=previous)
