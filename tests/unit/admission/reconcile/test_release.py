"""What is written for one workload, given its state."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.engine.nodes.devices import with_numbers
from admission.facts.pods import PodFact
from admission.facts.workloads import JobRevision, WorkloadFact
from admission.reconcile.release import (
    ABANDONED,
    SHORTENED,
    Order,
    Promised,
    Verb,
    json_patch,
    orders_for,
    paths_of,
)
from admission.reconcile.trial_pod import pod_of_job
from admission.wire import WireMetadata
from admission.workloads.inputs import ShellHeartbeat, Timeouts
from admission.workloads.kinds.batch_job import UNSTARTED, WireJob, job_fact
from admission.workloads.pod_shapes import shape_name
from admission.workloads.state import WorkloadState
from admission.world.nodes import NodeInventory
from queues import kind_names
from queues.admissions import Admission
from queues.api import names
from queues.quota.queue import QueuePolicy, ReleaseRules
from queues.resources import GPU
from queues.workload import (
    AdmissionId,
    FlavorName,
    NodeFilter,
    NodeName,
    Requirement,
    Toleration,
    WorkloadKey,
)
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    evicting,
    gated,
    gpus,
    group,
    job,
    migrated,
    node,
    pod,
    released,
    state_of,
    volcano_job,
)
from tests.fakes.fake_objects import json_patched, merged
from tests.tables import named_rows

MEMBER = shape_name(gated("any"))
ONE = AdmissionId(1)
#: Longest grace period of a pod that is evicted.
LONGEST = 600
YEAR = 31_536_000


def stock(*names: str, count: int = 8) -> NodeInventory:
    found = NodeInventory()
    for name in names:
        found.put_node(NodeName(name), node(name, count=count))
    return found


def orders(
    of: WorkloadState, fact: WorkloadFact | None, known: NodeInventory | None = None, **more: Any
) -> list[Order]:
    return orders_for(of, fact, known or stock("n1", "n2", "n3"), Timeouts(eviction_grace=LONGEST), **more)


def told(found: list[Order]) -> dict[str, str]:
    return {order.name: order.intent for order in found}


def patched(order: Order, more: dict[str, Any]) -> dict[str, Any]:
    """A gated pod, with more of it, as it is after the order. Raises where the order does not fit."""
    pod = {
        "metadata": {"uid": "a", "annotations": {}, "labels": {}},
        "spec": {"schedulingGates": [{"name": names.GATE}]},
    }
    return json_patched(merged(pod, more), json_patch(order) or [])


def body(order: Order) -> dict[str, Any]:
    return dict(order.body or {})


def pins(affinity: Any) -> list[str]:
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [value for term in terms for field in term["matchFields"] for value in field["values"]]


# ── gated pods ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gated_member_is_let_go_to_its_node_in_one_write() -> None:
    (order,) = orders(state_of(group(1), [gated("a")], [admission(GROUP, "n2", pod_set=MEMBER)]), group(1))
    assert (order.verb, order.uid, order.seats) == (Verb.PATCH_POD, "a", {ONE: frozenset({0})})
    written = patched(order, {"metadata": {"labels": {names.RELEASED: "false"}}})
    assert "schedulingGates" not in written["spec"]
    assert pins(written["spec"]["affinity"]) == ["n2"]
    assert written["metadata"]["labels"] == {names.RELEASED: "true"}
    assert written["metadata"]["annotations"] == {names.ADMISSION_ID: "1", names.SEAT: f"{MEMBER}/0"}


EVICT, DISRUPT = names.KEPT_FROM_AUTOSCALERS


def test_a_pod_is_kept_from_autoscalers_where_its_queue_says_so_and_its_user_says_nothing() -> None:
    seat = {names.ADMISSION_ID: "1", names.SEAT: f"{MEMBER}/0"}

    def written(existing: frozenset[str], annotations: dict[str, str]) -> Any:
        member = gated("a", existing=existing)
        state = state_of(group(1), [member], [admission(GROUP, "n2", pod_set=MEMBER)])
        (order,) = orders(state, group(1), rules=ReleaseRules(kept=True))
        return patched(order, {"metadata": {"annotations": annotations}})["metadata"]["annotations"]

    assert written(frozenset(), {}) == {**seat, EVICT: "false", DISRUPT: "true"}
    own = frozenset(("/metadata/annotations/cluster-autoscaler.kubernetes.io~1safe-to-evict",))
    assert written(own, {EVICT: "true"}) == {**seat, EVICT: "true", DISRUPT: "true"}


def test_a_directed_job_has_its_pods_kept_by_its_template() -> None:
    exists = frozenset({"/metadata/annotations", "/metadata/annotations/karpenter.sh~1do-not-disrupt"})
    fact = job(2, suspended=True, parallelism=2, revision=JobRevision(7, exists))
    state = state_of(fact, [], [admission(JOB, "n1 n1")])
    (order,) = orders(state, fact, rules=ReleaseRules(kept=True))
    annotations = body(order)["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {names.ADMISSION_ID: "1", EVICT: "false"}
    (order,) = orders(state, fact)
    assert body(order)["spec"]["template"]["metadata"]["annotations"] == {names.ADMISSION_ID: "1"}


@pytest.mark.parametrize(
    ("annotation", "of_queue", "by_pod"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
def test_a_job_that_may_grow_is_released_pod_by_pod(
    annotation: bool | None, of_queue: bool, by_pod: bool
) -> None:
    fact = job(2, suspended=True, parallelism=2, may_grow=annotation, revision=JobRevision(7))
    state = state_of(fact, [], [admission(JOB, "n1 n1")])
    (order,) = orders(state, fact, rules=ReleaseRules(jobs_may_grow=of_queue))
    assert order.intent == ("resume gated" if by_pod else "resume 1")
    gates = body(order)["spec"]["template"]["spec"]["schedulingGates"]
    assert gates == ([{"name": names.GATE}] if by_pod else None), "a policy would change each of its pods"


GPU_NODES = Toleration("gpu", "Exists", "", "NoSchedule")
OF_FLAVOR = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
OWN = {"key": "team", "operator": "Equal", "value": "a"}
TOLERANT = ReleaseRules(tolerations={FlavorName("fast"): (GPU_NODES,)})


def in_flavor(held: Admission, flavor: str = "fast") -> Admission:
    return replace(held, seats=tuple(replace(seat, flavor=FlavorName(flavor)) for seat in held.seats))


@pytest.mark.parametrize("spec", [{"tolerations": [OWN]}, {}])
def test_a_pod_gets_the_tolerations_of_its_seats_flavor_and_keeps_its_own(spec: dict[str, Any]) -> None:
    own = NodeFilter(tolerations=tuple(Toleration("team", "Equal", "a") for _ in spec))
    member, held = gated("a", nodes=own), admission(GROUP, "n2", pod_set=shape_name(gated("a", nodes=own)))

    def released_as(of: Admission) -> dict[str, Any]:
        (order,) = orders(state_of(group(1), [member], [of]), group(1), rules=TOLERANT)
        document = {
            "metadata": {"uid": "a", "annotations": {}, "labels": {}},
            "spec": {"schedulingGates": [{"name": names.GATE}], **spec},
        }
        return json_patched(document, json_patch(order, paths_of(document)) or [])

    found = released_as(in_flavor(held))
    assert found["spec"]["tolerations"] == [*spec.get("tolerations", ()), OF_FLAVOR]
    assert json.loads(found["metadata"]["annotations"][names.FLAVOR_TOLERATIONS]) == [OF_FLAVOR]
    found = released_as(in_flavor(held, "slow"))
    assert found["spec"].get("tolerations") == spec.get("tolerations")
    assert names.FLAVOR_TOLERATIONS not in found["metadata"]["annotations"]


def test_a_job_gets_those_of_each_admission_in_the_place_of_the_last_ones() -> None:
    container = {"name": "main", "image": "x", "resources": {"limits": {GPU: "1"}}}
    template: dict[str, Any] = {"spec": {"containers": [container], "tolerations": [OWN]}}
    document = {
        "metadata": {
            "name": "train",
            "namespace": "ns",
            "uid": JOB.uid,
            "generation": 1,
            "labels": {names.QUEUE_LABEL: TEAM},
        },
        "spec": {"suspend": True, "template": template},
    }
    digests, tolerations, generations = set(), [], set()
    # Directed, directed in a flavor without any, and pod by pod.
    for held, rules in (
        (in_flavor(admission(JOB, "n1")), TOLERANT),
        (in_flavor(admission(JOB, "n1", number=2), "slow"), TOLERANT),
        (in_flavor(admission(JOB, "n1", number=3)), TOLERANT),
        (in_flavor(admission(JOB, "n1 n2", number=4)), TOLERANT),
    ):
        document["spec"]["parallelism"] = len(held.seats)
        fact = job_fact(msgspec.json.decode(json.dumps(document), type=WireJob))
        digests.add(fact.templates)
        generations.add(fact.generation.partition(".")[0])
        assert fact.pod_sets[0].nodes.tolerations == (Toleration("team", "Equal", "a"),)
        (order,) = orders(state_of(fact, [], [held]), fact, rules=rules)
        document = json_patched(document, json_patch(order) or [])
        tolerations.append(document["spec"]["template"]["spec"]["tolerations"])
        document["spec"]["suspend"] = True
        document["metadata"]["generation"] += 1
    assert tolerations == [[OWN, OF_FLAVOR], [OWN], [OWN, OF_FLAVOR], [OWN]]
    assert len(digests) == len(generations) == 1, "it asks for nothing else"
    pod_of = pod_of_job(WireMetadata(name="train", namespace="ns", uid="u"), json.dumps(template).encode())
    assert pod_of["spec"]["tolerations"] == [OWN]


@pytest.mark.parametrize("changed", [{"metadata": {"uid": "b"}}, {"spec": {"schedulingGates": None}}])
def test_a_release_that_comes_late_or_twice_changes_nothing(changed: dict[str, Any]) -> None:
    (order,) = orders(state_of(group(1), [gated("a")], [admission(GROUP, "n2", pod_set=MEMBER)]), group(1))
    with pytest.raises((AssertionError, KeyError)):
        patched(order, changed)


def test_terms_of_its_own_keep_their_places() -> None:
    own = NodeFilter(affinity=((Requirement("zone", "In", ("a",)),), (Requirement("zone", "In", ("b",)),)))
    member = gated("a", nodes=own, existing=frozenset(("/spec/affinity", "/spec/affinity/nodeAffinity")))
    taken = admission(GROUP, "n2", pod_set=shape_name(member))
    (order,) = orders(state_of(group(1), [member], [taken]), group(1))
    written = patched(order, {"spec": {"affinity": {"nodeAffinity": {}}}})
    terms = written["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["matchExpressions"][0]["values"] for term in terms["nodeSelectorTerms"]] == [["a"], ["b"]]


def test_members_take_the_seats_in_the_order_of_their_numbers() -> None:
    pods = [gated(f"w-{number}") for number in (10, 2, 1)]
    taken = admission(GROUP, "n1 n2 n3", pod_set=MEMBER)
    given = orders(state_of(group(3), sorted(pods, key=lambda pod: pod.name), [taken]), group(3))
    seats = {order.name: order.seat for order in given}
    assert seats == {"w-1": Promised(ONE, 0), "w-2": Promised(ONE, 1), "w-10": Promised(ONE, 2)}


def test_a_pod_of_an_indexed_job_is_let_go_to_its_own_seat_only() -> None:
    fact = job(2, indexed=True)
    pods = [gated("b", index=1, owner=JOB), gated("z", index=7, owner=JOB)]
    (order,) = orders(state_of(fact, pods, [admission(JOB, "n1 n2")]), fact)
    assert (order.name, order.seat) == ("b", Promised(ONE, 1))


def test_a_seat_that_was_promised_is_given_to_nobody_else() -> None:
    """A pod that appears between a write and its echo must not get the same seat."""
    taken = admission(GROUP, "n1 n2", pod_set=MEMBER)
    promised = {"b": Promised(ONE, 0), "c": Promised(ONE, 1)}
    state = state_of(group(2), [gated(name) for name in "abc"], [taken])
    found = orders(state, group(2), promised=promised)
    assert {order.name: order.seat for order in found} == promised


def test_a_pod_that_may_have_got_another_seat_gets_none() -> None:
    """It waits until it is certain what became of the first write."""
    taken = admission(GROUP, "n1 n2", pod_set=MEMBER, ended=frozenset({0}))
    found = orders(state_of(group(1), [gated("a")], [taken]), group(1), promised={"a": Promised(ONE, 0)})
    assert found == []


def test_a_seat_that_is_about_to_be_given_back_is_given_to_nobody() -> None:
    taken = admission(GROUP, "n1 n2", pod_set=MEMBER, started=True)
    state = state_of(group(1), [gated("a")], [taken], dead_nodes=frozenset({NodeName("n1")}))
    assert state.ended == {ONE: frozenset({0})}
    assert [order.seat for order in orders(state, group(1))] == [Promised(ONE, 1)]


def test_other_parts_of_a_pods_affinity_stay_as_they_are() -> None:
    member = gated("a", existing=frozenset(("/spec/affinity",)))
    (order,) = orders(state_of(group(1), [member], [admission(GROUP, "n2", pod_set=MEMBER)]), group(1))
    written = patched(order, {"spec": {"affinity": {"podAntiAffinity": {"of": "mine"}}}})
    assert pins(written["spec"]["affinity"]) == ["n2"]
    assert written["spec"]["affinity"]["podAntiAffinity"] == {"of": "mine"}


# ── jobs ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_on_one_node_is_resumed_with_its_nodes_in_the_template() -> None:
    fact = job(2, suspended=True, parallelism=2)
    (order,) = orders(state_of(fact, [], [admission(JOB, "n1 n1")]), fact)
    spec = body(order)["spec"]
    assert (order.verb, spec["suspend"], spec["parallelism"]) == (Verb.PATCH_JOB, False, 2)
    assert order.seats == {ONE: frozenset({0, 1})}, "its pods come by themselves"
    assert pins(spec["template"]["spec"]["affinity"]) == ["n1"]
    assert spec["template"]["metadata"]["annotations"] == {names.ADMISSION_ID: "1"}


def test_a_job_whose_seats_fill_their_nodes_is_directed_to_all_of_them() -> None:
    fact = job(3, suspended=True)
    (order,) = orders(state_of(fact, [], [admission(JOB, "n1 n1 n2")]), fact, stock("n1", "n2", count=2))
    assert "admission-id" not in str(body(order)["spec"]["template"]["metadata"]["annotations"].values())
    assert order.intent == "resume gated", "the second node could take two of them"
    fact = job(4, suspended=True)
    (order,) = orders(state_of(fact, [], [admission(JOB, "n1 n1 n2 n2")]), fact, stock("n1", "n2", count=2))
    assert pins(body(order)["spec"]["template"]["spec"]["affinity"]) == ["n1", "n2"]


def numbered(taken: Admission) -> Admission:
    """Each seat with a device of its own, by number."""
    seats = [replace(seat, takes=with_numbers(seat.takes, GPU, [n])) for n, seat in enumerate(taken.seats)]
    return replace(taken, seats=tuple(seats))


def test_a_pod_is_told_the_numbers_of_its_devices() -> None:
    taken = numbered(admission(GROUP, "n2 n2", pod_set=MEMBER))
    found = orders(state_of(group(2), [gated("a"), gated("b")], [taken]), group(2))
    written = [patched(replace(order, uid="a"), {}) for order in found]
    assert [each["metadata"]["annotations"][names.DEVICES] for each in written] == ["0", "1"]


def test_a_job_with_devices_by_number_is_seated_pod_by_pod() -> None:
    fact = job(2, suspended=True, parallelism=2)
    (order,) = orders(state_of(fact, [], [numbered(admission(JOB, "n1 n1"))]), fact)
    assert order.intent == "resume gated"


def test_a_job_with_too_many_terms_for_its_nodes_is_resumed_gated() -> None:
    """Its template would have each of its own terms once for each node."""
    term = (Requirement(key="zone", operator="In", values=("z" * 60,)),)
    own = replace(job(4).pod_sets[0], nodes=NodeFilter(affinity=(term,) * 2001))
    fact = job(4, suspended=True, pod_sets=(own,))
    (order,) = orders(state_of(fact, [], [admission(JOB, "n1 n1 n2 n2")]), fact, stock("n1", "n2", count=2))
    assert order.intent == "resume gated"
    fact = job(4, suspended=True)
    (order,) = orders(state_of(fact, [], [admission(JOB, "n1 n1 n2 n2")]), fact, stock("n1", "n2", count=2))
    assert order.intent == "resume 1"


def test_an_indexed_job_that_asked_to_be_close_is_seated_pod_by_pod() -> None:
    close = replace(job(4).pod_sets[0], preferred_topology="rack")
    fact = job(4, suspended=True, indexed=True, pod_sets=(close,))
    (order,) = orders(state_of(fact, [], [admission(JOB, "n1 n1 n2 n2")]), fact, stock("n1", "n2", count=2))
    assert order.intent == "resume gated", "which index is where counts"
    (order,) = orders(state_of(fact, [], [admission(JOB, "n1 n1 n1 n1")]), fact, stock("n1"))
    assert order.intent == "resume 1"


def test_a_job_that_does_not_fill_its_nodes_is_resumed_gated() -> None:
    fact = job(2, suspended=True)
    (order,) = orders(state_of(fact, [], [admission(JOB, "n1 n2")]), fact)
    template = body(order)["spec"]["template"]
    assert template["metadata"]["labels"][names.QUEUE_LABEL] == TEAM
    assert template["metadata"]["annotations"] == {names.ADMISSION_ID: None}


def test_a_job_that_somebody_started_without_an_admission_is_suspended() -> None:
    (order,) = orders(state_of(job(1)), job(1))
    assert body(order)["spec"] == {"suspend": True}


LATER = admission(JOB, "n2", number=2, first=1)
LARGE = replace(job(2).pod_sets[0], takes=gpus(8))


@named_rows(
    ("fact", "pods", "taken"),
    {
        "a gang that is not admitted": (group(2), [gated("a"), gated("b")], []),
        "pods that others hold, or that are going": (
            job(2),
            [gated("a", other_gates=("example.org/wait",)), gated("b", deleting=True)],
            [admission(JOB, "n1 n2")],
        ),
        "a Job whose pods run already": (job(1), [pod("a", "n1")], []),
        "and are adopted": (job(1), [migrated("a", "n1")], []),
        # Its last pod ended, and its controller has not said Complete yet.
        "a Job that wants no pod any more": (job(0), [], []),
        "a Job that cannot end, and has seats": (
            job(0, suspended=True, phase=UNSTARTED),
            [],
            [evicting(admission(JOB, "n1"))],
        ),
        "a Job that cannot end, and wants pods": (job(1, suspended=True, phase=UNSTARTED), [], []),
        "while an earlier admission is going": (
            job(1, suspended=True),
            [],
            [evicting(admission(JOB, "n1")), LATER],
        ),
        "a Job that asks more than was admitted": (
            job(2, suspended=True, pod_sets=(LARGE,)),
            [],
            [admission(JOB, "n1 n1")],
        ),
        "a finished Job": (job(1, finished=True), [], [admission(JOB, "n1")]),
    },
)
def test_nothing_is_written_for(fact: WorkloadFact, pods: list[PodFact], taken: list[Admission]) -> None:
    assert orders(state_of(fact, pods, taken), fact) == []


def test_a_job_that_cannot_end_while_it_is_suspended_is_resumed_without_seats() -> None:
    """All its pods succeeded while it was evicted: no start time was written, and without one it cannot complete."""
    fact = job(0, suspended=True, phase=UNSTARTED)
    (order,) = orders(state_of(fact), fact)
    assert order.body == {"metadata": {"uid": JOB.uid}, "spec": {"suspend": False}}
    assert orders(state_of(fact), replace(fact, phase="")) == []


def test_a_job_that_goes_back_is_suspended() -> None:
    (order,) = orders(state_of(job(1), [], [evicting(admission(JOB, "n1"))]), job(1))
    assert order.intent == "suspend"


# ── removing ────────────────────────────────────────────────────────────────────────────────────────────────


def test_budgets_have_a_say_in_the_eviction_of_a_gang_that_was_ready() -> None:
    pods = [released("a", f"{MEMBER}/0", "n1")]
    for ready, verb in ((True, Verb.EVICT_POD), (False, Verb.DELETE_POD)):
        leaving = evicting(admission(GROUP, "n1", pod_set=MEMBER, started=True, ready=ready))
        (order,) = orders(state_of(group(1), pods, [leaving]), group(1))
        assert order.verb is verb


def test_a_budget_keeps_pods_of_lent_quota_for_a_time() -> None:
    pods = [released("a", f"{MEMBER}/0", "n1")]
    policy = QueuePolicy(max_protection=100)
    evict, delete = Verb.EVICT_POD, Verb.DELETE_POD
    for ago, reclaimed, verb in ((99, True, evict), (100, True, delete), (100, False, evict)):
        held = admission(GROUP, "n1", pod_set=MEMBER, started=True, ready=True, opened_at=NOW - ago)
        leaving = replace(evicting(held), reclaimed=reclaimed)
        state = state_of(group(1), pods, [leaving], held_by=policy)
        (order,) = orders(state, group(1))
        assert order.verb is verb
        assert state.look_at == (NOW + 1 if ago == 99 else None)


def test_members_of_a_gang_that_goes_back_are_deleted_once() -> None:
    leaving = evicting(admission(GROUP, "n1 n2", pod_set=MEMBER))
    pods = [released("a", f"{MEMBER}/0", "n1"), released("b", f"{MEMBER}/1", "n2", deleting=True)]
    assert told(orders(state_of(group(2), pods, [leaving]), group(2))) == {"a": "evict"}


LEFT = (("a", "n1"), ("b", "n9"))


def test_nobody_is_deleted_whom_nobody_would_make_again() -> None:
    leaving = evicting(admission(GROUP, "n1 n9 n2", pod_set=MEMBER))
    alone = [released(name, f"{MEMBER}/{n}", node, controller="") for n, (name, node) in enumerate(LEFT)]
    pods = [*alone, released("c", f"{MEMBER}/2", "n2")]
    assert told(orders(state_of(group(3), pods, [leaving]), group(3))) == {"c": "evict"}


def test_pods_of_closed_admissions_are_deleted() -> None:
    found = state_of(volcano_job(1), [released("a", "worker/0", by=7)], closed=frozenset({AdmissionId(7)}))
    assert told(orders(found, volcano_job(1))) == {"a": "stray"}


def test_of_two_pods_that_came_for_one_seat_the_second_is_deleted() -> None:
    pods = [released("a", f"{MEMBER}/0", "n1"), released("b", f"{MEMBER}/0", "n1")]
    found = state_of(group(1), pods, [admission(GROUP, "n1", pod_set=MEMBER, started=True)])
    assert told(orders(found, group(1))) == {"b": "stray"}


def test_pods_on_nodes_that_are_gone_are_removed_at_once() -> None:
    found = state_of(volcano_job(1), [released("a", "worker/0", "n9")], [admission(VOLCANO, "n9")])
    (order,) = orders(found, volcano_job(1))
    assert (order.intent, order.grace) == ("buried", 0)


def test_a_pod_whose_seat_is_lost_makes_room_for_its_successor() -> None:
    lost = released("a", "worker/0", refused=(NOW - 60, "no"))
    found = state_of(volcano_job(1), [lost], [admission(VOLCANO, "n1", started=True)])
    assert told(orders(found, volcano_job(1))) == {"a": "misplaced"}


def test_a_bare_pod_is_let_go() -> None:
    bare: PodFact = gated("bare", queue=TEAM)
    key = WorkloadKey(kind_names.POD, "bare")
    found = state_of(None, [bare], [admission(key, "n1", name="bare", pod_set="pod")], key=key)
    assert told(orders(found, None)) == {"bare": "release 1/0"}
    assert gpus() == bare.shape.takes


def test_a_pod_that_counts_as_gone_is_removed_by_force() -> None:
    silent = released("a", "worker/0", "n1", deleting=True, ends_by=NOW - 1000)
    away = {NodeName("n1"): NOW - 1000}
    found = state_of(volcano_job(1), [silent], [admission(VOLCANO, "n1", started=True)], silent_nodes=away)
    (order,) = orders(found, volcano_job(1))
    assert (order.intent, order.grace) == ("lost", 0)


# ── the grace period of an evicted pod is bounded ───────────────────────────────────────────────────────────


def ending(name: str, grace: int, seat: str | None = None, **facts: Any) -> PodFact:
    """A pod that was told to end a moment ago, and has so many seconds for it."""
    return released(name, seat, "n1", deleting=True, ends_by=NOW + grace, grace=grace, **facts)


def shortened(found: list[Order]) -> dict[str, tuple[Verb, int | None]]:
    return {order.name: (order.verb, order.grace) for order in found if order.intent == SHORTENED}


@pytest.mark.parametrize(
    ("fact", "pod_set"),
    [(job(2, suspended=True), None), (volcano_job(2), "worker"), (group(2), MEMBER), (None, "pod")],
    ids=["job", "volcano job", "group", "bare pod"],
)
@pytest.mark.parametrize("over", [False, True])
def test_an_evicted_pod_ends_in_a_bounded_time_whatever_its_spec_says(
    fact: WorkloadFact | None, pod_set: str | None, over: bool
) -> None:
    key = fact.key if fact is not None else WorkloadKey(kind_names.POD, "slow")
    seats = ["slow", "quick"][: 2 if fact is not None else 1]
    leaving = evicting(admission(key, " ".join(["n1"] * len(seats)), pod_set=pod_set, started=True))
    pods = [
        ending(name, grace, f"{pod_set}/{index}" if pod_set else None)
        for index, (name, grace) in enumerate(zip(seats, (YEAR, LONGEST), strict=False))
    ]
    now = replace(fact, deleting=over) if fact is not None else None
    found = orders(state_of(now, pods, [leaving], key=key), now)
    assert shortened(found) == {"slow": (Verb.DELETE_POD, LONGEST)}


def test_a_pod_that_its_owner_deletes_keeps_its_grace_period_until_it_is_evicted() -> None:
    pods = [ending("a", YEAR, f"{MEMBER}/0")]
    taken = admission(GROUP, "n1", pod_set=MEMBER, started=True)
    assert orders(state_of(group(1), pods, [taken]), group(1)) == []
    assert shortened(orders(state_of(group(1), pods, [evicting(taken)]), group(1))).keys() == {"a"}


def test_a_pod_that_has_no_seat_any_more_ends_in_a_bounded_time_as_well() -> None:
    closed = frozenset({AdmissionId(7)})
    found = state_of(volcano_job(1), [ending("a", YEAR, "worker/0", by=7)], closed=closed)
    assert shortened(orders(found, volcano_job(1))).keys() == {"a"}


def test_a_pod_that_is_removed_by_force_is_deleted_once() -> None:
    leaving = evicting(admission(VOLCANO, "n1", started=True))
    silent = {NodeName("n1"): None}
    found = state_of(volcano_job(1), [ending("a", YEAR, "worker/0")], [leaving], silent_nodes=silent)
    assert told(orders(found, volcano_job(1))) == {"a": "lost"}


# ── what is resumed is what was admitted ────────────────────────────────────────────────────────────────────


def test_a_pod_gets_no_seat_that_is_too_small_for_it() -> None:
    fact = job(2)
    pods = [gated("a", takes=gpus(8)), gated("b")]
    (order,) = orders(state_of(fact, pods, [admission(JOB, "n1 n2")]), fact)
    assert order.name == "b"


def test_a_job_is_resumed_only_as_the_version_that_was_compared() -> None:
    exists = frozenset({"/metadata", "/metadata/labels", "/metadata/annotations", "/spec/affinity"})
    fact = job(1, suspended=True, revision=JobRevision(7, exists))
    (order,) = orders(state_of(fact, [], [admission(JOB, "n1")]), fact)
    steps = json_patch(order)
    tests = {step["path"]: step["value"] for step in steps[:2] if step["op"] == "test"}
    assert tests == {"/metadata/uid": JOB.uid, "/metadata/generation": 7}
    written = {step["path"]: step for step in steps[2:]}
    assert written["/spec/suspend"]["value"] is False
    assert written["/spec/template/metadata/labels/muster.dev~1released"]["value"] == "true"
    assert written["/spec/template/metadata/annotations/muster.dev~1admission-id"]["value"] == "1"
    assert pins({"nodeAffinity": written["/spec/template/spec/affinity/nodeAffinity"]["value"]}) == ["n1"]


def test_what_an_earlier_admission_wrote_into_the_template_is_removed() -> None:
    written = "/metadata/annotations/muster.dev~1admission-id"
    node = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
    places = {"/metadata", "/metadata/labels", "/metadata/annotations", "/spec/affinity"}
    exists = frozenset({*places, "/spec/affinity/nodeAffinity", written, node})
    fact = job(2, suspended=True, revision=JobRevision(7, exists))
    (order,) = orders(state_of(fact, [], [admission(JOB, "n1 n2")]), fact)
    removed = [step["path"] for step in json_patch(order) or () if step["op"] == "remove"]
    assert removed == [f"/spec/template{written}", f"/spec/template{node}"]


def test_a_job_is_suspended_whatever_its_version_is() -> None:
    (order,) = orders(state_of(job(1, revision=JobRevision(7))), job(1, revision=JobRevision(7)))
    assert (order.intent, json_patch(order)) == ("suspend", None)


def test_a_shell_that_nobody_is_at_is_deleted_whether_it_runs_or_waits() -> None:
    bare = WorkloadKey(kind_names.POD, "bare")
    abandoned = ShellHeartbeat("a", NOW - 300)
    for shell, held in (
        (gated("bare", queue=TEAM, controller="", heartbeat="a"), []),
        (
            released("bare", "pod/0", "n1", queue=TEAM, controller="", heartbeat="a"),
            [admission(bare, "n1", name="bare", started=True)],
        ),
    ):
        (order,) = orders(state_of(None, [shell], held, key=bare, heartbeat=abandoned), None)
        assert (order.verb, order.uid, order.intent) == (Verb.DELETE_POD, "bare", ABANDONED)
