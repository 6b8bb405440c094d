"""Writes directories as the layers of an OCI image, in one tar that `ctr images import` and `docker load` take.

The same content makes the same bytes: entries are sorted, times are zero, and no user's name is kept.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EPOCH_TIME = "1970-01-01T00:00:00Z"
MEDIA = "application/vnd.oci.image"


@dataclass(frozen=True)
class Image:
    """What an image says of itself: its name with a tag, the machine it is for, and how its containers start."""

    name: str
    architecture: str
    command: Sequence[str]
    user: str
    environment: Sequence[str]
    labels: dict[str, str]

    def configuration(self, layers: Sequence[str]) -> dict[str, Any]:
        """The image's configuration, for layers with these digests."""
        return {
            "architecture": self.architecture,
            "os": "linux",
            "created": EPOCH_TIME,
            "config": {
                "User": self.user,
                "Env": list(self.environment),
                "Cmd": list(self.command),
                "WorkingDir": "/",
                "Labels": self.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": list(layers)},
        }


def write(target: Path, image: Image, layers: Sequence[Path]) -> str:
    """Writes the archive, whole or not at all. Returns the digest of the image's manifest."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as work:
        unfinished = Path(work) / target.name
        with tarfile.open(unfinished, "w", format=tarfile.PAX_FORMAT) as archive:
            digest = _write(archive, image, layers, Path(work))
        os.replace(unfinished, target)
    return digest


def _write(archive: tarfile.TarFile, image: Image, layers: Sequence[Path], work: Path) -> str:
    descriptors: list[dict[str, Any]] = []
    for number, directory in enumerate(layers):
        file = work / f"layer-{number}"
        _write_layer(file, directory)
        digest, size = _digest(file), file.stat().st_size
        _add(archive, _blob(digest), size, file)
        descriptors.append({"mediaType": f"{MEDIA}.layer.v1.tar", "digest": digest, "size": size})
        file.unlink()
    configuration = _descriptor(
        archive, f"{MEDIA}.config.v1+json", image.configuration([layer["digest"] for layer in descriptors])
    )
    manifest = _descriptor(
        archive,
        f"{MEDIA}.manifest.v1+json",
        {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": configuration,
            "layers": descriptors,
        },
    )
    names = {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.name.rsplit(":", 1)[1]}
    platform = {"architecture": image.architecture, "os": "linux"}
    index = {"schemaVersion": 2, "manifests": [{**manifest, "platform": platform, "annotations": names}]}
    # docker load reads this file, containerd the index.
    for_docker = [
        {
            "Config": _blob(configuration["digest"]),
            "RepoTags": [image.name],
            "Layers": [_blob(layer["digest"]) for layer in descriptors],
        }
    ]
    _add_json(archive, "index.json", index)
    _add_json(archive, "manifest.json", for_docker)
    _add_json(archive, "oci-layout", {"imageLayoutVersion": "1.0.0"})
    return str(manifest["digest"])


def _write_layer(target: Path, directory: Path) -> None:
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as layer:
        for path in _walk(directory):
            entry = layer.gettarinfo(str(path), str(path.relative_to(directory)))
            entry.mtime = 0
            entry.uname = entry.gname = ""
            if entry.isreg():
                with path.open("rb") as content:
                    layer.addfile(entry, content)
            else:
                layer.addfile(entry)


def _walk(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _descriptor(archive: tarfile.TarFile, media_type: str, content: dict[str, Any]) -> dict[str, Any]:
    data = _json(content)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    _add(archive, _blob(digest), len(data), data)
    return {"mediaType": media_type, "digest": digest, "size": len(data)}


def _add_json(archive: tarfile.TarFile, name: str, content: object) -> None:
    data = _json(content)
    _add(archive, name, len(data), data)


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _add(archive: tarfile.TarFile, name: str, size: int, content: bytes | Path) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    if isinstance(content, bytes):
        archive.addfile(entry, io.BytesIO(content))
    else:
        with content.open("rb") as file:
            archive.addfile(entry, file)
