"""From a pod that was released to the pod that waits in its place. Pure.

What the API server and Muster added to the pod is removed, to be added again; what its user wrote stays.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from admission.decode.fields import condition
from admission.facts.pods import PodFact
from admission.wire import WirePodStatus
from admission.workloads.seats import is_live
from queues.api import names
from queues.api.flavor_tolerations import own_tolerations
from queues.api.node_affinity import REQUIRED, unpinned

Document = dict[str, Any]

#: Worked out by the API server from other fields, from the pod's class, or allowed on a running pod only.
_WORKED_OUT: Final = ("nodeName", "priority", "preemptionPolicy", "overhead", "ephemeralContainers")
_DIRECTIVES: Final = (
    *(names.ADMISSION_ID, names.SEAT, names.DEVICES, names.FLAVOR_TOLERATIONS),
    names.RECREATED_FROM,
)

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def with_successor(pod: PodFact, status: WirePodStatus, raw: bytes) -> PodFact:
    """The fact of a pod, with its successor if it is preempted and no controller would make it again.

    kube-scheduler deletes the pods that it preempts, and says so in a condition first (KEP-3329). ``raw``: the pod as
    the API server has it.
    """
    if pod.controller or pod.admission is None or not is_live(pod):
        return pod
    disrupted = condition(status.conditions, "DisruptionTarget")
    if disrupted is None or disrupted.status != "True" or disrupted.reason != "PreemptionByScheduler":
        return pod
    return replace(pod, successor=manifest_of(json.loads(raw)))


def manifest_of(pod: Mapping[str, Any]) -> str:
    """The successor of a pod (as the API server has it) that has no controller, as canonical JSON.

    It has the same name, labels and spec, waits behind Muster's gate, is tied to no node, and names the pod that
    it replaces. Finalizers are not repeated: the controllers that act on them put them on objects.
    """
    meta = pod["metadata"]
    labels = dict(meta.get("labels") or {})
    written = meta.get("annotations") or {}
    annotations = {key: value for key, value in written.items() if key not in _DIRECTIVES}
    metadata: Document = {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "labels": {**labels, names.RELEASED: "false"},
        "annotations": {**annotations, names.RECREATED_FROM: meta["uid"]},
    }
    # Without the wish to block an owner's deletion, which asks for rights over owners of any kind.
    owners = [
        {key: value for key, value in owner.items() if key != "blockOwnerDeletion"}
        for owner in meta.get("ownerReferences") or ()
        if not owner.get("controller")
    ]
    if owners:
        metadata["ownerReferences"] = owners
    spec = _spec(pod["spec"], labels, pinned=names.ADMISSION_ID in written)
    if names.FLAVOR_TOLERATIONS in written:
        spec["tolerations"] = own_tolerations(pod["spec"], written)
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _spec(spec: Mapping[str, Any], labels: Mapping[str, str], *, pinned: bool) -> Document:
    made = {key: value for key, value in spec.items() if key not in (*_WORKED_OUT, "affinity")}
    made["schedulingGates"] = [{"name": names.GATE}]
    if affinity := _affinity(spec.get("affinity") or {}, labels, pinned=pinned):
        made["affinity"] = affinity
    if spread := spec.get("topologySpreadConstraints"):
        made["topologySpreadConstraints"] = [_unmerged(each, labels) for each in spread]
    return made


def _affinity(affinity: Mapping[str, Any], labels: Mapping[str, str], *, pinned: bool) -> Document:
    made = unpinned(affinity) if pinned else {key: value for key, value in affinity.items() if value}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = dict(affinity.get(kind) or {})
        if REQUIRED in terms:
            terms[REQUIRED] = [_unmerged(term, labels) for term in terms[REQUIRED]]
        if _PREFERRED in terms:
            terms[_PREFERRED] = [
                {**each, "podAffinityTerm": _unmerged(each["podAffinityTerm"], labels)}
                for each in terms[_PREFERRED]
            ]
        if terms:
            made[kind] = terms
    return made


def _unmerged(term: Mapping[str, Any], labels: Mapping[str, str]) -> Document:
    """Without the expressions that the API server adds for ``matchLabelKeys``: twice, they would be refused."""
    keys = {"In": term.get("matchLabelKeys") or (), "NotIn": term.get("mismatchLabelKeys") or ()}
    selector = term.get("labelSelector") or {}
    expressions = selector.get("matchExpressions")
    if not expressions or not any(keys.values()):
        return dict(term)
    kept = [
        each
        for each in expressions
        if not (
            each["key"] in keys.get(each["operator"], ())
            and each.get("values") == [labels.get(each["key"], "")]
        )
    ]
    rest = {key: value for key, value in selector.items() if key != "matchExpressions"}
    return {**term, "labelSelector": {**rest, **({"matchExpressions": kept} if kept else {})}}
