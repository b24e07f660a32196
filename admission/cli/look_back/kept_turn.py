"""``muster replay --at``: a turn that the leader kept, decided again, beside what the decision log says of it."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from admission.cli.access.database import with_database
from admission.cli.failures import CommandFailed

if TYPE_CHECKING:
    from admission.settings import Settings
    from queues.recorded.logged_decisions import LoggedDecision
    from queues.sql.database import Database
    from queues.sql.read.look_back.kept_turns import StoredTurn

#: What to do where no turn is kept.
NONE_KEPT: Final = (
    "The leader keeps turns of the last day, unless turnHistoryMib is 0; "
    "`kubectl muster events` has the decisions of earlier times."
)


class TurnRead(NamedTuple):
    """A turn that was kept, with its lines of the decision log."""

    turn: "StoredTurn"
    log: "tuple[LoggedDecision, ...]"
    #: Lines of the log between the turn and the time that was asked for.
    later: int


def read_turn(settings: "Settings", at: datetime) -> TurnRead:
    """The last turn that was kept at or before a time. Raises CommandFailed: there is none."""

    async def read(database: "Database") -> TurnRead:
        from queues.sql.read.look_back.kept_turns import (
            decisions_after,
            decisions_of,
            kept_span,
            nearest_turn,
        )

        async with database.snapshot() as tx:
            turn = await nearest_turn(tx, at)
            if turn is None:
                span = await kept_span(tx)
                raise _not_kept(at, span.first, span.last, span.count)
            return TurnRead(turn, await decisions_of(tx, turn), await decisions_after(tx, turn, at))

    return with_database("Reading the turns that were kept", settings, read)


def _not_kept(at: datetime, first: datetime | None, last: datetime | None, count: int) -> CommandFailed:
    if first is None or last is None:
        return CommandFailed(tried="", found="no turn is kept in this database", hint=NONE_KEPT)
    there = f"there are {count}, from {clock(first)} to {clock(last)}"
    if count == 1:
        there = f"the only one is of {clock(last)}"
    return CommandFailed(tried="", found=f"no turn at or before {clock(at)} is kept: {there}", hint=NONE_KEPT)


def clock(at: datetime) -> str:
    """A time as these commands print it."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
