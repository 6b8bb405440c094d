"""The alerts: each goes off when it should, asks for metrics that there are, and is explained to whoever is on call."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import backends
import dashboard
from support.availability import required
from support.cluster import Cluster
from support.documents import run
from support.helm import CHART, Helm, find
from support.speaking import Work
from worklease.controller.metrics import Metrics
from worklease.controller.view import View

RULES = CHART / "files" / "alerts" / "worklease.yaml"
DOCS = Path(__file__).resolve().parents[2] / "docs"
ONCALL = DOCS / "oncall.md"
METRIC = re.compile(r"\bworklease_\w+")


@pytest.fixture(scope="module")
def promtool() -> Path:
    """Prometheus's own tool for its rules."""
    with required():
        return backends.find("promtool")


def _alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


SUFFIXES = {"counter": ("_total",), "info": ("_info",), "histogram": ("_bucket", "_sum", "_count")}


def _metrics() -> set[str]:
    names: set[str] = set()
    for family in Metrics(View()).registry.collect():
        names |= {f"{family.name}{suffix}" for suffix in SUFFIXES.get(family.type, ("",))}
    return names


def _run(*command: object, directory: Path | None = None) -> None:
    answer = subprocess.run([str(one) for one in command], cwd=directory, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_prometheus_takes_the_rules(promtool: Path) -> None:
    """Every expression and every template in them."""
    _run(promtool, "check", "rules", RULES)


def test_each_alert_goes_off_when_it_should_and_not_before(promtool: Path, tmp_path: Path) -> None:
    """Case 17, case 37: among them, the item that goes through one holder after the other. See alerts_test.yaml."""
    groups = yaml.safe_load(RULES.read_text())
    for rule in groups["groups"][0]["rules"]:
        del rule["annotations"]["description"]
    (tmp_path / "worklease.yaml").write_text(yaml.safe_dump(groups))
    cases = shutil.copy(Path(__file__).with_name("alerts_test.yaml"), tmp_path)
    _run(promtool, "test", "rules", cases, directory=tmp_path)


def test_each_alert_is_seen_going_off() -> None:
    """None is left out of alerts_test.yaml."""
    tests = yaml.safe_load(Path(__file__).with_name("alerts_test.yaml").read_text())["tests"]
    seen = {one["alertname"] for test in tests for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert seen == {alert["alert"] for alert in _alerts()}


def test_every_metric_that_is_asked_for_is_there() -> None:
    """By alerts and dashboard: a renamed metric makes neither silent."""
    asked = [alert["expr"] for alert in _alerts()] + dashboard.queries()
    assert {name for expression in asked for name in METRIC.findall(expression)} <= _metrics()


@pytest.mark.parametrize("page", ["installing", "oncall", "operator", "reference", "reliability"])
def test_every_metric_that_a_page_names_is_there(page: str) -> None:
    """As it is asked for, so that it can be copied; a histogram by the name that its samples begin with."""
    families = {family.name for family in Metrics(View()).registry.collect() if family.type == "histogram"}
    assert set(METRIC.findall((DOCS / f"{page}.md").read_text())) <= _metrics() | families


def test_every_metric_is_on_the_dashboard() -> None:
    """One that nobody looks at is not worth counting."""
    shown = {name for expression in dashboard.queries() for name in METRIC.findall(expression)}
    ours = (name for name in _metrics() if name.startswith("worklease_"))
    families = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in ours}
    assert families == {name.removesuffix("_bucket") for name in shown}


def test_every_alert_has_its_section_for_whoever_is_on_call() -> None:
    """In the same order, and with two commands to type."""
    sections = re.split(r"^## ", ONCALL.read_text(), flags=re.MULTILINE)[1:]
    titles = [section.partition("\n")[0] for section in sections]
    assert titles == [alert["alert"] for alert in _alerts()]
    for section in sections:
        (block,) = re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)
        assert len(block.strip().splitlines()) == 2, section


def test_what_whoever_is_on_call_types_works(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """All but what needs a kubelet or an add-on for the metrics of pods, which this cluster does not have."""
    work = Work.create(cluster, namespace)
    text = ONCALL.read_text().replace("NAMESPACE", namespace).replace(" NAME ", f" {work.name} ")
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.strip().splitlines()]
    tried = [line for line in lines if not re.search(r" (logs|top) ", line)]
    assert len(lines) - len(tried) == 7
    answer = run("\n".join(f"{line} >&2" for line in tried), cluster, cluster.admin, namespace, tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert work.read()["spec"]["suspend"] is True


def test_an_alert_says_how_bad_it_is_and_what_it_means() -> None:
    """In a summary for the message and a description for its reader."""
    for alert in _alerts():
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert alert["annotations"].keys() == {"summary", "description"}


def test_the_chart_hands_on_the_rules_and_the_dashboard_as_they_are(helm: Helm) -> None:
    """Their templates are Prometheus's and Grafana's, not Helm's."""
    manifests = helm.render({"monitoring": {"rules": {"enabled": True}, "dashboard": {"enabled": True}}})
    assert find(manifests, "PrometheusRule")["spec"] == yaml.safe_load(RULES.read_text())
    shown = find(manifests, "ConfigMap", "worklease-dashboard")
    assert shown["data"]["worklease.json"] == dashboard.rendered().rstrip("\n")
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
