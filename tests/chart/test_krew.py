"""The plugin for kubectl: installed by krew itself, it brings along all that it needs but Python."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import worklease
from controlplane import ensure
from krewing.command import PLATFORMS, PROGRAM, PYTHONS, Platform, build, manifest_of, write
from support.cluster import Cluster, Identity
from support.operators import operating
from support.speaking import Agent, Work

LAUNCHER = Path(__file__).resolve().parents[2] / "hack" / "krewing" / "launcher.py"
MOST_BYTES = 12e6
WITHIN_SECONDS = 60.0
LEASE_SECONDS = 600
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
ELSEWHERE = next(one for one in PLATFORMS if (one.os, one.architecture) == ("darwin", "arm64"))


class Krew:
    """krew with a home of its own, in which kubectl finds the plugins; nothing of this environment is on its PATH."""

    def __init__(self, home: Path, kubectl: Path) -> None:
        self.home = home
        tools = home / "tools"
        tools.mkdir()
        (tools / "kubectl").symlink_to(kubectl)
        (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
        self.path = f"{home / 'bin'}:{tools}:/usr/bin:/bin"

    def run(self, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a program in that home."""
        return subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            timeout=WITHIN_SECONDS,
            stdin=subprocess.DEVNULL,
            env={"HOME": str(self.home), "KREW_ROOT": str(self.home), "PATH": self.path, **variables},
        )

    def install(self, manifest: Path, archive: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Installs from files, as a release is tried before it is published."""
        return self.run(
            ensure("krew")["krew"], "install", f"--manifest={manifest}", f"--archive={archive}", **variables
        )


@pytest.fixture(scope="module")
def here() -> Platform:
    """The platform of this machine."""
    architecture = MACHINES.get(platform.machine())
    found = [one for one in PLATFORMS if (one.os, one.architecture) == ("linux", architecture)]
    if not found:
        pytest.skip(f"there is no plugin for {platform.machine()}")
    return found[0]


@pytest.fixture(scope="module")
def plugin(here: Platform, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the archive for this machine, one for another, and the manifest of both."""
    directory = tmp_path_factory.mktemp("plugin")
    build(directory, [here, ELSEWHERE])
    return directory


@pytest.fixture
def agent(cluster: Cluster, namespace: str) -> Identity:
    """An agent."""
    return cluster.service_account(namespace, "agent", "worklease-agent")


@pytest.fixture
def krew(tmp_path: Path) -> Krew:
    """krew, nothing installed."""
    return Krew(tmp_path, ensure("kubectl")["kubectl"])


def test_krew_installs_it_and_kubectl_runs_it(
    cluster: Cluster, namespace: str, agent: Identity, plugin: Path, here: Platform, krew: Krew
) -> None:
    """An agent claims, looks and completes with `kubectl worklease`, by its kubeconfig alone."""
    installed = krew.install(plugin / "worklease.yaml", plugin / here.archive)
    assert installed.returncode == 0, installed.stderr
    assert "Needs Python 3.11" in installed.stdout + installed.stderr
    Work.create(cluster, namespace, "w", lease_seconds=LEASE_SECONDS)
    mine = {"KUBECONFIG": str(agent.kubeconfig)}
    with operating(cluster, namespace):
        held = krew.run(
            *("kubectl", "worklease", "hold", "w", "-n", namespace, "--complete", "done", "--"),
            *("sh", "-c", 'echo "epoch $WORKLEASE_EPOCH"'),
            **mine,
        )
        assert held.returncode == 0, held.stderr
        seen = krew.run("kubectl", "worklease", "status", "w", "-n", namespace, **mine)
    epoch = Work(cluster, namespace, "w").epoch
    assert f"epoch {epoch}" in held.stdout
    assert seen.returncode == 0, seen.stderr
    assert "Completed" in seen.stdout or "complete" in seen.stdout
    version = krew.run("kubectl", "worklease", "--version")
    assert version.stdout.strip().endswith(worklease.__version__)


def test_refusals_and_errors_of_the_plugin_are_one_line(
    cluster: Cluster, namespace: str, agent: Identity, plugin: Path, here: Platform, krew: Krew
) -> None:
    """As those of the command that pip installs: the exit code says which."""
    assert krew.install(plugin / "worklease.yaml", plugin / here.archive).returncode == 0
    mine = {"KUBECONFIG": str(agent.kubeconfig)}
    with operating(cluster, namespace):
        work = Work.create(cluster, namespace, "w", lease_seconds=LEASE_SECONDS)
        work.hold(Agent.of(agent))
        refused = krew.run("kubectl", "worklease", "claim", "w", "-n", namespace, "--purpose", "x", **mine)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (3, 1)
    assert "leased" in refused.stderr
    wrong = krew.run("kubectl", "worklease", "claim", "w", "-n", namespace, "--purpose", "\x01", **mine)
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


def test_krew_installs_the_one_for_another_machine(plugin: Path, krew: Krew) -> None:
    """As krew takes it for the machine that it is told of."""
    installed = krew.install(plugin / "worklease.yaml", plugin / ELSEWHERE.archive, KREW_OS="darwin", KREW_ARCH="arm64")
    assert installed.returncode == 0, installed.stderr
    core = krew.home / "store" / "worklease" / f"v{worklease.__version__}" / "lib" / "pydantic_core"
    assert {path.name for path in core.glob("*.so")} == {
        f"_pydantic_core.cpython-{python.replace('.', '')}-darwin.so" for python in PYTHONS
    }


def test_krew_refuses_an_archive_that_was_changed(plugin: Path, here: Platform, krew: Krew) -> None:
    """The manifest has the digest of each."""
    changed = krew.home / "changed.tar.gz"
    changed.write_bytes((plugin / here.archive).read_bytes() + b"\0")
    refused = krew.install(plugin / "worklease.yaml", changed)
    assert refused.returncode != 0
    assert "checksum" in refused.stderr


def test_the_archive_has_nothing_compiled_but_one_package(plugin: Path, here: Platform) -> None:
    """For every Python that the launcher names; with the licences, without the operator, and small."""
    with tarfile.open(plugin / here.archive) as archive:
        entries = archive.getmembers()
    names = [entry.name for entry in entries]
    compiled = [name for name in names if name.endswith((".so", ".pyd", ".dylib"))]
    assert len(compiled) == len(PYTHONS)
    assert all(name.startswith("lib/pydantic_core/_pydantic_core.cpython-3") for name in compiled)
    assert "LICENSE" in names
    assert any("pydantic_core" in name and "LICENSE" in name for name in names)
    assert not [
        name for name in names if name.startswith(("lib/worklease/controller", "lib/worklease/mcp", "lib/kopf"))
    ]
    assert [entry.name for entry in entries if entry.mode != 0o644] == [PROGRAM]
    assert (plugin / here.archive).stat().st_size < MOST_BYTES


def test_the_same_source_makes_the_same_archive(plugin: Path, here: Platform, tmp_path: Path) -> None:
    """Neither the time nor the order in which files were made shows; the manifest has its digest."""
    build(tmp_path, [here])
    again = (tmp_path / here.archive).read_bytes()
    assert again == (plugin / here.archive).read_bytes()
    (described,) = yaml.safe_load((tmp_path / "worklease.yaml").read_text())["spec"]["platforms"]
    assert described["sha256"] == hashlib.sha256(again).hexdigest()


def test_times_and_caches_do_not_show_in_an_archive(tmp_path: Path) -> None:
    """Whoever ran it there before."""
    for name, touched in (("one", 0), ("two", 10**9)):
        folder = tmp_path / name / "lib" / "__pycache__"
        folder.mkdir(parents=True)
        (folder / "a.pyc").write_text(name)
        (folder.parent / "a.py").write_text("a = 1\n")
        os.utime(folder.parent / "a.py", (touched, touched))
    assert write(tmp_path / "1.gz", tmp_path / "one") == write(tmp_path / "2.gz", tmp_path / "two")


def test_the_manifest_names_each_platform_once() -> None:
    """Linux and macOS, on both kinds of processor, each with where it will be found."""
    content: dict[str, Any] = yaml.safe_load(
        manifest_of(PLATFORMS, {one.archive: "0" * 64 for one in PLATFORMS}, "https://releases.example/w/")
    )
    assert content["metadata"]["name"] == "worklease"
    assert content["spec"]["version"] == f"v{worklease.__version__}"
    labels = [one["selector"]["matchLabels"] for one in content["spec"]["platforms"]]
    assert labels == [{"os": system, "arch": arch} for system in ("linux", "darwin") for arch in ("amd64", "arm64")]
    for one, described in zip(PLATFORMS, content["spec"]["platforms"], strict=True):
        assert described["uri"] == f"https://releases.example/w/v{worklease.__version__}/{one.archive}"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("sys.version_info = (3, 10, 9)", "kubectl-worklease: this needs Python 3.11 to 3.14, and python3 is "),
        ("", "kubectl-worklease: this needs Python 3.11 to 3.14, and python3 is "),
    ],
    ids=["too old", "too new"],
)
def test_a_python_that_does_not_fit_is_told_in_one_line(before: str, said: str, tmp_path: Path) -> None:
    """One that is too old, and one for which the compiled part was not there yet."""
    shutil.copyfile(LAUNCHER, tmp_path / PROGRAM)
    ended = _launched(tmp_path, before)
    assert ended.returncode == 1
    assert ended.stderr.startswith(said)
    assert len(ended.stderr.splitlines()) == 1


def test_another_python_on_the_path_is_taken(plugin: Path, here: Platform, tmp_path: Path) -> None:
    """When python3 is too old and there is one that fits; it is tried once."""
    with tarfile.open(plugin / here.archive) as archive:
        archive.extractall(tmp_path / "plugin", filter="data")
    tools = tmp_path / "tools"
    tools.mkdir()
    name = f"python3.{sys.version_info.minor}"
    (tools / name).symlink_to(Path(sys.base_prefix) / "bin" / name)
    ended = _launched(tmp_path / "plugin", "sys.version_info = (3, 10, 9)", PATH=str(tools))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip().endswith(worklease.__version__)


def _launched(directory: Path, before: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The launcher, by this Python, after it has been told something about itself."""
    path = directory / PROGRAM
    text = f"import sys, runpy; {before}\nsys.argv = [{str(path)!r}, '--version']\nrunpy.run_path({str(path)!r})"
    return subprocess.run(
        [str(Path(sys.base_prefix) / "bin" / "python3"), "-c", text],
        capture_output=True,
        text=True,
        timeout=WITHIN_SECONDS,
        env={"PATH": "/nonexistent", **variables},
    )
