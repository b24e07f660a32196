"""The summary at the end of the demo."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from admission.cli.rendering.table import table
from deploy.demo.cluster_view import ClusterView, Observer, WorkloadRow
from deploy.demo.examples import GANG, GROUP, ONE_RACK, WORKLOADS, ExampleWorkload
from deploy.demo.proof import prove_whole, writes_for
from deploy.demo.table import WIDTH

_WRAP: Final = textwrap.TextWrapper(width=WIDTH, subsequent_indent=" " * 9, break_on_hyphens=False)


def summary(
    view: ClusterView,
    observer: Observer,
    writes: Mapping[tuple[str, str, str], int],
    gpus_per_node: int,
) -> Iterator[str]:
    """Waiting times and reasons, the proofs, and the writes to the API server. Raises GangTorn, GangIncomplete."""
    yield from _ran([view[workload] for workload in WORKLOADS], observer.reasons)
    yield ""
    moments = observer.history.moments
    for workload in (GANG, GROUP):
        proof = prove_whole(workload, moments, gpus_per_node)
        yield from _WRAP.wrap(
            f"Proof    {workload.key}: no pod of the waiting gang was bound before all seats were there. The first "
            f"was bound {_ms(proof.delay)} later, all {proof.pods} within {_ms(proof.spread)}. "
            f"So say {proof.events} watch events, all there were."
        )
    yield ""
    for workload in (ONE_RACK, GANG, GROUP):
        counts = writes_for(workload, writes)
        detail = ", ".join(f"{times} × {resource}" for resource, times in counts.most_common())
        yield from _WRAP.wrap(
            f"Writes   {workload.key}: {counts.total()} by Muster to the API server, for a gang of "
            f"{workload.pods}: {detail}."
        )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _ran(
    rows: Sequence[WorkloadRow], reasons: Mapping[ExampleWorkload, Sequence[tuple[str, str]]]
) -> Iterator[str]:
    columns = ["WORKLOAD", "QUEUE", "PODS", "GPUS", "WAITED"]
    cells = [
        (
            row.workload.key,
            row.workload.queue,
            row.workload.pods,
            row.workload.pods * row.workload.gpus,
            f"{row.waited:.1f} s",
        )
        for row in rows
    ]
    head, *lines = table(columns, cells, right="PODS GPUS WAITED").splitlines()
    yield head
    for row, line in zip(rows, lines, strict=True):
        yield line
        for code, message in list(reasons.get(row.workload, ()))[:1]:
            yield f"  └ {code}: {message}"
