"""``muster replay``: decides a saved turn again, and shows the differences."""

import gzip
import os
import zlib
from pathlib import Path
from typing import Final

import click

from admission.cli.command_line import TRACEBACK, complain

#: Lines that are shown without ``--all``.
_SHOWN: Final = 100

#: How a compressed file begins.
_GZIP: Final = b"\x1f\x8b"

_DIFFERS: Final = 1
_INVALID: Final = 2


@click.command(short_help="Decide a saved turn again.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--all", "everything", is_flag=True, help="Show all lines that differ, not only the first ones."
)
def replay(file: Path, everything: bool) -> int:
    """Decide again the turn that `muster snapshot` saved, or one that a leader could not decide and kept
    (compressed, with an empty plan), and compare the plans.

    Exit code 0: the same plan. 1: another one; the lines that differ are shown as by `diff -u`. 2: FILE is no saved
    turn, or cannot be decided.
    """
    from admission.replay.fingerprint import fingerprint
    from admission.replay.snapshot_file import differences, load, replayed_plan
    from queues.errors import MusterError

    try:
        content = file.read_bytes()
        saved = load(gzip.decompress(content) if content.startswith(_GZIP) else content)
    except OSError as error:  # also a file that only begins as one of gzip
        return _invalid(file, error.strerror or str(error))
    except (EOFError, zlib.error, MusterError) as error:
        return _invalid(file, str(error))
    ours = fingerprint()
    if saved.configuration not in ("", ours):
        click.echo(f"decided by configuration {saved.configuration}, and now by {ours}", err=True)
    try:
        found = list(differences(saved.plan, replayed_plan(saved)))
    except Exception as error:  # exit code 1 means another plan
        if os.environ.get(TRACEBACK):
            raise
        fault = f"it cannot be decided ({type(error).__name__}: {error}). {TRACEBACK}=1 shows where."
        return _invalid(file, fault)
    for line in found if everything else found[:_SHOWN]:
        click.echo(line)
    if not everything and len(found) > _SHOWN:
        click.echo(f"and {len(found) - _SHOWN} more lines; --all shows them")
    snapshot = saved.snapshot
    about = (
        f"{len(snapshot.pending)} pending, {len(snapshot.admissions)} admissions, {len(snapshot.nodes)} nodes"
    )
    if found:
        click.echo(f"{file}: another plan ({about})")
        return _DIFFERS
    click.echo(f"{file}: the same plan ({about})")
    return 0


def _invalid(file: Path, why: str) -> int:
    complain(f"{file}: {why}")
    return _INVALID
