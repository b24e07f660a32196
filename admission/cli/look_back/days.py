"""``muster replay --days``: the work of the last days simulated as it was, and with other quota or nodes."""

import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admission.cli.access.database import with_database
from admission.cli.failures import CommandFailed
from admission.cli.look_back.kept_turn import NONE_KEPT, clock
from queues.text_format import counted

if TYPE_CHECKING:
    from admission.engine.snapshot import Snapshot
    from admission.settings import Settings
    from admission.simulate.past_days import PastDays, Replayed
    from admission.trials.quota_changes import QueueFacts
    from queues.recorded.past_work import PastWorkload
    from queues.sql.database import Database
    from queues.sql.read.look_back.kept_turns import StoredTurn
    from queues.sql.read.rows import QueueLine

#: Seconds of one simulation: a cluster that is full all the time takes long, for many may be evicted in each turn.
MOST_SECONDS: Final = 600.0
#: Seconds between two looks at how far a simulation has come.
_TELL_EVERY: Final = 0.5


class DaysRead(NamedTuple):
    """What is recorded of the days."""

    turn: "StoredTurn"
    work: "tuple[PastWorkload, ...]"
    #: The Queues as they are now.
    queues: "tuple[QueueLine, ...]"


class DaysReplayed(NamedTuple):
    """The days, without and with the changes."""

    days: "PastDays"
    as_it_was: "Replayed"
    #: None: nothing is changed.
    changed: "Replayed | None"
    notes: tuple[str, ...]


def replay_days(
    settings: "Settings", until: datetime, days: int, changed: Mapping[str, Any]
) -> tuple[DaysReplayed, datetime]:
    """The last days, replayed; and the time of the turn whose queues and nodes they were replayed with.

    ``changed``: as ``admission.cli.trials.command.changes`` gives it. Raises CommandFailed, UnusableChange.
    """
    from admission.replay.compressed import load_compressed
    from admission.simulate.past_days import emptied, past_days
    from admission.trials.changes import changed as with_changes

    since = until - timedelta(days=days)
    read = _read(settings, days, since, until)
    newest = load_compressed(read.turn.content).snapshot
    what = past_days(read.work, newest, int(since.timestamp()), int(until.timestamp()))
    if not what.jobs:
        raise CommandFailed(
            tried="", found=f"no work of {last_days(days)} is recorded, or its queues are gone"
        )
    ground = emptied(newest)
    notes: tuple[str, ...] = ()
    other = None
    if changed:
        found = with_changes(ground, _wanted(changed), _facts(read.queues))
        notes, other = found.notes, found.snapshot  # wrong ones are told before the long part begins
    as_it_was = _replayed("as it was", what, ground)
    then = None if other is None else _replayed("with the changes", what, other)
    return DaysReplayed(what, as_it_was, then, notes), read.turn.decided_at


def _read(settings: "Settings", days: int, since: datetime, until: datetime) -> DaysRead:
    async def read(database: "Database") -> DaysRead:
        from admission.simulate.past_days import MOST_WORKLOADS
        from queues.sql.read.look_back.kept_turns import nearest_turn
        from queues.sql.read.look_back.past_work import count_past_work, past_work
        from queues.sql.read.views import queue_overview

        async with database.snapshot() as tx:
            turn = await nearest_turn(tx, until)
            if turn is None:
                raise CommandFailed(tried="", found="no turn is kept in this database", hint=NONE_KEPT)
            count = await count_past_work(tx, since)
            if count > MOST_WORKLOADS:
                raise CommandFailed(
                    tried="",
                    found=f"found {count} workloads of {last_days(days)}, expected at most {MOST_WORKLOADS}",
                    hint="Give fewer --days.",
                )
            return DaysRead(turn, await past_work(tx, since), await queue_overview(tx))

    return with_database("Reading the work of the last days", settings, read)


def _facts(queues: "tuple[QueueLine, ...]") -> "QueueFacts":
    """The Queues as the API server had them, for the rules that a change of quota is held to."""
    import msgspec

    from admission.decode.admin_documents import queue_fact

    documents = (
        {"metadata": {"name": line.name, "uid": ""}, "spec": line.document.get("spec") or {}}
        for line in queues
        if line.present
    )
    facts = (queue_fact(msgspec.json.encode(document)) for document in documents)
    return {fact.queue.name: fact for fact in facts}


def _wanted(changed: Mapping[str, Any]) -> Any:
    from admission.trials.changes import Wanted

    return Wanted(
        quota=tuple(changed.get("quota", ())),
        flavor=changed.get("flavor", ""),
        drain=tuple(changed.get("drain", ())),
        add=tuple((each["count"], each["like"]) for each in changed.get("addNodes", ())),
    )


def _replayed(which: str, days: "PastDays", ground: "Snapshot") -> "Replayed":
    """One simulation; on a terminal how far it has come is told."""
    from admission.simulate.past_days import replayed

    tells, whole = sys.stderr.isatty(), max(1, days.until - days.since)
    told = began = time.monotonic()
    outcome: Replayed | None = None
    for each in replayed(days, ground):
        now = time.monotonic()
        if not isinstance(each, int):
            outcome = each
        elif now - began > MOST_SECONDS:
            raise CommandFailed(
                tried="",
                found=f"the replay {which} has come to {100 * each // whole} % after {MOST_SECONDS:.0f} seconds, "
                "expected it to end within them",
                hint="Give fewer --days.",
            )
        elif tells and now - told > _TELL_EVERY:
            told = now
            print(f"\rreplaying {which}: {100 * each // whole} %", end="", file=sys.stderr, flush=True)
    if tells:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    assert outcome is not None, "a simulation ends with its outcome"
    return outcome


def last_days(days: int) -> str:
    """``the last day``, ``the last 7 days``."""
    return "the last day" if days == 1 else f"the last {days} days"


def title(days: int, replayed: DaysReplayed, turn_at: datetime) -> list[str]:
    """What was replayed, with which queues and nodes."""
    what = replayed.days
    since, until = (datetime.fromtimestamp(at, UTC) for at in (what.since, what.until))
    lines = [
        f"{last_days(days).capitalize()}, {clock(since)} to {clock(until)}: "
        f"{counted(len(what.jobs), 'workload')}",
        f"  with the queues and nodes of {clock(turn_at)}",
        f"  amounts are of {what.resource}",
    ]
    if what.without_queue:
        lines.append(f"  {counted(what.without_queue, 'workload')} of queues that are gone left out")
    return lines
