"""``muster replay``: decides a saved turn again, and shows the differences."""

import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from admission.cli.failures import TRACEBACK, complain
from admission.cli.removed import removed_option

if TYPE_CHECKING:
    from admission.replay.snapshot_file import Saved

_Answer = TypeVar("_Answer")

#: Differences that are shown without ``--all``.
_SHOWN: Final = 40

#: How a compressed file begins.
_GZIP: Final = b"\x1f\x8b"

_DIFFERS: Final = 1
_INVALID: Final = 2
#: Instead of turns of past days.
_NOT_KEPT: Final = (
    "turns are not kept; `kubectl muster events` and `explain` say what was decided, and `muster snapshot` saves"
    " the present turn as a FILE"
)


@click.command(short_help="Decide a saved turn again.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Show every difference, not only the first ones.")
@removed_option("--at", _NOT_KEPT)
@removed_option("--days", _NOT_KEPT)
def replay(file: Path, everything: bool) -> int:
    """Decide again the turn that `muster snapshot` saved, or one that a leader could not decide and kept
    (compressed, with an empty plan), and compare the plans.

    Exit code 0: the same plan. 1: another one; every difference is a line. 2: FILE is no saved turn, or cannot be
    decided.
    """
    from admission.replay.fingerprint import fingerprint
    from admission.replay.snapshot_file import differences, load, replayed_plan

    def read() -> "Saved":
        content = file.read_bytes()
        return load(gzip.decompress(content) if content.startswith(_GZIP) else content)

    saved = _loaded(str(file), read)
    if saved is None:
        return _INVALID
    ours = fingerprint()
    if saved.configuration not in ("", ours):
        click.echo(f"decided by configuration {saved.configuration}, and now by {ours}", err=True)
    found = _decided(str(file), lambda: list(differences(saved.plan, replayed_plan(saved))))
    if found is None:
        return _INVALID
    for line in found if everything else found[:_SHOWN]:
        click.echo(line)
    if not everything and len(found) > _SHOWN:
        click.echo(f"and {len(found) - _SHOWN} more; --all shows them")
    snapshot = saved.snapshot
    about = (
        f"{len(snapshot.pending)} pending, {len(snapshot.admissions)} admissions, {len(snapshot.nodes)} nodes"
    )
    if found:
        click.echo(f"{file}: another plan, {len(found)} differences ({about})")
        return _DIFFERS
    click.echo(f"{file}: the same plan ({about})")
    return 0


def _loaded(where: str, read: "Callable[[], Saved]") -> "Saved | None":
    """The turn. None if the file has none; what is wrong is printed."""
    from queues.errors import MusterError

    try:
        return read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        complain(f"{where}: {error}")
    except OSError as error:
        complain(f"{where}: {error.strerror}")
    except MusterError as error:
        complain(f"{where}: {error}")
    return None


def _decided(where: str, decide: Callable[[], _Answer]) -> _Answer | None:
    """What was decided. None if it cannot be decided; why is printed, for exit code 1 means another plan."""
    try:
        return decide()
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        complain(
            f"{where}: it cannot be decided ({type(error).__name__}: {error}). {TRACEBACK}=1 shows where."
        )
        return None
