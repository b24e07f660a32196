"""Names of queues that there are not: one sentence for all commands, with names that look alike."""

from collections.abc import Iterable
from typing import Final

from admission.cli.command_line import CommandFailed
from queues.reason_codes import did_you_mean
from queues.text_format import names_alike

#: Names that are shown, of all there are.
_TOLD: Final = 10


class NoSuchQueue(CommandFailed):
    """{found}. {hint}"""


def no_such_queue(name: str, known: Iterable[str]) -> NoSuchQueue:
    """The error for a queue that there is not. ``known``: names that the user may see."""
    return NoSuchQueue(found=f"There is no queue {name[:60]}", hint=queue_hint(name, known))


def queue_hint(name: str, known: Iterable[str]) -> str:
    """What a name may have meant, or else which queues there are."""
    names = sorted(set(known))
    if alike := did_you_mean(names_alike(name, names)):
        return alike
    if not names:
        return "`kubectl muster queues` lists those that you may see."
    more = f" and {len(names) - _TOLD} more: `kubectl muster queues`" if len(names) > _TOLD else ""
    return f"You may see: {', '.join(names[:_TOLD])}{more}."
