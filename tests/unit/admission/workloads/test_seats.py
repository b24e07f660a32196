"""Who sits where, what a group asks for, and which seats are over."""

from dataclasses import replace
from typing import Any

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import GroupRequest, WorkloadFact
from admission.workloads.pod_sets import numbered
from admission.workloads.pod_shapes import shape_name
from admission.workloads.seats import seat_map_of, seat_maps_of
from queues.admissions import Admission
from queues.workload import AdmissionId, PodSet, WorkloadKey
from tests.builders.facts import (
    GROUP,
    JOB,
    VOLCANO,
    admission,
    evicting,
    gated,
    gpus,
    group,
    job,
    pod,
    released,
    state_of,
    volcano_job,
    wanted,
)
from tests.tables import named_rows

MEMBER = shape_name(gated("any"))


def test_a_pod_sits_where_its_annotation_says() -> None:
    place = seat_map_of(admission(VOLCANO, "n1 n2"), [released("p", "worker/1", "n2")])
    assert {index: pod.name for index, pod in place.seated.items()} == {1: "p"}
    assert place.vacant() == [0]


def test_two_pods_never_sit_in_one_seat() -> None:
    place = seat_map_of(admission(VOLCANO, "n1"), [released("a", "worker/0"), released("b", "worker/0")])
    assert [pod.name for pod in place.seated.values()] == ["a"]
    assert [pod.name for pod in place.unseated] == ["b"]


def test_pods_of_a_directed_job_sit_by_their_nodes() -> None:
    pods = [released(f"p{index}", None, node) for index, node in enumerate(("n2", "n1", "n1"))]
    place = seat_map_of(admission(JOB, "n1 n1 n2"), pods)
    assert {index: pod.name for index, pod in place.seated.items()} == {0: "p1", 1: "p2", 2: "p0"}


def test_a_pod_that_ended_sits_nowhere() -> None:
    ended = released("p", "worker/0", "n1", phase=PodPhase.SUCCEEDED)
    assert seat_map_of(admission(VOLCANO, "n1"), [ended]).vacant() == [0]


def test_whom_one_admission_adopted_no_other_counts() -> None:
    first = admission(JOB, "n1")
    adopted = admission(JOB, "n1", number=2, first=1, adopted={"b": 0})
    pods = [released("a", None, "n1"), released("b", None, "n1")]
    places = seat_maps_of([first, adopted], pods)
    assert [[pod.name for pod in place.seated.values()] for place in places] == [["a"], ["b"]]
    assert [place.unseated for place in places] == [(), ()]


def test_interchangeable_pods_take_the_lowest_numbers_that_are_free() -> None:
    pods = numbered(PodSet(name="main", count=3, takes=gpus()), {2}, 3)
    assert pods.wanted() == (0, 1, 2)
    pods = numbered(PodSet(name="main", count=1, takes=gpus()), {2}, 1)
    assert pods.wanted() == (2,)


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_pods_of_a_group_are_interchangeable_by_shape() -> None:
    small, large = gated("a"), gated("b", takes=gpus(2))
    found = state_of(group(3), [small, large, replace(small, uid="c", name="c")])
    assert {shape_name(small): 2, shape_name(large): 1} == {
        pods.name: len(pods.wanted()) for pods in found.workload.pod_sets
    }


def test_a_group_of_too_many_shapes_is_told_so_and_has_nothing_to_be_compared() -> None:
    pods = [gated(f"p{number}", task=f"t{number}") for number in range(257)]
    found = state_of(group(257), pods).workload
    assert "found pods of 257 different tasks" in found.obstacle.message
    assert found.pod_sets == ()
    assert len(state_of(group(256), pods[:256]).workload.pod_sets) == 256


def test_shapes_of_one_task_share_its_minimum() -> None:
    pods = [gated(f"a{i}", task="w") for i in range(2)]
    pods += [gated(f"b{i}", task="w", takes=gpus(2)) for i in range(2)]
    found = state_of(group(3, group=GroupRequest(task_minimums={"w": 3})), pods)
    assert sum(each.minimum for each in found.workload.pod_sets) == 3
    assert found.workload.obstacle is None


def test_a_task_without_its_pods_keeps_the_group_waiting() -> None:
    pods = [gated(f"p{i}", task="worker") for i in range(4)]
    found = state_of(group(3, group=GroupRequest(task_minimums={"worker": 2, "ps": 1})), pods)
    assert found.workload.obstacle == ("NotEnoughPods", "0 of 1 pods of task ps exist")


def test_a_member_that_gates_of_others_hold_does_not_count_yet() -> None:
    held = gated("b", other_gates=("example.org/wait",))
    found = state_of(group(2), [gated("a"), held])
    told = "1 pod with scheduling gates of others: example.org/wait; considered when they are removed"
    assert found.workload.obstacle == ("OtherGates", told)
    few = state_of(group(3), [gated("a"), held])
    told = "1 of 3 pods exist; 1 more wait for scheduling gates of others"
    assert few.workload.obstacle == ("NotEnoughPods", told)


