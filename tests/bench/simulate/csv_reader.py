"""Tables of recorded traces, in the units of the engine."""

import csv
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Final

from queues.workload import EVERYWHERE, NodeFilter, Requirement

#: Label of a node with the model of its GPUs.
MODEL: Final = "nvidia.com/gpu.product"


class TableRow(dict[str, str]):
    """One line of a table."""

    def whole(self, column: str) -> int:
        """A request or a duration, rounded up to a whole number."""
        return int(Decimal(self[column]).to_integral_value(ROUND_CEILING))

    def offered(self, column: str) -> int:
        """An offered amount, rounded down to a whole number."""
        return int(Decimal(self[column]))


def lines(path: Path) -> list[TableRow]:
    """The lines of a CSV file with a head; cells that a line lacks are empty."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [TableRow(row) for row in csv.DictReader(file, restval="")]


def nodes_with(models: str) -> NodeFilter:
    """The nodes with one of these models, as in ``T4|V100``; "": all nodes."""
    wanted = tuple(sorted(set(filter(None, models.split("|")))))
    return NodeFilter(affinity=((Requirement(MODEL, "In", wanted),),)) if wanted else EVERYWHERE
