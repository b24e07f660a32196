"""Pod templates → pod sets: what the pods that are made from one will ask for. Pure; what cannot be used says why."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from admission.decode.affinity import affinity_of
from admission.decode.devices.resource_claims import claims_of
from admission.decode.fields import explained, one, other_gates
from admission.decode.ignored_values import ignored_in_template
from admission.decode.interruption import image_of
from admission.decode.pod_rules import PodOwner, template_labels, with_rules
from admission.decode.topology_requests import pod_shape_of
from admission.decode.volumes import volumes_of
from admission.facts.devices import PodResourceClaim
from admission.facts.pods import PodShape
from admission.facts.volumes import PodVolume
from admission.facts.workloads import NOTHING_BY_NAME
from admission.wire import WireMetadata
from queues.api import names
from queues.api.flavor_tolerations import TOLERATIONS_AT, added_positions
from queues.api.json_patch import escaped
from queues.api.node_affinity import unpinned
from queues.api.reading.user_values import (
    MOST_CONTAINERS,
    UserValues,
    number,
    resource_problem,
)
from queues.api.resource_names import problem_of_request
from queues.api.types.pod import WirePodSpec, WirePodTemplate
from queues.api.validation.pod_rules import beyond_nodes
from queues.api.validation.queued_work import NO_NODE_NAME, NO_SYSTEM_CLASS
from queues.json_values import mapping_at, value_at
from queues.reason_codes import ReasonCode
from queues.resources import PODS, Resources, in_bytes, scale, show
from queues.text_format import excerpt, listed
from queues.workload import AdmissionId, Obstacle, PodSet

_TEMPLATE: Final = msgspec.json.Decoder(WirePodTemplate)
#: Bytes of templates that are kept, by which what was read of them is found; of larger ones a digest is kept.
_SMALL: Final = 8192
#: So many larger templates are kept with what was read of them.
_LARGE_KEPT: Final = 256

R = TypeVar("R")


class ReadOnce(Generic[R]):
    """What was read of templates: each version of one is read once, though every event of its object has it."""

    def __init__(self, read: Callable[..., R]) -> None:
        """``read``: a function of a template and of whatever else it needs."""
        self._read = read
        self._small = lru_cache(maxsize=1024)(read)
        self._large: dict[tuple[Hashable, ...], R] = {}

    def __call__(self, template: bytes, *more: Hashable) -> R:
        """What ``read`` returns."""
        if len(template) <= _SMALL:
            return self._small(template, *more)
        key = (blake2b(template, digest_size=16).digest(), *more)
        if key not in self._large:
            if len(self._large) >= _LARGE_KEPT:
                del self._large[next(iter(self._large))]
            self._large[key] = self._read(template, *more)
        return self._large[key]


class TemplatePods(NamedTuple):
    """What a pod template says."""

    pods: PodSet
    priority_class: str = ""
    #: What is wrong with it; None for nothing.
    obstacle: Obstacle | None = None
    #: What the pods claim of devices, which ``pods`` does not have.
    claims: tuple[PodResourceClaim, ...] = ()
    #: Image of the first container (``image_of``); "": unknown.
    image: str = ""
    #: Values of annotations that cannot be read and do not matter to whether it is considered.
    ignored: tuple[str, ...] = ()
    #: Labels of the pods, without those that are made for one Job and those in which they differ.
    labels: tuple[tuple[str, str], ...] = ()
    #: Volumes of each pod that say something about nodes.
    volumes: tuple[PodVolume, ...] = ()
    #: The pods find one another by names of their own in a Service (``subdomain``).
    has_service: bool = False


def by_pod_set(templates: Sequence[TemplatePods]) -> dict[str, Any]:
    """What the templates of a workload say by pod set, as fields of its fact."""
    return {
        "pod_labels": {each.pods.name: each.labels for each in templates if each.labels} or NOTHING_BY_NAME,
        "claims": {each.pods.name: each.claims for each in templates if each.claims} or NOTHING_BY_NAME,
        "volumes": {each.pods.name: each.volumes for each in templates if each.volumes} or NOTHING_BY_NAME,
    }


class _Annotated(msgspec.Struct, gc=False):
    """A template's part that is read anew at every version: the rest is cached by its bytes."""

    metadata: WireMetadata | None = None


def pod_set_of(name: str, count: int, template: bytes, where: str, namespace: str) -> TemplatePods:
    """So many pods of a template in a namespace.

    Nodes that Muster has written into the template are left out: they are not what its owner asks for.
    """
    return _counted_set(template, name, where, namespace, count)


@ReadOnce
def _counted_set(raw: bytes, name: str, where: str, namespace: str, count: int) -> TemplatePods:
    found = _template_set(raw, name, where, namespace)
    return found if found.pods.count == count else found._replace(pods=replace(found.pods, count=count))


