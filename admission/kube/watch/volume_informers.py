"""Informers of volumes, which run only while a workload with volumes waits: there may be far more of these objects than
workloads, and most clusters' workloads have none."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from admission.decode.volumes import (
    WireCsiNode,
    WireStorageClass,
    WireVolume,
    WireVolumeClaim,
    csi_node_fact,
    storage_class_fact,
    volume_claim_fact,
    volume_fact,
)
from admission.facts.changes import Change, FactKind
from admission.kube.client.client import Client
from admission.kube.watch.informer import Informer, Timing
from admission.kube.watch.store import ObjectChange, WatchedKind, decoded, kind_of
from admission.world.volumes import KNOWN, UNWATCHED
from queues.api.api_resources import CSI_NODES, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES

_TIMING: Final = Timing()


_KINDS: Final = (
    (FactKind.STORAGE_CLASS, kind_of(STORAGE_CLASSES, WireStorageClass, decoded(storage_class_fact))),
    (FactKind.CSI_NODE, kind_of(CSI_NODES, WireCsiNode, decoded(csi_node_fact))),
    (FactKind.VOLUME, kind_of(VOLUMES, WireVolume, decoded(volume_fact))),
    (FactKind.VOLUME_CLAIM, kind_of(VOLUME_CLAIMS, WireVolumeClaim, decoded(volume_claim_fact))),
)


class VolumeInformers:
    """Claims, volumes, storage classes and CSINodes, watched on demand."""

    def __init__(self, client: Client, hand_in: Callable[[Change], None], timing: Timing = _TIMING) -> None:
        """``hand_in``: takes what they see into the stream of changes."""
        self._client = client
        self._hand_in = hand_in
        self._timing = timing
        self._tasks: list[asyncio.Task[Any]] = []

    def keep(self, tasks: asyncio.TaskGroup, *, needed: bool) -> None:
        """Start or stop them, as they are needed now."""
        if needed and not self._tasks:
            informers = [self._informer(fact_kind, kind) for fact_kind, kind in _KINDS]
            for each in informers:
                name = f"informer {each.kind.name}"
                self._tasks.append(tasks.create_task(each.run(), name=name))
            self._tasks.append(tasks.create_task(self._tell_synced(informers), name="volumes are known"))
        elif self._tasks and not needed:
            for task in self._tasks:
                task.cancel()
            self._tasks = []
            self._hand_in(UNWATCHED)

    def _informer(self, fact_kind: FactKind, kind: WatchedKind[Any, Any]) -> Informer[Any, Any]:
        def deliver(shifts: list[ObjectChange[Any]]) -> None:
            for shift in shifts:
                key = shift.uid if kind.resource.namespaced else shift.name
                self._hand_in(Change(fact_kind, key, shift.after))

        return Informer(self._client, kind, deliver, self._timing)

    async def _tell_synced(self, informers: list[Informer[Any, Any]]) -> None:
        for each in informers:
            await each.synced.wait()
        self._hand_in(KNOWN)
