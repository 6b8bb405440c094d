"""A recipient of effects in a pod: it refuses an epoch lower than it has seen, and keeps all that came, in order."""

from __future__ import annotations

from dataclasses import dataclass

from support.pods import POLL_SECONDS, Pods
from support.waiting import wait_for

POD, PORT = "recorder", 8080
WITHIN_SECONDS = 120.0
SERVE = f"""
import http.server, json, threading

steps, lock = [], threading.Lock()

class Recipient(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        admitted = True
        if self.path != "/steps":
            _, epoch, pod = self.path.split("/")
            with lock:
                admitted = int(epoch) >= max((step[0] for step in steps), default=0)
                steps.append([int(epoch), pod, admitted])
        self.send_response(200 if admitted else 409)
        self.end_headers()
        self.wfile.write(json.dumps(steps if self.path == "/steps" else []).encode())

    def log_message(self, *arguments):
        pass

http.server.ThreadingHTTPServer(("", {PORT}), Recipient).serve_forever()
"""


@dataclass(frozen=True)
class Step:
    """One piece of work: under which epoch, in which pod, and whether it was let through."""

    epoch: int
    pod: str
    admitted: bool


class Recorder:
    """The recipient, running in a namespace with an account of its own. Pods reach it at `url`/EPOCH/POD."""

    def __init__(self, pods: Pods) -> None:
        self._api = pods.cluster.api
        self._path = f"/api/v1/namespaces/{pods.namespace}/pods/{POD}"
        pods.cluster.service_account(pods.namespace, POD)
        pods.start(POD, POD, "python3", "-c", SERVE)
        address = wait_for(
            lambda: self._api.get(self._path).must()["status"].get("podIP"), "the recorder's address", WITHIN_SECONDS
        )
        self.url = f"http://[{address}]:{PORT}" if ":" in address else f"http://{address}:{PORT}"
        wait_for(
            lambda: self._api.get(f"{self._path}:{PORT}/proxy/steps").ok, "the recorder", WITHIN_SECONDS, POLL_SECONDS
        )

    def steps(self) -> list[Step]:
        """Everything that came, in order."""
        answer = self._api.get(f"{self._path}:{PORT}/proxy/steps")
        steps: object = answer.body
        assert answer.ok, answer.message
        assert isinstance(steps, list)
        return [Step(*step) for step in steps]
