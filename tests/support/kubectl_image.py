"""An image of kubectl with a shell, for agents that have nothing else."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from localnode.images import write_programs

NAME = "localhost/kubectl:1"
APPLETS = ("sh", "cat", "date", "sleep", "timeout")
GET_BUSYBOX = (["apt-get", "download", "busybox-static"], ["sh", "-c", "dpkg-deb -x busybox-static*.deb ."])


def write(archive: Path, kubectl: Path) -> None:
    """Writes it, with the shell of Debian's busybox-static."""
    with tempfile.TemporaryDirectory(prefix="worklease-busybox-") as work:
        directory = Path(work)
        for command in GET_BUSYBOX:
            subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)
        shutil.copy(kubectl, directory / "kubectl")
        for applet in APPLETS:
            (directory / applet).hardlink_to(directory / "bin" / "busybox")
        write_programs(archive, NAME, [directory / name for name in (*APPLETS, "kubectl")], "sh")
