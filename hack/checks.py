"""What hack/test does: every static check, then all tests against one control plane, then a table of the steps."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from commands import end_group
from controlplane import PEOPLE, ensure
from imaging.command import ensure as image
from localnode import requirements
from localnode.node import tools as node_tools
from onecluster import cluster
from progress import say
from repository import REPOSITORY
from tether import tethered

NODE_TESTS = Path("tests/node")
WORKERS = 6
INTERRUPT_WITHIN_SECONDS = 30.0

EPILOG = "Any other argument is handed to pytest: hack/test tests/unit -k epoch"


@dataclass(frozen=True)
class Outcome:
    """One step that ran: its exit code and how long it took."""

    name: str
    exit_code: int
    seconds: float


def main(arguments: Sequence[str]) -> int:
    """Runs all steps, also after one has failed; 0 when every one passed, else 1."""
    parser = argparse.ArgumentParser(prog="hack/test", description=__doc__, epilog=EPILOG)
    parser.add_argument("--kubeconfig", type=Path, help="use this cluster instead of starting a control plane")
    options, pytest_arguments = parser.parse_known_args(arguments)
    # Started in the background by a shell we would hand on that SIGINT is ignored, and tests are about it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outcomes = [run_step(name, command) for name, command in static_steps().items()]
    if any(runs_node_tests(path) for path in paths_of(pytest_arguments)):
        prepare_node()
    with cluster(options.kubeconfig, PEOPLE) as access:
        command = [program("pytest"), "-n", str(WORKERS), "--dist", "worksteal", f"--kubeconfig={access.kubeconfig}"]
        outcomes.append(run_step("pytest", [*command, *pytest_arguments]))
    print_table(outcomes)
    return 1 if any(outcome.exit_code for outcome in outcomes) else 0


def paths_of(pytest_arguments: Sequence[str]) -> list[str]:
    """The tests that pytest is asked for, as paths; all of them when it is told none."""
    return [found for found in pytest_arguments if found.startswith("tests")] or ["tests"]


def runs_node_tests(path: str) -> bool:
    """Whether the tests of a path have some of NODE_TESTS among them."""
    wanted = Path(path.partition("::")[0])
    return wanted == NODE_TESTS or wanted in NODE_TESTS.parents or NODE_TESTS in wanted.parents


def prepare_node() -> None:
    """Builds what the tests on a node need while a person sees it; where no node can run, they are skipped."""
    try:
        requirements.ensure()
    except requirements.NodeUnavailableError as error:
        say(str(error))
        return
    ensure("helm", *node_tools())
    image()


def static_steps() -> dict[str, list[str]]:
    """The steps that need no cluster, by name."""
    scripts = [str(path.relative_to(REPOSITORY)) for path in executables()]
    steps = {
        "ruff check": [program("ruff"), "check", ".", *scripts],
        "ruff format": [program("ruff"), "format", "--check", ".", *scripts],
        "mypy": [program("mypy"), "--scripts-are-modules", "operator/worklease", "hack", "tests", *scripts],
        "lint-imports": [program("lint-imports")],
    }
    generate = REPOSITORY / "hack" / "generate"
    if generate.exists():
        steps["generated files"] = [sys.executable, str(generate), "--check"]
    return steps


def executables() -> list[Path]:
    """The Python scripts of hack/, which have no suffix by which the tools would find them."""
    files = (path for path in sorted((REPOSITORY / "hack").iterdir()) if path.is_file() and not path.suffix)
    return [path for path in files if path.read_bytes().startswith(b"#!/usr/bin/env python3")]


def program(name: str) -> str:
    """A program of the virtual environment."""
    return shutil.which(name, path=str(Path(sys.prefix) / "bin")) or name


def run_step(name: str, command: list[str]) -> Outcome:
    """Runs one step with its output on ours. When we are interrupted, so is the step, which may clean up."""
    say(f"--- {name}")
    started_monotonic = time.monotonic()
    process = subprocess.Popen(tethered(command), cwd=REPOSITORY, start_new_session=True)
    try:
        code = process.wait()
    except BaseException:
        end_group(process, signal.SIGINT, INTERRUPT_WITHIN_SECONDS)
        raise
    return Outcome(name, code, time.monotonic() - started_monotonic)


def print_table(outcomes: Sequence[Outcome]) -> None:
    """The steps with their result and time."""
    say("")
    for outcome in outcomes:
        result = "passed" if outcome.exit_code == 0 else f"FAILED ({outcome.exit_code})"
        say(f"{outcome.name:<16} {result:<12} {outcome.seconds:6.1f} s")
