"""A service behind the middleware refuses with 412, 428 and 400, in FastAPI, Flask and Django alike."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import sqlalchemy

from support.markdown import written
from support.recipients import SqlAlchemyRecipient
from support.webapps import LEASE, Answer, Headers, Service, send, served
from worklease.errors import FencingError, MarkUnavailable, StaleEpoch
from worklease.fencing import Token, asgi, sql, wsgi
from worklease.fencing.http import PROBLEMS, problem, table

VECTORS = json.loads((Path(__file__).parents[2] / "docs/fencing/vectors.json").read_text())["headers"]
STATUS = {"missing": 428, "malformed": 400}
FRAMEWORKS = ["fastapi", "flask", "django"]


def headers(epoch: int, lease: str = LEASE) -> Headers:
    """The headers of a tenure."""
    return list(Token(lease, epoch).to_headers().items())


class World:
    """A running service, its requests and its ledger."""

    def __init__(self, port: int, recipient: SqlAlchemyRecipient) -> None:
        self.port = port
        self.recipient = recipient

    def send(self, path: str, with_headers: Headers, method: str = "POST") -> Answer:
        """One request."""
        return send(self.port, method, path, with_headers)

    @property
    def ledger(self) -> list[int]:
        """The epochs of the charges."""
        return [epoch for _, epoch in self.recipient.effects()]


@pytest.fixture(scope="module", params=FRAMEWORKS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The service in each framework, on SQLite."""
    path = tmp_path_factory.mktemp("payments") / "ledger.sqlite"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 20.0})
    recipient = SqlAlchemyRecipient(engine)
    with served(request.param, Service(engine)) as port:
        yield World(port, recipient)
    recipient.close()


@pytest.fixture(autouse=True)
def _empty_ledger(request: pytest.FixtureRequest) -> None:
    if "world" in request.fixturenames:
        with request.getfixturevalue("world").recipient.engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM effect")
            connection.exec_driver_sql("DELETE FROM worklease_mark")


def test_a_stale_epoch_is_412_with_both_epochs(world: World) -> None:
    """Case 37: the agent that slept is told that its lease has passed on, and the ledger keeps to its epochs."""
    assert world.send("/charge", headers(7)).status == 200
    assert world.send("/charge", headers(9)).status == 200
    answer = world.send("/charge", headers(7))
    assert (answer.status, answer.content_type) == (412, "application/problem+json")
    assert answer.body == {
        "type": "urn:worklease:problem:stale-epoch",
        "title": "The lease has passed to a later tenure",
        "status": 412,
        "detail": str(StaleEpoch(LEASE, 7, 9)),
        "lease": LEASE,
        "epoch": 7,
        "highest": 9,
    }
    assert world.ledger == [7, 9]


def test_headers_are_read_as_the_vectors_say(world: World) -> None:
    """Missing headers are 428, malformed ones 400, on a real connection too, where it can carry them."""
    for vector in VECTORS:
        if any("\n" in value or "\0" in value for _, value in vector["headers"]):
            continue
        answer = world.send("/charge", [(name, value) for name, value in vector["headers"] if name != "Host"])
        expected = STATUS.get(vector["expect"].get("error"), 200)
        assert answer.status in (expected, 412), vector["name"]
        if expected != 200:
            assert answer.status == expected, vector["name"]
            assert answer.content_type == "application/problem+json"


@pytest.mark.parametrize("value", ["\u00e9", "7\t", "\x01", "9" * 9000])
def test_an_epoch_of_odd_bytes_never_passes(world: World, value: str) -> None:
    """Whether the server or the middleware refuses it, it is 400 and there is no charge.

    White space around a value is no part of it (RFC 9110): a server takes it off, or leaves it for the middleware.
    """
    answer = world.send("/charge", [("Worklease-Lease", LEASE), ("Worklease-Epoch", value)])
    permitted = {(400, ()), (200, (7,))} if value == "7\t" else {(400, ())}
    assert (answer.status, tuple(world.ledger)) in permitted


