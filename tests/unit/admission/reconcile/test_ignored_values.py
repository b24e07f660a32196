"""Values of labels and annotations that cannot be read are told on the object, once, and nothing waits for them."""

from typing import Any

import pytest

from admission.kube.writers.events import event
from admission.reconcile.events import IgnoredValueEvents
from queues import kind_names
from queues.kind_names import KindName
from queues.workload import WorkloadKey
from tests.builders.trials.worlds_in_memory import (
    WorldInMemory,
    batch_job,
    job_set,
    pod,
    stored,
    two_racks,
    volcano_job,
)

SAID = "muster.dev/run-time: found '3 hourz', expected a duration such as 90s, 30m or 2h; it counts as if no run time "


@pytest.fixture
def cluster() -> WorldInMemory:
    return two_racks()


def saying(document: dict[str, Any], **annotations: str) -> dict[str, Any]:
    found = stored(document, "a")
    said = {f"muster.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    found["metadata"]["annotations"] = {**found["metadata"].get("annotations", {}), **said}
    return found


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (kind_names.JOB, batch_job("a", 1, queue="team", gpu=8)),
        (kind_names.VOLCANO_JOB, volcano_job("a", 1, queue="team", gpu=8)),
        (KindName("jobset"), job_set("a", 1, 1, queue="team", gpu=8)),
        (kind_names.POD, pod("a", queue="team", gpu=8)),
    ],
    ids=lambda each: str(each) if isinstance(each, str) else "",
)
def test_every_kind_tells_it_once_and_is_admitted_all_the_same(
    cluster: WorldInMemory, kind: KindName, document: dict[str, Any]
) -> None:
    cluster.store(saying(document, run_time="3 hourz"))
    cluster.settle()
    key, events = WorkloadKey(kind, "a"), IgnoredValueEvents()

    (note,) = events.new(cluster.world, key)
    assert note.message.startswith(SAID)
    assert (note.ref.name, note.warning, note.reason) == ("a", True, "IgnoredValue")
    assert events.new(cluster.world, key) == []
    assert [each.workload for each in cluster.world.admissions.values()] == [key]


def test_another_value_is_told_again_and_a_right_one_is_not(cluster: WorldInMemory) -> None:
    key, events = WorkloadKey(kind_names.JOB, "a"), IgnoredValueEvents()
    job = batch_job("a", 1, queue="team", gpu=8)
    told = []
    for text in ("3 hourz", "3 hourz", "2h", "soon"):
        cluster.store(saying(job, run_time=text))
        cluster.settle()
        told.append([each.message.split(",")[0] for each in events.new(cluster.world, key)])
    first, last = "muster.dev/run-time: found '3 hourz'", "muster.dev/run-time: found 'soon'"
    assert told == [[first], [], [], [last]]


def test_another_leader_gives_the_event_the_same_name(cluster: WorldInMemory) -> None:
    cluster.store(saying(batch_job("a", 1, queue="team", gpu=8), run_time="3 hourz", min_run_time="x"))
    cluster.settle()
    key = WorkloadKey(kind_names.JOB, "a")
    first, second = (IgnoredValueEvents().new(cluster.world, key) for _ in range(2))
    names = [event(note, 1, "x")["metadata"]["name"] for note in first]
    assert names == [event(note, 2, "x")["metadata"]["name"] for note in second]
    assert len(set(names)) == 2


def test_a_template_is_told_with_its_place(golden: Any, cluster: WorldInMemory) -> None:
    job = batch_job("a", 1, queue="team", gpu=8)
    job["spec"]["template"]["metadata"] = {"annotations": {"muster.dev/balanced": "yes"}}
    cluster.store(stored(job, "a"))
    cluster.settle()
    (note,) = IgnoredValueEvents().new(cluster.world, WorkloadKey(kind_names.JOB, "a"))
    assert note.message == golden


def test_a_trial_refuses_it(cluster: WorldInMemory) -> None:
    for document in (batch_job("a", 1, queue="team", gpu=8), pod("a", queue="team", gpu=8)):
        document["metadata"]["annotations"] = {"muster.dev/run-time": "3 hourz"}
        (found,) = cluster.tried(document).items.values()
        assert [each.startswith(SAID) for each in found.refusals] == [True]
