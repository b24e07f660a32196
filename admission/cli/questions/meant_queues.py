"""Workloads that name a queue that there is not: which one was meant, of those that the user may see."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import structs

from admission.cli.access.read_api import Route, ask
from admission.read_api.bodies import QueueList, WaitingBody
from queues.errors import MusterError
from queues.reason_codes import ReasonCode

Item = TypeVar("Item", bound=WaitingBody)


def with_meant_queues(route: Route, items: Sequence[Item]) -> list[Item]:
    """The items, with names that look alike in the messages of those whose queue does not exist.

    Asks for the queues only if there is such an item; without an answer nothing is added.
    """
    if not any(map(_is_lost, items)):
        return list(items)
    from admission.cli.queue_names import did_you_mean

    try:
        names = [each.name for each in ask(route, "queues", QueueList).items]
    except MusterError:
        return list(items)
    found: list[Item] = []
    for item in items:
        meant = did_you_mean(item.queue, names) if _is_lost(item) else ""
        found.append(_with_hint(item, meant) if meant else item)
    return found


def _is_lost(item: WaitingBody) -> bool:
    return item.reason is not None and item.reason.code == ReasonCode.UNKNOWN_QUEUE


def _with_hint(item: Item, meant: str) -> Item:
    assert item.reason is not None, "only of one that names a queue that there is not"
    message = f"{item.reason.message.rstrip('.')}. {meant}"
    return structs.replace(item, reason=structs.replace(item.reason, message=message))
