"""Nodes that may give a gang the unhealthy device again that it had there: the gang is seated elsewhere.

Not stored: a new leader tries once more where it failed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from admission.workloads.state import WorkloadState
from queues.workload import NodeName, WorkloadKey


@dataclass(slots=True)
class _OnFaultyDevices:
    """Nodes on whose unhealthy devices a workload was."""

    nodes: frozenset[NodeName] = frozenset()
    #: Those on which it was put twice: whatever seems to be held back, they do give the devices to it.
    twice: frozenset[NodeName] = frozenset()
    #: Those that may give the devices to it again.
    offering: frozenset[NodeName] = frozenset()


class AvoidedNodes:
    """Nodes to leave out, by workload, each until its devices are healthy.

    ``is_faulty``: whether a node has unhealthy devices; ``offers_faulty_devices``: whether pods may get them.
    """

    def __init__(
        self, is_faulty: Callable[[NodeName], bool], offers_faulty_devices: Callable[[NodeName], bool]
    ) -> None:
        self._faulty: dict[WorkloadKey, _OnFaultyDevices] = {}
        self._is_faulty = is_faulty
        self._offers_faulty_devices = offers_faulty_devices

    def note_setback(self, key: WorkloadKey, state: WorkloadState) -> None:
        """The workload goes back whole, from this state."""
        if state.faulty_nodes:
            found = self._faulty.setdefault(key, _OnFaultyDevices())
            found.twice |= found.nodes & state.faulty_nodes
            found.nodes |= state.faulty_nodes
            found.offering = self._offering(found)

    def nodes(self, key: WorkloadKey) -> frozenset[NodeName]:
        """Nodes to leave out."""
        faulty = self._faulty.get(key)
        return frozenset() if faulty is None else faulty.offering

    def changed(self) -> set[WorkloadKey]:
        """Workloads for which a node has become usable, or has not: its devices are healthy, or held back by the device
        plugin. A plugin that holds a device back may offer it again, so what is healthy alone is forgotten."""
        changed = set()
        for key, found in list(self._faulty.items()):
            before, found.nodes = found.offering, frozenset(filter(self._is_faulty, found.nodes))
            found.offering = self._offering(found)
            if found.offering != before:
                changed.add(key)
            if not found.nodes:
                del self._faulty[key]
        return changed

    def _offering(self, found: _OnFaultyDevices) -> frozenset[NodeName]:
        return frozenset(filter(self._offers_faulty_devices, found.nodes)) | (found.nodes & found.twice)

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone."""
        self._faulty.pop(key, None)

    def pass_on(self, before: WorkloadKey, after: WorkloadKey) -> None:
        """The second workload takes the place of the first."""
        if before in self._faulty:
            self._faulty[after] = self._faulty.pop(before)
