"""Affinity of pods and templates: read if it is of a size that can be compared with nodes, and does no harm. Pure."""

from typing import Final

import msgspec

from admission.decode.fields import explained
from queues.api.reading.pod_places import cross_namespace_anti_affinity
from queues.api.reading.user_values import LARGEST_AFFINITY, UserValues
from queues.api.types.pod import WireAffinity, WireStruct, read_affinity
from queues.reason_codes import ReasonCode


class _Spec(WireStruct):
    affinity: msgspec.Raw = msgspec.Raw(b"")


class _Template(WireStruct):
    spec: _Spec | None = None


_TEMPLATE: Final = msgspec.json.Decoder(_Template)


def affinity_of(
    raw: msgspec.Raw, values: UserValues, where: str, *, namespace: str, pinned: bool
) -> WireAffinity | None:
    """The ``affinity`` of a spec; None if there is none, or if it cannot be used, which is noted. ``where``: of the
    spec. ``namespace``: of the pods, which may keep no pods of others off nodes. ``pinned``: Muster has added nodes to
    it.

    It is the only part whose bytes cost microseconds each: a document of the largest size that the API server stores
    would take half a second, at every event.
    """
    if not is_of_possible_size(len(raw), values, where, pinned=pinned):
        return None
    try:
        affinity = read_affinity(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        said = explained(error) if isinstance(error, msgspec.DecodeError) else "nested too deeply"
        values.note(f"{where}.affinity.{said}")
        return None
    if found := cross_namespace_anti_affinity(affinity, namespace):
        path, what, expected = found
        message = f"{where}.{path}: found {what}, expected {expected}"
        values.note(message, ReasonCode.CROSS_NAMESPACE_ANTI_AFFINITY)
    return affinity


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
