"""Debian packages of the image: fetched by apt from the sources of this machine, held to ``debian.lock``, unpacked.

Nothing is installed here, and no script of a package runs: a package's files are all that the image gets of it.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from deploy.image.errors import ImageError

LOCK: Final = Path(__file__).with_name("debian.lock")
#: Python without what only people need (readline, curses), root certificates, and the library that wheels expect.
WANTED: Final = ("python3.11", "libstdc++6", "ca-certificates", "tzdata")
#: Needed by scripts of packages, which do not run, or by modules that Muster does not import.
UNWANTED: Final = frozenset(
    {
        *("debconf", "debconf-2.0", "cdebconf", "dpkg", "install-info", "mailcap", "mime-support"),
        *("openssl", "perl", "perl-base", "readline-common", "tar"),
    }
)
ARCHITECTURES: Final = ("amd64", "arm64")
#: These, by the names that machines give themselves.
MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_LINE: Final = re.compile(
    r"(?P<name>[a-z0-9.+-]+) (?P<version>\S+) (?P<architecture>amd64|arm64) (?P<sha256>[0-9a-f]{64}) (?P<path>pool/\S+)"
)
#: Downloads as apt does: by its proxies, and held to a hash.
_APT_HELPER: Final = "/usr/lib/apt/apt-helper"


@dataclass(frozen=True, slots=True, order=True)
class DebianPackage:
    """One line of the lock."""

    name: str
    version: str
    #: Of the image: packages for all architectures are locked once for each.
    architecture: str
    sha256: str
    #: Below any mirror of Debian.
    path: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} {self.architecture} {self.sha256} {self.path}"

    @property
    def file_name(self) -> str:
        """As in the folder of a mirror."""
        return self.path.rsplit("/", 1)[-1]


def locked(architecture: str, lock: Path = LOCK) -> list[DebianPackage]:
    """Packages of an architecture as the lock has them. Raises ImageError."""
    packages = []
    for number, line in enumerate(lock.read_text().splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ImageError(
                f"{lock.name}, line {number}: expected NAME VERSION ARCHITECTURE SHA256 PATH, found {line[:80]!r}"
            )
        packages.append(DebianPackage(**match.groupdict()))
    found = [package for package in packages if package.architecture == architecture]
    if not found:
        raise ImageError(f"{lock.name} has no package for {architecture}: python -m deploy.image lock")
    return found


def fetch(packages: Iterable[DebianPackage], folder: Path) -> dict[DebianPackage, Path]:
    """Files of packages, as locked: those in ``folder`` from before, others from the first source that has them.

    Raises ImageError: no source has a package (any more).
    """
    folder.mkdir(parents=True, exist_ok=True)
    files, missing = {}, []
    for package in packages:
        files[package] = folder / package.file_name
        if not files[package].exists() or sha256(files[package].read_bytes()).hexdigest() != package.sha256:
            missing.append(package)
    if not missing:
        return files
    for source in _sources():
        words = [
            word
            for package in missing
            for word in (source + package.path, str(files[package]), f"SHA256:{package.sha256}")
        ]
        _run(
            _APT_HELPER, "-oAcquire::Retries=3", "-oAPT::Sandbox::User=", "download-file", *words, check=False
        )
        # Held to its hash by apt: what is here is as locked.
        missing = [package for package in missing if not files[package].exists()]
    if missing:
        raise ImageError(
            f"no source of packages has {missing[0].path}"
            + (f" and {len(missing) - 1} more" if missing[1:] else "")
            + ". If Debian has a newer version, renew the lock: python -m deploy.image lock"
        )
    return files


def _sources() -> list[str]:
    said = _run("apt-get", "indextargets", "--format", "$(REPO_URI)")
    return [source if source.endswith("/") else f"{source}/" for source in dict.fromkeys(said.split())]


def _run(command: str, *words: str, check: bool = True) -> str:
    try:
        done = subprocess.run(
            [command, *words], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except FileNotFoundError:
        raise ImageError(
            f"{command} is not here: build the image on Debian 12, or with a container engine "
            "(deploy/image/Containerfile)"
        ) from None
    if check and done.returncode != 0:
        raise ImageError(f"{command} failed: {done.stderr.strip()[-400:]}")
    return done.stdout


class Apt:
    """What the sources of this machine have for one architecture, in indexes of our own below ``folder``."""

    def __init__(self, folder: Path, architecture: str) -> None:
        self.architecture = architecture
        state = folder / f"apt-{architecture}"
        for needed in (state / "lists" / "partial", state / "cache"):
            needed.mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        self._options = [
            f"-oAPT::Architecture={architecture}",
            f"-oAPT::Architectures={architecture}",
            f"-oDir::State={state}",
            f"-oDir::State::lists={state / 'lists'}",
            f"-oDir::State::status={state / 'status'}",
            f"-oDir::Cache={state / 'cache'}",
            "-oAPT::Sandbox::User=",
            "-oAcquire::Languages=none",
            "-oAcquire::Retries=3",
        ]

    def update(self) -> None:
        """Read the indexes anew."""
        _run("apt-get", *self._options, "-qq", "update")

    def closure(self, wanted: Iterable[str] = WANTED) -> list[str]:
        """Names of the packages that these need to run, and they themselves."""
        kinds = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
        unseen, names = set(wanted), set[str]()
        while unseen:
            names |= unseen
            said = _run(
                "apt-cache", *self._options, "depends", *(f"--no-{kind}" for kind in kinds), *sorted(unseen)
            )
            needed = re.findall(r"^ +(?:Pre)?Depends: ([a-z0-9.+-]+)(?::any)?$", said, re.MULTILINE)
            unseen = set(needed) - names - UNWANTED
        return sorted(names)

    def candidates(self, names: Iterable[str]) -> list[DebianPackage]:
        """The newest version of each that the sources have. Raises ImageError."""
        said = _run("apt-cache", *self._options, "show", "--no-all-versions", *names)
        found = []
        for paragraph in said.strip().split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version|SHA256|Filename): (\S+)$", paragraph, re.MULTILINE))
            found.append(
                DebianPackage(
                    fields["Package"],
                    fields["Version"],
                    self.architecture,
                    fields["SHA256"],
                    fields["Filename"],
                )
            )
        return sorted(found)


def unpack(package: Path, root: Path) -> None:
    """Put a package's files below ``root``. Raises ImageError."""
    done = subprocess.run(
        ["dpkg-deb", "--extract", package, root], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ImageError(f"dpkg-deb could not unpack {package.name}: {done.stderr.strip()[-400:]}")


def python_of(root: Path) -> list[str]:
    """The command of the Python that packages below ``root`` have, with their libraries instead of this machine's."""
    [loader] = root.glob("lib/*-linux-gnu/ld-linux-*.so.*")
    libraries = f"{loader.parent}:{root / 'usr' / loader.parent.relative_to(root)}"
    return [str(loader), "--library-path", libraries, str(root / "usr/bin/python3.11")]


def write_lock(
    folder: Path,
    lock: Path = LOCK,
    *,
    wanted: Callable[[Apt], Iterable[str]] = Apt.closure,
    header: str = "# Written by `python -m deploy.image lock`: Debian packages of the image, each with its SHA-256.",
) -> int:
    """Renew a lock from what the sources have now; the number of its packages. ``wanted``: their names."""
    lines = [header]
    for architecture in ARCHITECTURES:
        apt = Apt(folder, architecture)
        apt.update()
        lines += map(str, apt.candidates(wanted(apt)))
    lock.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines) - 1
