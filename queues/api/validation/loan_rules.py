"""Rules for the loans of a Queue: what each says, and who may make or end it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from queues.api.quota.loans import end_of, lasting, loans_of
from queues.api.types.queue import QueueDocument, queues_of
from queues.api.validation.violations import Violation, limit_violations
from queues.errors import InvalidQuantity
from queues.json_values import mapping_at
from queues.quota.loans import loans_in_force
from queues.quota.queue import ROOT, Loan
from queues.quota.queue import Queue as DomainQueue
from queues.resources import amount
from queues.text_format import excerpt, rfc3339

Document = Mapping[str, Any]


def loan_violations(queue: QueueDocument, queues: Mapping[str, DomainQueue] | None) -> Iterator[Violation]:
    """Violations of ``spec.loans``. ``queues``: those that exist; None if not known."""
    name = queue.metadata.name
    for index, loan in enumerate(queue.spec.loans):
        here = f"spec.loans[{index}]"
        if name == ROOT:
            yield Violation(here, "a loan", "none: root has what the nodes can allocate, and lends nothing")
            continue
        if loan.to in (name, ROOT):
            yield Violation(
                f"{here}.to", excerpt(loan.to), "the name of another queue than this one and root"
            )
        elif queues is not None and loan.to not in queues:
            expected = "the name of a Queue that exists; until then the loan has no effect"
            yield Violation(f"{here}.to", excerpt(loan.to), expected, tolerable=True)
        if end_of(loan.document()) is None:
            yield Violation(f"{here}.until", excerpt(loan.until), "a time such as 2026-11-27T18:00:00Z")
        yield from _amounts(loan.resources, f"{here}.resources")
        yield from _stated(queue, loan.flavor, loan.resources, here)


def _amounts(resources: Mapping[str, Any], path: str) -> Iterator[Violation]:
    if not resources:
        yield Violation(path, "nothing", "amounts by resource, such as nvidia.com/gpu: 16")
    yield from limit_violations(resources, path)
    for resource, text in resources.items():
        try:
            is_nothing = amount(resource, text) == 0
        except InvalidQuantity:
            continue
        if is_nothing:
            yield Violation(f"{path}[{resource}]", excerpt(text), "an amount above 0")


def _stated(
    queue: QueueDocument, flavor: str, resources: Mapping[str, Any], path: str
) -> Iterator[Violation]:
    """A queue lends only of what it states as ``deserved``."""
    spec = queue.spec
    stated = spec.deserved
    if flavor:
        stated = next((each.deserved for each in spec.flavors if each.name == flavor), {})
    for resource in resources:
        if resource not in stated:
            of = f" of flavor {flavor}" if flavor else ""
            found = f"{resource}{of}, of which the queue states no deserved amount"
            expected = "a resource that it does state; until then the loan has no effect"
            yield Violation(f"{path}.resources", found, expected, tolerable=True)


def loan_refusals(
    name: str,
    before: Document | None,
    after: Document,
    administers: Callable[[str, str], bool],
    now: float,
) -> list[str]:
    """Why a user who is no platform administrator may not change the loans of a queue; empty: they may.

    ``administers``: of two queues, whether the user administers everything that a loan between them changes. ``now``:
    seconds since the epoch; loans that have ended by then may be taken out by any user. Equal entries each count: a
    loan that is there twice lends twice as much.
    """
    old, new = (lasting(mapping_at(document, "spec"), now) for document in (before, after))
    changed = [each for each in (*new, *old) if new.count(each) != old.count(each)]
    return [
        f"queue {name}: found a loan to {receiver[:60]} that is made, changed or ended, expected one between queues "
        "below a queue that you administer. Ask a platform administrator to lend beyond that"
        for receiver in dict.fromkeys(str(each.get("to")) for each in changed)
        if not administers(name, receiver)
    ]


Documents = Mapping[str, Document]


def weakened_loans(
    name: str, before: Documents, after: Documents, administers: Callable[[str, str], bool], now: float
) -> list[str]:
    """Why a change of a queue is refused for the loans of others that it makes count for less; empty: it makes none.

    A loan counts as far as the lender has the amount (``queues.quota.loans``). So an administrator of the lending
    tenant would end a platform administrator's loan by a smaller ``deserved``, a larger ``guarantee``, or an earlier
    loan of the same amount.

    ``before``, ``after``: all Queues, as they are and as they are to be. ``administers``: of lender and receiver,
    whether the user administers everything that a loan between them changes. ``now``: seconds since the epoch.
    """
    if not lends_now(before, now):
        return []
    counted, counts = _counting(before, now), _counting(after, now)
    return [
        f"queue {name}: found a change with which the loan of {loan.account.amount(loan.units)} from {lender} to "
        f"{loan.to} until {rfc3339(loan.until)} counts for {loan.account.show(counts[lender, loan])}, expected "
        f"{loan.account.show(units)} as now: it was made by a platform administrator. Leave queue {lender} as much, "
        "or ask one to end the loan"
        for (lender, loan), units in counted.items()
        if counts[lender, loan] < units and not administers(lender, loan.to)
    ]


def lends_now(documents: Documents, now: float) -> bool:
    """Whether a loan lasts of any of these Queues. Only then all of them have to be read."""
    specs = (mapping_at(document, "spec") for document in documents.values())
    return any(loan.until > now for spec in specs for loan in loans_of(spec))


def _counting(documents: Documents, now: float) -> Counter[tuple[str, Loan]]:
    """How much of each loan counts, by lender and loan: however the entry is written, and of equal ones together."""
    counting: Counter[tuple[str, Loan]] = Counter()
    for each in loans_in_force(queues_of(documents), int(now)).loans:
        counting[each.lender, each.loan] += each.units
    return counting
