"""worklease-fence as a process: over HTTP and gRPC, with marks that outlive it, behind real nginx and Envoy."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
import yaml

import backends
from controlplane.ports import LOOPBACK, free_port
from controlplane.process import Process
from support.authorizer import Authorizer, Upstream, authorizer, command, environment, upstream
from support.availability import required
from support.markdown import blocks
from support.waiting import wait_for
from support.webapps import Headers, send
from worklease import __version__
from worklease.fencing import Token
from worklease.fencing.authorizer import command as fence_command
from worklease.fencing.authorizer.ext_authz import SERVICE, messages
from worklease.fencing.authorizer.stores import open_store

LEASE = "payments/invoice-42"
VECTORS = json.loads((Path(__file__).parents[2] / "docs/fencing/vectors.json").read_text())["headers"]
STATUS = {"missing": 428, "malformed": 400}


def headers(epoch: int, lease: str = LEASE) -> Headers:
    """The headers of a tenure."""
    return list(Token(lease, epoch).to_headers().items())


def check_over_grpc(port: int, pairs: Headers, raw: bool = False) -> tuple[int, Any]:
    """Envoy's question, asked by a grpcio client: the HTTP status that the client would see, and the problem."""
    http: dict[str, Any]
    if raw:
        http = {"header_map": {"headers": [{"key": k, "raw_value": v.encode()} for k, v in pairs]}}
    else:
        http = {"headers": [{"key": name.lower(), "value": value} for name, value in pairs]}
    request = messages["CheckRequest"](attributes={"request": {"http": http}})
    with grpc.insecure_channel(f"{LOOPBACK}:{port}") as channel:
        ask = channel.unary_unary(
            f"/{SERVICE}/Check",
            request_serializer=messages["CheckRequest"].SerializeToString,
            response_deserializer=messages["CheckResponse"].FromString,
        )
        answer = ask(request, timeout=20)
    if answer.HasField("ok_response"):
        assert answer.status.code == 0
        return 200, None
    assert answer.status.code == 7
    return answer.denied_response.status.code, json.loads(answer.denied_response.body)


@pytest.fixture(scope="module")
def fence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authorizer]:
    """One authorizer with a file of its own."""
    directory = tmp_path_factory.mktemp("fence")
    with authorizer(f"sqlite:{directory}/marks.sqlite", directory) as running:
        yield running


def test_headers_are_read_as_the_vectors_say(fence: Authorizer) -> None:
    """Over HTTP, for nginx, and over gRPC in both of its shapes."""
    for vector in VECTORS:
        pairs = [(name, value) for name, value in vector["headers"] if name != "Host"]
        expected = STATUS.get(vector["expect"].get("error"), 200)
        for path in ("/check", "/check/anything/below"):
            answer = send(fence.http_port, "POST", path, pairs)
            assert answer.status == expected or (expected, answer.status) == (200, 412), vector["name"]
        answer = send(fence.http_port, "GET", "/nginx", pairs)
        assert answer.status in ((204, 403) if expected == 200 else (403,)), vector["name"]
        if not vector["name"].endswith(("twice", "same", "case")):  # A map has no repeated keys.
            assert check_over_grpc(fence.grpc_port, pairs)[0] in (expected, 412), vector["name"]
        assert check_over_grpc(fence.grpc_port, pairs, raw=True)[0] in (expected, 412), vector["name"]


def test_http_and_grpc_share_the_marks(fence: Authorizer) -> None:
    """An epoch that came in one way shuts out lower ones the other way."""
    lease = "payments/both-ways"
    assert send(fence.http_port, "POST", "/check", headers(7, lease)).status == 200
    assert check_over_grpc(fence.grpc_port, headers(9, lease)) == (200, None)
    answer = send(fence.http_port, "POST", "/check", headers(7, lease))
    assert (answer.status, answer.content_type, answer.body["highest"]) == (412, "application/problem+json", 9)
    status, problem = check_over_grpc(fence.grpc_port, headers(8, lease))
    assert (status, problem["epoch"], problem["highest"]) == (412, 8, 9)


def test_a_probe_admits_no_effect(fence: Authorizer) -> None:
    """A proxy that asks under its own paths is not told "allowed" by /healthz and /readyz."""
    for path in ("/healthz", "/readyz"):
        assert send(fence.http_port, "GET", path, []).status == 200
        assert send(fence.http_port, "POST", path, []).status == 404


def test_marks_outlive_a_killed_process(tmp_path: Path) -> None:
    """Whatever was allowed before SIGKILL is still a mark afterwards."""
    store = f"sqlite:{tmp_path}/marks.sqlite"
    with authorizer(store, tmp_path) as first:
        for epoch in range(1, 30):
            assert send(first.http_port, "POST", "/check", headers(epoch)).status == 200
        first.process.kill()
    with authorizer(store, tmp_path) as second:
        assert send(second.http_port, "POST", "/check", headers(28)).body["highest"] == 29
        assert send(second.http_port, "POST", "/check", headers(29)).status == 200
        second.process.send(signal.SIGTERM)
        wait_for(lambda: second.process.exit_code is not None, "the authorizer to stop")
        assert second.process.exit_code == 0


