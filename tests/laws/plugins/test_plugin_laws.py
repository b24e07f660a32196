"""Laws of policies of others: alike answers decide alike, and one that fails harms its queue only."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from admission.replay import json_form
from admission.replay.snapshot_file import load, replayed_plan, save
from queues.plan import Plan
from queues.plugins import guard
from queues.plugins.built_in import BUILT_IN, Priority
from queues.plugins.guard import PluginFault
from queues.plugins.interface import (
    FlavorPolicy,
    OrderPolicy,
    PlacementNodes,
    PlacementPolicy,
    PodsRequest,
    Policy,
    PolicySort,
    VictimCostPolicy,
)
from queues.quota.queue import Queue
from queues.reason_codes import ReasonCode
from queues.workload import QueueName
from tests.builders.plugin_policies import known, without
from tests.laws.laws.decision import in_the_plan_or_one_reason
from tests.laws.laws.preemption import full_worlds
from tests.laws.planted.bug import is_broken_in
from tests.laws.worlds.settings import in_worlds
from tests.laws.worlds.snapshots import snapshots

chance = Random(7)


def of_others(policy: type[Policy]) -> type[Policy]:
    """A plug-in that does what one of Muster's own does."""
    return type(f"{policy.__name__}OfOthers", (policy,), {"name": f"others-{policy.name}"})


#: Not ``priority``: by it queues are urgent among their siblings, which no plug-in decides.
OTHERS = {each.name: of_others(each) for each in BUILT_IN if each is not Priority}


def served_by(queue: Queue, sort: PolicySort, name: str | None) -> Queue:
    """The queue, if it names this policy of a sort."""
    match sort:
        case PolicySort.ORDER:
            return replace(queue, order=name)
        case PolicySort.PLACEMENT:
            return replace(queue, placement=name)
        case PolicySort.VICTIM_COST:
            return replace(queue, policy=replace(queue.policy, victim_cost=name))
        case PolicySort.FLAVORS:
            return replace(queue, policy=replace(queue.policy, flavors_by=name))


def by(snapshot: Snapshot, sort: PolicySort, name: str | None, queue: QueueName | None = None) -> Snapshot:
    """The snapshot in which a queue (None: every one) names this policy."""
    queues = {
        each.name: served_by(each, sort, name) if queue in (None, each.name) else each
        for each in snapshot.queues.values()
    }
    return replace(snapshot, queues=queues, tree=None)


def told(plan: Plan) -> object:
    """What a plan does, and why others wait."""
    return replace(plan, reasons={key: plan.reasons[key] for key in plan.reasons})


@in_worlds(40)
@given(snapshots())
def test_a_plug_in_that_answers_as_a_built_in_policy_decides_the_same(snapshot: Snapshot) -> None:
    with known(*OTHERS.values()):
        for policy in BUILT_IN:
            if policy.name not in OTHERS:
                continue
            plain, _ = decide(by(snapshot, policy.sort, policy.name), Memo())
            other, _ = decide(by(snapshot, policy.sort, OTHERS[policy.name].name), Memo())
            assert told(plain) == told(other), policy.name


class NoNode(PlacementPolicy):
    """No node is good enough."""

    name = "no-node"

    def filter(self, request: PodsRequest, nodes: PlacementNodes) -> Any:
        return np.zeros(len(nodes.names), np.bool_)


class OneNode(PlacementPolicy):
    """The first node alone is good enough."""

    name = "one-node"

    def filter(self, request: PodsRequest, nodes: PlacementNodes) -> Any:
        return np.arange(len(nodes.names)) == 0


@in_worlds(200)
@given(full_worlds())
def test_nobody_makes_room_on_nodes_that_a_filter_leaves_out(snapshot: Snapshot) -> None:
    with known(NoNode, OneNode):
        none, _ = decide(by(snapshot, PolicySort.PLACEMENT, NoNode.name), Memo())
        one, _ = decide(by(snapshot, PolicySort.PLACEMENT, OneNode.name), Memo())
    assert not none.admits
    assert not [each for each in none.evicts if each.beneficiary is not None]
    assert {seat.node for admit in one.admits for seat in admit.seats} <= set(snapshot.nodes.layout.names[:1])


def raises(*_: Any) -> Any:
    raise ValueError("no such thing")


def floats(*_: Any) -> Any:
    return 0.5


def at_random(*_: Any) -> Any:
    return chance.getrandbits(30)


