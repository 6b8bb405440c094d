"""The code in the documentation runs, and does what the text around it says."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from backends import listens
from controlplane.ports import free_port
from controlplane.process import Process
from repository import REPOSITORY
from support.authorizer import environment
from support.markdown import blocks, unmarked, written
from support.waiting import wait_for
from support.webapps import Headers, asgi_server, send, wsgi_server
from worklease.fencing import Token, postgresql

PAGES = [
    "docs/fencing.md",
    *(f"docs/fencing/{path.name}" for path in sorted((REPOSITORY / "docs" / "fencing").glob("*.md"))),
]
LEASE = "payments/invoice-42"

DJANGO = """
import sys, django
from django.conf import settings
settings.configure(
    ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], SECRET_KEY="tests-only", LOGGING_CONFIG=None,
    DATABASES={{"default": {database!r}}},
)
{view}
from django.urls import path
urlpatterns = [path("charges", charge)]
{wsgi}
from wsgiref.simple_server import make_server
make_server("127.0.0.1", {port}, application).serve_forever()
"""


class Bank:
    """A recipient that keeps no mark, but knows keys."""

    def __init__(self) -> None:
        self.charges: list[int] = []
        self._answers: dict[str, str] = {}

    def charge(self, cents: int, key: str) -> str:
        """Charges once for each key."""
        if key not in self._answers:
            self.charges.append(cents)
            self._answers[key] = f"receipt {len(self.charges)}"
        return self._answers[key]

    def refund(self, cents: int) -> None:
        """The opposite."""
        self.charges.append(-cents)


@pytest.fixture(autouse=True)
def _directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def execute(page: str, *names: str, **given: Any) -> dict[str, Any]:
    """Runs blocks of a page, one after the other in one module."""
    module: dict[str, Any] = {"__name__": page, **given}
    for name in names:
        exec(compile(blocks(page)[name], f"{page}: {name}", "exec"), module)
    return module


def headers(epoch: int, lease: str = LEASE) -> Headers:
    """The headers of a tenure."""
    return list(Token(lease, epoch).to_headers().items())


def fences(port: int, path: str = "/charges") -> None:
    """Asserts that the service at this port refuses what it should."""
    assert send(port, "POST", path, headers(7)).status == 200
    assert send(port, "POST", path, headers(9)).status == 200
    assert send(port, "POST", path, headers(7)).status == 412
    assert send(port, "POST", path, []).status == 428
    assert send(port, "POST", path, [("Worklease-Lease", LEASE), ("Worklease-Epoch", "09")]).status == 400


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_code_is_one_that_runs(page: str) -> None:
    """No example is there that nothing tries."""
    assert unmarked(page) == []


def test_the_blocks_of_every_page_are_run_here() -> None:
    """A block that is marked is known to a test."""
    here = Path(__file__).read_text() + (Path(__file__).parents[1] / "cluster/test_object_fence_docs.py").read_text()
    here += (Path(__file__).parent / "test_authorizer.py").read_text()
    assert [name for page in PAGES for name in blocks(page) if f'"{name}"' not in here] == []


def test_five_minutes_for_sql(postgres: str) -> None:
    """The first example of all, against PostgreSQL."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(postgresql.script().encode())
        connection.execute("CREATE TABLE charge (invoice text, cents int)")
        connection.execute(blocks("docs/fencing.md")["sql"].encode())
        assert connection.execute("SELECT invoice, cents FROM charge").fetchall() == [("invoice-42", 4200)]
        assert connection.execute("SELECT lease, epoch FROM worklease_mark").fetchall() == [(LEASE, 1482)]


def test_five_minutes_for_python_and_http() -> None:
    """SQLAlchemy and FastAPI, one building on the other."""
    module = execute("docs/fencing.md", "sqlalchemy", "fastapi")
    with asgi_server(module["app"]) as port:
        assert send(port, "POST", "/charges/invoice-42", headers(9)).status == 200
        assert send(port, "POST", "/charges/invoice-42", headers(8)).body["highest"] == 9
        assert send(port, "POST", "/charges/invoice-43", headers(9)).status == 403
        assert send(port, "POST", "/charges/invoice-42", []).status == 428


