"""The live check's rule, and that everything unknown is a refusal."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import certifi
import pytest

from support.webapps import wsgi_server
from worklease.errors import MalformedToken, MarkUnavailable, NoStanding
from worklease.fencing import standing, verify
from worklease.fencing.live import ApiServer

LEASE = "payments/invoice-42"
HELD = {"epoch": 7, "phase": "Held"}


@pytest.mark.parametrize(
    ("status", "spec", "reason"),
    [
        (HELD, {}, None),
        (HELD, {"release": {"epoch": 5}, "revocation": {"epoch": 6}, "completion": {"epoch": 3}}, None),
        (HELD, {"release": {"epoch": 7}}, "it is released"),
        (HELD, {"revocation": {"epoch": 7}}, "it is revoked"),
        (HELD, {"completion": {"epoch": 7}}, "its work is completed"),
        (HELD | {"successor": {"handoff": "h"}}, {}, "a handoff has taken effect"),
        (HELD | {"epoch": 9}, {}, "the epoch of the lease is 9"),
        (HELD | {"epoch": 6}, {}, "the epoch of the lease is 6"),
        ({"epoch": 7, "phase": "Jeopardy"}, {}, "the lease is Jeopardy"),
        ({"epoch": 7, "phase": "Expired"}, {}, "the lease is Expired"),
        ({"epoch": 7}, {}, "the lease is Available"),
        ({}, {}, "the epoch of the lease is 0"),
        (None, None, "the epoch of the lease is 0"),
    ],
)
def test_standing_is_what_admits_an_effect(status: Any, spec: Any, reason: str | None) -> None:
    """Held, at this epoch, its end not stated, not handed over: anything else is NoStanding with its reason."""
    worklease = {"status": status, "spec": spec}
    if reason is None:
        standing(worklease, LEASE, 7)
        verify(LEASE, 7, read=lambda namespace, name: worklease)
        return
    with pytest.raises(NoStanding, match=f"epoch 7 has no standing for {LEASE}: {reason}"):
        verify(LEASE, 7, read=lambda namespace, name: worklease)


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        {"kind": "Status", "status": "Failure"},
        {"kind": "Handoff", "status": HELD},
        {"metadata": {"namespace": "payments", "name": "invoice-43"}, "status": HELD},
        {"metadata": {"namespace": "other", "name": "invoice-42"}, "status": HELD},
        {"metadata": ["invoice-42"], "status": HELD},
        {"status": "Held"},
        {"status": [7]},
        {"status": HELD, "spec": "none"},
        {"status": HELD, "spec": {"release": "7"}},
    ],
)
def test_what_is_not_the_leases_object_gives_no_standing(given: Any) -> None:
    """Another object, or something that is no WorkLease, says nothing about this epoch."""
    with pytest.raises(MarkUnavailable):
        verify(LEASE, 7, read=lambda namespace, name: given)


@pytest.mark.parametrize(("lease", "epoch"), [(LEASE, 7.0), (LEASE, True), (LEASE, "7"), (LEASE, 0), ("invoice-42", 1)])
def test_the_rule_alone_refuses_what_is_no_token(lease: Any, epoch: Any) -> None:
    """Python takes 7.0 for 7 and True for 1; a recipient does not."""
    held = {"status": {"phase": "Held", "epoch": int(epoch)}}
    with pytest.raises(MalformedToken):
        standing(held, lease, epoch)


def test_the_lease_names_what_is_read() -> None:
    """Namespace and name go to the reader; a lease of another cluster needs a reader of its own."""
    asked: list[tuple[str, str]] = []

    def read(namespace: str, name: str) -> Mapping[str, Any]:
        asked.append((namespace, name))
        return {"status": HELD}

    verify(LEASE, 7, read)
    verify(f"eu-1/{LEASE}", 7, read)
    assert asked == [("payments", "invoice-42")] * 2
    with pytest.raises(MalformedToken, match="cluster eu-1"):
        verify(f"eu-1/{LEASE}", 7)


@pytest.mark.parametrize(
    ("lease", "epoch"), [("invoice-42", 7), ("a/b", 0), ("../x", 7), ("a/b?x=1", 7), ("a/b", True)]
)
def test_bad_input_is_refused_before_anything_is_asked(lease: str, epoch: Any) -> None:
    """What is no token never reaches a URL."""
    with pytest.raises(MalformedToken):
        verify(lease, epoch, read=lambda namespace, name: pytest.fail("asked"))


def test_outside_of_a_pod_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cluster around it the check refuses."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(MarkUnavailable, match="give verify\\(\\) a `read`"):
        verify(LEASE, 7)


def test_a_server_that_is_not_the_api_server_is_not_believed(tmp_path: Path) -> None:
    """A peer without the cluster's certificate, one that is gone, a token that is missing: nothing is known."""
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("")

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b'{"status": {"epoch": 7, "phase": "Held"}}']

    with wsgi_server(app) as port:
        for url, token in (
            (f"https://127.0.0.1:{port}", "token"),
            ("https://127.0.0.1:1", "token"),
            (f"https://127.0.0.1:{port}", "missing"),
        ):
            reader = ApiServer(url, tmp_path / "ca.crt", tmp_path / token, timeout_seconds=0.5)
            with pytest.raises(MarkUnavailable, match="could not be asked"):
                verify(LEASE, 7, reader.read)


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """Case 6: the check has a bound, and its end is a refusal."""
    (tmp_path / "token").write_text("t")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        reader = ApiServer(url, Path(certifi.where()), tmp_path / "token", timeout_seconds=0.2)
        with pytest.raises(MarkUnavailable, match="TimeoutError"):
            verify(LEASE, 7, reader.read)


