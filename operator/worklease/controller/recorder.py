"""Events (events.k8s.io/v1) about what was decided: bounded, aggregated, and never in the way of a decision."""

import asyncio
import contextlib
import logging
import socket
import uuid
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Counter

from worklease.api.group import API_VERSION
from worklease.errors import ApiError, NotFound
from worklease.kube.session import Session
from worklease.protocol.decide import Notice
from worklease.protocol.handoffs import HandoffNotice
from worklease.protocol.moments import rfc3339

logger = logging.getLogger(__name__)

CONTROLLER = "worklease.dev/operator"
QUEUE_MAX = 1000
SERIES_MAX = 2000
SERIES_SECONDS = 360.0
"""A series is continued while its last occurrence is no older than this (events are kept for an hour by default)."""
PER_OBJECT_BURST = 25
PER_OBJECT_REFILL_SECONDS = 30.0
"""Each object may say this many things at once, then one more every so often."""
NOTE_BYTES_MAX = 1024
NAME_MAX = 200


def note_of(text: str) -> str:
    """As much of it as the API server takes, which counts bytes."""
    return text.encode()[:NOTE_BYTES_MAX].decode(errors="ignore")


def event_name(about: str) -> str:
    """A new name for an Event about an object of that name, which may be as long as a name can be."""
    return f"{about[:NAME_MAX].rstrip('-.')}.{uuid.uuid4().hex[:16]}"


@dataclass(frozen=True, slots=True)
class _Object:
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class _Budget:
    tokens: float
    filled_at: float


@dataclass(slots=True)
class _Series:
    name: str
    count: int
    last_at: float


@dataclass(slots=True)
class Recorder:
    """Records notices as Events; `run` writes them."""

    session: Session
    dropped: Counter
    instance: str = field(default_factory=socket.gethostname)
    _queue: asyncio.Queue[tuple[_Object, Notice | HandoffNotice]] = field(
        default_factory=lambda: asyncio.Queue(QUEUE_MAX)
    )
    _series: "OrderedDict[tuple[str, str, str], _Series]" = field(default_factory=OrderedDict)
    _budgets: "OrderedDict[str, _Budget]" = field(default_factory=OrderedDict)

    def record(self, kind: str, namespace: str, name: str, uid: str, notices: Iterable[Notice | HandoffNotice]) -> None:
        """Queue notices about an object; what exceeds the bounds is counted and dropped."""
        for notice in notices:
            if not self._allowed(uid):
                self.dropped.inc()
                continue
            try:
                self._queue.put_nowait((_Object(kind, namespace, name, uid), notice))
            except asyncio.QueueFull:
                self.dropped.inc()

    def _allowed(self, uid: str) -> bool:
        now = asyncio.get_running_loop().time()
        budget = self._budgets.pop(uid, None) or _Budget(PER_OBJECT_BURST, now)
        refill = (now - budget.filled_at) / PER_OBJECT_REFILL_SECONDS
        budget = _Budget(min(PER_OBJECT_BURST, budget.tokens + refill), now)
        self._budgets[uid] = budget
        while len(self._budgets) > SERIES_MAX:
            self._budgets.popitem(last=False)
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True

    async def run(self) -> None:
        """Write what is queued, for as long as the operator runs."""
        while True:
            about, notice = await self._queue.get()
            try:
                await self._write(about, notice)
            except ApiError as error:
                self.dropped.inc()
                logger.warning("an Event about %s/%s was not recorded: %s", about.namespace, about.name, error)
            except Exception:
                self.dropped.inc()
                logger.exception("an Event about %s/%s was not recorded", about.namespace, about.name)
            finally:
                self._queue.task_done()

    async def flush(self, timeout_seconds: float) -> None:
        """Wait until the queue is written, but no longer than that."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._queue.join()
        except TimeoutError:
            self.dropped.inc(self._queue.qsize())

    async def _write(self, about: _Object, notice: Notice | HandoffNotice) -> None:
        now = asyncio.get_running_loop().time()
        stamp = rfc3339(self.session.server_clock.now())
        path = f"/apis/events.k8s.io/v1/namespaces/{about.namespace}/events"
        key = (about.uid, notice.reason.value, notice.note)
        series = self._series.pop(key, None)
        if series is not None and now - series.last_at < SERIES_SECONDS:
            series.count += 1
            series.last_at = now
            body = {"series": {"count": series.count, "lastObservedTime": stamp}}
            event_path = f"{path}/{series.name}"
            with contextlib.suppress(NotFound):  # somebody has deleted it: a new series begins
                await self.session.request("PATCH", event_path, body, content_type="application/merge-patch+json")
                self._series[key] = series
                return
        name = event_name(about.name)
        event: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": about.namespace},
            "eventTime": stamp,
            "reportingController": CONTROLLER,
            "reportingInstance": self.instance[:128],
            "action": notice.reason.value,
            "reason": notice.reason.value,
            "type": "Warning" if notice.warning else "Normal",
            "note": note_of(notice.note),
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
        }
        await self.session.request("POST", path, event)
        self._series[key] = _Series(name, 1, now)
        while len(self._series) > SERIES_MAX:
            self._series.popitem(last=False)
