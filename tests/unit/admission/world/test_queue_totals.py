"""What the status of a queue counts: every workload once, by how far it is."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import PodFact, PodPhase
from admission.reconcile.world_status import QueueStatuses, WorldStatuses
from admission.world.queues import Standing
from admission.world.world import World
from queues.admissions import AdmissionState
from queues.api.types.podgroup import PodGroupPhase
from queues.workload import WorkloadKey
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    gated,
    gone,
    group,
    job,
    node,
    queue,
    released,
    see,
    seen,
    volcano_job,
    world,
)
from tests.tables import named_rows

POD_SET = "pod"


def of(known: World, standing: Standing) -> int:
    return known.queue_totals.workloads[TEAM, standing]


def member(name: str, **facts: Any) -> PodFact:
    ordinal = "abc".index(name)
    return released(name, f"{POD_SET}/{ordinal}", "n1", group="gang", **facts)


def gang(pods: Sequence[PodFact], *, started: bool = True, phase: str = "Running") -> World:
    """A gang of two that holds two seats, of which these pods are there."""
    held = admission(GROUP, "n1 n1", pod_set=POD_SET, started=started)
    return world([queue(TEAM), node("n1"), group(2, phase=phase), *pods], [held])


DONE, FAILED = ({"phase": phase, "ready_since": None} for phase in (PodPhase.SUCCEEDED, PodPhase.FAILED))


@named_rows(
    ("pods", "started", "phase", "standing"),
    {
        "whole": ((member("a"), member("b")), True, "Running", Standing.RUNNING),
        "one is gone": ((member("a"),), True, "Running", Standing.UNKNOWN),
        "still": ((member("a"),), True, "Unknown", Standing.UNKNOWN),
        "it starts": ((member("a"),), False, "Inqueue", Standing.INQUEUE),
        "all are gone": ((), True, "Running", Standing.RUNNING),
        "one has failed": ((member("a"), member("b", **FAILED)), True, "Running", Standing.RUNNING),
        "one has succeeded": ((member("a"), member("b", **DONE)), True, "Running", Standing.RUNNING),
    },
)
def test_a_gang_that_lost_members_is_unknown(
    pods: tuple[PodFact, ...], started: bool, phase: str, standing: Standing
) -> None:
    known = gang(pods, started=started, phase=phase)
    assert {each for each in Standing if of(known, each)} == {standing}
    [shown] = list(WorldStatuses(known, None, {}).of(GROUP))  # type: ignore[arg-type]
    assert (shown.fields["phase"] == PodGroupPhase.UNKNOWN) == (standing is Standing.UNKNOWN)
    [status] = QueueStatuses(known).changed()
    assert status.fields["unknown"] == int(standing is Standing.UNKNOWN)


def test_pods_that_run_without_seats_are_an_unknown_gang_until_they_are_gone() -> None:
    evicted = replace(admission(GROUP, "n1 n1", pod_set=POD_SET, started=True), state=AdmissionState.EVICTING)
    known = world([queue(TEAM), node("n1"), group(2), member("a"), gated("b", group="gang")], [evicted])
    assert (of(known, Standing.UNKNOWN), of(known, Standing.PENDING)) == (1, 0)
    see(known, gone(member("a")))
    assert (of(known, Standing.UNKNOWN), of(known, Standing.PENDING)) == (0, 1)


def test_a_gang_is_counted_once_however_often_it_changes() -> None:
    known = gang([member("a"), member("b")])
    for change in (gone(member("b")), seen(member("b")), gone(member("a")), gone(member("b"))):
        see(known, change)
        assert sum(known.queue_totals.workloads.values()) == 1
    known.observe([gone(group(2))])
    known.put_admissions([replace(next(iter(known.admissions.values())), state=AdmissionState.CLOSED)])
    known.refresh(NOW)
    assert not +known.queue_totals.workloads


@pytest.mark.parametrize(
    ("fact", "key", "standing"),
    [(volcano_job(2), VOLCANO, Standing.UNKNOWN), (job(2), JOB, Standing.RUNNING)],
    ids=["a Volcano Job has a PodGroup", "a Job of Kubernetes has none"],
)
def test_only_what_has_a_podgroup_can_be_unknown(fact: Any, key: WorkloadKey, standing: Standing) -> None:
    pod_set = fact.pod_sets[0].name
    alone = released("a", f"{pod_set}/0", "n1", owner=key)
    known = world([queue(TEAM), node("n1"), fact, alone], [admission(key, "n1 n1", started=True)])
    assert of(known, standing) == 1


def test_a_queue_with_an_unknown_gang_is_not_empty() -> None:
    known = gang([member("a")])
    see(known, queue(TEAM, closed=True))
    [status] = QueueStatuses(known).changed()
    assert status.fields["state"] == "Closing"
