"""The section "In your cluster" of the README, typed word for word on a node that is empty."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane import ensure
from repository import REPOSITORY
from support.cluster import Cluster
from support.shared_node import STATE, SharedNode, hack_cluster
from support.speaking import Agent, Work

WITHIN_SECONDS = 540.0
REGISTRY, ON_THE_NODE = "registry.example/worklease", "localhost/worklease"
CHOICE = re.compile(r" \\\n +--set image\.repository=\S+")


def typed(document: str, heading: str) -> list[str]:
    """The commands in the indented blocks below a heading, one that goes over several lines as one."""
    text = (REPOSITORY / document).read_text()
    below = text.split(f"{heading}\n", 1)[1]
    section = re.split(r"^#", below, maxsplit=1, flags=re.MULTILINE)[0]
    lines = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    return re.split(r"(?<!\\)\n", lines)


@pytest.fixture
def type_in(node: SharedNode, tmp_path: Path) -> Callable[[list[str]], str]:
    """Types commands in the repository, with kubectl and helm on the path; the first that fails ends it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, program in ensure("kubectl", "helm").items():
        (tools / name).symlink_to(program)
    homes = {f"HELM_{kind}_HOME": str(tmp_path / "helm" / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    path = f"{tools}:{os.environ['PATH']}"

    def type_in(commands: list[str]) -> str:
        answer = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", "\n".join(commands)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=WITHIN_SECONDS,
            env={**os.environ, **homes, "PATH": path, "XDG_STATE_HOME": str(tmp_path)},
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    return type_in


def test_the_readme_takes_an_empty_node_to_a_granted_lease(type_in: Callable[[list[str]], str], tmp_path: Path) -> None:
    """With the image from the archive that hack/image writes, where the README has a registry (docs/node.md)."""
    beginning = [line for line in typed("docs/node.md", "# A node on this machine") if not line.startswith("helm ")]
    section = typed("README.md", "## In your cluster")
    assert any(line.startswith("helm install ") and REGISTRY in line for line in section)
    try:
        told = type_in([*beginning, *(line.replace(REGISTRY, ON_THE_NODE) for line in section)])
        assert "STATUS: deployed" in told
        assert "Succeeded" in told
        cluster = Cluster(tmp_path / STATE / "kubeconfig", ensure("kubectl")["kubectl"], tmp_path)
        Work.create(cluster, "billing").hold(Agent.of(cluster.service_account("billing", "anybody")))
    finally:
        hack_cluster(tmp_path, "down")


def test_the_page_on_the_node_installs_as_the_readme_does() -> None:
    """But for the name of the image, which is the chart's default there."""
    (here,) = [line for line in typed("docs/node.md", "# A node on this machine") if line.startswith("helm install")]
    (there,) = [line for line in typed("README.md", "## In your cluster") if line.startswith("helm install")]
    assert CHOICE.sub("", there) == here
