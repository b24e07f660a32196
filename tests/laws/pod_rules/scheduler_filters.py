"""kube-scheduler's filters about one pod and one node, from manifests: as its documentation and source describe them
(PodTopologySpread, InterPodAffinity, NodeAffinity, TaintToleration, NodeResourcesFit), without any code of the product.

``tests/kube/pod_rules`` holds it to the real scheduler.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Manifest = dict[str, Any]
GPU = "nvidia.com/gpu"
RULES = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass
class Cluster:
    """Nodes, namespaces' labels, and pods that are bound (``spec.nodeName``)."""

    nodes: list[Manifest]
    namespaces: Mapping[str, Mapping[str, str]]
    pods: list[Manifest] = field(default_factory=list)
    #: Pods that are to be bound name their node in their required node affinity, as Muster's do.
    pinned: bool = False

    def with_pod(self, pod: Manifest, node: str) -> "Cluster":
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        return Cluster(self.nodes, self.namespaces, [*self.pods, bound], self.pinned)

    def on(self, node: Manifest) -> list[Manifest]:
        return [pod for pod in self.pods if pod["spec"]["nodeName"] == node["metadata"]["name"]]


def refusals(pod: Manifest, node: Manifest, cluster: Cluster) -> list[str]:
    """Names of the filters that keep a pod off a node."""
    checks = {
        "room": _has_room,
        "selector": lambda pod, node, cluster: _is_chosen(pod, node),
        "taints": lambda pod, node, cluster: _is_tolerated(pod, node),
        "spread": _is_spread,
        "affinity": _is_near,
        "anti-affinity": _is_apart,
        "anti-affinity of others": _is_kept_from_nobody,
    }
    return [name for name, holds in checks.items() if not holds(pod, node, cluster)]


def _has_room(pod: Manifest, node: Manifest, cluster: Cluster) -> bool:
    used = sum(_gpus(other) for other in cluster.on(node))
    return used + _gpus(pod) <= int(node["status"]["allocatable"][GPU])


def _gpus(pod: Manifest) -> int:
    return sum(int(c["resources"].get("requests", {}).get(GPU, 0)) for c in pod["spec"]["containers"])


def _is_chosen(pod: Manifest, node: Manifest) -> bool:
    wanted = pod["spec"].get("nodeSelector") or {}
    return wanted.items() <= node["metadata"]["labels"].items()


def _is_tolerated(pod: Manifest, node: Manifest) -> bool:
    keys = {toleration["key"] for toleration in pod["spec"].get("tolerations", ())}
    return all(taint["key"] in keys for taint in node.get("spec", {}).get("taints", ()))


