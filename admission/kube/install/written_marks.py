"""What Muster wrote into an object that waits, by which its pods come up gated or on certain nodes: removed. Pure.

A later installation reads the pods' templates: one that knows nothing of the object would take it for one that it
resumed itself, and suspend it, or take a pod for one of another admission.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from queues.api.api_resources import Document
from queues.api.flavor_tolerations import TOLERATIONS_AT, own_tolerations
from queues.api.json_patch import Step, escaped, expect
from queues.api.names import ADMISSION_ID, FLAVOR_TOLERATIONS, MEMBER_OF, QUEUE_LABEL, RELEASED
from queues.api.node_affinity import unpinned

_MEMBER_AT = f"/annotations/{escaped(MEMBER_OF)}"


def without_members(document: Document) -> Iterator[Step]:
    """The steps by which the templates of an operator's object no longer say that Muster resumed it."""
    yield from _without_members(document.get("spec"), "/spec", f"/{document['metadata']['uid']}/")


def _without_members(value: Any, at: str, uid: str) -> Iterator[Step]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _without_members(each, f"{at}/{index}", uid)
    if not isinstance(value, Mapping):
        return
    annotations, labels = value.get("annotations"), value.get("labels")
    said = annotations.get(MEMBER_OF) if isinstance(annotations, Mapping) else None
    if isinstance(said, str) and uid in said:
        yield expect(at + _MEMBER_AT, said)
        yield {"op": "remove", "path": at + _MEMBER_AT}
        if isinstance(labels, Mapping) and QUEUE_LABEL in labels:
            yield {"op": "remove", "path": f"{at}/labels/{escaped(QUEUE_LABEL)}"}
    for key, each in value.items():
        yield from _without_members(each, f"{at}/{escaped(key)}", uid)


def without_directions(template: Document, at: str) -> Iterator[Step]:
    """The steps by which the pods of a Job's template, which is at a place, are of no admission and tied to no node."""
    metadata, spec = template.get("metadata") or {}, template["spec"]
    admission = (metadata.get("annotations") or {}).get(ADMISSION_ID)
    if admission is None:
        return
    where = f"{at}/metadata/annotations/{escaped(ADMISSION_ID)}"
    yield expect(where, admission)
    yield {"op": "remove", "path": where}
    if RELEASED in (metadata.get("labels") or {}):
        yield {"op": "remove", "path": f"{at}/metadata/labels/{escaped(RELEASED)}"}
    if spec.get("affinity"):
        yield {"op": "add", "path": f"{at}/spec/affinity", "value": unpinned(spec["affinity"])}
    if FLAVOR_TOLERATIONS in metadata["annotations"]:
        yield {"op": "remove", "path": f"{at}/metadata/annotations/{escaped(FLAVOR_TOLERATIONS)}"}
        own = own_tolerations(spec, metadata["annotations"])
        yield {"op": "add", "path": f"{at}{TOLERATIONS_AT}", "value": own}
