"""What a change of deserved amounts does to queues, as far as the read API shows what they use now."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from admission.cli.rendering.terminal.sentences import say
from admission.read_api.bodies import AccountBody, QueueBody
from queues.api.quota.quota_changes import Changes
from queues.api.quota.quota_document import Spec, quota_of
from queues.errors import InvalidQuantity
from queues.resources import amount, show
from queues.text_format import counted

#: Queues that the read API shows, by name.
Shown = Mapping[str, QueueBody]


class DeservedChange(NamedTuple):
    """What a queue deserves of a resource, before and after."""

    queue: str
    #: "": of all flavors.
    flavor: str
    resource: str
    #: In units of ``queues.resources``. None if it has no amount of its own.
    before: int | None
    after: int | None


def deserved_changes(queue: str, spec: Spec, changes: Changes) -> list[DeservedChange]:
    """Those among the changes of a queue's limits. ``spec``: before."""
    stated = quota_of(spec)
    return [
        DeservedChange(
            queue,
            field.flavor,
            field.resource,
            _units(field.resource, stated.get(field)),
            _units(field.resource, text),
        )
        for field, text in changes.items()
        if field.limit == "deserved"
    ]


def tell_effects(shown: Shown, changes: Iterable[DeservedChange]) -> None:
    """Print which queues could be reclaimed from, and what waits in them. Queues that are not shown are left out."""
    every = list(changes)
    for each in every:
        used = _used(accounts_of(shown, each.queue), each)
        is_lowered = each.after is not None and (each.before is None or each.after < each.before)
        if used is None or each.after is None or not is_lowered or used <= each.after:
            continue
        now, more = (show(each.resource, units) for units in (used, used - each.after))
        say(
            f"queue {each.queue} uses {now} {each.resource} now: {more} of that would be borrowed, and may be reclaimed"
        )
    waiting = {
        name: shown[name].pending for name in dict.fromkeys(each.queue for each in every) if name in shown
    }
    if any(waiting.values()):
        told = ", ".join(f"{counted(count, 'workload')} in {name}" for name, count in waiting.items())
        say(f"waiting now: {told}")


def accounts_of(shown: Shown, queue: str) -> tuple[AccountBody, ...]:
    """The books of a queue. Empty if it is not shown."""
    return () if (body := shown.get(queue)) is None else body.accounts


def _used(accounts: Iterable[AccountBody], change: DeservedChange) -> int | None:
    account = (change.flavor, change.resource)
    lines = (line for line in accounts if (line.flavor, line.resource) == account)
    return next((_units(change.resource, line.used) for line in lines), None)


def _units(resource: str, text: str | None) -> int | None:
    try:
        return None if text is None else amount(resource, text)
    except InvalidQuantity:
        return None
