"""The loans in a Queue's document as values of the domain. What cannot be read is no loan."""

from collections.abc import Iterator, Mapping
from typing import Any

from queues.api.quota.quota_loans import Entry, end_of, entries
from queues.errors import InvalidQuantity
from queues.quota.accounts import Account
from queues.quota.loans import Loan
from queues.resources import amount, show
from queues.text_format import rfc3339
from queues.workload import FlavorName, QueueName


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
