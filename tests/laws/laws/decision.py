"""The laws themselves: each takes a snapshot, decides, and raises AssertionError where the law is broken.

They check by the plain rules: sums and comparisons over the snapshot and the plan, none of the engine's own
code but the queue tree's formula, which the conformance vectors hold.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from admission.engine import decide as engine
from admission.engine.memo import EngineState, Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.placement import gangs
from admission.engine.placement import need as need_module
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.plan import Plan, Reason
from queues.quota.accounts import Account, charges, flavor_charges
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import NOTHING
from queues.workload import NodeFilter, NodeName, QueueName, Workload, WorkloadKey
from tests.builders.device_numbers import without_numbers
from tests.laws.worlds.plan_effects import apply, given, seats_after
from tests.laws.worlds.snapshots import LEVELS, TAINT


def plan_of(snapshot: Snapshot) -> Plan:
    """The plan without any memo."""
    return engine.decide(snapshot, Memo())[0]


def books_before_admits(snapshot: Snapshot, plan: Plan) -> Usage:
    """What queues use when frees and adoptions are posted and nothing is admitted yet."""
    nodes = snapshot.nodes
    flavors = {name: nodes.capacity(name) for name in set(nodes.layout.flavors) if name}
    usage = Usage(QueueTree.build(snapshot.queues, nodes.capacity(), flavors))
    freed = {free.admission: free.seats for free in plan.frees}
    for number, admission in snapshot.admissions.items():
        gone = admission.ended | freed.get(number, frozenset())
        left = [seat for index, seat in enumerate(admission.seats) if index not in gone]
        usage.add(admission.queue, charges(left))
    for adopt in plan.adopts:
        usage.add(adopt.admit.queue, charges(adopt.admit.seats))
    return usage


def no_queue_above_a_limit(snapshot: Snapshot) -> None:
    """After each admit, in order: no queue on its path is above its capability where the admit adds to it."""
    plan = plan_of(snapshot)
    usage = books_before_admits(snapshot, plan)
    for admit in plan.admits:
        amounts = charges(admit.seats)
        before = {
            (name, account): usage.counted(name, account)
            for name in usage.tree.paths[admit.queue]
            for account in amounts
        }
        usage.add(admit.queue, amounts)
        for (name, account), counted in before.items():
            limit = usage.tree.capability(name, account)
            now = usage.counted(name, account)
            assert limit is None or now <= max(limit, counted), (name, account, limit, now)


def no_user_above_a_limit(snapshot: Snapshot) -> None:
    """After each admit, in order: its user uses no more in any queue on its path than one user may use there, where the
    admit adds to it."""
    plan = plan_of(snapshot)
    tree = books_before_admits(snapshot, plan).tree
    used: Counter[tuple[QueueName, str, str]] = Counter()

    def post(queue: QueueName, user: str, seats: Iterable[Seat], sign: int = 1) -> None:
        for name in tree.paths.get(queue, ()):
            for seat in seats:
                for resource, units in seat.takes.items():
                    used[name, user, resource] += sign * units

    freed = {free.admission: free.seats for free in plan.frees}
    for number, admission in snapshot.admissions.items():
        gone = admission.ended | freed.get(number, frozenset())
        left = [seat for index, seat in enumerate(admission.seats) if index not in gone]
        post(admission.queue, admission.user, left)
    for adopt in plan.adopts:
        of = snapshot.pending.get(adopt.admit.workload)
        post(adopt.admit.queue, of.user if of is not None else "", adopt.admit.seats)
    for admit in plan.admits:
        user = snapshot.pending[admit.workload].user
        post(admit.queue, user, admit.seats)
        asked = {resource for seat in admit.seats for resource, units in seat.takes.items() if units}
        for name in tree.paths[admit.queue]:
            for resource, most in tree.queues[name].max_per_user.items():
                assert resource not in asked or used[name, user, resource] <= most, (name, user, resource)


def no_declared_run_time_above_a_limit(snapshot: Snapshot) -> None:
    """What is admitted and held nothing before declares no longer run time than any queue on its path allows."""
    plan = plan_of(snapshot)
    tree = books_before_admits(snapshot, plan).tree
    for admit in plan.admits:
        declared = snapshot.pending[admit.workload].run_time
        limits = [tree.queues[name].max_run_time for name in tree.paths[admit.queue]]
        for most in limits if declared is not None and not admit.elastic else ():
            assert most is None or declared is None or declared <= most, (admit.workload, declared, most)


def no_node_above_what_it_has(snapshot: Snapshot) -> None:
    """What is admitted to a node fits into what is free there after the frees."""
    plan = plan_of(snapshot)
    returned = {}
    for free in plan.frees:
        for index in free.seats:
            seat = snapshot.admissions[free.admission].seats[index]
            returned[seat.node] = returned.get(seat.node, NOTHING) + seat.takes
    for node, takes in given(plan).items():
        allocatable, used = snapshot.nodes[node]
        free_now = allocatable - used + returned.get(node, NOTHING)
        assert all(units <= free_now.get(name) for name, units in takes.items()), (node, takes, free_now)


def gangs_whole_or_nothing(snapshot: Snapshot) -> None:
    """Who is admitted has its minimum afterwards, in all and per pod set, and no seat twice."""
    plan = plan_of(snapshot)
    held = seats_after(snapshot, plan)
    for admit in plan.admits:
        workload = snapshot.pending[admit.workload]
        assert admit.seats
        counts = Counter(seat.pod_set for seat in held[admit.workload])
        for pods in workload.pod_sets:
            assert counts[pods.name] + len(pods.done) >= pods.minimum
        done = sum(len(pods.done) for pods in workload.pod_sets)
        assert counts.total() + done >= workload.minimum
        places = Counter((seat.pod_set, seat.ordinal) for seat in held[admit.workload])
        assert places.most_common(1)[0][1] == 1
        for seat in admit.seats:
            pods = workload.pod_set(seat.pod_set)
            assert pods is not None
            assert seat.ordinal in pods.wanted()
            assert without_numbers(seat.takes) == pods.takes
            assert seat.flavor == snapshot.nodes.flavor(seat.node)


def in_the_plan_or_one_reason(snapshot: Snapshot) -> None:
    """Pending = admitted now + waiting with a reason, nobody in both. A gang begins once."""
    plan = plan_of(snapshot)
    admitted = [admit.workload for admit in plan.admits]
    gangs = [admit.workload for admit in plan.admits if not admit.elastic]
    assert len(gangs) == len(set(gangs))
    assert not set(admitted) & set(plan.reasons)
    assert set(admitted) | set(plan.reasons) == set(snapshot.pending)
    for reason in plan.reasons.values():
        assert reason.message


def required_topology_kept(snapshot: Snapshot) -> None:
    """All pods of a set, those seated earlier included, lie in one domain of its required level."""
    plan = plan_of(snapshot)
    held = seats_after(snapshot, plan)
    for admit in plan.admits:
        for pods in snapshot.pending[admit.workload].pod_sets:
            key = pods.required_topology
            if key is None or all(seat.pod_set != pods.name for seat in admit.seats):
                continue
            nodes = [seat.node for seat in held[admit.workload] if seat.pod_set == pods.name]
            assert _in_one_domain(snapshot, nodes, key)


def parts_kept(snapshot: Snapshot) -> None:
    """Members of a part, those seated earlier included, lie in one domain of its level; new ones come whole."""
    plan = plan_of(snapshot)
    held = seats_after(snapshot, plan)
    for admit in plan.admits:
        for pods in snapshot.pending[admit.workload].pod_sets:
            new = {seat.ordinal for seat in admit.seats if seat.pod_set == pods.name}
            at = {seat.ordinal: seat.node for seat in held[admit.workload] if seat.pod_set == pods.name}
            for part in pods.partitions[:1]:
                for number in {ordinal // part.size for ordinal in new}:
                    wanted = {ordinal for ordinal in pods.wanted() if ordinal // part.size == number}
                    assert wanted <= at.keys()
            for part in pods.partitions:
                for number in {ordinal // part.size for ordinal in new} if part.required else ():
                    nodes = [node for ordinal, node in at.items() if ordinal // part.size == number]
                    assert _in_one_domain(snapshot, nodes, part.level)


def sets_together(snapshot: Snapshot) -> None:
    """All pods of sets that go together lie in one domain of the level they require, and of the one around all."""
    plan = plan_of(snapshot)
    held = seats_after(snapshot, plan)
    for admit in plan.admits:
        sets = snapshot.pending[admit.workload].pod_sets
        first = sets[0]
        nodes = [seat.node for seat in held[admit.workload]]
        if first.together is not None and first.required_topology is not None:
            assert _in_one_domain(snapshot, nodes, first.required_topology)
        if first.within is not None and first.within_required:
            assert _in_one_domain(snapshot, nodes, first.within)


def ports_alone(snapshot: Snapshot) -> None:
    """No two pods with the same host port are admitted to one node."""
    plan = plan_of(snapshot)
    taken: Counter[NodeName] = Counter()
    for admit in plan.admits:
        for seat in admit.seats:
            pods = snapshot.pending[admit.workload].pod_set(seat.pod_set)
            assert pods is not None
            taken[seat.node] += bool(pods.ports)
    assert all(count <= 1 for count in taken.values())


def _in_one_domain(snapshot: Snapshot, nodes: list[NodeName], key: str) -> bool:
    # A node is a domain of its own, even one that no rack is known of.
    levels = [HOST] if key == HOST else LEVELS[: LEVELS.index(key) + 1]
    there = [node for node in nodes if node in snapshot.nodes.layout.position]
    domains = {tuple(_label(snapshot, node, level) for level in levels) for node in there}
    return len(domains) == 1 and None not in next(iter(domains))


def only_allowed_nodes(snapshot: Snapshot) -> None:
    """Selector, taints, health, and the queue's flavors."""
    plan = plan_of(snapshot)
    tree = books_before_admits(snapshot, plan).tree
    layout = snapshot.nodes.layout
    for admit in plan.admits:
        flavors = tree.flavors(admit.queue)
        for seat in admit.seats:
            pods = snapshot.pending[admit.workload].pod_set(seat.pod_set)
            assert pods is not None
            column = layout.position[seat.node]
            assert layout.usable[column]
            assert _allows(snapshot, pods.nodes, seat.node)
            assert not flavors or seat.flavor in flavors


