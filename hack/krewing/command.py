"""What hack/krew does: one archive for each platform, the same bytes from the same source, and their manifest."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import inspect
import io
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml

import worklease
from commands import run_logged
from imaging.rootfs import UNUSED_MODULES
from locking import cache_directory, locked
from progress import say
from repository import REPOSITORY

HERE = Path(__file__).resolve().parent
PACKAGES = HERE / "packages.txt"
PROGRAM = "kubectl-worklease"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
COMPILED = "pydantic-core"
LEFT_OUT = ("__pycache__", "authorizer", "controller", "mcp")
"""Of our own: the programs that serve."""
KEPT = 2
RELEASES = "https://releases.example/worklease"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
WHEELS = ("--no-deps", "--only-binary=:all:", "--no-compile", "--quiet")


@dataclass(frozen=True)
class Platform:
    """One of krew's platforms, and what the registry calls it."""

    os: str
    architecture: str
    wheels: tuple[str, ...]

    @property
    def archive(self) -> str:
        """The name of its archive."""
        return f"{PROGRAM}-{worklease.__version__}-{self.os}-{self.architecture}.tar.gz"


PLATFORMS = (
    Platform("linux", "amd64", ("manylinux2014_x86_64", "manylinux_2_17_x86_64")),
    Platform("linux", "arm64", ("manylinux2014_aarch64", "manylinux_2_17_aarch64")),
    Platform("darwin", "amd64", ("macosx_10_12_x86_64",)),
    Platform("darwin", "arm64", ("macosx_11_0_arm64",)),
)


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0; failures are told as SetupError."""
    parser = argparse.ArgumentParser(prog="hack/krew", description=__doc__)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "dist", metavar="DIRECTORY", help="default: dist")
    parser.add_argument(
        "--releases", default=RELEASES, metavar="URL", help="where VERSION/ARCHIVE will be found. Default: %(default)s"
    )
    parser.add_argument(
        "--platform",
        action="append",
        choices=[f"{one.os}-{one.architecture}" for one in PLATFORMS],
        help="only this one; may be repeated. Default: all of them",
    )
    options = parser.parse_args(arguments)
    wanted = [one for one in PLATFORMS if f"{one.os}-{one.architecture}" in (options.platform or _all())]
    build(options.output.resolve(), wanted, options.releases)
    return 0


def _all() -> list[str]:
    return [f"{one.os}-{one.architecture}" for one in PLATFORMS]


def build(directory: Path, platforms: Sequence[Platform] = PLATFORMS, releases: str = RELEASES) -> Path:
    """Writes an archive for each platform, and the manifest of them; returns the manifest."""
    directory.mkdir(parents=True, exist_ok=True)
    common = _common()
    digests: dict[str, str] = {}
    for platform in platforms:
        compiled = _compiled(platform)
        with tempfile.TemporaryDirectory(prefix=".krew-", dir=directory) as work:
            plugin = Path(work) / "plugin"
            _lay_out(plugin, common, compiled)
            unfinished = Path(work) / platform.archive
            digests[platform.archive] = write(unfinished, plugin)
            os.replace(unfinished, directory / platform.archive)
        say(f"{directory / platform.archive}: {(directory / platform.archive).stat().st_size / 1e6:.1f} MB")
    manifest = directory / "worklease.yaml"
    manifest.write_text(manifest_of(platforms, digests, releases))
    say(f"{manifest}: try it with")
    say(f"kubectl krew install --manifest={manifest} --archive={directory / platforms[0].archive}")
    return manifest


def manifest_of(platforms: Sequence[Platform], digests: dict[str, str], releases: str) -> str:
    """The manifest: the template with the version and one entry for each archive."""
    text = (HERE / "manifest.yaml").read_text().partition("\n")[2]
    content: dict[str, Any] = yaml.safe_load(
        Template(text).substitute(version=worklease.__version__, releases=releases)
    )
    content["spec"]["platforms"] = [
        {
            "selector": {"matchLabels": {"os": one.os, "arch": one.architecture}},
            "uri": f"{releases.rstrip('/')}/v{worklease.__version__}/{one.archive}",
            "sha256": digests[one.archive],
            "bin": PROGRAM,
        }
        for one in platforms
    ]
    return str(yaml.safe_dump(content, sort_keys=False, width=110))


def write(target: Path, directory: Path) -> str:
    """A tar.gz of the directory, in which nothing has a time or an owner; returns its SHA-256."""
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in _files(directory):
            entry = tarfile.TarInfo(str(path.relative_to(directory)))
            content = path.read_bytes()
            entry.size = len(content)
            entry.mode = 0o755 if path.name == PROGRAM else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return hashlib.sha256(target.read_bytes()).hexdigest()


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)


def _lay_out(plugin: Path, common: Path, compiled: Path) -> None:
    library = plugin / "lib"
    shutil.copytree(common, library)
    shutil.copytree(compiled, library, dirs_exist_ok=True)
    source = REPOSITORY / "operator" / "worklease"
    shutil.copytree(source, library / "worklease", ignore=shutil.ignore_patterns(*LEFT_OUT))
    shutil.copyfile(HERE / "launcher.py", plugin / PROGRAM)
    shutil.copyfile(REPOSITORY / "LICENSE", plugin / "LICENSE")


def _common() -> Path:
    """Everything but what is compiled: the packages do without their own compiled parts, this one excepted."""
    wanted = [line for line in _pinned() if not line.startswith(f"{COMPILED}==")]

    def install(directory: Path) -> None:
        # Any platform's wheels: their compiled parts are taken out.
        platform = ["--platform=manylinux2014_x86_64", "--platform=manylinux_2_28_x86_64", "--python-version=3.11"]
        _pip("what the command needs", "15 s", "install", *platform, "--target", str(directory), *wanted)
        shutil.rmtree(directory / "bin", ignore_errors=True)
        for pattern in ("*.so", "*.pyx", "*.pxd", "*.c", "*.pyi", "RECORD"):
            for path in directory.rglob(pattern):
                path.unlink()
        for name in UNUSED_MODULES:
            for path in (directory / name).glob("[!_]*.py"):
                path.unlink()
        for folder in ("kubernetes/e2e_test", "kubernetes/test"):
            shutil.rmtree(directory / folder, ignore_errors=True)

    return _cached("common", wanted, install)


def _compiled(platform: Platform) -> Path:
    """pydantic-core, for every Python: the file of each has a name of its own."""
    (wanted,) = [line for line in _pinned() if line.startswith(f"{COMPILED}==")]

    def install(directory: Path) -> None:
        for python in PYTHONS:
            one = directory.with_name(f"{directory.name}-{python}")
            platforms = [f"--platform={name}" for name in platform.wheels]
            what = f"{COMPILED} for Python {python} on {platform.os}/{platform.architecture}"
            _pip(what, "3 s", "install", *platforms, f"--python-version={python}", "--target", str(one), wanted)
            shutil.copytree(one, directory, dirs_exist_ok=True)
            shutil.rmtree(one)
        for path in directory.rglob("RECORD"):
            path.unlink()

    return _cached(f"{platform.os}-{platform.architecture}", [wanted, *PYTHONS, *platform.wheels], install)


def _pinned() -> list[str]:
    return [line for line in PACKAGES.read_text().splitlines() if line and not line.startswith("#")]


def _pip(what: str, usually: str, *arguments: str) -> None:
    command, *rest = arguments
    run_logged([*PIP, command, *WHEELS, *rest], f"getting {what}", usually, cache_directory() / "krew.log", REPOSITORY)


def _cached(name: str, needs: Sequence[str], make: Callable[[Path], None]) -> Path:
    """A directory that `make` fills, once for the same needs and the same way to fill it."""
    parts = "\0".join([inspect.getsource(make), *needs])
    parent = cache_directory() / "krew"
    target = parent / f"{name}-{hashlib.sha256(parts.encode()).hexdigest()[:12]}"
    with locked(parent / f"{name}.lock", lambda process_id: say(f"process {process_id} is making the plugin")):
        if not target.exists():
            for old in sorted(parent.glob(f"{name}-*"), key=os.path.getmtime)[:-KEPT]:
                shutil.rmtree(old)
            with tempfile.TemporaryDirectory(prefix=".making-", dir=parent) as work:
                made = Path(work) / name
                made.mkdir()
                make(made)
                os.replace(made, target)
    return target
