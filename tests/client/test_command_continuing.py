"""hold goes on with what its user's shells hold already; two commands of one user do not take it from each other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity
from support.shell import Shell
from support.speaking import Agent, Work
from support.waiting import wait_for
from worklease.cli.exits import Exit

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of the user's commands lies in a directory of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes to end after the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def running(shell: Shell, started: list[subprocess.Popen[str]], log: Path, *flags: str) -> subprocess.Popen[str]:
    """A hold of `w` whose command runs until it is told to end."""
    script = f"echo $WORKLEASE_EPOCH $WORKLEASE_INSTANCE > {log}.new; mv {log}.new {log}; sleep 1000 & wait"
    process = shell.start("hold", "w", *flags, "--", "sh", "-c", script)
    started.append(process)
    wait_for(log.exists, "the command to run", 60.0)
    return process


@pytest.mark.parametrize("flags", [(), ("--suspend",)], ids=["", "suspended"])
def test_a_takeover_is_continued_by_hold(
    cluster: Cluster, namespace: str, agent: Identity, flags: tuple[str, ...]
) -> None:
    """Under a higher epoch, by the same instance, also while the work takes no claims; the advice says so."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    work.hold(Agent.of(agent))
    shell = Shell(cluster.admin, namespace)
    code, out, err = shell.call("takeover", "w", "--reason", "INC-7", "--yes", *flags)
    assert (code, "it lapses unless `worklease hold` or `worklease renew` follows" in err) == (Exit.DONE, True)
    code, under, err = shell.run("hold", "w", "--", "sh", "-c", "echo $WORKLEASE_EPOCH")
    assert code == Exit.DONE, err
    assert int(under) > int(out)
    work.reaches("Released")
    assert [tenure["grantReason"] for tenure in work.history][1:] == ["AfterRevocation", "Reclaim"]
    assert {tenure["instance"] for tenure in work.history[1:]} == {"cli:test/me"}


def test_what_runs_under_hold_is_not_taken_by_the_same_user(
    cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    """A second hold and a claim by hand are refused (case 18); one that waits goes on when the first has ended."""
    shell = Shell(agent, namespace)
    shell.call("claim", "w", "--create", "--lease-seconds", "10", "--jeopardy-seconds", "300")
    first = running(shell, started, tmp_path / "first")
    code, _, err = shell.run("hold", "w", "--", "echo", "ran")
    assert (code, "another `worklease hold`" in err) == (Exit.REFUSED, True)
    code, _, err = shell.run("claim", "w")
    assert (code, "a `worklease hold` of yours" in err) == (Exit.REFUSED, True)
    assert shell.run("hold", "w", "--wait", "0.6", "--", "echo", "ran")[0] == Exit.WAITED
    waiting = shell.start("hold", "w", "--wait", "60", "--", "echo", "ran")
    started.append(waiting)
    assert shell.call("release", "w")[0] == Exit.DONE
    out, err = waiting.communicate(timeout=60.0)
    assert (waiting.returncode, out) == (Exit.DONE, "ran\n"), err
    first.communicate(timeout=60.0)
    assert first.returncode == Exit.LOST


def test_two_commands_of_one_pod_do_not_take_the_work_from_each_other(
    cluster: Cluster, namespace: str, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    """All that a pod says it says as one instance, and the API server would admit both (case 18)."""
    pod = cluster.pod_identity(namespace, "worker", "worker-0", "worklease-agent")
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    shell = Shell(pod, namespace)
    running(shell, started, tmp_path / "first")
    epoch = work.epoch
    for words in (("hold", "w", "--", "echo", "ran"), ("claim", "w")):
        code, out, err = shell.run(*words)
        assert (code, out, "worklease hold" in err) == (Exit.REFUSED, "", True)
    assert (work.epoch, work.status["instance"]) == (epoch, pod.instance)


def test_the_command_under_hold_speaks_as_its_holder(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Its checkpoint is the holder's; a hold within is refused, and does not end what is around it."""
    shell = Shell(agent, namespace)
    inner = "python -m worklease.cli -n $WORKLEASE_NAMESPACE"
    script = f"{inner} checkpoint w --uri s3://1 --digest d1 || exit 9; {inner} hold w -- true; test $? = 3 || exit 8"
    code, _, err = shell.run("hold", "w", "--create", "--complete", "all", "--", "sh", "-c", script)
    assert code == Exit.DONE, err
    (tenure,) = Work(cluster, namespace, "w").reaches("Completed")["history"]
    assert tenure["checkpointDigest"] == "d1"
    assert tenure["instance"].startswith("host:")


def test_without_a_place_for_the_lock_the_work_is_held_all_the_same(
    cluster: Cluster, namespace: str, agent: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that cannot be written: the API server still lets only one hold."""
    shell = Shell(agent, namespace)
    shell.environment["XDG_CACHE_HOME"] = os.devnull
    shell.call("claim", "w", "--create")
    code, out, err = shell.run("hold", "w", "--", "echo", "ran")
    assert (code, out) == (Exit.DONE, "ran\n"), err
