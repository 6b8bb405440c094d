"""The two kinds side by side: each hears of the other's changes, and both are kept in step with the store."""

import asyncio
import logging
import random
from collections.abc import Coroutine
from typing import Any

from worklease.controller import handoffs, reconciler
from worklease.controller.clock import WatchClock
from worklease.controller.handoffs import Handoffs
from worklease.controller.metrics import Metrics
from worklease.controller.pulse import Pulse
from worklease.controller.reconciler import Reconciler, Settings
from worklease.controller.recorder import Recorder
from worklease.controller.view import View
from worklease.controller.watch import KINDS, Kind
from worklease.errors import ApiError
from worklease.kube.session import Session

logger = logging.getLogger(__name__)

RESYNC_SECONDS = 600.0


class Kinds:
    """WorkLeases and Handoffs of one operator."""

    def __init__(
        self,
        session: Session,
        pulse: Pulse,
        clock: WatchClock,
        view: View,
        metrics: Metrics,
        recorder: Recorder,
        settings: Settings,
    ) -> None:
        self._metrics = metrics
        self._handoffs = Handoffs(
            session,
            clock,
            view,
            metrics,
            recorder,
            settings.head_start_seconds,
            lambda key: self._leases.reconsider(key),
        )
        self._leases = Reconciler(
            session,
            pulse,
            clock,
            view,
            metrics,
            recorder,
            settings,
            handoffs_of=self._handoffs.of,
            on_change=self._handoffs.lease_changed,
            confirm=self._handoffs.confirm,
        )
        self.by_plural: dict[str, Kind] = dict(zip(KINDS, (self._leases, self._handoffs), strict=True))

    def jobs(self, namespaces: tuple[str, ...]) -> list[Coroutine[Any, Any, None]]:
        """What runs for as long as the operator does."""
        leases, offers = self._leases.agenda, self._handoffs.agenda
        return [
            *(leases.work() for _ in range(reconciler.WORKERS)),
            *(offers.work() for _ in range(handoffs.WORKERS)),
            leases.keep_deadlines(),
            offers.keep_deadlines(),
            self._handoffs.follow(),
            self._resync(namespaces),
        ]

    def clock_resumed(self) -> None:
        """The watch sees again."""
        self._leases.agenda.clock_resumed()
        self._handoffs.agenda.clock_resumed()

    async def drain(self) -> None:
        """Begin nothing more, and wait until no swap is in flight."""
        await asyncio.gather(self._leases.agenda.drain(), self._handoffs.agenda.drain())

    async def resync_once(self, namespaces: tuple[str, ...]) -> None:
        """List everything: gaps of a watch swallow deletions."""
        await self._leases.resync_once(namespaces)
        await self._handoffs.resync_once(namespaces)

    async def _resync(self, namespaces: tuple[str, ...]) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS * random.uniform(0.9, 1.1))
            try:
                await self.resync_once(namespaces)
            except ApiError as error:
                logger.warning("the resync failed: %s", error)
            except Exception:
                self._metrics.defects.labels("resync").inc()
                logger.exception("the resync failed")
