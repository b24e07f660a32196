"""The lock of Debian packages: what it has, and what is refused."""

from pathlib import Path

import pytest

from deploy.image import debian
from deploy.image.errors import ImageError

LINE = "zlib1g 1:1.2.13.dfsg-1 amd64 " + "d" * 64 + " pool/main/z/zlib/zlib1g_1.2.13.dfsg-1_amd64.deb"


@pytest.mark.parametrize("architecture", debian.ARCHITECTURES)
def test_the_lock_has_what_python_needs_for_each_architecture(architecture: str) -> None:
    packages = debian.locked(architecture)
    names = [package.name for package in packages]
    assert names == sorted(set(names))
    assert {*debian.WANTED, "libc6", "libssl3", "python3.11-minimal"} <= set(names)
    assert not debian.UNWANTED & set(names)


def test_the_lock_names_no_mirror() -> None:
    assert "://" not in debian.LOCK.read_text()


def test_a_line_of_the_lock_is_read_as_it_is_written(tmp_path: Path) -> None:
    lock = tmp_path / "debian.lock"
    lock.write_text(f"# comment\n{LINE}\n")
    (package,) = debian.locked("amd64", lock)
    assert (package.name, package.version) == ("zlib1g", "1:1.2.13.dfsg-1")
    assert package.file_name == "zlib1g_1.2.13.dfsg-1_amd64.deb"
    assert str(package) == LINE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LINE.replace("d" * 64, "beef"), "line 1: expected NAME VERSION ARCHITECTURE SHA256 PATH"),
        (LINE.replace("pool/", "../"), "line 1: expected"),
        (LINE.replace("amd64 ", "arm64 "), "has no package for amd64"),
    ],
)
def test_a_lock_that_cannot_be_read_is_refused(text: str, said: str, tmp_path: Path) -> None:
    lock = tmp_path / "debian.lock"
    lock.write_text(text + "\n")
    with pytest.raises(ImageError, match=said):
        debian.locked("amd64", lock)


def test_a_package_that_is_here_as_locked_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # SHA-256 of nothing.
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    package = debian.DebianPackage("empty", "1", "amd64", digest, "pool/main/e/empty/empty_1_all.deb")
    (tmp_path / "empty_1_all.deb").touch()
    monkeypatch.setenv("PATH", "")
    assert debian.fetch([package], tmp_path) == {package: tmp_path / "empty_1_all.deb"}
    (tmp_path / "empty_1_all.deb").write_text("something else")
    with pytest.raises(ImageError, match="apt-get is not here"):
        debian.fetch([package], tmp_path)


def test_python_of_unpacked_packages_takes_none_of_this_machine_s_libraries(tmp_path: Path) -> None:
    libraries = tmp_path / "lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    loader = libraries / "ld-linux-x86-64.so.2"
    loader.touch()
    assert debian.python_of(tmp_path) == [
        str(loader),
        "--library-path",
        f"{libraries}:{tmp_path / 'usr/lib/x86_64-linux-gnu'}",
        str(tmp_path / "usr/bin/python3.11"),
    ]
