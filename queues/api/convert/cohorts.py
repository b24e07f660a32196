"""ClusterQueues and Cohorts as a tree of Queues: a cohort is an inner queue, a ClusterQueue takes workloads.

Nominal quota → deserved; nominal quota + borrowing limit → capability; nominal quota − lending limit → guarantee. The
numbers of a cohort contain those below it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from queues.api.api_resources import QUEUES
from queues.api.check.finding import Finding, Subject
from queues.api.convert.conversion import Conversion, document_of
from queues.api.convert.kueue_types import (
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    FairSharing,
    LocalQueue,
    ResourceGroup,
)
from queues.api.names import DEFAULT_QUEUE, ROOT_QUEUE
from queues.api.validation.cycles import cycles
from queues.errors import InvalidQuantity
from queues.quota.accounts import Account
from queues.resources import PODS, amount, show
from queues.text_format import listed
from queues.workload import NO_FLAVOR, FlavorName


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenQuota:
    """What a ClusterQueue or Cohort states of one account, in the units of ``queues.resources``."""

    nominal: int = 0
    #: None if it is not limited.
    borrowing: int | None = None
    #: None if it is not limited.
    lending: int | None = None

    def with_other(self, other: "WrittenQuota") -> "WrittenQuota":
        """Both as one, where Muster does not distinguish their flavors."""
        limited = self.borrowing is not None and other.borrowing is not None
        kept = self.lending is not None or other.lending is not None
        return WrittenQuota(
            nominal=self.nominal + other.nominal,
            borrowing=(self.borrowing or 0) + (other.borrowing or 0) if limited else None,
            lending=self._lent() + other._lent() if kept else None,
        )

    def _lent(self) -> int:
        return self.nominal if self.lending is None else min(self.lending, self.nominal)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLimits:
    """Limits of a Queue in one account."""

    guarantee: int = 0
    deserved: int = 0
    #: None if only the queues above limit it.
    capability: int | None = None


def written_quotas(
    groups: Iterable[ResourceGroup], as_flavors: frozenset[str]
) -> dict[Account, WrittenQuota]:
    """The quotas of resource groups; flavors that are not ``as_flavors`` together. Raises InvalidQuantity."""
    found: dict[Account, WrittenQuota] = {}
    for group in groups:
        for flavor in group.flavors:
            name = FlavorName(flavor.name) if flavor.name in as_flavors else NO_FLAVOR
            for quota in flavor.resources:
                borrowing, lending = quota.borrowing_limit, quota.lending_limit
                written = WrittenQuota(
                    nominal=amount(quota.name, quota.nominal_quota),
                    borrowing=None if borrowing is None else amount(quota.name, borrowing),
                    lending=None if lending is None else amount(quota.name, lending),
                )
                account = Account(name, quota.name)
                found[account] = found[account].with_other(written) if account in found else written
    return found


def limits_of(
    own: Mapping[Account, WrittenQuota], children: Sequence[Mapping[Account, AccountLimits]], *, is_top: bool
) -> dict[Account, AccountLimits]:
    """Limits of a ClusterQueue (without children) or Cohort. ``is_top``: it has no cohort to borrow from."""
    accounts = {*own, *(account for child in children for account in child)}
    return {
        account: _limits(
            own.get(account, WrittenQuota()),
            [child[account] for child in children if account in child],
            is_top=is_top,
        )
        for account in sorted(accounts)
    }


def _limits(own: WrittenQuota, children: Sequence[AccountLimits], *, is_top: bool) -> AccountLimits:
    deserved = own.nominal + sum(child.deserved for child in children)
    guarantee = sum(child.guarantee for child in children)
    if own.lending is not None:
        guarantee = max(guarantee, deserved - own.lending)
    if is_top:
        return AccountLimits(guarantee=guarantee, deserved=deserved, capability=deserved)
    capability = None if own.borrowing is None else deserved + own.borrowing
    return AccountLimits(guarantee=guarantee, deserved=deserved, capability=capability)


def spec_of(
    limits: Mapping[Account, AccountLimits], flavors: Sequence[str], forbidden: Iterable[str]
) -> dict[str, Any]:
    """``guarantee``, ``deserved``, ``capability`` and ``flavors`` of a Queue's spec.

    ``flavors``: in the order to try. ``forbidden``: resources that the queue may not use at all.
    """
    over_all = {account.resource: each for account, each in limits.items() if account.flavor == NO_FLAVOR}
    for account, each in limits.items():
        if account.flavor != NO_FLAVOR and account.resource in over_all:
            over_all[account.resource] = _sum(over_all[account.resource], each)
    for resource in forbidden:
        over_all.setdefault(resource, AccountLimits(capability=0))
    spec = _fields(over_all)
    if "guarantee" in spec:
        spec["guarantee"] = {"resource": spec["guarantee"]}
    entries = [
        {
            "name": flavor,
            **_fields({a.resource: each for a, each in limits.items() if a.flavor == flavor}),
        }
        for flavor in flavors
    ]
    return {**spec, **({"flavors": entries} if entries else {})}


def _sum(one: AccountLimits, other: AccountLimits) -> AccountLimits:
    limited = one.capability is not None and other.capability is not None
    return AccountLimits(
        guarantee=one.guarantee + other.guarantee,
        deserved=one.deserved + other.deserved,
        capability=(one.capability or 0) + (other.capability or 0) if limited else None,
    )


def _fields(limits: Mapping[str, AccountLimits]) -> dict[str, Any]:
    guarantee = {name: show(name, each.guarantee) for name, each in limits.items() if each.guarantee}
    deserved = {name: show(name, each.deserved) for name, each in limits.items()}
    capability = {
        name: show(name, each.capability) for name, each in limits.items() if each.capability is not None
    }
    fields = {"guarantee": guarantee, "deserved": deserved, "capability": capability}
    return {name: amounts for name, amounts in fields.items() if amounts}


Limits = Mapping[Account, AccountLimits]

#: Label that the API server puts on every Namespace.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_WITHIN: Final = {
    "Never": "never",
    "LowerPriority": "lower-priority",
    "LowerOrNewerEqualPriority": "lower-or-newer-equal",
}
_RECLAIM: Final = {"Never": "never", "LowerPriority": "lower-priority", "Any": "any"}
_HIGHEST: Final = 2**31 - 1

_NO_CHECKS: Final = "left out: Muster has no admission checks, workloads are admitted without them"
#: Fields of a ClusterQueue that have another effect in Muster, or none: path, what is found, and what happens instead.
_DIFFERENT: Final[tuple[tuple[str, Callable[[ClusterQueueSpec], bool], str, str], ...]] = (
    (
        "spec.queueingStrategy",
        lambda spec: spec.queueing_strategy == "StrictFIFO",
        "StrictFIFO",
        "order: strict-fifo goes by arrival alone: priorities do not count in the order of the queue",
    ),
    (
        "spec.stopPolicy",
        lambda spec: spec.stop_policy == "HoldAndDrain",
        "HoldAndDrain",
        "the queue is paused, and what runs in it runs on: delete it by hand",
    ),
    ("spec.admissionChecks", lambda spec: bool(spec.admission_checks), "AdmissionChecks", _NO_CHECKS),
    (
        "spec.admissionChecksStrategy",
        lambda spec: bool(spec.admission_checks_strategy),
        "AdmissionChecks",
        _NO_CHECKS,
    ),
    (
        "spec.flavorFungibility.preference",
        lambda spec: spec.flavor_fungibility.preference == "PreemptionOverBorrowing",
        "PreemptionOverBorrowing",
        "left out: where both are needed, Muster borrows rather than it preempts",
    ),
    (
        "spec.admissionScope",
        lambda spec: spec.admission_scope.admission_mode == "UsageBasedAdmissionFairSharing",
        "UsageBasedAdmissionFairSharing",
        "past use counts by user, not by LocalQueue: set spec.policy.usageHalfLife to the half-life of Kueue's "
        "configuration",
    ),
    (
        "spec.concurrentAdmissionPolicy",
        lambda spec: spec.concurrent_admission_policy is not None,
        "a policy",
        "left out: a workload is admitted in one flavor and stays there",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueQueues:
    """The queues of a Kueue installation, by name."""

    cluster_queues: Mapping[str, tuple[Subject, ClusterQueue]]
    cohorts: Mapping[str, tuple[Subject, Cohort]]
    #: By the ClusterQueue that they name.
    local_queues: Mapping[str, list[LocalQueue]]
    #: Flavors that stay flavors. Quotas of others are limits over all nodes.
    as_flavors: frozenset[str]


def cohort_of(queue: ClusterQueue) -> str:
    """The cohort of a ClusterQueue; "": none."""
    return queue.spec.cohort_name or queue.spec.cohort


def parent_of(cohort: Cohort) -> str:
    """The cohort above a Cohort; "": none."""
    return cohort.spec.parent_name or cohort.spec.parent


def convert_queues(kueue: KueueQueues, done: Conversion) -> dict[str, str]:
    """The tree of Queues, parents first. Returns their names by ClusterQueue. With cohorts in a cycle: an error, and
    no documents."""
    parents = _parents(kueue)
    rings = cycles({name: [above] for name, above in parents.items() if above})
    for cycle in rings:
        subject, cohort = kueue.cohorts[cycle[0]]
        path = "spec.parentName" if cohort.spec.parent_name else "spec.parent"
        instead = "give one of them another parent, or none"
        done.tell("error", subject, path, f"a cohort inside itself: {' → '.join(cycle)}", instead)
    if rings:
        return {}
    inner_names = _inner_names(kueue, parents)
    covered = _covered(kueue)
    #: The limits of what is below each cohort, "" for what is in none.
    below: dict[str, list[Limits]] = {}
    names: dict[str, str] = {}
    leaves = []
    for name, (subject, queue) in sorted(kueue.cluster_queues.items()):
        cohort_name, groups = cohort_of(queue), queue.spec.resource_groups
        limits = limits_of(_quotas(subject, groups, kueue, done), (), is_top=not cohort_name)
        below.setdefault(cohort_name, []).append(limits)
        taken = {*kueue.cluster_queues, *inner_names.values(), ROOT_QUEUE}
        names[name] = _unused(name, "-queue", taken) if name == ROOT_QUEUE else name
        spec: dict[str, Any] = {"parent": inner_names[cohort_name]} if cohort_name else {}
        spec |= _leaf_spec(queue, limits, kueue.as_flavors, covered)
        spec |= _access(queue, kueue.local_queues.get(name, ()))
        leaves.append(document_of(QUEUES, names[name], spec=spec))
        done.differences += _differences(subject, queue, names[name], kueue)
    inner = []
    for name in reversed(_outermost_first(parents)):
        found_cohort = kueue.cohorts.get(name)
        own = (
            _quotas(found_cohort[0], found_cohort[1].spec.resource_groups, kueue, done)
            if found_cohort
            else {}
        )
        above = parents[name]
        limits = limits_of(own, below.get(name, ()), is_top=not above)
        below.setdefault(above, []).append(limits)
        spec = {"parent": inner_names[above]} if above else {}
        spec |= spec_of(limits, sorted({account.flavor for account in limits if account.flavor}), ())
        inner.append(document_of(QUEUES, inner_names[name], spec=spec))
        if found_cohort:
            done.differences += _cohort_differences(*found_cohort, inner_names[name])
    done.documents += [*reversed(inner), *leaves]
    return names


def _parents(kueue: KueueQueues) -> dict[str, str]:
    """The cohort above each cohort, "" for none; cohorts without an object included."""
    parents = {name: parent_of(cohort) for name, (_, cohort) in kueue.cohorts.items()}
    named = {cohort_of(queue) for _, queue in kueue.cluster_queues.values()} | set(parents.values())
    return {**dict.fromkeys(sorted(named - {""}), ""), **parents}


def _outermost_first(parents: Mapping[str, str]) -> list[str]:
    """Cohorts, each after the one above it. Without recursion: one may lie as deep as there are cohorts."""
    children: dict[str, list[str]] = {}
    for name in sorted(parents):
        children.setdefault(parents[name], []).append(name)
    order = list(children.get("", ()))
    for name in order:
        order += children.get(name, ())
    return order


def _inner_names(kueue: KueueQueues, parents: Collection[str]) -> dict[str, str]:
    """Names of inner queues: the cohort's, unless a ClusterQueue or Muster itself has it."""
    taken = {*kueue.cluster_queues, ROOT_QUEUE, DEFAULT_QUEUE}
    found = {name: name for name in parents if name not in taken}
    for name in sorted(set(parents) - found.keys()):
        found[name] = _unused(name, "-cohort", {*taken, *found.values()})
    return found


