"""Starts etcd, kube-apiserver and, when asked, kube-controller-manager on loopback, and ends them with their owner."""

from __future__ import annotations

import re
import secrets
import signal
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterable
from http.client import HTTPException
from pathlib import Path
from types import TracebackType

from commands import SetupError

from . import credentials
from .binaries import Binaries, ensure
from .credentials import ADMIN, CONTROLLER_MANAGER, User
from .ports import LOOPBACK, free_port
from .process import Process
from .workspace import Workspace

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLERS = "kube-controller-manager"
CONTROLLERS_KUBECONFIG = "kubeconfig-controllers"

READY_WITHIN_SECONDS = 120.0
STOPPED_WITHIN_SECONDS = 5.0
POLL_SECONDS = 0.05
ANSWER_WITHIN_SECONDS = 5.0
MOST_BYTES = 2**20
PORT_ATTEMPTS = 5
PORT_TAKEN = "address already in use"

CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\n[^-]*-----END CERTIFICATE-----\n")

CONTROLLERS_RUN = (
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "validatingadmissionpolicy-status-controller",
)


class StartError(SetupError):
    """A server did not become ready; the message has the end of its log."""


class ControlPlane:
    """A control plane for one owner, also as a context manager. Start it from the main thread (see tether.py).

    `users` get static tokens beside the administrator `admin`. Everything lies in `directory`, by default a
    temporary one that stop() removes. The API server listens on `address` alone.
    """

    def __init__(
        self,
        *,
        users: Iterable[User] = (),
        controller_manager: bool = False,
        directory: Path | None = None,
        binaries: Binaries | None = None,
        api_server_arguments: Iterable[str] = (),
        address: str = LOOPBACK,
        controllers: Iterable[str] = CONTROLLERS_RUN,
    ) -> None:
        self.users = {user.name: user for user in (User(ADMIN, ("system:masters",)), *users)}
        self._controllers_user = User(CONTROLLER_MANAGER)
        self.controller_manager = controller_manager
        self._binaries = binaries
        self._api_server_arguments = tuple(api_server_arguments)
        self._address = address
        self._controllers = tuple(controllers)
        self._given_directory = directory
        self._directory: Path | None = None
        self._workspace: Workspace | None = None
        self._processes: dict[str, Process] = {}
        self._ready: dict[str, Callable[[], bool]] = {}
        self._api_server_port = self._etcd_port = 0
        self._etcd_name = f"etcd-{secrets.token_hex(8)}"

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def directory(self) -> Path:
        """Where its data, logs and credentials are."""
        if self._directory is None:
            raise StartError("the control plane has not been started")
        return self._directory

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{self._address}:{self._api_server_port}"

    @property
    def etcd_server(self) -> str:
        """The URL of etcd, for whoever wants to see every revision of the store."""
        return f"http://{LOOPBACK}:{self._etcd_port}"

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that signed the API server's, as PEM."""
        return self.directory / "ca.crt"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; it has a context for every other static user too."""
        return self.directory / "kubeconfig"

    @property
    def kubectl(self) -> Path:
        """A kubectl that suits this API server."""
        return self._found("kubectl")

    def running(self) -> list[str]:
        """The names of the servers that run now."""
        return [name for name, process in self._processes.items() if process.exit_code is None]

    def pid(self, name: str) -> int:
        """The process id of one of the servers."""
        return self._processes[name].pid

    def log(self, name: str) -> Path:
        """The log of one of the servers."""
        return self.directory / f"{name}.log"

    def start(self) -> None:
        """Starts the servers and returns when all are ready; when one does not become so, none is left."""
        if self._binaries is None:
            controllers = (CONTROLLERS,) if self.controller_manager else ()
            self._binaries = ensure(ETCD, API_SERVER, "kubectl", *controllers)
        try:
            if self._given_directory is None:
                self._workspace = Workspace()
            self._directory = self._workspace.path if self._workspace else self._given_directory
            self.directory.mkdir(parents=True, exist_ok=True)
            self._start_servers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends every server, the API server before etcd since without etcd it does not end by itself."""
        for name in (CONTROLLERS, API_SERVER, ETCD):
            if process := self._processes.get(name):
                process.stop(STOPPED_WITHIN_SECONDS)
                del self._processes[name]
        if self._workspace:
            self._workspace.remove()
            self._workspace = None
        self._directory = None

    def kill(self, name: str) -> None:
        """Kills one server as a crash would; its data stays."""
        self._processes[name].kill()

    def pause(self, name: str) -> None:
        """Freezes one server: it still accepts connections, and never answers."""
        self._processes[name].send(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Lets a paused server go on."""
        self._processes[name].send(signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Starts one server again on the same port and data, after ending it if it still runs."""
        old = self._processes[name]
        old.stop(STOPPED_WITHIN_SECONDS)
        self._processes[name] = Process(name, old.command, old.log)
        self._wait(name)

    def restart_apiserver(self) -> None:
        """Restarts the API server; every watch is closed, and clients see refused connections meanwhile."""
        self.restart(API_SERVER)

    def _write_kubeconfig(self, file_name: str, users: Iterable[User]) -> Path:
        path = self.directory / file_name
        credentials.write_private(path, credentials.kubeconfig(self.server, self.ca_file.read_text(), tuple(users)))
        return path

    def _start_servers(self) -> None:
        directory = self.directory
        credentials.write_private(directory / "sa.key", credentials.service_account_key())
        credentials.write_private(
            directory / "tokens.csv", credentials.token_file([*self.users.values(), self._controllers_user])
        )
        self._etcd_port = self._start(ETCD, self._etcd_command, self._etcd_ready)
        self._api_server_port = self._start(API_SERVER, self._api_server_command, self._api_server_ready)
        self._write_kubeconfig(self.kubeconfig.name, self.users.values())
        if self.controller_manager:
            self._write_kubeconfig(CONTROLLERS_KUBECONFIG, [self._controllers_user])
            self._start(CONTROLLERS, lambda port: self._controllers_command(), lambda port: self._controllers_ready())

    def _start(self, name: str, command: Callable[[int], list[str]], ready: Callable[[int], bool]) -> int:
        """Starts a server on a free port, on another one when somebody else was faster. Returns the port."""
        for _ in range(PORT_ATTEMPTS):
            port = free_port()
            self._ready[name] = lambda port=port: ready(port)  # type: ignore[misc]
            self._processes[name] = Process(name, command(port), self.log(name))
            try:
                self._wait(name)
            except StartError:
                if PORT_TAKEN not in self._processes[name].output():
                    raise
            else:
                return port
        raise StartError(f"{name} found no free port in {PORT_ATTEMPTS} attempts; its log: {self.log(name)}")

    def _wait(self, name: str) -> None:
        process, ready = self._processes[name], self._ready[name]
        deadline_monotonic = time.monotonic() + READY_WITHIN_SECONDS
        while process.exit_code is None and time.monotonic() < deadline_monotonic:
            if ready():
                return
            time.sleep(POLL_SECONDS)
        if process.exit_code is None:
            what = f"was not ready within {READY_WITHIN_SECONDS:.0f} s"
            process.kill()
        else:
            what = f"ended with exit code {process.exit_code} instead of starting"
        raise StartError(f"{name} {what}. The end of its log:\n{process.last_lines()}")

    def _found(self, name: str) -> Path:
        if self._binaries is None or name not in self._binaries:
            self._binaries = {**(self._binaries or {}), **ensure(name)}
        return self._binaries[name]

    def _etcd_command(self, port: int) -> list[str]:
        client, peer = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{free_port()}"
        return [
            str(self._found(ETCD)),
            f"--name={self._etcd_name}",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={self._etcd_name}={peer}",
            "--unsafe-no-fsync",
        ]

    def _api_server_command(self, port: int) -> list[str]:
        directory = self.directory
        return [
            str(self._found(API_SERVER)),
            f"--etcd-servers={self.etcd_server}",
            f"--bind-address={self._address}",
            f"--advertise-address={self._address}",
            "--endpoint-reconciler-type=none",
            f"--secure-port={port}",
            f"--cert-dir={directory / 'certificates'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={directory / 'sa.key'}",
            f"--service-account-signing-key-file={directory / 'sa.key'}",
            f"--token-auth-file={directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            *self._api_server_arguments,
        ]

    def _controllers_command(self) -> list[str]:
        return [
            str(self._found(CONTROLLERS)),
            f"--kubeconfig={self.directory / CONTROLLERS_KUBECONFIG}",
            f"--controllers={','.join(self._controllers)}",
            f"--root-ca-file={self.ca_file}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--secure-port=0",
        ]

    def _etcd_ready(self, port: int) -> bool:
        # It is asked for its name, since on a port that somebody else was faster to take another etcd may answer.
        answer = _ask(f"http://{LOOPBACK}:{port}/v3/cluster/member/list", content=b"{}")
        return self._etcd_name.encode() in answer

    def _api_server_ready(self, port: int) -> bool:
        # The server makes its certificate when it starts, and puts the authority's after its own.
        certificates = _certificates(self.directory / "certificates" / "apiserver.crt")
        if len(certificates) < 2:
            return False
        self.ca_file.write_text(certificates[-1])
        return bool(_ask(f"https://{self._address}:{port}/readyz", self.ca_file, self.users[ADMIN].token))

    def _controllers_ready(self) -> bool:
        url = f"{self.server}/api/v1/namespaces/default/serviceaccounts/default"
        return bool(_ask(url, self.ca_file, self.users[ADMIN].token))


def _certificates(path: Path) -> list[str]:
    """The complete certificates of a file that may be missing, empty or half written."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return CERTIFICATE.findall(text)


def _ask(url: str, ca_file: Path | None = None, token: str = "", content: bytes | None = None) -> bytes:
    """What a server answers; nothing when it refuses or cannot be reached."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, content, headers)
    try:
        context = ssl.create_default_context(cafile=str(ca_file)) if ca_file else None
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(request, timeout=ANSWER_WITHIN_SECONDS) as answer:
            return bytes(answer.read(MOST_BYTES))
    except (OSError, ValueError, HTTPException):
        return b""
