"""What requests do to the objects: patches with their rules, creation with what policies add, deletion, eviction."""

from typing import Any, Final

from queues.api.api_resources import JOBS, NAMESPACES, PODS, ApiResource
from tests.chaos.cluster.policies import admitted
from tests.chaos.cluster.store import (
    WITH_STATUS,
    Key,
    ObjectStore,
    Refusal,
    conflict,
    does_not_apply,
    not_found,
    time_text,
)
from tests.chaos.history import Document
from tests.fakes.fake_objects import json_patched, merged

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json-patch+json"


def create(
    store: ObjectStore,
    resource: ApiResource,
    namespace: str,
    body: Document,
    writer: str,
    *,
    dry_run: bool = False,
) -> Document:
    """POST of an object. Raises Refusal."""
    meta = dict(body.get("metadata") or {})
    if resource.namespaced:
        meta["namespace"] = namespace
        if store.find(NAMESPACES, ("", namespace)) is None:
            raise not_found(f'namespaces "{namespace}"')
    if "name" not in meta:
        meta["name"] = f"{meta.get('generateName', '')}{store.version:05x}"
    document = admitted(store, resource, {**body, "metadata": meta}, writer)
    if dry_run:
        return {**document, "metadata": {**document["metadata"], "uid": "dry-run"}}
    return store.create(resource, document, writer)


def patch(
    store: ObjectStore, resource: ApiResource, key: Key, subresource: str, kind: str, body: Any, writer: str
) -> Document:
    """PATCH of an object or of its status. Raises Refusal."""
    before = store.get(resource, key)
    after = _patched(before, kind, body)
    _check_preconditions(before, after)
    if subresource == "status":
        after = {**before, "status": after.get("status", {})}
    elif resource in WITH_STATUS:
        after = {**after, "status": before.get("status", {})}
    kept = {name: before["metadata"][name] for name in _KEPT if name in before["metadata"]}
    after = {**after, "metadata": {**after["metadata"], **kept}}
    _check_rules(resource, before, after)
    return store.replace(resource, key, after, writer)


def delete(store: ObjectStore, resource: ApiResource, key: Key, options: Document, writer: str) -> Document:
    """DELETE of an object. Raises Refusal."""
    meta = store.get(resource, key)["metadata"]
    wanted = options.get("preconditions") or {}
    for name in ("uid", "resourceVersion"):
        if wanted.get(name) not in (None, meta[name]):
            raise conflict(
                f"the {name} in the precondition ({wanted[name]}) is not that of the object ({meta[name]})"
            )
    foreground = options.get("propagationPolicy") == "Foreground"
    return store.delete(resource, key, writer, grace=options.get("gracePeriodSeconds"), foreground=foreground)


#: Metadata that no patch changes.
_KEPT: Final = (
    *("uid", "resourceVersion", "name", "namespace", "creationTimestamp"),
    *("generation", "deletionTimestamp", "deletionGracePeriodSeconds"),
)


def _patched(before: Document, kind: str, body: Any) -> Document:
    if kind == JSON:
        try:
            return json_patched(before, body)
        except (KeyError, AssertionError, IndexError, TypeError):
            raise does_not_apply() from None
    if kind == STRATEGIC:
        return _strategically_merged(before, body)
    after: Document = merged(before, body)
    return after


def _strategically_merged(before: Document, body: Document) -> Document:
    """As far as Muster uses it: values out of a list of metadata, and conditions by type."""
    meta = dict(body.get("metadata") or {})
    deleted = {
        name.rpartition("/")[2]: meta.pop(name)
        for name in list(meta)
        if name.startswith("$deleteFromPrimitiveList/")
    }
    status = dict(body.get("status") or {})
    conditions = status.pop("conditions", None)
    after: Document = merged(before, {**body, "metadata": meta, **({"status": status} if status else {})})
    for name, values in deleted.items():
        left = [each for each in after["metadata"].get(name) or () if each not in values]
        after["metadata"] = {**after["metadata"], name: left}
        if not left:
            del after["metadata"][name]
    if conditions is not None:
        known = {each["type"]: each for each in (before.get("status") or {}).get("conditions") or ()}
        known |= {each["type"]: {**known.get(each["type"], {}), **each} for each in conditions}
        after["status"] = {**(after.get("status") or {}), "conditions": list(known.values())}
    return after


def _check_preconditions(before: Document, after: Document) -> None:
    for name in ("uid", "resourceVersion"):
        if after["metadata"].get(name) != before["metadata"][name]:
            raise conflict(f"Precondition failed: {name} in precondition is not that of the object")


def _check_rules(resource: ApiResource, before: Document, after: Document) -> None:
    if resource is PODS:
        _check_pod(before["spec"], after["spec"])
    elif resource is JOBS and after["spec"]["template"] != before["spec"]["template"]:
        started = before["status"].get("startTime") or before["status"].get("active")
        if not before["spec"].get("suspend") or started:
            raise Refusal(422, "Invalid", "spec.template: Invalid value: field is immutable")


def _check_pod(before: Document, after: Document) -> None:
    if before == after:
        return
    gates = before.get("schedulingGates") or []
    left = after.get("schedulingGates") or []
    if any(gate not in gates for gate in left):
        raise Refusal(422, "Invalid", "spec.schedulingGates: only deletion is allowed")
    changed = {name for name in (*before, *after) if before.get(name) != after.get(name)} - {
        "schedulingGates"
    }
    if changed - ({"affinity", "nodeSelector"} if gates else set()):
        raise Refusal(
            422, "Invalid", f"spec: Forbidden: pod updates may not change fields other than …: {changed}"
        )


def bind(store: ObjectStore, pod: Document, node: str, writer: str) -> None:
    """The scheduler gives a pod its node."""
    key = pod["metadata"]["namespace"], pod["metadata"]["name"]
    condition = {"type": "PodScheduled", "status": "True"}
    others = [each for each in pod["status"].get("conditions") or () if each["type"] != "PodScheduled"]
    after = {**pod, "spec": {**pod["spec"], "nodeName": node}}
    after["status"] = {**pod["status"], "conditions": [*others, condition]}
    store.replace(PODS, key, after, writer)


def unschedulable(moment: float, message: str) -> Document:
    """The condition of a pod that fits nowhere."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": time_text(moment),
    }
