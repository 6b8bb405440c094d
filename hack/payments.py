"""A small payment service for the demonstration: the standard library, SQLite, the fence in the transaction.

POST /charges {"id": "...", "amount_cents": 4200} with the headers of a fencing token charges once for each id;
GET /ledger gives the charges. `python hack/payments.py --port 8080 --ledger FILE` runs it in the foreground.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from worklease.errors import EffectMismatch, FencingError, MarkUnavailable
from worklease.fencing import Token, sqlite
from worklease.fencing.http import CONTENT_TYPE, problem

MAX_BODY_BYTES: Final = 4096
MAX_AMOUNT_CENTS: Final = 10**12
BUSY_SECONDS: Final = 5.0

CHARGES: Final = """\
CREATE TABLE IF NOT EXISTS charge (
    id TEXT NOT NULL PRIMARY KEY, amount_cents INTEGER NOT NULL, lease TEXT NOT NULL, epoch INTEGER NOT NULL, claim TEXT
)"""


@dataclass(frozen=True)
class Charge:
    """One line of the ledger: what was charged, and under which tenure."""

    id: str
    amount_cents: int
    lease: str
    epoch: int
    claim: str | None


class Ledger:
    """The charges and the marks, in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._transaction() as connection:
            sqlite.install(connection)
            connection.execute(CHARGES)

    def charge(self, token: Token, charge_id: str, amount_cents: int) -> tuple[Charge, bool]:
        """Charges unless this id was charged before; gives the charge and whether it is new."""
        with self._transaction() as connection:
            sqlite.fence(connection, token)
            new = Charge(charge_id, amount_cents, token.lease, token.epoch, token.claim)
            first = connection.execute("SELECT * FROM charge WHERE id = ?", (charge_id,)).fetchone()
            if first is None:
                connection.execute(
                    "INSERT INTO charge VALUES (:id, :amount_cents, :lease, :epoch, :claim)", asdict(new)
                )
                return new, True
            before = Charge(*first)
            if (before.lease, before.amount_cents) != (token.lease, amount_cents):
                raise EffectMismatch(f"charge {charge_id} was a different one before; a new charge needs a new id")
            return before, False

    def charges(self) -> list[Charge]:
        """The whole ledger, oldest first."""
        with self._transaction() as connection:
            return [Charge(*row) for row in connection.execute("SELECT * FROM charge ORDER BY rowid")]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS)) as connection, connection:
            yield connection


@dataclass(frozen=True)
class PaymentService:
    """A running service."""

    url: str
    ledger: Ledger


@contextlib.contextmanager
def payment_service(path: Path, port: int = 0) -> Iterator[PaymentService]:
    """Runs the service on 127.0.0.1, by default on a free port, with its ledger in the file `path`."""
    ledger = Ledger(path)
    with ThreadingHTTPServer(("127.0.0.1", port), _handler(ledger)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield PaymentService(f"http://127.0.0.1:{server.server_port}", ledger)
        finally:
            server.shutdown()
            thread.join()


def _handler(ledger: Ledger) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_GET(self) -> None:
            if self.path != "/ledger":
                self._answer(404, {"title": "there is only /ledger and /charges"})
                return
            self._answer(200, [asdict(charge) for charge in ledger.charges()])

        def do_POST(self) -> None:
            try:
                charge_id, amount_cents = self._request()
            except (ValueError, KeyError, TypeError):
                self._answer(400, {"title": 'POST /charges takes {"id": TEXT, "amount_cents": INTEGER}'})
                return
            try:
                charge, new = ledger.charge(Token.from_headers(self.headers.items()), charge_id, amount_cents)
            except FencingError as error:
                status, body = problem(error)
                self._answer(status, json.loads(body), CONTENT_TYPE)
            except sqlite3.Error as error:
                status, body = problem(MarkUnavailable(str(error)))
                self._answer(status, json.loads(body), CONTENT_TYPE)
            else:
                self._answer(201 if new else 200, asdict(charge))

        def _request(self) -> tuple[str, int]:
            length = int(self.headers.get("Content-Length", ""))
            if self.path != "/charges" or not 0 < length <= MAX_BODY_BYTES:
                raise ValueError("not a charge")
            body = json.loads(self.rfile.read(length))
            charge_id, amount_cents = body["id"], body["amount_cents"]
            if type(charge_id) is not str or not 1 <= len(charge_id) <= 64 or not charge_id.isprintable():
                raise ValueError("not an id")
            if type(amount_cents) is not int or not 1 <= amount_cents <= MAX_AMOUNT_CENTS:
                raise ValueError("not an amount")
            return charge_id, amount_cents

        def _answer(self, status: int, content: Any, content_type: str = "application/json") -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """The ledger is the record."""

    return Handler


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until Ctrl-C."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--ledger", type=Path, default=Path("ledger.sqlite"))
    options = parser.parse_args(arguments)
    with payment_service(options.ledger, options.port) as service, contextlib.suppress(KeyboardInterrupt):
        print(f"listening on {service.url}, the ledger is {options.ledger}")
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
