"""What the API server refuses of a handoff, whoever asks: an offer never changes, and is answered once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from support.api import Answer, Api
from support.cluster import Cluster
from support.definitions import installed
from support.words import fresh, handoff_manifest, removes
from worklease.api.cel import Check
from worklease.api.crd import handoff_crd
from worklease.api.group import API_VERSION, GROUP, VERSION
from worklease.api.handoff import RULES, HandoffSpec

SENT = {"from": "alice", "fromInstance": "host:aspen/1"}
CHECKS: dict[str, Check] = {check.name: check for rule in RULES for check in rule.checks}


@dataclass
class Offers:
    """Where handoffs are made, by the administrator."""

    api: Api
    namespace: str
    group: str = GROUP

    @property
    def path(self) -> str:
        """The collection."""
        return f"/apis/{self.group}/{VERSION}/namespaces/{self.namespace}/handoffs"

    def create(self, name: str, **spec: Any) -> Answer:
        """Offers work to bob."""
        spec = {"to": {"holderIdentity": "bob"}, **spec}
        body = handoff_manifest(name, api_version=f"{self.group}/{VERSION}", **spec)
        return self.api.create(self.path, body)

    def set(self, name: str, path: str, value: Any) -> Answer:
        """Sets one field."""
        where = f"{self.path}/{name}" + ("/status" if path.startswith("/status") else "")
        return self.api.patch(where, [{"op": "add", "path": path, "value": value}])

    def offer(self, **spec: Any) -> str:
        """An offer that is there, by its name."""
        name = f"h-{fresh()}"
        self.create(name, **spec).must()
        return name


def response(decision: str) -> dict[str, str]:
    """An answer."""
    return {"decision": decision, "reason": "because"}


def edited(offers: Offers) -> Answer:
    """The message changes after the offer was made."""
    return offers.set(offers.offer(message="before"), "/spec/message", "after")


def answered_twice(offers: Offers) -> Answer:
    """A second answer; the first stands."""
    name = offers.offer()
    offers.set(name, "/spec/response", response("Withdrawn")).must()
    return offers.set(name, "/spec/response", response("Withdrawn") | {"reason": "another"})


def answered_late(offers: Offers) -> Answer:
    """An answer to an offer that has expired."""
    name = offers.offer()
    offers.set(name, "/status/phase", "Expired").must()
    return offers.set(name, "/spec/response", response("Withdrawn"))


def born_answered(offers: Offers) -> Answer:
    """An offer that brings its own answer."""
    return offers.create(f"h-{fresh()}", response=response("Accepted"))


def from_half(offers: Offers) -> Answer:
    """A sender without its process."""
    return offers.create(f"h-{fresh()}", **{"from": "alice"})


def to_oneself(offers: Offers) -> Answer:
    """An offer to the sender itself."""
    return offers.create(f"h-{fresh()}", **SENT, to={"holderIdentity": "alice"})


CASES: dict[str, Callable[[Offers], Answer]] = {
    "handoff.immutable": edited,
    "handoff.once": answered_twice,
    "handoff.pending": answered_late,
    "handoff.unanswered": born_answered,
    "handoff.sender": from_half,
    "handoff.oneself": to_oneself,
}
OTHER_VALUES: dict[str, Any] = {
    "workLeaseName": "other",
    "epoch": 7,
    "from": "mallory",
    "fromInstance": "host:other/1",
    "to": {"holderIdentity": "mallory"},
    "subject": "other",
    "message": "other",
    "contextRef": {"uri": "s3://other"},
    "checkpoint": {"uri": "s3://other", "digest": "sha256:0"},
    "acceptWithinSeconds": 7,
    "claimWithinSeconds": 7,
}


@pytest.fixture
def offers(cluster: Cluster, namespace: str) -> Offers:
    """The real kind, in a fresh namespace."""
    return Offers(cluster.api, namespace)


@pytest.mark.parametrize("check", CHECKS)
def test_handoff_is_refused(check: str, offers: Offers) -> None:
    """The API server refuses the case, in the words of the check."""
    answer = CASES[check](offers)
    assert answer.status == 422, answer.message
    assert CHECKS[check].message in answer.message


@pytest.mark.parametrize("check", CHECKS)
def test_check_of_a_handoff_is_needed(check: str, cluster: Cluster, namespace: str) -> None:
    """Without the check, and with all others, the case is admitted."""
    group = f"z-{namespace}.mutants.worklease.dev"
    definition = handoff_crd(without={check}, group=group)
    with installed(cluster, definition):
        CASES[check](Offers(cluster.api, namespace, group)).must()


@pytest.mark.parametrize("field", sorted(OTHER_VALUES))
def test_no_field_of_an_offer_changes(field: str, offers: Offers) -> None:
    """Neither a field that was said nor one that was left out."""
    bare, full = offers.offer(), offers.offer(**SENT, subject="s", message="m", epoch=1)
    for name in (bare, full):
        answer = offers.set(name, f"/spec/{field}", OTHER_VALUES[field])
        assert (answer.status, "a handoff is immutable" in answer.message) == (422, True)


def test_every_field_of_an_offer_is_tried() -> None:
    """A field that is new is in the table above, or it is the response."""
    fields = {field.alias for field in HandoffSpec.model_fields.values()}
    assert fields == {*OTHER_VALUES, "response"}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        SENT,
        {**SENT, "to": {"holderIdentity": "alice", "instance": "host:aspen/2"}},
        {"epoch": 7, "subject": "s", "message": "first\nsecond", "contextRef": {"uri": "s3://c"}},
    ],
    ids=["by an administrator or Git", "by a holder", "to another process of the sender", "with all that it may say"],
)
def test_offer_is_admitted(spec: dict[str, Any], offers: Offers) -> None:
    """It is Pending at once, and may be answered."""
    name = f"h-{fresh()}"
    created = offers.create(name, **spec).must()
    assert (created["apiVersion"], created["status"]) == (API_VERSION, {"phase": "Pending"})
    offers.set(name, "/spec/response", response("Withdrawn")).must()


def test_response_is_not_taken_back(offers: Offers) -> None:
    """An answer is not removed either."""
    name = offers.offer()
    offers.set(name, "/spec/response", response("Withdrawn")).must()
    answer = offers.api.patch(f"{offers.path}/{name}", removes("/spec/response"))
    assert (answer.status, "a handoff is answered once" in answer.message) == (422, True)
