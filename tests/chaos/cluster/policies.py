"""What the admission policies and the API server's own plugins add to objects that are created.

The policies themselves are tried on a real API server (``tests/kube/policies``); this is what they come to for objects
of users who do not cheat.
"""

from typing import Any

from queues.api import names
from queues.api.api_resources import JOBS, POD_GROUPS, PODS, PRIORITY_CLASSES, VOLCANO_JOBS, ApiResource
from tests.chaos.cluster.store import ObjectStore
from tests.chaos.history import JOB_CONTROLLER, USER, Document


def admitted(store: ObjectStore, resource: ApiResource, document: Document, writer: str) -> Document:
    """The document as it is stored."""
    if resource is PODS:
        return _with_priority(store, _ending(_gated(document, writer)))
    if resource is JOBS and writer == USER:
        return _suspended(document)
    if resource in (VOLCANO_JOBS, POD_GROUPS) and writer == USER:
        return _signed(document)
    return document


def _gated(pod: Document, writer: str) -> Document:
    meta = pod["metadata"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    waits = names.QUEUE_LABEL in labels or names.GROUP_ANNOTATION in annotations
    if not waits or labels.get(names.RELEASED) == "true":
        return pod
    spec = pod["spec"]
    gates = spec.get("schedulingGates") or []
    if all(gate["name"] != names.GATE for gate in gates):
        spec = {**spec, "schedulingGates": [*gates, {"name": names.GATE}]}
    pod = {**pod, "metadata": {**meta, "labels": {**labels, names.RELEASED: "false"}}, "spec": spec}
    copied = writer == JOB_CONTROLLER or (writer != USER and names.USER in annotations)
    return pod if copied else _signed(pod)


def _ending(pod: Document) -> Document:
    """A pod in a queue has a grace period, however short."""
    in_a_queue = names.RELEASED in (pod["metadata"].get("labels") or {})
    if not in_a_queue or pod["spec"].get("terminationGracePeriodSeconds") != 0:
        return pod
    return {**pod, "spec": {**pod["spec"], "terminationGracePeriodSeconds": 1}}


def _suspended(job: Document) -> Document:
    meta, spec = job["metadata"], job["spec"]
    queue = (meta.get("labels") or {}).get(names.QUEUE_LABEL)
    if queue is None:
        return job
    template = spec["template"]
    own = template.get("metadata") or {}
    labels = {names.RELEASED: "false", **(own.get("labels") or {}), names.QUEUE_LABEL: queue}
    signed = {**(own.get("annotations") or {}), names.USER: USER}
    template = {**template, "metadata": {**own, "labels": labels, "annotations": signed}}
    return _signed({**job, "spec": {**spec, "suspend": True, "template": template}})


def _signed(document: Document) -> Document:
    meta = document["metadata"]
    signed = {**(meta.get("annotations") or {}), names.USER: USER}
    return {**document, "metadata": {**meta, "annotations": signed}}


def _with_priority(store: ObjectStore, pod: Document) -> Document:
    spec: dict[str, Any] = {"schedulerName": "default-scheduler", "restartPolicy": "Never", **pod["spec"]}
    name = spec.get("priorityClassName")
    found = store.find(PRIORITY_CLASSES, ("", name)) if name else None
    spec["priority"] = found["value"] if found is not None else 0
    spec["preemptionPolicy"] = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    return {**pod, "spec": spec}
