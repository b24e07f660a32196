"""``muster replay``: decides a saved turn again and shows the differences."""

import gzip
import os
import zlib
from pathlib import Path
from typing import Final

import click

from admission.cli.failures import TRACEBACK, complain

#: Differences that are shown without ``--all``.
_SHOWN: Final = 40

#: How a compressed file begins.
_GZIP: Final = b"\x1f\x8b"

_DIFFERS: Final = 1
_INVALID: Final = 2


@click.command(short_help="Decide a saved turn again.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--all", "everything", is_flag=True, help=f"Show all differences, not only {_SHOWN}.")
def replay(file: Path, everything: bool) -> int:
    """Decide again the turn that `muster snapshot` saved, or one that a leader could not decide and kept
    (compressed, with an empty plan), and compare the plans.

    Exit code 0: the same plan. 1: another one; every difference is a line. 2: FILE is no saved turn, or
    cannot be decided.
    """
    from admission.replay.fingerprint import fingerprint
    from admission.replay.snapshot_file import differences, load, replayed_plan
    from queues.errors import MusterError

    try:
        content = file.read_bytes()
        saved = load(gzip.decompress(content) if content.startswith(_GZIP) else content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        complain(f"{file}: {error}")
        return _INVALID
    except OSError as error:
        complain(f"{file}: {error.strerror}")
        return _INVALID
    except MusterError as error:
        complain(f"{file}: {error}")
        return _INVALID
    ours = fingerprint()
    if saved.configuration not in ("", ours):
        click.echo(f"decided by configuration {saved.configuration}, and now by {ours}", err=True)
    try:
        found = list(differences(saved.plan, replayed_plan(saved)))
    except Exception as error:  # exit code 1 means another plan
        if os.environ.get(TRACEBACK):
            raise
        complain(
            f"{file}: it cannot be decided ({type(error).__name__}: {error}). {TRACEBACK}=1 shows where."
        )
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
