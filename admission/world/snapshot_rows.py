"""Rows of the next snapshot about workloads, kept up to date so that a frozen copy costs what changed. Pure."""

from collections.abc import Collection

from admission.engine.snapshot import Rollback, Unbooked
from admission.workloads.state import WorkloadState
from admission.world.attached_volumes import AttachedVolumes
from admission.world.disruption_budgets import Budgets
from admission.world.nodes import NodeInventory
from admission.world.pod_relations import PodRelations
from queues.admissions import Admission
from queues.versioned_map import VersionedMap
from queues.workload import AdmissionId, Workload, WorkloadKey


class SnapshotRows:
    """Part of the world: the rows of the next snapshot that follow from states and admissions."""

    def __init__(
        self,
        node_inventory: NodeInventory,
        budgets: Budgets,
        pod_relations: PodRelations,
        attached_volumes: AttachedVolumes,
    ) -> None:
        self._pod_relations = pod_relations
        self._attached_volumes = attached_volumes
        self._node_inventory = node_inventory
        self._budgets = budgets
        self.pending: VersionedMap[WorkloadKey, Workload] = VersionedMap()
        self.holders: VersionedMap[WorkloadKey, Workload] = VersionedMap()
        self.admissions: VersionedMap[AdmissionId, Admission] = VersionedMap()
        self.ended: dict[AdmissionId, frozenset[int]] = {}
        self.evictable: dict[AdmissionId, Rollback] = {}
        self.leaving: dict[AdmissionId, int] = {}
        self.started: dict[AdmissionId, None] = {}
        self.ready: dict[AdmissionId, None] = {}
        self.unbooked: dict[WorkloadKey, Unbooked] = {}

    def replace(
        self, before: WorkloadState | None, after: WorkloadState | None, numbered: Collection[WorkloadKey]
    ) -> bool:
        """One state takes another's place. Whether a decision may come out differently.

        ``numbered``: workloads that have arrived; others wait for their number before they are shown.
        """
        if before is not None:
            self._remove(before, after)
        if after is not None:
            self._put(after, numbered)
        return _decisive(before) != _decisive(after)

    def _remove(self, before: WorkloadState, after: WorkloadState | None) -> None:
        self._node_inventory.ports.update(before.key, ())
        if after is None:
            self._resolved(before, None)
        if after is None or not after.seat_maps:
            self._budgets.update(before.key, ())
        self.unbooked.pop(before.key, None)
        for place in before.seat_maps:
            self.ended.pop(place.admission.id, None)
            self.evictable.pop(place.admission.id, None)
            self.leaving.pop(place.admission.id, None)
            self.started.pop(place.admission.id, None)
            self.ready.pop(place.admission.id, None)
        if after is None:
            self.pending.pop(before.key)
            self.holders.pop(before.key)
            self._node_inventory.demand.update(before.key, ())

    def _put(self, after: WorkloadState, numbered: Collection[WorkloadKey]) -> None:
        asks = after.workload.pod_sets if after.needs_seats or after.seat_maps else ()
        self._node_inventory.demand.update(after.key, asks)
        workload = self._resolved(after, after if asks else None)
        self._node_inventory.ports.update(after.key, workload.pod_sets)
        if after.needs_seats and after.key in numbered:
            self.pending.put(after.key, workload)
        else:
            self.pending.pop(after.key)
        if after.unbooked is not None:
            self.unbooked[after.key] = after.unbooked
        self.ended.update(after.ended)
        self.evictable.update(after.evictable)
        self.leaving.update(dict.fromkeys(after.leaving(), after.over_since))
        if after.seat_maps:
            self.holders.put(after.key, workload)
            self._budgets.update(after.key, after.pods)
        else:
            self.holders.pop(after.key)
        self.started.update(dict.fromkeys(after.started))
        self.ready.update(dict.fromkeys(after.ready))

    def recount(self) -> None:
        """Give the workloads what their pods count as where the rules of other pods have changed, and their volumes
        where these have."""
        stale = {**dict(self._pod_relations.refresh()), **dict(self._attached_volumes.refresh())}
        for key, state in stale.items():
            if not (state.needs_seats or state.seat_maps):
                continue
            workload = self._resolved(state, state)
            self._node_inventory.ports.update(key, workload.pod_sets)
            for rows in (self.pending, self.holders):
                before = rows.get(key)
                if before is not None and before != workload:
                    rows.put(key, workload)

    def _resolved(self, state: WorkloadState, relevant: WorkloadState | None) -> Workload:
        """The workload of a state with what its pods count as, and with their volumes.

        ``relevant``: the state; None if it neither waits nor has seats.
        """
        counted = self._pod_relations.put_workload(state.key, relevant)
        workload = state.workload if counted is None else counted
        workload = self._attached_volumes.put_workload(state.key, relevant, workload)
        if workload is not state.workload:
            for rows in (self.pending, self.holders):
                if (known := rows.get(state.key)) == workload and known is not None:
                    return known  # the engine's memo goes by identity
        return workload


def _decisive(state: WorkloadState | None) -> tuple[object, ...] | None:
    """What a decision may depend on; None for nothing. What ended and holds nothing is as if it were not there."""
    seen = () if state is None else state.decisive()
    return seen if any(seen) else None
