"""A stage for a while: its namespace is made, and deleted afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from support.cluster import Cluster
from support.stage import KINDS, Stage


@contextmanager
def staged(cluster: Cluster) -> Iterator[Stage]:
    """A stage in a fresh namespace."""
    name = f"stage-{secrets.token_hex(5)}"
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name}}).must()
    try:
        yield Stage(cluster, name)
    finally:
        strike(Stage(cluster, name))


def strike(stage: Stage) -> None:
    """Deletes the namespace, and what would keep it: finalizers that some tests set."""
    for plural in KINDS:
        for item in stage.root.api.get(stage.path(plural)).body.get("items", []):
            if item["metadata"].get("finalizers"):
                path = f"{stage.path(plural)}/{item['metadata']['name']}"
                stage.root.api.patch(path, [{"op": "remove", "path": "/metadata/finalizers"}])
    stage.root.api.delete(f"/api/v1/namespaces/{stage.namespace}")
