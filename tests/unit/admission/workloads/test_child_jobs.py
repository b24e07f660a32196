"""Pods of the Jobs that an operator makes: what their controller will not make again needs no seat."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import Child, ChildCluster, ChildJob, WorkloadFact
from admission.workloads.gang_readiness import JOB_FAILURE_BACKOFF
from admission.workloads.inputs import MissingSince
from queues import kind_names
from queues.admissions import Admission
from queues.kind_names import KindName
from queues.workload import AdmissionId, WorkloadKey
from tests.builders.facts import NOW, admission, gone, released, see, seen, state_of, world
from tests.builders.operator_jobs import (
    SPECS,
    Document,
    child,
    child_cluster,
    fact,
    replicated,
    roles,
    template,
)
from tests.tables import with_rows

ONE = AdmissionId(1)
#: Two Jobs of three pods each, with a failure limit for each index; Muster has resumed it.
JOB_SET = fact(
    KindName("jobset"),
    {"replicatedJobs": [replicated("w", 2, parallelism=3, completions=3)]},
    suspended=False,
)
INDEXED: Document = {"completionMode": "Indexed", "parallelism": 3, "completions": 3}
TRUE = {"status": "True"}


def part(
    number: int = 0, status: Document | None = None, parent: WorkloadFact = JOB_SET, **more: Any
) -> ChildJob:
    found = child(parent, "w", f"train-w-{number}", status=status, **(more or INDEXED))
    assert isinstance(found, ChildJob)
    return found


def pods(*indexes: int, number: int = 0, first: int = 0, **facts: Any) -> list[PodFact]:
    """Pods of one of the Jobs, in the seats from ``first`` on."""
    given = {"owner": JOB_SET.key, "task": "w", "controller": f"job/train-w-{number}", **facts}
    return [
        released(f"{number}-{index}", f"w/{first + place}", "n1", index=index, **given)
        for place, index in enumerate(indexes)
    ]


def asked(*children: Child, of: WorkloadFact = JOB_SET, pods: list[PodFact] | None = None) -> int:
    """Pods that a workload asks for; without pods and seats: it waits."""
    state = state_of(of, pods or [], children=children)
    return sum(each.count for each in state.workload.pod_sets)


@pytest.mark.parametrize(
    ("status", "left"),
    [
        ({}, 6),
        ({"active": 3}, 6),
        ({"failedIndexes": "1"}, 5),
        ({"completedIndexes": "0", "succeeded": 1, "failedIndexes": "1-2"}, 3),
        ({"conditions": [{"type": "Complete", **TRUE}], "completedIndexes": "0-2", "succeeded": 3}, 3),
        ({"conditions": [{"type": "SuccessCriteriaMet", **TRUE}], "completedIndexes": "0"}, 3),
        # Its operator makes it again, or gives up.
        ({"conditions": [{"type": "FailureTarget", **TRUE}], "completedIndexes": "0"}, 6),
        ({"conditions": [{"type": "Failed", **TRUE}], "failedIndexes": "0-2"}, 6),
    ],
)
def test_a_job_set_asks_for_the_pods_that_its_jobs_still_get(status: Document, left: int) -> None:
    assert asked(part(0, status), part(1)) == left
    assert asked(part(0, status)) == left, "the second Job is not there yet"
    assert asked(part(0, status), of=replace(JOB_SET, suspended=True)) == left


@with_rows("spec", "status", "left")
def test_jobs_of_each_form_are_counted_as_their_controller_does(
    spec: Document, status: Document, left: int
) -> None:
    assert asked(part(0, status, **spec), part(1)) == left


def test_others_follow_pods_that_ended_while_there_is_more_to_do() -> None:
    many = {"completionMode": "Indexed", "parallelism": 2, "completions": 10}
    found = fact(KindName("jobset"), {"replicatedJobs": [replicated("w", 1, **many)]}, suspended=False)
    for over, left in (("0-5", 2), ("0-7", 2), ("0-8", 1), ("0-9", 0)):
        assert asked(part(0, {"failedIndexes": over}, found, **many), of=found) == left


def test_a_job_that_is_being_deleted_is_made_again() -> None:
    over = {"failedIndexes": "0-1"}
    moment = "2026-01-01T00:00:00Z"
    assert asked(part(0, over), part(1)) == 4
    assert asked(part(0, over, metadata={"deletionTimestamp": moment}, **INDEXED), part(1)) == 6


def test_pods_of_an_earlier_job_of_the_same_name_are_not_counted() -> None:
    later = part(0, metadata={"creationTimestamp": "2026-01-01T00:00:10Z"}, **INDEXED)
    ended = pods(0, phase=PodPhase.SUCCEEDED)
    assert asked(later, part(1), pods=ended) == 6
    assert asked(part(0), part(1), pods=ended) == 5


def test_pods_that_succeeded_are_counted_before_their_job_says_so_and_each_index_once() -> None:
    first = pods(0, 1, phase=PodPhase.SUCCEEDED)
    twice = replace(first[0], uid="again", name="again")
    other = pods(0, number=1, phase=PodPhase.SUCCEEDED)
    assert asked(part(0), part(1), pods=[*first, twice, *other]) == 3


def test_pods_of_a_job_that_is_not_seen_are_not_counted() -> None:
    """A JobSet that starts again has deleted its Jobs; their pods may be seen for a moment longer."""
    assert asked(pods=pods(0, 1, phase=PodPhase.SUCCEEDED)) == 6


def held() -> Admission:
    return admission(JOB_SET.key, "n1 n1 n1 n1 n1 n1", pod_set="w", started=True, opened_at=NOW - 7200)


@pytest.mark.parametrize("end", ["completedIndexes", "failedIndexes"])
def test_the_seat_of_an_index_that_ended_is_free_and_no_pod_is_missed(end: str) -> None:
    running = [*pods(1, 2, first=1), *pods(0, 1, 2, number=1, first=3)]
    children = [part(0, {end: "0", "active": 2}), part(1, {"active": 3})]
    state = state_of(JOB_SET, running, [held()], children=children)
    assert state.ended == {ONE: frozenset((0,))}
    assert (state.remembered.missing_since, state.problem, state.needs_seats) == ({}, None, False)


def test_a_job_set_that_lost_pods_goes_back_once_its_jobs_know_of_it() -> None:
    running = pods(0, 1, 2, number=1, first=3)
    over = NOW + 600 + JOB_FAILURE_BACKOFF
    since = {"missing_since": {ONE: MissingSince(seat=NOW, needed=NOW)}}

    def evicted(active: int) -> bool:
        children = [part(0, {"active": active}), part(1, {"active": 3})]
        found = state_of(JOB_SET, running, [held()], children=children, now=over, **since)
        return bool(found.evictable)

    assert evicted(0)
    assert not evicted(3), "its controller has not seen them go: they may have succeeded"


RAY_JOB = fact(KindName("rayjob"), suspended=False)


def cluster(*, small: int = 3, tpu: int = 2, **metadata: Any) -> ChildCluster:
    """Of a RayJob with a head, three small workers and two of four hosts, and what submits it."""
    groups = [
        {"groupName": "small", "replicas": small, "template": template()},
        {"groupName": "tpu", "replicas": tpu, "numOfHosts": 4, "template": template()},
    ]
    spec = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": groups}
    found = child_cluster(RAY_JOB, spec, **metadata)
    assert isinstance(found, ChildCluster)
    return found


def test_workers_that_the_autoscaler_of_a_ray_job_let_go_need_no_seat() -> None:
    assert asked(of=RAY_JOB) == 13
    assert asked(cluster(), of=RAY_JOB) == 13
    assert asked(cluster(small=1), of=RAY_JOB) == 11
    assert asked(cluster(small=0, tpu=1), of=RAY_JOB) == 6
    # Others come again, and seats for more than it said at first are not asked for.
    assert asked(cluster(small=9), of=RAY_JOB) == 13
    # A RayJob that is suspended gets another cluster, and so does one that is tried again.
    assert asked(cluster(small=0), of=replace(RAY_JOB, suspended=True)) == 13
    assert asked(cluster(small=0, deletionTimestamp="2026-01-01T00:00:00Z"), of=RAY_JOB) == 13


def test_seats_of_workers_that_were_let_go_are_given_back_and_no_pod_is_missed() -> None:
    taken = [
        admission(RAY_JOB.key, nodes, pod_set=name, number=number, started=True, opened_at=NOW - 7200)
        for number, (name, nodes) in enumerate((("head", "n1"), ("small", "n1 n1 n1")), 1)
    ]
    given = {"owner": RAY_JOB.key, "controller": "raycluster/x"}
    running = [
        released("head", "head/0", "n1", by=1, task="head", **given),
        released("worker", "small/2", "n1", by=2, task="small", **given),
    ]
    state = state_of(RAY_JOB, running, taken, children=[cluster(small=1, tpu=0)])
    assert state.ended == {AdmissionId(2): frozenset((0, 1))}
    assert (state.remembered.missing_since, state.problem) == ({}, None)


@pytest.mark.parametrize(
    ("mode", "pods"),
    [("", 13), ("K8sJobMode", 13), ("HTTPMode", 12), ("SidecarMode", 12), ("InteractiveMode", 12)],
)
def test_what_submits_a_ray_job_has_a_seat_if_kuberay_makes_a_job_for_it(mode: str, pods: int) -> None:
    spec = {**SPECS[KindName("rayjob")][0], "submissionMode": mode}
    assert asked(of=fact(KindName("rayjob"), spec)) == pods


# ── which Jobs are parts of a workload ──────────────────────────────────────────────────────────────────────────


def test_the_launcher_of_an_mpi_job_and_what_submits_a_ray_job_are_counted() -> None:
    done = {"conditions": [{"type": "Complete", **TRUE}], "succeeded": 1}
    once: Document = {"parallelism": 1, "completions": 1}
    mpi = fact(KindName("mpijob"), {"mpiReplicaSpecs": roles(Launcher=1, Worker=2)}, suspended=False)
    cluster = {"headGroupSpec": {"template": template()}}
    spec = {"rayClusterSpec": cluster, "submitterPodTemplate": template(), "shutdownAfterJobFinishes": True}
    ray = fact(KindName("rayjob"), spec, suspended=False)
    for found, pod_set, left in ((mpi, "launcher", 2), (ray, "submitter", 1)):
        runs, ended = (child(found, pod_set, "x", status=status, **once) for status in ({"active": 1}, done))
        assert isinstance(runs, ChildJob)
        assert isinstance(ended, ChildJob)
        assert (asked(runs, of=found), asked(ended, of=found)) == (left + 1, left)


def test_a_job_is_a_part_if_its_template_says_so_something_controls_it_and_it_names_no_queue() -> None:
    assert isinstance(child(JOB_SET, "w", "x"), ChildJob)
    with_queue = child(JOB_SET, "w", "x", metadata={"labels": {"muster.dev/queue-name": "team"}})
    assert isinstance(with_queue, WorkloadFact)
    assert isinstance(child(JOB_SET, "w", "x", metadata={"ownerReferences": []}), WorkloadFact)
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "o", "controller": True}
    unmarked: Document = {"template": template()}
    of_job_set = {"ownerReferences": [{**owner, "uid": "o"}]}
    assert child(JOB_SET, "w", "x", metadata=of_job_set, **unmarked) is None, "it waits for nothing"


@pytest.mark.parametrize("other", [{"namespace": "others"}, {"name": "other"}])
def test_a_job_of_another_namespace_or_name_is_no_part(other: dict[str, str]) -> None:
    assert asked(part(0, {"failedIndexes": "0-2"}, replace(JOB_SET, **other))) == 6


def test_the_world_looks_at_a_workload_when_one_of_its_jobs_changes() -> None:
    known = world([JOB_SET, part(0), part(1)], arrivals={JOB_SET.key: 1})

    def asks() -> int:
        changed = known.refresh(NOW)
        assert changed <= {JOB_SET.key}
        return sum(each.count for each in known.states[JOB_SET.key].workload.pod_sets)

    assert asks() == 6
    known.observe([seen(part(0, {"failedIndexes": "0"}))])
    assert asks() == 5
    known.observe([gone(part(0, {"failedIndexes": "0"}))])
    assert asks() == 6
    assert known.states.keys() == {JOB_SET.key}


def test_a_job_that_gets_a_queue_of_its_own_is_no_part_any_more() -> None:
    known = world([JOB_SET, part(0, {"failedIndexes": "0-1"})], arrivals={JOB_SET.key: 1})
    alone = child(JOB_SET, "w", "train-w-0", metadata={"labels": {"muster.dev/queue-name": "team"}})
    assert isinstance(alone, WorkloadFact)
    see(known, alone)
    assert sum(each.count for each in known.states[JOB_SET.key].workload.pod_sets) == 6
    assert known.states.keys() == {JOB_SET.key, WorkloadKey(kind_names.JOB, "train-w-0")}
    see(known, part(0))
    assert known.states.keys() == {JOB_SET.key}
