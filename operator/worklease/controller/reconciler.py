"""From what was seen to what is stored: observe, decide, swap; and again when the swap was lost.

Every object is settled by one worker at a time. The swap is the safety: whatever this operator believes, status is
written only over exactly what the decision was made from.
"""

import logging
import time
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError

from worklease.api.handoff import Handoff
from worklease.api.worklease import Successor, WorkLease
from worklease.controller import stalls
from worklease.controller.agenda import Agenda
from worklease.controller.clock import WatchClock
from worklease.controller.metrics import Metrics
from worklease.controller.pulse import Pulse
from worklease.controller.recorder import Recorder
from worklease.controller.view import Entry, View, version_of
from worklease.errors import ApiError, Conflict, NotFound
from worklease.kube import swap
from worklease.kube.session import Session
from worklease.protocol import handoffs as handoff_rules
from worklease.protocol.decide import Decision, Notice, decide
from worklease.protocol.observation import last_heard, observe
from worklease.protocol.reasons import ConditionName, EventReason, StallReason

logger = logging.getLogger(__name__)

WORKERS = 16
OTHERS_HEAD_START_SECONDS = 0.25
"""How long a replica waits with the objects of another one: what a dead replica costs, and why two do not fight."""
CONFLICTS_MAX = 20


class Confirm(Protocol):
    """Makes sure of the handoff behind a reservation, before a decision about it is stored."""

    def __call__(self, lease: WorkLease, reservation: Successor, *, making: bool) -> Awaitable[None]: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """How this replica decides."""

    floor: int = 0
    ordinal: int = 0
    replicas: int = 1
    trust_server_times: bool = True

    def head_start_seconds(self, uid: str) -> float:
        """How long this replica leaves an object to another one."""
        return 0.0 if zlib.crc32(uid.encode()) % self.replicas == self.ordinal else OTHERS_HEAD_START_SECONDS


