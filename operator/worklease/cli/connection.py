"""The way to the API server that the common flags describe, and who speaks: a person or a process."""

import argparse
import contextlib
import getpass
import os
import re
import socket
from collections.abc import AsyncIterator
from typing import Any

from worklease.api.group import GROUP
from worklease.client.client import USER_AGENT, Client
from worklease.client.identity import INSTANCE_VARIABLE, Identity, whoami
from worklease.errors import Unanswered, Unauthenticated, Unreadable
from worklease.kube.credentials import Source
from worklease.kube.session import JSON, REQUEST_SECONDS, Answer, Session

WHICH = "--kubeconfig, --context and KUBECONFIG say who asks which cluster"
OURS = f"/apis/{GROUP}/"


class Line(Session):
    """A session that can ask what would be answered (a dry run), and keeps the answer to its last write."""

    dry_run = False
    written: dict[str, Any] | None = None

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> Answer:
        """As Session.request()."""
        writes = method != "GET" and path.startswith(OURS)
        if writes and self.dry_run:
            path += ("&" if "?" in path else "?") + "dryRun=All"
        answer = await super().request(method, path, body, content_type=content_type, timeout_seconds=timeout_seconds)
        if writes:
            self.written = answer.body
        return answer


class Connection(Client):
    """A client over such a session."""

    session: Line

    def speaking_as(self, instance: str) -> "Connection":
        """Another client by the same session, as another instance of the same user."""
        return Connection(self.session, Identity(self.identity.username, instance))


def shell_instance() -> str:
    """What one-shot commands of one user on one machine have in common: a claim, its renewals and its release."""
    if given := os.environ.get(INSTANCE_VARIABLE):
        return given
    user = f"{os.getuid()}"
    with contextlib.suppress(KeyError, OSError):
        user = getpass.getuser()
    return re.sub(r"[^!-~]", "-", f"cli:{socket.gethostname()}/{user}")[:320]


@contextlib.asynccontextmanager
async def connected(options: argparse.Namespace, *, shell: bool = False) -> AsyncIterator[Connection]:
    """A client; with `shell` it speaks as what this user's shells have in common. Sets options.namespace."""
    async with await Line.open(Source(options.kubeconfig, options.context), user_agent=USER_AGENT) as session:
        try:
            identity = await whoami(session, shell_instance() if shell else None)
        except (Unanswered, Unreadable) as error:
            raise type(error)(f"{session.credentials.server} cannot be asked: {error}; {WHICH}") from error
        except Unauthenticated as error:
            said = f"{session.credentials.server} does not accept the credentials: {error}; {WHICH}"
            raise Unauthenticated(said, status=error.status) from error
        session.dry_run = getattr(options, "dry_run", None) == "server"
        async with Connection(session, identity) as client:
            if options.namespace is None:
                options.namespace = client.namespace
            yield client
