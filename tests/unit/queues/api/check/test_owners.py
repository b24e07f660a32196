"""``muster check`` for owners of pods: which of them wait, together or alone."""

from typing import Any

import pytest

from queues.api.check.check import check_documents
from tests.tables import with_rows

OWNER = """
apiVersion: apps/v1
kind: %s
metadata: {name: web, labels: {muster.dev/queue-name: language}, annotations: {%s}}
spec: {template: {spec: {containers: [{name: c, image: i}]}}}
"""
LEADER_WORKER_SET = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: web, labels: {muster.dev/queue-name: language}}
spec: {leaderWorkerTemplate: {size: 4, workerTemplate: {spec: {containers: [{name: c, image: i, %s}]}}}}
"""
CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: a}
spec:
  jobTemplate:
    metadata: {labels: {muster.dev/queue-name: language}}
    spec: {template: {spec: {containers: [{name: c, image: i}]}}}
"""
ARRAYS = """
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: language}
spec: {policy: {jobs: array}}
"""
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


def told(text: str) -> list[str]:
    found = [each for each in check_documents([("f.yaml", text)]) if each.path != "spec.strategy"]
    return [str(each).partition(": document 1: ")[2] for each in found]


@with_rows("kind", "annotations", "expected")
def test_pods_of_an_owner_wait_alone_or_together(kind: str, annotations: str, expected: str) -> None:
    assert told(OWNER % (kind, annotations)) == [
        f"note: {kind} web metadata.labels[muster.dev/queue-name]: found queue 'language': {expected}"
    ]


def test_gpus_in_requests_alone_are_told_with_what_to_write() -> None:
    asking = "resources: {requests: {memory: 64GB, nvidia.com/gpu: 1}}"
    _, *errors = told(CRON_JOB.replace("image: i", f"image: i, {asking}"))
    assert [each.partition("resources.")[2] for each in errors] == [
        "requests.memory: found '64GB', expected 64Gi or 64G: 'GB' is no unit",
        "limits: found no nvidia.com/gpu, expected it there too: GPUs go under limits; requests follow",
    ]


def test_a_size_of_a_gang_that_is_no_number_is_told() -> None:
    _, warning = told(OWNER % ("Deployment", f'{MIN_MEMBER}: "many"'))
    assert warning == (
        f"warning: Deployment web metadata.annotations[{MIN_MEMBER}]: found 'many', "
        'expected a number, such as "4"'
    )


def test_of_a_cron_job_the_template_of_its_jobs_has_the_size() -> None:
    said = f", annotations: {{{MIN_MEMBER}: many}}"
    _, warning = told(CRON_JOB.replace("language}", f"language}}{said}"))
    assert warning.startswith(
        f"warning: CronJob a spec.jobTemplate.metadata.annotations[{MIN_MEMBER}]: found 'many'"
    )
    assert len(told(CRON_JOB.replace("{name: a", f"{{name: a{said}"))) == 1, "no Job has it"


def test_leaders_wait_with_their_workers() -> None:
    [note] = told(LEADER_WORKER_SET % "env: []")
    assert note.endswith("found queue 'language': each leader waits together with its workers")


def test_leaders_whose_workers_come_after_them_wait_alone() -> None:
    exclusive = "metadata: {name: web, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}, "
    [note] = told((LEADER_WORKER_SET % "env: []").replace("metadata: {name: web, ", exclusive))
    assert "found queue 'language': each of its pods waits alone, not as a gang: with" in note


def test_a_misspelt_field_of_a_worker_is_told_at_its_place() -> None:
    _, warning = told(LEADER_WORKER_SET % "imagePullPolcy: Always")
    place = "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].imagePullPolcy"
    assert warning.startswith(f"warning: LeaderWorkerSet web {place}: found")


def test_jobs_of_a_cron_job_wait_by_the_label_of_their_template(golden: Any) -> None:
    [note] = told(CRON_JOB)
    assert note == golden


@with_rows("parallelism", "minimum", "queues", "expected")
def test_pods_of_a_cron_jobs_jobs_start_as_annotation_and_queue_say(
    parallelism: int, minimum: int | None, queues: str, expected: str
) -> None:
    annotations = "" if minimum is None else f', annotations: {{{MIN_MEMBER}: "{minimum}"}}'
    text = CRON_JOB.replace("language}", f"language}}{annotations}")
    text = text.replace("spec: {template", f"spec: {{parallelism: {parallelism}, template")
    assert told(text + (ARRAYS if queues else ""))[0].endswith(f"queue 'language': {expected}")


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {muster.dev/queue-name: team}}
spec:
  replicas: %s
  strategy: %s
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: x}]}}
"""


@with_rows("replicas", "strategy", "is_told")
def test_an_update_that_needs_room_for_a_pod_more_is_told(
    replicas: int, strategy: str, is_told: bool
) -> None:
    found = check_documents([("f.yaml", DEPLOYMENT % (replicas, strategy))])
    assert any(each.path == "spec.strategy" and "maxSurge 0" in each.expected for each in found) == is_told


FOR_VOLCANO = (
    LEADER_WORKER_SET.replace("spec: {containers", "spec: {schedulerName: volcano, containers") % "env: []"
)


def test_leaders_wait_with_their_workers_without_a_queue_too() -> None:
    [note] = told(FOR_VOLCANO.replace(", labels: {muster.dev/queue-name: language}", ""))
    assert note.endswith(
        "found 'volcano' and no queue: each leader waits together with its workers, "
        "in the namespace's queue or in default"
    )


@with_rows("annotations", "found")
def test_the_queue_of_podgroups_that_a_leader_worker_sets_controller_makes_is_told(
    annotations: str, found: str
) -> None:
    text = FOR_VOLCANO.replace("{name: web,", f"{{name: web, annotations: {{{annotations}}},")
    about = [
        each
        for each in told(text)
        if "[scheduling.volcano.sh/queue-name]: found" in each and "if its" in each
    ]
    assert [found in each for each in about] == ([True] if found else [])


@pytest.mark.parametrize(
    ("annotation", "waits"),
    [("", "each of its pods waits alone"), (f'{MIN_MEMBER}: "4"', "4 of its pods wait as a gang")],
    ids=["without one, alone", "a gang as its annotation says"],
)
def test_a_deployment_for_volcano_waits_without_a_queue_too(annotation: str, waits: str) -> None:
    text = (OWNER % ("Deployment", annotation)).replace("labels: {muster.dev/queue-name: language}, ", "")
    [note] = told(text.replace("spec: {containers", "spec: {schedulerName: volcano, containers"))
    assert f"no queue: {waits}" in note
    assert note.endswith("in the namespace's queue or in default")
