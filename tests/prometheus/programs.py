"""Prometheus and promtool: those on PATH, else Debian's, fetched by apt and unpacked into a cache folder.

    python -m tests.prometheus.programs    # where they are

Nothing is installed, and no script of the package runs.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

PROGRAMS: Final = ("prometheus", "promtool")


class NoPrometheus(Exception):
    """Prometheus is neither on PATH nor available from Debian; the message says why."""


def programs() -> dict[str, Path]:
    """The path of each program by its name. Raises NoPrometheus."""
    found = {name: shutil.which(name) for name in PROGRAMS}
    if all(found.values()):
        return {name: Path(str(path)) for name, path in found.items()}
    home = os.environ.get("XDG_CACHE_HOME")
    root = (Path(home) if home else Path.home() / ".cache") / "muster" / "monitoring" / "prometheus"
    if not root.exists():
        root.parent.mkdir(parents=True, exist_ok=True)
        # Several processes may do so at a time: each unpacks for itself, and one result is kept.
        with tempfile.TemporaryDirectory(dir=root.parent) as temporary:
            unpacked = _unpacked(Path(temporary))
            try:
                unpacked.rename(root)
            except OSError:
                if not root.exists():
                    raise
    return {name: root / "usr" / "bin" / name for name in PROGRAMS}


def _unpacked(folder: Path) -> Path:
    """The files of Debian's package, which apt holds to the signature of its sources. Raises NoPrometheus."""
    state, cache, download, root = (folder / name for name in ("state", "cache", "download", "root"))
    for needed in (state / "lists" / "partial", cache / "archives" / "partial", download):
        needed.mkdir(parents=True)
    # Package lists of our own: those of the machine may be missing or old, and only root could renew them.
    apt = [
        "apt-get",
        f"-oDir::State={state}",
        f"-oDir::Cache={cache}",
        "-oAPT::Sandbox::User=",
        "-oAcquire::Languages=none",
        "-oAcquire::Retries=3",
        "-qq",
    ]
    _run([*apt, "update"], folder)
    _run([*apt, "download", "prometheus"], download)
    (package,) = download.glob("*.deb")
    _run(["dpkg-deb", "--extract", str(package), str(root)], folder)
    return root


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except OSError as error:
        reason = f"{command[0]} cannot be run: {error.strerror}"
    except subprocess.CalledProcessError as error:
        reason = f"{command[0]} failed: {error.stderr.strip()[-400:]}"
    else:
        return
    raise NoPrometheus(
        f"prometheus and promtool are not on PATH, and Debian's cannot be fetched ({reason}): install them"
    )


if __name__ == "__main__":
    try:
        print("\n".join(f"{name}\t{path}" for name, path in programs().items()))
    except NoPrometheus as error:
        sys.exit(str(error))
