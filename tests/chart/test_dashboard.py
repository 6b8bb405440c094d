"""The dashboard on a real Prometheus that scrapes a running operator: every panel has something to show."""

from __future__ import annotations

import contextlib
import json
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

import backends
import dashboard
from controlplane.ports import LOOPBACK, free_port
from support.availability import required
from support.cluster import Cluster
from support.helm import CHART
from support.operators import operating
from support.speaking import Agent, Work
from support.waiting import wait_for

LOOP_GRANTS = 7
ANSWERED_WITHIN_SECONDS = 60.0
RULES = CHART / "files" / "alerts" / "worklease.yaml"

Ask = Callable[[str], Any]
_http = urllib3.PoolManager(retries=False, timeout=10.0)


@contextlib.contextmanager
def _prometheus(directory: Path, target: str) -> Iterator[Ask]:
    """A Prometheus that scrapes the target every second and goes by the chart's alerts; asks its API."""
    program, address = backends.find("prometheus"), f"{LOOPBACK}:{free_port()}"
    configuration = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "worklease", "honor_labels": True, "static_configs": [{"targets": [target]}]}],
    }
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    command = [
        str(program),
        f"--config.file={directory / 'prometheus.yaml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={address}",
    ]

    def ask(path: str) -> Any:
        return json.loads(_http.request("GET", f"http://{address}/api/v1/{path}").data)["data"]

    def ready() -> bool:
        try:
            return _http.request("GET", f"http://{address}/-/ready").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    with backends.running("prometheus", command, directory / "prometheus.log", ready):
        yield ask


@pytest.fixture(scope="module")
def ask(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks that Prometheus, after one item has been granted again and again and another has expired."""
    with required(), cluster.namespace("dashboard") as namespace, operating(cluster, namespace) as operator:
        agent = Agent.of(cluster.service_account(namespace, "a", "worklease-agent"))
        expiring = Work.create(cluster, namespace)
        expiring.hold(agent)
        looping = Work.create(cluster, namespace, name="looping", lease_seconds=600)
        for _ in range(LOOP_GRANTS):
            looping.hold(agent)
        with _prometheus(tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{operator.port}") as ask:
            expiring.reaches("Expired")
            yield ask


def test_every_query_of_the_dashboard_is_answered(ask: Ask) -> None:
    """With data, and with the labels of which its legend is made."""
    for expression, legend in [query for panel in dashboard.PANELS for query in panel.queries]:

        def found(expression: str = expression) -> Any:
            return ask(f"query?query={urllib.parse.quote(expression)}")["result"]

        result = wait_for(found, f"an answer to {expression}", ANSWERED_WITHIN_SECONDS)
        labels = {part.partition("}}")[0] for part in legend.split("{{")[1:]}
        assert not labels or labels & set(result[0]["metric"]), legend


def test_an_item_that_is_granted_again_and_again_sets_off_its_alert(ask: Ask) -> None:
    """Case 17, case 37: with its namespace and name, from the operator's own metrics."""

    def firing() -> list[Any]:
        return [one for one in ask("alerts")["alerts"] if one["labels"]["alertname"] == "WorkleaseGrantLoop"]

    (alert,) = wait_for(firing, "the alert", ANSWERED_WITHIN_SECONDS)
    assert alert["state"] == "firing"
    assert alert["labels"]["name"] == "looping"
    item = f"{alert['labels']['namespace']}/looping"
    assert alert["annotations"]["summary"] == f"{item} was granted {LOOP_GRANTS} times within an hour."


def test_the_rules_are_evaluated_without_an_error(ask: Ask) -> None:
    """All of them, as Prometheus runs them."""
    (group,) = ask("rules")["groups"]
    assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}
    assert not [rule["lastError"] for rule in group["rules"] if rule.get("lastError")]
