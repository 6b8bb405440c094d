"""Whom we are to the API server: the pod's ServiceAccount, or a kubeconfig with all that kubectl understands of it."""

import asyncio
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yaml import YAMLError

from worklease.errors import ConfigurationError
from worklease.kube.library import Configuration, KubeConfigMerger, kube_config

SERVICE_ACCOUNT_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

NAME_ONE = "name a kubeconfig by KUBECONFIG or --kubeconfig"


@dataclass(frozen=True)
class Source:
    """Where credentials come from: a kubeconfig file (and context), else KUBECONFIG, the pod, ~/.kube/config."""

    kubeconfig: str | None = None
    context: str | None = None


class Credentials:
    """The server's address, its TLS and a bearer token that is kept fresh."""

    def __init__(self, configuration: Any, namespace: str, source: Source) -> None:
        self._configuration = configuration
        self._source = source
        self._renewing = asyncio.Lock()
        self.namespace = namespace

    @classmethod
    async def load(cls, source: Source | None = None) -> "Credentials":
        """Raises ConfigurationError when there is nothing to load or it cannot be read."""
        source = source or Source()
        configuration, namespace = await _load(source)
        return cls(configuration, namespace, source)

    @property
    def server(self) -> str:
        return str(self._configuration.host).rstrip("/")

    @property
    def proxy(self) -> str | None:
        return self._configuration.proxy or None

    @property
    def tls_server_name(self) -> str | None:
        return self._configuration.tls_server_name or None

    def ssl_context(self) -> ssl.SSLContext:
        """Raises ConfigurationError when the certificates that are named cannot be read."""
        configuration = self._configuration
        try:
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
        except OSError as error:
            files = ", ".join(str(name) for name in (configuration.ssl_ca_cert, configuration.cert_file) if name)
            raise ConfigurationError(f"the certificates in {files} cannot be used: {error}") from error
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # cluster CAs often lack the key identifiers that it wants
        return context

    async def authorization(self) -> str | None:
        """The value of the Authorization header; None with a client certificate only.

        Raises ConfigurationError when the token that it was read from cannot be read any more.
        """
        try:
            value = await self._configuration.get_api_key_with_prefix("BearerToken")
        except (kube_config.ConfigException, OSError, ValueError) as error:
            raise ConfigurationError(f"the token cannot be read again: {error}") from error
        return str(value) if value else self._configuration.get_basic_auth_token() if self._basic() else None

    def _basic(self) -> bool:
        return bool(self._configuration.username or self._configuration.password)

    async def renew(self, refused: str | None) -> None:
        """Read the credentials again after the server did not accept `refused`; once for all who ask at a time."""
        async with self._renewing:
            if await self.authorization() == refused:
                self._configuration, self.namespace = await _load(self._source)


async def _load(source: Source) -> tuple[Any, str]:
    configuration = Configuration()
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and not source.kubeconfig and not source.context
    if in_pod and not os.environ.get("KUBECONFIG"):
        try:
            kube_config.load_incluster_config(client_configuration=configuration)
            return configuration, await asyncio.to_thread(_pod_namespace)
        except (kube_config.ConfigException, OSError) as error:
            raise ConfigurationError(f"the pod's ServiceAccount cannot be used: {error}") from error
    path = kubeconfig_path(source)
    if not await asyncio.to_thread(_any_exists, path):
        raise ConfigurationError(f"kubeconfig {path} does not exist: {NAME_ONE}")
    try:
        if source.context is not None and source.context not in (known := context_names(path)):
            said = f"kubeconfig {path} has no context {source.context}: those that it has are {', '.join(known)}"
            raise ConfigurationError(said)
        await kube_config.load_kube_config(
            config_file=path, context=source.context, client_configuration=configuration, persist_config=False
        )
        return configuration, _namespace(path, source.context)
    except (kube_config.ConfigException, OSError, KeyError, ValueError, TypeError, YAMLError) as error:
        said = " ".join(str(error).split())
        raise ConfigurationError(f"kubeconfig {path} cannot be used: {said}") from error


def kubeconfig_path(source: Source) -> str:
    """The file that is named, or the files that KUBECONFIG names, or ~/.kube/config.

    Raises ConfigurationError when nothing is named and this user has no home directory.
    """
    if named := source.kubeconfig or os.environ.get("KUBECONFIG"):
        return named
    try:
        return str(Path.home() / ".kube" / "config")
    except RuntimeError as error:
        said = f"this user has no home directory to look for .kube/config in: {NAME_ONE}"
        raise ConfigurationError(said) from error


def context_names(path: str) -> list[str]:
    """The contexts of a kubeconfig; raises what reading it raises."""
    return [str(one["name"]) for one in KubeConfigMerger(path).config["contexts"].value]


def _any_exists(paths: str) -> bool:
    """A ~ of a user without a home directory is taken as it is written."""
    return any(Path(os.path.expanduser(path)).exists() for path in paths.split(os.pathsep) if path)


def _pod_namespace() -> str:
    return Path(SERVICE_ACCOUNT_NAMESPACE).read_text().strip()


def _namespace(path: str, context: str | None) -> str:
    config = KubeConfigMerger(path).config
    name = context or config["current-context"]
    namespace = config["contexts"].get_with_name(name)["context"].safe_get("namespace")
    return str(namespace) if namespace else "default"
