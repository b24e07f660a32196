"""Volcano's Queue, scheduling.volcano.sh/v1beta1, with Muster's extension: flavors, policy, access."""

from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import Field, StrictInt

from queues.api.metadata import LabelSelector, ObjectMeta
from queues.api.model import Count, Duration, Flag, Int32, Model, OpenModel, Quantities, Text, Time
from queues.api.names import RETRY, SCHEDULING_VOLCANO
from queues.api.quota.loans import MOST_LOANS, loans_of
from queues.api.reading.user_values import MOST_LIMITS, duration, is_label_key, resource_problem
from queues.api.types.volcano_job import Whole
from queues.api.validation.violations import selector_violations
from queues.errors import InvalidDocument, InvalidQuantity
from queues.ledger_record import LedgerRecord
from queues.quota.budgets import HOLD, HoursBudget
from queues.quota.queue import RECOVER, ROOT, Limits, NodeRecoveryRules, ProvisioningRules
from queues.quota.queue import Queue as DomainQueue
from queues.quota.queue import QueuePolicy as DomainPolicy
from queues.resources import Resources, amount
from queues.workload import FlavorName, QueueName, Requirement

#: Condition of a queue that takes nothing because one above it is closed: it opens again together with that.
CLOSED_BY_PARENT: Final = "ClosedByParent"


#: Flavors with limits of their own, and users and groups that administer a queue.
MOST_FLAVORS: Final = 64
MOST_ADMINS: Final = 256
#: Policies that a queue states parameters of.
MOST_PARAMETERS: Final = 16
MOST_CHECKS: Final = 16


class QueueState(StrEnum):
    """Whether a queue takes new workloads: only an open one does."""

    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class Guarantee(OpenModel):
    """Resources of a queue that are never lent to other queues."""

    #: Amounts by resource.
    resource: Quantities = Field(default_factory=dict)


class FlavorLimits(Model):
    """Guarantee, deserved share and capability of a queue in one flavor."""

    #: Name of the ResourceFlavor.
    name: Annotated[Text, Field(min_length=1, max_length=63)]
    #: Never lent.
    guarantee: Quantities = Field(default_factory=dict)
    #: Its own share.
    deserved: Quantities = Field(default_factory=dict)
    #: Never exceeded.
    capability: Quantities = Field(default_factory=dict)


#: An object of a namespace: ``namespace/name``.
NamespacedName = Annotated[Text, Field(pattern=r"^[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9.-]*$", max_length=317)]

NextOrStop = Literal["try-next", "stop"]


#: Name of a policy: Muster's own, or a plug-in.
PolicyName = Annotated[Text, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=63)]


class FlavorChoice(Model):
    """Which flavors a workload tries, and whether it tries the next one before it borrows, or preempts, in this one."""

    #: The policy that orders them: ``as-listed``, ``cheapest``, or a plug-in.
    by: PolicyName | None = None

    #: Before it borrows in the current flavor.
    before_borrowing: NextOrStop | None = None
    #: Before it preempts in the current flavor.
    before_preempting: NextOrStop | None = None


class BorrowWhilePreempting(Model):
    """Lets a queue preempt while it borrows, if the victim's priority is at most ``maxPriority``."""

    #: Highest priority of its victims.
    max_priority: Int32


class PreemptionPolicy(Model):
    """Which workloads the pending workloads of a queue may evict."""

    #: Workloads of the same queue.
    within_queue: Literal["never", "lower-priority", "lower-or-newer-equal"] | None = None
    #: Workloads of other queues that use more than their share.
    reclaim: Literal["never", "lower-priority", "any"] | None = None
    #: Also while the queue uses more than its own share.
    borrow_while_preempting: BorrowWhilePreempting | None = None
    #: The policy that says what it costs to evict work of this queue: ``lost-work``, or a plug-in.
    cost: PolicyName | None = None


class StarvationPolicy(Model):
    """How long a gang waits before nodes are cleared for it."""

    #: Waiting time after which nodes are cleared for a gang.
    clear_after: Duration | None = None


