"""preemption.json: queues, what runs in them, one who asks → whom it may have evicted.

Right is a set of victims that lets the same workload in, is at most as large and breaks no protection; nobody
exactly where nobody is wanted.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from admission.engine.nodes.table import NodeTable
from admission.engine.placement.need import size_of
from admission.engine.preemption.candidates import HeldAdmission
from admission.engine.preemption.rules import ReclaimDepth
from admission.engine.preemption.victim_set import FoundSet
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues import kind_names
from queues.admissions import Admission, AdmissionState, Seat
from queues.quota.accounts import Account, charges, flavor_charges
from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import Resources
from queues.workload import (
    AdmissionId,
    FlavorName,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
)
from tests.builders.running_work import victim_candidates
from tests.vectors import quota_tree
from tests.vectors.fair_sharing import FairSharingRights, FairSharingVictims, ShareRule

Case = dict[str, Any]

NOW = int(datetime.fromisoformat("2026-11-20T20:30:00Z").timestamp())
_WITHIN = {
    "Never": "never",
    "LowerPriority": "lower-priority",
    "LowerOrNewerEqualPriority": "lower-or-newer-equal",
}
_RECLAIM = {"Never": "never", "LowerPriority": "lower-priority", "Any": "any"}
_BY_SHARE = {"LessThanOrEqualToFinalShare": "final", "LessThanInitialShare": "initial"}


def difference(case: Case) -> str | None:
    """Where the case comes out otherwise than it wants; None: it does not."""
    victims = chosen(case)
    wanted = case["victims"]
    if bool(victims) != bool(wanted):
        return f"found {sorted(victims or ())}, expected {sorted(wanted)}"
    if victims and len(victims) > len(wanted):
        return f"found {sorted(victims)}, which are more than {sorted(wanted)}"
    return _broken(case, victims)


def _broken(case: Case, victims: list[str]) -> str | None:
    """What is wrong with these victims by the plain rules: protected ones, or it does not fit without them."""
    rules = {each["name"]: each.get("preemption", {}) for each in case["queues"]}[case["queue"]]
    usage, asked = Usage(_tree(case)), _asked(case)[0]
    for each in case.get("admitted", ()):
        if each["name"] not in victims:
            if not each.get("evicted"):
                book = {
                    Account(FlavorName(key.split("/")[0]), key.split("/")[1]): n
                    for key, n in each["usage"].items()
                }
                usage.add(quota_tree.named(each["queue"]), book)
            continue
        own = each["queue"] == case["queue"]
        policy = rules.get("withinClusterQueue" if own else "reclaimWithinCohort", "Never")
        equal_too = policy == "LowerOrNewerEqualPriority" and each.get("priority", 0) == case["incoming"].get(
            "priority", 0
        )
        if policy == "Never" or (
            policy != "Any"
            and not equal_too
            and each.get("priority", 0) >= case["incoming"].get("priority", 0)
        ):
            return f"{each['name']} is protected by {policy}"
    if victims and usage.refusal(quota_tree.named(case["queue"]), asked) is not None:
        return f"does not fit without {sorted(victims)}"
    return None


def chosen(case: Case) -> list[str]:
    """Names of the victims; none if nobody has to go, or nobody's going helps."""
    tree = _tree(case)
    asked, contested = _asked(case)
    incoming = _incoming(case)
    snapshot = _snapshot(case)
    usage = Usage(tree)
    for admission in snapshot.admissions.values():
        if admission.state is AdmissionState.OPEN:
            usage.add(admission.queue, charges(admission.seats))
    trial = Trial.open(NodeTable.build(()), usage)
    running = victim_candidates(
        snapshot, tree, {number: _part(each) for number, each in snapshot.admissions.items()}
    )
    found: list[tuple[Any, list[str]]] = []
    for depth in (ReclaimDepth.NEVER, ReclaimDepth.ANY):
        for share_rule in _ways(case):
            rights = FairSharingRights(
                workload=incoming,
                usage=usage,
                asked=contested,
                size=size_of([(Resources(case["incoming"]["requests"]), 1)]),
                depth=depth,
                share_rule=share_rule,
            )
            victims = FewestVictims(
                trial, running, rights, lambda: usage.refusal(incoming.queue, asked) is None
            )
            candidates = sorted(
                (each for of_queue in running.of_queue.values() for each in of_queue),
                key=lambda each: each.sort_key,
            )
            if victims.take_cheapest(candidates):
                names = [each.candidate.workload.name for each in victims.victims]
                cost = victims.found().cost
                found.append(((cost.victims, cost.lost_work), names))
            victims.put_all_back()
    return min(found, default=(None, []))[1]


class FewestVictims(FairSharingVictims):
    """Kueue's choice: as few victims as possible, then the least work lost."""

    def take_best(self, found: Sequence[FoundSet]) -> None:
        super().take_best([min(found, key=lambda each: (each.cost.victims, each.cost.lost_work))])


def _part(admission: Admission) -> HeldAdmission:
    seats = admission.seats
    return HeldAdmission(admission, seats, charges(seats), size_of((each.takes, 1) for each in seats))


