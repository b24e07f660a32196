"""What a gang asks a cluster autoscaler for, and the objects that say it. Pure.

A ProvisioningRequest names PodTemplates; the autoscaler works out how many nodes such pods need. The templates have
what decides where a pod fits (requests, node selector, affinity, tolerations) as the engine knows it, so that all kinds
of workloads ask in the same way, and nothing has to be read again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from admission.provisioning.found_requests import owner_value
from queues.api.api_resources import POD_TEMPLATES, PROVISIONING_REQUESTS, Document, ObjectRef
from queues.api.flavor_tolerations import document
from queues.api.names import PROVISIONING_ATTEMPT, PROVISIONING_FOR
from queues.quota.queue import ProvisioningRules
from queues.resources import PODS, Resources, amount, is_device, show
from queues.workload import NodeFilter, PodSet, QueueName, Requirement, Toleration, Workload, WorkloadKey

#: Pod sets that a ProvisioningRequest may have.
MOST_POD_SETS: Final = 32
#: The image of templates: no pod is ever made of them.
_NO_IMAGE: Final = "none"
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWish:
    """So many pods of one shape."""

    count: int
    takes: Resources
    nodes: NodeFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWish:
    """The nodes that one gang waits for."""

    key: WorkloadKey
    ref: ObjectRef
    queue: QueueName
    #: Order among the gangs of a queue: that of arrival.
    arrival: int
    rules: ProvisioningRules
    pods: tuple[PodWish, ...]
    #: Queues above its queue, from the root on.
    above: tuple[QueueName, ...] = ()

    @property
    def place(self) -> tuple[str, ...]:
        """Where it stands in the tree of those who take turns: the queues from the root on, and its namespace."""
        # No queue has such a name.
        return (*self.above, self.queue, f"namespace/{self.ref.namespace}")

    @property
    def owner(self) -> str:
        """Value of the label by which requests are found again."""
        return owner_label(self.key)

    def digest(self) -> str:
        """Another one if the gang, its class of provisioning or a parameter changes."""
        text = repr((str(self.key), self.rules.class_name, self.rules.parameters, self.pods))
        return sha256(text.encode()).hexdigest()[:_DIGITS]

    def name(self, attempt: int) -> str:
        """Name of the request of an attempt, from 1 on: the same on each leader, so that none is made twice."""
        return f"muster-{self.digest()}-{attempt}"


def owner_label(key: WorkloadKey) -> str:
    """The workload in the value of a label: ``job.8fd1…``."""
    return owner_value(key.kind, key.uid)


def pod_wishes(workload: Workload, tolerations: Sequence[Toleration] = ()) -> tuple[PodWish, ...]:
    """The pods that have to start together; equal ones are one wish. Empty: too many kinds of pods for one request.

    ``tolerations``: of the flavors of its queue. Nodes that are added may be of any of them.
    """
    found: dict[tuple[Resources, NodeFilter], int] = {}
    for pods, count in _starting(workload):
        nodes = pods.nodes
        if tolerations:
            nodes = replace(nodes, tolerations=tuple(dict.fromkeys((*nodes.tolerations, *tolerations))))
        shape = (_whole(pods), nodes)
        found[shape] = found.get(shape, 0) + count
    wishes = tuple(
        PodWish(count=count, takes=takes, nodes=nodes) for (takes, nodes), count in found.items() if count
    )
    return wishes if len(wishes) <= MOST_POD_SETS else ()


def _starting(workload: Workload) -> Iterator[tuple[PodSet, int]]:
    """Pods of each set that the gang needs to start. Where its minimum can be met in several ways: all of its pods."""
    wanted = [(pods, pods.wanted_count()) for pods in workload.pod_sets]
    if len(wanted) == 1:
        (pods, count) = wanted[0]
        yield pods, min(count, max(workload.minimum, pods.minimum))
        return
    minimums = sum(pods.minimum for pods, _ in wanted)
    for pods, count in wanted:
        yield pods, min(count, pods.minimum) if minimums >= workload.minimum else count


def _whole(pods: PodSet) -> Resources:
    """What an autoscaler can be asked for: a part of a device is a whole one."""
    amounts = {name: units for name, units in pods.takes.items() if name != PODS and not is_device(name)}
    if pods.share is not None:
        amounts[pods.share.resource] = amount(pods.share.resource, str(pods.share.devices))
    return Resources(amounts)


def pod_templates(wish: NodeWish, attempt: int) -> list[Document]:
    """The templates of a request, in the order of its pod sets. They go with the workload at the latest."""
    name = wish.name(attempt)
    return [
        _object(wish, POD_TEMPLATES.api_version, POD_TEMPLATES.kind, f"{name}-{index}", attempt)
        | {"template": {"metadata": {}, "spec": _pod_spec(pods)}}
        for index, pods in enumerate(wish.pods)
    ]


def request_document(wish: NodeWish, attempt: int) -> Document:
    """The ProvisioningRequest."""
    name = wish.name(attempt)
    spec: Document = {
        "provisioningClassName": wish.rules.class_name,
        "podSets": [
            {"podTemplateRef": {"name": f"{name}-{index}"}, "count": pods.count}
            for index, pods in enumerate(wish.pods)
        ],
    }
    if wish.rules.parameters:
        spec["parameters"] = dict(wish.rules.parameters)
    api = PROVISIONING_REQUESTS
    return _object(wish, api.api_version, api.kind, name, attempt) | {"spec": spec}


def _object(wish: NodeWish, api_version: str, kind: str, name: str, attempt: int) -> Document:
    ref = wish.ref
    owner = {
        "apiVersion": ref.resource.api_version,
        "kind": ref.resource.kind,
        "name": ref.name,
        "uid": ref.uid,
    }
    metadata = {
        "name": name,
        "namespace": ref.namespace,
        "labels": {PROVISIONING_FOR: wish.owner},
        "annotations": {PROVISIONING_ATTEMPT: str(attempt)},
        "ownerReferences": [owner],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _pod_spec(pods: PodWish) -> Document:
    requests = {name: show(name, units) for name, units in sorted(pods.takes.items())}
    # Of what Kubernetes does not overcommit the limit has to be the request.
    limits = {name: text for name, text in requests.items() if "/" in name or name.startswith("hugepages-")}
    resources: Document = {"requests": requests} | ({"limits": limits} if limits else {})
    spec: Document = {
        "restartPolicy": "Never",
        "containers": [{"name": "pod", "image": _NO_IMAGE, "resources": resources}],
    }
    nodes = pods.nodes
    if nodes.selector:
        spec["nodeSelector"] = dict(nodes.selector)
    if nodes.affinity:
        terms = [_term(each) for each in nodes.affinity]
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    if nodes.tolerations:
        spec["tolerations"] = [document(each) for each in nodes.tolerations]
    return spec


def _term(requirements: tuple[Requirement, ...]) -> Document:
    term: dict[str, list[Mapping[str, Any]]] = {}
    for each in requirements:
        place = "matchFields" if each.field else "matchExpressions"
        expression: Document = {"key": each.key, "operator": each.operator}
        if each.values:
            expression["values"] = list(each.values)
        term.setdefault(place, []).append(expression)
    return dict(term)