def writes(*given: Any) -> Any:
    seen = given[-1]
    if isinstance(seen, int):  # the moment for which costs are asked
        given[-2][0].pods = 0
    elif hasattr(seen, "free"):
        seen.free[:] = 0
    else:
        given[1].name = "another"


FAILING = {"raises": raises, "floats": floats, "random": at_random, "writes": writes}


#: Policies that were asked.
asked: set[str] = set()


def failing(fails: Callable[..., Any]) -> dict[PolicySort, type[Policy]]:
    """Of each sort a policy that fails so, and is noted as asked."""

    def answer(policy: Policy, *given: Any) -> Any:
        asked.add(policy.name)
        return fails(policy, *given)

    order = type("Order", (OrderPolicy,), {"name": "bad-order", "urgency": answer})
    placement = type("Placement", (PlacementPolicy,), {"name": "bad-placement", "score": answer})
    cost = type("Cost", (VictimCostPolicy,), {"name": "bad-cost", "costs": answer})
    flavors = type("Flavors", (FlavorPolicy,), {"name": "bad-flavors", "order": answer})
    return {each.sort: each for each in (order, placement, cost, flavors)}


def decided(snapshot: Snapshot) -> tuple[Snapshot, Plan, list[PluginFault]]:
    """A turn as it is made: abandoned for a plug-in that fails, which is set aside, and decided again."""
    faults: list[PluginFault] = []
    while True:
        try:
            plan, _ = decide(snapshot, Memo())
        except PluginFault as fault:
            faults.append(fault)
            snapshot = replace(snapshot, queues=without(snapshot.queues, fault), tree=None)
        else:
            return snapshot, plan, faults


def tried(snapshot: Snapshot) -> Sequence[QueueName]:
    return [name for name in sorted(snapshot.queues) if snapshot.queues[name].parent is not None][:2]


@pytest.mark.parametrize("kind", FAILING)
@in_worlds(40)
@given(snapshot=snapshots())
def test_a_failing_plug_in_holds_its_queue_and_all_others_are_served(kind: str, snapshot: Snapshot) -> None:
    others_are_served(kind, snapshot)


def others_are_served(kind: str, snapshot: Snapshot) -> None:
    """A queue is held for a plug-in that fails so; all else is decided as if it named one that there is not."""
    policies = failing(FAILING[kind])
    with known(*policies.values()):
        for queue in tried(snapshot):
            for sort, policy in policies.items():
                asked.clear()
                after, plan, faults = decided(by(snapshot, sort, policy.name, queue))
                assert len(faults) == len(asked)
                if not faults:
                    assert told(decide(after, Memo())[0]) == told(plan)
                    continue
                assert faults[0].asked.queue == queue
                held, _ = decide(by(snapshot, sort, "gone", queue), Memo())
                assert (plan.admits, plan.evicts, plan.frees) == (held.admits, held.evicts, held.frees)
                codes = {each.code for each in plan.reasons.values()}
                assert (ReasonCode.PLUGIN_NOT_USABLE in codes) == (
                    ReasonCode.PLUGIN_NOT_USABLE in {each.code for each in held.reasons.values()}
                )
                in_the_plan_or_one_reason(after)
                kept = load(save(after, plan))
                assert replayed_plan(kept) == json_form.written(plan)


@pytest.mark.parametrize("kind", FAILING)
@in_worlds(20)
@given(snapshot=snapshots())
def test_where_the_administrator_chose_it_the_default_serves_in_its_place(
    kind: str, snapshot: Snapshot
) -> None:
    policies = failing(FAILING[kind])
    defaults = {
        PolicySort.ORDER: "priority",
        PolicySort.PLACEMENT: "pack",
        PolicySort.VICTIM_COST: "lost-work",
        PolicySort.FLAVORS: "as-listed",
    }
    lenient = {name: replace(each, on_plugin_failure="default") for name, each in snapshot.queues.items()}
    snapshot = replace(snapshot, queues=lenient, tree=None)
    with known(*policies.values()):
        for queue in tried(snapshot):
            for sort, policy in policies.items():
                _, plan, faults = decided(by(snapshot, sort, policy.name, queue))
                plain, _ = decide(by(snapshot, sort, defaults[sort], queue), Memo())
                if faults:
                    assert told(plan) == told(plain)


@pytest.mark.parametrize("kind", ["floats", "random"])  # the others end the decision anyhow
def test_the_law_breaks_where_answers_are_not_looked_at(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard.AskedPolicy, "ask", lambda self, question, given, check: question(*given))
    is_broken_in(snapshots(), lambda snapshot: others_are_served(kind, snapshot))
