"""What the pods of a trial and those that exist count as for one another's rules. Pure.

The rules are topologySpreadConstraints, pod affinity and anti-affinity: resolved by the same code as those of stored
objects, in a copy of what the world knows.
"""

from collections.abc import Mapping
from dataclasses import replace

from admission.engine.nodes.host_ports import NotedPorts, ports_of
from admission.engine.snapshot import Snapshot
from admission.workloads.state import WorkloadState
from admission.world.pod_relations import PodRelations
from queues.workload import PodSet, Workload, WorkloadKey


def with_related_pods(
    snapshot: Snapshot, relations: PodRelations, tried: Mapping[WorkloadKey, WorkloadState]
) -> tuple[Snapshot, dict[WorkloadKey, Workload]]:
    """The snapshot in which pods that exist are counted for the rules of these workloads, and the workloads themselves.

    ``relations``: a copy, which is changed.
    """
    workloads, seatless = relations.put_tried(tried)
    holders, pending = dict(snapshot.holders), dict(snapshot.pending)
    more: dict[WorkloadKey, Workload] = {}
    for key, workload in workloads.items():
        for rows in (holders, pending):
            if key in rows and key not in tried:
                rows[key], more[key] = _counted(rows[key], workload)
    places = [*seatless]
    for admission in snapshot.admissions.values():
        if (counted := more.get(admission.workload)) is not None:
            places += ports_of(counted, snapshot.still_held(admission))
    noted = NotedPorts(snapshot.nodes.ports)
    for place in places:
        noted.add(*place)
    nodes = snapshot.nodes.with_ports(noted.by_node()) if places else snapshot.nodes
    found = {key: workloads.get(key, state.workload) for key, state in tried.items()}
    return replace(snapshot, nodes=nodes, holders=holders, pending=pending), found


def _counted(known: Workload, workload: Workload) -> tuple[Workload, Workload]:
    """A known workload with what its pods count as now, and the same with nothing but what is new."""
    now = {pods.name: pods for pods in workload.pod_sets}
    counted: list[PodSet] = []
    new: list[PodSet] = []
    for pods in known.pod_sets:
        then = now.get(pods.name, pods)
        counted.append(replace(pods, counted=then.counted, kept_from=then.kept_from))
        ports = tuple(port for port in then.counted if port not in pods.counted)
        new.append(replace(pods, ports=(), attached=(), counted=ports))
    return replace(known, pod_sets=tuple(counted)), replace(known, pod_sets=tuple(new))
