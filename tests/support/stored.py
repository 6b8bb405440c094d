"""A WorkLease or Handoff on the server: read as the administrator, and spoken about as whoever is named."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from support.api import APPLY, MERGE_PATCH, Answer, Api
from support.cluster import Identity
from support.waiting import wait_for
from support.words import Operations, Raw, adds
from worklease.api.group import API_VERSION

DECIDED_WITHIN_SECONDS = 90.0
"""For a decision of an operator on a machine that does much else."""
KINDS = {"workleases": "WorkLease", "handoffs": "Handoff"}
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"

Speaker = TypeVar("Speaker")


class Stored(ABC, Generic[Speaker]):
    """One object. What a speaker is, its kind says: an identity, an agent, or the name of one."""

    def __init__(self, path: str, reader: Api, api_version: str = API_VERSION) -> None:
        self.path = path
        self.reader = reader
        self.api_version = api_version
        *_, self.namespace, self.plural, self.name = path.split("/")

    @abstractmethod
    def identity(self, who: Speaker) -> Identity:
        """With whose credentials a speaker speaks."""

    def read(self) -> Raw:
        """The object."""
        return self.reader.get(self.path).must()

    @property
    def status(self) -> Raw:
        """What was decided."""
        status: Raw = self.read()["status"]
        return status

    def patch(self, who: Speaker, operations: Operations, **parameters: str) -> Answer:
        """Writes a JSON patch."""
        return self.identity(who).api.patch(self.path, operations, **parameters)

    def say(self, who: Speaker, **statements: Any) -> Answer:
        """Says these statements, each whole, in one write."""
        return self.patch(who, adds(**statements))

    def merge(self, who: Speaker, **spec: Any) -> Answer:
        """Writes a merge patch of spec."""
        return self.identity(who).api.patch(self.path, {"spec": spec}, MERGE_PATCH)

    def put(self, who: Speaker, whole: Raw, **parameters: str) -> Answer:
        """Writes the whole object."""
        return self.identity(who).api.replace(self.path, whole, **parameters)

    def replace(self, who: Speaker, change: Callable[[Raw], object], **parameters: str) -> Answer:
        """Writes the whole object back after a change to it."""
        whole = self.read()
        change(whole)
        return self.put(who, whole, **parameters)

    def apply(self, who: Speaker, manager: str, *, force: bool = True, **spec: Any) -> Answer:
        """Applies on the server side."""
        body = {
            "apiVersion": self.api_version,
            "kind": KINDS[self.plural],
            "metadata": {"name": self.name},
            "spec": spec,
        }
        parameters = {"fieldManager": manager, "force": "true" if force else "false"}
        return self.identity(who).api.patch(self.path, body, APPLY, **parameters)

    def reaches(self, *phases: str, within_seconds: float = DECIDED_WITHIN_SECONDS) -> Raw:
        """Waits for one of these phases; returns the status that has it."""

        def there() -> Raw | None:
            status = self.status
            return status if status["phase"] in phases else None

        return wait_for(there, f"{self.name} to be {' or '.join(phases)}", within_seconds)

    def condition(self, kind: str) -> str:
        """A condition as `Status/Reason`; empty when it is not there."""
        found = [one for one in self.status.get("conditions", []) if one["type"] == kind]
        return f"{found[0]['status']}/{found[0]['reason']}" if found else ""

    def events(self) -> list[Raw]:
        """The Events about this object, this uid only."""
        uid = self.read()["metadata"]["uid"]
        items = self.reader.get(EVENTS.format(self.namespace)).must()["items"]
        return [event for event in items if event.get("regarding", {}).get("uid") == uid]
