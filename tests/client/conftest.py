"""The fixtures of the holders' tests: an operator for the namespace, and agents with the ordinary roles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cluster import Cluster, Identity
from support.operators import OperatorThread, operating
from support.proxy import Proxy


@pytest.fixture
def operator(cluster: Cluster, namespace: str) -> Iterator[OperatorThread]:
    """An operator for the namespace of the test."""
    with operating(cluster, namespace) as running:
        yield running


@pytest.fixture
def agent(cluster: Cluster, namespace: str) -> Identity:
    """An agent that may create work."""
    return cluster.service_account(namespace, "agent", "worklease-agent-creator")


@pytest.fixture
def other(cluster: Cluster, namespace: str) -> Identity:
    """Another agent, with the ordinary role."""
    return cluster.service_account(namespace, "other", "worklease-agent")


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """A proxy before the API server."""
    running = Proxy(cluster)
    yield running
    running.stop()
