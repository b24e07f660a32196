"""``muster replay``: decides a turn again, of a file or of the last day, and shows the differences."""

import gzip
import os
import time
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from admission.cli.commands.run import DATABASE, SettingsCommand, settings_from
from admission.cli.failures import TRACEBACK, complain
from admission.cli.times import PastTime
from admission.cli.trials.command import changes

if TYPE_CHECKING:
    from admission.replay.look_back import DecidedAgain
    from admission.replay.snapshot_file import Saved

_Answer = TypeVar("_Answer")

#: Differences that are shown without ``--all``.
_SHOWN: Final = 40

#: How a compressed file begins.
_GZIP: Final = b"\x1f\x8b"

#: Days that are recorded where nothing else is set.
_MOST_DAYS: Final = 90

_DIFFERS: Final = 1
_INVALID: Final = 2


@click.command(
    cls=SettingsCommand, only=DATABASE, short_help="Decide a saved turn, or one of the last day, again."
)
@click.argument("file", type=click.Path(path_type=Path), metavar="[FILE]", required=False)
@click.option("--all", "everything", is_flag=True, help="Show everything, not only the first of each kind.")
@click.option(
    "--at",
    type=PastTime(),
    metavar="TIME",
    help="The last turn of the ledger that was kept at or before then, in place of FILE.",
)
@click.option(
    "--explain",
    metavar="[KIND/]NAME",
    help="With --at: tell why this workload was not admitted, and what would have let it in.",
)
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Its namespace [any].")
@click.option(
    "--days",
    type=click.IntRange(1, _MOST_DAYS),
    metavar="N",
    help="Simulate the work of the last N days, as it was and with the changes below.",
)
@changes
def replay(
    file: Path | None,
    everything: bool,
    at: datetime | None,
    explain: str | None,
    namespace: str | None,
    days: int | None,
    changed: Mapping[str, Any],
    **flags: Any,
) -> int:
    """Decide again the turn that `muster snapshot` saved, or one that a leader could not decide and kept
    (compressed, with an empty plan), and compare the plans.

    --at takes a turn from the ledger's database instead: the leader keeps turns of the last day there, one for each
    minute of the last hour and one for each ten minutes before. It prints what was decided and why, and compares it
    with the plan of that time and with the decision log.

    --days takes the recorded work of the last days instead: when it came, what its seats took and how long it ran. The
    engine simulates these days with the queues and nodes of now, once as they were, and once with other limits
    (--quota), without some nodes (--drain), or with more (--add-nodes). It prints waits, starts, use and evictions of
    queues before and after, and how well the simulation reproduces what was recorded.

    Exit code 0: the same plan. 1: another one; every difference is a line. 2: FILE or what was kept is no saved
    turn, or cannot be decided.
    """
    if [file, at, days].count(None) != 2:
        raise click.UsageError("Expected one of FILE, --at TIME and --days N.")
    if changed and days is None:
        raise click.UsageError("--quota, --drain and --add-nodes are for --days.")
    if at is None and (explain or namespace):
        raise click.UsageError("--explain and --namespace are for --at.")
    if namespace and not explain:
        raise click.UsageError("--namespace is for --explain.")
    if at is not None:
        return _at(at, everything, explain, namespace, flags)
    if days is not None:
        return _days(days, changed, everything, flags)
    assert file is not None
    return _file(file, everything)


def _days(days: int, changed: Mapping[str, Any], everything: bool, flags: dict[str, Any]) -> int:
    from admission.cli.look_back.days import replay_days
    from admission.cli.look_back.days_text import days_text

    now = datetime.fromtimestamp(int(time.time()), UTC)
    replayed, turn_at = replay_days(settings_from(flags), now, days, changed)
    click.echo(days_text(days, replayed, turn_at, everything=everything), nl=False)
    return 0


def _at(
    at: datetime, everything: bool, explain: str | None, namespace: str | None, flags: dict[str, Any]
) -> int:
    from admission.cli.look_back.explained import explained_text
    from admission.cli.look_back.kept_turn import clock, read_turn
    from admission.cli.look_back.replayed import about_turn, replayed_text
    from admission.replay.compressed import load_compressed
    from admission.replay.fingerprint import fingerprint
    from admission.replay.look_back import decided_again

    read = read_turn(settings_from(flags), at)
    where = f"turn of {clock(read.turn.decided_at)}"
    saved = _loaded(where, lambda: load_compressed(read.turn.content))
    again: DecidedAgain | None = None
    if saved is not None:
        again = _decided(where, lambda: decided_again(saved, read.log))
    if again is None:
        return _INVALID
    ours = fingerprint()
    if explain is not None:
        click.echo("\n".join(about_turn(again, read, at, ours)))
        click.echo(explained_text(again, explain, namespace), nl=False)
        return 0
    click.echo(replayed_text(again, read, at, ours, everything=everything), nl=False)
    return 0 if again.is_same() else _DIFFERS


def _file(file: Path, everything: bool) -> int:
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
    """The turn; None: it is none, and what is wrong is printed."""
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
    """What was decided; None: it cannot be, and why is printed: exit code 1 means another plan."""
    try:
        return decide()
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        complain(
            f"{where}: it cannot be decided ({type(error).__name__}: {error}). {TRACEBACK}=1 shows where."
        )
        return None
