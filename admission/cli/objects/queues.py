"""``kubectl muster queues``: the tree of queues, what each uses and what it may use."""

from collections.abc import Iterable, Sequence
from typing import Final

import click
from msgspec import structs

from admission.cli.access.age import told_age
from admission.cli.access.read_api import Route, ask
from admission.cli.options import route
from admission.cli.output import Output, list_output
from admission.cli.queue_names import no_such_queue
from admission.cli.rendering.table import Cell, age, branches, rounded, short_resource, table
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table
from admission.cli.rendering.terminal.sentences import say
from admission.cli.resource_names import shown_resource
from admission.read_api.bodies import AccountBody, QueueBody, QueueList
from queues.text_format import short_duration

_GPU: Final = "nvidia.com/gpu"
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_NUMBERS: Final = "USED PAST-USE HALF-LIFE GUARANTEE DESERVED CAPABILITY SHARE WAITING RUNNING"

_NARROW: Final = Narrowing(names={"QUEUE": 20}, left_out=("RUNNING", "SHARE", "CAPABILITY"))
#: Characters of a bar.
_BAR: Final = 10

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
@click.argument("names", metavar="[QUEUE]...", nargs=-1)
@click.option(
    "--resource",
    metavar="NAME",
    help="Resource to show, such as gpu or cpu [gpu, or what there is]; wide: all.",
)
@click.option(
    "--contexts",
    metavar="NAME,NAME",
    help="Use over several clusters: a line for each, by contexts of the kubeconfig, and the sum.",
)
@list_output
@route
def queues(
    names: tuple[str, ...], resource: str | None, contexts: str | None, output: Output, route: Route
) -> int:
    """Show the tree of queues: what each uses, deserves and may use, and how many workloads wait.

    Numbers are those of the whole subtree. LOANS: what is lent to a queue (+) or by it (-), and for how long still;
    DESERVED is with it. Where past use counts (usageHalfLife), SHARE is of half of USED and half
    of PAST-USE. With names: only these queues and what is below them. Of a resource that no queue has, zeros are shown.
    """
    if contexts is not None:
        return _over_clusters(names, resource, contexts, output, route)
    body = ask(route, "queues", QueueList)
    code = told_age(body)
    chosen = below(body.items, names)
    for missing in sorted(set(names) - {queue.name for queue in chosen}):
        raise no_such_queue(missing, [queue.name for queue in body.items])
    resource = chosen_resource(resource, body.items)
    chosen = output.sorted(chosen)
    body = structs.replace(body, items=tuple(chosen))
    text = output.document(body, name=lambda queue: f"queue/{queue.name}")
    if text is None:
        if not chosen:
            say("You may see no queue: RBAC lets you get none, or there is none yet.", err=True)
            return code
        text = queue_table(
            chosen,
            resource=resource,
            wide=output.is_wide,
            headers=output.headers,
            tree=not output.sort_by,
            now=body.now,
        )
        if not output.is_wide and output.headers and _is_too_long(text, output.room):
            narrow = overview_table(chosen, resource=resource, width=output.width, tree=not output.sort_by)
            messages = (f"{queue.name}: {queue.message}\n" for queue in chosen if queue.message)
            text = narrow + "".join(messages)
        if any(_is_unread(queue) for queue in chosen):
            say("Past use is still being read from the ledger; ask again.", err=True)
    click.echo(output.fitted(text), nl=False)
    return code


def _over_clusters(
    names: tuple[str, ...], resource: str | None, contexts: str, output: Output, route: Route
) -> int:
    """The answer with ``--contexts``; 1: a cluster did not answer, and the others are shown."""
    from admission.cli.objects.queues_over_clusters import (
        asked,
        document,
        named_contexts,
        queue_names,
        use_table,
    )

    if output.sort_by:
        raise click.UsageError("--contexts and --sort-by exclude each other.")
    answers = asked(route, named_contexts(contexts, route))
    failed = [each for each in answers if each.error]
    for each in failed:
        say(f"Error: {each.cluster}: {each.error}", err=True)
    for each in answers:
        if each.age[0]:
            say(f"{each.cluster}: {each.age[0]}", err=True)
    there = queue_names(answers)
    if not failed:
        for missing in sorted(set(names) - set(there)):
            raise no_such_queue(missing, there)
    everything = [queue for each in answers for queue in each.queues]
    kept = {queue.name for each in answers for queue in below(each.queues, names)}
    shown = [name for name in there if name in kept]
    text = output.document(
        document(answers, shown), name=lambda queue: f"{queue['cluster']}/queue/{queue['name']}"
    )
    if text is None:
        if not shown and len(failed) == len(answers):
            return 1
        account = chosen_resource(resource, everything) or usual_resource(everything)
        text = use_table(answers, shown, account, headers=output.headers, width=output.room)
    click.echo(text, nl=False)
    return 1 if failed else max(each.age[1] for each in answers)


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


