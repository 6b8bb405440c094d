"""The testbed finds programs that are new enough, builds the others once and whole, and keeps its environment whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import environment
from commands import SetupError
from controlplane.binaries import Tool, find
from controlplane.build import build
from support.processes import processes_with, start_python
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

# What a test does in place of Go: tells its version, or builds a program that tells its own, when it is allowed to.
FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.99.0; exit; fi
while [ "$1" != -o ]; do shift; done
echo built >> "$GO_COUNT"
sh -c 'while [ -e "$GO_HOLD" ]; do sleep 0.05; done' compile "$2"
if [ -e "$GO_BROKEN" ]; then echo "cannot find module"; exit 1; fi
printf '#!/bin/sh\\necho fake Version: 9.9.9\\n' > "$2" && chmod +x "$2"
"""

BUILD = """
import json, sys
from pathlib import Path
from controlplane.binaries import Tool
from controlplane.build import build
arguments = json.loads(sys.argv[1])
tool = Tool(**{**arguments, "module": Path(arguments["module"]), "at_least": tuple(arguments["at_least"])})
print(build(tool, Path(sys.argv[2])))
"""


class Workshop:
    """A directory to build in, with a Go that does as it is told."""

    def __init__(self, directory: Path) -> None:
        self.target = directory / "bin"
        self.target.mkdir()
        self.started: list[subprocess.Popen[str]] = []
        self.count, self.hold, self.broken = directory / "count", directory / "hold", directory / "broken"
        module, path = directory / "module", directory / "path"
        for new in (module, path):
            new.mkdir()
        (module / "go.mod").write_text("module fake\n\ngo 1.26.0\n")
        go = path / "go"
        go.write_text(FAKE_GO)
        go.chmod(0o755)
        self.tool = Tool("fake", "9.9.9", (9, 0, 0), ("--version",), module, "fake", "-s", "1 s")
        self.variables = {
            "PATH": f"{path}:{os.environ['PATH']}",
            "GO_COUNT": str(self.count),
            "GO_HOLD": str(self.hold),
            "GO_BROKEN": str(self.broken),
        }

    def start(self) -> subprocess.Popen[str]:
        """Builds in a process of its own."""
        arguments = {**self.tool.__dict__, "module": str(self.tool.module)}
        process = start_python(BUILD, json.dumps(arguments), str(self.target), **self.variables)
        self.started.append(process)
        return process

    def start_and_hold(self) -> subprocess.Popen[str]:
        """The same, and returns while Go is at work."""
        self.hold.touch()
        process = self.start()
        wait_for(self.builds, "the build to start")
        return process

    def builds(self) -> int:
        """How often Go has built."""
        return self.count.read_text().count("built") if self.count.exists() else 0

    def left(self) -> set[str]:
        """What lies where programs are cached, beside locks and logs."""
        return {path.name for path in self.target.iterdir() if path.suffix not in (".lock", ".log")}


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    """A workshop of this test."""
    made = Workshop(tmp_path)
    yield made
    made.hold.unlink(missing_ok=True)
    for process in made.started:
        process.communicate(timeout=30)


def test_two_builds_at_once_build_once(workshop: Workshop) -> None:
    """The second waits, says for whom, and takes what the first has built."""
    first = workshop.start_and_hold()
    second = workshop.start()
    assert second.stderr
    assert f"being built by process {first.pid}; waiting" in second.stderr.readline()
    workshop.hold.unlink()
    answers = [process.communicate(timeout=30) for process in (first, second)]
    assert [out.strip() for out, _ in answers] == [str(workshop.target / workshop.tool.cached_name)] * 2
    assert workshop.builds() == 1


def test_failed_build_says_why_and_leaves_nothing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command's last lines and the place of the whole log; the next build may succeed."""
    for name, value in workshop.variables.items():
        monkeypatch.setenv(name, value)
    workshop.broken.touch()
    with pytest.raises(SetupError, match=r"(?s)fake 9\.9\.9.* exit code 1.*cannot find module.*\.log"):
        build(workshop.tool, workshop.target)
    assert workshop.left() == set()
    workshop.broken.unlink()
    build(workshop.tool, workshop.target)
    assert workshop.left() == {workshop.tool.cached_name}


def test_interrupted_build_ends_go_and_leaves_nothing(workshop: Workshop) -> None:
    """Ctrl-C ends the whole process group of the build."""
    process = workshop.start_and_hold()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode
    assert not processes_with(str(workshop.target))
    assert workshop.left() == set()


def test_killed_build_is_cleaned_up_by_the_next(workshop: Workshop) -> None:
    """A build whose owner is killed ends too, and what it has left is never taken for the program."""
    process = workshop.start_and_hold()
    process.kill()
    process.communicate(timeout=30)
    wait_for(lambda: not processes_with(f"-o {workshop.target}"), "Go to end with its owner")
    assert workshop.tool.cached_name not in workshop.left()
    workshop.hold.unlink()
    again = workshop.start()
    again.communicate(timeout=30)
    assert workshop.left() == {workshop.tool.cached_name}
    assert workshop.builds() == 2


def program(path: Path, says: str) -> Path:
    """A program that tells this version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return path


def test_program_that_is_too_old_or_does_not_run_is_passed_over(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KUBEBUILDER_ASSETS, PATH and the cache are asked in this order, each for a program that is new enough."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"), prepend=":")
    assert find(workshop.tool) is None
    cached = program(tmp_path / "cache" / "worklease" / "bin" / workshop.tool.cached_name, "fake Version: 9.9.9")
    program(tmp_path / "path" / "fake", "Client Version: v8.32.4-dispatcher")
    (tmp_path / "assets").mkdir()
    broken = tmp_path / "assets" / "fake"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    assert find(workshop.tool) == cached
    assert find(workshop.tool) == cached
    on_path = program(tmp_path / "path" / "fake", "v9.0.0-dispatcher")
    assert find(workshop.tool) == on_path
    in_assets = program(tmp_path / "assets" / "fake", "9.1")
    assert find(workshop.tool) == in_assets


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that looks like a clone to the code that makes its environment, with Python's place taken by ours."""

    def create(directory: Path) -> None:
        (directory / "bin").mkdir()
        (directory / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(environment, "create_with_pip", create)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = tmp_path / "clone"
    directory.mkdir()
    (directory / "pyproject.toml").write_text("[project]\n")
    return directory


def test_environment_is_made_once_remade_when_half_made_and_renewed_when_stale(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation that was broken off is thrown away; one that is complete is used until pyproject.toml changes."""
    installations: list[bool] = []

    def install(*_: object, fails: bool) -> None:
        installations.append(not fails)
        if fails:
            raise KeyboardInterrupt

    monkeypatch.setattr(environment, "run_logged", lambda *given: install(*given, fails=True))
    with pytest.raises(KeyboardInterrupt):
        environment.make(clone)
    half_made = clone / ".venv" / "of-the-half-made-one"
    half_made.touch()
    monkeypatch.setattr(environment, "run_logged", lambda *given: install(*given, fails=False))
    environment.make(clone)
    assert not half_made.exists()
    environment.make(clone)
    assert installations == [False, True]
    (clone / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    environment.make(clone)
    assert installations == [False, True, True]


def test_environment_that_somebody_else_made_is_left_alone(clone: Path) -> None:
    """A .venv that hack/ has not made is neither used nor removed; the error says what to do."""
    (clone / ".venv").mkdir()
    (clone / ".venv" / "precious").touch()
    with pytest.raises(SetupError, match="was not made by hack/: move it away"):
        environment.make(clone)
    assert (clone / ".venv" / "precious").exists()
