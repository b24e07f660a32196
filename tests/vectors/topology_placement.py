"""topology_placement.json: nodes, running pods, pod sets → domains and counts, or null for "does not fit"."""

from collections.abc import Iterator
from typing import Any

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from queues import kind_names
from queues.plan import Admit
from queues.quota.queue import Queue
from queues.resources import Resources
from queues.workload import (
    NodeFilter,
    NodeName,
    Partition,
    PodSet,
    Preference,
    QueueName,
    Requirement,
    Taint,
    Toleration,
    Workload,
    WorkloadKey,
)
from tests.builders.decided_work import a_snapshot

Case = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def difference(case: Case) -> str | None:
    """Where the case comes out otherwise than it wants; None: it does not."""
    names = [pods["name"] for pods in case["pod_sets"]]
    if not names or len(set(names)) < len(names):
        return f"found pod sets {names}, expected at least one, each with a name of its own"
    found = next(_misasked(case), None) or placed(case)
    fits = all(pods["want"] is not None for pods in case["pod_sets"])
    if isinstance(found, str):
        return f"expected a place, found {found}" if fits else None
    if not fits:
        return f"expected none, found {', '.join(f'{seat.pod_set} on {seat.node}' for seat in found.seats)}"
    return _constraints_broken(case, found) or _places_differ(case, found) or _preferences_missed(case, found)


def placed(case: Case) -> Admit | str:
    """Where the pods go, or why they do not."""
    workload = _workload(case)
    snapshot = a_snapshot(workload, queues=[Queue(name=QueueName("q"))], nodes=_table(case), now=0)
    plan, _ = decide(snapshot, Memo())
    return plan.admits[0] if plan.admits else plan.reasons[workload.key].message


def _misasked(case: Case) -> Iterator[str]:
    """Slices that Kueue takes for a mistake: Muster's parts may be wider than the level of their pod set."""
    levels = case["levels"]
    for pods in case["pod_sets"]:
        own = pods.get("required") or pods.get("preferred") or levels[0]
        keys = [own, *(level for _, level in _slices(pods))]
        depths = [levels.index(key) for key in keys if key in levels]
        if depths != sorted(depths):
            yield f"slices of {pods['name']} at {keys[1:]}, which are wider than {own} or go outwards"
        if any(size < 1 for size, _ in _slices(pods)):
            yield f"slices of {pods['name']} without pods"


def _constraints_broken(case: Case, admit: Admit) -> str | None:
    """Required levels over groups of pod sets, and slices; what the engine's laws say of all placements."""
    labels, levels = _labels(case), case["levels"]

    def domain(node: str, level: str) -> tuple[str | None, ...]:
        return tuple(labels[node].get(key) for key in levels[: levels.index(level) + 1])

    groups: dict[str, set[tuple[str | None, ...]]] = {}
    for pods in case["pod_sets"]:
        seats = {seat.ordinal: str(seat.node) for seat in admit.seats if seat.pod_set == pods["name"]}
        if "group" in pods and "required" in pods:
            groups.setdefault(pods["group"], set()).update(
                domain(node, pods["required"]) for node in seats.values()
            )
        for size, level in _slices(pods):
            for first in range(0, pods["count"], size):
                members = range(first, min(first + size, pods["count"]))
                used = {domain(seats[ordinal], level) for ordinal in members}
                if len(used) > 1:
                    return f"slice of {pods['name']} from {first} on lies in {len(used)} domains of {level}"
    for name, used in groups.items():
        if len(used) > 1:
            return f"group {name} lies in {len(used)} domains"
    return None


def _preferences_missed(case: Case, admit: Admit) -> str | None:
    """Pods on nodes that they prefer count at least as much as in the wanted places."""
    table = _table(case)
    hosts = {node["labels"].get(HOST, node["name"]): node["name"] for node in case["nodes"]}
    for pods in case["pod_sets"] if case.get("prefer_affinity") else ():
        score = table.layout.score(_prefers(pods))
        if score is None or _told_levels(case, pods) != [HOST]:
            continue
        position = table.layout.position
        found = sum(int(score[position[s.node]]) for s in admit.seats if s.pod_set == pods["name"])
        wanted = sum(
            int(score[position[NodeName(hosts[entry["domain"][-1]])]]) * entry["count"]
            for entry in pods["want"]
        )
        if found < wanted:
            return f"{pods['name']} scores {found} by preferred affinity, expected at least {wanted}"
    return None


def _told_levels(case: Case, pods: dict[str, Any]) -> list[str]:
    """The levels that wanted domains name: if that is not said, the innermost ones."""
    depth = max((len(entry["domain"]) for entry in pods["want"]), default=1)
    told: list[str] = pods.get("want_levels") or case["levels"][-depth:]
    return told


def _labels(case: Case) -> dict[str, dict[str, str]]:
    return {
        node["name"]: node["labels"] | {HOST: node["labels"].get(HOST, node["name"])}
        for node in case["nodes"]
    }


