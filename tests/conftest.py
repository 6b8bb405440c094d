"""The fixtures of every test: the cluster, a namespace in it, and identities with their own credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from controlplane import PEOPLE, ControlPlane, ensure, install
from support.cluster import Cluster, Identity, KubectlAnswer

if TYPE_CHECKING:
    from support.operators import OperatorThread
    from support.proxy import Proxy

# The same examples in every run: a defect that random ones would find belongs in a longer search, not in a flaky test.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")

NO_CLUSTER = (
    "there is no cluster for parallel tests: run hack/test, which starts one for all of them, "
    "or name one with --kubeconfig FILE, or leave -n out"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that names a cluster to use instead of one of our own."""
    parser.addoption("--kubeconfig", type=Path, help="run against this cluster instead of starting a control plane")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with worklease's CRDs, policies and roles: the one given, else a control plane for this session."""
    given: Path | None = request.config.getoption("kubeconfig")
    parallel = hasattr(request.config, "workerinput")
    directory = tmp_path_factory.mktemp("kubeconfigs")
    if given:
        kubectl = ensure("kubectl")["kubectl"]
        if not parallel:
            install(given, kubectl)
        yield Cluster(given, kubectl, directory)
        return
    if parallel:
        pytest.fail(NO_CLUSTER, pytrace=False)
    with ControlPlane(users=PEOPLE, controller_manager=True) as plane:
        install(plane.kubeconfig, plane.kubectl)
        yield Cluster(plane.kubeconfig, plane.kubectl, directory)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace, deleted afterwards."""
    with cluster.namespace("test") as name:
        yield name


@pytest.fixture
def operator(cluster: Cluster, namespace: str) -> Iterator[OperatorThread]:
    """An operator for the namespace of the test."""
    from support.operators import operating  # here, since most tests need none and it takes a while

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
def kubectl(cluster: Cluster) -> Callable[..., KubectlAnswer]:
    """Runs kubectl: `kubectl("get", "pods", identity=alice, given=manifest)`."""
    return cluster.kubectl


@pytest.fixture
def service_account(cluster: Cluster) -> Callable[..., Identity]:
    """Makes a ServiceAccount with a ClusterRole: `service_account(namespace, "a", "worklease-agent")`."""
    return cluster.service_account


@pytest.fixture
def pod_identity(cluster: Cluster) -> Callable[..., Identity]:
    """Makes a Pod with a token bound to it: `pod_identity(namespace, "a", "a-0", "worklease-agent")`."""
    return cluster.pod_identity


@pytest.fixture
def as_user(cluster: Cluster) -> Callable[[str], Identity]:
    """A person with a static token, `as_user("alice")`; skips on a cluster that has no such user."""

    def known(name: str) -> Identity:
        identity = cluster.as_user(name)
        if identity is None:
            pytest.skip(f"the kubeconfig of this cluster has no context {name}")
        return identity

    return known


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """What stands between a client and the API server."""
    from support.proxy import Proxy  # here, since few tests need one

    proxy = Proxy(cluster)
    yield proxy
    proxy.stop()