class NodeRecoveryPolicy(Model):
    """How nodes with unhealthy devices are recovered; counts on ``root``, where ``onFault`` is ``recover``."""

    #: CronJob (``namespace/name``) that repair Jobs are made from. Absent: the node waits until its GPUs are
    #: healthy again.
    job: NamespacedName | None = None
    #: CronJob that test Jobs are made from. Absent: what the agent reports is enough.
    verify_job: NamespacedName | None = None
    #: Most nodes that are out of service at a time; 0 allows none. Absent: a tenth of all nodes with devices, and one
    #: at least.
    max_nodes_out: Count | None = None


class HoldPolicy(Model):
    """Work that was never admitted is not admitted now. What was evicted or went back is."""

    #: Why, for those whose work waits.
    reason: Annotated[Text, Field(min_length=1, max_length=500)]


class HealthPolicy(Model):
    """What is done about unhealthy devices. They take no new work in any case."""

    #: ``evict``: gangs on them are evicted as a whole, and come first in their queue. ``recover``: that, and Muster
    #: recovers the node; on another queue than ``root`` the same as ``evict``. ``report``: faults are only reported.
    on_fault: Literal["report", "evict", "recover"] | None = None
    #: How nodes are recovered; counts on ``root`` only.
    recovery: NodeRecoveryPolicy | None = None


class ProvisioningPolicy(Model):
    """Cluster autoscalers are asked for nodes, for gangs that wait for nodes only. It is inherited as a whole."""

    #: Class of the ProvisioningRequests, such as ``check-capacity.autoscaling.x-k8s.io``. "": none are made.
    class_name: Annotated[Text, Field(max_length=253)]
    #: Parameters that the class gets, by name.
    parameters: Annotated[dict[str, Annotated[Text, Field(max_length=255)]], Field(max_length=100)] = Field(
        default_factory=dict
    )
    #: A request without an answer is given up after this time, and room that the gang cannot use too. Absent: 15
    #: minutes.
    timeout: Duration | None = None
    #: Requests of one queue that may be open at a time. Absent: 10.
    max_open: Count | None = None


class QueuePolicySpec(Model):
    """How a queue is served. An absent field is inherited from the parent queue; at the top it has Muster's default."""

    #: The order in which workloads are considered: ``fifo``, ``strict-fifo``, ``priority``, ``shortest``,
    #: ``round-robin``, or a plug-in.
    order: PolicyName | None = None
    #: Points of priority per hour of waiting.
    ageing_per_hour: Count | None = None
    #: Whether nodes are filled (``pack``), or pods are spread (``spread``); or a plug-in.
    placement: PolicyName | None = None
    #: Parameters of the policies that this queue names, by their names.
    parameters: Annotated[dict[PolicyName, Whole], Field(max_length=MOST_PARAMETERS)] = Field(
        default_factory=dict
    )
    #: While a plug-in cannot be used: ``hold`` admits nothing, ``default`` has Muster's own policy serve.
    on_plugin_failure: Literal["hold", "default"] | None = None
    #: Past use counts in the share of the queue, and fades with this half-life; 0: it does not count.
    usage_half_life: Duration | None = None
    #: When the next flavor is tried.
    flavor_choice: FlavorChoice | None = None
    #: Which workloads its workloads may evict.
    preemption: PreemptionPolicy | None = None
    #: What is done for gangs that wait for long.
    starvation: StarvationPolicy | None = None
    #: Nothing is evicted before it has run for so long.
    min_run_time: Duration | None = None
    #: How often a workload may be evicted; then it is protected.
    max_evictions: Count | None = None
    #: Time in which all pods of a gang have to get ready, from the last one bound; 0: any time.
    ready_within: Duration | None = None
    #: How often a gang is tried again after that; then it is held back until its object changes.
    ready_backoff_limit: Count | None = None
    #: The highest priority that counts in the queue; of all queues on the path to ``root`` the smallest counts.
    max_priority: Int32 | None = None
    #: Users' own protections from eviction count no longer than this; of all queues on the path the smallest counts.
    max_protection: Duration | None = None
    #: What is done about unhealthy devices.
    health: HealthPolicy | None = None
    #: How nodes are asked for.
    provisioning: ProvisioningPolicy | None = None
    #: Pods get annotations by which Cluster Autoscaler and Karpenter leave their nodes alone. What users wrote there
    #: stays.
    keep_from_autoscalers: Flag | None = None
    #: batch/v1 Jobs may get more pods while they run: their pods are released one by one, a write for each. A Job's
    #: annotation ``muster.dev/may-grow`` counts before it.
    jobs_may_grow: Flag | None = None
    #: How batch/v1 Jobs start whose annotation ``scheduling.volcano.sh/group-min-member`` does not say it: all pods
    #: together (``gang``), or each when it has a place (``array``). With ``subdomain`` in the template it is a gang.
    jobs: Literal["gang", "array"] | None = None
    #: Stops admissions to this queue and to all queues below it.
    paused: Flag | None = None
    #: Stops new work of this queue and of all queues below it: what was never admitted.
    hold: HoldPolicy | None = None


