"""A stage for a while: its namespace is made, and deleted afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support.cluster import Cluster
from support.stage import Stage
from support.stored import KINDS
from support.words import removes


@contextmanager
def staged(cluster: Cluster) -> Iterator[Stage]:
    """A stage in a fresh namespace."""
    with cluster.namespace("stage") as name:
        stage = Stage(cluster, name)
        try:
            yield stage
        finally:
            strike(stage)


def strike(stage: Stage) -> None:
    """Takes away what would keep the namespace from being deleted: finalizers that some tests set."""
    for plural in KINDS:
        for item in stage.root.api.get(stage.path(plural)).body.get("items", []):
            if item["metadata"].get("finalizers"):
                path = f"{stage.path(plural)}/{item['metadata']['name']}"
                stage.root.api.patch(path, removes("/metadata/finalizers"))
