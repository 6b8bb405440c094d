"""Handoffs, from what was seen to what is stored. The WorkLease is swapped first: what it says, the handoff repeats.

Handoffs that are resolved and bear on nothing any more are forgotten but for their version. What is done at once for
one lease does not grow with the number of offers that name it.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from worklease.api.handoff import Handoff, HandoffPhase
from worklease.api.worklease import Successor, WorkLease
from worklease.controller import stalls
from worklease.controller.agenda import Agenda
from worklease.controller.clock import WatchClock
from worklease.controller.metrics import Metrics
from worklease.controller.recorder import Recorder
from worklease.controller.view import View, revision_of, version_of
from worklease.errors import ApiError, Conflict, NotFound, Unreadable
from worklease.kube import swap
from worklease.kube.session import Session
from worklease.protocol.decide import Notice
from worklease.protocol.handoffs import OPEN, TAKEN, HandoffDecision, decide_handoff, is_accepted
from worklease.protocol.reasons import EventReason, StallReason

logger = logging.getLogger(__name__)

WORKERS = 4
CONFLICTS_MAX = 20
AT_ONCE = 50
"""How many handoffs of one lease are decided on before others have their turn."""


class Handoffs:
    """Every handoff that is open, by uid and by the lease that it names."""

    def __init__(
        self,
        session: Session,
        clock: WatchClock,
        leases: View,
        metrics: Metrics,
        recorder: Recorder,
        head_start_seconds: Callable[[str], float],
        reconsider: Callable[[str], None],
    ) -> None:
        self._session = session
        self._clock = clock
        self._leases = leases
        self._metrics = metrics
        self._recorder = recorder
        self._reconsider = reconsider
        self._kept: dict[str, Handoff] = {}
        self._by_lease: defaultdict[str, dict[str, Handoff]] = defaultdict(dict)
        self._bearing: defaultdict[str, dict[str, Handoff]] = defaultdict(dict)
        """Those of a lease that bear on it: accepted, or with an acceptance that has taken effect."""
        self._changed: dict[str, None] = {}
        self._lease_changed = asyncio.Event()
        self._versions: dict[str, int] = {}
        self.agenda = Agenda(clock, self._settle, head_start_seconds, self._defect)
        metrics.queued.labels("Handoff").set_function(self.agenda.__len__)

    def heard(self) -> None:
        """An event of the watch has come."""
        self._metrics.events.labels("Handoff").inc()

    def see(self, raw: dict[str, Any]) -> None:
        """Take note of a handoff as the server has it, and act if it asks for that."""
        handoff = self._take(raw)
        if handoff is not None:
            if handoff.spec.response is not None:  # else the lease has nothing to do with it
                self._reconsider(handoff.lease_key)
            self._consider(handoff)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        known = self._drop(uid)
        self._versions.pop(uid, None)
        self.agenda.forget(uid)
        if known is not None:  # the lease may have waited for what it had to say
            self._reconsider(known.lease_key)

    def of(self, lease: WorkLease) -> tuple[Handoff, ...]:
        """Those that a decision on this lease takes into account."""
        bearing = dict(self._bearing.get(lease.key, {}))
        if lease.status.successor is not None:
            reserving = self._kept.get(lease.status.successor.handoff_uid)
            if reserving is not None:
                bearing[reserving.metadata.uid] = reserving
        return tuple(bearing.values())

    async def confirm(self, lease: WorkLease, reservation: Successor, *, making: bool) -> None:
        """Make sure that what is known of the handoff behind a reservation bears a decision on `lease`.

        A reservation stays on the lease until its handoff says Accepted itself. So a handoff that was Pending after the
        lease was written last has not taken effect before; how far behind the watch of handoffs is does not matter.
        """
        uid = reservation.handoff_uid
        if uid in self._kept and (not making or self._versions[uid] > revision_of(lease.metadata.resource_version)):
            return
        try:
            raw = await swap.read(self._session, lease.metadata.namespace, reservation.handoff, plural="handoffs")
        except NotFound:
            self.forget(uid)
            return
        if raw["metadata"]["uid"] != uid:
            self.forget(uid)
        self.see(raw)

    def lease_changed(self, lease: WorkLease) -> None:
        """Have the open handoffs that name it decided on again."""
        self._changed[lease.key] = None
        self._lease_changed.set()

    async def follow(self) -> None:
        """Decide on the handoffs of leases that have changed, for as long as the operator runs."""
        while True:
            await self._lease_changed.wait()
            self._lease_changed.clear()
            while self._changed:
                key = next(iter(self._changed))
                del self._changed[key]
                for number, uid in enumerate(tuple(self._by_lease.get(key, ()))):
                    if number % AT_ONCE == AT_ONCE - 1:
                        await asyncio.sleep(0)
                    if (handoff := self._kept.get(uid)) is not None:
                        self._follow(handoff)

    def _follow(self, handoff: Handoff) -> None:
        try:
            self._consider(handoff)
        except Exception:
            self._metrics.defects.labels("follow").inc()
            logger.exception("handoff %s could not be decided on", handoff.key)

    def _defect(self, uid: str) -> None:
        """Deciding on a handoff raised what nobody expected."""
        handoff = self._kept.get(uid)
        self._metrics.defects.labels("settle").inc()
        logger.exception("handoff %s could not be decided on; it is tried again later", handoff.key if handoff else uid)

    def _take(self, raw: dict[str, Any]) -> Handoff | None:
        """The handoff in `raw`; None when it is not newer than what is known, cannot be read, or is resolved."""
        uid, version = raw["metadata"]["uid"], version_of(raw)
        if version <= self._versions.get(uid, 0):
            return None
        self._versions[uid] = version
        known = self._drop(uid)
        try:
            handoff = Handoff.model_validate(raw)
        except ValidationError as error:
            metadata = raw["metadata"]
            explanation = stalls.explain(error)
            logger.error("handoff %s/%s cannot be read: %s", metadata["namespace"], metadata["name"], explanation)
            self._metrics.stalled.labels(StallReason.UNREADABLE.value).inc()
            notice = Notice(EventReason.STALLED, f"this object cannot be read: {explanation}", warning=True)
            self._recorder.record("Handoff", metadata["namespace"], metadata["name"], uid, (notice,))
            if known is not None:
                self._reconsider(known.lease_key)
            return None
        if handoff.status.phase in OPEN:
            self._keep(handoff)
        elif handoff.status.phase is HandoffPhase.LAPSED:  # only that it was is of interest, until the epoch moves on
            spec = handoff.spec.model_copy(update={"message": None, "context_ref": None})
            self._keep(handoff.model_copy(update={"spec": spec}))
        return handoff

    def _keep(self, handoff: Handoff) -> None:
        uid, key = handoff.metadata.uid, handoff.lease_key
        self._kept[uid] = handoff
        self._by_lease[key][uid] = handoff
        if handoff.status.phase in TAKEN or is_accepted(handoff):
            self._bearing[key][uid] = handoff

    def _drop(self, uid: str) -> Handoff | None:
        known = self._kept.pop(uid, None)
        if known is not None:
            for index in (self._by_lease, self._bearing):
                siblings = index.get(known.lease_key, {})
                siblings.pop(uid, None)
                if not siblings:
                    index.pop(known.lease_key, None)
        return known

    def _consider(self, handoff: Handoff) -> None:
        uid, entry = handoff.metadata.uid, self._leases.by_key(handoff.lease_key)
        lapsed = handoff.status.phase is HandoffPhase.LAPSED
        if lapsed and entry is not None and entry.lease.status.epoch != handoff.status.epoch:
            self._drop(uid)
            return
        decision = self._decide(handoff, entry.lease if entry is not None else None)
        if decision.status is None:
            self.agenda.at(uid, decision.wake_at)
        else:
            self.agenda.now(uid)

    def _decide(self, handoff: Handoff, lease: WorkLease | None) -> HandoffDecision:
        uid, bearing = handoff.metadata.uid, self._bearing.get(handoff.lease_key, {})
        others = tuple(one for one in bearing.values() if one.metadata.uid != uid and one.status.phase in TAKEN)
        return decide_handoff(handoff, lease, self._clock.moment(), others=others)

    async def _settle(self, uid: str) -> None:
        for _ in range(CONFLICTS_MAX):
            handoff = self._kept.get(uid)
            if handoff is None:
                self.agenda.forget(uid)
                return
            try:
                # What the handoff says was said before now, so the lease must be read now, not as the watch had it.
                lease = await self._read_lease(handoff)
                decision = self._decide(handoff, lease)
                if decision.status is None:
                    self.agenda.settled(uid, decision.wake_at)
                    return
                stored = await swap.swap(self._session, handoff, decision.status)
            except Conflict:
                self._metrics.swaps.labels("lost").inc()
                if not await self._read_again(handoff):
                    return
            except NotFound:
                self._metrics.swaps.labels("gone").inc()
                self.forget(uid)
                return
            except ApiError as error:
                self._failed(uid, handoff, error)
                return
            else:
                self.agenda.succeeded(uid)
                self._won(handoff, decision)
                self.see(stored)

    async def _read_lease(self, handoff: Handoff) -> WorkLease | None:
        try:
            raw = await swap.read(self._session, handoff.metadata.namespace, handoff.spec.work_lease_name)
        except NotFound:
            return None
        try:
            return WorkLease.model_validate(raw)
        except ValidationError as error:
            raise Unreadable(f"worklease {handoff.lease_key} cannot be read: {stalls.explain(error)}") from error

    async def _read_again(self, handoff: Handoff) -> bool:
        """Put the handoff as it is now into the view; whether it is still there, and could be read."""
        metadata = handoff.metadata
        try:
            raw = await swap.read(self._session, metadata.namespace, metadata.name, plural="handoffs")
        except NotFound:
            self.forget(metadata.uid)
            return False
        except ApiError as error:
            self._failed(metadata.uid, handoff, error)
            return False
        if raw["metadata"]["uid"] != metadata.uid:
            self.forget(metadata.uid)
        self.see(raw)
        return True

    def _failed(self, uid: str, handoff: Handoff, error: ApiError) -> None:
        self._metrics.swaps.labels("failed").inc()
        delay = self.agenda.failed(uid, hopeless=not error.may_pass)
        level = logging.WARNING if error.may_pass else logging.ERROR
        logger.log(level, "a status of handoff %s was not stored (%s); next try in %.1f s", handoff.key, error, delay)

    def _won(self, handoff: Handoff, decision: HandoffDecision) -> None:
        metadata = handoff.metadata
        self._metrics.swaps.labels("won").inc()
        for notice in decision.notices:
            self._metrics.handoffs.labels(notice.reason.value).inc()
            logger.info("handoff %s: %s: %s", handoff.key, notice.reason.value, notice.note)
        self._recorder.record("Handoff", metadata.namespace, metadata.name, metadata.uid, decision.notices)

    async def resync_once(self, namespaces: tuple[str, ...]) -> None:
        """List everything: gaps of a watch swallow deletions."""
        before, listed = set(self._versions), set()
        for namespace in namespaces or ("",):
            async for page, _ in swap.read_pages(self._session, namespace, plural="handoffs"):
                for raw in page:
                    listed.add(raw["metadata"]["uid"])
                    self.see(raw)
        for uid in before - listed:
            self.forget(uid)
