"""The demonstration's payment service: the agent that slept gets 412, and the ledger shows one charge."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from payments import PaymentService, payment_service
from worklease.fencing import Token

LEASE = "payments/invoice-42"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[PaymentService]:
    """The service with an empty ledger."""
    with payment_service(tmp_path / "ledger.sqlite") as service:
        yield service


def post(service: PaymentService, body: Any, headers: dict[str, str], path: str = "/charges") -> tuple[int, Any]:
    """One request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(service.url + path, content, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def charge(service: PaymentService, epoch: int, charge_id: str = "invoice-42", cents: int = 4200) -> tuple[int, Any]:
    """A charge by a tenure."""
    return post(service, {"id": charge_id, "amount_cents": cents}, Token(LEASE, epoch, f"c-{epoch}").to_headers())


def test_the_agent_that_slept_is_refused_and_there_is_one_charge(service: PaymentService) -> None:
    """Case 1: the first tenure charges nothing before it sleeps, its successor charges, and waking is too late."""
    assert charge(service, 9)[0] == 201
    status, problem = charge(service, 7)
    assert (status, problem["epoch"], problem["highest"]) == (412, 7, 9)
    assert [(entry.id, entry.epoch, entry.claim) for entry in service.ledger.charges()] == [("invoice-42", 9, "c-9")]
    with urllib.request.urlopen(f"{service.url}/ledger", timeout=20) as answer:
        assert [entry["epoch"] for entry in json.loads(answer.read())] == [9]


def test_a_successor_that_sends_the_charge_again_gets_the_first_answer(service: PaymentService) -> None:
    """Case 29: the charge whose answer was lost is charged once."""
    assert charge(service, 7)[0] == 201
    status, first = charge(service, 9)
    assert (status, first["epoch"]) == (200, 7)
    assert charge(service, 9, cents=1)[0] == 422
    assert len(service.ledger.charges()) == 1


def test_bad_requests_charge_nothing(service: PaymentService) -> None:
    """Without a token 428, with a malformed one 400, with no charge in it 400."""
    good = {"id": "x", "amount_cents": 1}
    headers = Token(LEASE, 7).to_headers()
    assert post(service, good, {})[0] == 428
    assert post(service, good, headers | {"Worklease-Epoch": "07"})[0] == 400
    for body in (b"", b"[]", b"{", {"id": "x"}, {"id": "x", "amount_cents": True}, {"id": "", "amount_cents": 1},
                 {"id": "x", "amount_cents": -1}, {"id": "x\0", "amount_cents": 1}, b"x" * 5000):  # fmt: skip
        assert post(service, body, headers)[0] == 400, body
    assert post(service, good, headers, "/refunds")[0] == 400
    assert service.ledger.charges() == []
