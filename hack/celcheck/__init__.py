"""Admits or refuses writes of our objects without a server, by the API server's own code, in a small Go program.

It is built from the same modules as the control plane. A test shows that it gives the answers of a real API server.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from controlplane.build import cached

HERE = Path(__file__).resolve().parent
BATCH_MAX = 256
"""How many writes are judged in one exchange: what waits in the pipes stays bounded."""
ENDED_WITHIN_SECONDS = 10.0

Raw = dict[str, Any]


def ensure() -> Path:
    """The path of the program."""
    return cached(HERE, "celcheck", "celcheck", "2 min on 2 cores")


@dataclass(frozen=True)
class Speaker:
    """Who writes: a username, perhaps the pod of the token, and the verbs that RBAC grants on our objects."""

    name: str
    pod: str = ""
    pod_uid: str = ""
    verbs: tuple[str, ...] = ()

    def manifest(self) -> Raw:
        """As the program reads it."""
        return {"name": self.name, "pod": self.pod, "podUID": self.pod_uid, "verbs": list(self.verbs)}


@dataclass(frozen=True)
class Write:
    """`old` is replaced by `new`; no `old` is a creation, no `new` a deletion."""

    old: Raw | None
    new: Raw | None
    speaker: Speaker
    subresource: str = ""


@dataclass(frozen=True)
class Verdict:
    """The object as it would be stored, or the HTTP status of the refusal and its text."""

    status: int
    message: str
    stored: Raw | None

    @property
    def admitted(self) -> bool:
        """Whether the write is."""
        return self.status == 0


class Judge:
    """The program, with these definitions and policies. Use it as a context."""

    def __init__(self, definitions: Sequence[Raw], policies: Sequence[Raw]) -> None:
        self._setting = {
            "definitions": list(definitions),
            "policies": [one for one in policies if one["kind"] == "ValidatingAdmissionPolicy"],
        }

    def __enter__(self) -> Judge:
        self._process = subprocess.Popen([ensure()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        answer = self._exchange(self._setting)
        assert answer == {"ready": True}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(ENDED_WITHIN_SECONDS)

    def judge(self, writes: Iterable[Write]) -> list[Verdict]:
        """The verdict on each, in their order. None of them builds on another."""
        asked = [
            {"old": one.old, "new": one.new, "subresource": one.subresource, "speaker": one.speaker.manifest()}
            for one in writes
        ]
        verdicts: list[Verdict] = []
        for start in range(0, len(asked), BATCH_MAX):
            for one in self._exchange(asked[start : start + BATCH_MAX]):
                verdicts.append(Verdict(one["status"], one.get("message", ""), one.get("object")))
        return verdicts

    def _exchange(self, message: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"celcheck ended with {self._process.wait(ENDED_WITHIN_SECONDS)}: see what it wrote above"
            )
        return json.loads(line)
