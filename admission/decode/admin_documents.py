"""Documents of administrators → facts: Queues, ResourceFlavors, Topologies, HyperNodes, disruption budgets, Commands …

Pure; what cannot be used says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from admission.decode.fields import defect, explained, one, requirements_of, seconds
from admission.facts.cluster import (
    BudgetFact,
    FlavorFact,
    HyperNodeFact,
    HyperNodeMember,
    NamespaceFact,
    PriorityClassFact,
    QueueFact,
    TopologyFact,
)
from admission.wire import (
    Bare,
    WireCommand,
    WireMetadata,
    WireNamespace,
    WireOwnerReference,
    WirePodDisruptionBudget,
    WirePriorityClass,
)
from queues.api import names
from queues.api.api_resources import QUEUES, VOLCANO_JOBS
from queues.api.bounds import Excess, within_bounds
from queues.api.quota.loans import loans_of
from queues.api.reading.user_values import (
    LONGEST_MESSAGE,
    UserValues,
    counted_selector,
    is_dns_name,
    number,
    shortened,
)
from queues.api.resource_names import is_extended
from queues.api.types.flavor import ResourceFlavor
from queues.api.types.hypernode import HyperNode
from queues.api.types.hypernode import HyperNodeMemberSpec as MemberSpec
from queues.api.types.pod import WireLabelSelector
from queues.api.types.queue import QueueDocument
from queues.api.types.topology import Topology
from queues.api.validation.defaults import namespace_queue
from queues.api.validation.hypernode_rules import member_violations
from queues.api.validation.queue_rules import queue_violations
from queues.command import Command
from queues.errors import InvalidDocument, InvalidQuantity
from queues.ledger_record import LedgerRecord
from queues.quota.queue import ROOT, Queue
from queues.resources import amount
from queues.workload import QueueName, Requirement

#: Parts beyond their bounds that a condition names.
_MOST_SHOWN: Final = 3


def unread(beyond: Sequence[Excess]) -> str:
    """The parts of a document beyond their bounds, in words; "": there are none."""
    return shortened("; ".join(map(str, beyond[:_MOST_SHOWN])), LONGEST_MESSAGE)


def queue_fact(raw: bytes) -> QueueFact:
    """A Queue. One that cannot be read is ``broken`` under its own name, with the reason."""
    bare = msgspec.json.decode(raw, type=Bare)
    meta = bare.metadata
    document, beyond = within_bounds(msgspec.json.decode(raw), QueueDocument)
    ledger: LedgerRecord | None = None
    shown, without_effect = "", tuple[str, ...]()
    try:
        read = QueueDocument.read(document)
        queue, shown = read.to_domain(), read.status.state or ""
        without_effect = tuple(each.message for each in queue_violations(read) if each.may_stay)
        ledger = read.status.recorded() if meta.name == ROOT else None
        if ledger is not None:  # no news for a turn, however often it changes
            ledger = replace(ledger, nonce="")
    except InvalidDocument as error:
        queue = _broken(meta, str(error))
    annotations = meta.annotations or {}
    reason = shortened(annotations.get(names.CHANGE_REASON, "").strip(), LONGEST_MESSAGE)
    return QueueFact(
        queue=queue,
        uid=meta.uid,
        changed_by=shortened(annotations.get(names.CHANGED_BY, "")),
        document={"spec": document.get("spec") or {}, **({"reason": reason} if reason else {})},
        without_effect=without_effect,
        loans=() if queue.broken else loans_of(document.get("spec") or {}),
        shown=str(shown),
        unread=unread(beyond),
        ledger=ledger,
    )


def broken_queue_fact(bare: Bare, error: Exception) -> QueueFact:
    """A Queue if only its metadata can be read: it takes nothing, with the reason."""
    why = explained(error) if isinstance(error, msgspec.DecodeError) else defect(error)
    return QueueFact(queue=_broken(bare.metadata, why), uid=bare.metadata.uid)


def _broken(meta: WireMetadata, why: str) -> Queue:
    name = QueueName(meta.name)
    return Queue(
        name=name,
        parent=None if name == ROOT else ROOT,
        broken=shortened(why, LONGEST_MESSAGE),
        generation=meta.generation,
    )


def flavor_fact(raw: bytes) -> FlavorFact:
    """A ResourceFlavor. Raises InvalidDocument."""
    document, beyond = within_bounds(msgspec.json.decode(raw), ResourceFlavor)
    flavor = ResourceFlavor.read(document)
    return FlavorFact(
        name=flavor.metadata.name,
        node_labels=flavor.spec.node_labels,
        device_classes={
            name: resource
            for name, resource in flavor.spec.device_classes.items()
            if is_dns_name(name) and is_extended(resource)
        },
        may_grow=_may_grow(flavor),
        uid=flavor.metadata.uid,
        unread=unread(beyond),
    )


def _may_grow(flavor: ResourceFlavor) -> Mapping[str, int] | None:
    """Amounts of the largest node that can be added to a flavor. None if it states none that can be read."""
    try:
        return {name: amount(name, text) for name, text in flavor.spec.may_grow.items()} or None
    except InvalidQuantity:
        return None


def topology_fact(raw: bytes) -> TopologyFact:
    """A Topology. Raises InvalidDocument."""
    document, beyond = within_bounds(msgspec.json.decode(raw), Topology)
    topology = Topology.read(document)
    meta = topology.metadata
    return TopologyFact(name=meta.name, levels=topology.level_keys(), uid=meta.uid, unread=unread(beyond))


def hypernode_fact(raw: bytes) -> HyperNodeFact:
    """A HyperNode. A member with errors stands for no node, and its errors are ``problems``. Raises InvalidDocument."""
    document, beyond = within_bounds(msgspec.json.decode(raw), HyperNode)
    hypernode = HyperNode.read(document)
    members: list[HyperNodeMember] = []
    problems = [str(excess) for excess in beyond]
    for index, member in enumerate(hypernode.spec.members):
        wrong = [violation.message for violation in member_violations(hypernode, index)]
        try:
            members += [_member(member)] if not wrong else []
        except msgspec.DecodeError as error:
            wrong = [f"spec.members[{index}].selector.labelMatch: {error}"]
        problems += wrong
    return HyperNodeFact(
        name=hypernode.metadata.name,
        tier=hypernode.spec.tier,
        tier_name=hypernode.spec.tier_name,
        members=tuple(members),
        uid=hypernode.metadata.uid,
        problems=tuple(problems),
    )


def _member(member: MemberSpec) -> HyperNodeMember:
    selector = member.selector
    labels: tuple[Requirement, ...] | None = None
    if selector.label_match is not None:
        labels = requirements_of(msgspec.convert(selector.label_match, WireLabelSelector))
    return HyperNodeMember(
        hypernode=member.type == "HyperNode",
        exact=selector.exact_match.name if selector.exact_match is not None else None,
        regex=selector.regex_match.pattern if selector.regex_match is not None else None,
        labels=labels,
    )


def budget_fact(budget: WirePodDisruptionBudget) -> BudgetFact:
    """A PodDisruptionBudget. One without a selector is about no pods.

    A selector that is too large to be compared counts as one that selects every pod: more is protected, not less.
    """
    meta, selector = budget.metadata, budget.spec.selector
    requirements = None if selector is None else requirements_of(selector)
    return BudgetFact(
        namespace=meta.namespace,
        name=meta.name,
        allowed=max(0, budget.status.disruptions_allowed),
        selector=requirements if requirements is None or counted_selector(requirements) else (),
    )


def command_of(command: WireCommand) -> Command:
    """The Command, with the kind of its target if it is one that Commands are about, in any version."""
    meta, target = command.metadata, command.target or WireOwnerReference()
    kind = one((target.api_version.partition("/")[0], target.kind))
    return Command(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        action=shortened(command.action or ""),
        target_kind=target.kind if kind in _COMMANDED else "",
        target_name=target.name,
        target_uid=target.uid,
        created=seconds(meta.creation_timestamp),
        version=number(meta.resource_version) or 0,
        message=shortened(command.message or command.reason or "", LONGEST_MESSAGE),
    )


#: Groups and kinds of what Commands are about.
_COMMANDED = {(resource.group, resource.kind) for resource in (VOLCANO_JOBS, QUEUES)}


def priority_class_fact(found: WirePriorityClass) -> PriorityClassFact:
    """A PriorityClass."""
    return PriorityClassFact(
        value=found.value,
        is_default=found.global_default,
        preempts=found.preemption_policy != "Never",
    )


def namespace_fact(namespace: WireNamespace) -> NamespaceFact:
    """A Namespace. Migration mode without a readable end is none."""
    meta = namespace.metadata
    annotations = meta.annotations or {}
    return NamespaceFact(
        name=meta.name,
        labels=meta.labels or {},
        queue=UserValues().queue(names.QUEUE_LABEL, namespace_queue(annotations)),
        adopt_until=seconds(annotations.get(names.ADOPT_UNTIL))
        if annotations.get(names.ADOPT) == "true"
        else 0,
    )
