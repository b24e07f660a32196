"""What templates, Volcano Jobs and PodGroups say about where pods go together → facts and pod sets. Pure.

Volcano speaks of tiers: the lower, the closer. They are HyperNodes' where there are any; else tier 1 is the
innermost level above the host of the first Topology, tier 0 the host.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from admission.decode.fields import requirements_of
from admission.engine.nodes.levels import HOST, tier_key
from admission.facts import PodShape, SubGroup, WorkloadFact
from admission.wire import WireLabelSelector, WireNetworkTopology, WireStruct
from queues.api import names
from queues.api.reading.device_shares import share_of
from queues.api.reading.pod_places import (
    host_ports_of,
    node_filter_of,
    partitions_of,
    preferences_of,
    topology_of,
)
from queues.api.reading.pod_requests import requests_of
from queues.errors import InvalidDocument, InvalidQuantity
from queues.resources import PODS, Resources
from queues.workload import PodSet

Tier = tuple[str, int | str]

_ONE_POD: Final = Resources({PODS: 1})

#: Annotations that may say something that cannot be read.
_READ: Final = (names.PARTITIONS, names.GPU_FRACTION, names.GPU_MEMORY, names.GPU_FRACTION_DEVICES)


@dataclass(frozen=True, slots=True)
class Tiers:
    """What tiers there are."""

    #: Levels of the first Topology, outermost first, the host last.
    levels: tuple[str, ...] = ()
    #: Tiers of the HyperNodes, ascending.
    hypernodes: tuple[int, ...] = ()
    by_name: tuple[tuple[str, int], ...] = ()

    def level(self, tier: int | str) -> str | None:
        """Key of the level with the widest domains that this tier allows; None: it allows everything.

        A tier name that no HyperNode has is a level that no node has.
        """
        if isinstance(tier, str):
            number = dict(self.by_name).get(tier)
            if number is None:
                return f"tier {tier}"
        else:
            number = tier
        if self.hypernodes:
            allowed = [each for each in self.hypernodes if each <= number]
            return tier_key(allowed[-1]) if allowed else HOST
        return self.levels[-1 - number] if 0 <= number < len(self.levels) else None

    def close(self, topology: Tier | None) -> tuple[bool, str] | None:
        """(required, level) of a networkTopology; None: it says nothing."""
        if topology is None:
            return None
        mode, tier = topology
        level = self.level(tier)
        return None if level is None else (mode != "soft", level)


def pod_shape_of(spec: Any, annotations: Mapping[str, str] | None) -> PodShape:
    """What a template or pod says. Raises InvalidDocument, InvalidQuantity."""
    return _shape_of(requests_of(spec), spec, annotations or {})


def readable_pod_shape(spec: Any, annotations: Mapping[str, str]) -> PodShape:
    """What a pod says that the API server has accepted; parts that cannot be read are left out."""
    try:
        takes = requests_of(spec)
    except InvalidQuantity:
        takes = _ONE_POD
    try:
        return _shape_of(takes, spec, annotations)
    except InvalidDocument:
        return _shape_of(takes, spec, {key: said for key, said in annotations.items() if key not in _READ})


def _shape_of(takes: Resources, spec: Any, said: Mapping[str, str]) -> PodShape:
    required, preferred = topology_of(said)
    return PodShape(
        takes=takes,
        nodes=node_filter_of(spec),
        required_topology=required,
        preferred_topology=preferred,
        prefers=preferences_of(spec.affinity),
        ports=host_ports_of(spec),
        partitions=partitions_of(said),
        together=said.get(names.TOGETHER) or None,
        balanced=said.get(names.BALANCED) == "true",
        share=share_of(spec, said),
    )


def tier_of(topology: WireNetworkTopology | None) -> Tier | None:
    """A networkTopology as (mode, tier or its name); None: it names no tier."""
    if topology is None:
        return None
    tier = topology.highest_tier_name or topology.highest_tier_allowed
    return None if tier is None else (topology.mode or "hard", tier)


def in_tiers(fact: WorkloadFact, tiers: Tiers) -> WorkloadFact:
    """The fact with the levels that its tiers mean in this cluster; the same object if it names none."""
    if fact.network_tier is None and not fact.partition_tiers and not fact.subgroups:
        return fact
    whole = tiers.close(fact.network_tier)
    pod_sets = tuple(_in_tiers(pods, fact, whole, tiers) for pods in fact.pod_sets)
    subgroups = tuple(replace(each, level=tiers.close(each.tier)) for each in fact.subgroups)
    if (pod_sets, subgroups, whole) == (fact.pod_sets, fact.subgroups, fact.within):
        return fact
    return replace(fact, pod_sets=pod_sets, subgroups=subgroups, within=whole)


def _in_tiers(pods: PodSet, fact: WorkloadFact, whole: tuple[bool, str] | None, tiers: Tiers) -> PodSet:
    part = tiers.close(fact.partition_tiers.get(pods.name))
    if part is not None and pods.partitions:
        pods = replace(
            pods,
            partitions=(replace(pods.partitions[0], level=part[1], required=part[0]), *pods.partitions[1:]),
        )
    if whole is None:
        return pods
    required, level = whole
    if len(fact.pod_sets) > 1:
        return replace(pods, within=level, within_required=required)
    if required:
        return replace(pods, required_topology=pods.required_topology or level)
    return replace(pods, preferred_topology=pods.preferred_topology or level)


class _SubGroupPolicy(WireStruct):
    name: str = ""
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: WireLabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    network_topology: WireNetworkTopology | None = None


_SUB_GROUP: Final = msgspec.json.Decoder(_SubGroupPolicy)


def subgroups_of(policies: list[msgspec.Raw] | None) -> tuple[SubGroup, ...]:
    """subGroupPolicy of a PodGroup. Raises msgspec.DecodeError."""
    return tuple(_subgroup(_SUB_GROUP.decode(policy)) for policy in policies or ())


def _subgroup(policy: _SubGroupPolicy) -> SubGroup:
    return SubGroup(
        name=policy.name,
        size=max(1, policy.sub_group_size or 1),
        minimum=max(0, policy.min_sub_groups or 0),
        selector=() if policy.label_selector is None else requirements_of(policy.label_selector),
        keys=policy.match_label_keys or (),
        tier=tier_of(policy.network_topology),
    )
