"""Pairs of Volcano Jobs, before and after an update: those that mean the same, and those that do not.

Each entry changes one Job in two ways. ``Pair.path`` is the field that may not change; "": both mean the same.
"""

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]


class _Absent:
    """A field that is not there. Its text is the same in each process: tests are called by it."""

    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


@dataclass(frozen=True)
class Pair:
    """A field of the Job below, or of its parts, as it was written before and after."""

    at: str
    before: Any = _ABSENT
    now: Any = _ABSENT
    #: The field that the refusal names; "": there is none.
    path: str = ""
    #: Other fields of both.
    beside: Document = field(default_factory=dict)

    def specs(self) -> tuple[Document, Document]:
        """The spec of the Job before and after."""
        return self._spec(self.before), self._spec(self.now)

    def _spec(self, value: Any) -> Document:
        spec = a_spec()
        for at, given in (*self.beside.items(), (self.at, value)):
            _set(spec, at, given)
        return spec


def a_spec() -> Document:
    """A Job of two tasks."""
    container = {"name": "main", "image": "a", "resources": {"limits": {"cpu": 1}}}
    template: Document = {"spec": {"containers": [container]}}
    return {
        "tasks": [
            {"name": "w", "replicas": 2, "template": template},
            {"replicas": 1, "template": copy.deepcopy(template)},
        ]
    }


def _set(spec: Document, at: str, value: Any) -> None:
    *way, last = [int(part) if part.isdigit() else part for part in at.split("|")]
    holder: Any = spec
    for part in way:
        if isinstance(holder, dict) and part not in holder:
            holder[part] = {}
        holder = holder[part]
    if value is _ABSENT:
        holder.pop(last, None)
    else:
        holder[last] = value


_PAIRS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
SAME = [Pair(**pair) for pair in _PAIRS["same"]]
DIFFERENT = [Pair(**pair) for pair in _PAIRS["different"]]
PAIRS = SAME + DIFFERENT
