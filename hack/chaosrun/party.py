"""What every process of a run has in common: its orders, its file of the history, and its calls in that file."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from worklease.errors import ApiError, Refused
from worklease.kube.following import Follower
from worklease.kube.session import Answer, Session

from .history import Recorder

BODIES = ("/workleases", "/handoffs")


@dataclass(frozen=True)
class Orders:
    """What a process is told on its command line, as one JSON object."""

    party: str
    directory: Path
    company: str = ""
    seed: int = 0
    kubeconfig: str = ""
    namespace: str = ""
    username: str = ""
    items: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    without: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Orders:
        given = json.loads(text)
        given["directory"] = Path(given["directory"])
        given["items"], given["agents"] = tuple(given["items"]), tuple(given["agents"])
        return cls(**given)

    def text(self) -> str:
        return json.dumps({**self.__dict__, "directory": str(self.directory)})

    @property
    def socket(self) -> str:
        """Where the recipients listen."""
        return str(self.directory / f"recipients-{self.company}.sock")


def record_calls(recorder: Recorder, *, bodies: bool = True) -> None:
    """From now on every request of every session of this process is in the history, before it is sent and after."""
    Session.request = _recorded(Session.request, recorder, bodies=bodies)  # type: ignore[method-assign]


def record_session(session: Session, recorder: Recorder) -> None:
    """The same for one session."""
    unrecorded = type(session).request
    request = _recorded(unrecorded, recorder, bodies=True)
    session.request = partial(request, session)  # type: ignore[method-assign]


def _recorded(unrecorded: Any, recorder: Recorder, *, bodies: bool) -> Any:
    numbers = itertools.count(1)

    async def request(self: Session, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        call = f"{recorder.party}:{next(numbers)}"
        told = bodies and method != "GET" and any(plural in path for plural in BODIES)
        recorder.write("call", call=call, method=method, path=path, **({"body": body} if told else {}))
        try:
            answer: Answer = await unrecorded(self, method, path, body, **options)
        except Refused as error:
            recorder.write("answer", call=call, outcome="refused", status=error.status, message=str(error)[:2000])
            raise
        except ApiError as error:
            recorder.write("answer", call=call, outcome="unknown", status=error.status, message=str(error)[:200])
            raise
        except asyncio.CancelledError:
            recorder.write("answer", call=call, outcome="unknown", status=0, message="cancelled")
            raise
        metadata = answer.body.get("metadata") or {}
        recorder.write("answer", call=call, outcome="ok", status=answer.status, version=_version(metadata))
        return answer

    return request


def record_watches(recorder: Recorder) -> None:
    """From now on what this process is shown of an object is in the history, before it is acted on."""
    numbers = itertools.count(1)
    unrecorded = Follower.follow

    async def follow(self: Follower, namespace: str, name: str, **options: Any) -> AsyncGenerator[dict[str, Any], None]:
        about: dict[str, Any] = {
            "watch": f"{recorder.party}:{next(numbers)}",
            "plural": options.get("plural", "workleases"),
        }
        async with contextlib.aclosing(unrecorded(self, namespace, name, **options)) as changes:
            async for raw in changes:
                recorder.write("seen", **about, object=f"{namespace}/{name}", revision=_version(raw["metadata"]))
                yield raw

    Follower.follow = follow  # type: ignore[method-assign]


def _version(metadata: dict[str, Any]) -> int:
    version = str(metadata.get("resourceVersion") or "")
    return int(version) if version.isdigit() else 0