class Admin(Model):
    """A user or a group that administers a queue and its subtree."""

    #: Name of a user.
    user: Text | None = None
    #: Name of a group.
    group: Text | None = None


class QueueAccess(Model):
    """Who may use and administer a queue, and how much. Absent: no limit."""

    #: A LabelSelector: only namespaces with such labels may use the queue and those below it.
    namespace_selector: Whole | None = None
    #: Users and groups who administer the queues below this one, within its limits.
    admins: Annotated[tuple[Admin, ...], Field(json_schema_extra={"maxItems": MOST_ADMINS})] = ()
    #: Queues that administrators may make below this one, at any depth. Absent: 200 below a top-level queue.
    max_queues: Count | None = None
    #: Pods per gang.
    max_gang: Annotated[Count, Field(ge=1)] | None = None
    #: Workloads that may wait.
    max_pending: Count | None = None
    #: Workloads of one user that may wait.
    max_pending_per_user: Count | None = None
    #: What one user may use at a time, by resource, in the queue and all below it.
    max_per_user: Quantities = Field(default_factory=dict)
    #: How long a workload of the queue or one below it may hold its seats; then it is ended. What declares a longer run
    #: time is not admitted. 0: no limit of its own. In the order ``shortest`` also the run time of workloads that
    #: declare none.
    max_run_time: Duration | None = None


class QueueLoan(Model):
    """A part of what a queue deserves that another queue has until a time."""

    #: The queue that gets it.
    to: Annotated[Text, Field(min_length=1, max_length=253)]
    #: Amounts by resource, of what the queue itself states as ``deserved``.
    resources: Quantities
    #: Of this flavor. Absent: of the plain ``deserved``.
    flavor: Annotated[Text, Field(max_length=63)] = ""
    #: When it ends, by itself.
    until: Time
    #: Why, for people.
    reason: Annotated[Text, Field(max_length=500)] = ""


class QueueBudget(Model):
    """What a queue and all below it may use in a time. Nothing is carried over."""

    #: Hours by resource, such as ``nvidia.com/gpu: "1000"``; counted is each unit for each second that it is held.
    hours: Annotated[Quantities, Field(min_length=1)]
    #: A calendar month in the time zone that Muster is set to.
    per: Literal["month"] = "month"
    #: ``report``: that it is used up is only reported. ``hold``: nothing more is admitted until the month is over, and
    #: what runs goes on.
    when_spent: Literal["report", "hold"] = "report"


