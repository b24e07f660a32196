"""The objects of a run, each with its life, and what the documents of pods and workloads say."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from queues.api import names
from queues.resources import amount
from tests.chaos.history import Document, ObjectChange
from tests.node_affinity import pinned_nodes

ENDED: Final = ("Succeeded", "Failed")
GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True)
class Life:
    """All changes of one object, oldest first."""

    changes: tuple[ObjectChange, ...]

    @property
    def first(self) -> ObjectChange:
        """Its creation."""
        return self.changes[0]

    @property
    def last(self) -> ObjectChange:
        """What was seen of it last."""
        return self.changes[-1]

    @cached_property
    def deleted(self) -> ObjectChange | None:
        """Its deletion; None: it is there at the end."""
        return self.last if self.last.change == "DELETED" else None

    @property
    def is_there(self) -> bool:
        """Whether it is there at the end."""
        return self.deleted is None

    @property
    def document(self) -> Document:
        """As it was last."""
        return self.last.document

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.document["metadata"]["uid"])

    @property
    def name(self) -> str:
        """``namespace/name``."""
        return name_of(self.document)

    def at(self, number: int) -> Document | None:
        """The document after a change; None: the object is not there then."""
        found: Document | None = None
        for change in self.changes:
            if change.number > number:
                break
            found = None if change.change == "DELETED" else change.document
        return found

    def __str__(self) -> str:
        return f"{self.first.resource.partition('.')[0]} {self.name}"


@dataclass(frozen=True)
class PodLife(Life):
    """The life of a pod."""

    @cached_property
    def released(self) -> ObjectChange | None:
        """Its first change with an admission and without the gate; None: there was none."""
        return next((each for each in self.changes if is_released(each.document)), None)

    @cached_property
    def ended(self) -> ObjectChange | None:
        """The change by which it ended or went; None: it lives."""
        return next(
            (each for each in self.changes if each.change == "DELETED" or phase_of(each.document) in ENDED),
            None,
        )

    @cached_property
    def outcome(self) -> str:
        """``Succeeded``, ``Failed``, or "": it went without one, or lives."""
        return next((phase for each in self.changes if (phase := phase_of(each.document)) in ENDED), "")

    @property
    def admission(self) -> int | None:
        """Id of the admission that its annotation names when it is released."""
        return None if self.released is None else admission_of(self.released.document)

    @property
    def seat(self) -> str | None:
        """``pod set/ordinal``; None: of a Job that was released by its template."""
        return None if self.released is None else annotations_of(self.released.document).get(names.SEAT)

    @property
    def is_running(self) -> bool:
        """Whether it is released and lives at the end."""
        return self.released is not None and self.ended is None


def lives_of(changes: Iterable[ObjectChange]) -> dict[str, Life]:
    """By uid."""
    found: dict[str, list[ObjectChange]] = {}
    for change in sorted(changes, key=lambda each: each.number):
        found.setdefault(change.document["metadata"]["uid"], []).append(change)
    return {uid: (PodLife if its[0].resource == "pods" else Life)(tuple(its)) for uid, its in found.items()}


# ── documents ───────────────────────────────────────────────────────────────────────────────────────────────────


def name_of(document: Document) -> str:
    """``namespace/name``, or the name alone."""
    meta = document["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def annotations_of(document: Document) -> Mapping[str, str]:
    """Its annotations."""
    return document["metadata"].get("annotations") or {}


def phase_of(pod: Document) -> str:
    """Phase of a pod's status."""
    return str((pod.get("status") or {}).get("phase", ""))


def is_gated(pod: Document) -> bool:
    """Whether a pod has gates."""
    return bool(pod["spec"].get("schedulingGates"))


def admission_of(pod: Document) -> int | None:
    """Id of the admission that a pod names."""
    text = annotations_of(pod).get(names.ADMISSION_ID)
    return int(text) if text is not None and text.isdigit() else None


def is_released(pod: Document) -> bool:
    """Whether Muster let a pod go."""
    return admission_of(pod) is not None and not is_gated(pod)


def nodes_of(pod: Document) -> set[str]:
    """The node that a pod is bound to, else the nodes that it may use; empty: any."""
    bound = pod["spec"].get("nodeName")
    return {bound} if bound else pinned_nodes(pod["spec"])


def requests_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """What the containers of a pod ask, in units of ``queues.resources``."""
    sums: dict[str, int] = {}
    for container in spec["containers"]:
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for resource, text in asked.items():
            sums[resource] = sums.get(resource, 0) + amount(resource, text)
    return sums


def allocatable_of(node: Document) -> dict[str, int]:
    """What a node offers."""
    return {name: amount(name, text) for name, text in (node["status"].get("allocatable") or {}).items()}


def is_ready(node: Document) -> bool:
    """Whether a node says that it is ready."""
    conditions = node["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def takes_pods(node: Document) -> bool:
    """Whether pods without tolerations may be bound to a node."""
    spec = node.get("spec") or {}
    hard = [taint for taint in spec.get("taints") or () if taint["effect"] != "PreferNoSchedule"]
    return is_ready(node) and not spec.get("unschedulable") and not hard


def owner_of(document: Document) -> str:
    """Uid of the controller of an object; "": it has none."""
    for reference in document["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return ""


def group_of(pod: Document) -> str:
    """``namespace/name`` of the PodGroup that a pod names; "": none."""
    annotations = annotations_of(pod)
    name = annotations.get(names.GROUP_ANNOTATION) or annotations.get(names.GROUP_ANNOTATION_VOLCANO)
    return f"{pod['metadata']['namespace']}/{name}" if name else ""
