"""Builds the image: ``python -m deploy.image``; see ``--help``."""

import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from deploy.image import archive, debian, root
from deploy.image.errors import ImageError

_REPOSITORY: Final = Path(__file__).parents[2]
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "muster" / "image"


@click.group(invoke_without_command=True)
@click.option(
    "--arch",
    type=click.Choice(debian.ARCHITECTURES),
    default=lambda: _MACHINES.get(platform.machine(), "amd64"),
    help="Architecture of the image; both are built on either.  [default: of this machine]",
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="The archive.  [default: dist/muster-VERSION-ARCH.tar]"
)
@click.option(
    "--root",
    "folder",
    type=click.Path(path_type=Path),
    help="Write only the root file system, into this folder.",
)
@click.option("--name", help="Name and tag of the image.  [default: muster:VERSION]")
@click.pass_context
def main(
    context: click.Context, arch: str, output: Path | None, folder: Path | None, name: str | None
) -> None:
    """Build the image without a container engine, on Debian 12 with Python 3.11."""
    if context.invoked_subcommand is not None:
        return
    number = version("muster")
    commit, committed = _commit()
    if folder is not None:
        root.build(folder, _cache(), arch, commit)
        click.echo(f"{folder}: the root file system for {arch}")
        return
    output = output or _REPOSITORY / "dist" / f"muster-{number}-{arch}.tar"
    name = name or f"muster:{number}"
    with tempfile.TemporaryDirectory(prefix="muster-image-") as temporary:
        built = Path(temporary) / "root"
        root.build(built, _cache(), arch, commit)
        digest = archive.write(built, output, name=name, architecture=arch, created=committed, commit=commit)
    click.echo(f"{output}: {name} for {arch}, {output.stat().st_size / 1e6:.1f} MB, {digest}")


@main.command("lock")
def renew_lock() -> None:
    """Renew debian.lock from what Debian's mirrors have now."""
    number = debian.write_lock(_cache())
    click.echo(f"{debian.LOCK.name}: {number} packages")


def _commit() -> tuple[str, int]:
    """Commit of the repository and its time; a tree without one, as in a release's sources, is told by the time given.

    The time is that of SOURCE_DATE_EPOCH if it is set, as other reproducible builds have it.
    """
    done = subprocess.run(
        ["git", "log", "-1", "--format=%H %ct"], cwd=_REPOSITORY, capture_output=True, text=True, check=False
    )
    commit, time = (*done.stdout.split(), "unknown", "0")[:2] if done.returncode == 0 else ("unknown", "0")
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no"],
        cwd=_REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0 and changed.stdout.strip():
        commit += "-changed"
    return commit, int(os.environ.get("SOURCE_DATE_EPOCH") or time)


if __name__ == "__main__":
    try:
        main(prog_name="python -m deploy.image", standalone_mode=False)
    except ImageError as error:
        print(f"The image cannot be built: {error}", file=sys.stderr)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        sys.exit(1)
