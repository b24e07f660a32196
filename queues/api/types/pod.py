"""Pods and pod templates: the fields that admission needs, read alike by validation and the controller.

Attribute names are the snake_case forms of the API's: ``queues.api.reading`` derives requests and node filters from
them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from queues.json_values import mapping_at, without_nulls

Quantity = str | int | float

#: Numbers as the API server has them. In documents without a schema they may have any length.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class WireStruct(msgspec.Struct, rename="camel", gc=False):
    """Base of all wire structs. No struct refers to its container, so the garbage collector need not track them."""


class WireOwnerReference(WireStruct):
    """The owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class WireMetadata(WireStruct):
    """ObjectMeta, the part that Muster reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[WireOwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None


class WireSelectorRequirement(WireStruct):
    """One expression of a label selector, or over labels or fields of a node."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class WireAmounts(WireStruct):
    """Requests and limits."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class WireContainerPort(WireStruct):
    """A port of a container, perhaps of the node."""

    container_port: Int32 = 0
    host_port: Int32 | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class WireContainer(WireStruct):
    """A container."""

    name: str = ""
    image: str | None = None
    resources: WireAmounts | None = None
    restart_policy: str | None = None
    ports: tuple[WireContainerPort, ...] | None = None


class WireNodeSelectorTerm(WireStruct):
    """Expressions that must all hold."""

    match_expressions: tuple[WireSelectorRequirement, ...] | None = None
    match_fields: tuple[WireSelectorRequirement, ...] | None = None


class WireNodeSelector(WireStruct):
    """Terms: one of them must hold."""

    node_selector_terms: tuple[WireNodeSelectorTerm, ...] | None = None


class WirePreferredTerm(WireStruct):
    """A term that nodes should meet."""

    weight: Int32 = 0
    preference: WireNodeSelectorTerm = msgspec.field(default_factory=WireNodeSelectorTerm)


class WireNodeAffinity(WireStruct):
    """Node affinity."""

    required_during_scheduling_ignored_during_execution: WireNodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[WirePreferredTerm, ...] | None = None


class WireLabelSelector(WireStruct):
    """A label selector of Kubernetes."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[WireSelectorRequirement, ...] | None = None


class WirePodAffinityTerm(WireStruct):
    """A term about other pods: which these are, and in which namespaces."""

    label_selector: WireLabelSelector | None = None
    topology_key: str = ""
    namespaces: tuple[str, ...] | None = None
    namespace_selector: dict[str, msgspec.Raw] | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WireWeightedTerm(WireStruct):
    """A term about other pods that should be met."""

    weight: Int32 = 0
    pod_affinity_term: WirePodAffinityTerm = msgspec.field(default_factory=WirePodAffinityTerm)


class WirePodAffinity(WireStruct):
    """Pods that a pod has to be near to or kept away from, and those that it should."""

    required_during_scheduling_ignored_during_execution: tuple[WirePodAffinityTerm, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[WireWeightedTerm, ...] | None = None


class WireAffinity(WireStruct):
    """Affinity: to nodes, and to and against other pods."""

    node_affinity: WireNodeAffinity | None = None
    pod_affinity: WirePodAffinity | None = None
    pod_anti_affinity: WirePodAffinity | None = None


class WireSpreadConstraint(WireStruct):
    """A topologySpreadConstraint."""

    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: WireLabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class WireToleration(WireStruct):
    """A toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class WirePodResourceClaim(WireStruct):
    """Devices that a pod claims; in its status: the claim that was made for it."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class WireClaimOfPod(WireStruct):
    """The PersistentVolumeClaim of a volume."""

    claim_name: str = ""


class WirePodVolume(WireStruct):
    """An entry of a pod's volumes, as far as it says something about nodes."""

    name: str = ""
    persistent_volume_claim: WireClaimOfPod | None = None
    #: Has the template of a claim that is made for one pod.
    ephemeral: dict[str, Any] | None = None


class WireSchedulingGate(WireStruct):
    """A scheduling gate."""

    name: str


class WirePodSpec(WireStruct):
    """A pod's spec."""

    containers: tuple[WireContainer, ...] = ()
    init_containers: tuple[WireContainer, ...] | None = None
    resources: WireAmounts | None = None
    overhead: dict[str, Quantity] | None = None
    node_name: str | None = None
    host_network: bool | None = None
    subdomain: str | None = None
    node_selector: dict[str, str] | None = None
    #: Decoded where it is needed: it may be most of a document (``admission.decode.affinity``).
    affinity: msgspec.Raw = msgspec.Raw(b"null")
    #: The same (``admission.decode.pod_rules``).
    topology_spread_constraints: msgspec.Raw = msgspec.Raw(b"null")
    tolerations: tuple[WireToleration, ...] | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    active_deadline_seconds: Int64 | None = None
    scheduling_gates: tuple[WireSchedulingGate, ...] | None = None
    resource_claims: tuple[WirePodResourceClaim, ...] | None = None
    volumes: tuple[WirePodVolume, ...] | None = None


class WirePodTemplate(WireStruct):
    """A pod template: of a Job, of a task."""

    metadata: WireMetadata | None = None
    spec: WirePodSpec | None = None


# ── as users write them ─────────────────────────────────────────────────────────────────────────────────────────


class WrittenPodSpec(WirePodSpec):
    """A pod's spec, with fields that only validation needs."""

    restart_policy: str = ""
    scheduler_name: str = ""
    hostname: str = ""
    dns_policy: str = ""


class WrittenPod(NamedTuple):
    """A pod, or a template of pods."""

    annotations: Mapping[str, str]
    spec: WrittenPodSpec
    affinity: WireAffinity | None


class _Metadata(WireStruct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Document(WireStruct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: WrittenPodSpec = msgspec.field(default_factory=WrittenPodSpec)


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_AFFINITY: Final = msgspec.json.Decoder(WireAffinity | None)


def read_affinity(raw: msgspec.Raw) -> WireAffinity | None:
    """The ``affinity`` of a spec; None if there is none. Raises msgspec.DecodeError, RecursionError."""
    affinity: WireAffinity | None = _AFFINITY.decode(raw)
    return affinity


def read_pod(document: Mapping[str, Any]) -> WrittenPod:
    """A pod or a template of pods. What is null counts as absent. Raises msgspec.DecodeError."""
    parts = {part: mapping_at(document, part) for part in ("metadata", "spec")}
    read = _DOCUMENT.decode(msgspec.json.encode(without_nulls(parts)))
    return WrittenPod(read.metadata.annotations or {}, read.spec, read_affinity(read.spec.affinity))
