"""The kinds of conformance vectors, by file name: each runs one case and says what is wrong, or None."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.vectors import preemption, quota_tree, topology_placement

Case = dict[str, Any]

KINDS: dict[str, Callable[[Case], str | None]] = {
    "preemption": preemption.difference,
    "quota_tree": quota_tree.difference,
    "topology_placement": topology_placement.difference,
}

#: Kinds that nothing has to equal, and why.
FOR_INFORMATION: dict[str, str] = {
    "dominant_share": "for information: Kueue measures what is borrowed, Muster used ÷ deserved (design §5)",
}


def kind_of(path: Path) -> str | None:
    """The kind that a file's name tells; None: it tells none."""
    name = path.name.replace("-", "_")
    return next((kind for kind in (*KINDS, *FOR_INFORMATION) if kind in name), None)


def load(path: Path) -> list[Case]:
    """All cases of a file. Raises OSError or ValueError."""
    cases: list[Case] = json.loads(path.read_text())
    if not isinstance(cases, list):
        raise ValueError(f"found {type(cases).__name__}, expected a list of cases")
    return cases
