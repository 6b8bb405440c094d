"""The operator as one thing: what runs side by side, how it starts, what it survives and how it ends."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from worklease import __version__
from worklease.controller import probes, watch
from worklease.controller.clock import WatchClock
from worklease.controller.kinds import Kinds
from worklease.controller.metrics import Metrics
from worklease.controller.pulse import Pulse
from worklease.controller.reconciler import Settings
from worklease.controller.recorder import Recorder
from worklease.controller.requirements import Requirements
from worklease.controller.view import View
from worklease.kube.credentials import Source
from worklease.kube.session import Session
from worklease.kube.swap import path_of

logger = logging.getLogger(__name__)

NO_ANSWER = "the API server does not answer"
USER_AGENT = f"worklease-operator/{__version__}"
HEALTH_CHECK_SECONDS = 0.5
PAUSED_SECONDS = 1.0
"""A check that comes later than this was held up on this side: nobody has been listening."""
STUCK_SECONDS = 15.0
"""After this long without a watch, or a list on the way to one, although the API server answers: start again."""
DEAF_SECONDS = 300.0
"""After this long without a watch although the API server answers, the process is better started anew."""
RESTART_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)
STEADY_SECONDS = 60.0
DRAIN_SECONDS = 1.0
FLUSH_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Options:
    """What a person configures."""

    source: Source = field(default_factory=Source)
    namespaces: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    host: str | None = None
    """Where the probes are served; None: on every interface."""
    port: int = 8080


class Operator:
    """One replica. `run` returns after `stop` was set and what was in flight is finished."""

    def __init__(self, options: Options, *, on_started: Callable[[], None] = lambda: None) -> None:
        self.options = options
        self.port: int | None = None
        self._on_started = on_started
        self._health = watch.WatchHealth()
        self._health.expected = len(watch.KINDS) * max(1, len(options.namespaces))
        self._pulse: Pulse | None = None
        self._requirements: Requirements | None = None
        self._trouble = "the watch has not been opened yet"

    async def run(self, stop: asyncio.Event) -> None:
        """Raises ConfigurationError when there are no credentials; whatever else happens is survived or a defect."""
        async with await Session.open(self.options.source, user_agent=USER_AGENT) as session:
            view = View()
            clock = WatchClock(session.server_clock)
            clock.stop(time.monotonic())
            metrics = Metrics(view)
            recorder = Recorder(session, metrics.events_dropped)
            namespaces = self.options.namespaces
            pulse = self._pulse = Pulse(session, path_of(namespaces[0] if namespaces else ""))
            kinds = Kinds(session, pulse, clock, view, metrics, recorder, self.options.settings)
            requirements = self._requirements = Requirements(session.credentials, namespaces, user_agent=USER_AGENT)
            runner = await probes.serve(
                self.options.host,
                self.options.port,
                health=self._unhealthy,
                readiness=self._unready,
                registry=metrics.registry,
            )
            self.port = runner.addresses[0][1]
            logger.info("serving /healthz, /readyz and /metrics on port %d", self.port)
            try:
                async with asyncio.TaskGroup() as group:
                    jobs = [group.create_task(job) for job in kinds.jobs(namespaces)]
                    jobs.append(group.create_task(recorder.run()))
                    jobs.append(group.create_task(pulse.keep()))
                    jobs.append(group.create_task(requirements.keep()))
                    jobs.append(group.create_task(self._keep_clock(pulse, clock, metrics, kinds, requirements)))
                    await self._keep_watching(session, metrics, kinds, stop)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(DRAIN_SECONDS):
                            await kinds.drain()
                    await recorder.flush(FLUSH_SECONDS)
                    for job in jobs:
                        job.cancel()
            finally:
                await runner.cleanup()

    async def _keep_watching(self, session: Session, metrics: Metrics, kinds: Kinds, stop: asyncio.Event) -> None:
        attempts = 0
        while not stop.is_set():
            started_at = time.monotonic()
            try:
                await watch.watch(
                    session,
                    self._health,
                    kinds.by_plural,
                    self.options.namespaces,
                    stop,
                    on_started=self._on_started,
                    stuck=partial(self._stuck, started_at),
                )
                return
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - kopf exits with whatever it met: every one of them means to start again
                reason = f"{type(error).__name__}: {error}"
            if stop.is_set():
                return
            if time.monotonic() - started_at > STEADY_SECONDS:
                attempts = 0
            delay = RESTART_SECONDS[min(attempts, len(RESTART_SECONDS) - 1)]
            attempts += 1
            metrics.restarts.inc()
            self._trouble = f"watching ended ({reason})"
            logger.warning("watching ended (%s); it starts again in %.1f s", reason, delay)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await stop.wait()

    def _stuck(self, started_at: float) -> bool:
        closed_at = self._health.closed_at
        if closed_at is None or self._pulse is None or not self._pulse.beats():
            return False
        return time.monotonic() - max(started_at, closed_at, self._health.progress_at) > STUCK_SECONDS

    async def _keep_clock(
        self, pulse: Pulse, clock: WatchClock, metrics: Metrics, kinds: Kinds, requirements: Requirements
    ) -> None:
        """Stop the clock while the watch is down or the store does not answer."""
        checked_at = time.monotonic()
        while True:
            await asyncio.sleep(HEALTH_CHECK_SECONDS)
            late = time.monotonic() - checked_at - HEALTH_CHECK_SECONDS
            checked_at = time.monotonic()
            if late > PAUSED_SECONDS:
                self._health.excuse(late)
                pulse.excuse()
            metrics.watch_age.set(self._health.age_seconds())
            metrics.blind.set(clock.blind)
            unseen, unanswered = self._health.blind_since(), pulse.silent_since()
            since = min((at for at in (unseen, unanswered) if at is not None), default=None)
            if since is None and self._health.closed_at is None and clock.blind:
                blind = clock.resume()
                metrics.watch_blind.inc(blind)
                logger.info("leases are timed again; every deadline is %.1f s later", blind)
                kinds.clock_resumed()
                requirements.ask_again()
                self._trouble = "a watch has been away or silent for too long"  # what it may come to next
            elif since is not None and not clock.blind:
                clock.stop(since)
                what = "the watch is down" if unanswered is None else pulse.trouble or NO_ANSWER
                logger.warning("%s; no lease lapses until it is back", what)
                requirements.ask_again()

    def _unhealthy(self) -> str | None:
        since = self._health.blind_since()
        if since is None or self._pulse is None or not self._pulse.beats():
            return None
        deaf = time.monotonic() - since
        return f"no watch for {deaf:.0f} s although the API server answers" if deaf > DEAF_SECONDS else None

    def _unready(self) -> str | None:
        pulse, requirements = self._pulse, self._requirements
        if requirements is not None and requirements.trouble is not None:
            return requirements.trouble
        trouble = pulse.trouble if pulse is not None else None
        if pulse is not None and pulse.silent_since() is not None:
            return trouble or NO_ANSWER
        if not self._health.ever_open or self._health.blind_since() is not None:
            return trouble or self._trouble
        return None
