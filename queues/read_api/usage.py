"""What the read API answers about use: the JSON documents of docs/reference/http.md, field by field."""

import msgspec

from queues.read_api.bodies import AgedBody, Body, PagedBody, WorkloadBody


class UsageBody(Body, frozen=True, kw_only=True):
    """Use of one resource in a period. Columns that were not asked for are null."""

    resource: str
    #: The child of root that the queue is below; "": the user may not see it.
    tenant: str | None
    queue: str | None
    #: "": unknown.
    user: str | None
    #: null also where it is not known any more.
    workload: WorkloadBody | None
    flavor: str | None
    #: True: workloads that the user may not see, together; ``user`` and ``workload`` are null.
    others: bool
    #: Amount × seconds, exact, as a quantity.
    amount_seconds: str
    #: The same in hours of one GPU, CPU, byte or whatever the resource counts.
    hours: float
    #: Part of ``amountSeconds``: of admissions that were evicted for other workloads, and because of a fault.
    preempted_seconds: str
    faulted_seconds: str
    #: The same because nodes were drained, or kept for a reservation.
    maintenance_seconds: str = "0"


class UsageList(PagedBody, frozen=True, kw_only=True):
    """``GET …/usage``: by the columns that were asked for, in their order."""

    from_: str = msgspec.field(name="from")
    #: Not after ``now``.
    to: str
    #: Columns that were asked for: tenant | queue | user | workload | flavor
    by: tuple[str, ...]
    #: Use before this time is not known and not counted: its postings were dropped. null: all is known.
    history_begins: str | None
    #: Workloads that ended before this time are not known by name, nor whether they were evicted. null: all are.
    workloads_begin: str | None
    #: One for each resource, of all lines, also beyond the page.
    totals: tuple[UsageBody, ...]
    items: tuple[UsageBody, ...]


class SeriesBody(Body, frozen=True, kw_only=True):
    """One queue with all queues below it; each list has an element for each slot."""

    queue: str
    #: What it deserves and may use now; null: not stated.
    deserved: float | None
    capability: float | None
    #: What is never lent of it now.
    guarantee: float = 0.0
    #: The amount that was held, on average over the slot.
    used: tuple[float, ...]
    #: Workloads that got their first seats.
    started: tuple[int, ...]
    #: Seconds from the creation of these to their seats: half of them, and nine of ten, waited no longer. null: there
    #: are none.
    wait_median: tuple[int | None, ...]
    wait_most: tuple[int | None, ...]


class TimeSeriesList(AgedBody, frozen=True, kw_only=True):
    """``GET …/timeseries``: the queue, then the queues directly below it that used most."""

    from_: str = msgspec.field(name="from")
    #: Not after ``now``.
    to: str
    #: Seconds of a slot; the last one may be shorter.
    step: int
    resource: str
    #: When each slot begins.
    slots: tuple[str, ...]
    #: Before this time it is not known; slots begin there. null: all is known.
    history_begins: str | None
    items: tuple[SeriesBody, ...]
    #: Queues directly below that the user may see, also those that have no line here.
    total: int
