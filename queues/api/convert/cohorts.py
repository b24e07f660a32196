"""ClusterQueues and Cohorts as a tree of Queues: a cohort is an inner queue, a ClusterQueue takes workloads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from queues.api.check.finding import Subject
from queues.api.convert.difference import ConversionDifference, difference
from queues.api.convert.kueue_types import ClusterQueue, Cohort, FairSharing, LocalQueue, ResourceGroup
from queues.api.convert.quotas import (
    AccountLimits,
    limits_of,
    spec_of,
    whole_weights,
    written_quotas,
)
from queues.api.names import DEFAULT_QUEUE, ROOT_QUEUE, SCHEDULING_VOLCANO
from queues.api.validation.cycles import cycles
from queues.errors import InvalidQuantity
from queues.quota.accounts import Account
from queues.resources import PODS
from queues.text_format import listed

#: Label that the API server puts on every Namespace.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_WITHIN: Final = {
    "Never": "never",
    "LowerPriority": "lower-priority",
    "LowerOrNewerEqualPriority": "lower-or-newer-equal",
}
_RECLAIM: Final = {"Never": "never", "LowerPriority": "lower-priority", "Any": "any"}
_HIGHEST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueQueues:
    """The queues of a Kueue installation, by name."""

    cluster_queues: Mapping[str, tuple[Subject, ClusterQueue]]
    cohorts: Mapping[str, tuple[Subject, Cohort]]
    #: By the ClusterQueue that they name.
    local_queues: Mapping[str, list[LocalQueue]]
    #: Flavors that stay flavors. Quotas of others are limits over all nodes.
    as_flavors: frozenset[str]


@dataclass(slots=True)
class QueueConversion:
    """Queues as documents, parents first, and what differs."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    differences: list[ConversionDifference] = field(default_factory=list)
    #: Names of the Queues, by ClusterQueue.
    names: dict[str, str] = field(default_factory=dict)


def cohort_of(queue: ClusterQueue) -> str:
    """The cohort of a ClusterQueue; "": none."""
    return queue.spec.cohort_name or queue.spec.cohort


def parent_of(cohort: Cohort) -> str:
    """The cohort above a Cohort; "": none."""
    return cohort.spec.parent_name or cohort.spec.parent


def convert_queues(kueue: KueueQueues) -> QueueConversion:
    """The tree of Queues. With cohorts in a cycle: an error, and no documents."""
    done = QueueConversion()
    tree = _CohortTree(kueue, done)
    for cycle in cycles({name: [above] for name, above in tree.parents.items() if above}):
        subject = kueue.cohorts[cycle[0]][0]
        path = "spec.parentName" if kueue.cohorts[cycle[0]][1].spec.parent_name else "spec.parent"
        found, instead = " → ".join(cycle), "give one of them another parent, or none"
        done.differences.append(
            difference(subject, "error", path, f"a cohort inside itself: {found}", instead)
        )
    if not done.differences:
        for name in sorted(name for name, above in tree.parents.items() if not above):
            tree.add_cohort(name)
        for name in sorted(name for name, (_, queue) in kueue.cluster_queues.items() if not cohort_of(queue)):
            tree.add_cluster_queue(name)
        done.documents.sort(key=lambda document: tree.depth[document["metadata"]["name"]])
    return done


