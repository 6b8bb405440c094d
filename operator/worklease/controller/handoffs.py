"""Handoffs, from what was seen to what is stored. The WorkLease is swapped first: what it says, the handoff repeats.

Handoffs that are resolved and bear on nothing any more are forgotten but for their version.
"""

import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from worklease.api.handoff import Handoff, HandoffPhase
from worklease.api.worklease import Successor, WorkLease
from worklease.controller.agenda import Agenda
from worklease.controller.clock import WatchClock
from worklease.controller.metrics import Metrics
from worklease.controller.recorder import Recorder
from worklease.controller.view import View, revision_of, version_of
from worklease.errors import ApiError, Conflict, NotFound, Refused
from worklease.kube import swap
from worklease.kube.session import Session
from worklease.protocol.handoffs import OPEN, HandoffDecision, decide_handoff

logger = logging.getLogger(__name__)

WORKERS = 4
CONFLICTS_MAX = 20
KEPT = OPEN | {HandoffPhase.LAPSED}
"""Phases that a decision on the WorkLease takes into account."""


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
        self._versions: dict[str, int] = {}
        self.agenda = Agenda(clock, self._settle, head_start_seconds)

    # ------------------------------------------------------------------------------------------------------- seeing
    def see(self, raw: dict[str, Any]) -> None:
        """Take note of a handoff as the server has it, and act if it asks for that."""
        self._metrics.events.labels("Handoff").inc()
        handoff = self._take(raw)
        if handoff is not None:
            if handoff.spec.response is not None:  # else the lease has nothing to do with it
                self._reconsider(handoff.lease_key)
            self._consider(handoff)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._drop(uid)
        self._versions.pop(uid, None)
        self.agenda.forget(uid)

    def of(self, lease: WorkLease) -> tuple[Handoff, ...]:
        """Those that a decision on this lease takes into account."""
        return self._of(lease.key)

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
        """Decide again on the open handoffs that name it."""
        for handoff in self._of(lease.key):
            self._consider(handoff)

    def _of(self, key: str) -> tuple[Handoff, ...]:
        return tuple(self._by_lease[key].values()) if key in self._by_lease else ()

    def _take(self, raw: dict[str, Any]) -> Handoff | None:
        """The handoff in `raw`; None when it is not newer than what is known, cannot be read, or is resolved."""
        uid, version = raw["metadata"]["uid"], version_of(raw)
        if version <= self._versions.get(uid, 0):
            return None
        self._versions[uid] = version
        self._drop(uid)
        try:
            handoff = Handoff.model_validate(raw)
        except ValidationError as error:
            metadata = raw["metadata"]
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            logger.error("handoff %s/%s cannot be read: %s", metadata["namespace"], metadata["name"], where)
            return None
        if handoff.status.phase in KEPT:
            self._kept[uid] = handoff
            self._by_lease[handoff.lease_key][uid] = handoff
        return handoff

    def _drop(self, uid: str) -> None:
        known = self._kept.pop(uid, None)
        if known is None:
            return
        siblings = self._by_lease[known.lease_key]
        del siblings[uid]
        if not siblings:
            del self._by_lease[known.lease_key]

    def _consider(self, handoff: Handoff) -> None:
        entry = self._leases.by_key(handoff.lease_key)
        decision = self._decide(handoff, entry.lease if entry is not None else None)
        if decision.status is None:
            self.agenda.at(handoff.metadata.uid, decision.wake_at)
        else:
            self.agenda.now(handoff.metadata.uid)

    def _decide(self, handoff: Handoff, lease: WorkLease | None) -> HandoffDecision:
        others = (one for one in self._of(handoff.lease_key) if one.metadata.uid != handoff.metadata.uid)
        return decide_handoff(handoff, lease, self._clock.moment(), others=others)

    # ----------------------------------------------------------------------------------------------------- settling
    async def _settle(self, uid: str) -> None:
        for _ in range(CONFLICTS_MAX):
            handoff = self._kept.get(uid)
            if handoff is None:
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
            raise ApiError(f"worklease {handoff.lease_key} cannot be read") from error

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
        refused = isinstance(error, Refused)
        delay = self.agenda.failed(uid, hopeless=refused)
        level = logging.ERROR if refused else logging.WARNING
        logger.log(level, "a status of handoff %s was not stored (%s); next try in %.1f s", handoff.key, error, delay)

    def _won(self, handoff: Handoff, decision: HandoffDecision) -> None:
        metadata = handoff.metadata
        self._metrics.swaps.labels("won").inc()
        for notice in decision.notices:
            self._metrics.handoffs.labels(notice.reason.value).inc()
            logger.info("handoff %s: %s: %s", handoff.key, notice.reason.value, notice.note)
        self._recorder.record("Handoff", metadata.namespace, metadata.name, metadata.uid, decision.notices)

    # ------------------------------------------------------------------------------------------------------- resync
    async def resync_once(self, namespaces: tuple[str, ...]) -> None:
        """List everything: gaps of a watch swallow deletions."""
        before, listed = set(self._versions), set()
        for namespace in namespaces or ("",):
            for raw in await swap.read_all(self._session, namespace, plural="handoffs"):
                listed.add(raw["metadata"]["uid"])
                self.see(raw)
        for uid in before - listed:
            self.forget(uid)
