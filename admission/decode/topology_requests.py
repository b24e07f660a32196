"""What templates, Volcano Jobs and PodGroups say about where pods go together → facts and pod sets. Pure.

Volcano speaks of tiers: the lower, the closer. They are HyperNodes' where there are any; else tier 1 is the
innermost level above the host of the first Topology, tier 0 the host.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec

from admission.decode.fields import requirements_of
from admission.engine.nodes.levels import HOST, tier_key
from admission.facts.pods import PodShape
from admission.facts.volcano_jobs import NetworkTopologySpec
from admission.facts.workloads import SubGroup, WorkloadFact
from admission.wire import Int32, WireStruct
from queues.api import names
from queues.api.flavor_tolerations import own_filter
from queues.api.node_affinity import without_pin
from queues.api.reading.device_shares import share_of
from queues.api.reading.pod_places import (
    NVLINK,
    asks_one_island,
    host_ports_of,
    node_filter_of,
    partitions_of,
    preferences_of,
    topology_of,
)
from queues.api.reading.pod_requests import requests_of
from queues.api.reading.user_values import (
    MOST_KEYS,
    MOST_PODS,
    MOST_RESOURCES,
    MOST_SUBGROUPS,
    UserValues,
    counted_filter,
    counted_places,
    counted_ports,
    counted_selector,
    resource_problem,
)
from queues.api.types.pod import WireAffinity, WireLabelSelector
from queues.errors import InvalidDocument, InvalidQuantity
from queues.resources import PODS, Resources
from queues.workload import EVERYWHERE, PodSet, Preference, Requirement

T = TypeVar("T")

Tier = tuple[str, int | str]

_ONE_POD: Final = Resources({PODS: 1})


@dataclass(frozen=True, slots=True)
class Tiers:
    """What tiers there are."""

    #: Levels of the first Topology, outermost first, the host last.
    levels: tuple[str, ...] = ()
    #: Tiers of the HyperNodes, ascending.
    hypernodes: tuple[int, ...] = ()
    by_name: tuple[tuple[str, int], ...] = ()

    def level(self, tier: int | str) -> str | None:
        """Key of the level with the widest domains that this tier allows; None if it allows everything.

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
        """(required, level) of a networkTopology; None if it says nothing."""
        if topology is None:
            return None
        mode, tier = topology
        level = self.level(tier)
        return None if level is None else (mode != "soft", level)


NO_TIERS: Final = Tiers()


def pod_shape_of(
    spec: Any,
    annotations: Mapping[str, str] | None,
    values: UserValues,
    where: str = "",
    *,
    affinity: WireAffinity | None,
    pinned: bool,
    status: Any = None,
) -> PodShape:
    """What a template or pod says. Parts that cannot be used are left out and noted in ``values``.

    ``where``: what paths begin with, "" for a pod. ``affinity``: of the spec (``affinity_of``). ``pinned``: Muster has
    added nodes to the affinity, and perhaps tolerations, which are not what its owner asks for. ``status``: of a pod,
    where it may have been resized.
    """
    said = annotations or {}
    nodes, prefers = EVERYWHERE, tuple[Preference, ...]()
    if counted_places(spec, values, f"{where}spec"):
        found, wished = node_filter_of(spec, affinity), preferences_of(affinity)
        found = own_filter(without_pin(found), said) if pinned else found
        if counted_filter(found, wished, values, f"{where}spec"):
            nodes, prefers = found, wished
    required, preferred = topology_of(said)
    share = _readable(values, where, lambda: share_of(spec, said))
    linked = asks_one_island(said)
    if linked and share is not None and share.devices > 1:
        parts = f"{NVLINK} for parts of {share.devices} devices"
        values.refuse(f"{where}metadata.annotations[{names.REQUIRED_TOPOLOGY}]", parts, "whole devices")
    return PodShape(
        takes=_takes_of(spec, status, values, where),
        nodes=nodes,
        required_topology=values.label_key(names.REQUIRED_TOPOLOGY, required),
        preferred_topology=values.label_key(names.PREFERRED_TOPOLOGY, preferred),
        prefers=prefers,
        ports=counted_ports(host_ports_of(spec), values, f"{where}spec"),
        partitions=_readable(values, where, lambda: partitions_of(said)) or (),
        together=values.word(names.TOGETHER, said.get(names.TOGETHER)),
        balanced=said.get(names.BALANCED) == "true",
        share=share,
        in_one_island=linked,
    )


