"""Rules for Queues: guarantee ≤ deserved ≤ capability, and parents that form a tree."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

from queues.api.names import DEFAULT_QUEUE
from queues.api.reading.user_values import LONGEST_LABEL_VALUE, SUBDOMAIN
from queues.api.resource_names import problem_of_limit
from queues.api.types.queue import FlavorLimits, QueueDocument
from queues.api.validation.known import NOTHING_KNOWN, Known
from queues.api.validation.loan_rules import loan_violations
from queues.api.validation.violations import (
    Violation,
    entry_path,
    in_order,
    limit_violations,
    selector_violations,
)
from queues.errors import InvalidQuantity
from queues.plugins.interface import PolicySort
from queues.plugins.registry import known_policies, names_of
from queues.quota.queue import MOST_LEVELS, ROOT, path_below_root
from queues.quota.queue import Queue as DomainQueue
from queues.quota.queue_policies import parameter_problems
from queues.resources import Resources, amount, show
from queues.text_format import counted, excerpt
from queues.workload import QueueName


def queue_violations(queue: QueueDocument, known: Known = NOTHING_KNOWN) -> list[Violation]:
    """Violations of a Queue. An older version of it may be among those that are known."""
    queues, flavors = known.queues, known.flavors
    found = list(_name(queue))
    spec = queue.spec
    plain = FlavorLimits(
        name="all", guarantee=spec.guarantee.resource, deserved=spec.deserved, capability=spec.capability
    )
    found += _limits(plain, "spec", guarantee="guarantee.resource", of_volcano=True)
    names: set[str] = set()
    for index, flavor in enumerate(spec.flavors):
        found += _limits(flavor, f"spec.flavors[{index}]")
        if flavor.name in names:
            path = f"spec.flavors[{index}].name"
            found.append(Violation(path, excerpt(flavor.name), "a flavor that is not listed before"))
        elif flavors is not None and flavor.name not in flavors:
            path = f"spec.flavors[{index}].name"
            expected = "the name of a ResourceFlavor that exists; until it does, no node is of this flavor"
            found.append(Violation(path, excerpt(flavor.name), expected, tolerable=True, missing=flavor.name))
        names.add(flavor.name)
    found += _access(queue)
    found += _budget(queue)
    found += loan_violations(queue, queues)
    found += _provisioning(queue)
    found += _policies(queue)
    if queue.metadata.name == ROOT:
        found += _root(queue)
    elif queues is not None and all(violation.tolerable for violation in found):
        found += _tree(queue.to_domain(), queues)
    return found


def _policies(queue: QueueDocument) -> Iterator[Violation]:
    """Policies that this process lacks, and parameters that a policy refuses."""
    policy, known = queue.spec.policy, known_policies()
    named = {
        PolicySort.ORDER: policy.order,
        PolicySort.PLACEMENT: policy.placement,
        PolicySort.VICTIM_COST: None if policy.preemption is None else policy.preemption.cost,
        PolicySort.FLAVORS: None if policy.flavor_choice is None else policy.flavor_choice.by,
    }
    for sort, name in named.items():
        if name is None or (name in known and not known[name].why_not(sort)):
            continue
        expected = (
            f"one of {', '.join(names_of(sort))}, or a plug-in that Muster's image has; until it has it, "
        )
        expected += "policy.onPluginFailure says what becomes of work"
        if name in known:
            expected = f"a policy that can be used: {known[name].why_not(sort)}"
        yield Violation(f"spec.{sort}", excerpt(name), expected, tolerable=True)
    stated = queue.to_domain()
    for name, problem in parameter_problems(stated):
        found = excerpt(policy.parameters[name])
        yield Violation(f"spec.policy.parameters.{name}", found, problem, may_stay=True)


def queue_deletion_violations(name: str, queues: Mapping[str, DomainQueue]) -> list[Violation]:
    """Violations of the deletion of a Queue: first queues and queues with children stay."""
    if name in (DEFAULT_QUEUE, ROOT):
        return [Violation("metadata.name", name, "another queue: this one cannot be deleted")]
    children = sorted(other.name for other in queues.values() if other.parent == name)
    if children:
        found = f"{name}, which has {counted(len(children), 'queue')} below it: {', '.join(children)}"
        return [Violation("metadata.name", found, "a queue without children: delete or move them first")]
    return []


def _name(queue: QueueDocument) -> Iterator[Violation]:
    name, parent = queue.metadata.name, queue.spec.parent
    if len(name) > LONGEST_LABEL_VALUE:
        expected = (
            f"at most {LONGEST_LABEL_VALUE}: work names its queue in a label, which takes no longer value"
        )
        yield Violation("metadata.name", f"{len(name)} characters", expected, may_stay=True)
    for path, text in (("metadata.name", name), ("spec.parent", parent)):
        if text and SUBDOMAIN.fullmatch(text) is None:
            yield Violation(path, excerpt(text), "a DNS subdomain: lower case letters, digits, - and .")
    if not name:
        yield Violation("metadata.name", "nothing", "a name")
    elif parent == name:
        yield Violation("spec.parent", excerpt(parent), "another queue than this one itself")


def _limits(
    limits: FlavorLimits, path: str, guarantee: str = "guarantee", *, of_volcano: bool = False
) -> Iterator[Violation]:
    """Violations of limits. ``of_volcano``: in fields of Volcano, which takes any name of a resource there."""
    amounts = (
        (guarantee, limits.guarantee),
        ("deserved", limits.deserved),
        ("capability", limits.capability),
    )
    for name, quantities in amounts:
        yield from limit_violations(quantities, f"{path}.{name}", tolerable=of_volcano)
    for (name, smaller), (other, larger) in combinations(amounts, 2):
        yield from in_order(smaller, larger, (name, other), path)


def _access(queue: QueueDocument) -> Iterator[Violation]:
    access = queue.spec.access
    yield from selector_violations(access.namespace_selector, "spec.access.namespaceSelector")
    yield from limit_violations(access.max_per_user, "spec.access.maxPerUser")
    for index, admin in enumerate(access.admins):
        if (admin.user is None) == (admin.group is None):
            yield Violation(
                f"spec.access.admins[{index}]", excerpt(admin.document()), "either a user or a group"
            )


def _budget(queue: QueueDocument) -> Iterator[Violation]:
    hours = {} if queue.spec.budget is None else queue.spec.budget.hours
    for name, text in hours.items():
        path = entry_path("spec.budget.hours", name)
        if problem := problem_of_limit(name):
            yield Violation(path, *problem)
            continue
        try:
            is_usable = amount(name, text) > 0
        except InvalidQuantity:
            is_usable = False
        if not is_usable:
            expected = (
                'hours of it, more than 0, such as "1000" or "0.5"; policy.paused admits nothing at all'
            )
            yield Violation(path, excerpt(text), expected)


def _provisioning(queue: QueueDocument) -> Iterator[Violation]:
    rules = queue.to_domain().provisioning
    if rules is None:
        return
    if rules.class_name and SUBDOMAIN.fullmatch(rules.class_name) is None:
        expected = "a DNS subdomain such as check-capacity.autoscaling.x-k8s.io, or nothing"
        yield Violation("spec.policy.provisioning.className", excerpt(rules.class_name), expected)
    if rules.timeout == 0:
        expected = "a duration of a second or more: no autoscaler answers at once"
        yield Violation("spec.policy.provisioning.timeout", "0", expected)


def _root(queue: QueueDocument) -> Iterator[Violation]:
    spec = queue.spec
    if spec.parent:
        yield Violation("spec.parent", excerpt(spec.parent), "nothing: root is the top of the tree")
    for field, value in (
        ("guarantee", spec.guarantee.resource),
        ("deserved", spec.deserved),
        ("capability", spec.capability),
    ):
        if value:
            expected = "nothing: root has what the nodes can allocate"
            yield Violation(f"spec.{field}", excerpt(value), expected, tolerable=True)


def _tree(queue: DomainQueue, queues: Mapping[str, DomainQueue]) -> Iterator[Violation]:
    parent = queue.parent or ROOT
    above = queues.get(parent)
    cycle = _path_to_cycle(queue, queues)
    if cycle:
        found = f"{excerpt(str(parent))}, by way of {' → '.join(cycle)}"
        yield Violation("spec.parent", found, "a queue that is not below this one")
        return
    yield from _levels(queue, queues)
    # Root has no guarantee of its own: its children's guarantees are not checked against it.
    if parent != ROOT:
        if above is None:
            expected = "the name of a Queue that exists"
            yield Violation("spec.parent", excerpt(str(parent)), expected, missing=parent)
        else:
            siblings = [
                other for other in queues.values() if other.parent == parent and other.name != queue.name
            ]
            yield from _guarantees(above, [*siblings, queue], "spec.guarantee")
            yield from _ceiling(queue, queues)
    children = [other for other in queues.values() if other.parent == queue.name]
    yield from _guarantees(queue, children, "spec.guarantee")


def _levels(queue: DomainQueue, queues: Mapping[str, DomainQueue]) -> Iterator[Violation]:
    """The violation of a queue that is too deep, or that takes queues below it too deep."""
    level = 1 + len(path_below_root(queue.parent, queues.get))
    deepest, last = queue.name, level
    below, lowest = defaultdict[str, list[QueueName]](list), [queue.name]
    for each in queues.values():
        if each.name not in (ROOT, queue.name):
            below[each.parent or ROOT].append(each.name)
    while lowest := [child for name in lowest for child in below[name]]:
        deepest, last = lowest[0], last + 1
    known = queues.get(queue.name)
    stays = known is not None and (known.parent or ROOT) == (queue.parent or ROOT)
    if last > MOST_LEVELS and not stays:
        found = f"{excerpt(str(queue.parent or ROOT))}, with which queue {deepest} is at level {last}"
        expected = f"a queue at level {MOST_LEVELS - (last - level) - 1} below root at most"
        yield Violation("spec.parent", found, expected)


def _path_to_cycle(queue: DomainQueue, queues: Mapping[str, DomainQueue]) -> list[QueueName]:
    """The path from a queue up to the first queue that it meets twice; empty: there is none."""
    known = {**queues, queue.name: queue}
    path = path_below_root(queue.name, known.get)
    again = known[path[-1]].parent
    return [*path, again] if again in path else []


def _guarantees(parent: DomainQueue, children: list[DomainQueue], path: str) -> Iterator[Violation]:
    flavors = {flavor for child in children for flavor in child.flavors}
    guarantees: list[tuple[str, Resources, list[Resources]]] = [
        ("", parent.limits.guarantee, [child.limits.guarantee for child in children])
    ]
    for flavor in sorted(flavors):
        own = parent.flavors[flavor].guarantee if flavor in parent.flavors else Resources()
        below = [child.flavors[flavor].guarantee for child in children if flavor in child.flavors]
        guarantees.append((flavor, own, below))
    for flavor_name, own, below in guarantees:
        for resource in sorted({resource for amounts in below for resource in amounts}):
            together = sum(amounts[resource] for amounts in below)
            if together > own[resource]:
                resource_name = f"{resource} of flavor {flavor_name}" if flavor_name else resource
                total, most = show(resource, together), show(resource, own[resource])
                if resource not in own:
                    most = f"{most} (it states no guarantee of this, which counts as 0)"
                found = f"guarantees of {total} {resource_name} of the queues below {parent.name} together"
                expected = f"at most {most}, its own guarantee: lower theirs or raise it"
                yield Violation(path, found, expected)


def _ceiling(queue: DomainQueue, queues: Mapping[str, DomainQueue]) -> Iterator[Violation]:
    """Capabilities above the one of an ancestor: they are never reached."""
    left = dict(queue.limits.capability)
    for name in path_below_root(queue.parent, queues.get):
        capability = queues[name].limits.capability
        for resource in sorted(left.keys() & capability.keys()):
            most = capability[resource]
            if left.pop(resource) > most:
                yield Violation(
                    f"spec.capability[{resource}]",
                    show(resource, queue.limits.capability[resource]),
                    f"at most {show(resource, most)}, the capability of {name}, which counts too",
                    tolerable=True,
                )
