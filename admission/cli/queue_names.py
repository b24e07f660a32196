"""Names of queues that there are not: one sentence for all commands, with names that look alike."""

from collections.abc import Iterable
from typing import Final

from admission.cli.command_line import CommandFailed

#: Names that are shown: alike, or of all there are.
_ALIKE: Final = 3
_TOLD: Final = 10
#: Names that an unknown one is compared with: comparing takes time.
_COMPARED: Final = 2000


class NoSuchQueue(CommandFailed):
    """{found}. {hint}"""


def no_such_queue(name: str, known: Iterable[str]) -> NoSuchQueue:
    """The error for a queue that there is not. ``known``: names that the user may see."""
    return NoSuchQueue(found=f"There is no queue {name[:60]}", hint=queue_hint(name, known))


def queue_hint(name: str, known: Iterable[str]) -> str:
    """What a name may have meant, or else which queues there are."""
    names = sorted(set(known))
    if alike := did_you_mean(name, names):
        return alike
    if not names:
        return "`kubectl muster queues` lists those that you may see."
    more = f" and {len(names) - _TOLD} more: `kubectl muster queues`" if len(names) > _TOLD else ""
    return f"You may see: {', '.join(names[:_TOLD])}{more}."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``Did you mean vision?``; "": no name looks alike."""
    from difflib import get_close_matches

    alike = get_close_matches(name, sorted(known)[:_COMPARED], n=_ALIKE, cutoff=0.7)
    return f"Did you mean {' or '.join(alike)}?" if alike else ""