@ReadOnce
def _template_set(raw: bytes, name: str, where: str, namespace: str) -> TemplatePods:
    empty = PodShape(takes=Resources()).pod_set(name)
    values = UserValues()
    try:
        template = _TEMPLATE.decode(raw)
    except msgspec.DecodeError as error:
        values.note(f"{where}.{explained(error)}")
        return TemplatePods(empty, obstacle=values.obstacle)
    spec = template.spec
    if spec is None or not spec.containers:
        values.refuse(f"{where}.spec.containers", "none", "at least one")
        return TemplatePods(empty, obstacle=values.obstacle)
    containers = len(spec.containers) + len(spec.init_containers or ())
    if not values.at_most(f"{where}.spec.containers", containers, MOST_CONTAINERS, "containers"):
        return TemplatePods(empty, obstacle=values.obstacle)
    if NO_NODE_NAME.is_broken_by(spec.node_name):
        values.refuse(f"{where}.spec.nodeName", excerpt(spec.node_name), NO_NODE_NAME.expected)
    annotations = template.metadata.annotations if template.metadata else None
    pinned = directed_by(raw) is not None
    affinity = affinity_of(spec.affinity, values, f"{where}.spec", namespace=namespace, pinned=pinned)
    labels = template.metadata.labels if template.metadata else None
    shape = pod_shape_of(spec, annotations, values, f"{where}.", affinity=affinity, pinned=pinned)
    owner = PodOwner(namespace, labels or {})
    shape = with_rules(shape, spec, affinity, values, f"{where}.", owner=owner)
    claims = claims_of(spec, None, values, f"{where}.")
    _note_impossible(shape.takes, values, where)
    priority_class = values.name(f"{where}.spec.priorityClassName", spec.priority_class_name)
    if NO_SYSTEM_CLASS.is_broken_by(priority_class):
        # Refused by a policy as well, which sees no Job that comes into a queue with its namespace.
        values.refuse(f"{where}.spec.priorityClassName", excerpt(priority_class), NO_SYSTEM_CLASS.expected)
    _note_other_gates(spec, values, where)
    return TemplatePods(
        one(shape).pod_set(name),
        priority_class or "",
        values.obstacle,
        claims,
        one(image_of(spec)),
        ignored_in_template(annotations, f"{where}."),
        template_labels(labels or {}, names.CONTROLLER_LABELS),
        volumes_of(spec),
        bool(spec.subdomain),
    )


def _note_impossible(takes: Resources, values: UserValues, where: str) -> None:
    if problem := resource_problem(takes):
        values.refuse(f"{where}.spec", *problem)
    for resource in takes:
        if resource != PODS and (problem := problem_of_request(resource)):
            values.refuse(f"{where}.spec", *problem)
    for resource, units in takes.items():
        found, expected = f"{show(resource, units)} {resource}", ""
        if beyond := beyond_nodes(resource, units):
            found, expected = beyond
        elif units < 0:
            expected = "0 or more"
        # Devices are given whole; only cpu is divisible beyond its unit.
        elif resource != "cpu" and not in_bytes(resource) and units % scale(resource):
            expected = "a whole number"
        if expected:
            values.refuse(f"{where}.spec", found, expected)


def _note_other_gates(spec: WirePodSpec, values: UserValues, where: str) -> None:
    """A gang would hold its seats for as long as gates of other controllers hold its pods back."""
    if gates := other_gates(spec.scheduling_gates):
        expected = (
            "none of other controllers: the gang would hold its seats while they hold its pods back. It is "
            "considered when the template has none; where it cannot be changed, create the object again"
        )
        message = f"{where}.spec.schedulingGates: found {listed(gates)}, expected {expected}"
        values.note(message, ReasonCode.OTHER_GATES)


def annotation_in(template: bytes, key: str) -> str | None:
    """What an annotation of a template says; None if it is not there, or the template cannot be read."""
    if key.encode() not in template:
        return None
    try:
        meta = msgspec.json.decode(template, type=_Annotated).metadata
    except (msgspec.DecodeError, RecursionError):
        return None
    return ((meta and meta.annotations) or {}).get(key)


def directed_by(template: bytes) -> AdmissionId | None:
    """The admission that wrote its nodes into a template; None if the template is as its owner wrote it."""
    written = number(annotation_in(template, names.ADMISSION_ID))
    return None if written is None else AdmissionId(written)


def affinity_as_written(template: bytes, affinity: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The affinity in a template without the nodes that an admission wrote; {}: its owner asked for nothing."""
    return affinity or {} if directed_by(template) is None else unpinned(affinity)


#: Parts of a template that Muster writes into.
_PARTS: Final = (
    ("metadata",),
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "affinity"),
    ("spec", "affinity", "nodeAffinity"),
)
#: Labels and annotations that Muster writes into templates.
_WRITTEN: Final = (*names.OWN_NAMES, *names.KEPT_FROM_AUTOSCALERS)


@ReadOnce
def existing_paths(template: bytes) -> frozenset[str]:
    """JSON pointers (RFC 6901), in the template, of what Muster writes into it and of what contains that, if it exists.

    A JSON patch adds and removes only where it knows what there is.
    """
    try:
        document = msgspec.json.decode(template)
    except (msgspec.DecodeError, RecursionError):
        return frozenset()
    found = {f"/{'/'.join(part)}" for part in _PARTS if isinstance(value_at(document, *part), Mapping)}
    for field in ("labels", "annotations"):
        written = mapping_at(document, "metadata", field)
        found |= {f"/metadata/{field}/{escaped(key)}" for key in _WRITTEN if key in written}
    tolerations = value_at(document, "spec", "tolerations")
    if isinstance(tolerations, list):
        added = added_positions(tolerations, mapping_at(document, "metadata", "annotations"))
        found |= {TOLERATIONS_AT, *(f"{TOLERATIONS_AT}/{place}" for place in added)}
    if isinstance(value_at(document, "spec", "schedulingGates"), list):
        found.add("/spec/schedulingGates")
    node_affinity = mapping_at(document, "spec", "affinity", "nodeAffinity")
    return one(frozenset(found | {f"/spec/affinity/nodeAffinity/{key}" for key in node_affinity}))
