"""Nodes that refused a gang are left out until the cause can have changed, and nodes near them are tried last."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from admission.facts.changes import Change
from admission.facts.cluster import NodeFact
from admission.facts.pods import PodFact
from admission.workloads.inputs import Timeouts, WorkloadInputs
from admission.workloads.pod_sets import NOWHERE_REFUSED, RefusedPlaces, SetOnNode, elsewhere
from admission.workloads.rollback import REFUSAL_LIMIT, REFUSAL_MEMORY, refusal_revision, refusals_of
from admission.workloads.seats import seat_maps_of
from admission.world.learned.refused_nodes import RefusedNodes
from admission.world.world import World
from queues.admissions import Admission, AdmissionState, Setbacks, Unready
from queues.plan import Setback
from queues.reason_codes import ReasonCode
from queues.workload import (
    EVERYWHERE,
    NOT_REFUSED,
    NodeFilter,
    NodeName,
    PodSet,
    Preference,
    Requirement,
    Taint,
    WorkloadKey,
)
from tests.builders.facts import (
    GRACE,
    JOB,
    NOW,
    VOLCANO,
    admission,
    gone,
    gpus,
    job,
    node,
    pod,
    released,
    see,
    seen,
    state_of,
    volcano_job,
    world,
)
from tests.tables import named_rows

ZONE = "topology.kubernetes.io/zone"
IN_A = Requirement(key="zone", operator="In", values=("a",))
OFF_N1 = Requirement(key=NOT_REFUSED, operator="NotIn", values=("n1",), field=True)
N1, N2, N3 = NodeName("n1"), NodeName("n2"), NodeName("n3")
ON_N1, ON_N2, ON_N3 = (SetOnNode("worker", node) for node in (N1, N2, N3))

PLUGIN = "0/3 nodes are available: 1 node(s) were not to our liking, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
PORTS = "0/3 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
RACK = "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) didn't satisfy plugin(s)."
LONELY = "0/3 nodes are available: 1 node(s) didn't match pod affinity rules."


def kept_off(nodes: NodeFilter) -> NodeFilter:
    pod_set = PodSet(name="worker", count=1, takes=gpus(), nodes=nodes)
    [pods] = elsewhere([pod_set], RefusedPlaces(words={ON_N1: "no"}))
    return pods.nodes


@pytest.mark.parametrize("own", [(), ((IN_A,),), ((IN_A,), (IN_A, IN_A)), ((), (IN_A,)), ((),)])
def test_every_term_of_a_pods_own_is_narrowed_and_the_pods_own_can_be_had_again(own: Any) -> None:
    narrowed = kept_off(NodeFilter(affinity=own))
    assert narrowed.affinity == (tuple((*term, OFF_N1) if term else () for term in own) or ((OFF_N1,),))
    assert narrowed.with_refused().affinity == own


def test_a_node_is_left_out_for_the_pods_that_it_refused_and_tried_last_for_others() -> None:
    worker, launcher = (PodSet(name=name, count=1, takes=gpus()) for name in ("worker", "launcher"))
    refused = RefusedPlaces(words={ON_N1: "no"}, prefers=(Preference(1, (OFF_N1,)),))
    off, usual = elsewhere([worker, launcher], refused)
    assert off.nodes.affinity == ((OFF_N1,),)
    assert usual.nodes == EVERYWHERE
    assert off.prefers == usual.prefers == refused.prefers


def refused_by(
    taken: Admission, pods: list[PodFact], now: int = NOW, **inputs: Any
) -> Mapping[SetOnNode, str]:
    known = WorkloadInputs(key=taken.workload, fact=None, pods=pods, admissions=[taken], arrival=1, **inputs)
    return refusals_of(seat_maps_of([taken], pods), known, now, Timeouts(refusal_grace=GRACE))


def stuck(name: str, seat: str | None, words: str = PLUGIN, since: int = GRACE) -> PodFact:
    return released(name, seat, refused=(NOW - since, words), owner=VOLCANO)


def test_only_nodes_that_refuse_count_with_the_words_of_the_scheduler() -> None:
    pods = [
        stuck("a", "worker/0"),
        released("b", "worker/1"),
        released("c", "worker/2", "n3", bound_at=NOW - 60),
    ]
    assert refused_by(admission(VOLCANO, "n1 n2 n3"), pods) == {ON_N1: PLUGIN}


def test_a_refusal_that_has_just_begun_is_not_remembered() -> None:
    pods = [stuck("a", "worker/0"), stuck("b", "worker/1", since=GRACE // 2 - 1)]
    assert refused_by(admission(VOLCANO, "n1 n2"), pods) == {ON_N1: PLUGIN}


def test_a_pod_that_lacks_a_neighbour_is_not_to_blame_where_the_neighbour_is_refused() -> None:
    taken = admission(VOLCANO, "n1 n2")
    assert refused_by(taken, [stuck("a", "worker/0"), stuck("b", "worker/1", LONELY)]) == {ON_N1: PLUGIN}
    assert refused_by(taken, [released("a", "worker/0"), stuck("b", "worker/1", LONELY)]) == {ON_N2: LONELY}


def test_pods_without_a_seat_of_their_own_are_refused_by_the_nodes_of_the_vacant_seats() -> None:
    pods = [released("a", None, "n2", bound_at=NOW - 60), stuck("b", None)]
    assert refused_by(admission(JOB, "n1 n2"), pods) == {SetOnNode("main", N1): PLUGIN}


def test_the_time_of_the_scheduler_begins_when_a_sibling_is_bound_or_an_earlier_pod_has_gone() -> None:
    taken = admission(VOLCANO, "n1 n2")
    waits = stuck("b", "worker/1", LONELY, since=60)
    just_bound = [released("a", "worker/0", "n1", bound_at=NOW - 1), waits]
    long_bound = [released("a", "worker/0", "n1", bound_at=NOW - GRACE), waits]
    assert not state_of(volcano_job(2), just_bound, [taken]).evictable
    assert state_of(volcano_job(2), long_bound, [taken]).evictable
    assert not state_of(volcano_job(2), long_bound, [taken], pod_left_at=NOW - 1).evictable


def known_refusals(*nodes: NodeFact, levels: tuple[str, ...] = ()) -> RefusedNodes:
    return RefusedNodes({each.name: each for each in nodes}, lambda: [levels])


def left_out(known: RefusedNodes, key: WorkloadKey = VOLCANO, revision: str = "1") -> set[NodeName]:
    return set(known.of(key, lambda: revision).nodes)


def test_a_refusal_is_remembered_for_hours_and_for_its_workload_alone() -> None:
    known = known_refusals(node("n1"), node("n2"))
    known.note(VOLCANO, "1", {ON_N1: PLUGIN}, NOW)
    assert (left_out(known), left_out(known, JOB)) == ({N1}, set())
    assert known.expire(NOW + REFUSAL_MEMORY - 1) == set()
    assert known.expire(NOW + REFUSAL_MEMORY) == {VOLCANO}
    [wish] = known.of(VOLCANO, lambda: "1").prefers
    assert left_out(known) == set(), "but other nodes are tried before"
    assert wish.requirements == (OFF_N1,)


def test_what_is_another_workload_now_may_go_anywhere() -> None:
    known = known_refusals(node("n1"))
    known.note(VOLCANO, "1", {ON_N1: PLUGIN}, NOW)
    assert left_out(known, revision="2") == set()
    assert left_out(known, revision="1") == set(), "it is forgotten for good"


def test_who_takes_anothers_place_is_not_sent_where_that_one_was_refused() -> None:
    known = known_refusals(node("n1"))
    known.note(VOLCANO, "1", {ON_N1: PLUGIN}, NOW)
    known.pass_on(VOLCANO, JOB)
    assert (left_out(known, JOB), left_out(known)) == ({N1}, set())


@pytest.mark.parametrize(
    ("after", "forgotten"),
    [
        (node("n1", labels={"a": "b"}), True),
        (node("n1", taints=(Taint("a", "b", "NoSchedule"),)), True),
        (node("n1", count=4), True),
        (None, True),
        (node("n1", unschedulable=True), True),
        (node("n1", ready=False), False),
    ],
)
def test_a_node_that_is_another_one_now_is_as_good_as_any(after: NodeFact | None, forgotten: bool) -> None:
    known = known_refusals(node("n1"), node("n2"))
    known.note(VOLCANO, "1", {ON_N1: PLUGIN, ON_N2: PLUGIN}, NOW)
    assert known.put_node(N1, node("n1"), after) == ({VOLCANO} if forgotten else set())
    assert left_out(known) == ({N2} if forgotten else {N1, N2})


@pytest.mark.parametrize(
    ("words", "where", "forgotten"),
    [
        (PORTS, "n1", True),
        (PORTS, "n2", False),  # in the same zone
        (RACK, "n2", True),
        (RACK, "n3", False),
        (PLUGIN, "n1", False),
    ],
)
def test_a_pod_that_goes_may_have_been_the_cause(words: str, where: str, forgotten: bool) -> None:
    zones = {"n1": "a", "n2": "a", "n3": "b"}
    known = known_refusals(*(node(name, labels={ZONE: zone}) for name, zone in zones.items()))
    known.note(VOLCANO, "1", {ON_N1: words}, NOW)
    assert known.pod_left(NodeName(where), VOLCANO) == set(), "its own pods go whenever it goes back"
    assert known.pod_left(NodeName(where), JOB) == ({VOLCANO} if forgotten else set())


def test_nodes_near_one_that_refused_are_tried_last() -> None:
    labels: Callable[[str, str], dict[str, str]] = lambda zone, rack: {ZONE: zone, "rack": rack}  # noqa: E731
    known = known_refusals(
        node("n1", labels=labels("a", "r1")), node("n2", labels=labels("a", "r2")), levels=("rack",)
    )
    known.note(VOLCANO, "1", {ON_N1: RACK, ON_N2: RACK, ON_N3: RACK}, NOW)
    wishes = {
        (each.requirements[0].key, each.requirements[0].values): each.weight
        for each in known.of(VOLCANO, lambda: "1").prefers
    }
    assert wishes[(ZONE, ("a",))] == 2 * wishes[("rack", ("r1",))] == 2 * wishes[("rack", ("r2",))]
    known.note(JOB, "1", {ON_N1: PORTS}, NOW)
    assert known.of(JOB, lambda: "1").prefers == (), "a port says nothing of the other nodes"


def test_other_levels_are_other_domains_to_be_outside_of() -> None:
    levels: list[tuple[str, ...]] = []
    racked = node("n1", labels={"rack": "r1"})
    known = RefusedNodes({racked.name: racked}, lambda: levels)
    known.note(VOLCANO, "1", {ON_N1: RACK}, NOW)
    assert known.of(VOLCANO, lambda: "1").prefers == ()
    levels.append(("rack",))
    assert known.levels_changed() == {VOLCANO}
    [wish] = known.of(VOLCANO, lambda: "1").prefers
    assert wish.requirements == (Requirement("rack", "NotIn", ("r1",)),)


def wants(known: World) -> NodeFilter:
    [pods] = known.states[VOLCANO].workload.pod_sets
    return pods.nodes


def test_a_gang_that_goes_back_for_another_cause_is_refused_by_no_node() -> None:
    taken = admission(VOLCANO, "n1 n2")
    pods = [stuck("a", "worker/0", since=GRACE - 1), released("b", "worker/1")]
    known = world([node("n1"), node("n2"), volcano_job(2), *pods], [taken])
    known.put_setback(VOLCANO, Setback(NOW + 10), NOW)
    known.put_admissions([replace(taken, state=AdmissionState.CLOSED)])
    known.refresh(NOW)
    assert wants(known) == EVERYWHERE


OTHER = pod("other", "n1", controller="")


@named_rows("change", {"a pod of others goes": gone(OTHER), "a label": seen(node("n1", labels={"a": "b"}))})
def test_a_gang_is_not_seated_where_it_was_refused_until_something_changes_there(change: Change) -> None:
    taken = admission(VOLCANO, "n1")
    known = world([node("n1"), node("n2"), volcano_job(1), OTHER, stuck("a", "worker/0", PORTS)], [taken])
    known.put_setback(VOLCANO, Setback(NOW + 10), NOW)
    known.put_admissions([replace(taken, state=AdmissionState.CLOSED)])
    known.refresh(NOW + 600)
    assert wants(known).affinity == ((OFF_N1,),)
    see(known, change)
    assert wants(known) == EVERYWHERE


def test_a_member_that_is_refused_after_the_start_gets_another_seat() -> None:
    taken = admission(VOLCANO, "n1 n2", started=True)
    lost, other = stuck("a", "worker/0"), released("b", "worker/1", "n2", owner=VOLCANO)
    known = world([node("n1"), node("n2"), volcano_job(2), lost, other], [taken])
    assert [pod.name for pod in known.states[VOLCANO].unschedulable] == ["a"]
    see(known, replace(seen(lost), fact=None), now=NOW + 1)
    found = known.states[VOLCANO]
    assert found.ended == {taken.id: frozenset({0})}, "the seat is given back, not taken again"
    assert wants(known).affinity == ((OFF_N1,),)


def test_a_member_that_is_refused_wishes_to_be_in_another_zone_at_once() -> None:
    """What is remembered of a refusal is in the state that says it, without another change of the workload."""
    taken = admission(VOLCANO, "n1 n2", started=True)
    pods = [stuck("a", "worker/0", RACK), released("b", "worker/1", "n2", owner=VOLCANO)]
    nodes = [node(name, labels={ZONE: zone}) for name, zone in (("n1", "a"), ("n2", "b"))]
    known = world([*nodes, volcano_job(2), *pods], [taken])
    [wanted] = known.states[VOLCANO].workload.pod_sets
    assert [wish.requirements for wish in wanted.prefers] == [(Requirement(ZONE, "NotIn", ("a",)),)]


def refused_times(times: int, **inputs: Any) -> Any:
    fact = job(1)
    blank = WorkloadInputs(key=JOB, fact=fact, pods=(), admissions=(), arrival=1)
    refused = Unready(
        revision=refusal_revision(blank), times=times, message="the scheduler refuses pod a: no"
    )
    given = {"refused": RefusedPlaces(words={ON_N1: "no"}), **inputs}
    return state_of(fact, setbacks=Setbacks(rollbacks=times, unready=refused), **given).workload.obstacle


def test_a_gang_that_is_refused_too_often_is_held_back_and_says_what_was_tried(golden: Any) -> None:
    assert refused_times(REFUSAL_LIMIT - 1) is None
    obstacle = refused_times(REFUSAL_LIMIT)
    assert obstacle.code is ReasonCode.BACKOFF_LIMIT_EXCEEDED
    assert obstacle.message == golden


def test_it_is_tried_again_once_the_cause_can_have_changed() -> None:
    assert refused_times(REFUSAL_LIMIT, refused=NOWHERE_REFUSED) is None
    known = known_refusals(node("n1"), node("n2"))
    known.note(VOLCANO, "1", {ON_N1: PLUGIN, ON_N2: PLUGIN}, NOW)
    assert refused_times(REFUSAL_LIMIT, refused=known.of(VOLCANO, lambda: "1")) is not None
    known.put_node(N1, node("n1"), node("n1", labels={"a": "b"}))
    assert refused_times(REFUSAL_LIMIT, refused=known.of(VOLCANO, lambda: "1")) is None


def test_refusals_and_pods_that_are_not_ready_are_counted_apart() -> None:
    fact = job(1)
    of_readiness = Unready(revision="other", times=REFUSAL_LIMIT, message="")
    state = state_of(
        fact, setbacks=Setbacks(unready=of_readiness), refused=RefusedPlaces(words={ON_N1: "no"})
    )
    assert state.workload.obstacle is None
