"""Loans that another administrator has made: a user who may not end them may not make them count for less. Pure.

A loan counts as far as the lender has the amount (``queues.quota.loans``). So an administrator of the lending tenant
would end a platform administrator's loan by a smaller ``deserved``, a larger ``guarantee``, or an earlier loan of the
same amount.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from queues.api.quota.loans import loans_of
from queues.api.types.queue import QueueDocument
from queues.errors import InvalidDocument
from queues.json_values import mapping_at
from queues.quota.accounts import Account
from queues.quota.loans import Loan, loans_in_force
from queues.quota.queue import Queue
from queues.text_format import rfc3339
from queues.workload import QueueName

Document = Mapping[str, Any]
Documents = Mapping[str, Document]


class _Known(NamedTuple):
    """A loan by what it is, however the entry is written and wherever it is in the list."""

    lender: str
    loan: Loan


def weakened_loans(
    name: str, before: Documents, after: Documents, administers: Callable[[str, str], bool], now: float
) -> list[str]:
    """Why a change of a queue is refused for the loans that it makes count for less; empty: it makes none.

    ``before``, ``after``: all Queues, as they are and as they are to be. ``administers``: of lender and receiver,
    whether the user administers everything that a loan between them changes. ``now``: seconds since the epoch.
    """
    if not any(_lasting(document, now) for document in before.values()):
        return []
    counted, counts = _counting(before, now), _counting(after, now)
    return [
        f"queue {name}: found a change with which the loan of {_amount(known)} from {known.lender} to {known.loan.to} "
        f"until {rfc3339(known.loan.until)} counts for {_units(known, counts.get(known, 0))}, expected "
        f"{_units(known, units)} as now: it was made by a platform administrator. Leave queue {known.lender} as much, "
        "or ask one to end the loan"
        for known, units in counted.items()
        if counts.get(known, 0) < units and not administers(known.lender, known.loan.to)
    ]


def _lasting(document: Document, now: float) -> list[Loan]:
    return [each for each in loans_of(mapping_at(document, "spec")) if each.until > now]


def _counting(documents: Documents, now: float) -> dict[_Known, int]:
    """How much of each loan counts; of equal ones together."""
    queues: dict[QueueName, Queue] = {}
    for name, document in documents.items():
        try:
            queues[QueueName(name)] = QueueDocument.read(document).to_domain()
        except InvalidDocument:
            continue
    loans = {name: found for name in queues if (found := _lasting(documents[name], now))}
    counting: dict[_Known, int] = {}
    for each in loans_in_force(queues, loans, int(now)).loans:
        known = _Known(each.lender, each.loan)
        counting[known] = counting.get(known, 0) + each.units
    return counting


def _amount(known: _Known) -> str:
    return known.loan.account.amount(known.loan.units)


def _units(known: _Known, units: int) -> str:
    account: Account = known.loan.account
    return account.show(units)
