"""Who calls over HTTP: each by the bearer token of its own request, which the API server itself recognises.

The server has no credentials of its own: it knows where the API server is, and by which CA.
"""

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError
from starlette.requests import HTTPConnection

from worklease.client.client import USER_AGENT
from worklease.client.identity import Identity, identity_of, reviewed
from worklease.errors import ApiError, Forbidden, Refused, Unauthenticated
from worklease.kube.credentials import Credentials, Source
from worklease.kube.library import Configuration
from worklease.kube.session import Session
from worklease.mcp.strangers import Strangers

KNOWN_FOR_SECONDS = 60.0
KNOWN_MAX = 1024
TOKEN_MAX = 16384
ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where it is."""

    address: str
    certificate_authority: Path | None


class CallerCredentials(Credentials):
    """The token of a caller's latest request. There is nothing to read again when it is refused."""

    def __init__(self, server: ApiServer, token: str, namespace: str = "default") -> None:
        configuration = Configuration(host=server.address)
        configuration.ssl_ca_cert = str(server.certificate_authority) if server.certificate_authority else None
        super().__init__(configuration, namespace, Source())
        self.token = token

    async def authorization(self) -> str | None:
        return f"Bearer {self.token}"

    async def renew(self, refused: str | None) -> None:
        """The caller's next request brings another token, or does not."""


def namespace_of(username: str) -> str:
    """That of a ServiceAccount; `default` for everybody else."""
    return username.removeprefix(ACCOUNT).split(":")[0] if username.startswith(ACCOUNT) else "default"


def session_of(server: ApiServer, token: str, username: str = "") -> tuple[Session, CallerCredentials]:
    """A way to the API server as this caller."""
    credentials = CallerCredentials(server, token, namespace_of(username))
    return Session(credentials, user_agent=USER_AGENT), credentials


@dataclass(frozen=True, slots=True)
class Caller:
    """Who has a token. `groups` tells tokens of one username apart that may do different things."""

    identity: Identity
    groups: str


class Callers(AuthenticationBackend):
    """Tells callers apart by asking the API server with their token; what it said is remembered for a minute, and for
    some seconds when it does not know the token.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()
        self._strangers = Strangers()

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, AuthenticatedUser] | None:
        """By the bearer token of a request. Raises AuthenticationError when nothing can be said about it now."""
        backend = BearerAuthBackend(_FromPeer(self, conn.client.host if conn.client else ""))
        found: tuple[AuthCredentials, AuthenticatedUser] | None = await backend.authenticate(conn)
        return found

    async def caller(self, token: str, peer: str) -> Caller | None:
        """Whose token this is. None when the API server does not know; raises AuthenticationError."""
        if not token or len(token) > TOKEN_MAX or not token.isascii() or not token.isprintable():
            return None
        digest = hashlib.sha256(token.encode()).digest()
        now = time.monotonic()
        until, caller = self._known.get(digest, (now, None))
        if until > now:
            return caller
        if self._strangers.are_unknown(digest):
            return None
        if not self._strangers.may_ask(peer):
            raise AuthenticationError("too many tokens that the API server does not know have come from there")
        try:
            caller = await self._ask(token)
        except AuthenticationError:
            self._strangers.was_known(peer)
            raise
        if caller is None:
            self._strangers.note(digest)
            return None
        self._strangers.was_known(peer)
        self._known[digest] = now + KNOWN_FOR_SECONDS, caller
        self._known.move_to_end(digest)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return caller

    async def _ask(self, token: str) -> Caller | None:
        session, _ = session_of(self._server, token)
        async with session:
            try:
                user = await reviewed(session)
            except Forbidden as error:  # a server that starts; the user is known to it
                raise AuthenticationError("the API server does not say yet who this is") from error
            except (Unauthenticated, Refused):
                return None
            except ApiError as error:
                raise AuthenticationError("the API server cannot be asked who this is") from error
        groups = "\n".join(sorted(user.get("groups") or []))
        return Caller(identity_of(user), hashlib.sha256(groups.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class _FromPeer:
    """What verifies the token of one request."""

    callers: Callers
    peer: str

    async def verify_token(self, token: str) -> AccessToken | None:
        """As the SDK has it."""
        caller = await self.callers.caller(token, self.peer)
        if caller is None:
            return None
        identity = caller.identity
        pod = identity.instance if identity.pod_bound else None
        return AccessToken(
            token=token, client_id=identity.username, scopes=[], subject=pod, claims={"iss": caller.groups}
        )
