"""A root file system as an OCI archive: one layer, the same bytes for the same files.

Format: OCI image layout 1.0 in a tar archive, which ``docker load``, ``podman load``, ``ctr images import``, ``skopeo``
and ``crane`` read.
"""

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from deploy.image.root import USER

_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
#: Of all files in layers; what tells nothing may not differ.
_EPOCH: Final = 0


def write(root: Path, archive: Path, *, name: str, architecture: str, created: int, commit: str) -> str:
    """Write the image; its digest.

    Args: name: the image's, with a tag. created: the commit's time, in seconds since the epoch.
    """
    layer, plain_digest = _layer(root)
    config = _json(
        {
            "created": datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "architecture": architecture,
            "os": "linux",
            "config": {
                "User": f"{USER}:{USER}",
                "WorkingDir": "/home/nonroot",
                "Env": ["PATH=/usr/local/bin:/usr/bin", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"],
                "Cmd": ["muster", "--help"],
                "Labels": {
                    "org.opencontainers.image.title": "Muster",
                    "org.opencontainers.image.licenses": "Apache-2.0",
                    "org.opencontainers.image.revision": commit,
                    "org.opencontainers.image.version": name.rsplit(":", 1)[-1],
                },
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{plain_digest}"]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_LAYER, layer)],
        }
    )
    names = {"org.opencontainers.image.ref.name": name.rsplit(":", 1)[-1], "io.containerd.image.name": name}
    index = {
        "schemaVersion": 2,
        "mediaType": _INDEX,
        "manifests": [
            {
                **_descriptor(_MANIFEST, manifest),
                "platform": {"architecture": architecture, "os": "linux"},
                "annotations": names,
            }
        ],
    }
    # Docker's own list, for `docker load` of versions that do not read OCI layouts.
    of_docker = [{"Config": _blob(config), "RepoTags": [name], "Layers": [_blob(layer)]}]
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(index),
        "manifest.json": _json(of_docker),
        **{_blob(content): content for content in (config, manifest, layer)},
    }
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size, member.mtime, member.mode = len(content), _EPOCH, 0o644
            tar.addfile(member, io.BytesIO(content))
    return f"sha256:{sha256(manifest).hexdigest()}"


def _layer(root: Path) -> tuple[bytes, str]:
    """The files as a compressed tar archive, and the digest of what it is uncompressed."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in _in_order(root):
            member = tar.gettarinfo(path, arcname=str(path.relative_to(root)))
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = _EPOCH
            if member.isreg():
                with path.open("rb") as content:
                    tar.addfile(member, content)
            else:
                tar.addfile(member)
    packed = gzip.compress(plain.getbuffer(), compresslevel=9, mtime=0)
    return packed, sha256(plain.getbuffer()).hexdigest()


def _in_order(root: Path) -> Iterator[Path]:
    # Two names of one file would make the second a link: each file is written whole, in the order of the names.
    yield from sorted(root.rglob("*"))


def _json(body: Any) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _blob(content: bytes) -> str:
    return f"blobs/sha256/{sha256(content).hexdigest()}"


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {
        "mediaType": media_type,
        "digest": f"sha256:{sha256(content).hexdigest()}",
        "size": len(content),
    }
