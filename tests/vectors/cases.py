"""The kinds of conformance vectors, by file name: each runs one case and says what is wrong, or None."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.vectors import quota_tree, topology_placement

Case = dict[str, Any]

KINDS: dict[str, Callable[[Case], str | None]] = {
    "quota_tree": quota_tree.difference,
    "topology_placement": topology_placement.difference,
}


def load(path: Path) -> list[Case]:
    """All cases of a file."""
    cases: list[Case] = json.loads(path.read_text())
    return cases
