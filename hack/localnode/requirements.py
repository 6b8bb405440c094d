"""What this machine must have to run a node; Debian packages are installed where root and apt are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from commands import SetupError, run_logged
from locking import cache_directory, locked
from progress import say

from . import cgroups

KIND = "A node in Docker instead: kind create cluster --config hack/kind.yaml"

PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "openssl": "openssl",
}
FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
NETWORK_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
NETWORK_PLUGIN_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
NETWORK_PLUGIN_PACKAGE = "containernetworking-plugins"
MODULES = ("overlay", "br_netfilter", "veth")
BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")

NEW_NAMESPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--fork")
# What pods' networks are made of, tried where it leaves nothing.
TRIAL = "ip link add veth0 type veth peer name veth1 && ip link add bridge0 type bridge && iptables -w -t nat -S"

Programs = dict[str, Path]


class NodeUnavailableError(SetupError):
    """This machine cannot run a node; the message says what is missing."""

    def __init__(self, why: str) -> None:
        super().__init__(f"a node cannot run here: {why}. {KIND}")


def ensure() -> Programs:
    """The programs that a node needs, by name, and `cni`, the network plugins' directory; installed if need be."""
    if sys.platform != "linux":
        raise NodeUnavailableError("this is not Linux")
    if os.geteuid() != 0:
        raise NodeUnavailableError("it needs root, for namespaces, mounts and cgroups")
    missing = missing_packages()
    if missing:
        with locked(cache_directory() / "packages.lock", lambda other: say(f"process {other} is installing packages")):
            _install(missing_packages())
    missing = missing_packages()
    if missing:
        raise NodeUnavailableError(f"these packages are missing: {' '.join(missing)}")
    _check_kernel()
    plugins = _network_plugins()
    assert plugins
    return {**{name: Path(_look(name) or name) for name in PACKAGES}, "cni": plugins}


def missing_packages() -> list[str]:
    """The Debian packages whose programs are not here."""
    packages = [package for name, package in PACKAGES.items() if not _look(name)]
    if not _network_plugins():
        packages.append(NETWORK_PLUGIN_PACKAGE)
    return sorted(set(packages))


def _look(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *FOLDERS]))


def _network_plugins() -> Path | None:
    folders = (folder for folder in NETWORK_PLUGIN_FOLDERS if all((folder / name).exists() for name in NETWORK_PLUGINS))
    return next(folders, None)


def _install(packages: list[str]) -> None:
    if not packages:
        return
    apt = shutil.which("apt-get")
    if not apt:
        raise NodeUnavailableError(f"there is no apt-get to install what Debian calls {' '.join(packages)}")
    say(f"installing Debian packages on this machine, once: {' '.join(packages)}")
    log = cache_directory() / "packages.log"
    variables = {"DEBIAN_FRONTEND": "noninteractive"}
    update, install = [apt, "update"], [apt, "install", "--yes", "--no-install-recommends", *packages]
    run_logged(update, "apt-get update", "10 s", log, cache_directory(), variables)
    run_logged(install, "apt-get install", "20 s", log, cache_directory(), variables)


def _check_kernel() -> None:
    modprobe = _look("modprobe")
    if modprobe:
        # What is built in, or cannot be loaded, shows in the checks below.
        subprocess.run([modprobe, "--all", *MODULES], capture_output=True)
    if "\toverlay\n" not in Path("/proc/filesystems").read_text():
        raise NodeUnavailableError("the kernel has no overlay file system (modprobe overlay)")
    if not BRIDGE_FILTER.exists():
        raise NodeUnavailableError("the kernel does not filter what crosses a bridge (modprobe br_netfilter)")
    if lacking := cgroups.lacking():
        raise NodeUnavailableError(f"cgroup controllers are missing or not mounted: {' '.join(lacking)}")
    path = os.pathsep.join([os.environ.get("PATH", ""), *FOLDERS])
    trial = subprocess.run(
        ["unshare", *NEW_NAMESPACES, "sh", "-c", TRIAL],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    if trial.returncode:
        raise NodeUnavailableError(f"namespaces, bridges or iptables do not work: {trial.stderr.strip()[-500:]}")
