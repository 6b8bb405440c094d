"""The kubectl lines of the documentation, run by a writer that is fenced."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.fenced_objects import World
from support.markdown import blocks
from support.staging import staged


def run(world: World, directory: Path, script: str) -> None:
    """Runs lines of shell as the writer, in the world's namespace."""
    kubeconfig = json.loads(world.writer.kubeconfig.read_text())
    kubeconfig["contexts"][0]["context"]["namespace"] = world.stage.namespace
    (directory / "kubeconfig").write_text(json.dumps(kubeconfig))
    (directory / "kubectl").unlink(missing_ok=True)
    (directory / "kubectl").symlink_to(world.stage.cluster.kubectl_path)
    variables = {"KUBECONFIG": str(directory / "kubeconfig"), "PATH": f"{directory}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=directory, env=os.environ | variables, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("page", "name"), [("fencing.md", "kubectl"), ("fencing/objects.md", "objects")])
def test_the_lines_work_as_they_are_written(cluster: Cluster, tmp_path: Path, page: str, name: str) -> None:
    """With its lease's own name and epochs in place of the examples, every line is admitted."""
    with staged(cluster) as stage:
        world = World(stage)
        body = world.body("charge")
        if name == "kubectl":
            del body["metadata"]["labels"], body["metadata"]["annotations"]
        (tmp_path / "charge.yaml").write_text(json.dumps(body))
        first, _, rest = blocks(page)[name].partition("# the next tenure")
        run(world, tmp_path, first.replace("1482", str(world.epoch)).replace("payments/invoice-42", world.lease))
        if rest:
            run(world, tmp_path, "# " + rest.replace("1483", str(world.take_over())))
            assert stage.root.api.get(f"{world.maps}/charge").status == 404
        else:
            assert stage.root.api.get(f"{world.maps}/charge").ok
