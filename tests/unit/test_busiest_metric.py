"""worklease_item_grants_last_hour names the items that are granted again and again, and a bounded number of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from prometheus_client.core import Sample

from support.leases import work_lease
from worklease.api.worklease import Phase, Tenure
from worklease.controller.metrics import BUSIEST_MOST, BUSY_GRANTS, Metrics
from worklease.controller.view import Entry, View
from worklease.protocol.moments import rfc3339

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def _samples(*minutes_ago: list[int]) -> list[Sample]:
    """What the metric says of items that were granted that many minutes ago."""
    view = View()
    for number, grants in enumerate(minutes_ago):
        history = tuple(
            Tenure(epoch=epoch, acquire_time=rfc3339(NOW - timedelta(minutes=minutes)))
            for epoch, minutes in enumerate(grants, start=1)
        )
        lease = work_lease(Phase.HELD)
        metadata = lease.metadata.model_copy(update={"name": f"item-{number}", "uid": f"uid-{number}"})
        status = lease.status.model_copy(update={"history": history})
        lease = lease.model_copy(update={"metadata": metadata, "status": status})
        view.put(Entry(f"uid-{number}", 1, lease, None))
    families = Metrics(view, now=lambda: NOW).registry.collect()
    return next(list(one.samples) for one in families if one.name == "worklease_item_grants_last_hour")


def test_an_item_that_goes_round_in_circles_is_named() -> None:
    """Case 17: with its grants of the last hour, and no older ones."""
    (sample,) = _samples([200, 100, 59, 40, 30, 20, 1])
    assert sample.labels == {"namespace": "team", "name": "item-0"}
    assert sample.value == 5


def test_ordinary_items_have_no_series() -> None:
    """So that the metric does not grow with the cluster."""
    assert _samples([3, 2, 1][: BUSY_GRANTS - 1], [90, 80, 70, 5]) == []


def test_no_more_than_the_busiest_are_named() -> None:
    """However many go round in circles."""
    grants = [BUSY_GRANTS + number % 9 for number in range(3 * BUSIEST_MOST)]
    samples = _samples(*([5] * count for count in grants))
    assert [sample.value for sample in samples] == sorted(grants, reverse=True)[:BUSIEST_MOST]
