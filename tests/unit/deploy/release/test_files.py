"""A release's files: the same bytes from the same commit, and none from a tree that is not a commit."""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from admission.build_info import RECORDED_IN
from deploy.release import files
from deploy.release.build_hook import commit_of
from deploy.release.files import source_commit


def test_two_builds_of_the_python_packages_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        files.python_packages(tmp_path / name, 1_700_000_000)
    one, other = (
        {file.name: sha256(file.read_bytes()).hexdigest() for file in (tmp_path / name).iterdir()}
        for name in ("one", "other")
    )
    assert one == other
    assert {Path(name).suffix for name in one} == {".whl", ".gz"}


def test_the_wheel_tells_its_commit_also_when_it_is_built_from_the_sources(tmp_path: Path) -> None:
    files.python_packages(tmp_path / "built", 1_700_000_000)
    (wheel,), (sources,) = ((tmp_path / "built").glob(each) for each in ("*.whl", "*.tar.gz"))
    with tarfile.open(sources) as tar:
        tar.extractall(tmp_path / "sources", filter="data")
    (unpacked,) = (tmp_path / "sources").iterdir()
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(tmp_path / "again"),
    ]
    subprocess.run(build, cwd=unpacked, capture_output=True, check=True)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert _commit(again) == _commit(wheel) == source_commit()[0]
    assert re.match("[0-9a-f]{40}", _commit(wheel))


def _commit(wheel: Path) -> str:
    """What ``muster --version`` of this wheel tells."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(f".dist-info/{RECORDED_IN}"))
        return str(json.loads(file.read(name))["commit"])


def test_sources_in_the_checkout_of_another_project_do_not_tell_its_commit(tmp_path: Path) -> None:
    for words in (
        ["init"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-m", "one"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, capture_output=True, check=True)
    (tmp_path / "muster").mkdir()
    assert commit_of(tmp_path / "muster") == "unknown"
    assert re.fullmatch("[0-9a-f]{40}", commit_of(tmp_path))


def test_an_archive_does_not_tell_when_and_by_whom_it_was_packed(tmp_path: Path) -> None:
    for name, time in (("one", 1), ("other", 2)):
        (tmp_path / name / "below").mkdir(parents=True)
        (tmp_path / name / "below" / "page.html").write_text("<p>")
        os.utime(tmp_path / name / "below" / "page.html", (time, time))
        files.packed(tmp_path / name, tmp_path / f"{name}.tgz", "muster")
    assert (tmp_path / "one.tgz").read_bytes() == (tmp_path / "other.tgz").read_bytes()
    with tarfile.open(tmp_path / "one.tgz") as tar:
        assert tar.getnames() == ["muster/below/page.html"]


@pytest.mark.parametrize(
    ("commit", "number", "said"),
    [("0123abcd-changed", "0.1.0", "differ from the commit"), ("0123abcd", "99.0.0", "no section")],
)
def test_a_tree_that_cannot_be_published_is_refused(
    commit: str, number: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "source_commit", lambda: (commit, 0))
    with pytest.raises(files.Unpublishable, match=said):
        files.release(tmp_path / "release", number)
    assert not (tmp_path / "release").exists()
