"""What hack/image does: builds the layers, tries the programs in them, writes the archive and says its size."""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import worklease
from commands import SetupError
from locking import cache_directory, locked
from progress import say

from . import rootfs
from .archive import Image, write

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = "localhost/worklease"
KEPT_ARCHIVES = 4
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LABELS = {
    "org.opencontainers.image.title": "worklease",
    "org.opencontainers.image.description": "A lease on work, not ownership of it: the operator and the command.",
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
    """The archive of this source, built into the cache when none has been built of it; older ones are removed."""
    directory = cache_directory() / "images"
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"worklease-{_source_digest()}.tar"
    with locked(directory / "lock", lambda process_id: say(f"process {process_id} is building the image")):
        if not target.exists():
            kept = sorted(directory.glob("worklease-*.tar"), key=lambda path: path.stat().st_mtime)
            for old in kept[: -KEPT_ARCHIVES + 1]:
                old.unlink()
            build(target, f"{NAME}:{worklease.__version__}")
    return target


def _source_digest() -> str:
    """Of all that goes into the image from here; that Debian's or Python's packages have moved on does not show."""
    digest = hashlib.sha256()
    folders = (REPOSITORY / "operator" / "worklease", Path(__file__).parent)
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    for path in sorted([*files, *(REPOSITORY / name for name in ("pyproject.toml", "README.md", "LICENSE"))]):
        digest.update(f"{path.relative_to(REPOSITORY)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def build(target: Path, name: str) -> str:
    """Writes the archive `target`; returns the digest of the image."""
    rootfs.require()
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        raise SetupError(f"hack/image builds for {' and '.join(ARCHITECTURES)}, and this machine is {machine}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="worklease-image-") as work:
        base, application = Path(work) / "base", Path(work) / "application"
        rootfs.make_base(base)
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
