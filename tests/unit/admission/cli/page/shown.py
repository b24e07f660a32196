"""What the page shows of reservations, drains, loans and use over time."""

from typing import Any

from msgspec import convert

from admission.cli.access.object_forms import ClosureObject
from admission.cli.plugin.reservations import ClosureLine, closure_line
from queues.api.api_resources import NODE_DRAINS, RESERVATIONS
from queues.api.names import CHANGED_BY
from queues.read_api.bodies import LoanInForceBody
from queues.read_api.usage import SeriesBody, TimeSeriesList

GPU = "nvidia.com/gpu"
_SLOTS = ("2026-11-21T08:00:00Z", "2026-11-21T09:00:00Z", "2026-11-21T10:00:00Z")


def reservation(
    name: str, queue: str, begins: str, phase: str = "Planned", *, by: str = "ada", **status: Any
) -> ClosureLine:
    document = {
        "metadata": {"name": name, "annotations": {CHANGED_BY: by}},
        "spec": {"queue": queue, "resources": {GPU: "64"}, "from": begins, "for": "4h"},
        "status": {"phase": phase, **status},
    }
    return closure_line(convert(document, ClosureObject), RESERVATIONS)


def drain(name: str, begins: str) -> ClosureLine:
    spec = {"nodeSelector": {"rack": "<r7>"}, "at": begins}
    document = {"metadata": {"name": name}, "spec": spec, "status": {}}
    return closure_line(convert(document, ClosureObject), NODE_DRAINS)


def loan(lender: str | None, to: str, *, counts: str = "8", problem: str = "") -> LoanInForceBody:
    return LoanInForceBody(
        from_=lender,
        to=to,
        flavor="",
        resource=GPU,
        amount="8",
        counts=counts,
        until="2026-11-24T18:00:00Z",
        reason="a deadline",
        problem=problem,
    )


def use_over_time(*used: float, to: str, queue: str = "team") -> TimeSeriesList:
    """Of a queue with a capability of 16 GPUs, hour by hour."""
    nothing = (None,) * len(used)
    line = SeriesBody(
        queue=queue,
        deserved=None,
        capability=16.0,
        used=used,
        started=(0,) * len(used),
        wait_median=nothing,
        wait_most=nothing,
    )
    return TimeSeriesList(
        now=to,
        from_=_SLOTS[0],
        to=to,
        step=3600,
        resource=GPU,
        slots=_SLOTS[: len(used)],
        history_begins=None,
        items=(line,),
        total=0,
    )
