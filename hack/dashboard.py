"""The Grafana dashboard, made from a table of its panels: what is asked of Prometheus, and how the answer is shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

WIDTH = 24
HEIGHT = 7
REFRESH = "30s"


@dataclass(frozen=True)
class Panel:
    """One picture: its title, its queries with their legends, unit, width of 24, and what the reader learns from it."""

    title: str
    queries: tuple[tuple[str, str], ...]
    means: str
    unit: str = "short"
    width: int = 8
    kind: str = "timeseries"


PANELS = (
    Panel(
        "Work items now",
        (("max by (phase) (worklease_leases)", "{{phase}}"),),
        "How many WorkLeases are in which phase.",
        width=8,
        kind="stat",
    ),
    Panel(
        "In jeopardy",
        (('max(worklease_leases{phase="Jeopardy"})', "in jeopardy"),),
        "Leases whose holders did not renew in time: no effects, until they renew.",
        width=4,
        kind="stat",
    ),
    Panel(
        "Replicas that watch",
        (
            (
                "sum by (version) ((1 - worklease_watch_blind)"
                " * on (pod, instance) group_left (version) worklease_build_info)",
                "{{version}}",
            ),
        ),
        "Operators that see both kinds and have answers of the API server, by their version.",
        width=4,
        kind="stat",
    ),
    Panel(
        "Granted again and again",
        (("max by (namespace, name) (worklease_item_grants_last_hour)", "{{namespace}}/{{name}}"),),
        "Items with four or more grants within the last hour, at most twenty. Empty is good.",
        width=8,
        kind="bargauge",
    ),
    Panel(
        "Work items by phase",
        (("max by (phase) (worklease_leases)", "{{phase}}"),),
        "How the phases change over time.",
        width=12,
    ),
    Panel(
        "Grants",
        (("sum by (reason) (rate(worklease_grants_total[5m]))", "{{reason}}"),),
        "Grants per second, by why.",
        unit="ops",
        width=12,
    ),
    Panel(
        "Ends of tenures",
        (("sum by (reason) (rate(worklease_tenure_ends_total[5m]))", "{{reason}}"),),
        "How tenures end. Expired: the holder did not renew.",
        unit="ops",
    ),
    Panel(
        "Handoffs",
        (("sum by (phase) (rate(worklease_handoffs_total[5m]))", "{{phase}}"),),
        "What becomes of offers. Expired: nobody answered; Lapsed: accepted, never claimed.",
        unit="ops",
    ),
    Panel(
        "Claims that the operator refused",
        (("sum by (reason) (rate(worklease_claim_refusals_total[5m]))", "{{reason}}"),),
        "Admitted by the API server, refused since the work had moved on.",
        unit="ops",
    ),
    Panel(
        "How late leases lapse and expire",
        (
            (
                "histogram_quantile(0.5, sum by (le) (rate(worklease_expiry_lateness_seconds_bucket[5m])))",
                "half of them within",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(worklease_expiry_lateness_seconds_bucket[5m])))",
                "99 of 100 within",
            ),
        ),
        "From when a lease was due until that was stored. A waiter waits that much longer.",
        unit="s",
    ),
    Panel(
        "How long claims wait for their grant",
        (
            (
                "histogram_quantile(0.5, sum by (le) (rate(worklease_grant_seconds_bucket[5m])))",
                "half of them at most",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(worklease_grant_seconds_bucket[5m])))",
                "99 of 100 at most",
            ),
        ),
        "From when the operator saw a claim until its grant was stored.",
        unit="s",
    ),
    Panel(
        "Objects that wait for the operator",
        (("sum by (kind) (worklease_queue_length)", "{{kind}}"),),
        "More than a few for more than a moment: it has too little processor time, or the API server is slow.",
    ),
    Panel(
        "Writes of status",
        (("sum by (result) (rate(worklease_swaps_total[5m]))", "{{result}}"),),
        "Compare-and-swap: lost ones are decided anew, failed ones tried again.",
        unit="ops",
    ),
    Panel(
        "What cannot be acted on",
        (
            ("sum by (reason) (increase(worklease_stalls_total[15m]))", "{{reason}}"),
            ("sum(increase(worklease_status_too_large_total[15m]))", "status too large"),
            ("sum by (where) (increase(worklease_defects_total[15m]))", "defects: {{where}}"),
        ),
        "Anything but zero needs a person.",
    ),
    Panel(
        "Since the watch heard anything",
        (("worklease_watch_age_seconds", "{{pod}}{{instance}}"),),
        "A minute is ordinary; more than three is an outage of the watch.",
        unit="s",
    ),
    Panel(
        "Watch events",
        (("sum by (kind) (rate(worklease_watch_events_total[5m]))", "{{kind}}"),),
        "Mostly renewals.",
        unit="ops",
    ),
    Panel(
        "Outages of the watch",
        (
            ("sum(increase(worklease_watch_blind_seconds_total[15m]))", "seconds that it was down"),
            ("sum(increase(worklease_watch_restarts_total[15m]))", "restarts"),
            ("sum(increase(worklease_events_dropped_total[15m]))", "Events not recorded"),
        ),
        "Deadlines move by as long as the watch was down.",
    ),
)


def rendered() -> str:
    """The dashboard as Grafana imports it."""
    return json.dumps(_dashboard(), indent=1) + "\n"


def queries() -> list[str]:
    """Everything that is asked of Prometheus."""
    return [expression for panel in PANELS for expression, _ in panel.queries]


def _dashboard() -> dict[str, Any]:
    source = {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "refresh": 1,
    }
    return {
        "uid": "worklease",
        "title": "worklease",
        "description": "Leases on work: who holds, how tenures end, and whether the operator keeps up.",
        "tags": ["worklease"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": REFRESH,
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "",
        "templating": {"list": [source]},
        "annotations": {"list": []},
        "panels": _panels(),
    }


def _panels() -> list[dict[str, Any]]:
    panels, column, row = [], 0, 0
    for number, panel in enumerate(PANELS, start=1):
        if column + panel.width > WIDTH:
            column, row = 0, row + HEIGHT
        place = {"x": column, "y": row, "w": panel.width, "h": HEIGHT}
        panels.append(_panel(number, panel, place))
        column += panel.width
    return panels


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.means,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "noValue": "none"}, "overrides": []},
        "options": {},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": source,
                "expr": expression,
                "legendFormat": legend,
                "instant": panel.kind != "timeseries",
                "range": panel.kind == "timeseries",
            }
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }
