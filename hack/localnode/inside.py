"""The first process of a node's namespaces: mounts, network, daemons. When it ends the kernel ends all the others.

Run as a program with the file that describes the node. It ends, with a message, when a daemon has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import cgroups, configuration
from .layout import CONTAINERD_SOCKET, HOSTNAME, Layout

WITHIN_SECONDS = 60.0
POLL_SECONDS = 0.05
LAST_CHARACTERS = 2000
FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where kubelet and network plugins write whatever they are told.
SHADOWED = {"/var/lib/kubelet": "kubelet", "/var/lib/cni": "cni", "/var/log": "logs"}


def main(arguments: list[str]) -> int:
    """Runs until a daemon ends."""
    layout = Layout.read(Path(arguments[0]))
    # /proc is still the machine's, so this is our process id there.
    written = layout.pid_file.with_suffix(".new")
    written.write_text(os.readlink("/proc/self"))
    os.replace(written, layout.pid_file)
    mount_everything(layout)
    join_network(layout)
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), FOLDERS])
    daemons = {"containerd": start(layout, "containerd", configuration.containerd_command(layout))}
    import_pause_image(layout)
    for name, command in configuration.commands(layout).items():
        daemons[name] = start(layout, name, command)
    names = {daemon.pid: name for name, daemon in daemons.items()}
    while True:
        # Also those that lost their parent end as our children.
        pid, wait_status = os.waitpid(-1, 0)
        if pid in names:
            code = os.waitstatus_to_exitcode(wait_status)
            log = layout.logs / f"{names[pid]}.log"
            raise SystemExit(f"{names[pid]} ended with exit code {code}. The end of its log:\n{last_of(log)}")


def mount_everything(layout: Layout) -> None:
    """The machine's files, with the node's own where two nodes would be in each other's way."""
    mount("--make-rprivate", "/")
    # What the kubelet mounts for a pod has to reach containerd.
    mount("--make-rshared", "/")
    mount("-t", "proc", "proc", "/proc")
    held = layout.root / "cgroups"
    held.mkdir()
    mount("--rbind", str(cgroups.ROOT), str(held))
    mount("-t", "sysfs", "sysfs", "/sys")
    mount("--rbind", str(held), str(cgroups.ROOT))
    if configuration.shows_unified():
        subprocess.run(["umount", str(cgroups.HYBRID)], check=True)
    for path, name in SHADOWED.items():
        (layout.root / name).mkdir(exist_ok=True)
        mount("--bind", str(layout.root / name), path)
    mount("-t", "tmpfs", "run", "/run")
    Path("/run/lock").mkdir()
    shown = layout.root / "kernel-settings"
    shown.mkdir()
    for name, value in configuration.hidden_settings().items():
        setting = Path("/proc/sys") / name
        if setting.exists():
            (shown / setting.name).write_text(f"{value}\n")
            mount("--bind", str(shown / setting.name), str(setting))


def join_network(layout: Layout) -> None:
    """Waits for the link to the machine, and becomes a router for the pods."""
    run(["hostname", HOSTNAME])
    wait_for(Path(f"/sys/class/net/{layout.far_end}").exists, "the link to the machine")
    ip = layout.programs["ip"]
    run([ip, "link", "set", "lo", "up"])
    run([ip, "address", "add", f"{layout.node_address}/{layout.prefix_length}", "dev", layout.far_end])
    run([ip, "link", "set", layout.far_end, "up"])
    run([ip, "route", "add", "default", "via", layout.host_address])
    for setting in ("ipv4/ip_forward", "bridge/bridge-nf-call-iptables"):
        (Path("/proc/sys/net") / setting).write_text("1")


def import_pause_image(layout: Layout) -> None:
    """The one image that every pod needs."""
    ctr = [layout.programs["ctr"], "--namespace=k8s.io"]
    wait_for(Path(CONTAINERD_SOCKET).exists, "containerd")
    wait_for(lambda: subprocess.run([*ctr, "version"], capture_output=True).returncode == 0, "containerd to answer")
    run([*ctr, "images", "import", str(layout.root / "pause.tar")])


def start(layout: Layout, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    """Starts a daemon with its own log."""
    with (layout.logs / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def last_of(log: Path) -> str:
    """The end of a log, which may go away with the node."""
    return log.read_text(errors="replace")[-LAST_CHARACTERS:]


def mount(*arguments: str) -> None:
    """Mounts something."""
    run(["mount", *arguments])


def run(command: list[str]) -> None:
    """Runs a command; what it says is why we end when it fails."""
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        raise SystemExit(f"{' '.join(command)}: {answer.stderr.strip()}")


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Waits until the condition is true."""
    deadline_monotonic = time.monotonic() + WITHIN_SECONDS
    while not condition():
        if time.monotonic() > deadline_monotonic:
            raise SystemExit(f"waited {WITHIN_SECONDS:.0f} s for {what}")
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
