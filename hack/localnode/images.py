"""Images of a few programs, as archives that a node takes; the pause image is one."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from imaging.archive import Image, write
from imaging.command import ARCHITECTURES

NOBODY = "65534:65534"
LIBRARY = re.compile(r"(/\S+) \(0x")


def write_programs(archive: Path, name: str, programs: Iterable[Path], *command: str) -> None:
    """An image that has these programs in /bin, with the libraries that each is linked to."""
    with tempfile.TemporaryDirectory(prefix="worklease-image-") as work:
        layer = Path(work)
        (layer / "bin").mkdir()
        for program in programs:
            shutil.copy(program, layer / "bin" / program.name)
            for library in libraries(program):
                target = layer / library.relative_to("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, target)
        about = Image(
            name=name,
            architecture=ARCHITECTURES.get(platform.machine(), platform.machine()),
            command=command,
            user=NOBODY,
            environment=["PATH=/bin"],
            labels={},
        )
        write(archive, about, [layer])


def libraries(program: Path) -> list[Path]:
    """The shared libraries of a program of this machine, the loader among them; none of a static one."""
    answer = subprocess.run(["ldd", program], capture_output=True, text=True)
    return [Path(found) for found in LIBRARY.findall(answer.stdout)]
