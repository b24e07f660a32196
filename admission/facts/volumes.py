"""Facts about volumes: what pods ask for, claims, volumes, storage classes, and how many a node attaches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from queues.text_format import listed
from queues.workload import Requirement

#: Terms are ORed, the requirements of a term ANDed.
Terms = tuple[tuple[Requirement, ...], ...]
#: Namespace and name.
Place = tuple[str, str]
#: Volumes of one object that a sentence names.
_MOST_NAMED = 5


class PodVolume(NamedTuple):
    """An entry of a pod's ``volumes`` that says something about nodes."""

    #: Its PersistentVolumeClaim; "": one is made for each pod.
    claim: str = ""
    #: The claim is made for the pod or its Job, so it need not exist yet.
    is_made: bool = False
    #: StorageClass of a claim that is made; None for the default one.
    storage_class: str | None = None


def claims_of(namespace: str, volumes: Iterable[PodVolume]) -> frozenset[Place]:
    """Claims of volumes that pods of a namespace name."""
    return frozenset((namespace, volume.claim) for volume in volumes if volume.claim)


def unseen_volumes(volumes: Iterable[PodVolume]) -> str:
    """A sentence about volumes of an object that is not in the cluster: their own objects were not looked at. "": it
    has none."""
    names = dict.fromkeys(
        f"claims of {f'StorageClass {each.storage_class}' if each.storage_class else 'the default StorageClass'}"
        if each.is_made
        else f"PersistentVolumeClaim {each.claim}"
        for each in volumes
    )
    if not names:
        return ""
    return (
        f"volumes that are not looked at ({listed(list(names), _MOST_NAMED)}): whether they exist, where they can be "
        "used and how many a node attaches is seen when the object waits in the cluster"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaimFact:
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    #: Its PersistentVolume, bound or only named; "": none.
    volume: str = ""
    #: Claim and volume are bound to each other.
    is_bound: bool = False
    #: Its volume does not exist any more (phase Lost).
    is_lost: bool = False
    deleting: bool = False
    #: None if none is named, so that the default one counts.
    storage_class: str | None = None
    #: The node for which a volume is being made; "": none.
    selected_node: str = ""
    #: Access modes, and the mode of the volume.
    modes: frozenset[str] = frozenset()
    volume_mode: str = "Filesystem"
    #: Bytes that it asks for.
    size: int = 0
    #: It does not exist yet, and is made for a pod or a Job.
    is_to_be_made: bool = False

    @property
    def is_for_one_pod(self) -> bool:
        """Whether one pod at a time may use it."""
        return "ReadWriteOncePod" in self.modes


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFact:
    """A PersistentVolume."""

    name: str
    #: Where it can be used, each to be met; (): anywhere.
    nodes: tuple[Terms, ...] = ()
    #: Zones and regions by label, for sentences; "": none is said.
    where: str = ""
    #: CSI driver, and what it calls the volume; "": another driver.
    driver: str = ""
    handle: str = ""
    storage_class: str = ""
    #: A claim may still get it.
    is_available: bool = False
    #: The claim that it is kept for.
    claim: Place | None = None
    modes: frozenset[str] = frozenset()
    volume_mode: str = "Filesystem"
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClassFact:
    """A StorageClass."""

    name: str
    provisioner: str = ""
    #: Its volumes are made, or chosen, when the first pod has a node (WaitForFirstConsumer).
    waits: bool = False
    #: Where its volumes can be made; (): anywhere.
    topologies: Terms = ()
    is_default: bool = False
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiNodeFact:
    """A CSINode."""

    name: str
    #: Volumes that the node can attach, by driver; a driver without a limit is left out.
    limits: Mapping[str, int] = field(default_factory=dict)
