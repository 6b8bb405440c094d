"""A plain client for the API server that says exactly what a test tells it to, as one identity; it retries nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes import client
from kubernetes.config import load_kube_config

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

WORKLEASES = "/apis/worklease.dev/v1alpha1/namespaces/{}/workleases"
HANDOFFS = "/apis/worklease.dev/v1alpha1/namespaces/{}/handoffs"

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    """What the API server said: the HTTP status and the object, or the Status object of a refusal."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def ok(self) -> bool:
        """Whether the request was granted."""
        return self.status < 300

    @property
    def message(self) -> str:
        """The text of a refusal."""
        return str(self.body.get("message", ""))

    def must(self) -> dict[str, Any]:
        """The object; fails with the refusal's text when there is none."""
        assert self.ok, f"{self.status}: {self.message}"
        return self.body


class Api:
    """Requests to one API server with one credential."""

    def __init__(
        self, configuration: client.Configuration, token: str = "", timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self.configuration = configuration
        self.server: str = configuration.host
        self._token = token
        self._pool = urllib3.PoolManager(
            maxsize=32,
            block=True,
            ca_certs=configuration.ssl_ca_cert,
            cert_file=None if token else configuration.cert_file,
            key_file=None if token else configuration.key_file,
            timeout=timeout_seconds,
            retries=False,
        )

    @classmethod
    def from_kubeconfig(cls, path: Path, context: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> Api:
        """The identity of a context of the file, by default the current one."""
        configuration = client.Configuration()
        load_kube_config(
            config_file=str(path), context=context, client_configuration=configuration, persist_config=False
        )
        return cls(configuration, timeout_seconds=timeout_seconds)

    def with_token(self, token: str) -> Api:
        """The same server, spoken to with this bearer token and nothing else."""
        return Api(self.configuration, token)

    @property
    def token(self) -> str:
        """The bearer token, empty for an identity that has a certificate instead."""
        return self._authorization().removeprefix("Bearer ")

    def request(self, method: str, path: str, body: Any = None, content_type: str = JSON, **parameters: str) -> Answer:
        """One request. Keyword arguments become query parameters: `fieldManager="x"`."""
        content = None if body is None else json.dumps(body).encode()
        return self.send(method, path, content, content_type, **parameters)

    def send(self, method: str, path: str, content: bytes | None, content_type: str, **parameters: str) -> Answer:
        """One request whose body is these bytes, whatever they are."""
        headers = {"Accept": JSON, "Content-Type": content_type}
        if authorization := self._authorization():
            headers["Authorization"] = authorization
        url = self.server + path
        if parameters:
            url += f"?{urlencode(parameters)}"
        answer = self._pool.request(method, url, body=content, headers=headers)
        try:
            decoded = json.loads(answer.data)
        except ValueError:
            decoded = {"message": answer.data.decode(errors="replace")}
        return Answer(answer.status, decoded, dict(answer.headers))

    def get(self, path: str, **parameters: str) -> Answer:
        """Reads an object or a list."""
        return self.request("GET", path, **parameters)

    def create(self, path: str, body: dict[str, Any], **parameters: str) -> Answer:
        """Creates an object in the collection `path`."""
        return self.request("POST", path, body, **parameters)

    def replace(self, path: str, body: dict[str, Any], **parameters: str) -> Answer:
        """Writes a whole object, a swap when it carries a resourceVersion."""
        return self.request("PUT", path, body, **parameters)

    def patch(self, path: str, body: Any, content_type: str = JSON_PATCH, **parameters: str) -> Answer:
        """Patches an object, with a JSON patch unless told otherwise."""
        return self.request("PATCH", path, body, content_type, **parameters)

    def delete(self, path: str, **parameters: str) -> Answer:
        """Deletes an object or a collection."""
        return self.request("DELETE", path, **parameters)

    def _authorization(self) -> str:
        if self._token:
            return f"Bearer {self._token}"
        return str(self.configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or "")
