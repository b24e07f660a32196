"""The tree of queues as the read API shows it: states, and numbers of each subtree."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from msgspec.structs import replace

from admission.web.past_use import QueuePast, account_of
from admission.web.reader import EVERYTHING, Sight, UnknownName
from queues.quota.queue import ROOT
from queues.read_api import bodies
from queues.resources import show
from queues.sql.read.rows import AccountLine, QueueLine
from queues.workload import QueueName

#: Names that an unknown one is compared with: comparing takes time.
_COMPARED: Final = 200
_BROKEN: Final = "its ancestors form a cycle, or one of them does not exist"
_REMOVED: Final = "its object was deleted; what still runs in it counts until it ends"


def tree(
    lines: Iterable[QueueLine], pasts: Mapping[QueueName, QueuePast] | None = None
) -> tuple[bodies.QueueBody, ...]:
    """Queues as bodies, parents before children and siblings by name; counts are those of the subtree."""
    pasts = pasts or {}
    by_name = {line.name: line for line in lines}
    children: dict[QueueName | None, list[QueueName]] = defaultdict(list)
    for name in sorted(by_name):
        parent = by_name[name].parent
        children[parent if parent in by_name else None].append(name)
    order: list[QueueName] = []
    stack = children[None][::-1]
    while stack:
        order.append(stack.pop())
        stack.extend(reversed(children[order[-1]]))
    order += sorted(by_name.keys() - set(order))  # queues of a cycle are below no root
    lines_in_order = [by_name[name] for name in order]
    paused = _inherited(lines_in_order, lambda line: line.paused)
    closed = _inherited(lines_in_order, lambda line: line.closed)
    counts = {name: (by_name[name].pending, by_name[name].admitted) for name in order}
    for name in reversed(order):
        parent = by_name[name].parent
        if parent in counts and not by_name[name].broken:
            counts[parent] = tuple(map(sum, zip(counts[parent], counts[name], strict=True)))  # type: ignore[assignment]
    return tuple(
        replace(
            _queue(by_name[name], _state(by_name[name], closed, paused), *counts[name], pasts.get(name)),
            paused=name in paused,
        )
        for name in order
    )


def _inherited(lines: Iterable[QueueLine], holds: Callable[[QueueLine], bool]) -> dict[QueueName, QueueName]:
    """Queues for which something holds, each with the nearest queue on its path upwards that states it."""
    said: dict[QueueName, QueueName] = {}
    for line in lines:  # parents come first
        if holds(line):
            said[line.name] = line.name
        elif line.parent in said:
            said[line.name] = said[line.parent]
    return said


def _state(
    line: QueueLine, closed: Mapping[QueueName, QueueName], paused: Mapping[QueueName, QueueName]
) -> tuple[str, str]:
    """The state of a queue, and what is to be said about it."""
    if line.broken:
        return "broken", _BROKEN if line.present else _REMOVED
    if (by := closed.get(line.name)) is not None:
        message = "takes and admits nothing new" + ("" if by == line.name else f", by way of {by}")
        if (stopped := paused.get(line.name)) is not None:
            message += "; paused too" + ("" if stopped == line.name else f", by way of {stopped}")
        return "closed", message
    if (by := paused.get(line.name)) is not None:
        return "paused", "" if by == line.name else f"by way of {by}"
    return "open", ""


def _queue(
    line: QueueLine, said: tuple[str, str], pending: int, admitted: int, past: QueuePast | None
) -> bodies.QueueBody:
    state, message = said
    accounts = tuple(
        _account(account, past)
        for account in sorted(_all_accounts(line.accounts, past), key=lambda a: (a.flavor, a.resource))
    )
    shares = [account.share for account in accounts if account.share is not None]
    with_past = [account.share_with_past for account in accounts if account.share_with_past is not None]
    return bodies.QueueBody(
        name=line.name,
        parent=line.parent,
        state=state,
        message=message,
        changed_by=line.changed_by,
        share=max(shares, default=None),
        pending=pending,
        admitted=admitted,
        accounts=accounts,
        usage_half_life_seconds=None if past is None else past.half_life,
        share_with_past=max(with_past, default=None),
    )


def _all_accounts(lines: Iterable[AccountLine], past: QueuePast | None) -> list[AccountLine]:
    """The accounts of a queue, and accounts in which only past use is left."""
    accounts = {account_of(line): line for line in lines}
    for account in (past.averages or {}) if past is not None else {}:
        accounts.setdefault(account, AccountLine(flavor=account.flavor, resource=account.resource))
    return list(accounts.values())


def _account(line: AccountLine, past: QueuePast | None) -> bodies.AccountBody:
    def shown(units: int | None) -> str | None:
        return None if units is None else show(line.resource, units)

    average = None
    if past is not None and past.averages is not None:
        average = past.averages.get(account_of(line), 0)
    weighed = None if average is None or not line.deserved else (line.used + average) / (2 * line.deserved)
    return bodies.AccountBody(
        flavor=line.flavor,
        resource=line.resource,
        used=show(line.resource, line.used),
        counted=show(line.resource, line.counted),
        guarantee=show(line.resource, line.guarantee),
        deserved=shown(line.deserved),
        capability=shown(line.capability),
        share=round(line.used / line.deserved, 4) if line.deserved else None,
        past_use=shown(average),
        share_with_past=None if weighed is None else round(weighed, 4),
    )


def subtree(lines: Iterable[QueueLine], top: str, sight: Sight = EVERYTHING) -> list[QueueName]:
    """The queue and all queues below it. Raises UnknownName, with visible names that look alike."""
    children: dict[str, list[QueueName]] = defaultdict(list)
    names = {line.name for line in lines}
    for line in lines:
        children[line.parent or ""].append(line.name)
    if top not in names and top != ROOT:
        raise UnknownName(what="queue", name=top, near=names_alike(top, filter(sight.shows_queue, names)))
    found = [QueueName(top)]
    for name in found:
        found.extend(child for child in children[name] if child not in found)
    return found


def names_alike(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names that look like another one, best first; at most three."""
    near_first = sorted(names, key=lambda each: (each[:1] != name[:1], each))
    return tuple(get_close_matches(name, near_first[:_COMPARED], n=3, cutoff=0.7))


def path_to_root(queues: tuple[bodies.QueueBody, ...], start: str) -> tuple[bodies.QueueBody, ...]:
    """The queue of that name and the queues above it."""
    by_name = {queue.name: queue for queue in queues}
    path: list[bodies.QueueBody] = []
    name: str | None = start
    while name in by_name and by_name[name] not in path:
        path.append(by_name[name])
        name = by_name[name].parent
    return tuple(path)
