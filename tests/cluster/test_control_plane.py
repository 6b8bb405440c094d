"""The control plane ends with its owner, whatever ends that, and can be made to fail on purpose."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import urllib3

from controlplane import ControlPlane, SetupError, ensure
from controlplane.workspace import Workspace
from support.api import Api
from support.processes import processes_with, start_python
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

OWNER = """
import time
from environment import reported
from controlplane import ControlPlane
with reported(), ControlPlane(controller_manager=True) as plane:
    print("ready", flush=True)
    time.sleep(3600)
"""
START_WITHIN_SECONDS = 180.0

Owner = tuple[subprocess.Popen[str], Path]


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    """A process that owns a control plane whose files are in the directory beside it."""
    ensure("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
    process = start_python(OWNER, TMPDIR=str(tmp_path))
    yield process, tmp_path
    process.kill()
    process.communicate(timeout=30)


def ready(process: subprocess.Popen[str], directory: Path) -> None:
    """The owner runs a complete control plane."""
    assert process.stdout
    assert process.stdout.readline() == "ready\n"


def starting(server: str) -> Callable[[subprocess.Popen[str], Path], None]:
    """The owner has just started this server."""

    def moment(process: subprocess.Popen[str], directory: Path) -> None:
        wait_for(
            lambda: any(server in command for command in processes_with(str(directory)).values()),
            f"{server} to be started",
            START_WITHIN_SECONDS,
        )

    return moment


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize(
    "moment",
    [starting("etcd"), starting("kube-apiserver"), ready],
    ids=["while etcd starts", "while the API server starts", "while it runs"],
)
def test_interrupted_owner_leaves_nothing(
    owner: Owner, moment: Callable[[subprocess.Popen[str], Path], None], number: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM end every server and remove the data before the owner ends."""
    process, directory = owner
    moment(process, directory)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert not processes_with(str(directory))
    assert not list(directory.iterdir())


def test_killed_owner_leaves_no_process(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that is killed cannot clean up; its servers end all the same, and the next owner removes its data."""
    process, directory = owner
    ready(process, directory)
    assert len(processes_with(str(directory))) == 3
    process.kill()
    wait_for(lambda: not processes_with(str(directory)), "the servers to end with their owner")
    (abandoned,) = directory.glob("worklease-*")
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    first, second = Workspace(), Workspace()
    assert sorted(directory.glob("worklease-*")) == sorted([first.path, second.path])
    assert abandoned not in (first.path, second.path)
    first.remove()
    second.remove()


def test_faults_can_be_injected_and_mended() -> None:
    """A paused server never answers, a killed one refuses, a restarted one has everything that was stored."""
    with ControlPlane() as plane:
        api = Api.from_kubeconfig(plane.kubeconfig)
        maps = "/api/v1/namespaces/default/configmaps"
        api.create(maps, {"metadata": {"name": "kept"}}).must()
        impatient = Api.from_kubeconfig(plane.kubeconfig, timeout_seconds=0.5)
        plane.pause("kube-apiserver")
        with pytest.raises(urllib3.exceptions.ReadTimeoutError):
            impatient.get(maps)
        plane.resume("kube-apiserver")
        assert api.get(f"{maps}/kept").ok
        plane.kill("kube-apiserver")
        with pytest.raises(urllib3.exceptions.HTTPError):
            api.get(maps)
        plane.kill("etcd")
        plane.restart("etcd")
        plane.restart_apiserver()
        assert api.get(f"{maps}/kept").ok


def test_server_that_does_not_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    """The error has the end of the server's own log."""
    plane = ControlPlane(directory=tmp_path / "plane", api_server_arguments=["--no-such-flag"])
    with pytest.raises(SetupError, match=r"(?s)kube-apiserver ended with exit code 1.*unknown flag: --no-such-flag"):
        plane.start()
    assert not processes_with(str(tmp_path))
