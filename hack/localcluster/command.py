"""What hack/cluster does: up, status and down, each safe to repeat."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from commands import SetupError
from controlplane import ensure
from controlplane.binaries import TOOLS, new_enough, version_of
from localnode import requirements
from localnode.node import load
from localnode.node import tools as node_tools
from locking import locked
from progress import Progress, say

from .operating import READY, readiness
from .state import Operator, Running, State

READY_WITHIN_SECONDS = 300.0
OPERATOR_WITHIN_SECONDS = 30.0
DOWN_WITHIN_SECONDS = 40.0
POLL_SECONDS = 0.1
NOT_UP = 3
LAST_CHARACTERS = 4000
NODE_ANSWER_WITHIN_SECONDS = 30.0

DESCRIPTION = """A Kubernetes control plane on this machine, without containers: etcd, kube-apiserver and
kube-controller-manager as processes on loopback, with worklease's CRDs, policies and roles installed.
With --node (Linux, as root) also a node that runs pods: kubelet, kube-proxy, scheduler, DNS and containerd, in
namespaces of their own, without Docker and without a registry: pods run the images that `load` has given it.
It is thrown away when it goes down or the machine restarts."""

EPILOG = """Use it with: eval "$(hack/cluster up)". The kubeconfig's contexts are admin (the current one) and
the users alice, bob and carol, who may do nothing until a role is bound to them."""


def main(arguments: Sequence[str]) -> int:
    """Runs one of the commands; returns the exit code (3 when status finds no cluster)."""
    parser = argparse.ArgumentParser(prog="hack/cluster", description=DESCRIPTION, epilog=EPILOG)
    commands = parser.add_subparsers(dest="command", required=True)
    up_parser = commands.add_parser("up", help="start it, unless it is up; prints the line that exports KUBECONFIG")
    up_parser.add_argument("--operator", action="store_true", help="also run worklease-operator, by its own role")
    up_parser.add_argument(
        "--controller-manager",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run kube-controller-manager: garbage collection, deletion of namespaces (default: yes)",
    )
    up_parser.add_argument("--node", action="store_true", help="with a node that runs pods (Linux, as root)")
    up_parser.add_argument("--empty", action="store_true", help="without worklease, to install its chart by yourself")
    up_parser.add_argument("--while", type=int, dest="owner", metavar="PID", help="end it when this process has ended")
    load_parser = commands.add_parser("load", help="give the node images, as OCI or Docker archives")
    load_parser.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    commands.add_parser("status", help=f"say what runs; exit code {NOT_UP} when it is not up")
    commands.add_parser("down", help="stop everything and remove its data")
    options = parser.parse_args(arguments)
    state = State.default()
    if options.command == "up":
        if options.empty and options.operator:
            parser.error("--operator needs what --empty leaves out")
        if options.node and not options.controller_manager:
            parser.error("a node needs the controller manager")
        wanted = Wanted(options.controller_manager, options.node, options.empty, options.owner)
        return up(state, wanted, options.operator)
    if options.command == "load":
        return load_images(state, options.archives)
    return status(state) if options.command == "status" else down(state)


@dataclass(frozen=True)
class Wanted:
    """What a new cluster is to have. With `owner`, a process id, it ends when that process does."""

    controller_manager: bool = True
    node: bool = False
    empty: bool = False
    owner: int | None = None

    def arguments(self) -> list[str]:
        """As the supervisor is told."""
        flags = {"--no-controller-manager": not self.controller_manager, "--node": self.node, "--empty": self.empty}
        owner = [f"--owner={self.owner}"] if self.owner else []
        return [*(flag for flag, given in flags.items() if given), *owner]

    def ensure(self) -> None:
        """Installs and builds all that it needs, here where a person sees the progress."""
        controllers = ("kube-controller-manager",) if self.controller_manager else ()
        if self.node:
            requirements.ensure()
        ensure("etcd", "kube-apiserver", "kubectl", *controllers, *(node_tools() if self.node else ()))


def up(state: State, wanted: Wanted, operator: bool) -> int:
    """Starts what is not running yet, and prints the one line that a shell is to evaluate."""
    running = make(state, wanted)
    if operator:
        if running.empty:
            raise SetupError("the cluster is up without worklease: hack/cluster down, then up --operator")
        with locked(state.up_lock, waiting):
            running = start_operator(state)
    print(f"export KUBECONFIG={shlex.quote(str(state.kubeconfig))}", flush=True)
    advise_kubectl(running)
    return 0


def make(state: State, wanted: Wanted) -> Running:
    """The cluster, started unless it runs; two callers at once get one."""
    state.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(state.up_lock, waiting):
        running = state.running()
        if running is None:
            wanted.ensure()
            running = start(state, wanted)
        elif wanted.node and not running.node:
            raise SetupError("the cluster is up without a node: hack/cluster down, then up --node")
        elif wanted.empty and not running.empty:
            raise SetupError("the cluster is up with worklease in it: hack/cluster down, then up --empty")
    return running


def waiting(process_id: str) -> None:
    """Says who is at it."""
    say(f"process {process_id} is doing that; waiting for it")


def start(state: State, wanted: Wanted) -> Running:
    """Starts the supervisor and waits until everything is ready; what does not become so leaves nothing."""
    command = [sys.executable, "-m", "localcluster", f"--directory={state.directory}", *wanted.arguments()]
    what = ("starting a control plane and a node", "12 s") if wanted.node else ("starting a control plane", "6 s")
    with Progress(*what), state.supervisor_log.open("wb") as log:
        supervisor = subprocess.Popen(
            command,
            cwd=Path(__file__).resolve().parent.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            wait_for(lambda: state.running() or supervisor.poll() is not None, "the cluster", READY_WITHIN_SECONDS)
        except BaseException:
            supervisor.terminate()
            supervisor.wait(DOWN_WITHIN_SECONDS)
            raise
    running = state.running()
    if running is None:
        raise SetupError(f"the cluster did not start:\n{last_of(state.supervisor_log)}")
    return running


def load_images(state: State, archives: Sequence[Path]) -> int:
    """Gives the node images from files."""
    running = state.running()
    if running is None or running.node is None:
        raise SetupError("no node is up: hack/cluster up --node")
    for archive in archives:
        with Progress(f"loading {archive}", "3 s"):
            said = load(running.node.pid, archive)
        say(said)
    return 0


def start_operator(state: State) -> Running:
    """Has the supervisor start the operator, unless it runs, and waits until it is ready."""
    operator, running = running_operator(state), state.running()
    if operator and running and readiness(operator.address) == READY:
        say("worklease-operator runs already")
        return running
    if operator is None:
        state.operator_wanted.touch()
        wait_for(lambda: not (state.operator_wanted.exists() and state.running()), "the operator to be started")

    said = ""

    def settled() -> bool:
        nonlocal said
        operator = running_operator(state)
        said = readiness(operator.address) if operator else ""
        return operator is None or said == READY

    try:
        with Progress("starting worklease-operator", "3 s"):
            wait_for(settled, "the operator to be ready", OPERATOR_WITHIN_SECONDS)
    except SetupError as error:
        raise SetupError(f"{error}, while the cluster is up. The operator says: {said}. {state.operator_log}") from None
    now = state.running()
    if not (now and running_operator(state)):
        raise SetupError(f"the operator ended at once, while the cluster is up:\n{last_of(state.operator_log)}")
    return now


def running_operator(state: State) -> Operator | None:
    """The operator, when it runs."""
    running = state.running()
    operator = running.operator if running else None
    return operator if operator and operator.exit_code is None else None


def status(state: State) -> int:
    """Prints versions, addresses, uptime and the operator's readiness."""
    running = state.running()
    if running is None:
        starting = state.supervisor_pid()
        print(f"starting or stopping (process {starting})" if starting else "the cluster is down: hack/cluster up")
        return NOT_UP
    minutes = int(time.time() - running.started_time) // 60
    print(f"up for {minutes // 60} h {minutes % 60:02d} min, supervised by process {running.pid}")
    print(f"server      {running.server}")
    print(f"kubeconfig  {state.kubeconfig}")
    for name, pid in running.pids.items():
        found = ensure(name)[name]
        version = ".".join(map(str, version_of(found, TOOLS[name]) or ()))
        print(f"{name:<24} {version:<8} process {pid}, log {state.plane_directory / name}.log")
    if running.node:
        name, pid, logs = running.node.name, running.node.pid, running.node.logs
        print(f"{'node':<24} {name}, first process {pid}, logs {logs}")
        print(node_status(running, state))
    operator = running.operator
    if operator is None:
        about = "not started: hack/cluster up --operator"
    elif operator.exit_code is not None:
        about = f"ended with exit code {operator.exit_code}: hack/cluster up --operator starts it again"
    else:
        about = f"{readiness(operator.address)}, http://{operator.address}, process {operator.pid}"
    print(f"{'worklease-operator':<24} {about}, log {state.operator_log}")
    return 0