class Reconciler:
    """Holds the view, the deadlines and the queue of what is to be settled."""

    def __init__(
        self,
        session: Session,
        pulse: Pulse,
        clock: WatchClock,
        view: View,
        metrics: Metrics,
        recorder: Recorder,
        settings: Settings,
        handoffs_of: Callable[[WorkLease], tuple[Handoff, ...]],
        on_change: Callable[[WorkLease], None],
        confirm: Confirm,
    ) -> None:
        """`handoffs_of` are those that a decision on a lease takes into account; `on_change` hears of each lease."""
        self._handoffs_of = handoffs_of
        self._on_change = on_change
        self._confirm = confirm
        self._session = session
        self._pulse = pulse
        self._clock = clock
        self._view = view
        self._metrics = metrics
        self._recorder = recorder
        self._settings = settings
        self.agenda = Agenda(clock, self._settle, settings.head_start_seconds, self._defect)
        metrics.queued.labels("WorkLease").set_function(self.agenda.__len__)
        self._unreadable: dict[str, stalls.Unreadable] = {}

    def heard(self) -> None:
        """An event of the watch has come."""
        self._metrics.events.labels("WorkLease").inc()

    def see(self, raw: dict[str, Any]) -> None:
        """Take note of an object as the server has it, and act if it asks for that."""
        entry = self._take(raw)
        if entry is not None:
            self._consider(entry)

    def reconsider(self, key: str) -> None:
        """Something else that bears on the lease namespace/name has changed."""
        entry = self._view.by_key(key)
        if entry is not None:
            self._consider(entry)

    def _consider(self, entry: Entry) -> None:
        decision = self._decide(entry)
        if decision.status is None:
            self.agenda.at(entry.uid, decision.wake_at)
        else:
            self.agenda.now(entry.uid)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        known = self._drop(uid)
        if known is not None:
            self._on_change(known.lease)

    def _drop(self, uid: str) -> Entry | None:
        self._unreadable.pop(uid, None)
        self.agenda.forget(uid)
        return self._view.drop(uid)

    def _take(self, raw: dict[str, Any]) -> Entry | None:
        """Put `raw` into the view; None when it is not newer than what is known, or cannot be read."""
        uid, version = raw["metadata"]["uid"], version_of(raw)
        known = self._view.get(uid)
        if known is not None and version <= known.version:
            return None
        entry = self._entry(raw)
        if entry is not None:
            self._unreadable.pop(uid, None)
            self._view.put(entry)
            if known is None or _told(known.lease) != _told(entry.lease):
                self._on_change(entry.lease)
        return entry

    def _entry(self, raw: dict[str, Any]) -> Entry | None:
        """`raw` with what has been observed of it, older than the view or not; None when it cannot be read."""
        uid, version = raw["metadata"]["uid"], version_of(raw)
        try:
            lease = WorkLease.model_validate(raw)
        except ValidationError as error:
            self._cannot_read(raw, uid, version, error)
            return None
        known = self._view.get(uid)
        previous = known.observation if known is not None else None
        heard = None
        # A tenure that began before our eyes is timed from then: what the server says bounds only what was not seen.
        status = lease.status
        moved = previous is not None and previous.epoch == status.epoch and previous.phase is not status.phase
        if (known is None or moved) and self._settings.trust_server_times:
            heard = last_heard(lease, raw["metadata"].get("managedFields"))
        observation = observe(previous, lease, self._clock.moment(), heard)
        return Entry(uid, version, lease, observation, _claimed_at(known, lease))

    def _cannot_read(self, raw: dict[str, Any], uid: str, version: int, error: ValidationError) -> None:
        known = self._unreadable.get(uid)
        if known is not None and version <= known.version:
            return
        explanation = stalls.explain(error)
        said = known is not None and known.said and known.explanation == explanation
        self._drop(uid)
        self._unreadable[uid] = stalls.Unreadable(version, raw, explanation, said)
        self.agenda.now(uid)

    def _decide(self, entry: Entry) -> Decision:
        return decide(
            entry.lease,
            entry.observation,
            self._clock.moment(),
            floor=self._settings.floor,
            handoffs=self._handoffs_of(entry.lease),
        )

    async def _settle(self, uid: str) -> None:
        if (unreadable := self._unreadable.get(uid)) is not None:
            await self._say_unreadable(uid, unreadable)
            return
        conflicts, proven, raw, entry = 0, False, None, self._view.get(uid)
        confirmed: Entry | None = None
        if entry is None:
            self.agenda.forget(uid)
        while entry is not None:
            decision = self._decide(entry)
            if decision.status is None:
                self.agenda.settled(uid, decision.wake_at)
                return
            if is_timed(decision) and not proven and not self._pulse.fresh():
                proven, raw = True, await self._read_again(entry)
                entry = None if raw is None else self._entry(raw)
                continue
            reservation = handoff_rules.at_stake(entry.lease.status, decision.status)
            if reservation is not None and confirmed is not entry:
                confirmed = entry
                try:
                    making = decision.status.successor is not None
                    await self._confirm(entry.lease, reservation, making=making)
                except ApiError as error:
                    self._failed(uid, entry.lease.key, error)
                    return
                continue
            try:
                if not conflicts or raw is None:
                    stored = await swap.swap(self._session, entry.lease, decision.status)
                else:
                    stored = await swap.swap_tested(self._session, entry.lease, raw, decision.status)
            except Conflict as conflict:
                self._metrics.swaps.labels("lost").inc()
                conflicts += 1
                if conflicts > CONFLICTS_MAX:
                    self._failed(uid, entry.lease.key, conflict)
                    return
                raw = await self._read_again(entry)
                entry = None if raw is None else self._entry(raw)
            except NotFound:
                self._metrics.swaps.labels("gone").inc()
                self.forget(uid)
                return
            except ApiError as error:
                self._failed(uid, entry.lease.key, error)
                return
            else:
                self._won(entry, decision, self.agenda.succeeded(uid))
                self._take(stored)
                conflicts, raw, entry = 0, None, self._view.get(uid)

    def _defect(self, uid: str) -> None:
        """Deciding on an object raised what nobody expected."""
        entry = self._view.get(uid)
        self._metrics.defects.labels("settle").inc()
        logger.exception("%s could not be decided on; it is tried again later", entry.lease.key if entry else uid)

    async def _read_again(self, entry: Entry) -> dict[str, Any] | None:
        """The object as it is now, also put into the view; None when it is gone or cannot be read now."""
        metadata = entry.lease.metadata
        try:
            raw = await swap.read(self._session, metadata.namespace, metadata.name)
        except NotFound:
            self.forget(entry.uid)
            return None
        except ApiError as error:
            self._failed(entry.uid, entry.lease.key, error)
            return None
        if raw["metadata"]["uid"] != entry.uid:
            self.forget(entry.uid)
            self.see(raw)
            return None
        self._take(raw)
        return raw

    async def _say_unreadable(self, uid: str, unreadable: stalls.Unreadable) -> None:
        metadata = unreadable.raw["metadata"]
        if not unreadable.said:
            unreadable.said = True
            self._metrics.stalled.labels(StallReason.UNREADABLE.value).inc()
            logger.error("%s/%s cannot be read: %s", metadata["namespace"], metadata["name"], unreadable.explanation)
            notice = Notice(EventReason.STALLED, f"this object cannot be read: {unreadable.explanation}", warning=True)
            self._recorder.record("WorkLease", metadata["namespace"], metadata["name"], uid, (notice,))
        try:
            await stalls.mark(self._session, unreadable)
        except Conflict:
            return  # it has changed since, and will be seen again
        except ApiError as error:
            logger.warning(
                "condition Stalled of %s/%s was not stored: %s", metadata["namespace"], metadata["name"], error
            )
            if error.may_pass:
                self.agenda.failed(uid)

    def _failed(self, uid: str, key: str, error: ApiError) -> None:
        """Whether the swap took effect may be unknown: the object itself will tell, when it is read again."""
        self._metrics.swaps.labels("failed").inc()
        too_large = "too large" in str(error).lower()
        if too_large:
            self._metrics.too_large.inc()
        delay = self.agenda.failed(uid, hopeless=too_large or not error.may_pass)
        level = logging.WARNING if error.may_pass else logging.ERROR
        logger.log(level, "a status of %s was not stored (%s); next try in %.1f s", key, error, delay)

    def _won(self, entry: Entry, decision: Decision, due_at: float | None) -> None:
        assert decision.status is not None
        before, after = entry.lease.status, decision.status
        self._metrics.swaps.labels("won").inc()
        if decision.refusal is not None:
            self._metrics.refusals.labels(decision.refusal.value).inc()
        if after.epoch > before.epoch and after.grant_reason and after.claim_id != before.claim_id:
            self._metrics.grants.labels(after.grant_reason).inc()
            self._metrics.grant_seconds.observe(time.monotonic() - entry.claimed_at)
        for tenure in after.history:
            if tenure.end_reason and tenure not in before.history:
                self._metrics.ends.labels(tenure.end_reason).inc()
        if due_at is not None and is_timed(decision):
            self._metrics.lateness.observe(max(0.0, self._clock.seconds() - due_at))
        for condition in after.conditions:
            if condition.type == ConditionName.STALLED and condition.status == "True":
                self._metrics.stalled.labels(condition.reason).inc()
        metadata = entry.lease.metadata
        self._recorder.record("WorkLease", metadata.namespace, metadata.name, metadata.uid, decision.notices)
        for notice in decision.notices:
            logger.log(
                logging.WARNING if notice.reason is EventReason.STALLED else logging.INFO,
                "%s: %s",
                entry.lease.key,
                notice.note,
                extra={"worklease": entry.lease.key, "reason": notice.reason.value, "epoch": after.epoch},
            )

    async def resync_once(self, namespaces: tuple[str, ...]) -> None:
        """List everything: gaps of a watch swallow deletions."""
        before = {*self._view.uids(), *self._unreadable}
        listed: set[str] = set()
        for namespace in namespaces or ("",):
            async for page, _ in swap.read_pages(self._session, namespace):
                for raw in page:
                    listed.add(raw["metadata"]["uid"])
                    self.see(raw)
        for uid in before - listed:
            self.forget(uid)


def _claimed_at(known: Entry | None, lease: WorkLease) -> float:
    """When the claim that the lease carries was seen first."""
    if known is not None and known.lease.spec.claim == lease.spec.claim:
        return known.claimed_at
    return time.monotonic()


def _told(lease: WorkLease) -> tuple[Any, ...]:
    """What a handoff of the lease goes by: not its renewals."""
    return lease.status, lease.spec.checkpoint, lease.spec.revocation, lease.metadata.deletion_timestamp


_TIMED = frozenset({EventReason.JEOPARDY, EventReason.EXPIRED})


def is_timed(decision: Decision) -> bool:
    """It rests on a renewal that was not seen."""
    return any(notice.reason in _TIMED for notice in decision.notices)