def test_reading_needs_no_token_but_a_malformed_one_is_refused(world: World) -> None:
    """Safe methods are not protected; what is sent must still be right."""
    assert world.send("/", [], "GET").status == 200
    assert world.send("/", headers(7), "GET").status == 200
    assert world.send("/", [("Worklease-Lease", LEASE), ("Worklease-Epoch", "07")], "GET").status == 400


def test_a_handler_that_calls_the_fence_protects_any_method(world: World) -> None:
    """A GET with an effect is fenced by the call itself: 428 without a token."""
    assert world.send("/charge-by-get", [], "GET").status == 428
    assert world.send("/charge-by-get", headers(7), "GET").status == 200
    assert world.send("/charge-by-get", headers(6), "GET").status == 412


def test_a_token_for_other_work_is_403(world: World) -> None:
    """Holding some lease is not holding this one."""
    assert world.send("/charge-42", headers(99, "payments/other")).status == 403
    assert world.send("/charge-42", headers(7)).status == 200
    assert world.ledger == [7]


def test_an_application_cannot_turn_a_refusal_into_a_success(world: World) -> None:
    """The refusal is the answer even if the handler hides it; an own 4xx answer stands."""
    world.send("/charge", headers(9))
    assert world.send("/swallow", headers(7)).status == 412
    assert world.send("/own", headers(7)).status == 409
    assert world.ledger == [9]


def test_other_errors_are_left_alone(world: World) -> None:
    """What is not a refusal stays the application's 500."""
    assert world.send("/broken", headers(7)).status == 500


def test_head_has_no_body(world: World) -> None:
    """A refused HEAD is answered without a body."""
    assert world.send("/", [("Worklease-Epoch", "x"), ("Worklease-Lease", "y")], "HEAD").body == ""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_mark_at_the_door_refuses_before_the_application(framework: str, sqlite_engine: sqlalchemy.Engine) -> None:
    """With `door` a service that was not changed is fenced, in front of its transaction."""
    recipient = SqlAlchemyRecipient(sqlite_engine)

    class Unchanged(Service):
        def charge(self, fence: Any, lease: str | None = None) -> str:
            with self.engine.begin() as connection:
                connection.exec_driver_sql("INSERT INTO effect (lease, epoch) VALUES ('unknown', 0)")
            return "charged"

    with served(framework, Unchanged(sqlite_engine), door=sql.door(sqlite_engine)) as port:
        assert send(port, "POST", "/charge", headers(9)).status == 200
        assert send(port, "POST", "/charge", headers(8)).status == 412
        assert send(port, "POST", "/charge", []).status == 428
    assert len(recipient.effects()) == 1


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_store_that_fails_refuses_without_saying_why(framework: str, sqlite_engine: sqlalchemy.Engine) -> None:
    """Without the table every effect is 503, and the answer does not describe the database."""
    with served(framework, Service(sqlite_engine)) as port:
        answer = send(port, "POST", "/charge", headers(7))
    assert (answer.status, answer.content_type) == (503, "application/problem+json")
    assert "detail" not in answer.body


def test_which_requests_are_protected_is_the_services_to_say(sqlite_engine: sqlalchemy.Engine) -> None:
    """`protected` takes the method and the path."""
    SqlAlchemyRecipient(sqlite_engine)
    with served("fastapi", Service(sqlite_engine), mark=sql.fence, protected=lambda method, path: path == "/") as port:
        assert send(port, "GET", "/", []).status == 428
        assert send(port, "POST", "/broken", []).status == 500


@pytest.mark.parametrize("middleware", [asgi.FenceMiddleware, wsgi.FenceMiddleware])
def test_a_middleware_that_fences_nothing_is_found_at_the_start(middleware: Any) -> None:
    """Neither `mark` nor `door` is a mistake, not a choice."""
    with pytest.raises(TypeError, match="give `mark`"):
        middleware(lambda: None)


