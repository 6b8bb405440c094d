"""A user without a home directory, as containers have them, is told what to do instead."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HOMELESS = """
import pwd, sys
pwd.getpwuid = lambda user: {}[user]
from worklease.cli.command import main
sys.exit(main(sys.argv[1:]))
"""
"""The command, run by a user that the machine has no entry for."""
VARIABLES = ("HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST")


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command with these arguments and variables."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES} | variables
    command = [sys.executable, "-c", HOMELESS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.mark.parametrize(
    ("variables", "said"),
    [({}, "no home directory"), ({"KUBECONFIG": "~/.kube/config"}, "kubeconfig ~/.kube/config does not exist")],
    ids=["no kubeconfig", "one in a home"],
)
def test_a_user_without_a_home_directory_is_told_to_name_a_kubeconfig(variables: dict[str, str], said: str) -> None:
    """A configuration that is missing, in a line; a ~ that leads nowhere is a file that does not exist."""
    ended = run("status", "w", **variables)
    assert ended.returncode not in (0, None)
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_completion_for_a_user_without_a_home_directory_has_no_candidates() -> None:
    """It says nothing, as about whatever else goes wrong."""
    ended = run("__complete", "hold", "--context", "")
    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, ":4", "")
