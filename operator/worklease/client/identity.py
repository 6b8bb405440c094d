"""Who this process is to the protocol: the username that the API server authenticates, and which process of it."""

import os
import re
import secrets
import socket
from dataclasses import dataclass
from typing import Any

from worklease.api.admission import TOKEN_POD
from worklease.client.patience import patiently
from worklease.client.reading import SAID_MAX
from worklease.errors import Unreadable
from worklease.kube.session import Session

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
INSTANCE_VARIABLE = "WORKLEASE_INSTANCE"
"""What a person sets to speak as an instance of their own choice."""
HOST_MAX = 200

# Made once: all that this process says, it says as one instance, until it is forked or started again.
_random = secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Identity:
    """holderIdentity and instance of every statement that this process makes."""

    username: str
    instance: str

    @property
    def pod_bound(self) -> bool:
        """Whether the instance is that of a pod, which all its processes share."""
        return self.instance.startswith("pod:")


def process_instance() -> str:
    """host:NAME/PID/RANDOM: tells this process from all others, also from one that gets its number again."""
    host = re.sub(r"[^!-~]", "-", socket.gethostname())[:HOST_MAX] or "unknown"
    return f"host:{host}/{os.getpid()}/{_random}"


async def whoami(session: Session, instance: str | None = None) -> Identity:
    """Asks the API server. A token that is bound to a pod speaks as that pod and as nothing else."""
    return identity_of(await patiently(lambda: reviewed(session)), instance)


async def reviewed(session: Session) -> dict[str, Any]:
    """What the API server makes of our credentials: username, groups, extra."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await session.request("POST", REVIEWS, body)
    status = answer.body.get("status")
    user = status.get("userInfo") if isinstance(status, dict) else None
    if not isinstance(user, dict) or "username" not in user:
        said = " ".join(str(answer.body.get("message") or answer.body).split())[:SAID_MAX]
        raise Unreadable(f"it does not say who we are, so it may be no API server: {said}")
    return user


def identity_of(user: dict[str, Any], instance: str | None = None) -> Identity:
    """Who that is to the protocol."""
    extra = user.get("extra") or {}
    pod, uid = (next(iter(extra.get(TOKEN_POD + part) or []), "") for part in ("name", "uid"))
    own = f"pod:{pod}/{uid}" if pod else instance or process_instance()
    return Identity(user["username"], own)
