"""The chart as it is published: a package that installs the same, an index, and what Artifact Hub reads of both."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import worklease
from repository import REPOSITORY
from support.helm import CHART, NAMESPACE, RELEASE, Helm

MOST_BYTES = 200_000
KINDS_OF_CHANGE = {"added", "changed", "deprecated", "removed", "fixed", "security"}
CAPABILITIES = {"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}


@pytest.fixture
def package(helm: Helm, tmp_path: Path) -> Path:
    """What helm package makes of the chart."""
    helm.must("package", str(CHART), "--destination", str(tmp_path))
    return tmp_path / f"worklease-{worklease.__version__}.tgz"


def chart_annotations() -> dict[str, str]:
    """Those of Chart.yaml."""
    return dict(yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"])


def test_the_package_has_every_file_of_the_chart_and_no_other(package: Path) -> None:
    """Those that are in version control; what Artifact Hub shows is among them: README, schema and values."""
    with tarfile.open(package) as archive:
        packed = {name.removeprefix("worklease/") for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files", "."], cwd=CHART, capture_output=True, text=True, check=True)
    assert packed == set(listed.stdout.split()) - {".helmignore"}
    assert packed >= {"Chart.yaml", "README.md", "values.yaml", "values.schema.json"}
    assert package.stat().st_size < MOST_BYTES


def test_the_package_renders_what_the_folder_renders(helm: Helm, package: Path) -> None:
    """Nothing is lost or ignored on the way."""
    place = f"--namespace={NAMESPACE}"
    assert helm.must("template", RELEASE, str(package), place) == helm.must("template", RELEASE, str(CHART), place)


def test_the_package_is_listed_in_an_index(helm: Helm, package: Path) -> None:
    """With its digest and the annotations for Artifact Hub."""
    helm.must("repo", "index", str(package.parent))
    (entry,) = yaml.safe_load((package.parent / "index.yaml").read_text())["entries"]["worklease"]
    assert entry["version"] == worklease.__version__
    assert entry["annotations"] == chart_annotations()
    assert re.fullmatch("[0-9a-f]{64}", entry["digest"])


def test_what_artifact_hub_reads_of_the_chart_has_its_form() -> None:
    """Its annotations are lists and words of its own, kept as text."""
    given = chart_annotations()
    assert given["artifacthub.io/operatorCapabilities"] in CAPABILITIES
    assert given["artifacthub.io/operator"] in ("true", "false")
    for change in yaml.safe_load(given["artifacthub.io/changes"]):
        assert change["kind"] in KINDS_OF_CHANGE
        assert change["description"]
    kinds = {(kind["kind"], kind["version"], kind["name"]) for kind in yaml.safe_load(given["artifacthub.io/crds"])}
    assert kinds == {
        ("WorkLease", "v1alpha1", "workleases.worklease.dev"),
        ("Handoff", "v1alpha1", "handoffs.worklease.dev"),
    }


def test_what_artifact_hub_reads_of_the_repository_has_its_form() -> None:
    """Only fields that it knows; nothing that is published is ignored."""
    content: dict[str, Any] = yaml.safe_load((REPOSITORY / "charts" / "artifacthub-repo.yml").read_text())
    assert set(content) <= {"repositoryID", "owners", "ignore"}
    for ignored in content.get("ignore", []):
        assert not re.search(ignored["version"], worklease.__version__)