def _lacks_pods_of_its_minimum(snapshot: Snapshot, key: WorkloadKey) -> bool:
    """Whether a gang that runs has fewer pods than have to start together."""
    held = Counter(
        seat.pod_set
        for one in snapshot.admissions.values()
        for number, seat in enumerate(one.seats)
        if one.workload == key and number not in one.ended
    )
    gang = snapshot.pending[key]
    return bool(held) and (
        held.total() < gang.minimum or any(held[each.name] < each.minimum for each in gang.pod_sets)
    )


def stopped_queues_admit_nothing(snapshot: Snapshot) -> None:
    """No workload is admitted into a queue that is paused, closed, wrong, unknown or not a leaf, or that its namespace
    may not use, here or above. Where a budget is used up only pods of running gangs are replaced."""
    plan = plan_of(snapshot)
    for admit in plan.admits:
        queue: QueueName | None = admit.queue
        assert queue in snapshot.queues
        assert all(each.parent != queue for each in snapshot.queues.values())
        for _ in range(10):
            if queue in (ROOT, None):
                break
            assert queue in snapshot.queues
            each = snapshot.queues[queue]
            assert not each.paused
            assert not each.closed
            seated = {one.workload for one in snapshot.admissions.values()}
            seated |= {one.workload for one in snapshot.unbooked}
            if each.spent is not None and admit.workload not in {one.workload for one in snapshot.unbooked}:
                assert _lacks_pods_of_its_minimum(snapshot, admit.workload)
            if each.hold is not None:
                assert admit.workload in seated or snapshot.pending[admit.workload].was_admitted
            labels = snapshot.namespaces.get(admit.namespace, {})
            assert all(labels.get(one.key) in one.values for one in each.namespace_selector or ())
            queue = each.parent
        else:
            raise AssertionError(f"{admit.queue} is in a cycle")
        workload = snapshot.pending[admit.workload]
        assert workload.obstacle is None
        assert workload.not_before <= snapshot.now