def test_every_refusal_has_its_problem() -> None:
    """No refusal of the library is answered as something unknown."""
    assert set(FencingError.__subclasses__()) == set(PROBLEMS)
    status, body = problem(MarkUnavailable("password=hunter2"))
    assert status == 503
    assert b"hunter2" not in body


def test_a_refusal_of_the_services_own_is_503() -> None:
    """What is not in the table is refused all the same, and without its text."""
    status, body = problem(FencingError("password=hunter2"))
    assert (status, json.loads(body)["type"]) == (503, "urn:worklease:problem:refused")
    assert b"hunter2" not in body


def test_the_table_of_refusals_in_the_documentation_is_this_one() -> None:
    """The page on HTTP has the table that the answers are made from; the page on the token names every refusal."""
    assert table() in written("docs/fencing/http.md")
    token_page = written("docs/fencing/token.md")
    assert [kind.__name__ for kind in PROBLEMS if f"`{kind.__name__}`" not in token_page] == []


def test_a_wsgi_body_that_starts_late_is_withheld_too() -> None:
    """An application that fences while its body is read is refused just the same."""

    def late(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        environ["worklease.fence"](None)
        start_response("200 OK", [])
        yield b"charged"

    def swallowing(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        try:
            environ["worklease.fence"](None)
        except StaleEpoch:
            start_response("200 OK", [])
        yield b"charged"

    def mark(transaction: Any, token: Token) -> None:
        raise StaleEpoch(token.lease, token.epoch, 9)

    environ = {"REQUEST_METHOD": "POST", "HTTP_WORKLEASE_LEASE": LEASE, "HTTP_WORKLEASE_EPOCH": "7"}
    for app in (late, swallowing):
        start_response = Mock()
        body = list(wsgi.FenceMiddleware(app, mark)(dict(environ), start_response))
        assert [call.args[0] for call in start_response.call_args_list] == ["412 Precondition Failed"], app
        assert json.loads(b"".join(body))["highest"] == 9


async def refuses(token: Token) -> None:
    """An asynchronous door for which epoch 9 has been here."""
    await asyncio.sleep(0)
    raise StaleEpoch(token.lease, token.epoch, 9)


class Refuses:
    """The same as an object, and as a method of one."""

    async def __call__(self, token: Token) -> None:
        await refuses(token)

    async def door(self, token: Token) -> None:
        await refuses(token)


ASYNCHRONOUS_DOORS: dict[str, Callable[[Token], Any]] = {
    "a function": refuses,
    "a lambda around one": lambda token: refuses(token),
    "an object": Refuses(),
    "a method": Refuses().door,
    "a partial function": functools.partial(refuses),
}


def through_asgi(app: Any, pairs: Headers, scope_type: str = "http", **middleware: Any) -> list[Any]:
    """What is sent in answer to one request, or handshake, of these headers."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": f"{scope_type}.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in pairs]
    scope = {"type": scope_type, "path": "/", "headers": raw} | ({"method": "POST"} if scope_type == "http" else {})
    asyncio.run(asgi.FenceMiddleware(app, **middleware)(scope, receive, send))
    return sent


def through_wsgi(app: Any, pairs: Headers, **middleware: Any) -> str:
    """The status line that answers one request of these headers."""
    environ = {"REQUEST_METHOD": "POST"} | {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in pairs}
    start_response = Mock()
    list(wsgi.FenceMiddleware(app, **middleware)(environ, start_response))
    status: str = start_response.call_args.args[0]
    return status


@pytest.mark.parametrize("door", ASYNCHRONOUS_DOORS.values(), ids=ASYNCHRONOUS_DOORS)
def test_an_asynchronous_door_is_awaited_whatever_its_form(door: Any) -> None:
    """Under ASGI a door that is asynchronous in any way has refused before the application runs."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        pytest.fail("the application ran")

    assert [message.get("status") for message in through_asgi(app, headers(7), door=door)] == [412, None]


@pytest.mark.parametrize("door", ASYNCHRONOUS_DOORS.values(), ids=ASYNCHRONOUS_DOORS)
def test_an_asynchronous_door_is_an_error_under_wsgi(door: Any) -> None:
    """Nobody could await it there: it must not pass for one that has let the request in."""
    with pytest.raises(TypeError, match="`door` returned a coroutine: give a synchronous one"):
        through_wsgi(lambda environ, start_response: pytest.fail("the application ran"), headers(7), door=door)


def _lazy(*_: Any) -> Iterator[None]:
    yield pytest.fail("nobody reads this")


UNDECIDED: dict[str, Callable[..., Any]] = {
    "a coroutine": lambda *given: refuses(given[-1]),
    "False": lambda *_: False,
    "a generator": _lazy,
    "a function that nobody calls": lambda *_: lambda: None,
}


@pytest.mark.parametrize("framework", ["asgi", "wsgi"])
@pytest.mark.parametrize("mark", UNDECIDED.values(), ids=UNDECIDED)
def test_a_mark_that_has_not_decided_lets_nothing_through(framework: str, mark: Any) -> None:
    """What a mark returns is not read, so whatever would have been a refusal is an error of the application."""
    charged: list[Token] = []

    async def asgi_app(scope: Any, receive: Any, send: Any) -> None:
        charged.append(scope["worklease.fence"](None))

    def wsgi_app(environ: Any, start_response: Any) -> list[bytes]:
        charged.append(environ["worklease.fence"](None))
        return []

    through: Any = {
        "asgi": functools.partial(through_asgi, asgi_app),
        "wsgi": functools.partial(through_wsgi, wsgi_app),
    }
    with pytest.raises(TypeError, match="`mark` returned"):
        through[framework](headers(7), mark=mark)
    assert charged == []


@pytest.mark.parametrize("through", [through_asgi, through_wsgi])
@pytest.mark.parametrize("door", [door for name, door in UNDECIDED.items() if name != "a coroutine"])
def test_a_door_that_has_not_decided_lets_nothing_in(through: Any, door: Any) -> None:
    """The same at the door."""
    with pytest.raises(TypeError, match=r"`door` returned .* to refuse, raise a FencingError"):
        through(lambda *_: pytest.fail("the application ran"), headers(7), door=door)


@pytest.mark.parametrize(("first", "status"), [(MarkUnavailable("locked"), 200), (StaleEpoch(LEASE, 7, 9), 412)])
def test_an_effect_that_came_about_at_the_second_try_is_answered_as_it_went(first: FencingError, status: int) -> None:
    """A store that could not answer at first has admitted in the end; an epoch that was stale once is stale."""
    mark = Mock(side_effect=[first, None])

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(2):
            with contextlib.suppress(FencingError):
                scope["worklease.fence"](None)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    assert through_asgi(app, headers(7), mark=mark)[0]["status"] == status


def test_a_websocket_needs_a_token_unless_it_is_said_not_to() -> None:
    """Its handshake is a GET, yet effects come through it; `protected` is asked for the method WEBSOCKET."""
    asked: list[tuple[str, str]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    def protected(method: str, path: str) -> bool:
        asked.append((method, path))
        return False

    def types(**middleware: Any) -> list[str]:
        mark = Mock(return_value=None)
        return [message["type"] for message in through_asgi(app, [], "websocket", mark=mark, **middleware)]

    assert types() == ["websocket.close"]
    assert types(protected=protected) == ["websocket.accept"]
    assert asked == [("WEBSOCKET", "/")]


def test_a_websocket_with_a_malformed_token_is_closed() -> None:
    """A websocket is refused before it is accepted; with a token its fence is in the scope."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["worklease.fence"].token)

    mark = Mock(return_value=None)
    malformed = [("Worklease-Lease", LEASE), ("Worklease-Epoch", "+7")]
    assert [m["type"] for m in through_asgi(app, malformed, "websocket", mark=mark)] == ["websocket.close"]
    through_asgi(app, headers(7), "websocket", mark=mark)
    assert seen == [Token(LEASE, 7)]