def _slices(pods: dict[str, Any]) -> list[tuple[int, str]]:
    """(size, level) of the layers of slices, outermost first."""
    if "slice_layers" in pods:
        return [(layer["size"], layer["topology"]) for layer in pods["slice_layers"]]
    return [(pods["slice_size"], pods["slice_level"])] if "slice_size" in pods else []


def _places_differ(case: Case, admit: Admit) -> str | None:
    labels = _labels(case)
    levels = case["levels"]
    for pods in case["pod_sets"]:
        nodes = [str(seat.node) for seat in admit.seats if seat.pod_set == pods["name"]]
        if len(nodes) != pods["count"]:
            return f"{len(nodes)} pods of {pods['name']} seated, expected {pods['count']}"
        wanted = [entry["domain"] for entry in pods["want"]]
        named = _told_levels(case, pods)
        for depth, level in enumerate(levels):
            used = {tuple(labels[node].get(key) for key in levels[: depth + 1]) for node in nodes}
            if pods.get("required") == level and len(used) > 1:
                return f"{pods['name']} lies in {len(used)} domains of {level}, expected one"
            if level in named:
                at = named.index(level) + 1
                allowed = len({tuple(domain[:at]) for domain in wanted})
            elif level == levels[-1] or named != [levels[-1]]:
                continue
            else:  # only the host is named: find the domain of each host
                hosts = {domain[-1] for domain in wanted}
                on = [labels[name] for name in labels if labels[name][levels[-1]] in hosts]
                allowed = len({tuple(each.get(key) for key in levels[: depth + 1]) for each in on})
            if len(used) > allowed:
                return f"{pods['name']} uses {len(used)} domains of {level}, expected at most {allowed}"
    return None


def _workload(case: Case) -> Workload:
    pod_sets = tuple(
        PodSet(
            name=pods["name"],
            count=pods["count"],
            takes=_resources(pods["requests"]) + Resources({"pods": 1}),
            nodes=_filter(pods, case),
            required_topology=pods.get("required"),
            preferred_topology=pods.get("preferred"),
            partitions=tuple(Partition(size=size, level=level) for size, level in _slices(pods)),
            together=pods.get("group"),
            prefers=_prefers(pods) if case.get("prefer_affinity") else (),
        )
        for pods in case["pod_sets"]
    )
    return Workload(
        key=WorkloadKey(kind_names.JOB, "1"),
        namespace="default",
        name="case",
        queue=QueueName("q"),
        arrival=1,
        minimum=sum(pods.count for pods in pod_sets),
        pod_sets=pod_sets,
    )


def _prefers(pods: dict[str, Any]) -> tuple[Preference, ...]:
    return tuple(
        Preference(term["weight"], _requirements(term["preference"]))
        for term in pods.get("node_affinity", {}).get(_PREFERRED, ())
    )


def _requirements(term: dict[str, Any]) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(each["key"], each["operator"], tuple(each.get("values", ())), field=field)
        for kind, field in (("matchExpressions", False), ("matchFields", True))
        for each in term.get(kind, ())
    )


def _filter(pods: dict[str, Any], case: Case) -> NodeFilter:
    selector = dict(case.get("node_labels", {})) | dict(pods.get("node_selector", {}))
    terms = pods.get("node_affinity", {}).get(_REQUIRED, {}).get("nodeSelectorTerms", ())
    # Only nodes that have all levels belong to the flavor that a case is about.
    inside = tuple(Requirement(level, "Exists") for level in case["levels"])
    return NodeFilter(
        selector=tuple(sorted(selector.items())),
        affinity=tuple((*inside, *_requirements(term)) for term in terms) if terms else (inside,),
        tolerations=tuple(
            Toleration(
                **{name: each[name] for name in ("key", "operator", "value", "effect") if name in each}
            )
            for each in pods.get("tolerations", ())
        ),
    )


def _table(case: Case) -> NodeTable:
    used: dict[str, Resources] = {}
    for pod in case.get("pods", ()):
        if pod.get("node") is not None and pod.get("phase") not in ("Succeeded", "Failed"):
            used[pod["node"]] = (
                used.get(pod["node"], Resources()) + _resources(pod["requests"]) + Resources({"pods": 1})
            )
    return NodeTable.build(
        [
            Node(
                name=NodeName(node["name"]),
                allocatable=_resources(node["allocatable"]),
                used=used.get(node["name"], Resources()),
                labels=node["labels"],
                taints=tuple(
                    Taint(t["key"], t.get("value", ""), t["effect"]) for t in node.get("taints", ())
                ),
                usable=node.get("ready", True) and not node.get("unschedulable", False),
            )
            for node in case["nodes"]
        ],
        [case["levels"]],
    )


def _resources(amounts: dict[str, int]) -> Resources:
    return Resources(amounts)
