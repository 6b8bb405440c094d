"""Objects and patches of both kinds, made from their schemas and sent in every way in which the API is written to."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.api import APPLY, HANDOFFS, JSON, JSON_PATCH, MERGE_PATCH, WORKLEASES, Answer
from support.cluster import Identity
from support.hostile import Maker
from support.words import fresh
from worklease.api.crd import handoff_crd, worklease_crd
from worklease.api.group import API_VERSION

OBJECTS_MAX = 24
"""How many objects of a kind there are at a time; older ones are deleted."""
GARBAGE = (b"", b"{", b"null", b"[]", b'{"spec":{"suspend":true,"suspend":false}}', b"\xff\xfe\x00", b"[" * 20_000)
PATHS = ("/spec", "/status", "/metadata", "", "/spec/effects/-", "/spec/effects/0", "/metadata/managedFields", "/kind")

SERVERS_OWN = ("failed to create typed patch object", "strconv.ParseUint: parsing")
"""5xx that the API server gives for every custom kind, with or without rules: to an apply with a value of a wrong type,
and to a resourceVersion that is no number.
"""

Schema = dict[str, Any]
Write = Callable[[Identity], Answer]


@dataclass
class Kind:
    """One of our kinds in a namespace, and what of it there is."""

    name: str
    collection: str
    schema: Schema
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)


def kinds(namespace: str) -> tuple[Kind, Kind]:
    """Both of them."""

    def schema(definition: dict[str, Any]) -> Schema:
        found: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        return found

    return (
        Kind("WorkLease", WORKLEASES.format(namespace), schema(worklease_crd())),
        Kind("Handoff", HANDOFFS.format(namespace), schema(handoff_crd())),
    )


@dataclass
class Fuzzer:
    """Writes at random, as one of several speakers, and keeps count of the answers."""

    choice: random.Random
    kinds: tuple[Kind, ...]
    speakers: tuple[Identity, ...]
    administrator: Identity
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def write(self) -> None:
        """One write."""
        kind = self.choice.choices(self.kinds, [3, 1])[0]
        speaker = self.choice.choice(self.speakers)
        ways = [self._merges, self._patches, self._applies, self._puts, self._describes, self._decides, self._garbles]
        way = self.choice.choice([self._creates, *ways] if kind.objects else [self._creates])
        answer = way(kind, speaker)
        self.answers[f"{way.__name__.strip('_')} {answer.status}"] += 1
        if answer.status >= 500 and any(words in answer.message for words in SERVERS_OWN):
            self.answers["of these the server's own"] += 1
        elif answer.status >= 500:
            self.wrong.append(
                f"{way.__name__.strip('_')} by {speaker.username}: {answer.status} {answer.message[:300]}"
            )
        body = answer.body
        if answer.ok and body.get("kind") == kind.name:
            kind.objects[body["metadata"]["name"]] = body
        if len(kind.objects) > OBJECTS_MAX:
            name = next(iter(kind.objects))
            del kind.objects[name]
            self.administrator.api.delete(f"{kind.collection}/{name}")

    def _maker(self, kind: Kind, speaker: Identity, stored: dict[str, Any] | None = None) -> Maker:
        status = (stored or {}).get("status", {})
        epoch = status.get("epoch", 0)
        instance = speaker.instance or "host:aspen/1"
        return Maker(
            self.choice,
            {
                "epoch": [epoch, epoch, epoch, max(0, epoch - 1), epoch + 1],
                "holderIdentity": [speaker.username],
                "instance": [instance],
                "from": [speaker.username],
                "fromInstance": [instance],
                "id": [fresh(), "e1", "e2"],
                "workLeaseName": list(self.kinds[0].objects) or ["none"],
                "previousDigest": [(stored or {}).get("spec", {}).get("checkpoint", {}).get("digest", "")],
                "digest": ["sha256:1", fresh()],
                "leaseDurationSeconds": [10, 10, 600],
                "jeopardyDurationSeconds": [0, 30],
                "state": ["Attempted", "Succeeded", "Unknown"],
                **({"work": [stored["spec"]["work"]]} if stored and "work" in stored["spec"] else {}),
            },
        )

    def _stored(self, kind: Kind) -> dict[str, Any]:
        return self.choice.choice(list(kind.objects.values()))

    def _spec(self, kind: Kind, speaker: Identity, stored: dict[str, Any] | None = None) -> Any:
        return self._maker(kind, speaker, stored).of(kind.schema["spec"], "spec")

    def _part(self, kind: Kind, speaker: Identity, stored: dict[str, Any]) -> tuple[str, Any]:
        """One field of spec with a value."""
        name = self.choice.choice(list(kind.schema["spec"]["properties"]))
        return name, self._maker(kind, speaker, stored).of(kind.schema["spec"]["properties"][name], name)

    def _path(self, kind: Kind, stored: dict[str, Any]) -> str:
        return f"{kind.collection}/{stored['metadata']['name']}"

    def _metadata(self) -> dict[str, Any]:
        """Metadata that an object might be given."""
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": fresh()}
        return self.choice.choice(
            [
                {"labels": {fresh(): "v" for _ in range(self.choice.choice([1, 40, 3000]))}},
                {"labels": {"a b": "\x00"}},
                {"annotations": {"a": "\x01" * self.choice.choice([1, 9000, 200_000])}},
                {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{"}},
                {"ownerReferences": [reference]},
                {"finalizers": ["worklease.dev/never", "x"]},
                {"managedFields": []},
                {"managedFields": [{"manager": "\x02" * 100, "operation": "Apply", "fieldsV1": {"f:spec": {}}}]},
                {"deletionTimestamp": "2026-01-01T00:00:00Z", "generation": -7, "uid": fresh()},
                {"resourceVersion": self.choice.choice(["0", "1", "99999999999", "x"])},
                {"generateName": "z" * 300, "selfLink": "/x", "creationTimestamp": None},
            ]
        )

    def _creates(self, kind: Kind, speaker: Identity) -> Answer:
        metadata: dict[str, Any] = {"name": f"f-{fresh()}"}
        if self.choice.random() < 0.1:
            metadata |= self._metadata()
        body = {"apiVersion": API_VERSION, "kind": kind.name, "metadata": metadata, "spec": self._spec(kind, speaker)}
        if self.choice.random() < 0.1:
            body["status"] = self._maker(kind, speaker).of(kind.schema["status"], "status")
        return speaker.api.create(kind.collection, body)

    def _puts(self, kind: Kind, speaker: Identity) -> Answer:
        stored = self._stored(kind)
        name, value = self._part(kind, speaker, stored)
        whole = {**stored, "spec": {**stored["spec"], name: value}}
        if self.choice.random() < 0.2:
            whole["spec"] = self._spec(kind, speaker, stored)
        version = self.choice.choice([None, None, "1", "", "4294967296"])
        if version is not None:
            whole["metadata"] = {**stored["metadata"], "resourceVersion": version}
        return speaker.api.replace(self._path(kind, stored), whole)

    def _merges(self, kind: Kind, speaker: Identity) -> Answer:
        stored = self._stored(kind)
        patch = dict(self._part(kind, speaker, stored) for _ in range(self.choice.choice([1, 1, 2])))
        if self.choice.random() < 0.2:
            patch[self.choice.choice(list(patch))] = None
        spec: Any = None if self.choice.random() < 0.03 else patch
        return speaker.api.patch(self._path(kind, stored), {"spec": spec}, MERGE_PATCH)

    def _patches(self, kind: Kind, speaker: Identity) -> Answer:
        stored = self._stored(kind)
        operations: list[dict[str, Any]] = []
        for _ in range(self.choice.choice([1, 1, 1, 2, 5, 60])):
            name, value = self._part(kind, speaker, stored)
            operation = self.choice.choice(["add", "add", "add", "add", "replace", "remove", "test", "move", "copy"])
            path = f"/spec/{name}" if self.choice.random() < 0.9 else self.choice.choice(PATHS)
            operations.append({"op": operation, "path": path, "value": value, "from": self.choice.choice(PATHS)})
        return speaker.api.patch(self._path(kind, stored), operations, JSON_PATCH)

    def _applies(self, kind: Kind, speaker: Identity) -> Answer:
        stored = self._stored(kind)
        name, value = self._part(kind, speaker, stored)
        spec = {name: value} if self.choice.random() < 0.9 else self._spec(kind, speaker, stored)
        body = {
            "apiVersion": API_VERSION,
            "kind": kind.name,
            "metadata": {"name": stored["metadata"]["name"]},
            "spec": spec,
        }
        manager = self.choice.choice([name, name, name, "agent", "kubectl-client-side-apply", f"effect-{fresh()}"])
        force = self.choice.choice(["true", "true", "false"])
        return speaker.api.patch(self._path(kind, stored), body, APPLY, fieldManager=manager, force=force)

    def _describes(self, kind: Kind, speaker: Identity) -> Answer:
        """Writes metadata."""
        stored = self._stored(kind)
        metadata = self._metadata()
        if self.choice.random() < 0.5:
            return speaker.api.patch(self._path(kind, stored), {"metadata": metadata}, MERGE_PATCH)
        whole = {**stored, "metadata": {**stored["metadata"], **metadata}}
        return speaker.api.replace(self._path(kind, stored), whole)

    def _decides(self, kind: Kind, speaker: Identity) -> Answer:
        """Writes status, which is not for agents, or deletes."""
        stored = self._stored(kind)
        if self.choice.random() < 0.3:
            path = kind.collection if self.choice.random() < 0.2 else self._path(kind, stored)
            return self.speakers[0].api.delete(path)
        status = self._maker(kind, speaker, stored).of(kind.schema["status"], "status")
        return self.speakers[0].api.patch(f"{self._path(kind, stored)}/status", {"status": status}, MERGE_PATCH)

    def _garbles(self, kind: Kind, speaker: Identity) -> Answer:
        """Sends what is not even an object."""
        stored = self._stored(kind)
        content_type = self.choice.choice([JSON, JSON_PATCH, MERGE_PATCH, APPLY, "text/html", "application/cbor"])
        method = self.choice.choice(["PUT", "PATCH", "POST"])
        path = kind.collection if method == "POST" else self._path(kind, stored)
        parameters = {"fieldManager": self.choice.choice(["renewal", "\x01", "m" * 300])} if method != "POST" else {}
        return speaker.api.send(method, path, self.choice.choice(GARBAGE), content_type, **parameters)
