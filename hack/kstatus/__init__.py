"""Builds a small program that prints what kstatus, the library that Flux waits with, makes of objects."""

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
SOURCES = ("go.mod", "go.sum", "main.go")
USUALLY = "30 s on 2 cores"


def ensure() -> Path:
    """The path of the program, which is built into the cache first if need be, and anew when its sources change."""
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in SOURCES)).hexdigest()[:12]
    directory = cache_directory() / "bin"
    target = directory / f"kstatus-{digest}"
    with locked(directory / f"{target.name}.lock", lambda process_id: say(f"process {process_id} is building kstatus")):
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=directory) as work:
            built = Path(work) / "kstatus"
            go = str(find_go(required_go(HERE)))
            command = [go, "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", str(built), "."]
            log = directory / f"{target.name}.log"
            run_logged(command, "building kstatus with Go, once", USUALLY, log, HERE, GO_ENVIRONMENT)
            os.replace(built, target)
    return target
