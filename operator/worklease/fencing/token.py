"""The fencing token: whose work, which tenure, in one strict form for headers, environment and a SQL session.

Everything is compared byte for byte after a parse that accepts one spelling only, so two implementations can
never disagree about which of two tokens is the later one. docs/fencing/vectors.json holds the same rules as data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from worklease.errors import MalformedToken, MarkUnavailable, MissingToken, StaleEpoch

MAX_EPOCH: Final = 2**53 - 1  # The largest integer that every JSON reader and Redis's Lua hold exactly.
MAX_NAMESPACE, MAX_NAME, MAX_CLAIM = 63, 253, 64
MAX_LEASE: Final = MAX_NAME + 1 + MAX_NAMESPACE + 1 + MAX_NAME

LEASE_HEADER, EPOCH_HEADER, CLAIM_HEADER = "Worklease-Lease", "Worklease-Epoch", "Worklease-Claim"
LEASE_VARIABLE, EPOCH_VARIABLE, CLAIM_VARIABLE = "WORKLEASE_LEASE", "WORKLEASE_EPOCH", "WORKLEASE_CLAIM"

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_EPOCH = re.compile(r"[1-9][0-9]{0,15}")
_CLAIM = re.compile(r"[!-+\--~]+")  # No comma: it is what joins a header that was sent twice.
_HEADERS = {name.lower().encode(): name for name in (LEASE_HEADER, EPOCH_HEADER, CLAIM_HEADER)}


def parse_epoch(text: str) -> int:
    """An epoch from its canonical decimal form; MalformedToken for everything else, leading zeros and signs too."""
    if not _EPOCH.fullmatch(text) or (epoch := int(text)) > MAX_EPOCH:
        raise MalformedToken(f"an epoch is a decimal integer from 1 to {MAX_EPOCH} without sign or leading zero")
    return epoch


def check_epoch(epoch: int) -> int:
    """The same bounds for an epoch that is an integer already; a bool or a float is no epoch."""
    if type(epoch) is not int or not 1 <= epoch <= MAX_EPOCH:
        raise MalformedToken(f"an epoch is an integer from 1 to {MAX_EPOCH}")
    return epoch


def check_lease(lease: str) -> str:
    """A lease's full name, NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME, or MalformedToken."""
    parts = lease.split("/") if isinstance(lease, str) and len(lease) <= MAX_LEASE else []
    if len(parts) in (2, 3):
        *cluster, namespace, name = parts
        if (
            len(namespace) <= MAX_NAMESPACE
            and _LABEL.fullmatch(namespace)
            and all(len(part) <= MAX_NAME and _SUBDOMAIN.fullmatch(part) for part in (*cluster, name))
        ):
            return lease
    raise MalformedToken(
        "a lease is NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME, each a lower-case DNS name as Kubernetes has them"
    )


def _check_claim(claim: str) -> str:
    if not isinstance(claim, str) or len(claim) > MAX_CLAIM or not _CLAIM.fullmatch(claim):
        raise MalformedToken(f"a claim is 1 to {MAX_CLAIM} visible ASCII characters other than a comma")
    return claim


@dataclass(frozen=True, slots=True)
class Token:
    """One tenure's standing. `claim` says whose claim it was; it is for records and decides nothing."""

    lease: str
    epoch: int
    claim: str | None = None

    def __post_init__(self) -> None:
        check_lease(self.lease)
        check_epoch(self.epoch)
        if self.claim is not None:
            _check_claim(self.claim)

    def __str__(self) -> str:
        """The compact form, LEASE@EPOCH or LEASE@EPOCH#CLAIM: what `parse` reads and the SQL setting holds."""
        return f"{self.lease}@{self.epoch}" + (f"#{self.claim}" if self.claim is not None else "")

    @classmethod
    def parse(cls, text: str) -> Token:
        """The token in its compact form."""
        lease, at, rest = text.partition("@")
        epoch, hash_sign, claim = rest.partition("#")
        if not at:
            raise MalformedToken("a token is LEASE@EPOCH or LEASE@EPOCH#CLAIM")
        return cls(lease, parse_epoch(epoch), claim if hash_sign else None)

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[str | bytes, str | bytes]]) -> Token:
        """The token in a request's headers, which are pairs as they came: a repeated one is malformed."""
        found: dict[str, str] = {}
        for raw_name, raw_value in headers:
            key = raw_name if isinstance(raw_name, bytes) else raw_name.encode("latin-1", "replace")
            name = _HEADERS.get(key.lower())
            if name is None:
                continue
            if name in found:
                raise MalformedToken(f"the header {name} is there more than once")
            found[name] = raw_value.decode("latin-1") if isinstance(raw_value, bytes) else raw_value
        return cls._from_parts(found, LEASE_HEADER, EPOCH_HEADER, CLAIM_HEADER)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Token:
        """The token in a process's environment."""
        return cls._from_parts(environ, LEASE_VARIABLE, EPOCH_VARIABLE, CLAIM_VARIABLE)

    @classmethod
    def _from_parts(cls, parts: Mapping[str, str], lease: str, epoch: str, claim: str) -> Token:
        missing = [name for name in (lease, epoch) if name not in parts]
        if missing:
            raise MissingToken(f"no fencing token: {' and '.join(missing)} not given")
        return cls(parts[lease], parse_epoch(parts[epoch]), parts.get(claim))

    def admitted_at(self, mark: int) -> None:
        """Raises unless the mark, read after it was moved for this token, lets it in: the rule of every store."""
        if mark > self.epoch:
            raise StaleEpoch(self.lease, self.epoch, mark)
        if mark != self.epoch:
            raise MarkUnavailable(f"the mark of {self.lease} was to move to {self.epoch} and has not")

    def to_headers(self) -> dict[str, str]:
        """What a sender adds to its request."""
        return self._to_parts(LEASE_HEADER, EPOCH_HEADER, CLAIM_HEADER)

    def to_environ(self) -> dict[str, str]:
        """What a parent gives to the process that does the work."""
        return self._to_parts(LEASE_VARIABLE, EPOCH_VARIABLE, CLAIM_VARIABLE)

    def _to_parts(self, lease: str, epoch: str, claim: str) -> dict[str, str]:
        parts = {lease: self.lease, epoch: str(self.epoch)}
        if self.claim is not None:
            parts[claim] = self.claim
        return parts

    def field_manager(self, name: str) -> str:
        """NAME@EPOCH: how a writer of fenced Kubernetes objects restates its epoch in every write."""
        manager = f"{name}@{self.epoch}"
        if not name or len(manager) > 128 or not manager.isprintable():
            raise ValueError("a field manager is at most 128 printable characters, the epoch included")
        return manager
