"""The cluster that the tests run against, and the identities that speak to it by their own credentials."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.api import Api
from support.waiting import wait_for

KUBECTL_WITHIN_SECONDS = 120.0
TOKEN_SECONDS = 3600
IDENTITY_ONLY = "worklease.dev/identity-only"


@dataclass(frozen=True)
class Identity:
    """Somebody whom the API server authenticates, with a kubeconfig and a client of their own."""

    username: str
    kubeconfig: Path
    api: Api = field(repr=False)
    instance: str = ""

    @property
    def token(self) -> str:
        """The bearer token of this identity."""
        return self.api.token


@dataclass(frozen=True)
class KubectlAnswer:
    """What a kubectl command printed, and its exit code."""

    stdout: str
    stderr: str
    exit_code: int


class Cluster:
    """A cluster with worklease's CRDs, policies and roles. `admin` may do everything there."""

    def __init__(self, kubeconfig: Path, kubectl: Path, directory: Path) -> None:
        self.kubeconfig = kubeconfig
        self.kubectl_path = kubectl
        self.directory = directory
        self.api = Api.from_kubeconfig(kubeconfig)
        self.server = self.api.server
        self.ca_file = Path(str(self.api.configuration.ssl_ca_cert))
        self.admin = Identity("admin", kubeconfig, self.api)

    def as_user(self, name: str) -> Identity | None:
        """The static user of this name, None on a cluster whose kubeconfig has no such context."""
        contexts = json.loads(self.kubectl("config", "view", "-o", "json").stdout)["contexts"]
        if name not in [context["name"] for context in contexts]:
            return None
        return self.as_token(name, Api.from_kubeconfig(self.kubeconfig, context=name).token)

    def as_token(self, username: str, token: str, instance: str = "") -> Identity:
        """Whoever the bearer token stands for."""
        api = self.api.with_token(token)
        return Identity(username, self._write_kubeconfig(username, token), api, instance)

    def kubectl(
        self, *arguments: str, identity: Identity | None = None, given: str | dict[str, Any] = ""
    ) -> KubectlAnswer:
        """Runs kubectl as `identity`, by default the administrator, with `given` (an object or text) as its input."""
        kubeconfig = (identity or self.admin).kubeconfig
        answer = subprocess.run(
            [self.kubectl_path, f"--kubeconfig={kubeconfig}", *arguments],
            input=given if isinstance(given, str) else json.dumps(given),
            capture_output=True,
            text=True,
            timeout=KUBECTL_WITHIN_SECONDS,
            check=False,
        )
        return KubectlAnswer(answer.stdout, answer.stderr, answer.returncode)

    @contextmanager
    def namespace(self, prefix: str, labels: dict[str, str] | None = None) -> Iterator[str]:
        """A fresh namespace, deleted afterwards."""
        name = f"{prefix}-{secrets.token_hex(5)}"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}}).must()
        try:
            yield name
        finally:
            self.api.delete(f"/api/v1/namespaces/{name}")

    def service_account(self, namespace: str, name: str, role: str | None = None) -> Identity:
        """Creates a ServiceAccount, with the ClusterRole `role` in its namespace. Its token is bound to no pod."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        if not self.api.get(f"{accounts}/{name}").ok:
            self.api.create(accounts, {"metadata": {"name": name}}).must()
        identity = self._account_identity(namespace, name, {})
        if role:
            self.grant(namespace, role, identity)
        return identity

    def pod_identity(self, namespace: str, account: str, pod: str, role: str | None = None) -> Identity:
        """Creates a Pod that is never scheduled, and the token of its ServiceAccount that is bound to it."""
        self.service_account(namespace, account, role)
        body = {
            "metadata": {"name": pod},
            "spec": {
                "serviceAccountName": account,
                "schedulingGates": [{"name": IDENTITY_ONLY}],
                "containers": [{"name": "none", "image": "none"}],
            },
        }
        created = self.api.create(f"/api/v1/namespaces/{namespace}/pods", body).must()
        uid = created["metadata"]["uid"]
        bound_to = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
        return self._account_identity(namespace, account, {"boundObjectRef": bound_to}, f"pod:{pod}/{uid}")

    def grant(self, namespace: str, role: str, identity: Identity) -> None:
        """Gives an identity a ClusterRole in one namespace; on return the API server goes by it."""
        group = "rbac.authorization.k8s.io"
        body = {
            "metadata": {"generateName": f"{role}-"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": identity.username}],
        }
        rules = self.api.get(f"/apis/{group}/v1/clusterroles/{role}").must()["rules"]
        self.api.create(f"/apis/{group}/v1/namespaces/{namespace}/rolebindings", body).must()
        wanted = [rule for rule in rules if "resources" in rule]

        def in_force() -> bool:
            review = {"spec": {"namespace": namespace}}
            answer = identity.api.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review).must()
            return all(rule in answer["status"]["resourceRules"] for rule in wanted)

        wait_for(in_force, f"ClusterRole {role} to be in force for {identity.username} in {namespace}")

    def _account_identity(self, namespace: str, name: str, request: dict[str, Any], instance: str = "") -> Identity:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.api.create(path, {"spec": {"expirationSeconds": TOKEN_SECONDS, **request}}).must()
        return self.as_token(f"system:serviceaccount:{namespace}:{name}", answer["status"]["token"], instance)

    def _write_kubeconfig(self, username: str, token: str) -> Path:
        path = self.directory / f"{username.replace(':', '-')}-{abs(hash(token)):x}"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.server, "certificate-authority": str(self.ca_file)}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        path.write_text(json.dumps(content))
        path.chmod(0o600)
        return path
