"""A label or annotation that Muster reads, writes, or reports: a row of the tables in this package."""

from dataclasses import dataclass, field
from enum import StrEnum


class KeyUse(StrEnum):
    """What Muster does with a label or annotation of an object."""

    #: Honoured, where ``places`` says.
    READ = "read"
    #: Only Muster writes it: policies refuse it from all other users.
    OWN = "written by Muster only"
    #: Written by Muster for other programs and people; no policy protects it.
    WRITTEN = "written by Muster"
    #: Honoured in namespaces with the label ``muster.dev/kueue-names``. ``muster check`` reports it in others.
    TRANSLATED = "read where Kueue's names count"
    #: No effect. ``muster check`` says so.
    WITHOUT_EFFECT = "without effect"


#: Places of objects' metadata. ``pod template``: of whatever object.
JOB, VOLCANO_JOB, POD_GROUP, POD = "Job", "Volcano Job", "PodGroup", "Pod"
TEMPLATE, NAMESPACE, QUEUE, NODE = "pod template", "Namespace", "Queue", "Node"
#: A Device object, and each device in its ``spec.devices``.
DEVICE_OBJECT, DEVICE = "Device", "device of a Device"
RESERVATION = "Reservation"
PROVISIONING_REQUEST, POD_TEMPLATE = "ProvisioningRequest", "PodTemplate"
#: Deployments and their like; jobs of JobSet, Kubeflow, Ray and Spark.
POD_OWNER, OPERATOR_JOB = "owner of pods", "operator's job"
LABEL, ANNOTATION = "labels", "annotations"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """One label or annotation, or (a key that ends in ``*``) all that begin so."""

    key: str
    use: KeyUse
    #: What it means, or (without effect) what its writer wants.
    meaning: str
    #: Places where it is honoured or written, with the fields of the metadata there. Empty: wherever it is.
    places: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: What to write instead where it has no effect; "": nothing does the same.
    instead: str = ""


def places(*names: str, of: tuple[str, ...] = (ANNOTATION,)) -> dict[str, tuple[str, ...]]:
    """These places with the same fields."""
    return dict.fromkeys(names, of)
