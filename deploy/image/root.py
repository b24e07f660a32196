"""The image's root file system: Debian's Python, Muster's packages, one user, and no shell."""

import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Final

from deploy.image import debian, sbom, wheels
from deploy.image.errors import ImageError

#: User and group of the image, as in ``deploy/controller.yaml``.
USER: Final = 65532
#: Commands of the image, with the functions behind them.
COMMANDS: Final = {
    "muster": "admission.cli.muster:main",
    "kubectl-muster": "admission.cli.kubectl_muster:main",
}
_COMMAND: Final = """\
#!/usr/bin/python3.11 -I
import sys

from {module} import {function}

sys.exit({function}())
"""
#: What nobody reads in a container; notices of licences stay.
_UNREAD: Final = (
    *("usr/share/man", "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/bug"),
    *("usr/share/applications", "usr/share/pixmaps", "usr/share/doc-base", "usr/share/gdb", "usr/share/gcc"),
    *("usr/lib/python3.11/pydoc_data", "usr/lib/python3.11/ensurepip", "usr/lib/python3.11/lib2to3"),
    *("usr/lib/python3.11/idlelib", "usr/lib/python3.11/curses", "usr/lib/python3.11/turtledemo"),
    *("usr/sbin", "sbin", "bin", "etc/python3.11"),
)
_EMPTY: Final = ("dev", "proc", "sys", "tmp", "run", "home/nonroot", "var/tmp")


def build(root: Path, cache: Path, architecture: str, commit: str, *, compiled: bool = True) -> None:
    """Write the root file system below ``root``, an empty folder or none.

    Args: cache: packages that were fetched before. commit: of Muster, told by ``muster --version``.
    Raises ImageError.
    """
    if root.exists() and any(root.iterdir()):
        raise ImageError(f"{root} is not empty: name a new folder")
    root.mkdir(parents=True, exist_ok=True)
    packages = debian.locked(architecture)
    for file in debian.fetch(packages, cache / "packages").values():
        debian.unpack(file, root)
    _remove_what_nobody_reads(root)
    _write_certificates(root)
    _write_users(root)
    wheels.install(root, architecture, commit)
    _write_commands(root)
    sbom.write(root, packages)
    if compiled:
        _compile(root, cache, architecture)
    _set_modes_and_times(root)


def _remove_what_nobody_reads(root: Path) -> None:
    for path in _UNREAD:
        shutil.rmtree(root / path, ignore_errors=True)
    for file in (root / "usr/share/doc").rglob("*"):
        if file.is_file() and file.name != "copyright":
            file.unlink()
    programs = root / "usr/bin"
    for program in programs.iterdir():
        if program.name != "python3.11":
            program.unlink()
    # Conversions between character sets, and its own tests: 8 MB that Python does not use.
    for folder in (*root.glob("usr/lib/*-linux-gnu/gconv"), *root.glob("usr/lib/*-linux-gnu/audit")):
        shutil.rmtree(folder)


def _write_certificates(root: Path) -> None:
    """All root certificates in one file, as the package's own script would make it."""
    certificates = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    text = "".join(certificate.read_text().strip() + "\n" for certificate in certificates)
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text(text)
    # Where OpenSSL looks by itself.
    default = root / "usr/lib/ssl/cert.pem"
    default.parent.mkdir(parents=True, exist_ok=True)
    default.unlink(missing_ok=True)
    default.symlink_to("/etc/ssl/certs/ca-certificates.crt")
    shutil.rmtree(root / "usr/share/ca-certificates")


def _write_users(root: Path) -> None:
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text(
        f"root:x:0:0:root:/root:/nonexistent\nnonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/nonexistent\n"
    )
    (root / "etc/group").write_text(f"root:x:0:\nnonroot:x:{USER}:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")


def _write_commands(root: Path) -> None:
    folder = root / "usr/local/bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name, place in COMMANDS.items():
        module, function = place.split(":")
        (folder / name).write_text(_COMMAND.format(module=module, function=function))


def _compile(root: Path, cache: Path, architecture: str) -> None:
    """Byte code by the Python of the locked packages: the same bytes whatever Python builds the image."""
    machine = debian.MACHINES.get(platform.machine(), platform.machine())
    if machine == architecture:
        wheels.compile_all(root, debian.python_of(root))
        return
    # The image's own does not run here; that of this machine's architecture writes the same.
    with tempfile.TemporaryDirectory(prefix="muster-image-python-") as temporary:
        here = Path(temporary)
        for file in debian.fetch(debian.locked(machine), cache / "packages").values():
            debian.unpack(file, here)
        wheels.compile_all(root, debian.python_of(here))


def _set_modes_and_times(root: Path) -> None:
    """The same rights whatever the umask of who builds, and the same times whenever."""
    for folder in _EMPTY:
        (root / folder).mkdir(parents=True, exist_ok=True)
    programs = (root / "usr/bin", root / "usr/local/bin")
    for path in root.rglob("*"):
        if path.is_symlink():
            continue
        executable = path.is_dir() or path.parent in programs or path.name.startswith("ld-linux")
        path.chmod(0o755 if executable else 0o644)
    for folder in ("tmp", "var/tmp"):
        (root / folder).chmod(0o1777)
    # A container engine keeps the times that it finds.
    for path in root.rglob("*"):
        os.utime(path, (0, 0), follow_symlinks=False)
