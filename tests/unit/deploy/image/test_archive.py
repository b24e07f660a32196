"""The OCI archive: the same files make the same bytes, and what it says of itself holds."""

import gzip
import io
import json
import os
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from deploy.image import archive


@pytest.fixture
def files(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "usr/bin/python3.11").write_bytes(b"\x7fELF")
    (root / "usr/bin/python3.11").chmod(0o755)
    (root / "usr/bin/python3").symlink_to("python3.11")
    return root


def written(root: Path, name: str) -> bytes:
    file = root.parent / name
    archive.write(root, file, name="muster:1.2.3", architecture="arm64", created=1_700_000_000, commit="abc")
    return file.read_bytes()


def members(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {each.name: tar.extractfile(each).read() for each in tar if each.isreg()}  # type: ignore[union-attr]


def test_times_owners_and_the_order_of_creation_do_not_matter(files: Path) -> None:
    first = written(files, "first.tar")
    os.utime(files / "usr/bin/python3.11", (1, 1))
    (files / "usr/bin/python3").unlink()
    (files / "usr/bin/python3").symlink_to("python3.11")
    assert written(files, "second.tar") == first
    (files / "usr/bin/python3.11").write_bytes(b"\x7fELF!")
    assert written(files, "third.tar") != first


def test_every_digest_is_that_of_its_content(files: Path) -> None:
    content = members(written(files, "image.tar"))
    for path, blob in content.items():
        if path.startswith("blobs/"):
            assert path == f"blobs/sha256/{sha256(blob).hexdigest()}"

    def blob_of(descriptor: dict[str, Any]) -> bytes:
        found = content[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(found) == descriptor["size"]
        return found

    (described,) = json.loads(content["index.json"])["manifests"]
    assert described["platform"] == {"architecture": "arm64", "os": "linux"}
    manifest = json.loads(blob_of(described))
    config = json.loads(blob_of(manifest["config"]))
    (layer,) = manifest["layers"]
    plain = gzip.decompress(blob_of(layer))
    assert config["rootfs"]["diff_ids"] == [f"sha256:{sha256(plain).hexdigest()}"]
    assert (config["architecture"], config["config"]["User"]) == ("arm64", "65532:65532")
    assert config["created"] == "2023-11-14T22:13:20Z"
    assert config["config"]["Labels"]["org.opencontainers.image.revision"] == "abc"


def test_the_layer_has_the_files_with_their_rights_and_nobody_s_name(files: Path) -> None:
    content = members(written(files, "image.tar"))
    (of_docker,) = json.loads(content["manifest.json"])
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content[of_docker["Layers"][0]]))) as layer:
        found = {each.name: each for each in layer}
    assert list(found) == ["tmp", "usr", "usr/bin", "usr/bin/python3", "usr/bin/python3.11"]
    assert (found["tmp"].mode, found["usr/bin/python3.11"].mode) == (0o1777, 0o755)
    assert found["usr/bin/python3"].linkname == "python3.11"
    assert {(each.uid, each.gid, each.uname, each.mtime) for each in found.values()} == {(0, 0, "", 0)}
