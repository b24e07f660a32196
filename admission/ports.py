"""Host ports that are taken: by live pods on their nodes, ours or not, and by seats whose pods are to come."""

from collections.abc import Callable, Iterable, Sequence

from queues.admissions import Admission
from queues.workload import HostPort, NodeName, PodSet, WorkloadKey

Place = tuple[NodeName, tuple[HostPort, ...]]


class Ports:
    """Who has which port of which node. Most pods have none, so this is small."""

    def __init__(self) -> None:
        self._of_pods: dict[str, Place] = {}
        #: Ports by pod set of the workloads that ask for any.
        self._asked: dict[WorkloadKey, dict[str, tuple[HostPort, ...]]] = {}

    def occupy(self, pod: str, place: Place | None) -> bool:
        """A pod has these ports of a node; None: none (any more). Whether that is news."""
        if self._of_pods.get(pod) == place:
            return False
        self._of_pods.pop(pod, None)
        if place is not None:
            self._of_pods[pod] = place
        return True

    def look(self, key: WorkloadKey, pod_sets: Iterable[PodSet]) -> None:
        """What the pods of a workload will have in its seats."""
        self._asked.pop(key, None)
        asked = {pods.name: pods.ports for pods in pod_sets if pods.ports}
        if asked:
            self._asked[key] = asked

    def by_node(
        self, admissions_of: Callable[[WorkloadKey], Sequence[Admission]]
    ) -> dict[NodeName, tuple[HostPort, ...]]:
        """Everything that is taken, by node."""
        taken: dict[NodeName, set[HostPort]] = {}
        for node, ports in self._of_pods.values():
            taken.setdefault(node, set()).update(ports)
        for key, asked in self._asked.items():
            for admission in admissions_of(key):
                for seat in admission.holding():
                    if seat.pod_set in asked:
                        taken.setdefault(seat.node, set()).update(asked[seat.pod_set])
        return {
            node: tuple(sorted(taken[node], key=lambda port: (port.port, port.protocol, port.ip)))
            for node in sorted(taken)
        }
