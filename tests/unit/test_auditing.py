"""What hack/audit makes of pip-audit's report: what it could not learn is never taken for good news."""

from __future__ import annotations

from auditing import KNOWN, UNKNOWN, read

FINE = {"name": "kopf", "version": "1.45", "vulns": []}
BAD = {"name": "aiohttp", "version": "3.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1", "4.0"]}]}
SKIPPED = {"name": "pydantic", "skip_reason": "not found"}


def test_nothing_known_is_good_news() -> None:
    """When every package could be looked up."""
    assert read({"dependencies": [FINE]}).exit_code == 0


def test_a_vulnerability_is_told_with_its_remedy() -> None:
    """Package, version, identifier and the versions that have it fixed."""
    findings = read({"dependencies": [FINE, BAD, SKIPPED]})
    assert findings.vulnerabilities == ["aiohttp 3.0: PYSEC-1, fixed in 3.1, 4.0"]
    assert findings.exit_code == KNOWN


def test_a_package_that_could_not_be_looked_up_is_not_taken_for_safe() -> None:
    """The exit code tells it apart from both."""
    findings = read({"dependencies": [FINE, SKIPPED]})
    assert findings.unaudited == ["pydantic"]
    assert findings.exit_code == UNKNOWN


def test_worklease_itself_is_not_asked_about() -> None:
    """It is not among its own dependencies."""
    assert read({"dependencies": [{"name": "worklease", "skip_reason": "not found"}]}).packages == 0
