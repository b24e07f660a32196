"""The summary at the end of the demo."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from admission.cli.rendering.table import table
from deploy.demo.cluster_view import ClusterView, Observer, WorkloadRow
from deploy.demo.examples import GANG, GROUP, WORKLOADS, ExampleWorkload
from deploy.demo.proof import prove_whole
from deploy.demo.table import WIDTH

_REASON: Final = textwrap.TextWrapper(
    width=WIDTH, initial_indent="  └ ", subsequent_indent="    ", break_on_hyphens=False
)
_WRAP: Final = textwrap.TextWrapper(width=WIDTH, subsequent_indent=" " * 9, break_on_hyphens=False)


def summary(view: ClusterView, observer: Observer, gpus_per_node: int) -> Iterator[str]:
    """Waiting times and reasons, and the proofs. Raises GangTorn, GangIncomplete."""
    yield from _ran([view[workload] for workload in WORKLOADS], observer.reasons)
    yield ""
    moments = observer.history.moments
    for workload in (GANG, GROUP):
        proof = prove_whole(workload, moments, gpus_per_node)
        yield from _WRAP.wrap(
            f"Checked  {workload.key} against {proof.events} watch events of pods: when its first pod was bound, the "
            f"places of all {proof.pods} were free, and all were bound within {_ms(proof.spread)}. It never held a "
            f"GPU for a part of the gang."
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
            yield from _REASON.wrap(f"{code}: {message}")
