"""``kubectl muster queues``: the tree of queues, what each uses and what it may use."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import click
from msgspec import structs

from admission.cli.access.requests import Route, ask
from admission.cli.names import no_such_queue, shown_resource
from admission.cli.options import QUEUE, route
from admission.cli.output import Output, output
from admission.cli.rendering.quota import unless_zero
from admission.cli.rendering.terminal import (
    Cell,
    TableColumn,
    age,
    branches,
    filled,
    fits,
    item_table,
    rounded,
    say,
    short_resource,
)
from queues.read_api.bodies import AccountBody, QueueBody, QueueList
from queues.text_format import short_duration

_GPU: Final = "nvidia.com/gpu"
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage", "pods")
#: Characters of a bar.
_BAR: Final = 16

#: Where a queue has no account of a resource.
_NOTHING: Final = AccountBody(
    flavor="",
    resource="",
    used="0",
    counted="0",
    guarantee="0",
    deserved=None,
    capability=None,
    share=None,
    past_use="0",
)


@click.command(short_help="The tree of queues: use, limits, waiting workloads.")
@click.argument("names", metavar="[QUEUE]...", type=QUEUE, nargs=-1)
@click.option(
    "--resource",
    metavar="NAME",
    help="Resource to show, such as gpu or cpu [gpu, or what there is]; wide: all.",
)
@output
@route
def queues(names: tuple[str, ...], resource: str | None, output: Output, route: Route) -> int:
    """Show the tree of queues: what each uses, deserves and may use, and how many workloads wait.

    Numbers are those of the whole subtree. LOANS: what is lent to a queue (+) or by it (-), and for how long still;
    DESERVED is with it. Where past use counts (usageHalfLife), SHARE is of half of USED and half
    of PAST-USE. Below is how the queues stand in which work waits.
    With names: only these queues and what is below them. Of a resource that no queue has, zeros are shown.
    """
    body = ask(route, "queues", QueueList)
    chosen = below(body.items, names)
    for missing in sorted(set(names) - {queue.name for queue in chosen}):
        raise no_such_queue(missing, [queue.name for queue in body.items])
    resource = chosen_resource(resource, body.items)

    def shown() -> str:
        if any(_is_unread(queue) for queue in chosen):
            say("Past use is not known yet: the leader has not summed it up.", err=True)
        text = queue_table(chosen, output, resource=resource, now=body.now)
        if not output.headers or output.is_wide:
            return text
        is_whole = fits(text, output.room)
        if not is_whole:
            text = overview_table(chosen, output, resource=resource)
        lines = (_sentence(queue, resource, with_message=not is_whole) for queue in chosen)
        return text + "".join(filled(line, output.room, hanging="  ") for line in lines)

    return output.show(
        structs.replace(body, items=tuple(chosen)),
        shown,
        nothing="You may see no queue: you lack the ClusterRole muster-queue-viewer, or there is none yet.",
        name=lambda queue: f"queue/{queue.name}",
    )


def _sentence(queue: QueueBody, resource: str | None, *, with_message: bool) -> str:
    """What is to be known of a queue besides its numbers, and how it stands if work waits there; "": nothing is."""
    standing = account_of(queue, resource or usual_resource([queue])).standing if queue.pending else ""
    parts = [part for part in (queue.message if with_message else "", standing) if part]
    return f"{queue.name}: {'; '.join(parts)}\n" if parts else ""


def below(queues: Sequence[QueueBody], names: Iterable[str]) -> list[QueueBody]:
    """The named queues with their subtrees; without names all queues."""
    kept = set(names)
    if not kept:
        return list(queues)
    chosen: list[QueueBody] = []
    for queue in queues:  # parents come first
        if queue.name in kept or queue.parent in kept:
            kept.add(queue.name)
            chosen.append(queue)
    return chosen


class _Row(NamedTuple):
    """An account of a queue; the first one of a queue has what is said of the queue."""

    queue: QueueBody
    account: AccountBody
    is_first: bool = True


def queue_table(queues: Sequence[QueueBody], output: Output, *, resource: str | None, now: str = "") -> str:
    """One line per queue (``-o wide``: one per account), children drawn below their parents.

    Past use is shown if it counts in any of the queues, and loans if there are some. ``now``: of the answer.
    """
    wide, stems = output.is_wide, branches({queue.name: queue.parent for queue in queues})
    chosen = resource or usual_resource(queues)

    def accounts(queue: QueueBody) -> Sequence[AccountBody]:
        if not wide:
            return [account_of(queue, chosen)]
        return [line for line in queue.accounts if resource in (None, line.resource)] or [_NOTHING]

    def lent(row: _Row) -> str | None:
        if not wide:
            return _lent(row.queue, chosen, now) or None
        named = row.account.resource or None
        return _lent(row.queue, named, now, row.account.flavor if named else None) or None

    def first(cell: Callable[[QueueBody], Cell]) -> Callable[[_Row], Cell]:
        return lambda row: cell(row.queue) if row.is_first else ""

    fading = any(map(_half_life, queues))
    lending = any(_lent(queue, resource if wide else chosen, now) for queue in queues)
    past = [
        TableColumn[_Row]("PAST-USE", lambda row: _past(row.queue, row.account), right=True),
        TableColumn[_Row]("HALF-LIFE", first(_half_life), right=True, wide=True),
    ]
    columns = [
        TableColumn[_Row]("QUEUE", first(lambda queue: stems[queue.name] + queue.name)),
        TableColumn[_Row]("STATE", first(_state)),
        TableColumn[_Row]("RESOURCE", lambda row: (row.account.resource or None) if wide else chosen),
        TableColumn[_Row]("FLAVOR", lambda row: row.account.flavor or None, wide=True),
        TableColumn[_Row]("USED", lambda row: row.account.used, right=True),
        *(past if fading else []),
        TableColumn[_Row]("GUARANTEE", lambda row: unless_zero(row.account.guarantee), right=True, wide=True),
        TableColumn[_Row]("DESERVED", lambda row: row.account.deserved, right=True),
        TableColumn[_Row]("CAPABILITY", lambda row: row.account.capability, right=True),
        TableColumn[_Row]("SHARE", lambda row: share_text(row.account), right=True),
        TableColumn[_Row]("WAITING", first(lambda queue: queue.pending), right=True),
        TableColumn[_Row]("RUNNING", first(lambda queue: queue.admitted), right=True),
        TableColumn[_Row]("CHANGED-BY", first(lambda queue: queue.changed_by or None), wide=True),
        TableColumn[_Row]("STANDING", lambda row: row.account.standing or None, wide=True),
        *([TableColumn[_Row]("LOANS", lent)] if lending else []),
        *(
            [TableColumn[_Row]("MESSAGE", first(lambda queue: queue.message))]
            if any(q.message for q in queues)
            else []
        ),
    ]
    rows = [_Row(queue, line, index == 0) for queue in queues for index, line in enumerate(accounts(queue))]
    return item_table(columns, rows, replace(output, width=None))


def _state(queue: QueueBody) -> str:
    """``closed,paused``: a queue may be both, and then each has to be taken back."""
    both = queue.state == "closed" and queue.paused
    return "closed,paused" if both else str(queue.state)


def overview_table(queues: Sequence[QueueBody], output: Output, *, resource: str | None) -> str:
    """The tree in few columns, with a bar of what is used where the terminal has room for it.

    All bars have one scale: what is used of the deserved amount, what is borrowed beyond it, what of it is not used.
    A state other than open is next to the name. Past use is left out: SHARE has it.
    """
    from queues.resources import amount

    stems = branches({queue.name: queue.parent for queue in queues})
    chosen = resource or usual_resource(queues)

    def units(account: AccountBody) -> tuple[int, int]:
        """What is used, and what is deserved."""
        return amount(chosen, account.used), amount(chosen, account.deserved or "0")

    most = max((max(units(account_of(queue, chosen))) for queue in queues), default=0)

    def name(row: _Row) -> str:
        state = "" if row.queue.state == "open" else f" ({_state(row.queue)})"
        return f"{stems[row.queue.name]}{row.queue.name}{state}"

    columns = [
        TableColumn[_Row]("QUEUE", name, least=20),
        TableColumn[_Row](f"USED({short_resource(chosen)})", lambda row: row.account.used, right=True),
        TableColumn[_Row]("DESERVED", lambda row: row.account.deserved, right=True),
        TableColumn[_Row]("CAPABILITY", lambda row: row.account.capability, right=True, goes=3),
        TableColumn[_Row]("SHARE", lambda row: share_text(row.account), right=True, goes=2),
        TableColumn[_Row]("WAITING", lambda row: row.queue.pending, right=True),
        TableColumn[_Row]("RUNNING", lambda row: row.queue.admitted, right=True, goes=1),
    ]
    rows = [_Row(queue, account_of(queue, chosen)) for queue in queues]
    any_width = replace(output, width=None)
    if not fits(item_table(columns, rows, any_width), output.narrowed(_BAR + 3).room):
        return item_table(columns, rows, output)
    bars = TableColumn[_Row]("USE", lambda row: _bar(*units(row.account), most) or None)
    return item_table([*columns, bars], rows, any_width)


def _bar(used: int, deserved: int, most: int) -> str:
    """``██████▓▓``: six parts of what is deserved are used, and two that are borrowed; ``██░░``: two are not used.

    ``most``: what the whole length is for.
    """
    own, whole, limit = (
        round(units * _BAR / most) if most else 0 for units in (min(used, deserved), used, deserved)
    )
    return "█" * own + "▓" * (whole - own) + "░" * max(0, limit - whole)


def _lent(queue: QueueBody, resource: str | None, now: str, flavor: str | None = None) -> str:
    """What is lent to a queue (+) and what it lends (-), each with the time that is left; "": nothing.

    ``flavor``: None for any.
    """
    return ", ".join(
        f"{'-' if loan.from_ == queue.name else '+'}{loan.counts} {age(now, loan.until)}"
        for loan in queue.loans
        if resource in (None, loan.resource) and flavor in (None, loan.flavor)
    )


def _half_life(queue: QueueBody) -> str | None:
    seconds = queue.usage_half_life_seconds
    return None if seconds is None else short_duration(seconds)


def _past(queue: QueueBody, account: AccountBody) -> str | None:
    """The decayed average. None if past use does not count in this queue, or is not known yet."""
    if not queue.usage_half_life_seconds:
        return None
    return rounded(account.resource, account.past_use)


def _is_unread(queue: QueueBody) -> bool:
    return bool(queue.usage_half_life_seconds) and any(account.past_use is None for account in queue.accounts)


def share_text(account: AccountBody) -> str | None:
    """The share, with past use where that counts."""
    share = account.share if account.share_with_past is None else account.share_with_past
    return None if share is None else f"{share:.2f}"


def account_of(queue: QueueBody, resource: str) -> AccountBody:
    """The account over all flavors, or else the only account of a single flavor, or zero if neither exists."""
    lines = [line for line in queue.accounts if line.resource == resource]
    alone = lines[0] if len(lines) == 1 else _NOTHING
    return next((line for line in lines if not line.flavor), alone)


def chosen_resource(named: str | None, queues: Sequence[QueueBody]) -> str | None:
    """The whole name of the resource that a user named. None if none. Raises UsageError: no node can have it."""
    if named is None:
        return None
    return shown_resource("--resource", named, (line.resource for queue in queues for line in queue.accounts))


def usual_resource(queues: Sequence[QueueBody]) -> str:
    """GPUs if a queue has an account of them, else the first device by name, else CPU."""
    named = sorted({line.resource for queue in queues for line in queue.accounts})
    if _GPU in named or not named:
        return _GPU
    return next((name for name in named if name not in _PLAIN), "cpu")
