"""Processes that hold locks, ours and those of others, to be measured on one server; here the others' are built."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from commands import run_logged
from controlplane.build import GO_ENVIRONMENT, find_go, required_go
from locking import cache_directory, locked
from progress import say

HERE = Path(__file__).resolve().parent
USUALLY = "90 s on 2 cores"


def ensure() -> Path:
    """The path of the program, which is built into the cache first if need be, and anew when its sources change."""
    sources = [HERE / "go.mod", HERE / "go.sum", *sorted(HERE.glob("*.go"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    directory = cache_directory() / "bin"
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"peers-{digest}"
    with locked(directory / f"{target.name}.lock", lambda process_id: say(f"process {process_id} is building peers")):
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=directory) as work:
            built = Path(work) / "peers"
            go = str(find_go(required_go(HERE)))
            command = [go, "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", str(built), "."]
            log = directory / f"{target.name}.log"
            run_logged(
                command, "building client-go's and etcd's locks with Go, once", USUALLY, log, HERE, GO_ENVIRONMENT
            )
            os.replace(built, target)
    return target
