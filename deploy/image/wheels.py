"""Python packages of the image: wheels of ``requirements.lock``, and Muster's own files."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy.image.errors import ImageError

LOCK: Final = Path(__file__).with_name("requirements.lock")
REPOSITORY: Final = Path(__file__).parents[2]
#: Of the Python that Debian 12 has.
PYTHON: Final = "3.11"
#: Debian's Python finds packages here.
PACKAGES: Final = Path("usr/local/lib/python3.11/dist-packages")
#: The C library of Debian 12 is newer than what each of these asks for.
_PLATFORMS: Final = {
    "amd64": (
        "manylinux_2_34_x86_64",
        "manylinux_2_28_x86_64",
        "manylinux_2_17_x86_64",
        "manylinux2014_x86_64",
    ),
    "arm64": (
        "manylinux_2_34_aarch64",
        "manylinux_2_28_aarch64",
        "manylinux_2_17_aarch64",
        "manylinux2014_aarch64",
    ),
}


def install(root: Path, architecture: str, commit: str) -> None:
    """Put the wheels and Muster below ``root``, without byte code.

    Raises ImageError: also where this Python is another than the image's, as pip reads the lock's conditions by it.
    """
    found = f"{sys.version_info.major}.{sys.version_info.minor}"
    if found != PYTHON:
        raise ImageError(
            f"this is Python {found}, and the image has {PYTHON}: make PYTHON=python{PYTHON} image"
        )
    target = root / PACKAGES
    platforms = [word for platform in _PLATFORMS[architecture] for word in ("--platform", platform)]
    options = [
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
        "--no-warn-conflicts",
        "--target",
        str(target),
    ]
    python = ["--implementation", "cp", "--python-version", PYTHON, *platforms]
    wheels = ["--only-binary=:all:", "--no-deps", "--require-hashes", "--requirement", str(LOCK)]
    _pip("install", *options, *python, *wheels)
    _pip("install", *options, "--no-deps", "--no-build-isolation", "--no-index", str(REPOSITORY))
    # Scripts name the Python that made them: the image has its own. What wheels know of their place may not differ.
    shutil.rmtree(target / "bin", ignore_errors=True)
    for leftover in (*target.glob("*.dist-info/direct_url.json"), *target.glob("*.dist-info/REQUESTED")):
        leftover.unlink()
    for record in target.glob("*.dist-info/RECORD"):
        record.unlink()
    (own,) = target.glob("muster-*.dist-info")
    # The one that was named, where the sources here know none.
    (own / "extra_metadata" / "build.json").write_text(json.dumps({"commit": commit}) + "\n")
    for tests in (*target.rglob("tests"), *target.rglob("__pycache__")):
        if tests.is_dir():
            shutil.rmtree(tests)


def _pip(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageError(f"pip could not install the image's packages: {done.stderr.strip()[-800:]}")


def compile_all(root: Path, python: Sequence[str]) -> None:
    """Byte code for everything, checked against no file at start: the image is read-only.

    Args: python: the command of the image's version; another patch release of 3.11 writes other bytes.
    Raises ImageError.
    """
    folders = [root / PACKAGES, root / "usr/lib/python3.11"]
    options = ["-q", "-j1", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    for folder in folders:
        done = subprocess.run(
            # -B: what it imports may lie below root, and is compiled there as all the rest, not by the import.
            [*python, "-I", "-S", "-B", "-m", "compileall", *options, str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ImageError(f"byte code could not be made: {(done.stdout + done.stderr).strip()[-400:]}")
