"""Begin and end loans between queues. First what changes is shown; then each is one write."""

import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import click

from admission.cli.access.objects import ClusterRoute
from admission.cli.access.queue_objects import (
    QueueObject,
    change_queue,
    checked_reason,
    read_queue,
    read_queues,
)
from admission.cli.confirmation import confirm
from admission.cli.failures import CommandFailed
from admission.cli.objects.quota_set import Writing, check, check_places, units_of
from admission.cli.objects.quota_trial import tell_trial
from admission.cli.rendering.quota import changes_table
from admission.cli.rendering.sentences import columns_of, say
from admission.cli.rendering.table import Cell
from admission.cli.resource_names import full_resource
from queues.api.quota.loans import MOST_LOANS, Entry, end_of, entry_of, lasting, loans_of, without
from queues.api.quota.quota_document import QuotaField
from queues.api.resource_names import usual_name
from queues.api.types.queue import QueueDocument
from queues.errors import InvalidDocument
from queues.quota.accounts import Account
from queues.quota.loans import Loan, LoansInForce, loans_in_force
from queues.quota.queue import Queue
from queues.resources import show
from queues.text_format import rfc3339, short_duration
from queues.workload import FlavorName, QueueName


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
    cluster: ClusterRoute, lender: str, receiver: str, what: tuple[str, str, datetime], how: Writing
) -> None:
    """Lend an amount of a resource until a time (``what``). Raises CommandFailed, UsageError."""
    amount_, resource, until = what
    resource = full_resource("--resource", resource)
    why = checked_reason(how.reason)
    loan = Loan(
        to=QueueName(receiver),
        account=Account(FlavorName(how.flavor), resource),
        units=units_of(resource, amount_),
        until=int(until.timestamp()),
        reason=why,
    )
    one, other = read_queue(cluster, lender), read_queue(cluster, receiver)
    check_places(cluster, one, other)
    now = time.time()
    entries = [*lasting(one.spec, now), entry_of(loan)]
    _check_number(lender, entries, now)
    asked = _Asked(lender, receiver, loan)
    _tell(cluster, one, entries, asked, now)
    _write(cluster, one, entries, asked, why, how)


def end_loan(cluster: ClusterRoute, lender: str, receiver: str, resource: str | None, how: Writing) -> None:
    """End what a queue lends to another one. ``resource``: None for all. Raises CommandFailed: it lends nothing."""
    why, one, now = checked_reason(how.reason), read_queue(cluster, lender), time.time()
    resource = None if resource is None else usual_name(resource) or resource
    entries = _ended(one, receiver, resource, how.flavor, now)
    asked = _Asked(lender, receiver, None)
    _tell(cluster, one, entries, asked, now)
    _write(cluster, one, entries, asked, why, how)


def _ended(one: QueueObject, receiver: str, resource: str | None, flavor: str, now: float) -> list[Entry]:
    """The loans that are left of a queue. Raises CommandFailed: it lends nothing of the kind."""
    entries = lasting(one.spec, now)
    left = without(entries, receiver, resource, flavor)
    if left == entries:
        others = ", ".join(dict.fromkeys(str(each.get("to")) for each in entries))
        raise CommandFailed(
            tried="",
            found=f"Queue {one.name} lends {resource or 'nothing'}{' not' if resource else ''} to {receiver} now",
            hint=f"It lends to {others}." if others else "It lends to no queue.",
        )
    return left


def _check_number(lender: str, entries: list[Entry], now: float) -> None:
    if len(entries) > MOST_LOANS:
        first = min(end for each in entries if (end := end_of(each)) is not None)
        raise CommandFailed(
            tried="",
            found=f"Queue {lender} has {MOST_LOANS} loans, expected fewer",
            hint=f"The next one ends in {short_duration(int(first - now))}; --end ends one before its time.",
        )


# -- what is shown before -------------------------------------------------------------------------------------


def _tell(cluster: ClusterRoute, one: QueueObject, entries: list[Entry], asked: _Asked, now: float) -> None:
    """Print what changes, and for which work. Raises CommandFailed: the loan would not count in full, or is refused."""
    known = read_queues(cluster)
    if known is None:
        say("Whether the loan counts in full is not told: you may not list queues.", err=True)
        check(one, {"loans": entries}, None)
        return
    check(one, {"loans": entries}, known)
    stated = _stated(known)
    loans = {name: loans_of(each.spec) for name, each in known.items()}
    after_loans = {**loans, one.name: loans_of({"loans": entries})}
    before, after = (_in_force(stated, each, int(now)) for each in (loans, after_loans))
    if asked.loan is not None:
        _check_counts(after, asked)
    click.echo(changes_table(_rows(_changes(stated, before, after)), width=columns_of(sys.stdout)), nl=False)
    _tell_others(before, after)
    if asked.loan is not None:
        left = short_duration(round(asked.loan.until - now))
        say(f"ends by itself at {rfc3339(asked.loan.until)}, in {left}")


def _stated(known: Mapping[str, QueueObject]) -> dict[QueueName, Queue]:
    found = {}
    for name, each in known.items():
        try:
            found[QueueName(name)] = QueueDocument.read(each.document).to_domain()
        except InvalidDocument:  # such a queue neither lends nor gets anything
            continue
    return found


def _in_force(
    stated: Mapping[QueueName, Queue], loans: Mapping[str, tuple[Loan, ...]], now: int
) -> LoansInForce:
    return loans_in_force(stated, {QueueName(name): each for name, each in loans.items() if each}, now)


def _check_counts(after: LoansInForce, asked: _Asked) -> None:
    """Raises CommandFailed: the new loan would not count in full."""
    new = [each for each in after.loans if (each.lender, each.loan) == (asked.lender, asked.loan)]
    problem = new[-1].problem if new else f"queue {asked.lender} cannot be read"
    if problem:
        raise CommandFailed(
            tried="",
            found=f"{str(asked)[:1].upper()}{str(asked)[1:]} would not count in full: {problem}",
            hint="`kubectl muster quota show` shows what queues deserve and lend.",
        )


class _Change(NamedTuple):
    queue: str
    flavor: str
    resource: str
    limit: str
    before: int | None
    after: int | None


def _changes(
    stated: Mapping[QueueName, Queue], before: LoansInForce, after: LoansInForce
) -> Iterator[_Change]:
    """Limits that count otherwise: deserved amounts and capabilities."""
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
                        yield _Change(name, flavor, resource, limit, units, now[resource])


def _rows(changes: Iterator[_Change]) -> list[list[Cell]]:
    def shown(each: _Change, units: int | None) -> str | None:
        return None if units is None else show(each.resource, units)

    return [
        [
            each.queue,
            str(QuotaField(each.flavor, each.limit, each.resource)),
            shown(each, each.before),
            "→",
            shown(each, each.after),
        ]
        for each in changes
    ]


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


def _write(
    cluster: ClusterRoute, one: QueueObject, entries: list[Entry], asked: _Asked, why: str, how: Writing
) -> None:
    """One write, so that the loan begins or ends whole, or not at all. First print what becomes of work."""
    ends = asked.loan is None
    if how.checks_first:
        change_queue(cluster, one, {"loans": entries}, reason=why, dry_run=True)
    tell_trial(cluster, [(one.name, {"loans": entries})], how.trial)
    if how.dry_run != "none":
        say(f"{f'{asked} would end' if ends else f'would lend {asked}'} ({how.dry_run} dry run)")
        return
    confirm(f"{'End' if ends else 'Lend'} {asked}?", yes=how.yes)
    change_queue(cluster, one, {"loans": entries}, reason=why)
    say(f"{asked} has ended" if ends else f"lent {asked}")
