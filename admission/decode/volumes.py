"""Volumes of pods, claims, volumes, storage classes, and CSINodes → facts. Pure."""

from collections.abc import Mapping
from decimal import ROUND_CEILING
from typing import Final

import msgspec

from admission.decode.fields import one, seconds
from admission.facts.volumes import (
    CsiNodeFact,
    PodVolume,
    StorageClassFact,
    Terms,
    VolumeClaimFact,
    VolumeFact,
)
from admission.wire import Quantity, WireMetadata, WireStruct
from queues.api.reading.pod_places import terms_of
from queues.api.reading.user_values import LONGEST_NAME
from queues.api.types.pod import WireAmounts, WireNodeSelector, WirePodSpec
from queues.errors import InvalidQuantity
from queues.json_values import value_at
from queues.resources import MOST, quantity
from queues.workload import Requirement

_BOUND: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: The annotation for a class from before there was a field.
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULTS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_WAITS: Final = "WaitForFirstConsumer"
#: Labels of zones and regions on volumes, and what nodes may call the same today.
ZONE_LABELS: Final = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
#: Volumes of one pod, terms of one object, and values of one requirement that are read.
MOST_VOLUMES: Final = 64
MOST_VOLUME_TERMS: Final = 256
#: Drivers of one node that are read.
MOST_DRIVERS: Final = 64


class _NodeAffinity(WireStruct):
    required: WireNodeSelector | None = None


class _Csi(WireStruct):
    driver: str = ""
    volume_handle: str = ""


class _Reference(WireStruct):
    namespace: str = ""
    name: str = ""


class _ClaimSpec(WireStruct):
    storage_class_name: str | None = None
    volume_name: str | None = None
    volume_mode: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: WireAmounts | None = None


class _Phase(WireStruct):
    phase: str = ""


class WireVolumeClaim(WireStruct):
    """A PersistentVolumeClaim."""

    metadata: WireMetadata
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)
    status: _Phase | None = None


class _VolumeSpec(WireStruct):
    node_affinity: _NodeAffinity | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    access_modes: tuple[str, ...] | None = None
    capacity: dict[str, Quantity] | None = None
    claim_ref: _Reference | None = None
    csi: _Csi | None = None


class WireVolume(WireStruct):
    """A PersistentVolume."""

    metadata: WireMetadata
    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)
    status: _Phase | None = None


class WireTopologyTerm(WireStruct):
    """Values of a label of nodes."""

    key: str = ""
    values: tuple[str, ...] | None = None


class _Topology(WireStruct):
    match_label_expressions: tuple[WireTopologyTerm, ...] | None = None


class WireStorageClass(WireStruct):
    """A StorageClass."""

    metadata: WireMetadata
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[_Topology, ...] | None = None


class _Attachable(WireStruct):
    count: int | None = None


class _Driver(WireStruct):
    name: str = ""
    allocatable: _Attachable | None = None


class _CsiNodeSpec(WireStruct):
    drivers: tuple[_Driver, ...] | None = None


class WireCsiNode(WireStruct):
    """A CSINode."""

    metadata: WireMetadata
    spec: _CsiNodeSpec = msgspec.field(default_factory=_CsiNodeSpec)


def volumes_of(spec: WirePodSpec, pod: str = "") -> tuple[PodVolume, ...]:
    """Volumes of a pod or template that say something about nodes. ``pod``: its name; "": a template."""
    found = []
    for volume in (spec.volumes or ())[:MOST_VOLUMES]:
        if volume.persistent_volume_claim is not None:
            found.append(PodVolume(claim=volume.persistent_volume_claim.claim_name[:LONGEST_NAME]))
        elif volume.ephemeral is not None:
            named = value_at(volume.ephemeral, "volumeClaimTemplate", "spec", "storageClassName")
            claim = f"{pod}-{volume.name}"[:LONGEST_NAME] if pod else ""
            found.append(
                PodVolume(claim=claim, is_made=True, storage_class=named if isinstance(named, str) else None)
            )
    return one(tuple(found))


