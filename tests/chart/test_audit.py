"""hack/audit asks a service of advisories by pip-audit itself; what it did not learn never counts as good news."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import auditing
from auditing import KNOWN, UNKNOWN, NoAnswerError, audit

NAMES = ("GHSA-462w-v97r-4m45", "CVE-2019-10906", "PYSEC-2019-217")
ADVISORY = {
    "schema_version": "1.7.0",
    "id": NAMES[0],
    "aliases": list(NAMES[1:]),
    "summary": "Jinja2 sandbox escape via string formatting",
    "details": "In Pallets Jinja before 2.10.1, str.format_map allows a sandbox escape.",
    "published": "2019-04-10T14:30:24Z",
    "modified": "2024-09-20T14:57:40Z",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "jinja2", "purl": "pkg:pypi/jinja2"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.10.1"}]}],
            "versions": ["2.9.6", "2.10"],
        }
    ],
    "references": [{"type": "ADVISORY", "url": "https://nvd.nist.gov/vuln/detail/CVE-2019-10906"}],
}
"""As OSV's API answers about a package that is known to be vulnerable."""
BROKEN = 500

Tell = Callable[[dict[str, Any]], Any]


class Service:
    """A server with the API of OSV: POST /v1/query about one package and version."""

    def __init__(self) -> None:
        self.tell: Tell = lambda query: {}
        self.asked: list[tuple[str, str]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.asked.append((query["package"]["name"], query["version"]))
                answer = service.tell(query)
                self.send_response(answer if isinstance(answer, int) else 200)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/query"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    """A service that knows of nothing."""
    service = Service()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def tools() -> Path:
    """pip-audit, as hack/audit installs it."""
    return auditing.auditors()


@pytest.fixture
def packages(tmp_path: Path) -> tuple[str, str]:
    """A directory with one package of ours to ask about, one old one, and worklease itself."""
    for name, version in (("jinja2", "2.10"), ("kopf", "1.45"), ("worklease", "0.1.0")):
        metadata = tmp_path / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return "--path", str(tmp_path)


def only_jinja(query: dict[str, Any]) -> Any:
    """Of all packages one is known to be vulnerable."""
    return {"vulns": [ADVISORY]} if query["package"]["name"] == "jinja2" else {}


def test_a_package_that_is_known_to_be_vulnerable_is_reported(
    tools: Path, packages: tuple[str, str], service: Service
) -> None:
    """With the identifier and the version that has it fixed; every package was asked about."""
    service.tell = only_jinja
    findings = audit(tools, *packages, osv_url=service.url)
    assert findings.exit_code == KNOWN
    (line,) = findings.vulnerabilities
    assert line.startswith("jinja2 2.10: ")
    assert line.endswith(", fixed in 2.10.1")
    assert any(known in line for known in NAMES)
    assert {name for name, _ in service.asked} >= {"jinja2", "kopf"}


def test_a_service_that_knows_of_nothing_is_good_news(tools: Path, packages: tuple[str, str], service: Service) -> None:
    """When it has answered about each."""
    findings = audit(tools, *packages, osv_url=service.url)
    assert (findings.exit_code, findings.packages) == (0, 2)


@pytest.mark.parametrize("broken", ["it answers with an error", "nobody is there"])
def test_a_service_that_does_not_answer_is_no_news(
    broken: str, tools: Path, packages: tuple[str, str], service: Service
) -> None:
    """Neither good nor bad: it is told apart from both."""
    service.tell = lambda query: BROKEN
    url = service.url if broken == "it answers with an error" else "http://127.0.0.1:9/v1/query"
    with pytest.raises(NoAnswerError, match="pip-audit failed"):
        audit(tools, *packages, osv_url=url)


@pytest.mark.parametrize(
    ("tell", "code"), [(only_jinja, KNOWN), (lambda query: {}, 0), (lambda query: BROKEN, UNKNOWN)]
)
def test_the_exit_code_tells_what_is_known(
    tell: Tell,
    code: int,
    service: Service,
    packages: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the command itself, of which only the installation is left out here: 0, 1 and 3."""
    service.tell = tell
    installed = tmp_path / "lib" / "python3" / "site-packages"
    installed.mkdir(parents=True)
    for metadata in tmp_path.glob("*.dist-info"):
        metadata.rename(installed / metadata.name)
    monkeypatch.setattr(auditing, "create_with_pip", lambda directory: directory.symlink_to(tmp_path))
    tools = auditing.auditors()
    monkeypatch.setattr(auditing, "auditors", lambda: tools)
    monkeypatch.setattr(auditing, "_install", lambda *arguments, **named: None)
    monkeypatch.setattr(auditing, "write_sbom", lambda *arguments: None)
    assert auditing.main([f"--osv-url={service.url}", f"--sbom={tmp_path / 'sbom.json'}"]) == code
