"""Tolerations that pods get from the flavor of their seats: added to their own when they are released, and told from
these afterwards, by an annotation that lists them.

The API server appends others to a pod's (of nodes that are not ready), so what was added is not always last.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from queues.api.names import FLAVOR_TOLERATIONS
from queues.workload import NodeFilter, Toleration

Document = Mapping[str, Any]

#: Where a pod or a template has its tolerations.
TOLERATIONS_AT: Final = "/spec/tolerations"

#: Key, operator, value and effect of a toleration: what makes it another one.
_Identity = tuple[str, str, str, str]


def document(toleration: Toleration) -> dict[str, Any]:
    """A toleration as a pod has it."""
    fields = (
        ("key", toleration.key),
        ("operator", toleration.operator),
        ("value", toleration.value),
        ("effect", toleration.effect),
    )
    written: dict[str, Any] = {name: text for name, text in fields if text}
    if toleration.seconds is not None:
        written["tolerationSeconds"] = toleration.seconds
    return written


def missing(own: Iterable[Toleration | Document], wanted: Iterable[Toleration]) -> tuple[Document, ...]:
    """What pods with tolerations of their own lack of others, each once."""
    known = {_identity(each) if isinstance(each, Toleration) else _identity_of(each) for each in own}
    lacked = {name: each for each in wanted if (name := _identity(each)) not in known}
    return tuple(map(document, lacked.values()))


def listed(added: Sequence[Document]) -> str:
    """The value of the annotation."""
    return msgspec.json.encode(added).decode()


def own_tolerations(spec: Document, annotations: Mapping[str, str] | None) -> list[Document]:
    """The tolerations in the spec of a pod or template, without those that Muster has added."""
    found = spec.get("tolerations") or []
    added = added_positions(found, annotations)
    return [each for index, each in enumerate(found) if index not in added]


def added_positions(tolerations: Sequence[Document], annotations: Mapping[str, str] | None) -> frozenset[int]:
    """Places, in a list of tolerations, of those that Muster has added."""
    text = (annotations or {}).get(FLAVOR_TOLERATIONS)
    return _positions([_identity_of(each) for each in tolerations], text) if text else frozenset()


def own_filter(nodes: NodeFilter, annotations: Mapping[str, str] | None) -> NodeFilter:
    """A filter without the tolerations that Muster has added."""
    text = (annotations or {}).get(FLAVOR_TOLERATIONS)
    if not text:
        return nodes
    added = _positions([_identity(each) for each in nodes.tolerations], text)
    kept = (each for index, each in enumerate(nodes.tolerations) if index not in added)
    return replace(nodes, tolerations=tuple(kept))


def _positions(found: Sequence[_Identity], text: str) -> frozenset[int]:
    """Of equal ones the last was added: the others were there before."""
    try:
        left = Counter(map(_identity_of, msgspec.json.decode(text, type=list[dict[str, Any]])))
    except msgspec.DecodeError:
        return frozenset()
    positions = set()
    for index in reversed(range(len(found))):
        if left[found[index]]:
            left[found[index]] -= 1
            positions.add(index)
    return frozenset(positions)


def _identity(toleration: Toleration) -> _Identity:
    return toleration.key, toleration.operator, toleration.value, toleration.effect


def _identity_of(written: Document) -> _Identity:
    key, operator, value, effect = (
        str(written.get(each) or "") for each in ("key", "operator", "value", "effect")
    )
    return key, operator or "Equal", value, effect
