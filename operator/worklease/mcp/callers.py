"""Who calls over HTTP: each by the bearer token of its own request, which the API server itself recognises.

The server has no credentials of its own: it knows where the API server is, and by which CA.
"""

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio.client import Configuration
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthenticationError

from worklease.client.client import USER_AGENT
from worklease.client.identity import Identity, identity_of, reviewed
from worklease.errors import ApiError, Refused, Unauthenticated
from worklease.kube.credentials import Credentials, Source
from worklease.kube.session import Session

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


class Callers:
    """Tells callers apart by asking the API server with their token; what it said is remembered for a minute."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who this is. None when the API server does not know; raises AuthenticationError when it cannot be asked."""
        if not token or len(token) > TOKEN_MAX or not token.isascii() or not token.isprintable():
            return None
        digest = hashlib.sha256(token.encode()).digest()
        now = time.monotonic()
        known = self._known.get(digest)
        if known is None or known[0] < now:
            caller = await self._ask(token)
            if caller is None:
                return None
            self._known[digest] = known = (now + KNOWN_FOR_SECONDS, caller)
            self._known.move_to_end(digest)
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        identity, issuer = known[1].identity, known[1].groups
        pod = identity.instance if identity.pod_bound else None
        return AccessToken(token=token, client_id=identity.username, scopes=[], subject=pod, claims={"iss": issuer})

    async def _ask(self, token: str) -> Caller | None:
        session, _ = session_of(self._server, token)
        async with session:
            try:
                user = await reviewed(session)
            except (Unauthenticated, Refused):
                return None
            except ApiError as error:
                raise AuthenticationError("the API server cannot be asked who this is") from error
        groups = "\n".join(sorted(user.get("groups") or []))
        return Caller(identity_of(user), hashlib.sha256(groups.encode()).hexdigest())
