"""Prometheus and promtool: those on PATH, else Debian's, held to ``debian.lock`` and unpacked into a cache folder.

    python -m deploy.monitoring.prometheus         # where they are
    python -m deploy.monitoring.prometheus lock    # renew the lock

Nothing is installed, and no script of the package runs.
"""

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from deploy.image import debian
from deploy.image.errors import ImageError

LOCK: Final = Path(__file__).with_name("debian.lock")
PROGRAMS: Final = ("prometheus", "promtool")
_HEADER: Final = "# Written by `python -m deploy.monitoring.prometheus lock`: each package with its SHA-256."


class NoPrometheus(Exception):
    """Prometheus is neither on PATH nor to be had from Debian; the message says why."""


def programs() -> dict[str, Path]:
    """The path of each program by its name. Raises NoPrometheus."""
    found = {name: shutil.which(name) for name in PROGRAMS}
    if all(found.values()):
        return {name: Path(str(path)) for name, path in found.items()}
    machine = platform.machine()
    if sys.platform != "linux" or machine not in debian.MACHINES:
        raise NoPrometheus(
            f"prometheus and promtool are not on PATH, and there is no package for {machine}: install them"
        )
    try:
        return _unpacked(_cache_folder(), debian.MACHINES[machine])
    except ImageError as error:
        raise NoPrometheus(
            f"prometheus and promtool are not on PATH, and Debian's cannot be had ({error}): install them, "
            "or renew the lock with python -m deploy.monitoring.prometheus lock"
        ) from error


def _unpacked(folder: Path, architecture: str) -> dict[str, Path]:
    [package] = debian.locked(architecture, LOCK)
    root = folder / f"{package.name}-{package.version}-{architecture}"
    if not root.exists():
        files = debian.fetch([package], folder)
        # Several may do so at a time: each unpacks for itself, and one of them is kept.
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            fresh = Path(temporary) / "root"
            debian.unpack(files[package], fresh)
            try:
                fresh.rename(root)
            except OSError:
                if not root.exists():
                    raise
    return {name: root / "usr" / "bin" / name for name in PROGRAMS}


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "muster" / "monitoring"


def write_lock(folder: Path, lock: Path = LOCK) -> int:
    """Renew the lock from what the sources have now; the number of its packages. Raises ImageError.

    Only the package itself is locked: of the others it needs the C library, which each machine has.
    """
    return debian.write_lock(folder, lock, wanted=lambda _: ["prometheus"], header=_HEADER)


def main(arguments: list[str]) -> int:
    """Print where the programs are, or renew the lock."""
    try:
        if arguments == ["lock"]:
            folder = _cache_folder()
            folder.mkdir(parents=True, exist_ok=True)
            print(f"{LOCK.name}: {write_lock(folder)} packages")
        elif arguments:
            print(f"found {' '.join(arguments)}, expected nothing or: lock", file=sys.stderr)
            return 2
        else:
            print("\n".join(f"{name}\t{path}" for name, path in programs().items()))
    except (ImageError, NoPrometheus) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