def node_status(running: Running, state: State) -> str:
    """What the API server knows of the node, indented."""
    columns = (
        "NAME:.metadata.name,KUBELET:.status.nodeInfo.kubeletVersion,RUNTIME:.status.nodeInfo.containerRuntimeVersion"
    )
    ready = "READY:.status.conditions[?(@.type=='Ready')].status,PODS:.status.allocatable.pods"
    command = [
        running.kubectl,
        f"--kubeconfig={state.kubeconfig}",
        "get",
        "nodes",
        "-o",
        f"custom-columns={columns},{ready}",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=NODE_ANSWER_WITHIN_SECONDS)
    return textwrap.indent((answer.stdout or answer.stderr).rstrip(), "  ")


def down(state: State) -> int:
    """Stops everything; killing what does not end in time ends its servers too."""
    pid = state.supervisor_pid()
    if pid is None:
        say("the cluster is down")
        return 0
    with Progress("stopping the cluster", "3 s"):
        os.kill(pid, signal.SIGTERM)
        try:
            wait_for(lambda: state.supervisor_pid() != pid, "the cluster to stop", DOWN_WITHIN_SECONDS)
        except SetupError:
            os.kill(pid, signal.SIGKILL)
            for directory in (state.plane_directory, state.node_directory):
                shutil.rmtree(directory, ignore_errors=True)
    return 0


def advise_kubectl(running: Running) -> None:
    """Says which kubectl to use when the one on PATH is missing or too old."""
    on_path = shutil.which("kubectl")
    if on_path and new_enough(Path(on_path), TOOLS["kubectl"]):
        return
    what = f"{on_path} is too old" if on_path else "there is no kubectl on PATH"
    say(f"{what}; use this one: alias kubectl={shlex.quote(running.kubectl)}")


def last_of(log: Path) -> str:
    """The end of a log, for an error message."""
    return log.read_text(errors="replace")[-LAST_CHARACTERS:].strip()


def wait_for(condition: Callable[[], object], what: str, within_seconds: float = 10.0) -> None:
    """Waits until the condition is true; a SetupError says what did not happen."""
    deadline_monotonic = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline_monotonic:
            raise SetupError(f"waited {within_seconds:.0f} s for {what}")
        time.sleep(POLL_SECONDS)