def _ways(case: Case) -> list[ShareRule | None]:
    if case.get("mode") != "fair":
        return [None]
    strategies = case.get("strategies") or list(_BY_SHARE)
    allowed = {_BY_SHARE[each]: True for each in strategies}
    return [None, ShareRule(final=allowed.get("final", False), initial=allowed.get("initial", False))]


def _tree(case: Case) -> QueueTree:
    queues = quota_tree.queues(case)
    members = {quota_tree.cohort_named(each["name"]): each for each in quota_tree.cohorts(case)}
    members |= {quota_tree.named(each["name"]): each for each in case["queues"]}
    known = {key for each in members.values() for key in each.get("quotas") or {}}
    known |= {f"{account.flavor}/{account.resource}" for account in _asked(case)[0] if account.flavor}
    for name, each in members.items():
        queues[name] = _with_zeros(queues[name], known)
        queues[name] = _with_policy(queues[name], each, fair=case.get("mode") == "fair")
    tree = QueueTree.build(queues, None)
    assert not tree.problems, tree.problems
    return tree


def _with_zeros(queue: Queue, known: set[str]) -> Queue:
    """A quota that is not written is none, and no share by weight."""
    flavors = dict(queue.flavors)
    for key in sorted(known):
        flavor, _, resource = key.partition("/")
        limits = flavors.get(FlavorName(flavor), Limits())
        if resource not in limits.deserved:
            flavors[FlavorName(flavor)] = replace(limits, deserved={**limits.deserved, resource: 0})
    return replace(queue, flavors=flavors)


def _with_policy(queue: Queue, written: dict[str, Any], *, fair: bool) -> Queue:
    rules = written.get("preemption", {})
    # Kueue's fair sharing goes by shares instead.
    borrow = {} if fair else rules.get("borrowWithinCohort", {})
    policy = QueuePolicy(
        within_queue=_WITHIN[rules.get("withinClusterQueue", "Never")],
        reclaim=_RECLAIM[rules.get("reclaimWithinCohort", "Never")],
        borrow_max_priority=borrow.get("maxPriorityThreshold", 1 << 31)
        if borrow.get("policy", "Never") != "Never"
        else None,
    )
    # Weights count against one another only, so thousandths of them do as well.
    weight = Resources.parse({"weight": written.get("weight", "1")})["weight"]
    return replace(queue, policy=policy, weight=weight)


def _asked(case: Case) -> tuple[dict[Account, int], dict[Account, int]]:
    """What is asked, and what of it is contested."""
    requests = case["incoming"]["requests"]
    pod_sets = case.get("assignment", {}).get("PodSets")
    if not pod_sets:
        flavor = FlavorName(case.get("flavor", "default"))
        asked = {
            each: units
            for each, units in flavor_charges({flavor: Resources(requests)}).items()
            if each.flavor
        }
        return asked, asked
    asked, contested = {}, {}
    for resource, units in requests.items():
        asking = [pods["Flavors"][resource] for pods in pod_sets if resource in pods["Flavors"]]
        for each in asking:
            account = Account(FlavorName(each["Name"]), resource)
            if units:
                asked[account] = asked.get(account, 0) + units // len(asking)
                if each["Mode"] == "Preempt":
                    contested[account] = asked[account]
    return asked, contested


def _incoming(case: Case) -> Workload:
    written = case["incoming"]
    return _workload(
        written, case["queue"], arrival=_seconds(written["created"]) if "created" in written else NOW
    )


def _workload(written: dict[str, Any], queue: str, arrival: int) -> Workload:
    takes = Resources(written.get("requests", {}))
    return Workload(
        key=WorkloadKey(kind_names.JOB, written.get("name", "incoming")),
        namespace="vectors",
        name=written.get("name", "incoming"),
        queue=QueueName(quota_tree.named(queue)),
        priority=written.get("priority", 0),
        arrival=arrival,
        created=arrival,
        minimum=1,
        pod_sets=(PodSet(name="main", count=1, takes=takes),),
    )


def _snapshot(case: Case) -> Snapshot:
    holders: dict[WorkloadKey, Workload] = {}
    admissions: dict[AdmissionId, Admission] = {}
    for number, written in enumerate(case.get("admitted", ())):
        reserved = _seconds(written["reserved_at"]) if "reserved_at" in written else NOW
        workload = _workload(
            written, written["queue"], _seconds(written["created"]) if "created" in written else reserved
        )
        holders[workload.key] = workload
        flavors: dict[str, dict[str, int]] = {}
        for key, units in written["usage"].items():
            flavor, _, resource = key.partition("/")
            flavors.setdefault(flavor, {})[resource] = units
        seats = tuple(
            Seat(
                pod_set="main",
                ordinal=place,
                node=NodeName(""),
                flavor=FlavorName(flavor),
                takes=Resources(takes),
            )
            for place, (flavor, takes) in enumerate(sorted(flavors.items()))
        )
        id_ = AdmissionId(number + 1)
        admissions[id_] = Admission(
            id=id_,
            workload=workload.key,
            namespace=workload.namespace,
            name=workload.name,
            queue=workload.queue,
            priority=workload.priority,
            seats=seats,
            state=AdmissionState.EVICTING if written.get("evicted") else AdmissionState.OPEN,
            opened_at=reserved,
        )
    return Snapshot(
        now=NOW, queues={}, nodes=NodeTable.build(()), pending={}, admissions=admissions, holders=holders
    )


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
