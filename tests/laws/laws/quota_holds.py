"""Laws about quota that is held for gangs without their pods, as functions that raise. Worlds: ``holding_worlds``."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Claim, Seat
from queues.quota.accounts import charges
from queues.quota.usage import Usage
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import NO_FLAVOR, NodeName, Obstacle, QuotaHold, Workload, WorkloadKey
from tests.laws.laws.decision import books_before_admits, plan_of
from tests.laws.worlds.plan_effects import apply
from tests.laws.worlds.snapshots import CPU, FLAVORS, GPU, NOW, snapshots

_LACKS_PODS = Obstacle(ReasonCode.NOT_ENOUGH_PODS, "0 of 4 pods exist")
_AMOUNTS = st.integers(0, 6).map(lambda count: Resources({GPU: count * 1000, CPU: 1000}))


@st.composite
def holding_worlds(draw: st.DrawFn) -> Snapshot:
    """Small worlds with some gangs that have no pods yet, and claims of some of them, ended ones among them."""
    snapshot = draw(snapshots())
    pending, claims = dict(snapshot.pending), {}
    queues = sorted(snapshot.queues)
    for number in range(draw(st.integers(1, 3))):
        workload = Workload(
            key=WorkloadKey(kind_names.POD_GROUP, f"g{number}"),
            namespace=draw(st.sampled_from(["team", "guests"])),
            name=f"g{number}",
            queue=draw(st.sampled_from(queues)),
            priority=draw(st.integers(0, 1)),
            arrival=100 + number,
            created=NOW,
            minimum=4,
            pod_sets=(),
            generation="1",
            obstacle=draw(st.sampled_from([_LACKS_PODS] * 5 + [Obstacle(ReasonCode.INVALID_SPEC, "no")])),
            hold=QuotaHold(draw(_AMOUNTS), 60),
        )
        pending[workload.key] = workload
        if draw(st.booleans()):
            claims[workload.key] = draw(_claims(workload))
    return replace(snapshot, pending=pending, claims=claims)


@st.composite
def _claims(draw: st.DrawFn, workload: Workload) -> Claim:
    assert workload.hold is not None
    takes = draw(st.sampled_from([workload.hold.takes] * 3 + [Resources({GPU: 1000})]))
    flavor = draw(st.sampled_from([NO_FLAVOR, *FLAVORS]))
    return Claim(
        workload=workload.key,
        queue=workload.queue,
        generation=draw(st.sampled_from(["1"] * 3 + ["0"])),
        seats=(Seat(pod_set="", ordinal=0, node=NodeName(""), flavor=flavor, takes=takes),),
        victims=(),
        until=NOW + draw(st.sampled_from([-1, 0, 30])),
    )


def no_quota_is_promised_above_a_limit(snapshot: Snapshot) -> None:
    """After all admits of the turn, and beside what is held already, each new claim on quota is within all limits."""
    plan = plan_of(snapshot)
    usage = books_before_admits(snapshot, plan)
    for admit in plan.admits:
        usage.add(admit.queue, charges(admit.seats))
    for claim in _held(snapshot, plan.dropped).values():
        usage.add(claim.queue, charges(claim.seats))
    for claim in plan.claims:
        if claim.is_quota_only:
            _add_within_limits(usage, claim)


def _add_within_limits(usage: Usage, claim: Claim) -> None:
    amounts = charges(claim.seats)
    places = [(name, account) for name in usage.tree.paths[claim.queue] for account in amounts]
    before = {place: usage.counted(*place) for place in places}
    usage.add(claim.queue, amounts)
    for (name, account), counted in before.items():
        limit = usage.tree.capability(name, account)
        now = usage.counted(name, account)
        assert limit is None or now <= max(limit, counted), (name, account, limit, now)


def _held(snapshot: Snapshot, dropped: tuple[WorkloadKey, ...]) -> Mapping[WorkloadKey, Claim]:
    return {
        key: claim
        for key, claim in snapshot.claims.items()
        if key not in dropped and claim.until >= snapshot.now
    }


def what_is_held_is_not_given_to_others(snapshot: Snapshot) -> None:
    """Admissions stay within all limits beside what is held for others."""
    plan = plan_of(snapshot)
    usage = books_before_admits(snapshot, plan)
    for claim in _held(snapshot, plan.dropped).values():
        usage.add(claim.queue, charges(claim.seats))
    for admit in plan.admits:
        amounts = charges(admit.seats)
        places = [(name, account) for name in usage.tree.paths[admit.queue] for account in amounts]
        before = {place: usage.counted(*place) for place in places}
        usage.add(admit.queue, amounts)
        for (name, account), counted in before.items():
            limit = usage.tree.capability(name, account)
            assert limit is None or usage.counted(name, account) <= max(limit, counted), (name, account)


def quota_is_held_once_and_for_those_who_ask(snapshot: Snapshot) -> None:
    """Only for gangs that lack nothing but pods, and not for one whose time is over while it still lacks them."""
    plan = plan_of(snapshot)
    for claim in plan.claims:
        workload, before = snapshot.pending[claim.workload], snapshot.claims.get(claim.workload)
        assert workload.obstacle == _LACKS_PODS
        assert workload.hold is not None
        assert claim.until == snapshot.now + workload.hold.seconds
        assert before is None or before.generation != "1" or before.seats[0].takes != workload.hold.takes
    later = apply(snapshot, plan)
    again = {claim.workload for claim in plan_of(replace(later, now=NOW + 61)).claims}
    assert not again & later.claims.keys()


def what_is_gone_gets_no_quota(snapshot: Snapshot) -> None:
    """A turn in which the gangs without pods are gone has the plan that it has without what was known of them."""
    plan, memo = decide(snapshot, Memo())
    later = apply(snapshot, plan)
    there = {key: each for key, each in later.pending.items() if each.hold is None}
    without = replace(later, pending=there)
    assert decide(without, memo)[0] == plan_of(without)
