"""Workloads that name a queue that there is not: which one was meant, of those that the user may see."""

from collections.abc import Mapping, Sequence
from typing import Any

from admission.cli.access.read_api import Route, ask
from queues.errors import MusterError
from queues.reason_codes import ReasonCode

Item = Mapping[str, Any]


def with_meant_queues(route: Route, items: Sequence[Item]) -> list[Item]:
    """The items, with names that look alike in the messages of those whose queue does not exist.

    Asks for the queues only if there is such an item; without an answer nothing is added.
    """
    if not any(map(_is_lost, items)):
        return list(items)
    from admission.cli.queue_names import did_you_mean

    try:
        names = [each["name"] for each in ask(route, "queues")["items"]]
    except MusterError:
        return list(items)
    found: list[Item] = []
    for item in items:
        meant = did_you_mean(item["queue"], names) if _is_lost(item) else ""
        found.append(_with_hint(item, meant) if meant else item)
    return found


def _is_lost(item: Item) -> bool:
    return (item["reason"] or {}).get("code") == ReasonCode.UNKNOWN_QUEUE


def _with_hint(item: Item, meant: str) -> Item:
    reason = item["reason"]
    return {**item, "reason": {**reason, "message": f"{reason['message'].rstrip('.')}. {meant}"}}
