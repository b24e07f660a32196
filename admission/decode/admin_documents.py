"""Documents of administrators → facts: Queues, ResourceFlavors, Topologies, Reservations, quotas, Commands …

Pure; what cannot be used says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

import msgspec

from admission.decode.fields import defect, explained, one, requirements_of, seconds
from admission.facts.cluster import (
    BudgetFact,
    ClosureFact,
    FlavorFact,
    HyperNodeFact,
    HyperNodeMember,
    NamespaceFact,
    PriorityClassFact,
    QueueFact,
    TopologyFact,
)
from admission.facts.pods import PodDefaultsFact
from admission.wire import (
    Bare,
    WireCommand,
    WireMetadata,
    WireOwnerReference,
    WirePodDisruptionBudget,
    WirePriorityClass,
    WireResourceQuota,
)
from queues.api import names
from queues.api.api_resources import QUEUES, VOLCANO_JOBS
from queues.api.bounds import Excess, within_bounds
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
from queues.api.types.node_closures import NodeDrain, Reservation
from queues.api.types.pod import WireLabelSelector
from queues.api.types.queue import QueueDocument
from queues.api.types.topology import Topology
from queues.api.validation.defaults import namespace_queue
from queues.api.validation.hypernode_rules import member_violations
from queues.api.validation.queue_rules import queue_violations
from queues.command import Command
from queues.errors import InvalidDocument, InvalidQuantity
from queues.ledger_record import LedgerRecord
from queues.node_closures import ClosureKind
from queues.quota.namespace_quota import NamespaceQuota, QuotaLimit
from queues.quota.queue import ROOT, Queue
from queues.reason_codes import ReasonCode
from queues.resources import PODS, amount
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
        queue = read.to_domain()
        is_away = any(each.get("reason") == ReasonCode.DATABASE_AWAY for each in read.status.conditions)
        shown = ReasonCode.DATABASE_AWAY if is_away else read.status.state or ""
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
        tolerations=tuple(each.to_domain() for each in flavor.spec.tolerations),
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


def namespace_fact(namespace: Bare) -> NamespaceFact:
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


def closure_fact(raw: bytes, kind: ClosureKind) -> ClosureFact:
    """A Reservation or NodeDrain."""
    meta = msgspec.json.decode(raw, type=Bare).metadata
    model = Reservation if kind is ClosureKind.RESERVATION else NodeDrain
    try:
        document, beyond = within_bounds(msgspec.json.decode(raw), model)
        read = model.read(document)
        closure = read.to_closure()
    except (InvalidDocument, InvalidQuantity) as error:
        why = shortened(str(error), LONGEST_MESSAGE)
        return ClosureFact(kind=kind, name=meta.name, uid=meta.uid, problem=why)
    return ClosureFact(
        kind=kind,
        name=meta.name,
        uid=meta.uid,
        closure=closure,
        shown=read.status.phase,
        unread=unread(beyond),
        created=seconds(meta.creation_timestamp),
    )


def namespace_quota(quota: WireResourceQuota) -> NamespaceQuota | None:
    """A ResourceQuota; None if it counts no pods, or only those of a scope, which are not distinguished here."""
    if quota.spec.scopes or quota.spec.scope_selector:
        return None
    used, limits = quota.status.used or {}, []
    for name, hard in (quota.status.hard or {}).items():
        resource = _limited_by(name)
        if resource is None:
            continue
        try:
            units = amount(resource, hard), amount(resource, used.get(name, 0))
        except InvalidQuantity:
            continue
        limits.append(QuotaLimit(name, resource, *units))
    meta = quota.metadata
    return NamespaceQuota(namespace=meta.namespace, name=meta.name, limits=tuple(limits)) if limits else None


def _limited_by(name: str) -> str | None:
    """The resource of pods that a line of a ResourceQuota limits; None if it limits something else."""
    if name in ("pods", "count/pods"):
        return PODS
    if name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return name
    resource = name.removeprefix("requests.")
    return None if resource in (name, "storage") else resource


#: What of LimitRanges, RuntimeClasses and configurations of webhooks says nothing of pods, or changes without them.
_BESIDE: Final = ("metadata", "status")


class _Rule(msgspec.Struct):
    resources: list[str] = []


class _Webhook(msgspec.Struct):
    rules: list[_Rule] = []


class _Webhooks(msgspec.Struct):
    webhooks: list[_Webhook] | None = None


def pod_defaults_fact(bare: Bare, raw: bytes) -> PodDefaultsFact | None:
    """What decides what pod templates become: a LimitRange, a RuntimeClass, a configuration of webhooks.

    Nothing of it is worked out here: the API server is asked what it makes of a template. The fact says when to ask
    again. None for webhooks that are not about pods. Raises msgspec.DecodeError.
    """
    webhooks = msgspec.json.decode(raw, type=_Webhooks).webhooks
    if webhooks is not None and not any(_is_about_pods(each) for each in webhooks):
        return None
    content = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    said = {name: value for name, value in content.items() if name not in _BESIDE}
    digest = blake2b(msgspec.json.encode(said), digest_size=8).hexdigest()
    return PodDefaultsFact(namespace=bare.metadata.namespace, digest=digest)


def _is_about_pods(webhook: _Webhook) -> bool:
    return any(resource in ("pods", "*", "*/*") for rule in webhook.rules for resource in rule.resources)
