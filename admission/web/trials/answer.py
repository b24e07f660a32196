"""A trial as the read API shows it, from the leader's memory. Names of others are left out on the way to the user."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import structs

from admission.engine.nodes.table import Layout
from admission.trials.trial import DecidedTrial, Outcome, QuotaTaken, explained
from admission.web.overview import names_alike
from queues.admissions import Seat
from queues.plan import Evict, Reason
from queues.read_api import trials as bodies
from queues.read_api.bodies import ExpectedStartBody, ReasonBody
from queues.read_api.quantities import facts_with_quantities, quantities
from queues.reason_codes import NEEDS_A_CHANGE
from queues.resources import show
from queues.text_format import rfc3339
from queues.workload import WorkloadKey

#: Places and victims that are shown of one workload.
MOST_PLACES: Final = 100
MOST_VICTIMS: Final = 50


def trial_list(
    decided: DecidedTrial,
    skipped: Sequence[bodies.SkippedBody],
    has_time: Callable[[], bool],
    expected: Mapping[WorkloadKey, ExpectedStartBody],
) -> bodies.TrialList:
    """The answer. ``has_time``: whether there is time to work out what would let the next workload in. ``expected``:
    when workloads should start that wait."""
    return bodies.TrialList(
        now=rfc3339(decided.snapshot.now),
        items=tuple(
            structs.replace(_trial(decided, each), expected=_expected(each, expected))
            for each in explained(decided, has_time)
        ),
        skipped=tuple(skipped),
    )


def _expected(
    outcome: Outcome, expected: Mapping[WorkloadKey, ExpectedStartBody]
) -> ExpectedStartBody | None:
    """When it should start. None if that is not known, or time alone does not let it in."""
    if outcome.reason is not None and outcome.reason.code in NEEDS_A_CHANGE:
        return None
    return expected.get(outcome.submitted.key)


def _trial(decided: DecidedTrial, outcome: Outcome) -> bodies.TrialBody:
    named, workload, found = outcome.submitted, outcome.workload, outcome.explained
    body = bodies.TrialBody(
        kind=str(named.kind),
        namespace=named.namespace,
        name=named.name,
        state=str(outcome.state),
        refusals=named.refusals,
        warnings=named.warnings,
        unknown_fields=named.unknown_fields,
        nearest_queues=_nearest(decided, named.missing_queue) if named.missing_queue else (),
    )
    if workload is None:
        return body
    reason = outcome.reason
    body = structs.replace(
        body,
        queue=workload.queue,
        priority=workload.priority,
        pods=sum(pods.wanted_count() for pods in workload.pod_sets),
        minimum=workload.minimum,
        asks=quantities(workload.asks()),
        reason=None if reason is None else _reason(reason),
        places=places_of(decided.snapshot.nodes.layout, outcome.seats),
        node_count=len({seat.node for seat in outcome.seats}),
        quota=tuple(map(_quota, outcome.takes)),
        victims=tuple(_victim(decided, each) for each in outcome.victims[:MOST_VICTIMS]),
        victim_count=len(outcome.victims),
        nearest_queues=_nearest(decided, workload.queue),
    )
    if found is None:
        return body
    return structs.replace(
        body,
        position=found.position,
        queue_length=found.queue_length,
        behind=found.behind,
        changes=found.changes,
    )


def _nearest(decided: DecidedTrial, queue: str) -> tuple[str, ...]:
    """Names that look like that of a queue that there is not; empty: there is one."""
    queues = decided.snapshot.queues
    return () if queue in queues else names_alike(queue, queues)


def _reason(reason: Reason) -> ReasonBody:
    return ReasonBody(code=reason.code, message=reason.message, facts=facts_with_quantities(reason.facts))


def places_of(layout: Layout, seats: Sequence[Seat]) -> tuple[bodies.PlaceBody, ...]:
    """Seats by node and pod set, in the order of the nodes."""
    counts = Counter((seat.node, seat.pod_set, seat.flavor, seat.takes) for seat in seats)
    ordered = sorted(counts.items(), key=lambda each: (layout.position.get(each[0][0], 0), each[0][1]))
    return tuple(
        bodies.PlaceBody(
            node=node,
            domain=_domain(layout, layout.position.get(node)),
            pod_set=pod_set,
            flavor=flavor,
            count=count,
            takes=quantities(takes * count),
        )
        for (node, pod_set, flavor, takes), count in ordered[:MOST_PLACES]
    )


def _domain(layout: Layout, column: int | None) -> str:
    """The innermost domain of the first topology above a node; "": none."""
    for level in reversed(layout.chains[0][:-1]) if layout.chains and column is not None else ():
        if (domain := int(level.of[column])) >= 0:
            return level.domains[domain]
    return ""


def _quota(each: QuotaTaken) -> bodies.QuotaTakenBody:
    def shown(units: int | None) -> str | None:
        return None if units is None else show(each.account.resource, units)

    return bodies.QuotaTakenBody(
        queue=each.queue,
        flavor=each.account.flavor,
        resource=each.account.resource,
        takes=show(each.account.resource, each.units),
        owned=shown(each.owned),
        borrowed=shown(None if each.owned is None else each.units - each.owned),
        used=show(each.account.resource, each.used),
        deserved=shown(each.deserved),
    )


def _victim(decided: DecidedTrial, evict: Evict) -> bodies.VictimBody:
    admission = decided.snapshot.admissions[evict.admission]
    return bodies.VictimBody(
        kind=str(admission.workload.kind),
        namespace=admission.namespace,
        name=admission.name,
        queue=admission.queue,
        code=evict.code,
        message=evict.message,
    )
