"""The patch of a flow: changes of a JobTemplate's spec, by the table in Volcano's design of this field.

Mappings are merged key by key; ``null`` removes a key. Of the lists below, entries with the same key are merged, or
replaced where that is said, and others are added. Every other value, list or not, is replaced. An entry without its
key is about the entry at the same position.
"""

from collections.abc import Mapping
from typing import Any, Final

from queues.api.types.job_flow import Flow

#: List → the keys that its entries may have for a name; their values are merged.
_MERGED: Final[Mapping[str, tuple[str, ...]]] = {
    "tasks": ("name",),
    "containers": ("name",),
    "initContainers": ("name",),
}
#: The same, and an entry takes the place of the one with its key.
_REPLACED_ENTRIES: Final[Mapping[str, tuple[str, ...]]] = {
    "volumes": ("name", "mountPath"),  # of a pod; of a Job
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort",),
    "tolerations": ("key",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
}
#: Mappings that are replaced as a whole.
_REPLACED: Final = frozenset(
    ("affinity", "securityContext", "livenessProbe", "readinessProbe", "startupProbe", "networkTopology")
)


def spec_for(flow: Flow, template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec of a flow's Job. ``template``: that of its JobTemplate."""
    for changes in flow.patch.changes() if flow.patch is not None else ():
        template = patched(template, changes)
    return template


def patched(spec: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A spec with a patch applied; neither is changed."""
    merged = dict(spec)
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        else:
            merged[field] = _value(field, merged.get(field), value)
    return merged


def _value(field: str, before: Any, value: Any) -> Any:
    if field in _REPLACED:
        return value
    if isinstance(value, Mapping) and isinstance(before, Mapping):
        return patched(before, value)
    keys = _MERGED.get(field) or _REPLACED_ENTRIES.get(field)
    if keys and isinstance(value, list) and isinstance(before, list):
        return _entries(before, value, keys, merge=field in _MERGED)
    return value


def _entries(before: list[Any], value: list[Any], keys: tuple[str, ...], *, merge: bool) -> list[Any]:
    entries = list(before)
    for position, entry in enumerate(value):
        place = _place(before, entry, keys, position)
        if place is None:
            entries.append(entry)
        elif merge and isinstance(entries[place], Mapping) and isinstance(entry, Mapping):
            entries[place] = patched(entries[place], entry)
        else:
            entries[place] = entry
    return entries


def _place(before: list[Any], entry: Any, keys: tuple[str, ...], position: int) -> int | None:
    """The position of the entry that another one is about; None if there is none."""
    if not isinstance(entry, Mapping):
        return None
    key = next((key for key in keys if key in entry), None)
    if key is None:
        return position if position < len(before) else None
    for index, known in enumerate(before):
        if isinstance(known, Mapping) and known.get(key) == entry[key]:
            return index
    return None
