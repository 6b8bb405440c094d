"""A stage for a while: its namespace is made, and deleted afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from support.cluster import Cluster
from support.stage import Stage


@contextmanager
def staged(cluster: Cluster) -> Iterator[Stage]:
    """A stage in a fresh namespace."""
    name = f"stage-{secrets.token_hex(5)}"
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name}}).must()
    try:
        yield Stage(cluster, name)
    finally:
        cluster.api.delete(f"/api/v1/namespaces/{name}")
