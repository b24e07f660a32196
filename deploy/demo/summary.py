"""What is told at the end."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from admission.cli.table import table
from deploy.demo.cast import ALL, GANG, GROUP, Role
from deploy.demo.proof import whole, writes_for
from deploy.demo.scene import Observer, Row, Scene

#: Waiting shorter than this is not worth a reason.
_AT_ONCE: Final = 1.0


def summary(
    scene: Scene,
    observer: Observer,
    writes: Mapping[tuple[str, str, str], int],
    gpus_per_node: int,
) -> Iterator[str]:
    """Who ran and who waited why, the proof, and what it cost the API server. Raises GangTorn, GangIncomplete."""
    yield "What ran"
    yield ""
    yield from _ran([scene[role] for role in ALL], observer.reasons)
    yield ""
    moments = observer.history.moments
    for role in (GANG, GROUP):
        proof = whole(role, moments, gpus_per_node)
        yield (
            f"Proof    {role.key}: no pod of the waiting gang was bound before all {proof.pods} seats were there; "
        )
        yield (
            f"         then all {proof.pods} were bound within {proof.spread * 1000:.0f} ms "
            f"({proof.events} watch events looked at)"
        )
    for role in (GANG, GROUP):
        told = writes_for(role, writes)
        detail = ", ".join(f"{times} {resource}" for resource, times in told.most_common())
        yield f"Writes   {role.key}: {told.total()} by Muster to the API server for {role.pods} pods"
        yield f"         {detail}"


def _ran(rows: Sequence[Row], reasons: Mapping[Role, Sequence[tuple[str, str]]]) -> Iterator[str]:
    columns = ["WORKLOAD", "QUEUE", "PODS", "GPUS", "WAITED", "FOR"]
    cells = [
        (
            row.role.key,
            row.role.queue,
            row.role.pods,
            row.role.pods * row.role.gpus,
            f"{row.waited:.1f} s",
            _longest(row, reasons.get(row.role, ())),
        )
        for row in rows
    ]
    yield from table(columns, cells, right="PODS GPUS WAITED").splitlines()


def _longest(row: Row, reasons: Sequence[tuple[str, str]]) -> str | None:
    """The first reason is what stopped it; later ones tell how that changed."""
    return (
        ", ".join(dict.fromkeys(code for code, _ in reasons)) if row.waited >= _AT_ONCE and reasons else None
    )