def test_replicas_share_marks_in_postgresql(postgres: str, tmp_path: Path) -> None:
    """Two processes on one database refuse what the other has let in a newer epoch for, and 503 when it is gone."""
    host, user, database = (part.split("=")[1] for part in postgres.split())
    store = f"postgresql://{user}@/{database}?host={host}"
    with authorizer(store, tmp_path) as first, authorizer(store, tmp_path) as second:
        assert send(first.http_port, "POST", "/check", headers(7)).status == 200
        assert send(second.http_port, "POST", "/check", headers(9)).status == 200
        assert send(first.http_port, "POST", "/check", headers(7)).status == 412
        with psycopg.connect(postgres, autocommit=True) as administrator:
            administrator.execute("ALTER TABLE worklease_mark RENAME TO elsewhere")
            answer = send(first.http_port, "POST", "/check", headers(10))
            assert (answer.status, answer.body.get("detail")) == (503, None)
            assert send(first.http_port, "GET", "/readyz", []).status == 503
            administrator.execute("ALTER TABLE elsewhere RENAME TO worklease_mark")
        assert send(first.http_port, "GET", "/readyz", []).status == 200
        assert send(first.http_port, "POST", "/check", headers(8)).status == 412
        assert send(first.http_port, "POST", "/check", headers(10)).status == 200


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        ([], 2, "say where the marks are kept"),
        (["--store", "sqlite:{tmp}/x", "--http", "nonsense"], 2, "HOST:PORT"),
        (["--store", "sqlite:{tmp}/x", "--http", "::1:0"], 2, "--http: an address is HOST:PORT"),
        (["--store", "sqlite:{tmp}/x", "--grpc", "nonsense"], 2, "--grpc: an address is HOST:PORT"),
        (["--store", "sqlite:{tmp}/x", "--grpc", "127.0.0.1:65536"], 2, "--grpc: an address is HOST:PORT"),
        (["--store", "redis://x"], 3, "sqlite:PATH or postgresql://"),
        (["--store", "postgresql://nobody@127.0.0.1:1/x?connect_timeout=1"], 3, "could not be reached"),
        (["--store", "sqlite:{owned}"], 3, "open in another process"),
        (["--store", "sqlite:{tmp}/y", "--http", "127.0.0.1:{taken}"], 4, "cannot listen"),
        (
            ["--store", "sqlite:{tmp}/z", "--http", "127.0.0.1:{free}", "--grpc", "127.0.0.1:{taken}"],
            4,
            "cannot listen",
        ),
    ],
)
def test_it_does_not_start_on_a_mistake(
    fence: Authorizer, tmp_path: Path, arguments: list[str], exit_code: int, words: str
) -> None:
    """Each mistake has its exit code and one line that says what to do."""
    owned = fence.process.command[fence.process.command.index("--store") + 1].removeprefix("sqlite:")
    values = {"tmp": tmp_path, "owned": owned, "taken": fence.http_port, "free": free_port()}
    done = subprocess.run(
        [*command("", 0, 0)[:3], *(argument.format(**values) for argument in arguments)],
        capture_output=True, text=True, timeout=60, check=False, env=environment(),
    )  # fmt: skip
    assert done.returncode == exit_code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    if exit_code == 2:
        assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("uvicorn", []),
        ("grpc", ["--grpc", "127.0.0.1:0"]),
        ("google.protobuf", ["--grpc", "127.0.0.1:0"]),
        ("psycopg", ["--store", "postgresql://nobody@127.0.0.1:1/x"]),
    ],
)
def test_without_its_extra_it_says_what_to_install(module: str, arguments: list[str], tmp_path: Path) -> None:
    """One line and exit code 2, before a store is made; what is not used need not be there."""
    given = ["--store", f"sqlite:{tmp_path}/marks.sqlite", *arguments]
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"from worklease.fencing.authorizer.command import main; sys.exit(main({given!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, env=environment()
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"worklease-fence: {module} is missing: pip install 'worklease[fence]'\n"
    assert list(tmp_path.iterdir()) == []


def test_it_tells_its_version() -> None:
    """As the other commands do."""
    done = subprocess.run([*command("", 0, 0)[:3], "--version"], capture_output=True, text=True, timeout=60, check=True,
                          env=environment())  # fmt: skip
    assert done.stdout == f"worklease-fence {__version__}\n"


