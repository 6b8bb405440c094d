"""What is there before the story begins: a namespace, two agents with their own accounts, and a running operator."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from commands import SetupError
from controlplane import ControlPlane, Process, ensure, install, operator_token
from controlplane.ports import LOOPBACK, free_port
from localcluster.operating import READY, readiness
from progress import Progress

from .stage import Stage

ADMIN = "admin"
AGENTS = ("agent-a", "agent-b")
ROLE = "worklease-agent-creator"
OPERATOR_WITHIN_SECONDS = 30.0


@contextlib.contextmanager
def cluster(given: Path | None) -> Iterator[tuple[Path, Path]]:
    """The kubeconfig of a cluster with worklease installed, and a kubectl for it."""
    if given:
        kubectl = ensure("kubectl")["kubectl"]
        install(given, kubectl)
        yield given, kubectl
        return
    binaries = ensure("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
    plane = ControlPlane(controller_manager=True, binaries=binaries)
    try:
        with Progress("starting a control plane", "6 s"):
            plane.start()
            install(plane.kubeconfig, plane.kubectl)
        yield plane.kubeconfig, plane.kubectl
    finally:
        plane.stop()


@contextlib.contextmanager
def stage(given: Path | None) -> Iterator[Stage]:
    """A stage with an operator behind it; everything that it needed is removed at the end."""
    directory = Path(tempfile.mkdtemp(prefix="worklease-demo-"))
    try:
        with cluster(given) as (admin_kubeconfig, kubectl):
            namespace = f"demo-{secrets.token_hex(3)}" if given else "demo"
            kubeconfig = directory / "kubeconfig"
            _kubeconfig(kubectl, admin_kubeconfig, kubeconfig, namespace)
            play = Stage(kubectl, kubeconfig, namespace)
            play.run("create", "namespace", namespace, as_=ADMIN, shown=False)
            try:
                for agent in AGENTS:
                    _add_agent(play, agent)
                with _operator(play, admin_kubeconfig, directory):
                    yield play
            finally:
                if given:
                    play.run("delete", "namespace", namespace, "--wait=false", as_=ADMIN, shown=False)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _kubeconfig(kubectl: Path, admin: Path, path: Path, namespace: str) -> None:
    """The administrator's kubeconfig for one cluster, its context named admin."""
    minified = subprocess.run(
        [str(kubectl), f"--kubeconfig={admin}", "config", "view", "--minify", "--raw", "--flatten", "--output=json"],
        capture_output=True,
        text=True,
        check=True,
    )
    config = json.loads(minified.stdout)
    config["contexts"][0]["name"] = config["current-context"] = ADMIN
    config["contexts"][0]["context"]["namespace"] = namespace
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))


def add_character(play: Stage, name: str, token: str) -> None:
    """A context for somebody with a token."""
    config = json.loads(play.kubeconfig.read_text())
    cluster_name = config["contexts"][0]["context"]["cluster"]
    config["users"] = [u for u in config["users"] if u["name"] != name] + [{"name": name, "user": {"token": token}}]
    config["contexts"].append(
        {"name": name, "context": {"cluster": cluster_name, "user": name, "namespace": play.namespace}}
    )
    play.kubeconfig.write_text(json.dumps(config))


def _add_agent(play: Stage, name: str) -> None:
    """A ServiceAccount with the agent's role, and a context that is it."""
    play.run("create", "serviceaccount", name, as_=ADMIN, shown=False)
    play.run(
        "create",
        "rolebinding",
        name,
        f"--clusterrole={ROLE}",
        f"--serviceaccount={play.namespace}:{name}",
        as_=ADMIN,
        shown=False,
    )
    add_character(play, name, play.run("create", "token", name, "--duration=1h", as_=ADMIN, shown=False))


@contextlib.contextmanager
def _operator(play: Stage, admin_kubeconfig: Path, directory: Path) -> Iterator[None]:
    """The operator with its own account's token, serving this namespace."""
    add_character(play, "operator", operator_token(admin_kubeconfig, play.kubectl))
    address = f"{LOOPBACK}:{free_port()}"
    program = Path(sys.prefix) / "bin" / "worklease-operator"
    command = [
        str(program),
        f"--kubeconfig={play.kubeconfig}",
        "--context=operator",
        f"--namespace={play.namespace}",
        f"--listen={address}",
    ]
    process = Process("worklease-operator", command, directory / "operator.log")
    try:
        deadline = time.monotonic() + OPERATOR_WITHIN_SECONDS
        with Progress("starting worklease-operator", "2 s"):
            while readiness(address) != READY:
                if process.exit_code is not None or time.monotonic() > deadline:
                    raise SetupError(f"the operator did not become ready:\n{process.last_lines()}")
                time.sleep(0.1)
        yield
    finally:
        process.stop(5.0)