def independent_of_order(snapshot: Snapshot, seed: int = 1) -> None:
    """The same things in another order give the same plan."""
    chance = random.Random(seed)
    layout = snapshot.nodes.layout
    nodes = [
        Node(
            name=name,
            allocatable=snapshot.nodes[name][0],
            used=snapshot.nodes[name][1],
            labels={
                level: str(label) for level in LEVELS if (label := _label(snapshot, name, level)) is not None
            },
            taints=layout.taints.of(layout.position[name]),
            usable=bool(layout.usable[layout.position[name]]),
            flavor=snapshot.nodes.flavor(name),
            devices=layout.devices.get(name, ()),
        )
        for name in layout.names
    ]
    chance.shuffle(nodes)

    def shuffled(items: Any) -> Any:
        return dict(chance.sample(list(items.items()), len(items)))

    twin = replace(
        snapshot,
        nodes=NodeTable.build(nodes, [LEVELS]),
        queues=shuffled(snapshot.queues),
        pending=shuffled(snapshot.pending),
        admissions=shuffled(snapshot.admissions),
        ended=shuffled(snapshot.ended),
        unbooked=tuple(chance.sample(snapshot.unbooked, len(snapshot.unbooked))),
    )
    assert plan_of(twin) == plan_of(snapshot)


