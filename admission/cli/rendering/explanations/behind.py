"""The workloads before one that waits, as a short table for ``kubectl muster explain``."""

from collections.abc import Sequence
from typing import Final

from admission.cli.rendering.table import age, amounts
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table
from admission.read_api.bodies import WaitingBody

_COLUMNS: Final = ("POSITION", "WORKLOAD", "NAMESPACE", "PRIORITY", "PODS", "ASKS", "AGE", "REASON")
_NARROW: Final = Narrowing(names={"WORKLOAD": 16, "NAMESPACE": 9}, left_out=("PODS", "PRIORITY", "ASKS"))


def ahead_table(waiting: Sequence[WaitingBody], now: str, *, width: int | None = None) -> str:
    """One line per workload, of at most ``width`` characters (None for any number)."""
    rows = [
        (
            one.position,
            f"{one.kind}/{one.name}",
            one.namespace,
            one.priority,
            one.pods,
            amounts(one.asks),
            age(one.created, now),
            None if one.reason is None else one.reason.code,
        )
        for one in waiting
    ]
    return fitted_table(_COLUMNS, rows, _NARROW, width=width, right="POSITION PRIORITY PODS AGE")