def queue_table(
    queues: Sequence[QueueBody],
    *,
    resource: str | None,
    wide: bool,
    headers: bool,
    tree: bool = True,
    now: str = "",
) -> str:
    """One line per queue (wide: one per account), children drawn below their parents (``tree``).

    Past use is shown if it counts in any of the queues, and loans if there are some. ``now``: of the answer.
    """
    stems = branches({queue.name: queue.parent if tree else None for queue in queues})
    chosen = resource or usual_resource(queues)
    columns = ["QUEUE", "STATE", "RESOURCE", "USED", "DESERVED", "CAPABILITY", "SHARE", "WAITING", "RUNNING"]
    rows: list[list[Cell]] = []
    if wide:
        columns[3:4] = ["FLAVOR", "USED", "GUARANTEE"]
        columns.append("CHANGED-BY")
    fading = any(_half_life(queue) for queue in queues)
    if fading:
        after = columns.index("USED") + 1
        columns[after:after] = ["PAST-USE", "HALF-LIFE"] if wide else ["PAST-USE"]
    lending = any(_lent(queue, resource if wide else chosen, now) for queue in queues)
    if lending:
        columns.append("LOANS")
    for queue in queues:
        name = stems[queue.name] + queue.name
        if wide:
            rows += _wide(queue, name, resource, fading, now if lending else None)
        else:
            account = account_of(queue, chosen)
            past = [_past(queue, account)] if fading else []
            used, *others = _numbers(account)
            loans = [_lent(queue, chosen, now) or None] if lending else []
            rows.append(
                [
                    name,
                    _state(queue),
                    chosen,
                    used,
                    *past,
                    *others,
                    *_workloads(queue),
                    *loans,
                    queue.message,
                ]
            )
    if any(row[-1] for row in rows):
        columns.append("MESSAGE")
    else:
        rows = [row[:-1] for row in rows]
    return table(columns, rows, headers=headers, right=_NUMBERS)


def _state(queue: QueueBody) -> str:
    """``closed,paused``: a queue may be both, and then each has to be taken back."""
    both = queue.state == "closed" and queue.paused
    return "closed,paused" if both else str(queue.state)


def _is_too_long(text: str, width: int | None) -> bool:
    return width is not None and max(map(len, text.splitlines()), default=0) > width


def overview_table(
    queues: Sequence[QueueBody], *, resource: str | None, width: int | None, tree: bool = True
) -> str:
    """The tree in few columns, with a bar of what is used where ``width`` has room for it (None for any width).

    The bar is of the capability, or of the deserved amount if the queue has no capability. A state other than open is
    next to the name. Past use is left out: SHARE has it.
    """
    stems = branches({queue.name: queue.parent if tree else None for queue in queues})
    chosen = resource or usual_resource(queues)
    columns = [
        "QUEUE",
        f"USED({short_resource(chosen)})",
        "DESERVED",
        "CAPABILITY",
        "SHARE",
        "WAITING",
        "RUNNING",
    ]
    rows: list[list[Cell]] = []
    bars: list[str | None] = []
    for queue in queues:
        account = account_of(queue, chosen)
        state = "" if queue.state == "open" else f" ({_state(queue)})"
        rows.append([f"{stems[queue.name]}{queue.name}{state}", *_numbers(account), *_workloads(queue)])
        bars.append(_bar(chosen, account))
    numbers = f"{columns[1]} {_NUMBERS}"
    text = table(columns, rows, right=numbers)
    if width is not None and max(map(len, text.splitlines())) + _BAR + 8 > width:
        return fitted_table(columns, rows, _NARROW, width=width, right=numbers)
    with_bars = [[*row, bar] for row, bar in zip(rows, bars, strict=True)]
    return table([*columns, "USE"], with_bars, right=numbers)


def _bar(resource: str, account: AccountBody) -> str | None:
    """``███████░░░ 70%``. None if there is nothing to compare with."""
    from queues.resources import amount

    limit = account.capability or account.deserved
    if limit is None or not amount(resource, limit):
        return None
    part = amount(resource, account.used) / amount(resource, limit)
    full = min(_BAR, round(part * _BAR))
    return "█" * full + "░" * (_BAR - full) + f" {part:.0%}"


def _wide(
    queue: QueueBody, name: str, resource: str | None, fading: bool, now: str | None
) -> list[list[Cell]]:
    """``now``: None for no column of loans."""
    lines = [line for line in queue.accounts if resource in (None, line.resource)] or [_NOTHING]
    rows: list[list[Cell]] = []
    for index, line in enumerate(lines):
        first = index == 0
        past = [_past(queue, line), _half_life(queue) if first else ""] if fading else []
        rows.append(
            [
                name if first else "",
                _state(queue) if first else "",
                line.resource or None,
                line.flavor or None,
                line.used,
                *past,
                _unless_zero(line.guarantee),
                *_numbers(line)[1:],
                *(_workloads(queue) if first else ("", "")),
                (queue.changed_by or None) if first else "",
                *(
                    []
                    if now is None
                    else [
                        _lent(queue, line.resource or None, now, line.flavor if line.resource else None)
                        or None
                    ]
                ),
                queue.message if first else "",
            ]
        )
    return rows


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


def _numbers(account: AccountBody) -> list[Cell]:
    """Cells USED to SHARE; the share is ``shareWithPast`` where past use counts."""
    share = account.share_with_past
    if share is None:
        share = account.share
    return [
        account.used,
        account.deserved,
        account.capability,
        None if share is None else f"{share:.2f}",
    ]


def _workloads(queue: QueueBody) -> tuple[int, int]:
    return queue.pending, queue.admitted


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


def _unless_zero(text: str | None) -> str | None:
    return None if text in (None, "0") else text
