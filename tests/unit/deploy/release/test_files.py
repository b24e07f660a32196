"""A release's files: the same bytes from the same commit, and none from a tree that is not a commit."""

import gzip
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from deploy.release import files


def test_two_builds_of_the_python_packages_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        files.python_packages(tmp_path / name, 1_700_000_000)
    one, other = (
        {file.name: sha256(file.read_bytes()).hexdigest() for file in (tmp_path / name).iterdir()}
        for name in ("one", "other")
    )
    assert one == other
    assert {Path(name).suffix for name in one} == {".whl", ".gz"}


def test_an_archive_does_not_tell_when_and_by_whom_it_was_packed(tmp_path: Path) -> None:
    for name, time in (("one", 1), ("other", 2)):
        (tmp_path / name / "below").mkdir(parents=True)
        (tmp_path / name / "below" / "page.html").write_text("<p>")
        (tmp_path / name / "sitemap.xml.gz").write_bytes(gzip.compress(b"<xml>", mtime=time))
        files.packed(tmp_path / name, tmp_path / f"{name}.tgz", "muster")
    assert (tmp_path / "one.tgz").read_bytes() == (tmp_path / "other.tgz").read_bytes()
    with tarfile.open(tmp_path / "one.tgz") as tar:
        assert tar.getnames() == ["muster/below/page.html", "muster/sitemap.xml.gz"]


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