ANSWER = b'{"status": {"epoch": 7, "phase": "Held"}}'
OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


@contextlib.contextmanager
def answering(*parts: bytes, pause_seconds: float = 0.0) -> Iterator[tuple[int, list[bytes]]]:
    """A server whose answer to every request are these bytes; gives its port and what it was asked."""
    received: list[bytes] = []
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                peer, _ = listening.accept()
            except TimeoutError:
                continue
            with peer, contextlib.suppress(OSError):
                received.append(peer.recv(65536))
                for part in parts:
                    peer.sendall(part)
                    over.wait(pause_seconds)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.02)
        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1], received
        over.set()
        thread.join()


def reader(port: int, directory: Path, timeout_seconds: float = 20.0) -> ApiServer:
    """A reader of the server at this port, with a token."""
    (directory / "token").write_text("the-token")
    return ApiServer(f"http://127.0.0.1:{port}", Path(certifi.where()), directory / "token", timeout_seconds)


def test_an_answer_is_read(tmp_path: Path) -> None:
    """The server of the tests below is believed when it answers as the API server does."""
    with answering(OK, b"\r\n", ANSWER) as (port, received):
        verify(LEASE, 7, reader(port, tmp_path).read)
    assert b"Authorization: Bearer the-token\r\n" in received[0]


@pytest.mark.parametrize(
    "parts",
    [
        [b"nonsense\r\n\r\n"],
        [b""],
        [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", ANSWER],
        [OK, b"Transfer-Encoding: chunked\r\n\r\n", b"400\r\n", ANSWER],
        [OK, b"Content-Length: 4096\r\n\r\n", ANSWER[:-2]],
        [OK, b"\r\n", b"[" * 100000],
        [OK, b"\r\n", b"[7]"],
        [b"HTTP/1.1 203 From A Cache\r\n\r\n", ANSWER],
        [b"HTTP/1.1 503 Unavailable\r\n\r\n", ANSWER],
    ],
    ids=["no status line", "no byte", "headers without end", "half a chunk", "half a body", "brackets", "a list", "203",
         "503"],
)  # fmt: skip
def test_an_answer_that_is_none_is_a_refusal(tmp_path: Path, parts: list[bytes]) -> None:
    """However the answer is broken, what is raised is a refusal of the library."""
    with answering(*parts) as (port, _), pytest.raises(MarkUnavailable):
        verify(LEASE, 7, reader(port, tmp_path).read)


def test_an_answer_that_takes_too_long_is_not_believed(tmp_path: Path) -> None:
    """The bound is on the whole answer: one that trickles in was true when it began."""
    parts = [OK, b"\r\n", *(ANSWER[at : at + 1] for at in range(len(ANSWER)))]
    with answering(*parts, pause_seconds=0.05) as (port, _), pytest.raises(MarkUnavailable, match="TimeoutError"):
        verify(LEASE, 7, reader(port, tmp_path, timeout_seconds=0.5).read)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nobody_else_is_given_the_token_or_believed(tmp_path: Path, status: int) -> None:
    """A redirect is an answer that the API server does not give: it is not followed."""
    with answering(OK, b"\r\n", ANSWER) as (elsewhere, received):
        moved = f"HTTP/1.1 {status} Moved\r\nLocation: http://127.0.0.1:{elsewhere}/\r\n\r\n".encode()
        with answering(moved) as (port, _), pytest.raises(MarkUnavailable, match=f"answered {status}"):
            verify(LEASE, 7, reader(port, tmp_path).read)
    assert received == []


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY"])
def test_a_proxy_of_the_environment_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Who sets a variable for other traffic does not come between the recipient and the API server."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with answering(OK, b"\r\n", ANSWER) as (proxy, received), answering(b"HTTP/1.1 404 No\r\n\r\n") as (port, _):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy}")
        with pytest.raises(NoStanding, match="the epoch of the lease is 0"):
            verify(LEASE, 7, reader(port, tmp_path).read)
    assert received == []
