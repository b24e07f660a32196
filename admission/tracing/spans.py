"""The spans of an admission, from the times that the ledger has of its stages. Pure.

One trace per admission of a gang: a span from the gang's creation, or from the end of its admission before, until its
pods were ready together, and below it a span for each stage, which ends when the stage is reached.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from admission.tracing.context import span_id
from queues.sql.read.over_time.traced import TracedAdmission

#: Name of the span that contains the others.
ROOT: Final = "admission"
#: Of those below it, in their order.
STAGES: Final = ("seen", "decided", "applied", "released", "bound", "running", "evicted", "ended")

Attributes = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSpan:
    """One span. Times in seconds since the epoch."""

    name: str
    #: 32 hexadecimal digits, and 16; parent "": it has none.
    trace: str
    id: str
    parent: str
    start: float
    end: float
    attributes: Attributes
    #: Why the gang did not get to run; "": it did, or ended by itself.
    error: str = ""


def spans_of(admission: TracedAdmission) -> tuple[GangSpan, ...]:
    """The spans, the one that contains the others first. What is not known is left out."""
    reached = list(_reached(admission))
    trace = str(admission.numbers["trace"])
    start = _start(admission)
    common, decision = _about(admission), _of_decision(admission)
    root = span_id(trace, admission.id, ROOT)
    below: list[GangSpan] = []
    last = start
    for name, at in reached:
        # Clocks of several machines, some with whole seconds only.
        end = max(at, last)
        below.append(
            GangSpan(
                name=name,
                trace=trace,
                id=span_id(trace, admission.id, name),
                parent=root,
                start=last,
                end=end,
                attributes={**common, **(decision if name in ("decided", "applied") else {})},
                error=admission.cause if name == "evicted" else "",
            )
        )
        last = end
    outcome = below[-1].name if below and below[-1].name in ("running", "evicted", "ended") else "admitted"
    whole = GangSpan(
        name=ROOT,
        trace=trace,
        id=root,
        parent=str(admission.numbers.get("parentSpan", "")),
        start=start,
        end=last,
        attributes={**common, **decision, "muster.outcome": outcome},
        error=admission.cause if outcome == "evicted" else "",
    )
    return (whole, *below)


def _start(admission: TracedAdmission) -> float:
    """Since when the gang has waited for it; a part of a gang that runs has not waited."""
    if admission.is_part:
        return _decided(admission)
    begins = admission.created if admission.waits_since is None else admission.waits_since
    return _decided(admission) if begins is None else begins


def _decided(admission: TracedAdmission) -> float:
    return float(admission.numbers.get("decidedAt", admission.admitted))


def _reached(admission: TracedAdmission) -> Iterator[tuple[str, float]]:
    """Stages with their times, until the gang runs, or else until its end."""
    start = _start(admission)
    ended = admission.running is None
    times = {
        "seen": None if admission.seen is None or admission.seen < start else admission.seen,
        "decided": _decided(admission),
        "applied": admission.admitted,
        "released": admission.released,
        "bound": admission.bound,
        "running": admission.running,
        "evicted": admission.evicted if ended else None,
        "ended": admission.closed if ended and admission.evicted is None else None,
    }
    for name in STAGES:
        at = times[name]
        if at is not None:
            yield name, at


def _about(admission: TracedAdmission) -> Attributes:
    return {
        "muster.queue": admission.queue,
        "muster.gang": f"{admission.namespace}/{admission.name}",
        "k8s.namespace.name": admission.namespace,
        "muster.workload.kind": str(admission.workload.kind),
        "muster.workload.name": admission.name,
        "muster.workload.uid": admission.workload.uid,
        "muster.admission": admission.id,
        "muster.pods": admission.seats,
        "muster.gpus": admission.devices,
    }


def _of_decision(admission: TracedAdmission) -> Attributes:
    waited = str(admission.numbers.get("waitedFor", ""))
    return {
        "muster.turn": admission.turn,
        "muster.term": admission.term,
        **({"muster.wait.reason": waited} if waited else {}),
    }