class QueueSpec(OpenModel):
    """What an administrator grants to a queue."""

    #: Its part among its siblings, where it has no ``deserved``.
    weight: Annotated[Int32, Field(ge=1, le=65535)] = 1
    #: Amounts that are never exceeded; 0 forbids a resource.
    capability: Quantities = Field(default_factory=dict)
    #: Whether others may reclaim what it uses beyond its share.
    reclaimable: Flag = True
    #: Accepted and kept, without effect.
    extend_clusters: tuple[Whole, ...] = ()
    #: Never lent: kept free for this queue.
    guarantee: Guarantee = Guarantee()
    #: Node group affinity: accepted and kept, without effect.
    affinity: Whole | None = None
    #: Accepted and kept, without effect.
    type: Text = ""
    #: "" is a top-level queue: its parent is ``root``.
    parent: Annotated[Text, Field(max_length=253)] = ""
    #: Its own share: lent while it is idle.
    deserved: Quantities = Field(default_factory=dict)
    #: Queues of higher priority are considered first.
    priority: Count = 0
    #: ``fifo`` has no effect; ``policy.order: strict-fifo`` does that.
    dequeue_strategy: Literal["fifo", "traverse"] = "traverse"
    #: Limits for each kind of hardware, in the order in which they are tried.
    flavors: Annotated[tuple[FlavorLimits, ...], Field(json_schema_extra={"maxItems": MOST_FLAVORS})] = ()
    #: How the queue is served.
    policy: QueuePolicySpec = QueuePolicySpec()
    #: Who may use it, and how much.
    access: QueueAccess = QueueAccess()
    #: AdmissionChecks that have to say yes before work of the queue, or of one below it, is admitted.
    admission_checks: Annotated[
        tuple[Annotated[Text, Field(min_length=1, max_length=253)], ...], Field(max_length=MOST_CHECKS)
    ] = ()
    #: What it and those below it may use in a month. Absent: as much as the queues above it may.
    budget: QueueBudget | None = None
    #: What it lends to other queues until a time. A loan that has ended has no effect.
    loans: Annotated[tuple[QueueLoan, ...], Field(max_length=MOST_LOANS)] = ()


class ReservationStatus(Model):
    """A part of Volcano's status that Muster does not write."""

    #: Written by Volcano.
    nodes: tuple[Text, ...] = ()
    #: Written by Volcano.
    resource: Quantities = Field(default_factory=dict)


class LedgerStatus(Model):
    """The ledger that leads the cluster. Only in the status of ``root``."""

    #: Of the ledger.
    id: Text
    #: Of its last leader, whose name is ``holder``.
    term: Annotated[StrictInt, Field(ge=0, json_schema_extra={"format": "int64"})]
    #: Of its last leader.
    holder: Text
    #: Known to no copy of that ledger that is older than a minute.
    nonce: Text = ""


class QueueStatus(Model):
    """Counts of the queue's PodGroups by phase, and the resources that its workloads hold."""

    #: ``Open``, ``Closing`` while something is left in it, or ``Closed``.
    state: QueueState | None = None
    #: Gangs with pods that run, but too few, or without seats. Volcano Jobs and PodGroups are counted.
    unknown: Int32 = 0
    #: Workloads that wait.
    pending: Int32 = 0
    #: Workloads that run.
    running: Int32 = 0
    #: Workloads that were admitted and do not run yet, and PodGroups whose pods may be made.
    inqueue: Int32 = 0
    #: Workloads that have ended.
    completed: Int32 = 0
    #: Written by Volcano.
    reservation: ReservationStatus = ReservationStatus()
    #: What its workloads hold.
    allocated: Quantities = Field(default_factory=dict)
    #: Written by Muster, for instance why the queue cannot be used.
    conditions: tuple[Whole, ...] = ()
    #: Which ledger leads the cluster; of ``root``.
    ledger: LedgerStatus | None = None

    def is_closed(self) -> bool:
        """Whether the queue itself was closed, not one above it."""
        by_parent = any(
            each.get("type") == CLOSED_BY_PARENT and each.get("status") == "True" for each in self.conditions
        )
        return self.state in (QueueState.CLOSED, QueueState.CLOSING) and not by_parent

    def recorded(self) -> LedgerRecord | None:
        """The ledger that leads the cluster; None if no ledger has led it yet."""
        if self.ledger is None:
            return None
        told = self.ledger
        return LedgerRecord(ledger=told.id, term=told.term, holder=told.holder, nonce=told.nonce)


