"""The process in the background: it owns the control plane and the operator, and ends them when it is told to end."""

from __future__ import annotations

import os
import shutil
import time

from commands import SetupError
from controlplane import PEOPLE, ControlPlane, install
from progress import say

from .operating import OperatorProcess
from .state import Running, State

POLL_SECONDS = 0.2


def main(arguments: list[str]) -> int:
    """Runs until SIGTERM, or until a server has ended by itself."""
    controller_manager = "--no-controller-manager" not in arguments
    state = State.default()
    lock = state.hold()
    if lock is None:
        raise SetupError(f"the cluster in {state.directory} already has a supervisor")
    with lock:
        for leftover in (state.running_file, state.operator_wanted):
            leftover.unlink(missing_ok=True)
        shutil.rmtree(state.plane_directory, ignore_errors=True)
        try:
            plane = ControlPlane(users=PEOPLE, controller_manager=controller_manager, directory=state.plane_directory)
            with plane:
                install(plane.kubeconfig, plane.kubectl)
                shutil.copy(plane.kubeconfig, state.kubeconfig)
                supervise(plane, state)
        finally:
            for leftover in (state.running_file, state.kubeconfig, state.operator_kubeconfig):
                leftover.unlink(missing_ok=True)
            shutil.rmtree(state.plane_directory, ignore_errors=True)
    return 0


def supervise(plane: ControlPlane, state: State) -> None:
    """Tells what runs, starts the operator when it is wanted, and returns when a server has ended."""
    started_time = time.time()
    operator: OperatorProcess | None = None
    servers = plane.running()
    pids = {name: plane.pid(name) for name in servers}
    told: Running | None = None
    try:
        while plane.running() == servers:
            wanted = state.operator_wanted.exists()
            if wanted and (operator is None or operator.told().exit_code is not None):
                operator = OperatorProcess(plane, state)
            about_operator = operator.told() if operator else None
            now = Running(os.getpid(), started_time, plane.server, str(plane.kubectl), pids, about_operator)
            if now != told:
                state.tell(now)
                told = now
            if wanted:
                # Only now, so that whoever waits for this finds the operator told of.
                state.operator_wanted.unlink(missing_ok=True)
            time.sleep(POLL_SECONDS)
        ended = ", ".join(sorted(set(servers) - set(plane.running())))
        say(f"{ended} ended by itself, so the cluster is stopped")
    finally:
        if operator:
            operator.stop()
