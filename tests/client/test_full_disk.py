"""A disk that is full takes the status file of `worklease hold`, and not the lease."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity
from support.shell import Shell
from support.speaking import Work

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one page, with nothing left."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root may mount the small file system that is to be full")
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(directory)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        (directory / "filling").write_bytes(b"x" * 4096)
        with pytest.raises(OSError, match="No space left"):
            (directory / "more").write_bytes(b"x")
        (directory / "more").unlink(missing_ok=True)
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_a_status_file_on_a_full_disk_is_said_and_not_the_commands_problem(
    cluster: Cluster, namespace: str, agent: Identity, full_disk: Path
) -> None:
    """The command runs under its lease to its own end, and one line on stderr tells what is missing."""
    code, out, err = Shell(agent, namespace).run(
        "hold", "w", "--create", "--status-file", str(full_disk / "status"), "--", "sh", "-c", "echo worked; exit 7"
    )
    assert (code, out) == (7, "worked\n"), err
    assert err.count("the status file cannot be written") == 1
    assert "No space left" in err
    (tenure,) = Work(cluster, namespace, "w").reaches("Released")["history"]
    assert tenure["endMessage"] == "the command ended with 7"


def test_a_status_file_whose_disk_fills_up_does_not_keep_an_old_standing(
    cluster: Cluster, namespace: str, agent: Identity, full_disk: Path
) -> None:
    """What was written while there was room is whole or gone: a reader never sees half of a standing."""
    (full_disk / "filling").unlink()
    status = full_disk / "status"
    script = f"cat {status}; head -c 4096 /dev/zero > {full_disk}/filling 2>/dev/null; exit 0"
    code, out, err = Shell(agent, namespace).run(
        "hold", "w", "--create", "--status-file", str(status), "--", "sh", "-c", script
    )
    assert code == 0, err
    assert "Held" in out
    Work(cluster, namespace, "w").reaches("Released")