@pytest.mark.parametrize("host", ["[::1]", "", "127.0.0.1"], ids=["IPv6", "everywhere", "IPv4"])
def test_it_listens_on_either_family(host: str, tmp_path: Path) -> None:
    """An IPv6 address is in brackets; without a host it is reached over both, also by gRPC."""
    ports = free_port(), free_port()
    process = Process(
        "worklease-fence",
        [*command(f"sqlite:{tmp_path}/marks.sqlite", 0, 0)[:5],
         "--http", f"{host}:{ports[0]}", "--grpc", f"{host}:{ports[1]}"],
        tmp_path / "log",
    )  # fmt: skip
    reached = {"[::1]": ("::1",), "": ("127.0.0.1", "::1"), "127.0.0.1": ("127.0.0.1",)}[host]
    everything = [(peer, port) for peer in reached for port in ports]
    try:
        wait_for(lambda: process.exit_code is not None or all(connects(*one) for one in everything), "worklease-fence")
        assert process.exit_code is None, process.last_lines()
        assert f"listening on {host or '[::]'}:{ports[0]}, for gRPC {host}:{ports[1]}" in (tmp_path / "log").read_text()
    finally:
        process.stop(10)


def connects(host: str, port: int) -> bool:
    """Whether something listens there."""
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True


def test_a_defect_is_not_reported_as_a_taken_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong while HTTP is served leaves with its own name."""

    class Broken:
        async def serve(self, sockets: list[socket.socket]) -> None:
            raise RuntimeError("a defect")

    monkeypatch.setattr(fence_command, "_http_server", lambda checker: Broken())
    with socket.create_server((LOOPBACK, 0)) as listening, pytest.raises(RuntimeError, match="a defect"):
        asyncio.run(fence_command._serve(open_store(f"sqlite:{tmp_path}/marks.sqlite"), listening, None))


@pytest.fixture(scope="module")
def service() -> Iterator[Upstream]:
    """What stands behind the proxy."""
    with upstream() as running:
        yield running


def with_ports(configuration: str, fence: Authorizer, service: Upstream) -> str:
    """A configuration of the documentation, with the ports of this test."""
    for documented, ours in (("9412", fence.http_port), ("9413", fence.grpc_port), ("8080", service.port)):
        configuration = configuration.replace(documented, str(ours))
    return configuration.replace("8000", "{port}")


@pytest.fixture(scope="module", params=["nginx", "envoy-http", "envoy-grpc"])
def proxy(request: pytest.FixtureRequest, fence: Authorizer, service: Upstream) -> Iterator[int]:
    """A real proxy with the documented configuration; gives its port."""
    page = blocks("docs/fencing/proxies.md")
    with required():
        if request.param == "nginx":
            running = backends.nginx(with_ports(page["nginx"], fence, service))
        else:
            configuration = yaml.safe_load(page["envoy-http"])
            if request.param == "envoy-grpc":
                (listener,) = configuration["static_resources"]["listeners"]
                (filters,) = listener["filter_chains"][0]["filters"]
                filters["typed_config"]["http_filters"][0]["typed_config"] = yaml.safe_load(page["envoy-grpc-filter"])
                configuration["static_resources"]["clusters"][1] = yaml.safe_load(page["envoy-grpc-cluster"])
            running = backends.envoy(with_ports(yaml.safe_dump(configuration), fence, service))
        with running as port:
            yield port


def test_a_proxy_keeps_stale_requests_from_a_service_that_was_not_changed(proxy: int, service: Upstream) -> None:
    """Through the proxy a stale epoch is 412 with its problem, and the service never sees it."""
    lease = f"payments/proxy-{proxy}"
    before = len(service.received)
    assert send(proxy, "POST", "/charges", headers(7, lease)).status == 200
    assert send(proxy, "POST", "/charges", headers(9, lease)).status == 200
    answer = send(proxy, "POST", "/charges", headers(7, lease))
    assert (answer.status, answer.content_type) == (412, "application/problem+json")
    assert answer.body["type"] == "urn:worklease:problem:stale-epoch"
    assert "epoch 9 has been here" in answer.body["detail"]
    assert len(service.received) == before + 2


def test_a_proxy_refuses_what_is_no_token(proxy: int, service: Upstream) -> None:
    """Missing headers are 428; repeated, joined and malformed ones 400; none reaches the service."""
    before = len(service.received)
    for vector in VECTORS:
        expected = STATUS.get(vector["expect"].get("error"))
        if expected:
            assert send(proxy, "POST", "/charges", vector["headers"]).status == expected, vector["name"]
    for epoch in ("\u00e9", "7\x01", "9" * 7000):
        assert send(proxy, "POST", "/charges", [("Worklease-Lease", LEASE), ("Worklease-Epoch", epoch)]).status >= 400
    assert len(service.received) == before


def test_a_proxy_without_its_authorizer_lets_nothing_through(service: Upstream, tmp_path: Path) -> None:
    """When the authorizer is gone the service sees nothing."""
    page = blocks("docs/fencing/proxies.md")
    gone = Authorizer(None, free_port(), free_port())  # type: ignore[arg-type]
    before = len(service.received)
    with required():
        for running in (
            backends.nginx(with_ports(page["nginx"], gone, service)),
            backends.envoy(with_ports(page["envoy-http"], gone, service)),
        ):
            with running as port:
                assert send(port, "POST", "/charges", headers(7)).status in (500, 503)
    assert len(service.received) == before