def _unused(name: str, suffix: str, taken: Collection[str]) -> str:
    while name in taken:
        name += suffix
    return name


def _quotas(
    subject: Subject, groups: tuple[ResourceGroup, ...], kueue: KueueQueues, done: Conversion
) -> dict[Account, WrittenQuota]:
    try:
        return written_quotas(groups, kueue.as_flavors)
    except InvalidQuantity as error:
        done.tell("error", subject, "spec.resourceGroups", str(error), "write a quantity such as 4 or 32Gi")
        return {}


def _leaf_spec(
    queue: ClusterQueue, limits: Limits, as_flavors: Collection[str], covered: Collection[str]
) -> dict[str, Any]:
    """Limits and policy. ``covered``: resources with a quota somewhere."""
    groups = queue.spec.resource_groups
    flavors = list(dict.fromkeys(name for name in _flavors(groups) if name in as_flavors))
    forbidden = sorted(set(covered) - set(_resources(groups)))
    policy = _policy(queue.spec, has_flavors=len(flavors) > 1)
    return {**spec_of(limits, flavors, forbidden), "policy": policy}


def _policy(spec: ClusterQueueSpec, *, has_flavors: bool) -> dict[str, Any]:
    preemption, borrowing = spec.preemption, spec.preemption.borrow_within_cohort
    rules: dict[str, Any] = {
        "withinQueue": _WITHIN[preemption.within_cluster_queue],
        "reclaim": _RECLAIM[preemption.reclaim_within_cohort],
    }
    if borrowing is not None and borrowing.policy != "Never":
        most = borrowing.max_priority_threshold
        rules["borrowWhilePreempting"] = {"maxPriority": _HIGHEST if most is None else most}
    policy: dict[str, Any] = {
        "order": "strict-fifo" if spec.queueing_strategy == "StrictFIFO" else "priority"
    }
    if has_flavors:
        choice, next_if = spec.flavor_fungibility, {"TryNextFlavor": "try-next"}
        policy["flavorChoice"] = {
            "beforeBorrowing": next_if.get(choice.when_can_borrow, "stop"),
            "beforePreempting": next_if.get(choice.when_can_preempt, "stop"),
        }
    policy["preemption"] = rules
    return {**policy, "paused": True} if spec.stop_policy != "None" else policy


