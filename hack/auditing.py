"""What hack/audit does: installs worklease as people do, asks for known vulnerabilities, and writes the SBOM.

Exit status: 0 nothing known, 1 a vulnerability is known, 3 not all packages could be looked up, so nothing is known.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands import SetupError, run_logged
from environment import create_with_pip
from locking import cache_directory
from progress import say
from repository import REPOSITORY

TOOLS = ("cyclonedx-bom==7.5.0", "pip-audit==2.10.1")
EXTRAS = "operator,mcp,fencing-sql,fencing-redis,fence"
"""All that is not for developing; pip passes over one that there is not."""
KNOWN, UNKNOWN = 1, 3


@dataclass(frozen=True)
class Findings:
    """What the advisories say: a line for each vulnerability, and the packages that nothing could be learned about."""

    vulnerabilities: list[str]
    unaudited: list[str]
    packages: int

    @property
    def exit_code(self) -> int:
        """A vulnerability counts more than a gap."""
        if self.vulnerabilities:
            return KNOWN
        return UNKNOWN if self.unaudited else 0


class NoAnswerError(SetupError):
    """The advisories could not be asked."""


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="hack/audit", description=__doc__)
    default = REPOSITORY / "dist" / "worklease.cdx.json"
    parser.add_argument("--sbom", type=Path, default=default, help="default: dist/worklease.cdx.json")
    parser.add_argument(
        "--osv-url",
        metavar="URL",
        help="ask this OSV service, .../v1/query, such as a mirror within reach. Default: the package index",
    )
    options = parser.parse_args(arguments)
    sbom: Path = options.sbom.resolve()
    tools = auditors()
    with tempfile.TemporaryDirectory(prefix="worklease-audit-") as work:
        installed = Path(work) / "installed"
        create_with_pip(installed)
        _install(installed, f"{REPOSITORY}[{EXTRAS}]", what="installing worklease with all its extras", usually="30 s")
        sbom.parent.mkdir(parents=True, exist_ok=True)
        write_sbom(tools, installed, sbom)
        packages = ("--path", str(next(installed.glob("lib/python*/site-packages"))))
        try:
            findings = audit(tools, *packages, osv_url=options.osv_url)
        except NoAnswerError as error:
            say(f"nothing could be learned: {error}")
            return UNKNOWN
    for line in findings.vulnerabilities:
        say(line)
    if findings.unaudited:
        say(f"no advisories could be had about {len(findings.unaudited)} of {findings.packages} packages")
    else:
        say(f"{len(findings.vulnerabilities)} known vulnerabilities in {findings.packages} packages")
    say(f"SBOM: {sbom}")
    return findings.exit_code


def audit(tools: Path, *which: str, osv_url: str | None = None) -> Findings:
    """Asks about every distribution that these options of pip-audit choose. Raises NoAnswerError without an answer."""
    service = ["--vulnerability-service=osv", f"--osv-url={osv_url}"] if osv_url else []
    command = [str(tools / "bin" / "pip-audit"), *which, *service, "--format=json", "--progress-spinner=off"]
    answer = subprocess.run(command, capture_output=True, text=True)
    try:
        return read(json.loads(answer.stdout))
    except ValueError:
        last = (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1]
        raise NoAnswerError(f"pip-audit failed: {last[-500:]}") from None


def read(report: dict[str, Any]) -> Findings:
    """What pip-audit's report comes to. worklease and pip are not asked about: neither is a dependency."""
    found = [one for one in report["dependencies"] if one["name"] not in ("worklease", "pip", "setuptools")]
    vulnerabilities = [
        f"{one['name']} {one['version']}: {known['id']}, fixed in {', '.join(known['fix_versions']) or 'no version'}"
        for one in found
        for known in one.get("vulns", [])
    ]
    return Findings(vulnerabilities, [one["name"] for one in found if "skip_reason" in one], len(found))


def write_sbom(tools: Path, installed: Path, target: Path) -> None:
    """A CycloneDX list of everything that is installed in the environment, the same each time."""
    program = str(tools / "bin" / "cyclonedx-py")
    options = ["--output-reproducible", f"--pyproject={REPOSITORY / 'pyproject.toml'}", f"--output-file={target}"]
    answer = subprocess.run([program, "environment", *options, str(installed)], capture_output=True, text=True)
    if answer.returncode:
        raise SetupError(f"cyclonedx-py failed:\n{answer.stderr.strip()[-2000:]}")


def auditors() -> Path:
    """The auditing programs, in an environment of their own, since they bring many packages along."""
    directory = cache_directory() / "audit-tools"
    stamp = directory / "installed"
    if not stamp.exists() or stamp.read_text() != " ".join(TOOLS):
        shutil.rmtree(directory, ignore_errors=True)
        create_with_pip(directory)
        _install(directory, *TOOLS, what="installing pip-audit and cyclonedx-py", usually="20 s")
        stamp.write_text(" ".join(TOOLS))
    return directory


def _install(environment: Path, *packages: str, what: str, usually: str) -> None:
    command = [str(environment / "bin" / "pip"), "install", "--disable-pip-version-check", "--quiet", *packages]
    run_logged(command, what, usually, cache_directory() / "audit.log", REPOSITORY)
