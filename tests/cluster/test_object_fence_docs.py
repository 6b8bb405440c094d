"""The kubectl lines of the documentation, run by a writer that is fenced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import worklease
from support.cluster import Cluster
from support.documents import run as run_block
from support.fenced_objects import MAPS, WRITER, World
from support.markdown import blocks
from support.operators import operating
from support.speaking import Work
from support.staging import staged
from support.waiting import wait_for
from worklease.api.fence_policy import EPOCH, LABEL, LEASE


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


@pytest.mark.parametrize(("page", "name"), [("docs/fencing.md", "kubectl"), ("docs/fencing/objects.md", "objects")])
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


def test_a_holder_in_python_writes_under_its_own_epoch_and_its_successor_takes_over(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """The block, run by two tenures one after the other: both write the object, each under its own field manager."""
    cluster.api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", WRITER)
    holder = cluster.service_account(namespace, "payer", "worklease-agent-creator")
    cluster.grant(namespace, WRITER["metadata"]["name"], holder)  # type: ignore[index]
    code = blocks("docs/fencing/objects.md")["python"]
    epochs = []
    with operating(cluster, namespace):
        for _ in range(2):
            answer = run_block(code, cluster, holder, namespace, tmp_path, by=(sys.executable, "-c"))
            assert answer.returncode == 0, answer.stdout + answer.stderr
            epochs.append(Work(cluster, namespace, "invoice-42").reaches("Released")["epoch"])
    assert epochs[0] < epochs[1]
    written = cluster.api.get(f"{MAPS.format(namespace)}/charge").must()
    assert written["metadata"]["annotations"][EPOCH] == str(epochs[1])
    managers = {entry["manager"] for entry in written["metadata"]["managedFields"]}
    assert f"payer@{epochs[1]}" in managers
    effects = Work(cluster, namespace, "invoice-42").read()["spec"]["effects"]
    assert [effect["state"] for effect in effects] == ["Succeeded", "Succeeded"]


def test_the_field_manager_of_a_lost_lease_is_refused(cluster: Cluster, namespace: str) -> None:
    """What `lease.field_manager` gave outlives the tenure, and the API server refuses it (case 1)."""
    writer = cluster.service_account(namespace, "writer", "worklease-agent-creator")
    cluster.api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", WRITER)
    cluster.grant(namespace, WRITER["metadata"]["name"], writer)  # type: ignore[index]
    source = worklease.Source(str(writer.kubeconfig))
    body = {"metadata": {"name": "charge", "labels": {LABEL: "true"}}, "data": {"cents": "4200"}}
    maps = MAPS.format(namespace)
    with operating(cluster, namespace):
        with worklease.blocking.hold("w", purpose="p", namespace=namespace, source=source) as lease:
            body["metadata"]["annotations"] = {LEASE: lease.key, EPOCH: str(lease.epoch)}  # type: ignore[index]
            manager = lease.field_manager("payer")
            wait_for(lambda: writer.api.create(maps, body, fieldManager=manager).ok, "the API server to see the grant")
        Work(cluster, namespace, "w").reaches("Released")
        path = f"{maps}/charge"
        patch = [{"op": "replace", "path": "/data/cents", "value": "666"}]
        wait_for(
            lambda: writer.api.patch(path, patch, fieldManager=manager, dryRun="All").status == 403,
            "the API server to see the release",
        )
        answer = writer.api.patch(path, patch, fieldManager=manager)
    assert answer.status == 403
    assert "has no standing" in answer.message