def _access(queue: ClusterQueue, local_queues: Collection[LocalQueue]) -> dict[str, Any]:
    """``access`` with the namespaces that the selector allows and that have a LocalQueue of the ClusterQueue."""
    selector = queue.spec.namespace_selector
    if selector is None:  # it selects none
        only: dict[str, Any] = {"key": _NAME_LABEL, "operator": "DoesNotExist"}
        return {"access": {"namespaceSelector": {"matchExpressions": [only]}}}
    expressions = selector.get("matchExpressions") or []
    namespaces = sorted({local.metadata.namespace or "default" for local in local_queues})
    if not namespaces or not isinstance(expressions, list):  # a wrong one is found in the converted Queue
        return {"access": {"namespaceSelector": selector}} if selector else {}
    only = {"key": _NAME_LABEL, "operator": "In", "values": namespaces}
    return {"access": {"namespaceSelector": {**selector, "matchExpressions": [*expressions, only]}}}


# ── what differs ───────────────────────────────────────────────────────────────────────────────────────────────


def _differences(subject: Subject, queue: ClusterQueue, name: str, kueue: KueueQueues) -> Iterator[Finding]:
    own, spec = str(subject.metadata["name"]), queue.spec
    if own in (ROOT_QUEUE, DEFAULT_QUEUE):
        instead = (
            f"the Queue is {name}: root is the top of Muster's tree"
            if own == ROOT_QUEUE
            else "the Queue takes the place of Muster's default queue, for all that names none"
        )
        yield subject.finding("note", "metadata.name", own, instead)
    if spec.namespace_selector is None:
        instead = "as in Kueue, no namespace may use the queue; {} would allow all"
        yield subject.finding("warning", "spec.namespaceSelector", "nothing", instead)
    elif own not in kueue.local_queues:
        instead = (
            "every namespace that spec.namespaceSelector allows may use the queue by its name"
            if spec.namespace_selector
            else "every namespace may use the queue by its name: give it a spec.access.namespaceSelector"
        )
        yield subject.finding("warning", "", "no LocalQueue of it among the documents", instead)
    yield from _flavor_differences(subject, queue, kueue.as_flavors)
    yield from _weight_differences(subject, spec.fair_sharing)
    for path, is_given, found, instead in _DIFFERENT:
        if is_given(spec):
            yield subject.finding("warning", path, found, instead)


