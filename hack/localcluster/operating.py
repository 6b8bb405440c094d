"""Runs worklease-operator as the chart does: with the token of its own ServiceAccount, so with its own role only."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from controlplane import ControlPlane, Process, User, operator_token
from controlplane.credentials import kubeconfig, write_private
from controlplane.ports import LOOPBACK, free_port

from .state import Operator, State

TOKEN_DURATION = "720h"
STOPPED_WITHIN_SECONDS = 5.0
ANSWER_WITHIN_SECONDS = 5.0
READY = "ready"


class OperatorProcess:
    """The operator, running against a control plane; it serves /healthz, /readyz and /metrics on `address`."""

    def __init__(self, plane: ControlPlane, state: State) -> None:
        user = User("worklease-operator", token=operator_token(plane.kubeconfig, plane.kubectl, TOKEN_DURATION))
        content = kubeconfig(plane.server, plane.ca_file.read_text(), [user])
        write_private(state.operator_kubeconfig, content)
        self.address = f"{LOOPBACK}:{free_port()}"
        command = operator_command(state.operator_kubeconfig, self.address)
        self._process = Process("worklease-operator", command, state.operator_log)

    def told(self) -> Operator:
        """What others may know of it."""
        return Operator(self._process.pid, self.address, self._process.exit_code)

    def stop(self) -> None:
        """Ends it; it finishes what it is writing."""
        self._process.stop(STOPPED_WITHIN_SECONDS)


def operator_command(kubeconfig_file: Path, address: str) -> list[str]:
    """The command line of the operator."""
    program = Path(sys.prefix) / "bin" / "worklease-operator"
    return [str(program), f"--kubeconfig={kubeconfig_file}", f"--listen={address}"]


def readiness(address: str) -> str:
    """READY, or what /readyz says is missing."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/readyz", timeout=ANSWER_WITHIN_SECONDS):
            return READY
    except urllib.error.HTTPError as error:
        return f"not ready ({error.read(200).decode(errors='replace').strip()})"
    except (OSError, HTTPException) as error:
        return f"no answer ({error})"
