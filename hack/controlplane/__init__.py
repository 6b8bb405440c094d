"""A real Kubernetes control plane without containers: etcd, kube-apiserver and kube-controller-manager as processes.

Uses the standard library only, so that it also works before the project's virtual environment exists.
"""

from commands import SetupError

from .binaries import Binaries, BinaryError, ensure
from .credentials import PEOPLE, User
from .manifests import InstallError, install, operator_token
from .process import Process
from .servers import ControlPlane, StartError

__all__ = [
    "PEOPLE",
    "Binaries",
    "BinaryError",
    "ControlPlane",
    "InstallError",
    "Process",
    "SetupError",
    "StartError",
    "User",
    "ensure",
    "install",
    "operator_token",
]
