"""The loans between queues as the read API shows them."""

from collections.abc import Iterable, Mapping

import msgspec

from admission.web.reader import Sight
from queues.api.quota.loans import loans_of
from queues.api.quota.quota_document import Spec
from queues.quota.loans import Loan, LoanInForce, loans_in_force
from queues.quota.queue import Queue
from queues.read_api import bodies
from queues.sql.read.rows import QueueLine
from queues.text_format import rfc3339
from queues.workload import QueueName


def with_loans(
    shown: Iterable[bodies.QueueBody],
    lines: Iterable[QueueLine],
    queues: Mapping[QueueName, Queue],
    now: int,
) -> tuple[bodies.QueueBody, ...]:
    """Queues with the loans that last at ``now``, in seconds. ``queues``: with the limits that they state."""
    loans = {line.name: found for line in lines if (found := loans_of(line.document.get("spec") or {}))}
    of_queue: dict[str, list[bodies.LoanInForceBody]] = {}
    for each in loans_in_force(queues, loans, now).loans if loans else ():
        for name in (each.lender, each.loan.to):
            of_queue.setdefault(name, []).append(_in_force(each))
    return tuple(
        msgspec.structs.replace(body, loans=tuple(of_queue[body.name])) if body.name in of_queue else body
        for body in shown
    )


def in_sight(body: bodies.QueueBody, sight: Sight) -> bodies.QueueBody:
    """A queue without the names of queues that lend to it and that the user may not see."""
    if all(each.from_ is None or sight.shows_queue(each.from_) for each in body.loans):
        return body
    return msgspec.structs.replace(
        body,
        loans=tuple(
            each
            if each.from_ is None or sight.shows_queue(each.from_)
            else msgspec.structs.replace(each, from_=None, reason="", problem="")
            for each in body.loans
        ),
    )


def stated_loans(spec: Spec) -> tuple[bodies.LoanBody, ...]:
    """The loans that a version of a queue states."""
    return tuple(bodies.LoanBody(**_stated(loan)) for loan in loans_of(spec))


def _in_force(each: LoanInForce) -> bodies.LoanInForceBody:
    return bodies.LoanInForceBody(
        **_stated(each.loan),
        from_=each.lender,
        counts=each.loan.account.show(each.units),
        problem=each.problem,
    )


def _stated(loan: Loan) -> dict[str, str]:
    return {
        "to": loan.to,
        "flavor": loan.account.flavor,
        "resource": loan.account.resource,
        "amount": loan.account.show(loan.units),
        "until": rfc3339(loan.until),
        "reason": loan.reason,
    }