def selected(selector: Manifest | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; None selects nothing."""
    if selector is None:
        return False
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions", ()):
        value = labels.get(expression["key"])
        holds = {
            "In": lambda: value in expression["values"],  # noqa: B023
            "NotIn": lambda: value not in expression["values"],  # noqa: B023
            "Exists": lambda: value is not None,  # noqa: B023
            "DoesNotExist": lambda: value is None,  # noqa: B023
        }[expression["operator"]]
        if not holds():
            return False
    return True


def _constraints(pod: Manifest) -> list[Manifest]:
    found = pod["spec"].get("topologySpreadConstraints", ())
    return [each for each in found if each["whenUnsatisfiable"] == "DoNotSchedule"]


def _is_spread(pod: Manifest, node: Manifest, cluster: Cluster) -> bool:
    constraints = _constraints(pod)
    keys = [constraint["topologyKey"] for constraint in constraints]
    for constraint in constraints:
        key = constraint["topologyKey"]
        if key not in node["metadata"]["labels"]:
            return False
        counts: dict[str, int] = {}
        for other in cluster.nodes:
            labels = other["metadata"]["labels"]
            if any(each not in labels for each in keys):
                continue
            honor = constraint.get("nodeAffinityPolicy", "Honor") == "Honor"
            if honor and (not _is_chosen(pod, other) or (cluster.pinned and other is not node)):
                continue
            if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and not _is_tolerated(pod, other):
                continue
            here = sum(_counts(constraint, pod, each) for each in cluster.on(other))
            counts[labels[key]] = counts.get(labels[key], 0) + here
        emptiest = min(counts.values(), default=0)
        if len(counts) < constraint.get("minDomains", 1):
            emptiest = 0
        own = _counts(constraint, pod, pod)
        if counts and counts.get(node["metadata"]["labels"][key], 0) + own - emptiest > constraint["maxSkew"]:
            return False
    return True


def _counts(constraint: Manifest, pod: Manifest, other: Manifest) -> bool:
    """Whether a constraint of a pod counts another pod."""
    labels = pod["metadata"]["labels"]
    if other["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    keys = [key for key in constraint.get("matchLabelKeys", ()) if key in labels]
    selector = constraint.get("labelSelector") or {}
    if not (selector.get("matchLabels") or selector.get("matchExpressions") or keys):
        return False  # an empty selector counts no pod
    same = all(other["metadata"]["labels"].get(key) == labels[key] for key in keys)
    return same and selected(constraint.get("labelSelector"), other["metadata"]["labels"])


def _terms(pod: Manifest, kind: str) -> list[Manifest]:
    return (pod["spec"].get("affinity", {}).get(kind) or {}).get(RULES, [])


def _meets(term: Manifest, owner: Manifest, other: Manifest, cluster: Cluster) -> bool:
    """Whether another pod is one of those that a term of the owner is about."""
    namespace = other["metadata"]["namespace"]
    listed, of_labels = term.get("namespaces") or [], term.get("namespaceSelector")
    if not listed and of_labels is None:
        listed = [owner["metadata"]["namespace"]]
    if namespace not in listed and not selected(of_labels, cluster.namespaces[namespace]):
        return False
    own, labels = owner["metadata"]["labels"], other["metadata"]["labels"]
    for key in term.get("matchLabelKeys", ()):
        if key in own and labels.get(key) != own[key]:
            return False
    for key in term.get("mismatchLabelKeys", ()):
        if key in own and labels.get(key) == own[key]:
            return False
    return selected(term.get("labelSelector"), labels)


def _in_domain(key: str, node: Manifest, cluster: Cluster) -> Iterator[Manifest]:
    """Pods in a node's domain of a label key; none without the label."""
    value = node["metadata"]["labels"].get(key)
    for other in cluster.nodes:
        if value is not None and other["metadata"]["labels"].get(key) == value:
            yield from cluster.on(other)


def _is_near(pod: Manifest, node: Manifest, cluster: Cluster) -> bool:
    terms = _terms(pod, "podAffinity")
    if any(term["topologyKey"] not in node["metadata"]["labels"] for term in terms):
        return False

    def meets_all(other: Manifest) -> bool:
        return all(_meets(term, pod, other, cluster) for term in terms)

    if all(any(map(meets_all, _in_domain(term["topologyKey"], node, cluster))) for term in terms):
        return True
    anywhere = any(
        meets_all(other)
        for place in cluster.nodes
        if any(term["topologyKey"] in place["metadata"]["labels"] for term in terms)
        for other in cluster.on(place)
    )
    return not anywhere and meets_all(pod)


def _is_apart(pod: Manifest, node: Manifest, cluster: Cluster) -> bool:
    return not any(
        _meets(term, pod, other, cluster)
        for term in _terms(pod, "podAntiAffinity")
        for other in _in_domain(term["topologyKey"], node, cluster)
    )


def _is_kept_from_nobody(pod: Manifest, node: Manifest, cluster: Cluster) -> bool:
    return not any(
        _meets(term, other, pod, cluster)
        for place in cluster.nodes
        for other in cluster.on(place)
        for term in _terms(other, "podAntiAffinity")
        if term["topologyKey"] in node["metadata"]["labels"]
        and place["metadata"]["labels"].get(term["topologyKey"])
        == node["metadata"]["labels"][term["topologyKey"]]
    )


def violations(pods: Sequence[Manifest], places: Sequence[str], cluster: Cluster) -> list[str]:
    """What the filters say against each of these pods on its node, with all others on theirs."""
    nodes = {node["metadata"]["name"]: node for node in cluster.nodes}
    found = []
    for index, pod in enumerate(pods):
        others = cluster
        for number, other in enumerate(pods):
            if number != index:
                others = others.with_pod(other, places[number])
        found += [
            f"{pod['metadata']['name']} on {places[index]}: {why}"
            for why in refusals(pod, nodes[places[index]], others)
        ]
    return found


def left_waiting(pods: Sequence[Manifest], places: Sequence[str], cluster: Cluster) -> list[str]:
    """The names of pods that can never be bound to these places, if others are bound first; empty: in every order
    all are."""
    nodes = {node["metadata"]["name"]: node for node in cluster.nodes}
    seen = {frozenset[int]()}
    left = [(frozenset[int](), cluster)]
    while left:
        bound, now = left.pop()
        waiting = [index for index in range(len(pods)) if index not in bound]
        ready = [index for index in waiting if not refusals(pods[index], nodes[places[index]], now)]
        if waiting and not ready:
            return [pods[index]["metadata"]["name"] for index in waiting]
        for index in ready:
            if (more := bound | {index}) not in seen:
                seen.add(more)
                left.append((more, now.with_pod(pods[index], places[index])))
    return []


def found_wrong(pods: Sequence[Manifest], places: Sequence[str], cluster: Cluster) -> list[str]:
    """The violations as the cluster is, and those with the pods' nodes in their affinity, in whatever order they are
    bound."""
    pinned = replace(cluster, pinned=True)
    wrong = violations(pods, places, cluster) + [f"pinned {why}" for why in violations(pods, places, pinned)]
    return wrong or [f"{name} waits for ever" for name in left_waiting(pods, places, pinned)]


def all_placed(pods: Sequence[Manifest], cluster: Cluster, *, stable: bool = False) -> list[str] | None:
    """Nodes on which the scheduler could bind all of these pods one after another, in some order; None: it cannot.

    ``stable``: only places on which no filter says anything against any of them in the end, with nodes in their
    affinity or without.
    """
    seen: set[tuple[str, ...]] = set()
    names = [node["metadata"]["name"] for node in cluster.nodes]
    kinds = [repr((pod["metadata"]["labels"], pod["spec"])) for pod in pods]

    def search(places: tuple[str, ...], now: Cluster) -> list[str] | None:
        if "" not in places:
            return list(places) if not stable or not found_wrong(pods, places, cluster) else None
        state = tuple(sorted(zip(kinds, places, strict=True)))
        if state in seen:
            return None
        seen.add(state)
        for index in {kind: index for index, kind in enumerate(kinds) if not places[index]}.values():
            for node, name in zip(cluster.nodes, names, strict=True):
                if not refusals(pods[index], node, now):
                    found = search(
                        (*places[:index], name, *places[index + 1 :]), now.with_pod(pods[index], name)
                    )
                    if found is not None:
                        return found
        return None

    return search(("",) * len(pods), cluster)
