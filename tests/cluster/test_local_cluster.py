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
BROKEN_PIPE = 128 + signal.SIGPIPE


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

    def read_nothing(self, *arguments: str) -> tuple[int, str]:
        """Runs it for a reader that is gone already: the exit code, and stderr."""
        process = self.start(*arguments)
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        with process:
            errors = process.stderr.read()
        return process.returncode, errors

    def must(self, *arguments: str) -> str:
        """What it prints on stdout; fails with what it says when it does not succeed."""
        code, out, errors = self.run(*arguments)
        assert code == 0, errors
        return out

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
    line = hack_cluster.must("up")
    word, assignment = shlex.split(line)
    assert word == "export"
    kubeconfig = Path(assignment.removeprefix("KUBECONFIG="))
    assert Api.from_kubeconfig(kubeconfig).get("/readyz").status == 200
    before = hack_cluster.servers()
    assert hack_cluster.must("up") == line
    assert hack_cluster.servers() == before
    description = hack_cluster.must("status")
    for told in ("up for 0 h 00 min", str(kubeconfig), "etcd", "kube-apiserver", "operator       not started"):
        assert told in description
    assert hack_cluster.read_nothing("status") == (BROKEN_PIPE, "")
    code, _, errors = hack_cluster.run("up", "--empty")
    assert (code, "with worklease in it: hack/cluster down, then up --empty" in errors) == (1, True)
    hack_cluster.must("down")
    assert not kubeconfig.exists()
    wait_for(lambda: not hack_cluster.servers(), "the last process to be gone")
    hack_cluster.must("down")


def test_two_at_once_start_one_cluster(hack_cluster: Commands) -> None:
    """The second `up` waits for the first and prints the same."""
    both = [hack_cluster.start("up"), hack_cluster.start("up")]
    answers = [process.communicate(timeout=WITHIN_SECONDS) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert len([command for command in hack_cluster.servers().values() if "--etcd-servers" in command]) == 1


def test_crashed_supervisor_is_noticed_also_when_its_process_id_lives_on(hack_cluster: Commands) -> None:
    """A process id in a file proves nothing: after a crash the cluster counts as down, and `up` starts a new one."""
    hack_cluster.must("up", "--no-controller-manager")
    pid_file = hack_cluster.directory / "worklease" / "cluster" / "supervisor.pid"
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    wait_for(lambda: not hack_cluster.servers(), "the servers to end with their supervisor")
    pid_file.write_text(f"{os.getpid()}\n")
    assert hack_cluster.run("status")[0] == NOT_UP
    hack_cluster.must("down")
    hack_cluster.must("up", "--no-controller-manager")
    hack_cluster.must("status")


def test_a_cluster_without_worklease_runs_no_operator(hack_cluster: Commands) -> None:
    """It is for a chart that brings its own: `up --operator` says so, and what there is goes on."""
    line = hack_cluster.must("up", "--empty", "--no-controller-manager")
    code, _, errors = hack_cluster.run("up", "--operator")
    assert (code, "without worklease: hack/cluster down, then up --operator" in errors) == (1, True)
    assert hack_cluster.must("up") == line


def test_interrupted_up_leaves_nothing(hack_cluster: Commands) -> None:
    """Ctrl-C while the cluster starts takes back what has been started."""
    process = hack_cluster.start("up")
    wait_for(hack_cluster.servers, "the first server to be started", WITHIN_SECONDS)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WITHIN_SECONDS)
    assert process.returncode == 128 + signal.SIGINT
    assert not hack_cluster.servers()
    assert hack_cluster.run("status")[0] == NOT_UP


def test_operator_runs_by_its_own_role_and_is_started_again_when_asked(hack_cluster: Commands) -> None:
    """`up --operator` returns when the operator is ready; one that has ended is told of and can be had again."""
    line = hack_cluster.must("up", "--operator")
    assert "operator       ready" in hack_cluster.must("status")
    (operator,) = [pid for pid, command in hack_cluster.servers().items() if "worklease-operator" in command]
    os.kill(operator, signal.SIGKILL)
    wait_for(
        lambda: "ended with exit code -9: hack/cluster up --operator starts it again" in hack_cluster.must("status"),
        "the operator's end to be told",
    )
    for said in ("starting worklease-operator", "worklease-operator runs already"):
        code, out, errors = hack_cluster.run("up", "--operator")
        assert (code, out, said in errors) == (0, line, True)
    assert "operator       ready" in hack_cluster.must("status")
