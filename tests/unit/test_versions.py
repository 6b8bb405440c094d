"""One version for the package, the image and the chart, wherever it is written."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

import worklease
from repository import REPOSITORY


def _chart() -> dict[str, str]:
    return dict(yaml.safe_load((REPOSITORY / "charts" / "worklease" / "Chart.yaml").read_text()))


def test_package_image_and_chart_have_one_version() -> None:
    """So that a chart installs the image of its own version."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    found = re.search(r"^ARG VERSION=(\S+)$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    assert found
    versions = {project["version"], found[1], _chart()["version"], _chart()["appVersion"]}
    assert versions == {worklease.__version__}


@pytest.mark.parametrize("name", ["artifacthub.io/crds", "artifacthub.io/crdsExamples", "artifacthub.io/changes"])
def test_what_artifact_hub_shows_is_well_formed(name: str) -> None:
    """Its annotations are texts with YAML in them; a change is of a kind that it knows."""
    entries = yaml.safe_load(_chart()["annotations"][name])  # type: ignore[index]
    assert entries
    for entry in entries:
        if name.endswith("changes"):
            assert entry["kind"] in ("added", "changed", "deprecated", "removed", "fixed", "security")
            assert entry["description"].endswith(".")
