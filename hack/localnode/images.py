"""Images as OCI archives: the one of a single program is written here, and any can be given to a node."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

CREATED = "1970-01-01T00:00:00Z"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write(archive: Path, name: str, program: Path) -> None:
    """Writes an image that has one static program and starts it."""
    system = {"architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    layer = _tar({program.name: (program.read_bytes(), 0o755)})
    blobs: dict[str, bytes] = {}

    def blob(media_type: str, content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {
            "mediaType": f"application/vnd.oci.image.{media_type}",
            "digest": f"sha256:{digest}",
            "size": len(content),
        }

    layer_descriptor = blob("layer.v1.tar", layer)
    content = {
        **system,
        "created": CREATED,
        "config": {"Entrypoint": [f"/{program.name}"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [layer_descriptor["digest"]]},
    }
    config = blob("config.v1+json", json.dumps(content).encode())
    manifest = {"schemaVersion": 2, "config": config, "layers": [layer_descriptor]}
    described = blob("manifest.v1+json", json.dumps(manifest).encode())
    annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [{**described, "platform": system, "annotations": annotations}]}
    files = {**blobs, "index.json": json.dumps(index).encode(), "oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    archive.write_bytes(_tar({path: (data, 0o644) for path, data in files.items()}))


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for path, (content, mode) in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()