@pytest.mark.parametrize("page", ["docs/fencing.md", "docs/fencing/redis.md"])
def test_redis_pages(page: str, redis_server: str, redis_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples against a real Redis, the line of the wire protocol included."""
    code = blocks(page)["redis"].replace("/run/redis/redis.sock", redis_server)
    exec(compile(code, page, "exec"), {})
    assert redis_client.get("account:7") == b"-4200"


def test_five_minutes_for_a_proxy(tmp_path: Path) -> None:
    """The command line starts the authorizer."""
    port = free_port()
    words = shlex.split(
        blocks("docs/fencing.md")["proxy"].replace("/var/lib/worklease", str(tmp_path)).replace("9412", str(port))
    )
    assert words[0] == "worklease-fence"
    process = Process(
        "fence", [sys.executable, "-m", "worklease.fencing.authorizer.command", *words[1:]], tmp_path / "log"
    )
    wait_for(lambda: process.exit_code is not None or listens(port), "the authorizer")
    assert send(port, "GET", "/readyz", []).status == 200
    process.stop(10)


def test_the_token_page() -> None:
    """The forms of the token."""
    execute("docs/fencing/token.md", "token")


def test_the_sql_page_in_sql(postgres: str) -> None:
    """GRANT, the two ways to call the function, the refusal, the trigger."""
    page = {name: code.encode() for name, code in blocks("docs/fencing/sql.md").items()}
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(postgresql.script().encode())
        connection.execute("CREATE TABLE charge (lease text, cents int)")
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'payment_service'").fetchone():
            connection.execute("CREATE ROLE payment_service")
        connection.execute(page["grant"])
        connection.execute(page["charge"])
        connection.execute(page["charge-joined"])
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(page["stale"])
        assert caught.value.sqlstate == "WL412"
        connection.execute(page["trigger"])
        connection.execute(page["trigger-write"])
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("INSERT INTO charge VALUES (%s, 1)", (LEASE,))
        assert caught.value.sqlstate == "WL428"
        assert connection.execute("SELECT cents FROM charge").fetchall() == [(4200,), (4200,), (100,)]
        connection.execute("DROP OWNED BY payment_service")


def test_the_sql_page_in_python() -> None:
    """SQLAlchemy, sqlite3 and idempotency."""
    execute("docs/fencing/sql.md", "sqlalchemy", "sqlite3", "idempotency")["engine"].dispose()


def test_the_http_page_in_fastapi() -> None:
    """The FastAPI example, served."""
    with asgi_server(execute("docs/fencing/http.md", "fastapi")["app"]) as port:
        fences(port)


def test_the_http_page_in_flask() -> None:
    """The Flask example, served."""
    with wsgi_server(execute("docs/fencing/http.md", "flask")["app"]) as port:
        fences(port)


def test_the_http_page_in_django(postgres: str, tmp_path: Path) -> None:
    """The Django example, served by a process with a project of its own, on PostgreSQL."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(postgresql.script().encode())
        connection.execute("CREATE TABLE charge (lease text, cents int)")
    page = blocks("docs/fencing/http.md")
    host, _, name = (part.split("=")[1] for part in postgres.split())
    port = free_port()
    database = {"ENGINE": "django.db.backends.postgresql", "HOST": host, "USER": "admin", "NAME": name}
    program = DJANGO.format(database=database, port=port, view=page["django-view"], wsgi=page["django-wsgi"])
    (tmp_path / "project.py").write_text(program)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "project.py"], env=environment(), stderr=log, stdout=log)
    try:
        wait_for(lambda: process.poll() is not None or listens(port), "Django to start")
        assert process.poll() is None, (tmp_path / "log").read_text()
        fences(port)
    finally:
        process.kill()
        process.wait()


def test_the_http_page_at_the_door() -> None:
    """The door's example, served."""
    with asgi_server(execute("docs/fencing/http.md", "door")["app"]) as port:
        fences(port)


def test_the_http_page_for_senders() -> None:
    """A request that carries the token."""
    request = execute("docs/fencing/http.md", "sender")["request"]
    assert Token.from_headers(request.header_items()) == Token(LEASE, 1482, "c-1")


def test_the_live_page() -> None:
    """The valve opens for the holder and for nobody else."""
    held = {"status": {"phase": "Held", "epoch": 9}, "spec": {}}
    open_valve = execute("docs/fencing/live.md", "verify", read=lambda namespace, name: held)["open_valve"]
    assert open_valve(LEASE, 9) == "opened"
    assert open_valve(LEASE, 7) == "refused: the epoch of the lease is 9"


@pytest.mark.parametrize("name", ["idempotency-key", "ownership", "compensation", "review"])
def test_when_nothing_can_be_changed(name: str) -> None:
    """Each of the four examples shows what it says."""
    module = execute("docs/fencing/unchanged.md", name, bank=Bank())
    if "database" in module:
        module["database"].close()


def test_the_documented_path_of_the_script_is_right() -> None:
    """The command that applies the script finds it."""
    line = next(line for line in written("docs/fencing/sql.md").splitlines() if "--file" in line)
    code = line.split("-c '")[1].split("')")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert os.path.isfile(f"{done.stdout.strip()}/postgresql.sql")
