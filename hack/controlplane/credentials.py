"""What proves identities to the control plane: static tokens, the ServiceAccount key, kubeconfig files with the CA."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ADMIN = "admin"
CONTROLLER_MANAGER = "system:kube-controller-manager"

# The order of the curve P-256 (SEC 2), whose private keys are the numbers from 1 to it.
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
P256_NAME = bytes.fromhex("06082a8648ce3d030107")


@dataclass(frozen=True)
class User:
    """A person: a name and groups that a static token stands for."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


# Whom every testbed knows beside its administrator; they may do nothing until a role is bound to them.
PEOPLE = (User("alice"), User("bob"), User("carol"))


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner can read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.replace(temporary, path)


def service_account_key() -> str:
    """A new P-256 private key as PEM (RFC 5915); the public half is left out, since readers derive it."""
    number = (secrets.randbelow(P256_ORDER - 1) + 1).to_bytes(32, "big")
    body = b"\x02\x01\x01" + b"\x04\x20" + number + b"\xa0" + bytes([len(P256_NAME)]) + P256_NAME
    encoded = base64.encodebytes(b"\x30" + bytes([len(body)]) + body).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{encoded}-----END EC PRIVATE KEY-----\n"


def token_file(users: Iterable[User]) -> str:
    """The users as kube-apiserver's --token-auth-file has them."""
    return "".join(f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"\n' for user in users)


def kubeconfig(server: str, ca_pem: str, users: Sequence[User]) -> str:
    """A kubeconfig (JSON is YAML) with one context for each user, named as the user is; the first is the current."""
    authority = base64.b64encode(ca_pem.encode()).decode()
    cluster = {"server": server, "certificate-authority-data": authority}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "worklease", "cluster": cluster}],
            "users": [{"name": user.name, "user": {"token": user.token}} for user in users],
            "contexts": [
                {"name": user.name, "context": {"cluster": "worklease", "user": user.name, "namespace": "default"}}
                for user in users
            ],
            "current-context": users[0].name,
        },
        indent=2,
    )
