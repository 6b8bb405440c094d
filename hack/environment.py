"""Puts an executable of hack/ into the project's virtual environment, which is made or renewed first if need be.

Runs on the standard library alone, up to the moment when the script starts again inside the environment.
"""

from __future__ import annotations

import os
import shutil
import sys

OLDEST = (3, 11)
NEWER = ("python3.14", "python3.13", "python3.12", "python3.11")

if sys.version_info < OLDEST:
    for _name in NEWER:
        _python = shutil.which(_name)
        if _python:
            os.execv(_python, [_python, *sys.argv])
    sys.exit(
        f"worklease needs Python {OLDEST[0]}.{OLDEST[1]} or newer, and this is {sys.version.split()[0]} "
        f"({sys.executable}). Install one and run it with {sys.argv[0]}."
    )

import contextlib  # noqa: E402
import hashlib  # noqa: E402
import importlib  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from pathlib import Path  # noqa: E402
from types import FrameType  # noqa: E402
from typing import NoReturn  # noqa: E402

from commands import SetupError, run_logged  # noqa: E402
from locking import cache_directory, locked  # noqa: E402
from progress import say  # noqa: E402
from repository import REPOSITORY  # noqa: E402

STAMP = "made-by-hack"
USUALLY = "40 s"
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
BROKEN_PIPE = 128 + signal.SIGPIPE


def run(module: str) -> NoReturn:
    """Runs `main(arguments)` of a module of hack/ in the environment, and exits with what it returns."""
    with reported():
        _enter(REPOSITORY)
        code = importlib.import_module(module).main(sys.argv[1:])
        sys.stdout.flush()
        sys.exit(code)


def enter() -> None:
    """Returns in the environment; outside it, makes it and starts the script again inside."""
    with reported():
        _enter(REPOSITORY)


def make(repository: Path) -> Path:
    """Makes the virtual environment of a clone, or renews it when pyproject.toml has changed. Returns its Python."""
    directory = repository / ".venv"
    wanted = _stamp(repository)
    name = hashlib.sha256(str(directory).encode()).hexdigest()[:12]
    with locked(
        cache_directory() / f"environment-{name}.lock",
        lambda process_id: say(f"process {process_id} is making the virtual environment {directory}; waiting for it"),
    ):
        python = directory / "bin" / "python"
        if _made(directory) == wanted and _works(python):
            return python
        if directory.exists() and _made(directory) is None and any(directory.iterdir()):
            raise SetupError(f"{directory} was not made by hack/: move it away, hack/ makes one of its own there")
        if not (_made(directory) and _works(python)):
            _create(directory)
        (directory / STAMP).write_text("")
        run_logged(
            [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--editable", ".[dev]"],
            f"installing worklease and what it needs into {directory}",
            USUALLY,
            cache_directory() / f"environment-{name}.log",
            repository,
        )
        (directory / STAMP).write_text(wanted)
    return python


def _enter(repository: Path) -> None:
    directory = repository / ".venv"
    inside = Path(sys.prefix).resolve() == directory.resolve()
    if not (inside and _made(directory) == _stamp(repository)):
        python = str(make(repository))
        if not inside:
            os.execv(python, [python, *sys.argv])


def _create(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    (directory / STAMP).write_text("")
    try:
        create_with_pip(directory)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def create_with_pip(directory: Path) -> None:
    """Adds Python and pip to the directory of a new virtual environment."""
    command = [sys.executable, "-m", "venv", str(directory)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if answer.returncode:
        raise SetupError(
            f"{sys.executable} cannot make a virtual environment with pip:\n{answer.stdout.strip()[-2000:]}\n"
            "On Debian and Ubuntu the package python3-venv is what is missing."
        )


def _stamp(repository: Path) -> str:
    """What the environment was made from; when it has changed, the environment is renewed."""
    return hashlib.sha256((repository / "pyproject.toml").read_bytes()).hexdigest()


def _made(directory: Path) -> str | None:
    """The stamp of a finished environment, "" for a half-made one, None for one that is not ours."""
    try:
        return (directory / STAMP).read_text()
    except OSError:
        return None


def _works(python: Path) -> bool:
    """Whether the environment's Python still runs and is new enough; the one it was made from may be gone."""
    check = f"import sys, pip; sys.exit(sys.version_info < {OLDEST})"
    try:
        return subprocess.run([python, "-c", check], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Failures and interruptions end in one message and an exit code, after everything has been cleaned up."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except SetupError as failure:
        sys.exit(f"{Path(sys.argv[0]).name}: {failure}")
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except KeyboardInterrupt:
        say(f"{Path(sys.argv[0]).name}: interrupted")
        sys.exit(INTERRUPTED)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(TERMINATED)
