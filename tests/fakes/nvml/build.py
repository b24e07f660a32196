"""The fake libnvidia-ml.so.1, built from the C files beside this one and kept by a hash of them."""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

NAME: Final = "libnvidia-ml.so.1"
HERE: Final = Path(__file__).parent


def library() -> Path:
    """Path of the library, which is built where it is not there yet. Raises CalledProcessError: gcc refuses it."""
    sources = [*sorted(HERE.glob("*.[ch]")), HERE / "exports.map"]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    built = Path(tempfile.gettempdir()) / f"muster-fake-nvml-{os.getuid()}" / digest / NAME
    if not built.exists():
        _compile(built, [source for source in sources if source.suffix == ".c"])
    return built


def _compile(target: Path, sources: list[Path]) -> None:
    """Several test processes may do this at a time: each builds a file of its own, and the last one stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}")
    subprocess.run(
        [
            *("gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"),
            *(f"-Wl,-soname,{NAME}", f"-Wl,--version-script={HERE / 'exports.map'}"),
            *("-o", str(unfinished)),
            *map(str, sources),
        ],
        check=True,
    )
    unfinished.rename(target)