def volume_claim_fact(claim: WireVolumeClaim) -> VolumeClaimFact:
    """A PersistentVolumeClaim."""
    meta, spec = claim.metadata, claim.spec
    annotations = meta.annotations or {}
    return VolumeClaimFact(
        namespace=one(meta.namespace),
        name=meta.name,
        volume=spec.volume_name or "",
        is_bound=bool(spec.volume_name) and _BOUND in annotations,
        is_lost=claim.status is not None and claim.status.phase == "Lost",
        deleting=meta.deletion_timestamp is not None,
        storage_class=one(annotations.get(_OLD_CLASS, spec.storage_class_name)),
        selected_node=one(annotations.get(_SELECTED_NODE, "")),
        modes=one(frozenset(spec.access_modes or ())),
        volume_mode=one(spec.volume_mode or "Filesystem"),
        size=_bytes((spec.resources and spec.resources.requests) or {}),
    )


def volume_fact(volume: WireVolume) -> VolumeFact:
    """A PersistentVolume."""
    meta, spec = volume.metadata, volume.spec
    labels = {key: text for key, text in (meta.labels or {}).items() if key in ZONE_LABELS}
    reference = spec.claim_ref
    terms = None
    if spec.node_affinity is not None and spec.node_affinity.required is not None:
        terms = terms_of((spec.node_affinity.required.node_selector_terms or ())[:MOST_VOLUME_TERMS])
    zones = tuple(_in_zone(key, text) for key, text in sorted(labels.items()))
    return VolumeFact(
        name=meta.name,
        nodes=one((*((terms,) if terms is not None else ()), *zones)),
        where=one(_where(terms or (), labels)),
        driver=one(spec.csi.driver if spec.csi is not None else ""),
        handle=spec.csi.volume_handle if spec.csi is not None else "",
        storage_class=one((meta.annotations or {}).get(_OLD_CLASS, spec.storage_class_name or "")),
        is_available=volume.status is None or volume.status.phase in ("", "Available"),
        claim=None if reference is None else (reference.namespace, reference.name),
        modes=one(frozenset(spec.access_modes or ())),
        volume_mode=one(spec.volume_mode or "Filesystem"),
        size=_bytes(spec.capacity or {}),
    )


def storage_class_fact(found: WireStorageClass) -> StorageClassFact:
    """A StorageClass."""
    annotations = found.metadata.annotations or {}
    return StorageClassFact(
        name=found.metadata.name,
        provisioner=found.provisioner,
        waits=found.volume_binding_mode == _WAITS,
        topologies=tuple(
            tuple(
                Requirement(each.key, "In", tuple(each.values or ()))
                for each in topology.match_label_expressions or ()
            )
            for topology in (found.allowed_topologies or ())[:MOST_VOLUME_TERMS]
        ),
        is_default=any(annotations.get(key) == "true" for key in _DEFAULTS),
        created=seconds(found.metadata.creation_timestamp),
    )


def csi_node_fact(node: WireCsiNode) -> CsiNodeFact:
    """A CSINode."""
    return CsiNodeFact(
        name=node.metadata.name,
        limits={
            one(driver.name): min(max(0, driver.allocatable.count), MOST)
            for driver in (node.spec.drivers or ())[:MOST_DRIVERS]
            if driver.allocatable is not None and driver.allocatable.count is not None
        },
    )


def _in_zone(key: str, text: str) -> Terms:
    """Nodes for a volume with a label of a zone or region: those that have one of its values, and those in no zone."""
    values = tuple(sorted(text.split("__")))
    keys = sorted({key, ZONE_LABELS[key]})
    outside = tuple(Requirement(each, "DoesNotExist") for each in sorted(ZONE_LABELS))
    return (*((Requirement(each, "In", values),) for each in keys), outside)


def _where(terms: Terms, labels: Mapping[str, str]) -> str:
    said = [
        f"{each.key.rpartition('/')[2]} {' or '.join(each.values[:3])}"
        for term in terms[:3]
        for each in term
        if each.operator == "In"
    ]
    said += [f"{key.rpartition('/')[2]} {text}" for key, text in sorted(labels.items()) if not said]
    return " or ".join(dict.fromkeys(said))[:200]


def _bytes(amounts: Mapping[str, Quantity]) -> int:
    try:
        size = quantity(amounts.get("storage", 0)).to_integral_value(ROUND_CEILING)
    except InvalidQuantity:
        return 0
    return min(int(size), MOST)