def _flavor_differences(
    subject: Subject, queue: ClusterQueue, as_flavors: Collection[str]
) -> Iterator[Finding]:
    """Flavors without node labels beside others, and queues without flavors of their own: nodes are not chosen."""
    groups = queue.spec.resource_groups
    flavored = [group for group in groups if any(name in as_flavors for name in _flavors([group]))]
    others = [name for name in _flavors(flavored) if name not in as_flavors]
    if others:
        found = f"flavors without node labels of their own beside others: {listed(others)}"
        instead = (
            "all workloads of this queue go to nodes of its other flavors; give these flavors node labels"
        )
    elif flavored and len(flavored) < len(groups):
        resources = sorted({name for group in flavored for name in group.covered_resources})
        found = f"flavors with node labels for {listed(resources)} only"
        instead = f"also workloads that ask for none of it go to nodes of {listed(list(_flavors(flavored)))}"
    elif as_flavors and not flavored and cohort_of(queue):
        found = "no flavor with node labels, in a cohort"
        instead = "its workloads go to nodes of the flavors of its cohort, if that has any"
    else:
        return
    yield subject.finding("warning", "spec.resourceGroups", found, instead)


def _cohort_differences(subject: Subject, cohort: Cohort, queue: str) -> Iterator[Finding]:
    yield from _weight_differences(subject, cohort.spec.fair_sharing)
    if queue != cohort.metadata.name:
        instead = f"the inner queue is {queue}: the name is taken"
        yield subject.finding("note", "metadata.name", cohort.metadata.name, instead)


def _weight_differences(subject: Subject, sharing: FairSharing | None) -> Iterator[Finding]:
    if sharing is not None and str(sharing.weight) != "1":
        instead = "left out: queues are compared by what they use of what they deserve"
        yield subject.finding("warning", "spec.fairSharing.weight", str(sharing.weight), instead)


def _covered(kueue: KueueQueues) -> set[str]:
    """Resources with a quota somewhere: a ClusterQueue that does not name one of them may use nothing of it.

    ``pods`` is left out: Kueue counts them only where they are named.
    """
    every = [queue.spec.resource_groups for _, queue in kueue.cluster_queues.values()]
    every += [cohort.spec.resource_groups for _, cohort in kueue.cohorts.values()]
    return {name for groups in every for name in _resources(groups)} - {PODS}


def _flavors(groups: Collection[ResourceGroup]) -> Iterator[str]:
    return (flavor.name for group in groups for flavor in group.flavors)


def _resources(groups: Collection[ResourceGroup]) -> Iterator[str]:
    return (quota.name for group in groups for flavor in group.flavors for quota in flavor.resources)
