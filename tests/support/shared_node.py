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

import worklease
from controlplane import ensure
from imaging.command import NAME
from imaging.command import ensure as image
from localcluster.state import State
from locking import locked
from repository import REPOSITORY
from support import kubectl_image
from support.cluster import Cluster
from support.helm import CHART, NAMESPACE, RELEASE, Helm

IMAGE = f"{NAME}:{worklease.__version__}"
STATE = "worklease/cluster"
WAIT = ("--wait", "--timeout=110s")


class SharedNode:
    """A cluster with a node, with worklease installed by its chart. `cluster` is for its administrator."""

    def __init__(self, state_home: Path, cluster: Cluster) -> None:
        self.state_home = state_home
        self.cluster = cluster

    def helm(self, *arguments: str) -> str:
        """What helm prints; fails with what it says when it does not succeed."""
        helm = Helm(ensure("helm")["helm"], self.cluster.directory, self.cluster.kubeconfig)
        return helm.must(*arguments, f"--namespace={NAMESPACE}")

    def install(self) -> None:
        """Loads the images and installs the chart."""
        theirs = self.state_home / "kubectl.tar"
        kubectl_image.write(theirs, self.cluster.kubectl_path)
        hack_cluster(self.state_home, "load", str(image()), str(theirs))
        self.helm("install", RELEASE, str(CHART), "--create-namespace", *WAIT)

    def upgrade(self, chart: str | Path = CHART, *arguments: str) -> None:
        """Puts a chart in the place of the one that is installed."""
        self.helm("upgrade", RELEASE, str(chart), *WAIT, *arguments)

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
                    node.install()
                    (directory / "installed").touch()
            yield node
        finally:
            with contextlib.suppress(BlockingIOError):
                # Nobody else has it open: whoever comes now would make it anew.
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (directory / "installed").unlink(missing_ok=True)
                hack_cluster(directory, "down")


def start_hack_cluster(state_home: Path, *arguments: str) -> subprocess.Popen[str]:
    """Starts hack/cluster, for the cluster whose files are in this directory."""
    return subprocess.Popen(
        [sys.executable, REPOSITORY / "hack" / "cluster", *arguments],
        env={**os.environ, "XDG_STATE_HOME": str(state_home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def hack_cluster(state_home: Path, *arguments: str) -> str:
    """What hack/cluster prints; fails with what it says when it does not succeed."""
    with start_hack_cluster(state_home, *arguments) as process:
        out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out
