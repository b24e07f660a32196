"""Affinity of pods and templates: read if it is of a size that can be compared with nodes, and does no harm. Pure."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

import msgspec

from admission.decode.fields import explained, requirements_of
from admission.engine.nodes.levels import HOST
from admission.wire import WireAffinity, WirePodAffinityTerm, WireStruct
from queues.api.reading.pod_places import cross_namespace_anti_affinity
from queues.api.reading.user_values import LARGEST_AFFINITY, UserValues, counted_selector
from queues.label_selectors import selector_text, selects
from queues.reason_codes import ReasonCode
from queues.workload import ANTI_AFFINITY, HostPort, Requirement

_AFFINITY: Final = msgspec.json.Decoder(WireAffinity | None)


class _Spec(WireStruct):
    affinity: msgspec.Raw = msgspec.Raw(b"")


class _Template(WireStruct):
    spec: _Spec | None = None


_TEMPLATE: Final = msgspec.json.Decoder(_Template)


def affinity_of(
    raw: msgspec.Raw, values: UserValues, where: str, *, namespace: str, pinned: bool
) -> WireAffinity | None:
    """The ``affinity`` of a spec; None: there is none, or it cannot be used, which is noted. ``where``: of the spec.
    ``namespace``: of the pods, which may keep no pods of others off nodes. ``pinned``: Muster has added nodes to it.

    It is the only part of which each byte costs microseconds: a document of the largest size that the API server
    stores would take half a second, at every event.
    """
    if not is_of_possible_size(len(raw), values, where, pinned=pinned):
        return None
    try:
        affinity: WireAffinity | None = _AFFINITY.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        said = explained(error) if isinstance(error, msgspec.DecodeError) else "nested too deeply"
        values.note(f"{where}.affinity.{said}")
        return None
    if found := cross_namespace_anti_affinity(affinity, namespace):
        path, what, expected = found
        message = f"{where}.{path}: found {what}, expected {expected}"
        values.note(message, ReasonCode.CROSS_NAMESPACE_ANTI_AFFINITY)
    return affinity


def kept_apart(
    affinity: WireAffinity | None, labels: Mapping[str, str] | None, namespace: str
) -> tuple[HostPort, ...]:
    """What keeps pods with these labels and this affinity off each other's nodes, as host ports do; (): nothing.

    One for each required term by host that selects pods like the one that has it. All pods of a namespace with such a
    term have the same, so that one of them gets a node at most. Other terms are left to the stock scheduler.
    """
    against = None if affinity is None else affinity.pod_anti_affinity
    terms = () if against is None else against.required_during_scheduling_ignored_during_execution
    return tuple(
        dict.fromkeys(
            HostPort(0, ANTI_AFFINITY, _digest(namespace, selector))
            for term in terms or ()
            if (selector := _selector_of_own_namespace(term, namespace)) is not None
            and counted_selector(selector)
            and selects(selector, labels or {})
        )
    )


def _selector_of_own_namespace(term: WirePodAffinityTerm, namespace: str) -> tuple[Requirement, ...] | None:
    """The selector of a term by host about pods of one namespace; None: it is another term, or selects no pod."""
    keys = term.match_label_keys or term.mismatch_label_keys
    elsewhere = term.namespace_selector is not None or set(term.namespaces or ()) - {namespace}
    if term.topology_key != HOST or term.label_selector is None or keys or elsewhere:
        return None
    return requirements_of(term.label_selector)


def _digest(namespace: str, selector: Iterable[Requirement]) -> str:
    """A short name for a selector in a namespace: it is kept with every pod."""
    return blake2b(f"{namespace}/{selector_text(selector)}".encode(), digest_size=8).hexdigest()


def is_of_possible_size(size: int, values: UserValues, where: str, *, pinned: bool = False) -> bool:
    """True if so many bytes of affinity can be read; else it is noted that there are more."""
    return values.at_most(f"{where}.affinity", size, LARGEST_AFFINITY * (4 if pinned else 1), "bytes")


def affinity_size(template: bytes) -> int:
    """Bytes of the affinity in a template; 0: it has none, or cannot be read."""
    try:
        spec = _TEMPLATE.decode(template).spec
    except (msgspec.DecodeError, RecursionError):
        return 0
    return 0 if spec is None else len(spec.affinity)
