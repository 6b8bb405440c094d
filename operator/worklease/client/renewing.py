"""One renewal: sent, and believed only when the answer shows that it was stored."""

from datetime import datetime, timedelta

from worklease.api.statements import Renewal
from worklease.api.worklease import WorkLease
from worklease.client.reading import parsed
from worklease.client.speech import stating
from worklease.errors import Unreadable
from worklease.kube.session import JSON_PATCH, Session
from worklease.kube.swap import path_of
from worklease.protocol.moments import rfc3339

TICK = timedelta(microseconds=1)


class Renewals:
    """The renewals of one tenure. Their renewTime is the server's own, and grows: one that repeats says nothing."""

    def __init__(self, session: Session, work: WorkLease, epoch: int) -> None:
        self._session = session
        self._path = path_of(work.metadata.namespace, work.metadata.name)
        self._epoch = epoch
        self._seen_version = work.metadata.resource_version
        self._last_time: datetime | None = None

    def see(self, work: WorkLease) -> None:
        """The object, from another answer."""
        self._seen_version = later_version(self._seen_version, work.metadata.resource_version)

    async def send(self, timeout_seconds: float) -> WorkLease | None:
        """Sends one. None when the answer does not show that it was stored. Raises ApiError."""
        renewal = Renewal(epoch=self._epoch, renew_time=rfc3339(self._next_time()))
        seen = self._seen_version
        answer = await self._session.request(
            "PATCH",
            self._path,
            stating(renewal=renewal.manifest()),
            content_type=JSON_PATCH,
            timeout_seconds=timeout_seconds,
        )
        try:
            work = parsed(WorkLease, answer.body)
        except Unreadable:
            return None
        self.see(work)
        stored = work.spec.renewal == renewal and later_version(seen, work.metadata.resource_version) != seen
        return work if stored else None

    def _next_time(self) -> datetime:
        now = self._session.server_clock.now()
        if self._last_time is not None:
            now = max(now, self._last_time + TICK)
        self._last_time = now
        return now


def later_version(one: str, other: str) -> str:
    """The later of two resourceVersions of one object; Kubernetes has them ordered as integers since v1.35."""
    try:
        return other if int(other) > int(one or 0) else one
    except ValueError:
        return other
