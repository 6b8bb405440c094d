"""worklease hold: a command runs under a lease, and is dead before the work can be another's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity
from support.holding import wire
from support.processes import processes_with
from support.shell import Shell
from support.speaking import Agent, Work
from support.waiting import wait_for
from worklease.cli.exits import Exit

pytestmark = pytest.mark.usefixtures("operator")
SHORT = ("--create", "--lease-seconds", "10", "--jeopardy-seconds", "0")
STUBBORN = "trap '' TERM INT; (while :; do cut -d' ' -f1 /proc/uptime >> {log}; sleep 0.05; done) & wait"
"""A command that ignores every request to end, and so does what it has started; it writes the time for as long."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the command writes."""
    return tmp_path / "log"


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes to end after the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def last_time(log: Path) -> float:
    """The last time that the command has written, in seconds since the boot."""
    return float(log.read_text().splitlines()[-1])


def alive_since(log: Path) -> bool:
    """Whether it has begun to write."""
    return log.exists() and bool(log.read_text())


def test_the_command_is_given_its_lease_its_input_and_its_exit_code(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """The environment has the fencing token, and who holds; the code is the command's own; then the work is free."""
    names = "WORKLEASE_LEASE WORKLEASE_EPOCH WORKLEASE_CLAIM_ID WORKLEASE_NAME WORKLEASE_NAMESPACE WORKLEASE_HOLDER"
    script = f"for name in {names}; do printenv $name; done; cat; exit 7"
    code, out, err = Shell(agent, namespace).run(
        "hold", "w", "--create", "--", "sh", "-c", script, given="said on stdin"
    )
    status = Work(cluster, namespace, "w").reaches("Released")
    assert code == 7, err
    assert out.splitlines() == [
        f"{namespace}/w", str(status["epoch"]), status["claimID"], "w", namespace, agent.username, "said on stdin",
    ]  # fmt: skip
    assert status["history"][0]["endMessage"] == "the command ended with 7"


def test_a_command_that_ends_well_can_complete_the_work(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """--complete says so only after 0; a command that is not there is 127, and the work is given back."""
    shell = Shell(agent, namespace)
    assert shell.run("hold", "w", "--create", "--complete", "charged", "--", "true")[0] == Exit.DONE
    (tenure,) = Work(cluster, namespace, "w").reaches("Completed")["history"]
    assert tenure["endMessage"] == "charged"
    code, _, err = shell.run("hold", "v", "--create", "--complete", "--", "no-such-command")
    assert (code, "no-such-command" in err) == (127, True)
    Work(cluster, namespace, "v").reaches("Released")


def test_refusals_have_their_exit_codes(cluster: Cluster, namespace: str, agent: Identity, other: Identity) -> None:
    """3 for leased work, 1 for none, 124 for a wait in vain, 2 for wrong usage; nothing ran (cases 13, 18)."""
    work = Work.create(cluster, namespace, lease_seconds=60)
    work.hold(Agent.of(other))
    shell = Shell(agent, namespace)
    code, out, err = shell.call("hold", work.name, "--", "echo", "ran")
    assert (code, out) == (Exit.REFUSED, "")
    assert "work is leased until about 2" in err
    assert shell.call("hold", work.name, "--wait", "0.5", "--", "echo", "ran")[:2] == (Exit.WAITED, "")
    assert shell.call("hold", work.name)[0] == Exit.USAGE
    assert shell.call("hold", "none", "--", "true")[0] == Exit.ERROR


def test_a_revoked_command_is_killed_with_all_that_it_started(
    cluster: Cluster, namespace: str, agent: Identity, log: Path, started: list[subprocess.Popen[str]]
) -> None:
    """It ignores SIGTERM, and so do its children: they are dead when hold ends, with 4 (cases 1, 12)."""
    process = Shell(agent, namespace).start("hold", "w", *SHORT, "--", "sh", "-c", STUBBORN.format(log=log))
    started.append(process)
    wait_for(lambda: alive_since(log), "the command to run", 60.0)
    work = Work(cluster, namespace, "w")
    work.revoke(work.epoch, "INC-7").must()
    _, err = process.communicate(timeout=60.0)
    assert process.returncode == Exit.LOST
    assert "INC-7" in err
    assert not processes_with(str(log))


def test_a_command_that_ends_well_after_a_revocation_has_lost_its_lease(
    cluster: Cluster, namespace: str, agent: Identity, log: Path, started: list[subprocess.Popen[str]]
) -> None:
    """No renewal had told of it: the completion is refused, and hold ends with 4 and the administrator's reason."""
    script = f"echo begun > {log}; read -r go"
    process = Shell(agent, namespace).start("hold", "w", "--create", "--complete", "charged", "--", "sh", "-c", script)
    started.append(process)
    wait_for(lambda: alive_since(log), "the command to run", 60.0)
    work = Work(cluster, namespace, "w")
    work.revoke(work.epoch, "INC-7").must()
    work.reaches("Revoked")
    _, err = process.communicate("go\n", timeout=60.0)
    assert process.returncode == Exit.LOST
    assert "INC-7" in err


@pytest.mark.parametrize("how", ["partitioned", "stopped", "killed"])
def test_a_command_does_not_outlive_the_certainty_of_its_lease(
    cluster: Cluster,
    namespace: str,
    agent: Identity,
    other: Identity,
    log: Path,
    tmp_path: Path,
    how: str,
    started: list[subprocess.Popen[str]],
) -> None:
    """A partition, hold stopped, hold killed: the command and its children are dead before another's grant, and
    nothing goes on renewing (cases 12, 39).
    """
    with wire(agent, tmp_path) as (between, kubeconfig):
        shell = Shell(agent, namespace, kubeconfig=kubeconfig)
        process = shell.start("hold", "w", *SHORT, "--", "sh", "-c", STUBBORN.format(log=log))
        started.append(process)
        wait_for(lambda: alive_since(log), "the command to run", 60.0)
        if how == "partitioned":
            between.silence()
        else:
            os.kill(process.pid, signal.SIGSTOP if how == "stopped" else signal.SIGKILL)
        code, out, err = Shell(other, namespace, user="other").run(
            "hold", "w", "--wait", "60", "--", "cut", "-d ", "-f1", "/proc/uptime"
        )
        assert code == Exit.DONE, err
        assert last_time(log) < float(out.split()[-1])
        assert set(processes_with(str(log))) <= {process.pid}
        if how == "stopped":
            os.kill(process.pid, signal.SIGCONT)
        process.communicate(timeout=60.0)
        assert process.returncode == (-signal.SIGKILL if how == "killed" else Exit.LOST)


def test_a_signal_reaches_the_command_and_the_work_is_given_back(
    cluster: Cluster, namespace: str, agent: Identity, log: Path, started: list[subprocess.Popen[str]]
) -> None:
    """SIGTERM to hold ends the command in its own way, and the lease with it (case 9)."""
    script = f"trap 'echo ended; exit 5' TERM; echo begun > {log}; while :; do sleep 0.05; done"
    process = Shell(agent, namespace).start("hold", "w", "--create", "--", "sh", "-c", script)
    started.append(process)
    wait_for(lambda: alive_since(log), "the command to run", 60.0)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60.0)
    assert (process.returncode, out) == (5, "ended\n")
    Work(cluster, namespace, "w").reaches("Released")


def test_a_command_can_be_stopped_in_jeopardy_and_go_on(
    cluster: Cluster, namespace: str, agent: Identity, log: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    """--on-jeopardy=stop: quiescent while nothing is certain, and on again after a renewal; the file says which."""
    said = tmp_path / "status"
    script = f"while :; do cut -d' ' -f1 /proc/uptime >> {log}; sleep 0.05; done"
    with wire(agent, tmp_path) as (between, kubeconfig):
        process = Shell(agent, namespace, kubeconfig=kubeconfig).start(
            "hold", "w", "--create", "--lease-seconds", "10", "--jeopardy-seconds", "300",
            "--on-jeopardy", "stop", "--status-file", str(said), "--", "sh", "-c", script,
        )  # fmt: skip
        started.append(process)
        wait_for(lambda: alive_since(log), "the command to run", 60.0)
        assert '"Held"' in said.read_text()
        between.silence()
        wait_for(lambda: '"Jeopardy"' in said.read_text(), "the status file to say so", 60.0)
        wait_for(lambda: stopped(str(log)), "the command to be stopped", 60.0)
        before = last_time(log)
        between.restore()
        wait_for(lambda: last_time(log) > before, "the command to go on", 60.0)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60.0)
    assert len(Work(cluster, namespace, "w").reaches("Released")["history"]) == 1


def stopped(text: str) -> bool:
    """Whether all processes with this in their command line, the holder and its guard aside, are stopped."""
    commands = {pid: line for pid, line in processes_with(text).items() if line.startswith("sh ")}
    states = [Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] for pid in commands]
    return bool(states) and set(states) == {"T"}


def test_a_status_file_that_cannot_be_written_costs_no_lease(namespace: str, agent: Identity, tmp_path: Path) -> None:
    """A full disk, or no directory: hold says so once and goes on."""
    missing = tmp_path / "none" / "status"
    code, _, err = Shell(agent, namespace).run(
        "hold", "w", "--create", "--status-file", str(missing), "--", "sleep", "1"
    )
    assert code == Exit.DONE
    assert err.count("the status file cannot be written") == 1
