"""``kubectl muster quota lend``: a queue lends what it deserves until a time, and gets it back by itself."""

import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import ceil
from typing import Any, NamedTuple

import click

from admission.cli.access.queue_objects import (
    QueueObject,
    change_queue,
    checked_reason,
    read_queue,
    read_queues,
)
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandFailed
from admission.cli.confirmation import confirm
from admission.cli.options import cluster
from admission.cli.plugin.comparison import tell_trial
from admission.cli.plugin.quota_set import Writing, check, check_places, units_of, usable_queues, writing
from admission.cli.rendering.quota import changes_table
from admission.cli.rendering.terminal import Cell, columns_of, say
from admission.cli.resource_names import full_resource
from admission.cli.times import FutureTime, LastingTime
from queues.api.quota.loans import MOST_LOANS, Entry, end_of, entry_of, lasting, loans_of, without
from queues.api.quota.quota_document import QuotaField
from queues.api.resource_names import usual_name
from queues.quota.accounts import Account
from queues.quota.loans import Loan, LoansInForce, loans_in_force
from queues.quota.queue import Queue
from queues.resources import GPU, show
from queues.text_format import rfc3339, short_duration
from queues.workload import FlavorName, QueueName


@click.command(short_help="Lend a deserved amount to another queue until a time.")
@click.argument("lender", metavar="FROM")
@click.argument("receiver", metavar="TO")
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
    resource = full_resource("--resource", resource)
    loan = Loan(
        to=QueueName(receiver),
        account=Account(FlavorName(how.flavor), resource),
        units=units_of(resource, amount_),
        until=int(until.timestamp()),
        reason=checked_reason(how.reason),
    )
    one, other = read_queue(route, lender), read_queue(route, receiver)
    check_places(route, one, other)
    now = time.time()
    entries = [*lasting(one.spec, now), entry_of(loan)]
    _check_number(lender, entries, now)
    asked = _Asked(lender, receiver, loan)
    _tell(route, one, entries, asked, now)
    _write(route, one, entries, asked, how)


def end_loan(route: Route, lender: str, receiver: str, resource: str | None, how: Writing) -> None:
    """End what a queue lends to another one. ``resource``: None for all. Raises CommandFailed: it lends nothing."""
    one, now = read_queue(route, lender), time.time()
    resource = None if resource is None else usual_name(resource) or resource
    entries = _ended(one, receiver, resource, how.flavor, now)
    asked = _Asked(lender, receiver, None)
    _tell(route, one, entries, asked, now)
    _write(route, one, entries, asked, how)


def _ended(one: QueueObject, receiver: str, resource: str | None, flavor: str, now: float) -> list[Entry]:
    """The loans that are left of a queue. Raises CommandFailed: it lends nothing of the kind."""
    entries = lasting(one.spec, now)
    left = without(entries, receiver, resource, flavor)
    if left == entries:
        others = ", ".join(dict.fromkeys(str(each.get("to")) for each in entries))
        raise CommandFailed(
            found=f"Queue {one.name} lends {resource or 'nothing'}{' not' if resource else ''} to {receiver} now",
            hint=f"It lends to {others}." if others else "It lends to no queue.",
        )
    return left


def _check_number(lender: str, entries: list[Entry], now: float) -> None:
    if len(entries) > MOST_LOANS:
        first = min(end for each in entries if (end := end_of(each)) is not None)
        raise CommandFailed(
            found=f"Queue {lender} has {MOST_LOANS} loans, expected fewer",
            hint=f"The next one ends in {short_duration(int(first - now))}; --end ends one before its time.",
        )


# -- what is shown before -------------------------------------------------------------------------------------


def _tell(route: Route, one: QueueObject, entries: list[Entry], asked: _Asked, now: float) -> None:
    """Print what changes, and for which work. Raises CommandFailed: the loan would not count in full, or is refused."""
    known = read_queues(route)
    if known is None:
        say("Whether the loan counts in full is not told: you may not list queues.", err=True)
        check(one, {"loans": entries}, None)
        return
    check(one, {"loans": entries}, known)
    stated = {QueueName(name): queue for name, queue in usable_queues(known).items()}
    loans = {QueueName(name): loans_of(queue.spec) for name, queue in known.items()}
    before = loans_in_force(stated, loans, int(now))
    after = loans_in_force(stated, {**loans, QueueName(one.name): loans_of({"loans": entries})}, int(now))
    if asked.loan is not None:
        _check_counts(after, asked)
    click.echo(
        changes_table(list(_changed_rows(stated, before, after)), width=columns_of(sys.stdout)), nl=False
    )
    _tell_others(before, after)
    if asked.loan is not None:
        left = short_duration(round(asked.loan.until - now))
        say(f"ends by itself at {rfc3339(asked.loan.until)}, in {left}")


def _check_counts(after: LoansInForce, asked: _Asked) -> None:
    """Raises CommandFailed: the new loan would not count in full."""
    new = [each for each in after.loans if (each.lender, each.loan) == (asked.lender, asked.loan)]
    problem = new[-1].problem if new else f"queue {asked.lender} cannot be read"
    if problem:
        raise CommandFailed(
            found=f"{str(asked)[:1].upper()}{str(asked)[1:]} would not count in full: {problem}",
            hint="`kubectl muster quota show` shows what queues deserve and lend.",
        )


def _changed_rows(
    stated: Mapping[QueueName, Queue], before: LoansInForce, after: LoansInForce
) -> Iterator[list[Cell]]:
    """Limits that count otherwise, deserved amounts and capabilities: queue, field, before, an arrow, after."""
    for name in sorted({*before.queues, *after.queues}):
        was, becomes = (each.queues.get(name, stated[name]) for each in (before, after))
        for flavor, old, new in (
            ("", was.limits, becomes.limits),
            *((flavor, limits, becomes.flavors[flavor]) for flavor, limits in was.flavors.items()),
        ):
            for limit in ("deserved", "capability"):
                now: Mapping[str, int] = getattr(new, limit)
                for resource, units in getattr(old, limit).items():
                    if units != now[resource]:
                        field = str(QuotaField(flavor, limit, resource))
                        yield [name, field, show(resource, units), "→", show(resource, now[resource])]


def _tell_others(before: LoansInForce, after: LoansInForce) -> None:
    """Print other loans that count for more or less then."""
    old: dict[Any, int] = {(each.lender, each.loan): each.units for each in before.loans}
    for each in after.loans:
        was = old.get((each.lender, each.loan))
        if was is None or was == each.units:
            continue
        account = each.loan.account
        say(
            f"of the {account.amount(each.loan.units)} that {each.lender} lends to {each.loan.to} "
            f"{account.show(each.units)} would count, not {account.show(was)}"
        )


# -- the write ------------------------------------------------------------------------------------------------


def _write(route: Route, one: QueueObject, entries: list[Entry], asked: _Asked, how: Writing) -> None:
    """One write, so that the loan begins or ends whole, or not at all. First print what becomes of work."""
    ends, why = asked.loan is None, checked_reason(how.reason)
    if how.checks_first:
        change_queue(route, one, {"loans": entries}, reason=why, dry_run=True)
    tell_trial(route, [(one.name, {"loans": entries})], how.trial)
    if how.dry_run != "none":
        say(f"{f'{asked} would end' if ends else f'would lend {asked}'} ({how.dry_run} dry run)")
        return
    confirm(f"{'End' if ends else 'Lend'} {asked}?", yes=how.yes)
    change_queue(route, one, {"loans": entries}, reason=why)
    say(f"{asked} has ended" if ends else f"lent {asked}")
