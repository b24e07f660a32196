"""The files of a release: wheel, sources, chart, and the hashes of all of them."""

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from deploy.release.build_hook import FILE, commit_of, git

_REPOSITORY: Final = Path(__file__).parents[2]
_CHANGES: Final = _REPOSITORY / "docs" / "changelog.md"
_CHART: Final = _REPOSITORY / "deploy" / "chart"


class Unpublishable(Exception):
    """What this tree has that no release may have."""


def release(folder: Path, number: str) -> list[Path]:
    """Build everything into ``folder``, anew.

    Raises Unpublishable: the tree differs from its commit, or the changelog knows nothing of the version.
    """
    commit, committed = source_commit()
    if commit.endswith("-changed"):
        raise Unpublishable("files differ from the commit: commit or stash them first")
    if f"## {number}" not in _CHANGES.read_text():
        raise Unpublishable(f"{_CHANGES.name} has no section “## {number}”: write what changed for users")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    python_packages(folder, committed)
    packed(_CHART, folder / f"muster-chart-{number}.tgz", "muster")
    return [*_listed(folder)]


def python_packages(folder: Path, committed: int) -> None:
    """The wheel and the sources. Raises Unpublishable."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)],
        cwd=_REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        # The earliest time that a wheel can have is of 1980.
        env={**os.environ, "SOURCE_DATE_EPOCH": str(max(committed, 315_532_800))},
    )
    if done.returncode != 0:
        raise Unpublishable(f"hatchling failed: {done.stderr.strip()[-400:]}")


def source_commit() -> tuple[str, int]:
    """The commit of this tree, as wheels say it too, and the time of that commit; 0 if there is none.

    SOURCE_DATE_EPOCH sets the time, as in other reproducible builds.
    """
    commit = commit_of(_REPOSITORY)
    time = os.environ.get("SOURCE_DATE_EPOCH")
    if time is None and not (_REPOSITORY / FILE).exists():
        time = git(_REPOSITORY, "log", "-1", "--format=%ct")
    return commit, int(time or 0)


def packed(source: Path, file: Path, top: str) -> None:
    """A folder as a compressed tar archive below the name ``top``: the same bytes for the same files."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(source.rglob("*")):
            if not path.is_file():
                continue
            member = tarfile.TarInfo(f"{top}/{path.relative_to(source)}")
            content = path.read_bytes()
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    file.write_bytes(gzip.compress(plain.getbuffer(), compresslevel=9, mtime=0))


def _listed(folder: Path) -> Iterator[Path]:
    files = sorted(folder.iterdir())
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files))
    yield from (*files, sums)
