"""helm, as a person runs it with the chart of this repository."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from repository import REPOSITORY

CHART = REPOSITORY / "charts" / "worklease"
RELEASE, NAMESPACE = "worklease", "worklease-system"
WITHIN_SECONDS = 120.0

Manifest = dict[str, Any]
Values = dict[str, Any]

EVERYTHING: Values = {
    "image": {
        "repository": "registry.example/worklease",
        "digest": f"sha256:{'0' * 64}",
        "pullSecrets": [{"name": "s"}],
    },
    "replicas": 3,
    "operator": {
        "epochFloor": 2**40,
        "distrustServerTimes": True,
        "namespaces": ["team-a", "team-b"],
        "logFormat": "text",
        "logLevel": "debug",
    },
    "fence": {
        "enabled": True,
        "exemptGroups": ["system:serviceaccounts:team", "system:serviceaccounts:team-b"],
        "exemptUsers": ["system:robot"],
    },
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "agents", "operator": "Exists", "effect": "NoSchedule"}],
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example.com/note": "a b"},
    "networkPolicy": {"enabled": True, "metricsFrom": ["monitoring"]},
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True},
    },
}
"""Every value that is not its default."""


@dataclass(frozen=True)
class Helm:
    """helm with a home of its own, for one cluster or for none."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, values: Values | None = None) -> subprocess.CompletedProcess[str]:
        """Runs it with these values, whatever it answers."""
        given = ["--values=-"] if values is not None else []
        return subprocess.run(
            [str(self.program), *arguments, *given],
            input=json.dumps(values or {}),
            capture_output=True,
            text=True,
            timeout=WITHIN_SECONDS,
            check=False,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin", "KUBECONFIG": str(self.kubeconfig or "/dev/null")},
        )

    def must(self, *arguments: str, values: Values | None = None) -> str:
        """What it prints; fails when it does."""
        answer = self.run(*arguments, values=values)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def refused(self, *arguments: str, values: Values | None = None) -> str:
        """What it says when it refuses; fails when it does not."""
        answer = self.run(*arguments, values=values)
        assert answer.returncode != 0, answer.stdout
        return answer.stderr

    def render(self, values: Values | None = None, namespace: str = NAMESPACE) -> list[Manifest]:
        """Every object of the chart."""
        text = _rendered(self, json.dumps(values or {}), namespace)
        return [manifest for manifest in yaml.load_all(text, yaml.CSafeLoader) if manifest]


@cache
def _rendered(helm: Helm, values: str, namespace: str) -> str:
    return helm.must("template", RELEASE, str(CHART), f"--namespace={namespace}", values=json.loads(values))


def find(manifests: list[Manifest], kind: str, name: str = "worklease-operator") -> Manifest:
    """The one object of this kind and name."""
    (found,) = [one for one in manifests if one["kind"] == kind and one["metadata"]["name"] == name]
    return found
