"""Jobs for nodes as their informer shows them, among those of users who write the same annotation."""

from typing import Any

import msgspec
import pytest

from admission.kube.node_recovery.recovery_jobs import RecoveryJobs
from admission.workloads.kinds.batch_job import WireJob
from queues.api.names import RECOVERY_NODE
from queues.workload import NodeName
from tests.unit.admission.kube.node_recovery.test_recovery_loop import Rounds, recover

N1 = NodeName("n1")
OPS = frozenset({"ops"})


def wire(uid: str, node: str | None = "n1", **more: Any) -> WireJob:
    annotations = {} if node is None else {RECOVERY_NODE: node}
    metadata = {"name": "repair-n1", "namespace": "ops", "uid": uid, "annotations": annotations} | more
    return msgspec.convert({"metadata": metadata, "spec": {}}, type=WireJob)


class Seen:
    """Jobs, and how often they told of a change."""

    def __init__(self, *jobs: WireJob) -> None:
        self.jobs, self.told = RecoveryJobs(), 0
        self.jobs.changed = self.tell
        self.jobs.namespaces = OPS
        for job in jobs:
            self.show(job)

    def tell(self) -> None:
        self.told += 1

    def show(self, job: WireJob) -> None:
        self.jobs.seen(job, msgspec.Raw(b""))

    def namespaces(self, *namespaces: str) -> list[str]:
        return [job.namespace for job in self.jobs.of(N1, frozenset(namespaces)).values()]


def test_a_job_of_the_same_name_in_another_namespace_hides_none() -> None:
    seen = Seen(wire("a"), wire("b", namespace="tenant"))
    assert seen.namespaces("ops") == ["ops"]
    seen.jobs.gone("b")
    assert seen.namespaces("ops") == ["ops"]


async def test_a_job_of_a_user_costs_no_attempt() -> None:
    rounds = Rounds(recover())
    rounds.report(3)
    await rounds.look(5)
    [name] = rounds.made()
    rounds.jobs.seen(wire("forged", name=name, namespace="tenant"), msgspec.Raw(b""))
    await rounds.look(5)
    rounds.jobs.gone("forged")
    await rounds.look(5)
    assert (rounds.phase(), rounds.made()) == ("recovering", [name])


def test_the_end_of_a_job_takes_no_later_one_of_its_name() -> None:
    early, late = "2027-01-15T08:00:00Z", "2027-01-15T09:00:00Z"
    seen = Seen(wire("new", creationTimestamp=late), wire("old", creationTimestamp=early))
    assert seen.jobs.of(N1, OPS)["repair-n1"].created == 1_800_003_600
    seen.jobs.gone("old")
    assert seen.namespaces("ops") == ["ops"]


def test_a_job_for_another_node_is_one_for_that_node_only() -> None:
    seen = Seen(*(wire("a", f"n{number}") for number in range(100)))
    assert seen.jobs.nodes(OPS) == {"n99"}
    assert seen.jobs._places == {"ops": {"n99": {"a"}}}
    seen.jobs.gone("a")
    assert (seen.jobs._places, seen.jobs._by_uid) == ({}, {})


@pytest.mark.parametrize("node", ["", "N1", "a/b", "n" * 254, "\u0661", None])
def test_what_is_no_name_of_a_node_is_not_kept(node: str | None) -> None:
    seen = Seen(wire("a"), wire("a", node))
    assert (seen.jobs._places, seen.jobs._by_uid) == ({}, {})


def test_jobs_of_users_wake_nobody() -> None:
    seen = Seen(*(wire("b", f"n{number}", namespace="tenant") for number in range(10)))
    seen.jobs.gone("b")
    assert seen.told == 0
    seen.show(wire("a"))
    seen.show(wire("a"))
    assert seen.told == 1
    seen.jobs.gone("a")
    assert seen.told == 2