class _CohortTree:
    """Builds the documents bottom up, for an inner queue's numbers contain those of its children."""

    def __init__(self, kueue: KueueQueues, done: QueueConversion) -> None:
        self.kueue = kueue
        self.done = done
        self.covered = _covered(kueue)
        #: The cohort above each cohort, "" for none; cohorts without an object included.
        self.parents: dict[str, str] = {
            name: parent_of(cohort) for name, (_, cohort) in kueue.cohorts.items()
        }
        named = {cohort_of(queue) for _, queue in kueue.cluster_queues.values()} | set(self.parents.values())
        for name in named - {""}:
            self.parents.setdefault(name, "")
        self.children: dict[str, list[str]] = {}
        self.members: dict[str, list[str]] = {}
        for name in sorted(self.parents):
            self.children.setdefault(self.parents[name], []).append(name)
        for name in sorted(kueue.cluster_queues):
            self.members.setdefault(cohort_of(kueue.cluster_queues[name][1]), []).append(name)
        self.inner_names = self._inner_names()
        self._flavors: dict[str, tuple[str, ...]] = {}
        #: By the cohort around them.
        self._weights: dict[str, dict[str, int]] = {}
        #: Levels above a Queue, by its name.
        self.depth: dict[str, int] = {}

    def _inner_names(self) -> dict[str, str]:
        """Names of inner queues: the cohort's, unless a ClusterQueue or Muster itself has it."""
        taken = {*self.kueue.cluster_queues, ROOT_QUEUE, DEFAULT_QUEUE}
        found = {name: name for name in self.parents if name not in taken}
        for name in sorted(self.parents.keys() - found.keys()):
            other = f"{name}-cohort"
            while other in taken or other in found.values():
                other += "-cohort"
            found[name] = other
        return found

    def leaf_name(self, name: str) -> str:
        """The Queue of a ClusterQueue: its name, unless Muster itself has it."""
        if name != ROOT_QUEUE:
            return name
        name += "-queue"
        while name in self.kueue.cluster_queues or name in self.inner_names.values():
            name += "-queue"
        return name

    def add_cohort(self, name: str) -> dict[Account, AccountLimits]:
        """The inner queue of a cohort and all below it; its limits."""
        limits: dict[Account, AccountLimits] = {}
        # Innermost first, without recursion: a cohort may lie as deep as there are cohorts.
        order = [name]
        for each in order:
            order += self.children.get(each, ())
        known: dict[str, dict[Account, AccountLimits]] = {}
        for each in reversed(order):
            below = [known.pop(child) for child in self.children.get(each, ())]
            below += [self.add_cluster_queue(member) for member in self.members.get(each, ())]
            limits = known[each] = self._add_cohort(each, below)
        return limits

    def _add_cohort(
        self, name: str, below: list[dict[Account, AccountLimits]]
    ) -> dict[Account, AccountLimits]:
        parent = self.parents[name]
        subject, cohort = self.kueue.cohorts.get(name, (None, None))
        own = self._quotas(subject, cohort.spec.resource_groups) if subject and cohort else {}
        limits = limits_of(own, below, is_top=not parent)
        queue = self.inner_names[name]
        spec: dict[str, Any] = {"parent": self.inner_names[parent]} if parent else {}
        flavors = sorted({account.flavor for account in limits if account.flavor})
        spec |= spec_of(limits, flavors, ())
        spec |= self._weight(f"cohort {name}", parent)
        if subject and cohort:
            self._tell_weight(subject, cohort.spec.fair_sharing)
            if queue != name:
                self._tell(
                    subject, "note", "metadata.name", name, f"the inner queue is {queue}: the name is taken"
                )
        self._add(queue, spec, self._depth_of_cohort(name))
        return limits

    def _depth_of_cohort(self, name: str) -> int:
        depth = 0
        while name := self.parents.get(name, ""):
            depth += 1
        return depth

    def add_cluster_queue(self, name: str) -> dict[Account, AccountLimits]:
        """The Queue of a ClusterQueue; its limits."""
        subject, cluster_queue = self.kueue.cluster_queues[name]
        groups, cohort = cluster_queue.spec.resource_groups, cohort_of(cluster_queue)
        limits = limits_of(self._quotas(subject, groups), (), is_top=not cohort)
        queue = self.done.names[name] = self.leaf_name(name)
        if name in (ROOT_QUEUE, DEFAULT_QUEUE):
            instead = (
                f"the Queue is {queue}: root is the top of Muster's tree"
                if name == ROOT_QUEUE
                else "the Queue takes the place of Muster's default queue, for all that names none"
            )
            self._tell(subject, "note", "metadata.name", name, instead)
        flavors = [
            flavor.name
            for group in groups
            for flavor in group.flavors
            if flavor.name in self.kueue.as_flavors
        ]
        spec: dict[str, Any] = {"parent": self.inner_names[cohort]} if cohort else {}
        own = {quota.name for group in groups for flavor in group.flavors for quota in flavor.resources}
        spec |= spec_of(limits, list(dict.fromkeys(flavors)), sorted(self.covered - own))
        spec |= self._weight(name, cohort)
        spec["policy"] = self._policy(subject, cluster_queue, has_flavors=len(flavors) > 1)
        spec |= self._access(subject, cluster_queue)
        self._tell_of_groups(subject, groups)
        self._tell_of_flavors_above(subject, cohort, has_flavors=bool(flavors))
        self._tell_weight(subject, cluster_queue.spec.fair_sharing)
        self._tell_unsupported(subject, cluster_queue)
        self._add(queue, spec, self._depth_of_cohort(cohort) + 1 if cohort else 0)
        return limits

    def _add(self, name: str, spec: dict[str, Any], depth: int) -> None:
        self.depth[name] = depth
        self.done.documents.append(
            {"apiVersion": SCHEDULING_VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        )

    def _quotas(self, subject: Subject, groups: tuple[ResourceGroup, ...]) -> dict[Account, Any]:
        try:
            return written_quotas(groups, self.kueue.as_flavors)
        except InvalidQuantity as error:
            self._tell(
                subject, "error", "spec.resourceGroups", str(error), "write a quantity such as 4 or 32Gi"
            )
            return {}

    def _weight(self, key: str, parent: str) -> dict[str, int]:
        """``weight``, in proportion to the siblings', if one of them states another than 1.

        ``key``: the name of a ClusterQueue, or ``cohort`` and the name of one.
        """
        if not parent:
            return {}  # without a cohort there is nothing to share
        if parent not in self._weights:
            self._weights[parent] = self._weights_below(parent)
        weights = self._weights[parent]
        return {"weight": weights[key]} if weights else {}

    def _weights_below(self, parent: str) -> dict[str, int]:
        """Weights of the children of a cohort. Empty: all are equal, or one cannot be read."""
        written: dict[str, Any] = {}
        for each in self.children.get(parent, ()):
            cohort = self.kueue.cohorts.get(each)
            sharing = cohort[1].spec.fair_sharing if cohort else None
            written[f"cohort {each}"] = 1 if sharing is None else sharing.weight
        for each in self.members.get(parent, ()):
            sharing = self.kueue.cluster_queues[each][1].spec.fair_sharing
            written[each] = 1 if sharing is None else sharing.weight
        try:
            weights = whole_weights(written)
        except InvalidQuantity:
            return {}  # reported for the queue that states it
        return weights if len(set(weights.values())) > 1 else {}

    def _tell_weight(self, subject: Subject, sharing: FairSharing | None) -> None:
        if sharing is None or str(sharing.weight) == "1":
            return
        try:
            whole_weights({"": sharing.weight})
        except InvalidQuantity as error:
            self._tell(
                subject, "error", "spec.fairSharing.weight", str(error), "write a number such as 2 or 0.5"
            )
            return
        instead = (
            "queues are compared by what they use of what they deserve; the weight counts for resources that "
            "no queue states"
        )
        self._tell(subject, "warning", "spec.fairSharing.weight", str(sharing.weight), instead)

    def _policy(self, subject: Subject, queue: ClusterQueue, *, has_flavors: bool) -> dict[str, Any]:
        spec = queue.spec
        strict = spec.queueing_strategy == "StrictFIFO"
        if strict:
            instead = (
                "order: strict-fifo goes by arrival alone: priorities do not count in the order of the queue"
            )
            self._tell(subject, "warning", "spec.queueingStrategy", "StrictFIFO", instead)
        preemption = spec.preemption
        rules: dict[str, Any] = {
            "withinQueue": _WITHIN[preemption.within_cluster_queue],
            "reclaim": _RECLAIM[preemption.reclaim_within_cohort],
        }
        borrowing = preemption.borrow_within_cohort
        if borrowing is not None and borrowing.policy != "Never":
            most = borrowing.max_priority_threshold
            rules["borrowWhilePreempting"] = {"maxPriority": _HIGHEST if most is None else most}
        policy: dict[str, Any] = {"order": "strict-fifo" if strict else "priority"}
        if has_flavors:
            choice = spec.flavor_fungibility
            next_if = {"TryNextFlavor": "try-next"}
            policy["flavorChoice"] = {
                "beforeBorrowing": next_if.get(choice.when_can_borrow, "stop"),
                "beforePreempting": next_if.get(choice.when_can_preempt, "stop"),
            }
        policy["preemption"] = rules
        if spec.stop_policy != "None":
            policy["paused"] = True
        if spec.stop_policy == "HoldAndDrain":
            instead = "the queue is paused, and what runs in it runs on: delete it by hand"
            self._tell(subject, "warning", "spec.stopPolicy", "HoldAndDrain", instead)
        return policy

    def _access(self, subject: Subject, queue: ClusterQueue) -> dict[str, Any]:
        """``access`` with the namespaces that the selector allows and that have a LocalQueue of the ClusterQueue."""
        selector = queue.spec.namespace_selector
        if selector is None:
            instead = "as in Kueue, no namespace may use the queue; {} would allow all"
            self._tell(subject, "warning", "spec.namespaceSelector", "nothing", instead)
            nowhere = {"key": _NAME_LABEL, "operator": "DoesNotExist"}
            return {"access": {"namespaceSelector": {"matchExpressions": [nowhere]}}}
        namespaces = sorted(
            {
                local.metadata.namespace or "default"
                for local in self.kueue.local_queues.get(subject.metadata["name"], ())
            }
        )
        if not namespaces:
            instead = (
                "every namespace that spec.namespaceSelector allows may use the queue by its name"
                if selector
                else "every namespace may use the queue by its name: give it a spec.access.namespaceSelector"
            )
            self._tell(subject, "warning", "", "no LocalQueue of it among the documents", instead)
            return {"access": {"namespaceSelector": selector}} if selector else {}
        expressions = selector.get("matchExpressions") or []
        only = {"key": _NAME_LABEL, "operator": "In", "values": namespaces}
        if not isinstance(expressions, list):
            return {"access": {"namespaceSelector": selector}}  # found wrong in the converted Queue
        return {"access": {"namespaceSelector": {**selector, "matchExpressions": [*expressions, only]}}}

    def _tell_of_groups(self, subject: Subject, groups: tuple[ResourceGroup, ...]) -> None:
        kept = self.kueue.as_flavors
        flavored = [group for group in groups if any(flavor.name in kept for flavor in group.flavors)]
        others = [flavor.name for group in flavored for flavor in group.flavors if flavor.name not in kept]
        if others:
            instead = (
                "all workloads of this queue go to nodes of its other flavors; give these flavors node labels"
            )
            found = f"flavors without node labels of their own beside others: {listed(others)}"
            self._tell(subject, "warning", "spec.resourceGroups", found, instead)
        elif flavored and len(flavored) < len(groups):
            names = [flavor.name for group in flavored for flavor in group.flavors]
            resources = sorted({name for group in flavored for name in group.covered_resources})
            found = f"flavors with node labels for {listed(resources)} only"
            instead = f"also workloads that ask for none of it go to nodes of {listed(names)}"
            self._tell(subject, "warning", "spec.resourceGroups", found, instead)

    def _tell_of_flavors_above(self, subject: Subject, cohort: str, *, has_flavors: bool) -> None:
        """A Queue that names no flavors has those of the nearest queue above that does."""
        path = [cohort] if cohort else []
        while path and (above := self.parents[path[-1]]):
            path.append(above)
        found = next(filter(None, (self._flavors_below(each) for each in path)), ())
        if found and not has_flavors:
            instead = f"its workloads go to nodes of {listed(found)}, the flavors of its cohort"
            found_here = "no flavor with node labels, in a cohort that has some"
            self._tell(subject, "warning", "spec.resourceGroups", found_here, instead)

    def _flavors_below(self, cohort: str) -> tuple[str, ...]:
        """Flavors that a cohort or something below it has quota in."""
        if cohort not in self._flavors:
            names = [cohort]
            for each in names:
                names += self.children.get(each, ())
            groups = [
                self.kueue.cohorts[each][1].spec.resource_groups
                for each in names
                if each in self.kueue.cohorts
            ]
            groups += [
                self.kueue.cluster_queues[member][1].spec.resource_groups
                for each in names
                for member in self.members.get(each, ())
            ]
            found = {flavor.name for each in groups for group in each for flavor in group.flavors}
            self._flavors[cohort] = tuple(sorted(found & self.kueue.as_flavors))
        return self._flavors[cohort]

    def _tell_unsupported(self, subject: Subject, queue: ClusterQueue) -> None:
        spec = queue.spec
        for path, given in (
            ("spec.admissionChecks", bool(spec.admission_checks)),
            ("spec.admissionChecksStrategy", bool(spec.admission_checks_strategy)),
        ):
            if given:
                instead = "left out: Muster has no admission checks, workloads are admitted without them"
                self._tell(subject, "warning", path, "AdmissionChecks", instead)
        if spec.flavor_fungibility.preference == "PreemptionOverBorrowing":
            instead = "left out: where both are needed, Muster borrows rather than it preempts"
            self._tell(
                subject, "warning", "spec.flavorFungibility.preference", "PreemptionOverBorrowing", instead
            )
        if spec.admission_scope.admission_mode == "UsageBasedAdmissionFairSharing":
            instead = (
                "past use counts by user, not by LocalQueue: set spec.policy.usageHalfLife to the half-life of "
                "Kueue's configuration"
            )
            self._tell(subject, "warning", "spec.admissionScope", "UsageBasedAdmissionFairSharing", instead)
        if spec.concurrent_admission_policy is not None:
            instead = "left out: a workload is admitted in one flavor and stays there"
            self._tell(subject, "warning", "spec.concurrentAdmissionPolicy", "a policy", instead)

    def _tell(self, subject: Subject, severity: Any, path: str, found: str, instead: str) -> None:
        self.done.differences.append(difference(subject, severity, path, found, instead))


def _covered(kueue: KueueQueues) -> set[str]:
    """Resources with a quota somewhere: a ClusterQueue that does not name one of them may use nothing of it.

    ``pods`` is left out: Kueue counts them only where they are named.
    """
    found = {
        name for _, queue in kueue.cluster_queues.values() for name in _resources(queue.spec.resource_groups)
    }
    found |= {
        name for _, cohort in kueue.cohorts.values() for name in _resources(cohort.spec.resource_groups)
    }
    return found - {PODS}


def _resources(groups: tuple[ResourceGroup, ...]) -> Iterator[str]:
    for group in groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                yield quota.name
