"""``kubectl muster quota lend``: a queue lends what it deserves until a time, and gets it back by itself."""

import sys
import time
from datetime import UTC, datetime
from math import ceil
from typing import Any, NamedTuple

import click

from admission.cli.access.queue_objects import (
    QueueObject,
    change_queue,
    check_queue,
    checked_reason,
    read_queue,
)
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandFailed, confirm
from admission.cli.names import full_resource
from admission.cli.options import QUEUE, cluster
from admission.cli.output import Output
from admission.cli.plugin.comparison import effects_text, trial_of_write
from admission.cli.plugin.quota_set import Writing, writing
from admission.cli.rendering.terminal import columns_of, say
from admission.cli.times import FutureTime, LastingTime
from queues.api.quota.loans import Entry, entry_of, lasting, without
from queues.api.resource_names import usual_name
from queues.errors import InvalidQuantity
from queues.quota.accounts import Account
from queues.quota.queue import Loan
from queues.resources import GPU, amount
from queues.text_format import printable, rfc3339, short_duration
from queues.workload import FlavorName, QueueName


@click.command(short_help="Lend a deserved amount to another queue until a time.")
@click.argument("lender", metavar="FROM", type=QUEUE)
@click.argument("receiver", metavar="TO", type=QUEUE)
@click.argument("amount_", metavar="[AMOUNT]", required=False)
@click.option("--until", type=FutureTime(), metavar="TIME", help="When it ends: friday, 2026-11-27T18:00.")
@click.option("--for", "for_", type=LastingTime(), metavar="DURATION", help="How long it lasts: 12h, 3d.")
@click.option("--end", is_flag=True, help="End now what FROM lends to TO.")
@click.option("--resource", metavar="NAME", help=f"What is lent [{GPU}; with --end: all].")
@writing
@cluster
def lend(
    lender: str,
    receiver: str,
    amount_: str | None,
    resource: str | None,
    how: Writing,
    route: Route,
    **when: Any,
) -> None:
    """Have TO deserve AMOUNT more, and FROM as much less, until a time. Then it goes back by itself.

    Also if Muster is down then: it has gone back when Muster is up. What TO still uses of it is borrowed from then on,
    and FROM gets it by reclaim. A guarantee is never lent. --end ends a loan before its time.
    """
    if lender == receiver:
        raise click.UsageError("FROM and TO are the same queue.")
    ends = _ends(amount_, **when)
    if resource is not None:
        resource = full_resource("--resource", resource)
    if ends is None or amount_ is None:
        end_loan(route, lender, receiver, resource, how)
    else:
        begin_loan(route, lender, receiver, (amount_, resource or GPU, ends), how)


def _ends(amount_: str | None, until: datetime | None, for_: str | None, end: bool) -> datetime | None:
    """When the loan ends. None for at once. Raises UsageError."""
    if end:
        if amount_ is not None or until is not None or for_ is not None:
            raise click.UsageError(
                "--end takes neither AMOUNT nor --until nor --for: it ends the whole loan."
            )
        return None
    if amount_ is None:
        raise click.UsageError("Missing AMOUNT: `kubectl muster quota lend FROM TO 16 --until friday`.")
    if (until is None) is (for_ is None):
        raise click.UsageError("Say when the loan ends, by one of --until friday and --for 12h.")
    # Up to a whole second, so that nothing ends before its time.
    return until or datetime.fromtimestamp(ceil(time.time()) + int((for_ or "0s")[:-1]), UTC)


class _Asked(NamedTuple):
    """A loan that is to begin, or (None) loans that are to end."""

    lender: str
    receiver: str
    loan: Loan | None

    def __str__(self) -> str:
        if self.loan is None:
            return f"the loan from {self.lender} to {self.receiver}"
        amount = self.loan.account.amount(self.loan.units)
        return f"{amount} from {self.lender} to {self.receiver} until {rfc3339(self.loan.until)}"


def begin_loan(
    route: Route, lender: str, receiver: str, what: tuple[str, str, datetime], how: Writing
) -> None:
    """Lend an amount of a resource until a time (``what``). Raises CommandFailed, UsageError."""
    amount_, resource, until = what
    loan = Loan(
        to=QueueName(receiver),
        account=Account(FlavorName(how.flavor), resource),
        units=_units_of(resource, amount_),
        until=int(until.timestamp()),
        reason=checked_reason(how.reason),
    )
    one = read_queue(route, lender)
    check_queue(route, receiver)
    _write(route, one, [*lasting(one.spec, time.time()), entry_of(loan)], _Asked(lender, receiver, loan), how)


def end_loan(route: Route, lender: str, receiver: str, resource: str | None, how: Writing) -> None:
    """End what a queue lends to another one. ``resource``: None for all. Raises CommandFailed: it lends nothing."""
    one = read_queue(route, lender)
    resource = None if resource is None else usual_name(resource) or resource
    _write(route, one, _left(one, receiver, resource, how.flavor), _Asked(lender, receiver, None), how)


def _units_of(resource: str, text: str) -> int:
    """An AMOUNT above 0, in units of the resource, by its whole name. Raises UsageError."""
    try:
        units = amount(resource, text)
    except InvalidQuantity as error:
        raise click.UsageError(f"AMOUNT: {error}") from error
    if units <= 0 or text.startswith("+"):
        raise click.UsageError(f"AMOUNT: found {text!r}, expected an amount above 0, such as 16.")
    return units


def _left(one: QueueObject, receiver: str, resource: str | None, flavor: str) -> list[Entry]:
    """The loans that are left of a queue. Raises CommandFailed: it lends nothing of the kind."""
    entries = lasting(one.spec, time.time())
    left = without(entries, receiver, resource, flavor)
    if left == entries:
        others = ", ".join(dict.fromkeys(str(each.get("to")) for each in entries))
        raise CommandFailed(
            found=f"Queue {one.name} lends {resource or 'nothing'}{' not' if resource else ''} to {receiver} now",
            hint=f"It lends to {others}." if others else "It lends to no queue.",
        )
    return left


def _write(route: Route, one: QueueObject, entries: list[Entry], asked: _Asked, how: Writing) -> None:
    """One write, so that the loan begins or ends whole, or not at all. First print what becomes of limits and work."""
    ends, why = asked.loan is None, checked_reason(how.reason)
    if how.checks_first:
        change_queue(route, one, {"loans": entries}, reason=why, dry_run=True)
    if how.trial and (comparison := trial_of_write(route, one.name, {"loans": entries})) is not None:
        for line in comparison.changes:
            say(printable(line))
        click.echo(effects_text(comparison, Output(width=columns_of(sys.stdout))), nl=False)
    if asked.loan is not None:
        left = short_duration(round(asked.loan.until - time.time()))
        say(f"ends by itself at {rfc3339(asked.loan.until)}, in {left}")
    if how.dry_run != "none":
        say(f"{f'{asked} would end' if ends else f'would lend {asked}'} ({how.dry_run} dry run)")
        return
    confirm(f"{'End' if ends else 'Lend'} {asked}?", yes=how.yes)
    change_queue(route, one, {"loans": entries}, reason=why)
    say(f"{asked} has ended" if ends else f"lent {asked}")