def reaches_a_fixed_point(snapshot: Snapshot) -> None:
    """Nothing arriving, turns come to rest: admissions only grow, so at most one turn per missing seat."""
    missing = sum(pods.count for workload in snapshot.pending.values() for pods in workload.pod_sets)
    for _ in range(missing + 2):
        plan = plan_of(snapshot)
        if not plan.changes_ledger():
            return
        snapshot = apply(snapshot, plan)
    raise AssertionError("still changing")


def nobody_who_fits_is_left_out(snapshot: Snapshot) -> None:
    """At rest, a waiting single pod with no topology would not fit on any node, or its queue stops it."""
    plan = plan_of(snapshot)
    for _ in range(40):
        if not plan.changes_ledger():
            break
        snapshot = apply(snapshot, plan)
        plan = plan_of(snapshot)
    usage = books_before_admits(snapshot, plan)
    for key, reason in plan.reasons.items():
        workload = snapshot.pending[key]
        if (
            reason.code == "NoFit"
            and _is_single_plain_pod(workload)
            and not usage.tree.flavors(workload.queue)
        ):
            takes = workload.pod_sets[0].takes
            for name in snapshot.nodes.layout.names:
                allocatable, used = snapshot.nodes[name]
                free = allocatable - used
                fits = all(units <= free.get(resource) for resource, units in takes.items())
                usable = snapshot.nodes.layout.usable[snapshot.nodes.layout.position[name]]
                assert not (fits and usable and _allows(snapshot, workload.pod_sets[0].nodes, name)), name
        if reason.code == "QueueLimit":
            account_hits = usage.refusal(workload.queue, _most(snapshot, workload, key))
            assert account_hits is not None


def _most(snapshot: Snapshot, workload: Workload, key: WorkloadKey) -> dict[Account, int]:
    """Everything the workload could ask for: if this is allowed, a limit is no reason to wait."""
    flavor = snapshot.queues[workload.queue].flavors
    takes = workload.asks()
    held = [seat for a in snapshot.admissions.values() if a.workload == key for seat in a.holding()]
    for seat in held:
        takes = takes - seat.takes
    names = list(flavor) or sorted(set(snapshot.nodes.layout.flavors))
    merged: dict[Account, int] = {}
    for name in names:
        merged |= flavor_charges({name: takes})
    return merged


def _is_single_plain_pod(workload: Workload) -> bool:
    pods = workload.pod_sets[0]
    return len(workload.pod_sets) == 1 and pods.count == 1 and pods.required_topology is None


def _label(snapshot: Snapshot, node: NodeName, level: str) -> str | None:
    layout = snapshot.nodes.layout
    labels = layout.labels.of(layout.position[node])
    return labels.get(level, node if level == HOST else None)


def _allows(snapshot: Snapshot, nodes: NodeFilter, name: NodeName) -> bool:
    taints = snapshot.nodes.layout.taints.of(snapshot.nodes.layout.position[name])
    if any(taint == TAINT for taint in taints) and not nodes.tolerations:
        return False
    return all(_label(snapshot, name, key) == value for key, value in nodes.selector)


def memo_decides_nothing(snapshot: Snapshot) -> None:
    """A memo from other worlds, related or not, changes no plan."""
    first = replace(snapshot, pending={}, admissions={}, unbooked=(), ended={}, evictable={})
    plan, memo = engine.decide(first, Memo())
    for turn in range(3):
        assert plan == plan_of(snapshot) or turn == 0
        plan, memo = engine.decide(snapshot, memo)
        assert plan == plan_of(snapshot)
        snapshot = apply(snapshot, plan)
        plan = plan_of(snapshot)


def refusals_leave_no_trace(snapshot: Snapshot) -> None:
    """Trying a workload and refusing it changes neither the free amounts nor the books."""
    trial = Trial.open(snapshot.nodes, EngineState.of(snapshot).usage.copy())
    for workload in snapshot.pending.values():
        if workload.queue not in snapshot.queues:
            continue
        free = trial.free.copy()
        books = {queue: dict(trial.usage.book(queue)) for queue in trial.tree.queues}
        need = need_module.missing_members(workload, ())
        if isinstance(gangs.admit(workload, need, trial), Reason):
            assert (trial.free == free).all()
            assert books == {queue: dict(trial.usage.book(queue)) for queue in trial.tree.queues}
