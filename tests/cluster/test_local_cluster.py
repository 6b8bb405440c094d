"""hack/cluster starts a cluster that outlives the command, and each of its commands can be repeated."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api import Api
from support.processes import HACK, processes_with
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

WITHIN_SECONDS = 300
NOT_UP = 3


class Commands:
    """hack/cluster with a state directory of its own, called from somewhere else."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts the command."""
        return subprocess.Popen(
            [sys.executable, HACK / "cluster", *arguments],
            cwd="/",
            env={**os.environ, "XDG_STATE_HOME": str(self.directory)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Runs it to its end: the exit code, stdout and stderr."""
        process = self.start(*arguments)
        out, errors = process.communicate(timeout=WITHIN_SECONDS)
        return process.returncode, out, errors

    def servers(self) -> dict[int, str]:
        """The servers of this cluster that run."""
        return processes_with(str(self.directory))


@pytest.fixture
def hack_cluster(tmp_path: Path) -> Iterator[Commands]:
    """The command, and no cluster left behind."""
    commands = Commands(tmp_path)
    yield commands
    commands.run("down")


def test_commands_can_be_repeated(hack_cluster: Commands) -> None:
    """`up` twice is one cluster, `status` describes it, `down` twice is none; stdout of `up` is for the shell alone."""
    assert hack_cluster.run("status")[0] == NOT_UP
    code, line, errors = hack_cluster.run("up")
    assert code == 0, errors
    word, assignment = shlex.split(line)
    assert word == "export"
    kubeconfig = Path(assignment.removeprefix("KUBECONFIG="))
    assert Api.from_kubeconfig(kubeconfig).get("/readyz").status == 200
    before = hack_cluster.servers()
    assert hack_cluster.run("up")[:2] == (0, line)
    assert hack_cluster.servers() == before
    code, description, _ = hack_cluster.run("status")
    assert code == 0
    for told in ("up for 0 h 00 min", str(kubeconfig), "etcd", "kube-apiserver", "operator       not started"):
        assert told in description
    assert hack_cluster.run("down")[0] == 0
    assert not hack_cluster.servers()
    assert not kubeconfig.exists()
    assert hack_cluster.run("down")[0] == 0


def test_two_at_once_start_one_cluster(hack_cluster: Commands) -> None:
    """The second `up` waits for the first and prints the same."""
    both = [hack_cluster.start("up"), hack_cluster.start("up")]
    answers = [process.communicate(timeout=WITHIN_SECONDS) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert len([command for command in hack_cluster.servers().values() if "--etcd-servers" in command]) == 1


def test_crashed_supervisor_is_noticed_also_when_its_process_id_lives_on(hack_cluster: Commands) -> None:
    """A process id in a file proves nothing: after a crash the cluster counts as down, and `up` starts a new one."""
    assert hack_cluster.run("up", "--no-controller-manager")[0] == 0
    pid_file = hack_cluster.directory / "worklease" / "cluster" / "supervisor.pid"
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    wait_for(lambda: not hack_cluster.servers(), "the servers to end with their supervisor")
    pid_file.write_text(f"{os.getpid()}\n")
    assert hack_cluster.run("status")[0] == NOT_UP
    assert hack_cluster.run("down")[0] == 0
    assert hack_cluster.run("up", "--no-controller-manager")[0] == 0
    assert hack_cluster.run("status")[0] == 0


def test_interrupted_up_leaves_nothing(hack_cluster: Commands) -> None:
    """Ctrl-C while the cluster starts takes back what has been started."""
    process = hack_cluster.start("up")
    wait_for(hack_cluster.servers, "the first server to be started", WITHIN_SECONDS)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WITHIN_SECONDS)
    assert process.returncode == 128 + signal.SIGINT
    assert not hack_cluster.servers()
    assert hack_cluster.run("status")[0] == NOT_UP
