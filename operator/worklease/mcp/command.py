"""The command worklease-mcp: its flags, and over which transport it serves."""

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path

from worklease import __version__
from worklease.addresses import address
from worklease.client.identity import INSTANCE_VARIABLE
from worklease.errors import ConfigurationError, WorkleaseError
from worklease.kube.credentials import Source
from worklease.mcp.agent import Terms
from worklease.mcp.tenure import AtEnd

CA_IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
SHUTDOWN_SECONDS = 10
KEEP_ALIVE_SECONDS = 75


def main(arguments: list[str] | None = None) -> int:
    """Serves until it is ended; exit status 0, or 1 with one line on stderr."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    try:
        if options.http is None:
            from worklease.mcp.stdio import serve

            source = Source(options.kubeconfig, options.context)
            asyncio.run(serve(source, options.instance, _terms(options), operator=options.profile == "operator"))
        else:
            _serve_http(options)
    except (WorkleaseError, OSError) as error:
        print(f"worklease-mcp: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _terms(options: argparse.Namespace) -> Terms:
    return Terms(AtEnd(options.at_end), options.max_silence_seconds or None, options.max_leases)


def _serve_http(options: argparse.Namespace) -> None:
    import uvicorn

    from worklease.mcp.callers import ApiServer
    from worklease.mcp.http import LOOPBACK, application
    from worklease.mcp.sessions import Bounds

    host, port = options.http[0] or "::", options.http[1]
    if host not in LOOPBACK and not options.tls_certificate and not options.plain_http:
        raise ConfigurationError(
            "callers send their Kubernetes tokens: say --tls-certificate and --tls-key, or --plain-http if something "
            "in front of this server has TLS"
        )
    authority = options.certificate_authority or (CA_IN_POD if CA_IN_POD.exists() else None)
    url = options.api_server or _server_in_pod()
    if not url.startswith("https://"):
        raise ConfigurationError(f"--api-server {url}: say https://..., callers' tokens go there")
    server = ApiServer(url, authority)
    bounds = Bounds(options.max_sessions, options.max_sessions_per_user, options.idle_seconds)
    app = application(
        server, options.instance, _terms(options), bounds, host=host, operator=options.profile == "operator"
    )
    uvicorn.run(
        app,
        host=host,
        port=port,
        proxy_headers=False,  # a caller must not name the address that it is counted under
        ssl_certfile=options.tls_certificate,
        ssl_keyfile=options.tls_key,
        log_level="warning",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


def _server_in_pod() -> str:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigurationError("no pod, so --api-server must say where the API server is")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def parser() -> argparse.ArgumentParser:
    """Every flag."""
    whole = argparse.ArgumentParser(
        prog="worklease-mcp", description="Leases on work for agents, as tools: an MCP server over stdio or HTTP."
    )
    whole.add_argument("--version", action="version", version=f"worklease-mcp {__version__}")
    whole.add_argument(
        "--profile", choices=("agent", "operator"), default="agent", help="operator: also end what others hold"
    )
    whole.add_argument(
        "--at-end",
        choices=[str(value) for value in AtEnd],
        default=str(AtEnd.RELEASE),
        help="what becomes of a session's leases at its end; lapse leaves time to resume them. Default: release",
    )
    whole.add_argument(
        "--max-silence-seconds",
        type=_seconds,
        default=900.0,
        metavar="N",
        help="nothing is renewed for an agent that calls nothing for so long; 0: for ever. Default: 900",
    )
    whole.add_argument("--max-leases", type=_count, default=16, metavar="N", help="of one session. Default: 16")
    whole.add_argument(
        "--instance",
        default=os.environ.get(INSTANCE_VARIABLE),
        help="which process this is, when no pod says so; the same again resumes its tenures. Default: "
        "WORKLEASE_INSTANCE, else another one in every process",
    )
    stdio = whole.add_argument_group("over stdio (the default)")
    stdio.add_argument("--context", help="the context of the kubeconfig")
    stdio.add_argument("--kubeconfig", help="default: KUBECONFIG, else the pod's ServiceAccount, else ~/.kube/config")
    http = whole.add_argument_group("over streamable HTTP, at /mcp, each caller by its own Kubernetes token")
    http.add_argument(
        "--http",
        metavar="HOST:PORT",
        type=address,
        help="serve HTTP there; IPv6 as [::1]:8080, every interface as :8080",
    )
    http.add_argument("--api-server", metavar="URL", help="default: the pod's")
    http.add_argument(
        "--certificate-authority", type=Path, metavar="FILE", help="of the API server; default: the pod's"
    )
    http.add_argument("--tls-certificate", metavar="FILE", help="of this server")
    http.add_argument("--tls-key", metavar="FILE", help="of this server")
    http.add_argument("--plain-http", action="store_true", help="serve other hosts without TLS")
    http.add_argument("--max-sessions", type=_count, default=200, metavar="N", help="default: 200")
    http.add_argument("--max-sessions-per-user", type=_count, default=20, metavar="N", help="default: 20")
    http.add_argument(
        "--idle-seconds",
        type=_seconds,
        default=1800.0,
        metavar="N",
        help="a session without a call ends; default: 1800",
    )
    return whole


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"from 0 to 86400 seconds, not {text[:80]!r}")
    return seconds


def _count(text: str) -> int:
    count = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    if not 1 <= count <= 10000:
        raise argparse.ArgumentTypeError(f"from 1 to 10000, not {text[:80]!r}")
    return count
