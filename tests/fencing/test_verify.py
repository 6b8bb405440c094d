"""The live check's rule, and that everything unknown is a refusal."""

from __future__ import annotations

import socket
from collections.abc import Mapping
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
