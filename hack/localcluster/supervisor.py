"""The process in the background: it owns control plane, node and operator, and ends them when it is told to end."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from commands import SetupError
from controlplane import PEOPLE, ControlPlane, install
from controlplane.servers import API_SERVER
from localnode.layout import HOSTNAME
from localnode.node import Node
from progress import say

from . import state as told_state
from .operating import OperatorProcess
from .state import Running, State

POLL_SECONDS = 0.2


def main(arguments: list[str]) -> int:
    """Runs until SIGTERM, until a server has ended by itself, or until the process it was started for has ended."""
    options = parse(arguments)
    state = State(options.directory)
    lock = state.hold()
    if lock is None:
        raise SetupError(f"the cluster in {state.directory} already has a supervisor")
    with lock:
        for leftover in (state.running_file, state.operator_wanted):
            leftover.unlink(missing_ok=True)
        for directory in (state.plane_directory, state.node_directory):
            shutil.rmtree(directory, ignore_errors=True)
        try:
            with started(state, options) as (plane, node):
                if not options.empty:
                    install(plane.kubeconfig, plane.kubectl)
                shutil.copy(plane.kubeconfig, state.kubeconfig)
                supervise(plane, node, state, options)
        finally:
            for leftover in (state.running_file, state.kubeconfig, state.operator_kubeconfig):
                leftover.unlink(missing_ok=True)
            shutil.rmtree(state.plane_directory, ignore_errors=True)
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    """What hack/cluster has been told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--no-controller-manager", dest="controller_manager", action="store_false")
    parser.add_argument("--node", action="store_true")
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--owner", type=int)
    return parser.parse_args(arguments)


@contextlib.contextmanager
def started(state: State, options: argparse.Namespace) -> Iterator[tuple[ControlPlane, Node | None]]:
    """The control plane, with a node where one is asked for."""
    if not options.node:
        directory, controllers = state.plane_directory, options.controller_manager
        with ControlPlane(users=PEOPLE, controller_manager=controllers, directory=directory) as plane:
            yield plane, None
        return
    with Node(state.node_directory) as node, node.control_plane(state.plane_directory, PEOPLE) as plane:
        try:
            node.start(plane)
            yield plane, node
        finally:
            node.stop()
            # It would wait for the ends of connections whose other side has just gone without a word.
            plane.kill(API_SERVER)


def supervise(plane: ControlPlane, node: Node | None, state: State, options: argparse.Namespace) -> None:
    """Tells what runs, starts the operator when it is wanted, and returns when something else has ended."""
    started_time, owner = time.time(), options.owner
    operator: OperatorProcess | None = None
    servers = plane.running()
    pids = {name: plane.pid(name) for name in servers}
    about_node = told_state.Node(node.pid, HOSTNAME, str(node.directory / "logs")) if node else None
    told: Running | None = None
    try:
        while plane.running() == servers and not (node and node.exit_code is not None):
            if owner and has_ended(owner):
                say(f"process {owner}, which the cluster was for, has ended")
                return
            wanted = state.operator_wanted.exists()
            if wanted and (operator is None or operator.told().exit_code is not None):
                operator = OperatorProcess(plane, state)
            about_operator = operator.told() if operator else None
            now = Running(
                os.getpid(),
                started_time,
                plane.server,
                str(plane.kubectl),
                pids,
                options.empty,
                about_operator,
                about_node,
            )
            if now != told:
                state.tell(now)
                told = now
            if wanted:
                # Only now, so that whoever waits for this finds the operator told of.
                state.operator_wanted.unlink(missing_ok=True)
            time.sleep(POLL_SECONDS)
        ended = ", ".join(sorted(set(servers) - set(plane.running()))) or f"the node: {node and node.last_lines()}"
        say(f"{ended} ended by itself, so the cluster is stopped")
    finally:
        if operator:
            operator.stop()


def has_ended(pid: int) -> bool:
    """Whether a process runs no more."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 0)[0])
    finally:
        os.close(descriptor)
