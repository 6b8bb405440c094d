"""The fixtures that several of these files share: places with everybody who speaks there, agents, operators to kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity
from support.crashing import Nursery
from support.offering import Team, working
from support.operators import operator_kubeconfig
from support.speaking import Agent
from support.stage import Stage
from support.staging import staged
from support.statements import Scene, Work
from support.statements import staged as scened


@pytest.fixture(scope="module")
def scene(cluster: Cluster) -> Iterator[Scene]:
    """One namespace for all tests of a file: each makes its own work item."""
    with scened(cluster) as scene:
        yield scene


@pytest.fixture
def work(scene: Scene) -> Work:
    """A work item that is yet to be created."""
    return scene.work()


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """One namespace for all tests of a file: each makes its own objects."""
    with staged(cluster) as stage:
        yield stage


@pytest.fixture
def own_stage(cluster: Cluster) -> Iterator[Stage]:
    """A namespace of the test's own, of which it may delete everything."""
    with staged(cluster) as stage:
        yield stage


@pytest.fixture(scope="module")
def team(cluster: Cluster) -> Iterator[Team]:
    """One team and one operator for all tests of a file: each has its own work items."""
    with working(cluster) as team:
        yield team


@pytest.fixture
def agent(namespace: str, service_account: Callable[..., Identity]) -> Agent:
    """An agent with the ordinary role."""
    return Agent.of(service_account(namespace, "agent", "worklease-agent"))


@pytest.fixture
def nursery(cluster: Cluster, tmp_path: Path) -> Iterator[Nursery]:
    """Starts operators that are killed, and ends the others."""
    nursery = Nursery(operator_kubeconfig(cluster), tmp_path)
    yield nursery
    nursery.stop()
