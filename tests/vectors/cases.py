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
    name = path.name.casefold().replace("-", "_").replace(" ", "_")
    return next((kind for kind in (*KINDS, *FOR_INFORMATION) if kind in name), None)


def load(path: Path) -> list[Case]:
    """All cases of a file. Raises OSError or ValueError."""
    try:
        cases: list[Case] = json.loads(path.read_text(encoding="utf-8-sig"))
    except RecursionError:
        raise ValueError("found lists nested too deep, expected a list of cases") from None
    if not isinstance(cases, list):
        raise ValueError(f"found {type(cases).__name__}, expected a list of cases")
    return cases


def judge(kind: str, case: object) -> str | None:
    """What is wrong with a case, on one line; None: nothing. A case that cannot be run is wrong."""
    if not isinstance(case, dict):
        return f"found {type(case).__name__}, expected a case"
    try:
        wrong = KINDS[kind](_told(case))
    except KeyError as error:
        wrong = f"cannot be run: found no {error.args[0]!r} in it"
    except Exception as error:  # the other cases are told as well
        wrong = f"cannot be run: {type(error).__name__}: {error}"
    return None if wrong is None else " ".join(wrong.split())


def _told(written: Any) -> Any:
    """Without the fields that are null: those are not given. Nothing wanted is an answer, though."""
    if isinstance(written, dict):
        return {
            key: _told(value)
            for key, value in written.items()
            if value is not None or key in ("want", "node")
        }
    return [_told(each) for each in written] if isinstance(written, list) else written