def test_members_of_a_task_that_gates_of_others_hold_are_told_as_such() -> None:
    pods = [gated(f"p{i}", task="worker") for i in range(3)]
    pods += [gated("first", task="ps", other_gates=("example.org/wait",))]
    found = state_of(group(3, group=GroupRequest(task_minimums={"worker": 2, "ps": 1})), pods)
    assert found.workload.obstacle.code == "OtherGates"
    assert "example.org/wait" in found.workload.obstacle.message


def test_a_member_that_was_never_gated_asks_for_no_seat() -> None:
    found = state_of(group(2), [gated("a"), pod("b")])
    assert wanted(found) == 1


def test_a_member_that_takes_the_place_of_another_asks_for_a_seat_of_its_own() -> None:
    taken = admission(GROUP, "n1 n2", pod_set=MEMBER, ended=frozenset({0}), started=True)
    found = state_of(group(2), [released("b", f"{MEMBER}/1", "n2"), gated("c")], [taken])
    assert found.needs_seats
    assert wanted(found) == 2


def test_a_group_whose_pods_all_ended_waits_for_nothing() -> None:
    ended = [replace(gated(name), phase=PodPhase.SUCCEEDED, gated=False) for name in "ab"]
    found = state_of(group(2), ended)
    assert not found.needs_seats
    assert found.workload.obstacle is None


def test_members_that_succeeded_are_part_of_the_gang_still() -> None:
    done = pod("a", phase=PodPhase.SUCCEEDED)
    found = state_of(group(2), [done, gated("b")])
    assert found.needs_seats
    assert (found.workload.minimum, found.workload.obstacle) == (1, None)


# ── seats that are over ─────────────────────────────────────────────────────────────────────────────────────


def runs(of: WorkloadKey, nodes: str, **facts: Any) -> Admission:
    """What was admitted to these nodes, and has started."""
    pod_set = MEMBER if of is GROUP else None
    return admission(of, nodes, **{"started": True, "pod_set": pod_set, **facts})


WORKER, MINE = released("a", "worker/0", "n1"), released("a", f"{MEMBER}/0", "n1")


@named_rows(
    ("fact", "pods", "taken", "ended"),
    {
        "a Job scaled down gives the seats back that its pods left": (
            job(2),
            [released("a", "main/2", "n2"), released("b", "main/3", "n2")],
            runs(JOB, "n1 n1 n2 n2"),
            {0, 1},
        ),
        "and keeps those of pods that are still there": (
            job(1),
            [released("a", "main/2", "n2"), released("b", "main/1", "n1")],
            runs(JOB, "n1 n1 n2"),
            {0},
        ),
        "a Job keeps the seat of a pod that will be made again": (
            job(2),
            [released("a", "main/0", "n1")],
            runs(JOB, "n1 n1"),
            set(),
        ),
        "so does a Volcano Job": (volcano_job(2), [WORKER], runs(VOLCANO, "n1 n2"), set()),
        "scaled down it gives back what is beyond": (
            volcano_job(1),
            [WORKER],
            runs(VOLCANO, "n1 n2 n3"),
            {1, 2},
        ),
        "nobody comes for the seat of a member that went away": (group(2), [MINE], runs(GROUP, "n1 n2"), {1}),
        "a seat is kept for as many members as wait": (
            group(2),
            [MINE, gated("b")],
            runs(GROUP, "n1 n2"),
            set(),
        ),
        "pods on their way out hold their seats to the end": (
            volcano_job(2),
            [replace(WORKER, deleting=True)],
            evicting(admission(VOLCANO, "n1 n2")),
            {1},
        ),
    },
)
def test_which_seats_are_over(
    fact: WorkloadFact, pods: list[PodFact], taken: Admission, ended: set[int]
) -> None:
    assert state_of(fact, pods, [taken]).ended == ({taken.id: ended} if ended else {})


def test_a_seat_whose_pod_sits_in_another_admission_is_over() -> None:
    """A pod of an Indexed Job that ran already, adopted while its seat was kept for it."""
    adopted = admission(JOB, "n3", number=2, first=1, adopted={"b": 0}, started=True)
    pods = [released("a", "main/0", "n1", index=0), pod("b", "n3", index=1)]
    found = state_of(job(2, indexed=True), pods, [admission(JOB, "n1 n2"), adopted])
    assert found.ended == {AdmissionId(1): {1}}


def test_after_the_start_an_empty_seat_on_a_dead_node_is_over() -> None:
    taken = runs(VOLCANO, "n1 n2")
    found = state_of(volcano_job(2), [WORKER], [taken], dead_nodes=frozenset({taken.seats[1].node}))
    assert (found.ended, found.evictable) == ({AdmissionId(1): {1}}, {})


def test_a_seat_for_which_a_pod_may_still_come_is_not_over() -> None:
    taken = admission(VOLCANO, "n1 n2")
    awaited = {AdmissionId(1): frozenset({0})}
    assert state_of(None, [], [taken], awaited=awaited).ended == {AdmissionId(1): frozenset({1})}
    assert {AdmissionId(1): frozenset({0, 1})} == state_of(None, [], [taken]).ended
