"""The other half: a payment service that keeps the highest epoch it has seen in the transaction of the charge."""

from __future__ import annotations

import json
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from payments import PaymentService, payment_service
from worklease.fencing import Token

from .speech import begun, claim, granted, say, work_lease
from .stage import Stage

WORK = "invoice-43"
A, B = "agent-a", "agent-b"
AMOUNT_CENTS = 4200


def play(stage: Stage) -> None:
    """Plays the chapter; raises NotAsToldError when anything is not as told."""
    with tempfile.TemporaryDirectory() as directory, payment_service(Path(directory) / "ledger.sqlite") as service:
        first = _a_is_about_to_charge(stage)
        second = _b_charges(stage, service, first)
        _a_charges_late(stage, service, first, second)


def _a_is_about_to_charge(stage: Stage) -> int:
    stage.chapter(f"10. {A} claims another invoice, logs its charge, and is paused before it sends it")
    first_claim = claim(stage, A, "a-43", 0, "charge the customer")
    stage.run("create", "--filename=-", as_=A, given=work_lease(WORK, first_claim, jeopardy_seconds=0))
    epoch = granted(stage, A, WORK, "a-43")
    say(stage, A, WORK, **begun("charge-43", epoch))
    stage.run("wait", f"worklease/{WORK}", "--for=condition=Claimable", "--timeout=30s", as_=B)
    return epoch


def _b_charges(stage: Stage, service: PaymentService, first: int) -> int:
    stage.chapter(f"11. {B} goes on under a higher epoch, reconciles what {A} had begun, and charges")
    say(stage, B, WORK, claim=claim(stage, B, "b-43", first, "finish it"))
    epoch = granted(stage, B, WORK, "b-43")
    reconciliation = [
        {"op": "test", "path": "/spec/effects/0/id", "value": "charge-43"},
        {"op": "replace", "path": "/spec/effects/0/state", "value": "Failed"},
        {"op": "add", "path": "/spec/effects/0/detail", "value": "not in the ledger"},
    ]
    stage.run("patch", "worklease", WORK, "--type=json", f"--patch={json.dumps(reconciliation)}", as_=B)
    say(stage, B, WORK, **begun("charge-43b", epoch))
    status, _ = _charge(stage, service, B, epoch, "charge-43b")
    stage.expect(status == 201, f"the service has charged under epoch {epoch}, and keeps that epoch with the charge")
    return epoch


def _a_charges_late(stage: Stage, service: PaymentService, first: int, second: int) -> None:
    stage.chapter(f"12. {A} wakes up and sends its charge: nothing told it that its lease is gone")
    status, answer = _charge(stage, service, A, first, "charge-43")
    stage.expect(
        status == 412 and first < second, f"the service refuses epoch {first} after {second}: {answer['title']}"
    )
    ledger = service.ledger.charges()
    stage.expect([charge.epoch for charge in ledger] == [second], "the ledger has one charge")


def _charge(stage: Stage, service: PaymentService, who: str, epoch: int, charge_id: str) -> tuple[int, dict[str, str]]:
    """Ask the service for a charge, with the token of a tenure; its status and answer."""
    headers = Token(f"{stage.namespace}/{WORK}", epoch).to_headers()
    body = json.dumps({"id": charge_id, "amount_cents": AMOUNT_CENTS})
    stage.show(who, f"POST {service.url}/charges", "\n".join([*(f"{k}: {v}" for k, v in headers.items()), body]))
    request = urllib.request.Request(
        f"{service.url}/charges", data=body.encode(), headers={**headers, "Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as response:
            status, answer = response.status, response.read()
    except urllib.error.HTTPError as refusal:
        status, answer = refusal.code, refusal.read()
    stage.show("service", f"answers {status}", answer.decode())
    parsed: dict[str, str] = json.loads(answer)
    return status, parsed
