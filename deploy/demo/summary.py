"""What is told at the end."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from admission.cli.rendering.table import table
from deploy.demo.cast import ALL, GANG, GROUP, ONE_RACK, Role
from deploy.demo.proof import whole, writes_for
from deploy.demo.scene import Observer, Scene, SceneRow
from deploy.demo.table import WIDTH

_WRAP: Final = textwrap.TextWrapper(width=WIDTH, subsequent_indent=" " * 9, break_on_hyphens=False)


def summary(
    scene: Scene,
    observer: Observer,
    writes: Mapping[tuple[str, str, str], int],
    gpus_per_node: int,
) -> Iterator[str]:
    """Who ran and who waited why, the proof, and what it cost the API server. Raises GangTorn, GangIncomplete."""
    yield from _ran([scene[role] for role in ALL], observer.reasons)
    yield ""
    moments = observer.history.moments
    for role in (GANG, GROUP):
        proof = whole(role, moments, gpus_per_node)
        yield from _WRAP.wrap(
            f"Proof    {role.key}: no pod of the waiting gang was bound before all seats were there. The first "
            f"was bound {_ms(proof.delay)} later, all {proof.pods} within {_ms(proof.spread)}. "
            f"So say {proof.events} watch events, all there were."
        )
    yield ""
    for role in (ONE_RACK, GANG, GROUP):
        told = writes_for(role, writes)
        detail = ", ".join(f"{times} × {resource}" for resource, times in told.most_common())
        yield from _WRAP.wrap(
            f"Writes   {role.key}: {told.total()} by Muster to the API server, for a gang of {role.pods}: {detail}."
        )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _ran(rows: Sequence[SceneRow], reasons: Mapping[Role, Sequence[tuple[str, str]]]) -> Iterator[str]:
    columns = ["WORKLOAD", "QUEUE", "PODS", "GPUS", "WAITED"]
    cells = [
        (row.role.key, row.role.queue, row.role.pods, row.role.pods * row.role.gpus, f"{row.waited:.1f} s")
        for row in rows
    ]
    head, *lines = table(columns, cells, right="PODS GPUS WAITED").splitlines()
    yield head
    for row, line in zip(rows, lines, strict=True):
        yield line
        for code, message in list(reasons.get(row.role, ()))[:1]:
            yield f"  └ {code}: {message}"