class QueueDocument(Model):
    """A Queue."""

    api_version: Literal["scheduling.volcano.sh/v1beta1"] = SCHEDULING_VOLCANO
    kind: Literal["Queue"] = "Queue"
    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()

    def to_domain(self) -> DomainQueue:
        """The queue as the domain's value. What cannot be read makes it ``broken`` and raises nothing."""
        spec, policy = self.spec, self.spec.policy
        broken: str | None = None
        limits, flavors, per_user = Limits(), {}, dict[str, int]()
        budget: HoursBudget | None = None
        selector: tuple[Requirement, ...] | None = None
        try:
            selector = _requirements(spec.access.namespace_selector)
            limits = _limits(spec.guarantee.resource, spec.deserved, spec.capability)
            per_user = _amounts(spec.access.max_per_user)
            budget = _budget(spec.budget)
            flavors = {
                FlavorName(flavor.name): _limits(flavor.guarantee, flavor.deserved, flavor.capability)
                for flavor in spec.flavors
            }
            if (broken := _problem_of_limits(spec)) is not None:
                # However many there are, they cost no time.
                limits, flavors, per_user, budget = Limits(), {}, {}, None
        except (InvalidQuantity, InvalidDocument) as error:
            broken = str(error)
        return DomainQueue(
            name=QueueName(self.metadata.name),
            parent=None if self.metadata.name == ROOT else QueueName(spec.parent or ROOT),
            weight=spec.weight,
            priority=spec.priority,
            reclaimable=spec.reclaimable,
            limits=limits,
            flavors=flavors,
            checks=tuple(dict.fromkeys(spec.admission_checks)),
            loans=loans_of({"loans": [loan.document() for loan in spec.loans]}) if spec.loans else (),
            order=policy.order,
            ageing_per_hour=policy.ageing_per_hour,
            placement=policy.placement,
            plugin_parameters={
                name: msgspec.json.encode(each, order="deterministic").decode()
                for name, each in sorted(policy.parameters.items())
            },
            on_plugin_failure=policy.on_plugin_failure,
            retry=self.metadata.annotations.get(RETRY, ""),
            paused=bool(policy.paused),
            hold=None if policy.hold is None else policy.hold.reason,
            closed=self.metadata.name != ROOT and self.status.is_closed(),
            broken=broken,
            budget=budget,
            max_gang=spec.access.max_gang,
            max_pending=spec.access.max_pending,
            max_pending_per_user=spec.access.max_pending_per_user,
            max_per_user=per_user,
            max_run_time=duration(spec.access.max_run_time) or None,
            namespace_selector=selector,
            policy=_policy(policy),
            node_recovery=_node_recovery(policy.health),
            provisioning=_provisioning(policy.provisioning),
            keep_from_autoscalers=policy.keep_from_autoscalers,
            jobs_may_grow=policy.jobs_may_grow,
            generation=self.metadata.generation,
        )


def queues_of(documents: Mapping[str, Any]) -> dict[QueueName, DomainQueue]:
    """The queues of documents, by name. One that cannot be read is left out."""
    found: dict[QueueName, DomainQueue] = {}
    for name, document in documents.items():
        with suppress(InvalidDocument):
            found[QueueName(name)] = QueueDocument.read(document).to_domain()
    return found


def _problem_of_limits(spec: QueueSpec) -> str | None:
    """Why limits cannot be stored, by the names of their resources and their number; None if they can."""
    limits = [*((flavor.guarantee, flavor.deserved, flavor.capability) for flavor in spec.flavors)]
    plain = [spec.guarantee.resource, spec.deserved, spec.capability, spec.access.max_per_user]
    plain += [] if spec.budget is None else [spec.budget.hours]
    every = [_nameable(each) for each in (*plain, *(each for of in limits for each in of))]
    if (count := sum(map(len, every))) > MOST_LIMITS:
        return f"spec: found {count} limits, expected at most {MOST_LIMITS}"
    problem = next(filter(None, map(resource_problem, every)), None)
    return None if problem is None else f"spec: found {problem[0]}, expected {problem[1]}"


