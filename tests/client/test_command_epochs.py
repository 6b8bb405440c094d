"""Which tenure a command of a shell speaks about: the one that is asked for, or that its environment is about."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity
from support.shell import Shell
from support.speaking import Work
from worklease.cli.exits import Exit

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture
def shell(namespace: str, agent: Identity) -> Shell:
    """The agent's shell, without anything of ours in its environment."""
    one = Shell(agent, namespace)
    for name in ("WORKLEASE_EPOCH", "WORKLEASE_LEASE"):
        one.environment.pop(name, None)
    return one


def test_under_hold_another_item_may_be_spoken_about(
    cluster: Cluster, namespace: str, shell: Shell, tmp_path: Path
) -> None:
    """The epoch in the environment of `hold` is about what that holds, and about nothing else."""
    Work.create(cluster, namespace, "held", lease_seconds=600)
    Work.create(cluster, namespace, "beside", lease_seconds=600)
    command = tmp_path / "worklease"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m worklease.cli "$@"\n')
    command.chmod(0o755)
    script = (
        f"{command} claim beside -n {namespace} && {command} renew beside -n {namespace}"
        f" && {command} checkpoint beside -n {namespace} --uri s3://a --digest sha256:1"
        f" && {command} release beside -n {namespace} && {command} renew held -n {namespace}"
    )
    code, out, err = shell.run("hold", "held", "--", "sh", "-ec", script)
    assert code == Exit.DONE, err
    assert f"{namespace}/beside released" in out
    assert f"{namespace}/held renewed" in out


def test_the_variable_is_about_the_item_that_it_came_with(cluster: Cluster, namespace: str, shell: Shell) -> None:
    """With no lease beside it, or with this one, another cluster's name before it or not (case 15)."""
    Work.create(cluster, namespace, "w", lease_seconds=600)
    epoch = int(shell.call("claim", "w")[1])
    for lease in (None, f"{namespace}/w", f"cluster/{namespace}/w"):
        shell.environment.update({"WORKLEASE_EPOCH": "1", **({"WORKLEASE_LEASE": lease} if lease else {})})
        code, _, err = shell.call("renew", "w")
        assert code == Exit.REFUSED
        assert f"it is held under epoch {epoch}, and WORKLEASE_EPOCH says epoch 1" in err
        assert shell.call("renew", "w", "--epoch", str(epoch))[0] == Exit.DONE
    for lease in ("other/w", f"{namespace}/v"):
        shell.environment["WORKLEASE_LEASE"] = lease
        assert shell.call("renew", "w")[0] == Exit.DONE


def test_epoch_zero_is_an_epoch_that_was_asked_for(cluster: Cluster, namespace: str, shell: Shell) -> None:
    """And not the same as none."""
    Work.create(cluster, namespace, "w", lease_seconds=600)
    shell.call("claim", "w")
    code, _, err = shell.call("release", "w", "--epoch", "0")
    assert (code, "--epoch says epoch 0" in err) == (Exit.REFUSED, True)
    assert Work(cluster, namespace, "w").status["phase"] == "Held"


@pytest.mark.parametrize("written", ["abc", "-1", "1.0", " 7"])
def test_a_variable_that_is_no_epoch_is_named(cluster: Cluster, namespace: str, shell: Shell, written: str) -> None:
    """With what an epoch is."""
    Work.create(cluster, namespace, "w")
    shell.environment["WORKLEASE_EPOCH"] = written
    code, _, err = shell.call("renew", "w")
    assert code == Exit.USAGE
    assert err.startswith(f"worklease: WORKLEASE_EPOCH is {written!r}: an epoch is a decimal integer")
