"""worklease completion: commands, flags and names, by each shell's own completion where that shell is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity
from support.speaking import Agent, Work
from worklease.cli.completion import SCRIPTS, answer

NO_FILES, FILES = ":4", ":0"


@pytest.mark.parametrize(
    ("typed", "candidates"),
    [
        ("sta", ["status"]),
        ("handoff ", ["accept", "create", "reject", "withdraw"]),
        ("completion ", ["bash", "fish", "zsh"]),
        ("-n work handoff acc", ["accept"]),
        ("complete w --outcome ", ["Failed", "Succeeded"]),
        ("complete w --outcome=F", ["--outcome=Failed"]),
        ("complete w --outcome = F", ["Failed"]),
        ("status -o ", ["json", "name", "wide", "yaml"]),
        ("revoke w --su", ["--suspend"]),
        ("release w --dry", ["--dry-run"]),
        ("nonsense ", []),
    ],
)
def test_words_are_completed_without_a_cluster(typed: str, candidates: list[str]) -> None:
    """Commands, flags and their values; also where bash has split --flag=value into three words."""
    *found, directive = answer(typed.split(" ")).splitlines()
    assert [line.partition("\t")[0] for line in found if line.partition("\t")[0] not in ("--help",)] == candidates
    assert directive == NO_FILES


@pytest.mark.parametrize("typed", ["hold w -- ./ch", "hold w --status-file ", "status --kubeconfig "])
def test_files_are_left_to_the_shell(typed: str) -> None:
    """Where a file name or a command fits."""
    assert answer(typed.split(" ")) == FILES


@pytest.fixture
def words(cluster: Cluster, namespace: str, agent: Identity, monkeypatch: pytest.MonkeyPatch) -> Identity:
    """The agent's kubeconfig is that of the test's own environment; there are two work items."""
    for name in ("invoice-1", "invoice-2"):
        Work.create(cluster, namespace, name)
    monkeypatch.setenv("KUBECONFIG", str(agent.kubeconfig))
    return agent


def test_names_come_from_the_cluster(cluster: Cluster, namespace: str, words: Identity, other: Identity) -> None:
    """WorkLeases, handoffs that wait, namespaces, contexts: of the cluster that the flags before name."""
    assert answer(["release", "-n", namespace, "inv"]).splitlines() == [
        "invoice-1\tAvailable", "invoice-2\tAvailable", NO_FILES,
    ]  # fmt: skip
    assert answer([f"--namespace={namespace}", "release", "invoice-1", ""]) == NO_FILES
    assert answer(["status", "--kubeconfig", str(cluster.kubeconfig), "-n", namespace[:-1]]).startswith(namespace)
    assert answer(["status", "--context", ""]).splitlines() == ["c", NO_FILES]
    offer = {
        "apiVersion": "worklease.dev/v1alpha1",
        "kind": "Handoff",
        "metadata": {"name": "to-other"},
        "spec": {"workLeaseName": "invoice-1", "to": {"holderIdentity": other.username}},
    }
    cluster.api.create(f"/apis/worklease.dev/v1alpha1/namespaces/{namespace}/handoffs", offer).must()
    assert answer(["handoff", "accept", "-n", namespace, ""]).splitlines()[0].startswith("to-other\t")


def test_a_shell_is_not_disturbed_by_what_goes_wrong(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cluster, no permission, no kubeconfig: no candidates, no words, in time."""
    nobody = cluster.service_account(namespace, "nobody")
    monkeypatch.setenv("KUBECONFIG", str(nobody.kubeconfig))
    assert answer(["status", "-n", namespace, ""]) == NO_FILES
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert answer(["status", ""]) == NO_FILES
    assert answer(["status", "--context", ""]) == NO_FILES


@pytest.fixture
def environment(words: Identity, tmp_path: Path) -> dict[str, str]:
    """A shell that finds the installed command, and a home of its own."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PATH": path, "HOME": str(tmp_path), "KUBECONFIG": str(words.kubeconfig), "TERM": "xterm"}


def script(program: str, text: str, environment: dict[str, str]) -> str:
    """Runs a script by a shell that may not be there."""
    shell = shutil.which(program)
    if shell is None:
        pytest.skip(f"{program} is not installed")
    answer = subprocess.run(
        [shell, "-c", text], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_bash_completes(namespace: str, environment: dict[str, str]) -> None:
    """By the function that the script defines."""
    text = f"""source <(worklease completion bash)
    for line in "worklease sta" "worklease release -n {namespace} inv" "worklease complete w --outcome = S"; do
      COMP_WORDS=($line); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _worklease; echo "${{COMPREPLY[*]}}"
    done"""
    assert script("bash", text, environment).splitlines() == ["status", "invoice-1 invoice-2", "Succeeded"]


def test_fish_completes(namespace: str, environment: dict[str, str]) -> None:
    """As it does for a person who presses the tab key."""
    text = f"worklease completion fish | source; complete -C 'worklease release -n {namespace} inv'"
    assert [line.split("\t")[0] for line in script("fish", text, environment).splitlines()] == [
        "invoice-1",
        "invoice-2",
    ]


@pytest.mark.parametrize("program", SCRIPTS)
def test_each_script_is_one_that_its_shell_can_read(program: str, environment: dict[str, str]) -> None:
    """The shell's own check of it."""
    script(program, f"worklease completion {program} > ~/script; {program} -n ~/script", environment)


def test_kubectl_completes_its_plugin(
    cluster: Cluster, namespace: str, agent: Identity, environment: dict[str, str]
) -> None:
    """kubectl asks kubectl_complete-worklease, and hands on what that answers."""
    Work(cluster, namespace, "invoice-1").claim(Agent.of(agent))
    answer = subprocess.run(
        [cluster.kubectl_path, "__complete", "worklease", "release", "-n", namespace, "invoice-1"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert answer.stdout.splitlines()[0].startswith("invoice-1\t"), answer.stderr
    assert answer.stdout.splitlines()[-1] == NO_FILES