def _nameable(quantities: Quantities) -> Quantities:
    """Amounts without names such as ``nvidia.com/``, which no resource can have: those limit nothing."""
    return {name: text for name, text in quantities.items() if is_label_key(name)}


def _policy(spec: QueuePolicySpec) -> DomainPolicy:
    preemption = spec.preemption or PreemptionPolicy()
    borrow = preemption.borrow_while_preempting
    choice = spec.flavor_choice or FlavorChoice()
    return DomainPolicy(
        within_queue=preemption.within_queue,
        reclaim=preemption.reclaim,
        borrow_max_priority=None if borrow is None else borrow.max_priority,
        clear_after=None if spec.starvation is None else duration(spec.starvation.clear_after),
        min_run_time=duration(spec.min_run_time),
        max_evictions=spec.max_evictions,
        ready_within=duration(spec.ready_within),
        ready_backoff_limit=spec.ready_backoff_limit,
        max_priority=spec.max_priority,
        max_protection=duration(spec.max_protection),
        on_fault=None if spec.health is None else spec.health.on_fault,
        jobs=spec.jobs,
        usage_half_life=duration(spec.usage_half_life),
        before_borrowing=choice.before_borrowing,
        before_preempting=choice.before_preempting,
        victim_cost=preemption.cost,
        flavors_by=choice.by,
    )


def _budget(stated: QueueBudget | None) -> HoursBudget | None:
    if stated is None:
        return None
    return HoursBudget(hours=_amounts(stated.hours), per=stated.per, holds=stated.when_spent == HOLD)


def _node_recovery(health: HealthPolicy | None) -> NodeRecoveryRules:
    if health is None:
        return NodeRecoveryRules()
    recovery = health.recovery or NodeRecoveryPolicy()
    return NodeRecoveryRules(
        recovers=health.on_fault == RECOVER,
        job=recovery.job,
        verify_job=recovery.verify_job,
        max_nodes_out=recovery.max_nodes_out,
    )


def _provisioning(policy: ProvisioningPolicy | None) -> ProvisioningRules | None:
    if policy is None:
        return None
    timeout, most = duration(policy.timeout), policy.max_open
    return ProvisioningRules(
        class_name=policy.class_name,
        parameters=tuple(sorted(policy.parameters.items())),
        timeout=ProvisioningRules().timeout if timeout is None else timeout,
        max_open=ProvisioningRules().max_open if most is None else most,
    )


def _requirements(selector: Mapping[str, Any] | None) -> tuple[Requirement, ...] | None:
    """A LabelSelector as requirements that must all hold; None if there is none. Raises InvalidDocument."""
    if selector is None:
        return None
    # Labels that no Namespace can have are none of these: the selector can be read.
    unreadable = (
        each for each in selector_violations(selector, "spec.access.namespaceSelector") if not each.may_stay
    )
    wrong = next(unreadable, None)
    if wrong is not None:
        raise InvalidDocument(where=wrong.path, found=wrong.found, expected=wrong.expected)
    read = LabelSelector.read(selector)
    return (
        *(Requirement(key, "In", (value,)) for key, value in sorted(read.match_labels.items())),
        *(Requirement(each.key, each.operator, each.values) for each in read.match_expressions),
    )


def _limits(guarantee: Quantities, deserved: Quantities, capability: Quantities) -> Limits:
    return Limits(
        guarantee=Resources.parse(_nameable(guarantee)),
        deserved=_amounts(deserved),
        capability=_amounts(capability),
    )


def _amounts(quantities: Mapping[str, Any]) -> dict[str, int]:
    """Amounts with zeros kept: ``capability: {cpu: 0}`` forbids cpu, an absent one does not limit it."""
    return {name: amount(name, text) for name, text in quantities.items() if is_label_key(name)}
