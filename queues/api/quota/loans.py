"""The loans in a Queue's document (``spec.loans``): as they are written, and as values of the domain.

Works on plain JSON data, whatever is in it, as ``quota_document`` does. What cannot be read is no loan.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from queues.errors import InvalidQuantity
from queues.json_values import list_at
from queues.quota.accounts import Account
from queues.quota.queue import Loan
from queues.resources import amount, show
from queues.text_format import rfc3339, second_at
from queues.workload import FlavorName, QueueName

#: Entries of ``spec.loans``; further ones are not read, and the API server refuses them.
MOST_LOANS: Final = 32

Entry = dict[str, Any]


def entries(spec: Mapping[str, Any]) -> list[Entry]:
    """The entries of ``spec.loans``, as they are written."""
    return [dict(entry) for entry in list_at(spec, "loans")[:MOST_LOANS] if isinstance(entry, Mapping)]


def lasting(spec: Mapping[str, Any], now: float) -> list[Entry]:
    """The entries that have not ended, and those whose end cannot be read."""
    return [entry for entry in entries(spec) if (end := end_of(entry)) is None or end > now]


def without(loans: Sequence[Entry], to: str, resource: str | None, flavor: str) -> list[Entry]:
    """These entries without loans to a queue. ``resource``: only those of it; None for all. ``flavor``: "": of any."""
    left: list[Entry] = []
    for entry in loans:
        if entry.get("to") != to or (flavor and entry.get("flavor") != flavor):
            left.append(entry)
            continue
        resources = entry.get("resources")
        if resource is None or not isinstance(resources, Mapping):
            continue
        if kept := {name: amount for name, amount in resources.items() if name != resource}:
            left.append({**entry, "resources": kept})
    return left


def end_of(entry: Mapping[str, Any]) -> int | None:
    """When a loan ends, in seconds since the epoch; None if it cannot be read."""
    until = entry.get("until")
    return second_at(until) if isinstance(until, str) else None


def loans_of(spec: Mapping[str, Any]) -> tuple[Loan, ...]:
    """The loans that a spec states, ended ones included, in their order."""
    return tuple(loan for entry in entries(spec) for loan in _loans(entry))


def entry_of(loan: Loan) -> Entry:
    """A loan as an entry of ``spec.loans``."""
    account = loan.account
    return {
        "to": loan.to,
        **({"flavor": account.flavor} if account.flavor else {}),
        "resources": {account.resource: show(account.resource, loan.units)},
        "until": rfc3339(loan.until),
        **({"reason": loan.reason} if loan.reason else {}),
    }


def _loans(entry: Mapping[str, Any]) -> Iterator[Loan]:
    to, flavor, reason = (entry.get(key, "") for key in ("to", "flavor", "reason"))
    until, resources = end_of(entry), entry.get("resources")
    if until is None or not isinstance(resources, Mapping):
        return
    if not (isinstance(to, str) and to and isinstance(flavor, str)):
        return
    for resource, text in sorted(resources.items()):
        try:
            units = amount(resource, text)
        except (InvalidQuantity, TypeError):
            continue
        if units > 0:
            yield Loan(
                to=QueueName(to),
                account=Account(FlavorName(flavor), resource),
                units=units,
                until=until,
                reason=reason if isinstance(reason, str) else "",
            )
