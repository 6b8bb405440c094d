"""CRDs of a test's own, in another group beside the real ones, for as long as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.cluster import Cluster
from support.waiting import wait_for

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@contextmanager
def installed(cluster: Cluster, definition: dict[str, Any]) -> Iterator[None]:
    """The definition is served, as long as it is needed."""
    name, group, names = definition["metadata"]["name"], definition["spec"]["group"], definition["spec"]["names"]
    for shared in ("shortNames", "categories"):  # by these kubectl must find the real kind alone
        names.pop(shared, None)
    cluster.api.create(CRDS, definition).must()
    try:
        for version in definition["spec"]["versions"]:
            path = f"/apis/{group}/{version['name']}/{names['plural']}"
            wait_for(lambda path=path: cluster.api.get(path).ok, f"{path} to be served")  # type: ignore[misc]
        yield
    finally:
        cluster.api.delete(f"{CRDS}/{name}")
