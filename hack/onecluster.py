"""A cluster for a while, given or our own, with worklease installed, and an operator that runs by its own role."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from commands import SetupError
from controlplane import ControlPlane, Process, User, ensure, install, operator_token
from controlplane.ports import LOOPBACK, free_port
from localcluster.operating import READY, readiness
from progress import Progress

ADMIN = "admin"
OPERATOR = "operator"
OPERATOR_WITHIN_SECONDS = 30.0
STOPPED_WITHIN_SECONDS = 5.0


@dataclass(frozen=True)
class Access:
    """The administrator's kubeconfig of a cluster, and a kubectl that suits it."""

    kubeconfig: Path
    kubectl: Path


@contextlib.contextmanager
def cluster(given: Path | None, users: Iterable[User] = ()) -> Iterator[Access]:
    """The given cluster, else a control plane that lives this long; with CRDs, policies and roles."""
    if given:
        access = Access(given.resolve(), ensure("kubectl")["kubectl"])
        install(access.kubeconfig, access.kubectl)
        yield access
        return
    binaries = ensure("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
    plane = ControlPlane(users=users, controller_manager=True, binaries=binaries)
    try:
        with Progress("starting a control plane", "6 s"):
            plane.start()
            install(plane.kubeconfig, plane.kubectl)
        yield Access(plane.kubeconfig, plane.kubectl)
    finally:
        plane.stop()


class Contexts:
    """A kubeconfig with a context for each identity: `admin`, and whoever is added with a token."""

    def __init__(self, access: Access, path: Path, namespace: str) -> None:
        self.access = access
        self.path = path
        self.namespace = namespace
        answer = self._kubectl(
            f"--kubeconfig={access.kubeconfig}", "config", "view", "--minify", "--raw", "--flatten", "--output=json"
        )
        config = json.loads(answer)
        config["contexts"][0]["name"] = config["current-context"] = ADMIN
        config["contexts"][0]["context"]["namespace"] = namespace
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))

    def add(self, name: str, token: str) -> None:
        """A context for whoever the token stands for."""
        config = json.loads(self.path.read_text())
        cluster_name = config["contexts"][0]["context"]["cluster"]
        config["users"].append({"name": name, "user": {"token": token}})
        context = {"cluster": cluster_name, "user": name, "namespace": self.namespace}
        config["contexts"].append({"name": name, "context": context})
        self.path.write_text(json.dumps(config))

    def add_agent(self, name: str, role: str) -> None:
        """A ServiceAccount in the namespace with a ClusterRole, and a context that is it."""
        account = f"--serviceaccount={self.namespace}:{name}"
        self.kubectl("create", "serviceaccount", name)
        self.kubectl("create", "rolebinding", name, f"--clusterrole={role}", account)
        self.add(name, self.kubectl("create", "token", name, "--duration=12h").strip())

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints for the administrator. Raises SetupError when it fails."""
        return self._kubectl(f"--kubeconfig={self.path}", f"--context={ADMIN}", *arguments)

    def _kubectl(self, *arguments: str) -> str:
        answer = subprocess.run([str(self.access.kubectl), *arguments], capture_output=True, text=True, timeout=60)
        if answer.returncode:
            raise SetupError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout


@contextlib.contextmanager
def namespace(access: Access, path: Path, name: str) -> Iterator[Contexts]:
    """A new namespace, and a kubeconfig at `path` whose contexts are in it."""
    contexts = Contexts(access, path, name)
    contexts.kubectl("create", "namespace", name)
    try:
        yield contexts
    finally:
        contexts.kubectl("delete", "namespace", name, "--wait=false")


@contextlib.contextmanager
def operator(contexts: Contexts, log: Path) -> Iterator[Process]:
    """An operator with the token of its own ServiceAccount, serving the namespace, ready."""
    contexts.add(OPERATOR, operator_token(contexts.access.kubeconfig, contexts.access.kubectl))
    address = f"{LOOPBACK}:{free_port()}"
    command = [
        str(Path(sys.prefix) / "bin" / "worklease-operator"),
        f"--kubeconfig={contexts.path}",
        f"--context={OPERATOR}",
        f"--namespace={contexts.namespace}",
        f"--listen={address}",
    ]
    process = Process("worklease-operator", command, log)
    try:
        deadline = time.monotonic() + OPERATOR_WITHIN_SECONDS
        with Progress("starting worklease-operator", "2 s"):
            while readiness(address) != READY:
                if process.exit_code is not None or time.monotonic() > deadline:
                    raise SetupError(f"the operator did not become ready:\n{process.last_lines()}")
                time.sleep(0.1)
        yield process
    finally:
        process.stop(STOPPED_WITHIN_SECONDS)
