"""What hack/image does: builds the layers, tries the programs in them, writes the archive and says its size."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import worklease
from commands import SetupError
from locking import cache_directory, locked
from progress import say
from repository import REPOSITORY

from . import rootfs
from .archive import Image, write

NAME = "localhost/worklease"
KEPT_ARCHIVES = 8
KEPT_BASES = 2
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LABELS = {
    "org.opencontainers.image.title": "worklease",
    "org.opencontainers.image.description": "A lease on work: the operator, the command and the MCP server.",
    "org.opencontainers.image.licenses": "Apache-2.0",
    "org.opencontainers.image.version": worklease.__version__,
}


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0; failures are told as SetupError."""
    parser = argparse.ArgumentParser(prog="hack/image", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=REPOSITORY / "dist" / "worklease.tar", help="default: dist/worklease.tar"
    )
    parser.add_argument("--name", default=f"{NAME}:{worklease.__version__}", help="default: %(default)s")
    options = parser.parse_args(arguments)
    repository, _, tag = options.name.rpartition(":")
    if not repository or not tag or "/" in tag:
        parser.error(f"an image's name is REPOSITORY:TAG, not {options.name!r}")
    build(options.output.resolve(), options.name)
    return 0


def ensure() -> Path:
    """The archive of this source, built into the cache when none has been built of it; the oldest are removed."""
    directory = cache_directory() / "images"
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"worklease-{_source_digest()}.tar"
    with locked(directory / "lock", lambda process_id: say(f"process {process_id} is building the image")):
        if not target.exists():
            rootfs.require()
            build(target, f"{NAME}:{worklease.__version__}", _cached_base(directory))
        os.utime(target)
        for pattern, most in (("worklease-*.tar", KEPT_ARCHIVES), ("base-*", KEPT_BASES)):
            for old in sorted(directory.glob(pattern), key=lambda path: path.stat().st_mtime)[:-most]:
                shutil.rmtree(old) if old.is_dir() else old.unlink()
    return target


def _cached_base(directory: Path) -> Path:
    """The lower layer, which depends on little of the source."""
    needs = "\0".join([(Path(__file__).parent / "rootfs.py").read_text(), *rootfs.dependencies()])
    base = directory / f"base-{hashlib.sha256(needs.encode()).hexdigest()[:12]}"
    if not base.exists():
        with tempfile.TemporaryDirectory(prefix=".base-", dir=directory) as work:
            rootfs.make_base(Path(work) / "base")
            os.replace(Path(work) / "base", base)
    os.utime(base)
    return base


def _source_digest() -> str:
    """Of all that goes into the image from here; that Debian's or Python's packages have moved on does not show."""
    digest = hashlib.sha256()
    folders = (REPOSITORY / "operator" / "worklease", Path(__file__).parent)
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    for path in sorted([*files, *(REPOSITORY / name for name in ("pyproject.toml", "README.md", "LICENSE"))]):
        digest.update(f"{path.relative_to(REPOSITORY)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def build(target: Path, name: str, base: Path | None = None) -> str:
    """Writes the archive `target` over this base, by default a new one; returns the digest of the image."""
    rootfs.require()
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        raise SetupError(f"hack/image builds for {' and '.join(ARCHITECTURES)}, and this machine is {machine}")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the base, so that files can be shared with it.
    with tempfile.TemporaryDirectory(prefix=".image-", dir=base.parent if base else None) as work:
        if base is None:
            base = Path(work) / "base"
            rootfs.make_base(base)
        application = Path(work) / "application"
        programs = rootfs.make_application(base, application)
        _try(base, application, Path(work) / "merged", programs)
        image = Image(
            name=name,
            architecture=ARCHITECTURES[machine],
            command=["worklease-operator"],
            user=f"{rootfs.USER_ID}:{rootfs.USER_ID}",
            environment=[f"PATH={rootfs.PATH}", "PYTHONUNBUFFERED=1"],
            labels=LABELS,
        )
        digest = write(target, image, [base, application])
    say(f"{target}: {name}, {target.stat().st_size / 1e6:.0f} MB uncompressed, {', '.join(programs)}")
    say(f"digest {digest}")
    say(f"to load it: docker load -i {target}, or kind load image-archive {target},")
    say(f"or on a node: ctr -n k8s.io images import {target}")
    return digest


def _try(base: Path, application: Path, directory: Path, programs: Sequence[str]) -> None:
    """Each program starts as the image's user: nothing it imports was left out."""
    rootfs.merged(base, application, directory)
    for program in programs:
        answer = rootfs.run_in(directory, program, "--version")
        if answer.returncode:
            raise SetupError(f"{program} does not start in the image:\n{answer.stderr.strip()[-2000:]}")