def _takes_of(spec: Any, status: Any, values: UserValues, where: str) -> Resources:
    """Requests of a pod; one place on a node where they cannot be read, and the first ones if they are too many."""
    takes = _readable(values, where, lambda: requests_of(spec, status)) or _ONE_POD
    if len(takes) <= MOST_RESOURCES:
        return takes
    containers = (*spec.containers, *(spec.init_containers or ()))
    amounts = [each.resources for each in (spec, *containers) if each.resources is not None]
    asked = [spec.overhead or {}, *(each.requests or {} for each in amounts)]
    if problem := resource_problem(max((takes, *asked), key=len)):
        values.refuse(f"{where}spec.containers[].resources", *problem)
    # Names without a prefix, such as cpu and memory, come first.
    kept = sorted(takes, key=lambda name: ("/" in name, name))[:MOST_RESOURCES]
    return Resources({name: takes[name] for name in kept})


def _readable(values: UserValues, where: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except InvalidDocument as error:
        values.note(f"{where}{error}")
    except InvalidQuantity as error:
        values.note(f"{where}spec: {error}")
    return None


def tier_of(topology: NetworkTopologySpec | None, values: UserValues) -> Tier | None:
    """A networkTopology as (mode, tier or its name); None if it names no tier."""
    if topology is None:
        return None
    tier: int | str | None = topology.highest_tier_allowed
    if topology.highest_tier_name:
        tier = values.word("networkTopology.highestTierName", topology.highest_tier_name)
    return None if tier is None else ("soft" if topology.mode == "soft" else "hard", tier)


def in_tiers(fact: WorkloadFact, tiers: Tiers) -> WorkloadFact:
    """The fact with the levels that its tiers mean in this cluster; the same object if it names none."""
    group = fact.group
    if group.network_tier is None and not group.partition_tiers and not group.subgroups:
        return fact
    whole = tiers.close(group.network_tier)
    pod_sets = tuple(_in_tiers(pods, fact, whole, tiers) for pods in fact.pod_sets)
    subgroups = tuple(replace(each, level=tiers.close(each.tier)) for each in group.subgroups)
    if (pod_sets, subgroups, whole) == (fact.pod_sets, group.subgroups, group.within):
        return fact
    return replace(fact, pod_sets=pod_sets, group=replace(group, subgroups=subgroups, within=whole))


def _in_tiers(pods: PodSet, fact: WorkloadFact, whole: tuple[bool, str] | None, tiers: Tiers) -> PodSet:
    part = tiers.close(fact.group.partition_tiers.get(pods.name))
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
    sub_group_size: Int32 | None = None
    min_sub_groups: Int32 | None = None
    label_selector: WireLabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    network_topology: NetworkTopologySpec | None = None


_SUB_GROUP: Final = msgspec.json.Decoder(_SubGroupPolicy)


def subgroups_of(policies: list[msgspec.Raw] | None, values: UserValues) -> tuple[SubGroup, ...]:
    """subGroupPolicy of a PodGroup; (): there is none, or it cannot be used. Raises msgspec.DecodeError."""
    if not policies or not values.at_most("spec.subGroupPolicy", len(policies), MOST_SUBGROUPS, "entries"):
        return ()
    return tuple(_subgroup(_SUB_GROUP.decode(policy), values) for policy in policies)


def _subgroup(policy: _SubGroupPolicy, values: UserValues) -> SubGroup:
    selector: tuple[Requirement, ...] = ()
    if policy.label_selector is not None:
        selector = requirements_of(policy.label_selector)
    if not counted_selector(selector):
        values.refuse("spec.subGroupPolicy[].labelSelector", "too many expressions or values", "fewer")
        selector = ()
    keys = policy.match_label_keys or ()
    if not values.at_most("spec.subGroupPolicy[].matchLabelKeys", len(keys), MOST_KEYS, "keys"):
        keys = ()
    return SubGroup(
        name=values.word("spec.subGroupPolicy[].name", policy.name) or "",
        # Larger ones cannot start, and say so by the pods that are missing.
        size=min(max(1, policy.sub_group_size or 1), MOST_PODS),
        minimum=min(max(0, policy.min_sub_groups or 0), MOST_PODS),
        selector=selector,
        keys=keys,
        tier=tier_of(policy.network_topology, values),
    )
