"""The live check, for effects that cannot be undone: has this epoch standing at the API server now?

A check is not a lock. Between its answer and the effect the lease can end, and a holder that stopped renewing may still
be shown as Held. Use it in addition to a mark, right before the effect, never instead of one.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from worklease.errors import MalformedToken, MarkUnavailable, NoStanding
from worklease.fencing.token import Token

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_ANSWER_BYTES: Final = 4 * 2**20
CHUNK_BYTES: Final = 2**16
KIND: Final = "WorkLease"
ENDINGS: Final = {"revocation": "it is revoked", "release": "it is released", "completion": "its work is completed"}

Read = Callable[[str, str], Mapping[str, Any]]
"""Gives the WorkLease of this namespace and name as the API server stores it, by a read that is not from a cache."""


def standing(worklease: Mapping[str, Any], lease: str, epoch: int) -> None:
    """Raises NoStanding unless this WorkLease lets this epoch have new effects: the rule alone, without any I/O.

    For a caller that has read the object by its own, perhaps asynchronous, client. MarkUnavailable when this is not
    the WorkLease of that name.
    """
    *_, namespace, name = Token(lease, epoch).lease.split("/")
    if not isinstance(worklease, Mapping):
        raise MarkUnavailable(f"the WorkLease {namespace}/{name} was asked for, and no object was given")
    metadata = _object(worklease, "metadata")
    found = (worklease.get("kind", KIND), metadata.get("namespace", namespace), metadata.get("name", name))
    if found != (KIND, namespace, name):
        raise MarkUnavailable(f"the WorkLease {namespace}/{name} was asked for, and something else was given")
    status, spec = _object(worklease, "status"), _object(worklease, "spec")
    current, phase = status.get("epoch", 0), status.get("phase", "Available")
    reason = None
    if current != epoch:
        reason = f"the epoch of the lease is {current}"
    elif phase != "Held":
        reason = f"the lease is {phase}"
    elif status.get("successor"):
        reason = "a handoff has taken effect"
    else:
        said = (words for name, words in ENDINGS.items() if _object(spec, name).get("epoch") == epoch)
        reason = next(said, None)
    if reason:
        raise NoStanding(lease, epoch, reason)


def _object(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name) or {}
    if not isinstance(part, Mapping):
        raise MarkUnavailable(f"this is no WorkLease: its {name} is no object")
    return part


def verify(lease: str, epoch: int, read: Read | None = None) -> None:
    """Asks the API server; returns if this epoch may have effects now, else raises NoStanding.

    MarkUnavailable means that nothing is known: produce no effect. `read` defaults to the API server of the cluster
    that this pod runs in, with its ServiceAccount, which needs `get` on workleases. A lease that names its cluster
    needs a `read` of its own, for that cluster. Blocking: call it by `asyncio.to_thread` from asynchronous code.
    """
    token = Token(lease, epoch)
    *cluster, namespace, name = token.lease.split("/")
    if cluster and read is None:
        raise MalformedToken(f"{lease} is a lease of cluster {cluster[0]}: give a `read` for that cluster")
    standing((read or ApiServer.in_cluster().read)(namespace, name), lease, epoch)


@dataclass(frozen=True)
class ApiServer:
    """A minimal reader of WorkLeases. The token is read from its file each time, since it is rotated there."""

    url: str
    ca_file: Path
    token_file: Path
    timeout_seconds: float = 5.0

    @classmethod
    def in_cluster(cls) -> ApiServer:
        """The API server of the cluster that this process runs in."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise MarkUnavailable("not in a pod, so the API server is not known: give verify() a `read`")
        return cls(f"https://{f'[{host}]' if ':' in host else host}:{port}", ACCOUNT / "ca.crt", ACCOUNT / "token")

    def read(self, namespace: str, name: str) -> Mapping[str, Any]:
        """The WorkLease, from the store and not from a cache; empty, and so without standing, when there is none."""
        url = f"{self.url}/apis/worklease.dev/v1alpha1/namespaces/{namespace}/workleases/{name}"
        try:
            bearer = f"Bearer {self.token_file.read_text().strip()}"
            request = urllib.request.Request(url, headers={"Accept": "application/json", "Authorization": bearer})
            context = ssl.create_default_context(cafile=str(self.ca_file))
            deadline_monotonic = time.monotonic() + self.timeout_seconds
            with _directly(context).open(request, timeout=self.timeout_seconds) as answer:
                body = b""
                while more := answer.read1(CHUNK_BYTES):
                    body += more
                    if len(body) > MAX_ANSWER_BYTES:
                        raise MarkUnavailable(f"the API server's answer is longer than {MAX_ANSWER_BYTES} bytes")
                    if time.monotonic() > deadline_monotonic:  # What it says may have ceased to be true meanwhile.
                        raise TimeoutError
            if answer.status != 200:
                raise MarkUnavailable(f"the API server answered {answer.status}")
            found = json.loads(body)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return {}
                raise MarkUnavailable(_HTTP.get(error.code, f"the API server answered {error.code}")) from error
        except (OSError, ValueError, http.client.HTTPException, RecursionError) as error:
            raise MarkUnavailable(f"the API server could not be asked: {type(error).__name__}") from error
        if not isinstance(found, dict):
            raise MarkUnavailable("the API server's answer is no object")
        return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The API server redirects no read: whoever does would be given the token, and would be believed."""

    def redirect_request(self, *_: object) -> None:
        return None


def _directly(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """To the API server alone: by no proxy, whatever the environment says, and nowhere else from there."""
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirect
    )


_HTTP: Final = {
    401: "the API server does not accept this token",
    403: "this ServiceAccount may not get this WorkLease: bind the role worklease-viewer to it",
}
