"""What would let workloads in, keeps them from going on, or could take their places, as the read API shows it.

From the leader's memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from admission.engine.snapshot import Snapshot
from admission.explain.explain import Explained, explain
from admission.explain.takers import standing
from admission.web.lists.expected import told_at
from queues.plan import Plan, Reason
from queues.quota.budgets import NO_HOURS, WARNED_AT, BudgetUse, hours_text, hundredths
from queues.quota.queue import path_upwards
from queues.read_api import bodies
from queues.read_api.bodies import ExpectedStartBody, OutlookBody
from queues.reason_codes import NEEDS_A_CHANGE
from queues.text_format import rfc3339, span
from queues.workload import Workload, WorkloadKey


class KnownBesides(NamedTuple):
    """What the leader knows besides a snapshot."""

    #: None if no queue has a budget.
    budget_use: BudgetUse | None = None
    #: Values of the priority classes that users may name.
    classes: Mapping[str, int] = MappingProxyType({})


#: A workload with seats that does not go on: what is known of it, and what is wrong.
Problem = tuple[Workload, Reason]

_NOT_PENDING: Final = Explained(position=None, queue_length=None, behind="", changes=())


def outlooks(
    snapshot: Snapshot,
    plan: Plan,
    namespace: str,
    name: str,
    kind: str | None,
    problems: Sequence[Problem] = (),
    *,
    expected: Callable[[WorkloadKey], ExpectedStartBody | None] = lambda key: None,
    known_besides: "KnownBesides | None" = None,
) -> tuple[OutlookBody, ...]:
    """Outlooks of the workloads of this name that are pending, run or have a problem, by kind; empty: there is none.
    ``problems``: of workloads of this name. ``expected``: when a pending workload should start. ``known_besides``:
    None for nothing."""
    budget_use, classes = known_besides or KnownBesides()
    wrong = {workload.key: reason for workload, reason in problems}
    known = {workload.key: workload for workload, _ in problems}
    known |= {
        workload.key: workload
        for rows in (snapshot.pending, snapshot.holders)
        for workload in rows.values()
        if workload.namespace == namespace and workload.name == name
    }
    found = []
    next_snapshot = snapshot.after(plan) if known else snapshot
    for key, workload in sorted(known.items()):
        if kind not in (None, str(workload.kind)):
            continue
        explained, place = explain(snapshot, plan, key, classes), standing(next_snapshot, key)
        if explained is not None or key in wrong or place is not None:
            outlook = _outlook(snapshot, workload, explained or _NOT_PENDING, wrong.get(key))
            reason = plan.reasons.get(key)
            waits_for_people = reason is not None and reason.code in NEEDS_A_CHANGE
            found.append(
                msgspec.structs.replace(
                    outlook,
                    standing=place,
                    expected=None if waits_for_people else _told(expected(key), snapshot.now),
                    budgets=tuple(_budget_sentences(snapshot, workload, budget_use)),
                )
            )
    return tuple(found)


def _budget_sentences(snapshot: Snapshot, workload: Workload, use: BudgetUse | None) -> Iterator[str]:
    """Budgets that are nearly used up, and those that the workload would pass with its run time if it started now."""
    waits = workload.run_time is not None and workload.key in snapshot.pending
    for queue in path_upwards(workload.queue, snapshot.queues.get):
        if use is None or (budget := queue.budget) is None:
            continue
        for resource in sorted(budget.hours):
            asked = workload.asks()[resource] * (workload.run_time or 0) if waits else 0
            amount = budget.amount(resource)
            used = use.hours.get(queue.name, {}).get(resource, NO_HOURS).until(snapshot.now)
            if (percent := hundredths(used, amount)) >= WARNED_AT:
                yield (
                    f"Queue {queue.name} has used {percent} % of its {hours_text(resource, amount)} hours of {resource}"
                    f" until {rfc3339(use.period.ends)}"
                )
            if 0 < amount - used < asked:
                yield (
                    f"In its run time of {span(workload.run_time or 0)} it takes {hours_text(resource, asked)} hours of"
                    f" {resource}, more than the {hours_text(resource, amount - used)} left of the budget of queue"
                    f" {queue.name}. It is admitted all the same"
                )


def _told(start: ExpectedStartBody | None, now: int) -> ExpectedStartBody | None:
    return None if start is None else told_at(start, rfc3339(now))


def _outlook(
    snapshot: Snapshot, workload: Workload, explained: Explained, problem: Reason | None
) -> OutlookBody:
    return OutlookBody(
        now=rfc3339(snapshot.now),
        kind=str(workload.kind),
        namespace=workload.namespace,
        name=workload.name,
        uid=workload.key.uid,
        behind=explained.behind,
        changes=explained.changes,
        problem=None if problem is None else bodies.ReasonBody(code=problem.code, message=problem.message),
    )
