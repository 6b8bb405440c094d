"""Finds each server and kubectl on this machine, new enough to be used, or has it built once into the cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from commands import SetupError
from locking import cache_directory

HERE = Path(__file__).resolve().parent
NODE = HERE.parent / "localnode"
VERSION = re.compile(r"\bv?(\d+)\.(\d+)(?:\.(\d+))?")

Version = tuple[int, int, int]
Binaries = dict[str, Path]


class BinaryError(SetupError):
    """A program could be neither found nor built; the message says why and what to do."""


@dataclass(frozen=True)
class Tool:
    """One program: how it tells its version, what is new enough, and the Go module that it is built from."""

    name: str
    version: str
    at_least: Version
    version_arguments: tuple[str, ...]
    module: Path
    package: str
    ldflags: str
    usually: str

    @property
    def cached_name(self) -> str:
        """The name in the cache; a change of the pinned modules, or of our own sources, makes a new one."""
        sources = [self.module / "go.mod", *sorted(self.module.glob("*.go"))]
        pinned = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
        return f"{self.name}-{self.version}-{pinned}"


KUBERNETES_VERSION = "1.37.2"
ETCD_VERSION = "3.7.3"
HELM_VERSION = "4.3.1"
KREW_VERSION = "0.4.3"
COREDNS_VERSION = "1.15.0"
PAUSE_VERSION = "1.0.0"
KUBERNETES_AT_LEAST: Version = (1, 34, 0)
ETCD_AT_LEAST: Version = (3, 6, 0)
HELM_AT_LEAST: Version = (3, 19, 0)
KREW_AT_LEAST: Version = (0, 4, 0)
COREDNS_AT_LEAST: Version = (1, 11, 0)
PAUSE_AT_LEAST: Version = (1, 0, 0)


def _kubernetes(name: str, usually: str, *version_arguments: str, module: Path = HERE / "kubernetes") -> Tool:
    major, minor, _ = KUBERNETES_VERSION.split(".")
    variables = {"gitVersion": f"v{KUBERNETES_VERSION}", "gitMajor": major, "gitMinor": minor}
    stamp = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in variables.items())
    return Tool(
        name,
        KUBERNETES_VERSION,
        KUBERNETES_AT_LEAST,
        version_arguments,
        module,
        f"k8s.io/kubernetes/cmd/{name}",
        f"-s -w {stamp}",
        usually,
    )


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "etcd",
            ETCD_VERSION,
            ETCD_AT_LEAST,
            ("--version",),
            HERE / "etcd",
            "go.etcd.io/etcd/server/v3",
            "-s -w",
            "40 s on 2 cores",
        ),
        _kubernetes("kube-apiserver", "4 min on 2 cores", "--version"),
        _kubernetes("kube-controller-manager", "90 s on 2 cores", "--version"),
        _kubernetes("kubectl", "30 s on 2 cores", "version", "--client"),
        _kubernetes("kubelet", "2 min on 2 cores", "--version", module=NODE / "kubernetes"),
        _kubernetes("kube-scheduler", "1 min on 2 cores", "--version", module=NODE / "kubernetes"),
        _kubernetes("kube-proxy", "30 s on 2 cores", "--version", module=NODE / "kubernetes"),
        Tool(
            "coredns",
            COREDNS_VERSION,
            COREDNS_AT_LEAST,
            ("-version",),
            NODE / "coredns",
            ".",
            "-s -w",
            "90 s on 2 cores",
        ),
        Tool(
            "worklease-pause",
            PAUSE_VERSION,
            PAUSE_AT_LEAST,
            ("--version",),
            NODE / "pause",
            ".",
            "-s -w",
            "5 s",
        ),
        Tool(
            "helm",
            HELM_VERSION,
            HELM_AT_LEAST,
            ("version", "--short"),
            HERE / "helm",
            "helm.sh/helm/v4/cmd/helm",
            f"-s -w -X helm.sh/helm/v4/internal/version.version=v{HELM_VERSION}",
            "3 min on 2 cores",
        ),
        Tool(
            "krew",
            KREW_VERSION,
            KREW_AT_LEAST,
            ("version",),
            HERE / "krew",
            "sigs.k8s.io/krew/cmd/krew",
            f"-s -w -X sigs.k8s.io/krew/internal/version.gitTag=v{KREW_VERSION}",
            "20 s on 2 cores",
        ),
    )
}


def version_of(path: Path, tool: Tool) -> Version | None:
    """The version that the program itself reports, or None when it does not run."""
    try:
        answer = subprocess.run(
            [path, *tool.version_arguments], capture_output=True, text=True, timeout=30, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = VERSION.search(answer.stdout)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def new_enough(path: Path, tool: Tool) -> bool:
    """Whether this file is a program of the kind asked for, in a version that can be used."""
    if not (path.is_file() and os.access(path, os.X_OK)):
        return False
    version = version_of(path, tool)
    return version is not None and version >= tool.at_least


def candidates(tool: Tool) -> Iterator[Path]:
    """Where the program may be, in the order in which it is looked for."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        yield Path(assets) / tool.name
    yield Path("/usr/local/kubebuilder/bin") / tool.name
    on_path = shutil.which(tool.name)
    if on_path:
        yield Path(on_path)
    yield cache_directory() / "bin" / tool.cached_name


def find(tool: Tool) -> Path | None:
    """The first candidate that is new enough."""
    return next((path for path in candidates(tool) if new_enough(path, tool)), None)


def ensure(*names: str) -> Binaries:
    """The path of each named program, built first where this machine has none that is new enough."""
    from .build import build

    target_directory = cache_directory() / "bin"
    return {name: find(TOOLS[name]) or build(TOOLS[name], target_directory) for name in names}
