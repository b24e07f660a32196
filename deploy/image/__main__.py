"""Builds the image: ``python -m deploy.image``; see ``--help``."""

import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from deploy.image import archive, debian, root
from deploy.image.errors import ImageError
from deploy.release.build_hook import FILE, commit_of, git

_REPOSITORY: Final = Path(__file__).parents[2]


def cache_folder() -> Path:
    """Where packages stay that were fetched."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "muster" / "image"


@click.group(invoke_without_command=True)
@click.option(
    "--arch",
    type=click.Choice(debian.ARCHITECTURES),
    default=lambda: debian.MACHINES.get(platform.machine(), "amd64"),
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
@click.option("--commit", "given", help="What it is built from.  [default: the repository's commit]")
@click.pass_context
def main(
    context: click.Context,
    arch: str,
    output: Path | None,
    folder: Path | None,
    name: str | None,
    given: str | None,
) -> None:
    """Build the image without a container engine, on Debian 12 with Python 3.11."""
    if context.invoked_subcommand is not None:
        return
    number = version("muster")
    commit, committed = source_commit()
    commit = given or commit
    if folder is not None:
        root.build(folder, cache_folder(), arch, commit)
        click.echo(f"{folder}: the root file system for {arch}")
        return
    output = output or _REPOSITORY / "dist" / f"muster-{number}-{arch}.tar"
    name = name or f"muster:{number}"
    with tempfile.TemporaryDirectory(prefix="muster-image-") as temporary:
        built = Path(temporary) / "root"
        root.build(built, cache_folder(), arch, commit)
        digest = archive.write(built, output, name=name, architecture=arch, created=committed, commit=commit)
    click.echo(f"{output}: {name} for {arch}, {output.stat().st_size / 1e6:.1f} MB, {digest}")


@main.command("lock")
def renew_lock() -> None:
    """Renew debian.lock from what Debian's mirrors have now."""
    number = debian.write_lock(cache_folder())
    click.echo(f"{debian.LOCK.name}: {number} packages")


def source_commit() -> tuple[str, int]:
    """What this tree is, as wheels tell it too, and the time of its commit; 0 where there is none.

    SOURCE_DATE_EPOCH sets the time, as in other reproducible builds.
    """
    commit = commit_of(_REPOSITORY)
    time = os.environ.get("SOURCE_DATE_EPOCH")
    if time is None and not (_REPOSITORY / FILE).exists():
        time = git(_REPOSITORY, "log", "-1", "--format=%ct")
    return commit, int(time or 0)


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
