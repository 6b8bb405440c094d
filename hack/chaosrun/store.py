"""The store's own history: every revision of our objects, from etcd itself, since a watch of the API server may skip.

etcd keeps all revisions (compaction is turned off), so a watch that was cut goes on after the last one it has seen.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
import urllib.request
from http.client import HTTPException
from typing import Any

from .history import Recorder

PREFIX = "/registry/worklease.dev/"
SILENT_SECONDS = 20.0
AGAIN_SECONDS = 0.1
CAUGHT_UP_WITHIN_SECONDS = 60.0


class Store:
    """Records what etcd has, in a thread, until finish()."""

    def __init__(self, url: str, recorder: Recorder) -> None:
        self._url = url
        self._recorder = recorder
        self._next_revision = int(self._ask("/v3/kv/range", {"key": _b64(PREFIX)})["header"]["revision"]) + 1
        self._known: dict[str, tuple[Any, Any]] = {}
        self._marker = f"{PREFIX}marker/{secrets.token_hex(4)}"
        self._caught_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Returns when everything written so far has been recorded. Raises TimeoutError when that does not happen."""
        self._ask("/v3/kv/put", {"key": _b64(self._marker), "value": _b64("end")})
        if not self._caught_up.wait(CAUGHT_UP_WITHIN_SECONDS):
            raise TimeoutError(f"the watch of {self._url} has not caught up; the history is incomplete")

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._post(path, body) as answer:
            return dict(json.loads(answer.read()))

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(self._url + path, json.dumps(body).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(request, timeout=SILENT_SECONDS)

    def _run(self) -> None:
        while not self._caught_up.is_set():
            try:
                self._watch()
            except (OSError, ValueError, HTTPException):
                time.sleep(AGAIN_SECONDS)

    def _watch(self) -> None:
        end = PREFIX[:-1] + chr(ord(PREFIX[-1]) + 1)
        wanted = {"key": _b64(PREFIX), "range_end": _b64(end), "start_revision": str(self._next_revision)}
        with self._post("/v3/watch", {"create_request": wanted}) as answer:
            while not self._caught_up.is_set() and (line := answer.readline()):
                result = json.loads(line).get("result") or {}
                if result.get("canceled"):
                    raise ValueError("etcd ended the watch")
                for event in result.get("events") or []:
                    self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        pair = event["kv"]
        key, revision = base64.b64decode(pair["key"]).decode(), int(pair["mod_revision"])
        if revision < self._next_revision:
            return
        if key == self._marker:
            self._caught_up.set()
            return
        _, plural, namespace, name = key.removeprefix("/registry/").split("/")
        fields: dict[str, Any] = {"revision": revision, "plural": plural, "object": f"{namespace}/{name}"}
        if event.get("type") == "DELETE":
            self._known.pop(key, None)
            fields["deleted"] = True
        else:
            whole = json.loads(base64.b64decode(pair["value"]))
            metadata = whole["metadata"]
            fields["uid"] = metadata["uid"]
            spec, status = whole.get("spec") or {}, whole.get("status") or {}
            known = self._known.get(key, (None, None))
            # What is as it was in the revision before is left out: a renewal does not repeat the whole history.
            if spec != known[0]:
                fields["spec"] = spec
            if status != known[1]:
                fields["status"] = status
            self._known[key] = spec, status
        self._recorder.write("store", **fields)
        # Events of one transaction share a revision, and none of ours has more than one.
        self._next_revision = revision + 1


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
