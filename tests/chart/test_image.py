"""The image: built without a container engine, the same every time, and its programs run in it as they are started."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

import worklease
from commands import SetupError
from imaging import archive, command, rootfs
from repository import REPOSITORY

MOST_BYTES = 150e6
NAME = f"localhost/worklease:{worklease.__version__}"


@pytest.fixture(scope="module")
def image() -> Path:
    """The archive that hack/image writes."""
    if os.geteuid() != 0 and os.environ.get("CI") != "true":
        pytest.skip("hack/image needs root")
    return command.ensure()


def _read(image: Path, name: str) -> Any:
    with tarfile.open(image) as tar:
        content = tar.extractfile(name)
        assert content is not None
        return json.loads(content.read())


def _configuration(image: Path) -> Any:
    return _read(image, _read(image, "manifest.json")[0]["Config"])


def test_the_image_is_small(image: Path) -> None:
    """Uncompressed, as nodes keep it."""
    assert image.stat().st_size < MOST_BYTES


def test_the_image_runs_the_operator_as_nobody_in_particular(image: Path) -> None:
    """Not root, with a number for the kubelet to see that, and the operator unless told otherwise."""
    told = _configuration(image)["config"]
    assert told["User"] == "65532:65532"
    assert told["Cmd"] == ["worklease-operator"]


def test_an_image_is_found_by_containerd_and_by_docker(image: Path) -> None:
    """Both descriptions name the same layers, and every one is there with its digest."""
    (described,) = _read(image, "index.json")["manifests"]
    manifest = _read(image, f"blobs/{described['digest'].replace(':', '/')}")
    (for_docker,) = _read(image, "manifest.json")
    assert described["annotations"]["io.containerd.image.name"] == NAME
    assert for_docker["RepoTags"] == [NAME]
    assert [f"blobs/{layer['digest'].replace(':', '/')}" for layer in manifest["layers"]] == for_docker["Layers"]
    with tarfile.open(image) as tar:
        assert set(for_docker["Layers"]) <= set(tar.getnames())
    assert _configuration(image)["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]


def test_the_same_content_makes_the_same_image(tmp_path: Path) -> None:
    """Neither the time nor the order in which files were made shows."""
    described = archive.Image("localhost/a:1", "amd64", ["a"], "1:1", [], {})
    digests = []
    for names in (("a", "b"), ("b", "a")):
        layer = tmp_path / "layer"
        layer.mkdir()
        for name in names:
            (layer / name).write_text(name)
        digests.append(archive.write(tmp_path / "image.tar", described, [layer]))
        shutil.rmtree(layer)
    assert digests[0] == digests[1]


def test_without_root_the_builder_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, with the command that does the same with Docker."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(SetupError, match=r"needs root.*docker build -t localhost/worklease:dev \."):
        rootfs.require()


def test_the_dockerfile_makes_the_same_image() -> None:
    """User, command, labels and what is left out are those of hack/image."""
    text = (REPOSITORY / "Dockerfile").read_text()
    assert f"USER {rootfs.USER_ID}:{rootfs.USER_ID}" in text
    assert 'CMD ["worklease-operator"]' in text
    assert f"ARG EXTRAS={','.join(rootfs.EXTRAS)}" in text
    labels = dict(re.findall(r'(org\.opencontainers\.[\w.]+)="([^"]*)"', text))
    version = re.search(r"ARG VERSION=(\S+)", text)
    assert version
    labels["org.opencontainers.image.version"] = version[1]
    assert labels == command.LABELS
    for module in rootfs.UNUSED_MODULES:
        assert f"{module.removeprefix('kubernetes/')}/[!_]*.py" in text
    for program in rootfs.LEFT_OUT_PROGRAMS:
        assert f"/bin/{program}" in text
    assert re.search(r"^ARG PYTHON_IMAGE=python:\d+\.\d+\.\d+-slim-\w+$", text, re.MULTILINE)
