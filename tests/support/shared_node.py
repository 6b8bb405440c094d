"""One cluster with a node for all workers of a test run: the first makes it, the last to leave ends it.

It also ends by itself with the process that the run began as.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import imaging.command
import worklease
from controlplane import ensure
from imaging.command import NAME
from localcluster.state import State
from locking import locked
from support import kubectl_image
from support.cluster import Cluster

REPOSITORY = Path(__file__).resolve().parents[2]
SYSTEM = "worklease-system"
IMAGE = f"{NAME}:{worklease.__version__}"
STATE = "worklease/cluster"
HELM_WITHIN_SECONDS = 300


class SharedNode:
    """A cluster with a node, with worklease installed by its chart. `cluster` is for its administrator."""

    def __init__(self, state_home: Path, cluster: Cluster) -> None:
        self.state_home = state_home
        self.cluster = cluster

    def helm(self, *arguments: str) -> str:
        """What helm prints; fails with what it says when it does not succeed."""
        program = ensure("helm")["helm"]
        command = [str(program), f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={SYSTEM}", *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=HELM_WITHIN_SECONDS)
        assert answer.returncode == 0, f"helm {' '.join(arguments)}: {answer.stderr}"
        return answer.stdout

    def ctr(self, *arguments: str) -> None:
        """Does something to the images of the node."""
        running = State(self.state_home / STATE).running()
        assert running
        assert running.node
        enter = ["nsenter", f"--target={running.node.pid}", "--mount", "--pid", "--net"]
        subprocess.run([*enter, "ctr", "--namespace=k8s.io", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def shared(directory: Path, kubeconfigs: Path, owner: int) -> Iterator[SharedNode]:
    """The node whose files are in `directory`; `kubeconfigs` is a directory of the caller alone."""
    directory.mkdir(exist_ok=True)
    with (directory / "users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            with locked(directory / "made.lock", lambda other: None):
                hack_cluster(directory, "up", "--node", "--empty", f"--while={owner}")
                running = State(directory / STATE).running()
                assert running
                node = SharedNode(
                    directory, Cluster(directory / STATE / "kubeconfig", Path(running.kubectl), kubeconfigs)
                )
                if not (directory / "installed").exists():
                    install(node, directory)
                    (directory / "installed").touch()
            yield node
        finally:
            with contextlib.suppress(BlockingIOError):
                # Nobody else has it open: whoever comes now would make it anew.
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (directory / "installed").unlink(missing_ok=True)
                hack_cluster(directory, "down")


def hack_cluster(state_home: Path, *arguments: str) -> str:
    """What hack/cluster prints; fails with what it says when it does not succeed."""
    answer = subprocess.run(
        [sys.executable, REPOSITORY / "hack" / "cluster", *arguments],
        env={**os.environ, "XDG_STATE_HOME": str(state_home)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def install(node: SharedNode, directory: Path) -> None:
    """Loads the images and installs the chart."""
    ours, theirs = directory / "worklease.tar", directory / "kubectl.tar"
    imaging.command.build(ours, IMAGE)
    kubectl_image.write(theirs, node.cluster.kubectl_path)
    hack_cluster(directory, "load", str(ours), str(theirs))
    chart = str(REPOSITORY / "charts" / "worklease")
    node.helm("install", "worklease", chart, "--create-namespace", "--wait", "--timeout=180s")
