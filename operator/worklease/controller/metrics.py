"""What the operator counts, under the names that dashboards and alerts use."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from heapq import nlargest

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, Metric

from worklease import __version__
from worklease.api.handoff import HandoffPhase
from worklease.api.worklease import Phase
from worklease.controller.view import View
from worklease.protocol.moments import rfc3339
from worklease.protocol.reasons import EndReason, GrantReason, RefusalReason, StallReason

BUSY_GRANTS = 4
"""Fewer grants within an hour than this are not worth a series of their own."""
BUSIEST_MOST = 20
DEFECTS = ("settle", "follow", "resync")
"""Where a defect may show: deciding on an object, on the handoffs of a lease that has changed, listing all."""
LATENESS_BUCKETS_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)


class _Phases:
    """Leases by phase, read from the view when somebody asks."""

    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("worklease_leases", "WorkLeases by phase.", labels=["phase"])
        for phase in Phase:
            family.add_metric([phase.value], self._view.phases[phase])
        yield family


class _Busiest:
    """The items with the most grants within the last hour, read from their histories when somebody asks."""

    def __init__(self, view: View, now: Callable[[], datetime]) -> None:
        self._view = view
        self._now = now

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "worklease_item_grants_last_hour",
            f"Grants within the last hour of the {BUSIEST_MOST} items with the most, and no fewer than {BUSY_GRANTS}. "
            "A history goes back 16 tenures.",
            labels=["namespace", "name"],
        )
        for grants, namespace, name in nlargest(BUSIEST_MOST, self._busy()):
            family.add_metric([namespace, name], grants)
        yield family

    def _busy(self) -> Iterator[tuple[int, str, str]]:
        since = rfc3339(self._now() - timedelta(hours=1))
        for uid in self._view.uids():
            entry = self._view.get(uid)
            if entry is None or len(entry.lease.status.history) < BUSY_GRANTS:
                continue
            grants = sum((tenure.acquire_time or "") >= since for tenure in entry.lease.status.history)
            if grants >= BUSY_GRANTS:
                yield grants, entry.lease.metadata.namespace, entry.lease.metadata.name


class Metrics:
    """One registry per operator."""

    def __init__(self, view: View, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.registry.register(_Phases(view))
        self.registry.register(_Busiest(view, now))
        registry = self.registry
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        Info("worklease_build", "Which version runs.", registry=registry).info({"version": __version__})
        self.events = Counter("worklease_watch_events", "Watch events by kind.", ["kind"], registry=registry)
        self.grants = Counter("worklease_grants", "Grants by reason.", ["reason"], registry=registry)
        self.ends = Counter("worklease_tenure_ends", "Ends of tenures by reason.", ["reason"], registry=registry)
        self.refusals = Counter(
            "worklease_claim_refusals", "Claims that the operator refused, by reason.", ["reason"], registry=registry
        )
        self.handoffs = Counter(
            "worklease_handoffs", "Handoffs by the phase that they came into.", ["phase"], registry=registry
        )
        self.swaps = Counter(
            "worklease_swaps",
            "Status swaps by result: won, lost, gone, failed (not stored, or the object could not be read again).",
            ["result"],
            registry=registry,
        )
        self.grant_seconds = Histogram(
            "worklease_grant_seconds",
            "From when a claim was seen until its grant was stored.",
            buckets=LATENESS_BUCKETS_SECONDS,
            registry=registry,
        )
        self.lateness = Histogram(
            "worklease_expiry_lateness_seconds",
            "From when a lease was due to lapse or expire until that was stored.",
            buckets=LATENESS_BUCKETS_SECONDS,
            registry=registry,
        )
        self.stalled = Counter(
            "worklease_stalls", "Objects that could not be acted on, by reason.", ["reason"], registry=registry
        )
        self.defects = Counter(
            "worklease_defects",
            "Exceptions that nobody expected, by where; the log has each.",
            ["where"],
            registry=registry,
        )
        self.queued = Gauge("worklease_queue_length", "Objects that wait for a worker.", ["kind"], registry=registry)
        self.too_large = Counter(
            "worklease_status_too_large", "Status writes that the store refused as too large.", registry=registry
        )
        self.watch_age = Gauge(
            "worklease_watch_age_seconds",
            "For how long the most silent watch has received nothing, bookmarks included, or has been away.",
            registry=registry,
        )
        self.blind = Gauge(
            "worklease_watch_blind",
            "1 while no lease is timed: the watch is down, or the API server does not answer.",
            registry=registry,
        )
        self.watch_blind = Counter(
            "worklease_watch_blind_seconds",
            "For how long no lease was timed; deadlines moved as much.",
            registry=registry,
        )
        self.restarts = Counter("worklease_watch_restarts", "Restarts of the watching part.", registry=registry)
        self.events_dropped = Counter(
            "worklease_events_dropped", "Kubernetes Events that were not recorded.", registry=registry
        )
        for grant in GrantReason:
            self.grants.labels(grant.value)
        for end in EndReason:
            self.ends.labels(end.value)
        for refusal in RefusalReason:
            self.refusals.labels(refusal.value)
        for stall in StallReason:
            self.stalled.labels(stall.value)
        for kind in ("WorkLease", "Handoff"):
            self.events.labels(kind)
            self.queued.labels(kind)
        for where in DEFECTS:
            self.defects.labels(where)
        for phase in HandoffPhase:
            self.handoffs.labels(phase.value)
        for result in ("won", "lost", "gone", "failed"):
            self.swaps.labels(result)
