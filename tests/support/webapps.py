"""One payment service, written three times: as a FastAPI, a Flask and a Django application behind the middleware."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
import fastapi
import flask
import sqlalchemy
import uvicorn
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.urls import path as django_path

from controlplane.ports import LOOPBACK, free_port
from support.waiting import wait_for
from worklease.errors import StaleEpoch
from worklease.fencing import asgi, sql, wsgi
from worklease.fencing.http import FENCE_KEY, RequestFence

LEASE = "payments/invoice-42"
TIMEOUT_SECONDS = 20.0


class Service:
    """What the applications do, whatever they are written in."""

    def __init__(self, engine: sqlalchemy.Engine) -> None:
        self.engine = engine

    def charge(self, fence: RequestFence, lease: str | None = None) -> str:
        """One charge, behind the fence, in one transaction."""
        with self.engine.begin() as connection:
            token = fence(connection, lease)
            connection.exec_driver_sql(f"INSERT INTO effect (lease, epoch) VALUES ('{token.lease}', {token.epoch})")
        return "charged"

    def swallow(self, fence: RequestFence) -> str:
        """Hides the refusal and claims success."""
        with contextlib.suppress(StaleEpoch):
            self.charge(fence)
        return "fine"


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    content_type: str
    body: Any


Headers = list[tuple[str, str]]


def send(port: int, method: str, path: str, headers: Headers) -> Answer:
    """One request with exactly these headers, repeated ones too."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=TIMEOUT_SECONDS)
    connection.putrequest(method, path)
    for name, value in headers:
        connection.putheader(name, value)
    connection.putheader("Content-Length", "0")
    connection.endheaders()
    answer = connection.getresponse()
    content_type, body = answer.headers.get_content_type(), answer.read()
    connection.close()
    return Answer(answer.status, content_type, json.loads(body) if body and "json" in content_type else body.decode())


@contextlib.contextmanager
def asgi_server(app: Any) -> Iterator[int]:
    """uvicorn on a free port."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, LOOPBACK, port, log_level="critical", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_for(lambda: server.started, "uvicorn to start")
    yield port
    server.should_exit = True
    thread.join()


@contextlib.contextmanager
def wsgi_server(app: Any) -> Iterator[int]:
    """The standard library's server on a free port."""

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = make_server(LOOPBACK, 0, app, handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def fastapi_app(service: Service, **middleware: Any) -> fastapi.FastAPI:
    """The service in FastAPI."""
    app = fastapi.FastAPI()
    app.add_middleware(asgi.FenceMiddleware, **middleware)

    def fence(request: fastapi.Request) -> RequestFence:
        found: RequestFence = request.scope[FENCE_KEY]
        return found

    needed = fastapi.Depends(fence)

    @app.post("/charge")
    def charge(fence: RequestFence = needed) -> str:
        return service.charge(fence)

    @app.post("/charge-async")
    async def charge_async(fence: RequestFence = needed) -> str:
        return service.charge(fence)

    @app.post("/charge-42")
    def charge_42(fence: RequestFence = needed) -> str:
        return service.charge(fence, LEASE)

    @app.post("/swallow")
    def swallow(fence: RequestFence = needed) -> str:
        return service.swallow(fence)

    @app.post("/own")
    def own(fence: RequestFence = needed) -> str:
        try:
            return service.charge(fence)
        except StaleEpoch as error:
            raise fastapi.HTTPException(409, "mine") from error

    @app.post("/broken")
    def broken() -> str:
        raise OSError("not a refusal")

    @app.get("/")
    def read() -> str:
        return "read"

    @app.get("/charge-by-get")
    def charge_by_get(fence: RequestFence = needed) -> str:
        return service.charge(fence)

    return app


def flask_app(service: Service, **middleware: Any) -> Callable[..., Any]:
    """The service in Flask."""
    app = flask.Flask("payments")
    app.logger.disabled = True

    def fence() -> RequestFence:
        found: RequestFence = flask.request.environ[FENCE_KEY]
        return found

    def own() -> tuple[str, int]:
        try:
            return service.charge(fence()), 200
        except StaleEpoch:
            return "mine", 409

    def broken() -> str:
        raise OSError("not a refusal")

    app.add_url_rule("/charge", "charge", lambda: service.charge(fence()), methods=["POST"])
    app.add_url_rule("/charge-42", "charge-42", lambda: service.charge(fence(), LEASE), methods=["POST"])
    app.add_url_rule("/swallow", "swallow", lambda: service.swallow(fence()), methods=["POST"])
    app.add_url_rule("/own", "own", own, methods=["POST"])
    app.add_url_rule("/broken", "broken", broken, methods=["POST"])
    app.add_url_rule("/", "read", lambda: "read")
    app.add_url_rule("/charge-by-get", "get", lambda: service.charge(fence()))
    app.wsgi_app = wsgi.FenceMiddleware(app.wsgi_app, **middleware)  # type: ignore[method-assign]
    return app


urlpatterns: list[Any] = []


def django_app(service: Service, **middleware: Any) -> Callable[..., Any]:
    """The service in Django."""
    if not settings.configured:
        settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None, SECRET_KEY="tests-only")
        django.setup()

    def fence(request: HttpRequest) -> RequestFence:
        found: RequestFence = request.META[FENCE_KEY]
        return found

    def own(request: HttpRequest) -> HttpResponse:
        try:
            return HttpResponse(service.charge(fence(request)))
        except StaleEpoch:
            return HttpResponse("mine", status=409)

    def broken(request: HttpRequest) -> HttpResponse:
        raise OSError("not a refusal")

    urlpatterns[:] = [
        django_path("charge", lambda request: HttpResponse(service.charge(fence(request)))),
        django_path("charge-42", lambda request: HttpResponse(service.charge(fence(request), LEASE))),
        django_path("swallow", lambda request: HttpResponse(service.swallow(fence(request)))),
        django_path("own", own),
        django_path("broken", broken),
        django_path("", lambda request: HttpResponse("read")),
        django_path("charge-by-get", lambda request: HttpResponse(service.charge(fence(request)))),
    ]
    return wsgi.FenceMiddleware(WSGIHandler(), **middleware)


@contextlib.contextmanager
def served(framework: str, service: Service, **middleware: Any) -> Iterator[int]:
    """The service in one of the frameworks; gives its port. By default its handlers call the fence themselves."""
    middleware = middleware or {"mark": sql.fence}
    with contextlib.ExitStack() as stack:
        if framework == "fastapi":
            yield stack.enter_context(asgi_server(fastapi_app(service, **middleware)))
        elif framework == "flask":
            yield stack.enter_context(wsgi_server(flask_app(service, **middleware)))
        else:
            yield stack.enter_context(wsgi_server(django_app(service, **middleware)))
