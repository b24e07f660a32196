"""Revisions of the schema that this code knows, and which of them may run while an older version is at work.

``NNNN_pre_*`` runs before the new code: the version before can live with it. ``NNNN_post_*`` takes away what only older
versions need, so it runs when none of their replicas is left. By the names of their files: alembic takes 12 MB of
memory, which a replica that finds the schema as it should be does without.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from queues.errors import EmptyDatabase, SchemaTooFarBehind, SchemaTooNew, SchemaTooOld, UnreleasedSchema

#: Beginning of the name of every connection (``pg_stat_activity``); the newest revision that its code knows follows.
SESSION_NAME: Final = "muster"
#: Target of a migration: as far as the version before can live with.
READY: Final = "ready"
#: Target of a migration: everything.
HEAD: Final = "head"


@dataclass(frozen=True, slots=True)
class Revision:
    """One migration."""

    number: str
    #: It runs after the last replica of the version before has ended.
    is_post: bool


@cache
def known_revisions() -> tuple[Revision, ...]:
    """All revisions, the newest last."""
    names = sorted(file.name for file in (files("migrations") / "versions").iterdir())
    parts = [name.split("_") for name in names if name.endswith(".py")]
    return tuple(Revision(number, stage == "post") for number, stage, *_ in parts)


def session_name() -> str:
    """What this code's connections are called: ``muster 0030``."""
    return f"{SESSION_NAME} {known_revisions()[-1].number}"


def is_older_session(name: str) -> bool:
    """True if a connection of this name is of a version of Muster that does not know the newest revision."""
    word, _, number = name.partition(" ")
    return word == SESSION_NAME and number.isdigit() and number < known_revisions()[-1].number


def require_fitting(found: str | None, known: Sequence[Revision] | None = None) -> None:
    """Raises SchemaTooOld, UnreleasedSchema or SchemaTooNew unless this code works on the schema. ``found`` is None for
    an empty database.

    It works on everything from its last ``pre`` revision on.
    """
    revisions = known_revisions() if known is None else known
    numbers = [each.number for each in revisions]
    if found is not None and found < numbers[0]:
        raise UnreleasedSchema(found=found, expected=numbers[0])
    if found is not None and found not in numbers:
        raise SchemaTooNew(found=found, expected=numbers[-1])
    needed = _needed(revisions)
    if found is None:
        raise EmptyDatabase
    if numbers.index(found) < numbers.index(needed):
        raise SchemaTooOld(found=found, expected=needed)


def target_beside_older(found: str | None, known: Sequence[Revision] | None = None) -> str:
    """The revision up to which the schema can be brought while replicas of the version before are at work.

    Raises SchemaTooFarBehind: this code needs a revision that none of them survives. An empty database has none.
    """
    revisions = known_revisions() if known is None else known
    if found is None:
        return revisions[-1].number
    numbers = [each.number for each in revisions]
    needed = _needed(revisions)
    ahead = revisions[numbers.index(found) + 1 : numbers.index(needed) + 1]
    barrier = next((each.number for each in ahead if each.is_post), None)
    if barrier is not None:
        raise SchemaTooFarBehind(found=found, expected=needed, barrier=barrier)
    return max(found, needed)


def _needed(revisions: Sequence[Revision]) -> str:
    """The oldest revision that this code works on."""
    return next(each.number for each in reversed(revisions) if not each.is_post)
