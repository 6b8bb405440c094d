"""One node beside a control plane, seen from this machine: started, asked, given images, ended with its owner."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from commands import SetupError
from controlplane import ControlPlane, Process, User, ensure
from controlplane.credentials import kubeconfig, write_private
from controlplane.manifests import Kubectl

from . import cgroups, configuration, images, requirements
from .inside import SHADOWED
from .layout import HOSTNAME, PAUSE_IMAGE, Layout
from .network import PREFIX_LENGTH, Slot

TOOLS = ("kubelet", "kube-proxy", "kube-scheduler", "coredns")
PAUSE = "worklease-pause"

# The daemons' names for the API server, with what is bound to them there from the start.
USERS = {
    "kubelet": User(f"system:node:{HOSTNAME}", ("system:nodes",)),
    "kube-proxy": User("system:kube-proxy"),
    "kube-scheduler": User("system:kube-scheduler"),
    "coredns": User("system:coredns"),
}
API_SERVER_CLIENT = "system:kube-apiserver-client"
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "validatingadmissionpolicy-status-controller",
)

READY_WITHIN_SECONDS = 120.0
GONE_WITHIN_SECONDS = 20.0
POLL_SECONDS = 0.05


def tools() -> tuple[str, ...]:
    """The programs that a node needs and that are built here when this machine has none."""
    return (*TOOLS, PAUSE)


class Node:
    """A node, from its start to its stop. Its control plane has to be started with `control_plane`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._programs = {**requirements.ensure(), **ensure(*tools())}
        self._slot = Slot()
        self._process: Process | None = None
        (directory / "configuration").mkdir(parents=True)
        (directory / "logs").mkdir()
        self._layout = Layout(
            directory=str(directory),
            slot=self._slot.name,
            far_end=self._slot.far_end,
            host_address=self._slot.host_address,
            node_address=self._slot.node_address,
            prefix_length=PREFIX_LENGTH,
            pods=self._slot.pods,
            programs={name: str(path) for name, path in self._programs.items()},
        )

    def control_plane(self, directory: Path, users: tuple[User, ...] = ()) -> ControlPlane:
        """A control plane, not started yet, that listens where the node and its pods reach it."""
        self._slot.connect()
        certificate, key = self._client_certificate()
        return ControlPlane(
            users=(*users, *USERS.values()),
            controller_manager=True,
            directory=directory,
            address=self._slot.host_address,
            controllers=CONTROLLERS,
            api_server_arguments=(
                "--endpoint-reconciler-type=lease",
                "--authorization-mode=Node",
                "--enable-admission-plugins=NodeRestriction",
                "--allow-privileged",
                f"--kubelet-client-certificate={certificate}",
                f"--kubelet-client-key={key}",
                "--kubelet-preferred-address-types=InternalIP",
            ),
        )

    def start(self, plane: ControlPlane) -> None:
        """Starts the daemons and returns when a pod can run; what does not become so leaves nothing."""
        kubectl = Kubectl(plane.kubectl, plane.kubeconfig)
        kubectl.apply("-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": _roles()}))
        for daemon, user in USERS.items():
            content = kubeconfig(plane.server, plane.ca_file.read_text(), [user])
            write_private(self._layout.kubeconfig(daemon), content)
        configuration.write(self._layout)
        self._write_pause_image()
        cgroups.create(self._slot.name)
        for path in SHADOWED:
            # Never removed: another node may have something mounted there.
            Path(path).mkdir(parents=True, exist_ok=True)
        self._process = Process("node", self._command(), self.directory / "logs" / "node.log")
        self._wait(self._layout.pid_file.exists, "its namespaces")
        self._slot.give(self.pid)
        self._wait(lambda: _is_ready(kubectl), "the node to be Ready")

    @property
    def pid(self) -> int:
        """The first process of its namespaces."""
        return int(self._layout.pid_file.read_text())

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.exit_code if self._process else None

    def last_lines(self) -> str:
        """Why it has ended."""
        return self._process.last_lines() if self._process else ""

    def stop(self) -> None:
        """Ends every process of it at once, and removes what it has left on this machine."""
        if self._process:
            pid = self.pid if self._layout.pid_file.exists() else 0
            self._process.kill()
            deadline_monotonic = time.monotonic() + GONE_WITHIN_SECONDS
            while pid and Path(f"/proc/{pid}").exists() and time.monotonic() < deadline_monotonic:
                time.sleep(POLL_SECONDS)
            self._process = None
        self._slot.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Node:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write_pause_image(self) -> None:
        program = self.directory / "pause"
        shutil.copy(self._programs[PAUSE], program)
        images.write_programs(self.directory / "pause.tar", PAUSE_IMAGE, [program], "/bin/pause")

    def _command(self) -> list[str]:
        unshare = [str(self._programs["unshare"]), *requirements.NEW_NAMESPACES, "--kill-child=KILL"]
        inside = [sys.executable, "-m", "localnode.inside", str(self._layout.write())]
        return [*unshare, "env", f"PYTHONPATH={Path(__file__).resolve().parent.parent}", *inside]

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        assert self._process
        deadline_monotonic = time.monotonic() + READY_WITHIN_SECONDS
        while not condition():
            if self._process.exit_code is not None:
                raise SetupError(f"the node ended instead of starting:\n{self._process.last_lines()}")
            if time.monotonic() > deadline_monotonic:
                raise SetupError(f"waited {READY_WITHIN_SECONDS:.0f} s for {what}; logs: {self._layout.logs}")
            time.sleep(POLL_SECONDS)

    def _client_certificate(self) -> tuple[Path, Path]:
        """What the API server proves itself to the kubelet with. It is its own authority."""
        certificate, key = self._layout.configuration / configuration.CLIENT_CA, self.directory / "apiserver-client.key"
        command = [str(self._programs["openssl"]), "req", "-x509", "-newkey", "ec", "-pkeyopt"]
        command += ["ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", f"/CN={API_SERVER_CLIENT}"]
        command += ["-addext", "extendedKeyUsage=clientAuth", "-keyout", str(key), "-out", str(certificate)]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode:
            raise SetupError(f"openssl could not make a certificate: {answer.stderr.strip()[-500:]}")
        return certificate, key


def load(pid: int, archive: Path) -> str:
    """Gives an image, an OCI or Docker archive, to the node whose first process is `pid`. Returns what was loaded."""
    programs = requirements.ensure()
    enter = [str(programs["nsenter"]), f"--target={pid}", "--mount", "--pid", "--net"]
    command = [*enter, str(programs["ctr"]), "--namespace=k8s.io", "images", "import", "-"]
    try:
        with archive.open("rb") as content:
            answer = subprocess.run(command, stdin=content, capture_output=True, text=True)
    except OSError as error:
        raise SetupError(f"{archive} cannot be read: {error.strerror}") from None
    if answer.returncode:
        raise SetupError(f"{archive} was not loaded: {answer.stderr.strip()[-500:]}")
    return answer.stdout.strip()


def _is_ready(kubectl: Kubectl) -> bool:
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    return kubectl.run("get", "node", HOSTNAME, "-o", path).stdout.strip() == "True"


def _roles() -> list[dict[str, Any]]:
    """What the daemons may do that Kubernetes does not bind to their names by itself."""
    group = "rbac.authorization.k8s.io"

    def bind(role: str, user: str) -> dict[str, Any]:
        return {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }

    dns = USERS["coredns"].name
    rules = [
        {"apiGroups": [""], "resources": ["services", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": dns}, "rules": rules}
    return [role, bind(dns, dns), bind("system:kubelet-api-admin", API_SERVER_CLIENT)]
