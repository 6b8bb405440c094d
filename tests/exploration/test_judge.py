"""What judges writes without a server gives the answers of a real one, on every row of the tables."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from celcheck import Judge, Speaker, Write
from support.api import Answer, Api
from support.cluster import Cluster
from support.refusals import Row
from support.refusals.tables import TABLES
from support.statements import ADMIN, OPERATOR, Scene, staged
from worklease.api import policies
from worklease.api.crd import manifests

Raw = dict[str, Any]


@dataclass
class Writing:
    """The client of one speaker: remembers what was to be written, over what, and the server's answer."""

    api: Api
    reader: Api
    speaker: Speaker
    last: tuple[Write, Answer] | None = field(default=None)

    def get(self, path: str) -> Answer:
        """Reads an object."""
        return self.api.get(path)

    def create(self, path: str, body: Raw) -> Answer:
        """Creates an object."""
        *_, namespace, _ = path.split("/")
        new = copy.deepcopy({**body, "metadata": {**body["metadata"], "namespace": namespace}})
        return self._answered(Write(None, new, self.speaker), self.api.create(path, body))

    def patch(self, path: str, operations: list[Raw], **parameters: str) -> Answer:
        """Patches an object or its status."""
        whole, _, subresource = path.partition("/status")
        old = self.reader.get(whole).must()
        write = Write(old, patched(old, operations), self.speaker, "status" if path != whole else subresource)
        return self._answered(write, self.api.patch(path, operations, **parameters))

    def _answered(self, write: Write, answer: Answer) -> Answer:
        self.last = write, answer
        return answer


def patched(old: Raw, operations: list[Raw]) -> Raw:
    """The object after a JSON patch of additions and removals."""
    new = copy.deepcopy(old)
    for operation in operations:
        *parents, name = operation["path"].strip("/").split("/")
        place: Any = new
        for parent in parents:
            place = place[int(parent)] if isinstance(place, list) else place[parent]
        if operation["op"] == "remove":
            del place[int(name) if isinstance(place, list) else name]
        elif isinstance(place, list):
            place.append(operation["value"])
        elif operation["value"] is None:
            place.pop(name, None)
        else:
            place[name] = operation["value"]
    return new


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """The program, with the definitions and policies that ship."""
    with Judge(manifests(), policies.manifests()) as judge:
        yield judge


@pytest.fixture(scope="module")
def scene(cluster: Cluster) -> Iterator[Scene]:
    """A scene in which each write is remembered."""
    with staged(cluster) as scene:
        voices = {
            who: replace(
                voice,
                api=cast(
                    Api,
                    Writing(voice.api, cluster.api, Speaker(voice.username, verbs=("*",) if who in WITH_VERBS else ())),
                ),
            )
            for who, voice in scene.voices.items()
        }
        yield Scene(scene.namespace, voices)


WITH_VERBS = (ADMIN, OPERATOR)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{statement}: {row.case}") for statement, rows in TABLES.items() for row in rows]
)
def test_verdict_is_that_of_the_api_server(row: Row, scene: Scene, judge: Judge) -> None:
    """Admitted or refused, with the same HTTP status and the same words."""
    answer = row.play(scene.work())
    voice: Any = scene.voices[row.who].api
    assert voice.last is not None
    write, answered = voice.last
    assert answered is answer
    if answer.status == 403 and "ValidatingAdmissionPolicy" not in answer.message:
        pytest.skip("RBAC refuses it, which is not judged here")
    (verdict,) = judge.judge([write])
    assert verdict.status == (0 if answer.ok else answer.status), f"{verdict.message}\n{answer.message}"
    if answer.ok:
        assert verdict.stored is not None
        assert verdict.stored["spec"] == answer.body["spec"]
        assert verdict.stored["status"] == answer.body["status"]
    else:
        assert verdict.message in answer.message
