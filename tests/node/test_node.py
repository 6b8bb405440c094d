"""The node of hack/cluster up --node: pods find what they need, and nothing of it stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.state import State
from support.cluster import Cluster
from support.helm import NAMESPACE
from support.pods import Pods
from support.processes import processes_with
from support.shared_node import STATE, SharedNode, hack_cluster, start_hack_cluster
from support.waiting import wait_for

LOOK_UP = """
import socket, sys
for name in sys.argv[1:]:
    print(name, sorted({found[4][0] for found in socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)}))
socket.create_connection((sys.argv[1], 443), timeout=10).close()
"""


@pytest.fixture
def second_node(node: SharedNode, tmp_path: Path) -> Iterator[Path]:
    """The directory of another node beside the shared one."""
    hack_cluster(tmp_path, "up", "--node", "--empty", f"--while={os.getpid()}")
    yield tmp_path
    hack_cluster(tmp_path, "down")


def test_interrupted_up_leaves_nothing(node: SharedNode, tmp_path: Path) -> None:
    """Ctrl-C while the node's daemons start takes back what has been started."""
    process = start_hack_cluster(tmp_path, "up", "--node", "--empty")
    wait_for(lambda: any("kubelet" in command for command in processes_with(str(tmp_path)).values()), "a kubelet", 120)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 128 + signal.SIGINT
    assert not processes_with(str(tmp_path))


def test_pods_find_services_by_name(node: SharedNode, cluster: Cluster, namespace: str, pods: Pods) -> None:
    """DNS and kube-proxy: the API server has a name that leads to it, and the operator's replicas have theirs."""
    cluster.service_account(namespace, "any")
    names = ("kubernetes.default", f"worklease-operator.{NAMESPACE}.svc.cluster.local")
    ended = pods.run("looks", "any", "python3", "-c", LOOK_UP, *names)
    assert ended.exit_code == 0, ended.log
    assert f"{names[0]} ['10.0.0.1']" in ended.log


def test_the_chart_tests_itself(node: SharedNode) -> None:
    """`helm test`: a pod with the agents' role holds a work item."""
    assert "Succeeded" in node.helm("test", "worklease", "--timeout=120s")


def test_status_shows_the_node(node: SharedNode) -> None:
    """Its name, kubelet, container runtime and whether it is ready."""
    told = hack_cluster(node.state_home, "status")
    for word in ("worklease-node", "containerd://", "True"):
        assert word in told


def test_a_killed_supervisor_takes_every_process_of_its_node_along(second_node: Path) -> None:
    """kill -9: the kernel ends the first process of the namespaces, and with it all others; then up works again."""
    running = State(second_node / STATE).running()
    assert running
    first = running.node
    assert first
    assert processes_with(str(second_node))
    os.kill(running.pid, signal.SIGKILL)
    wait_for(lambda: not processes_with(str(second_node)), "every process to end")
    wait_for(lambda: not Path(f"/proc/{first.pid}").exists(), "the namespaces to end")
    assert str(second_node) not in Path("/proc/self/mountinfo").read_text()
    hack_cluster(second_node, "up", "--node", "--empty", f"--while={os.getpid()}")
