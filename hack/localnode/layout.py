"""Where everything of one node is: its files, its addresses, its programs. Both sides of the namespaces read it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

HOSTNAME = "worklease-node"
PAUSE_IMAGE = "worklease.dev/pause:1"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CLUSTER_DOMAIN = "cluster.local"


@dataclass(frozen=True)
class Layout:
    """One node. `programs` has the path of each, and `cni` the directory of the network plugins."""

    directory: str
    slot: str
    far_end: str
    host_address: str
    node_address: str
    prefix_length: int
    pods: str
    programs: dict[str, str]

    @property
    def root(self) -> Path:
        """The directory of its files."""
        return Path(self.directory)

    @property
    def configuration(self) -> Path:
        """The directory of what the daemons read."""
        return self.root / "configuration"

    @property
    def logs(self) -> Path:
        """The directory of the daemons' logs, and of the pods' in `pods`."""
        return self.root / "logs"

    @property
    def pid_file(self) -> Path:
        """Has the process id of the namespaces' first process, as this machine counts them."""
        return self.root / "pid"

    def kubeconfig(self, daemon: str) -> Path:
        """The credentials of one daemon."""
        return self.configuration / f"{daemon}.kubeconfig"

    def write(self) -> Path:
        """Writes it for the other side."""
        path = self.configuration / "layout.json"
        path.write_text(json.dumps(asdict(self)))
        return path

    @classmethod
    def read(cls, path: Path) -> Layout:
        """What the other side has written."""
        return cls(**json.loads(path.read_text()))
