"""The node that these tests share. Where the machine cannot run one they are skipped, with the reason."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane import ensure
from localnode import requirements
from support.agents_in_pods import Agents
from support.cluster import Cluster
from support.helm import NAMESPACE
from support.pods import Pods
from support.shared_node import SharedNode, shared


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedNode]:
    """The cluster of hack/cluster up --node, with worklease installed by its chart."""
    try:
        requirements.ensure()
    except requirements.NodeUnavailableError as error:
        pytest.skip(str(error))
    base = tmp_path_factory.getbasetemp()
    parallel = hasattr(request.config, "workerinput")
    directory = (base.parent if parallel else base) / "node"
    owner = os.getppid() if parallel else os.getpid()
    with shared(directory, tmp_path_factory.mktemp("kubeconfigs"), owner) as node:
        yield node


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The cluster of the node, or the one that is given when the chart has been installed there."""
    given: Path | None = request.config.getoption("kubeconfig")
    if given:
        cluster = Cluster(given, ensure("kubectl")["kubectl"], tmp_path_factory.mktemp("given"))
        if cluster.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/worklease-operator").ok:
            return cluster
    node: SharedNode = request.getfixturevalue("node")
    return node.cluster


@pytest.fixture
def agents(cluster: Cluster, namespace: str) -> Callable[[str], Agents]:
    """Applies an example of agents in a namespace of the test: `agents("hold")`."""
    return lambda example: Agents(cluster, namespace, example).deploy()


@pytest.fixture
def pods(cluster: Cluster, namespace: str) -> Pods:
    """Starts pods of the project's image in the namespace of the test."""
    return Pods(cluster, namespace)
