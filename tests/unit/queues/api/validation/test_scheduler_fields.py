"""The table of what kube-scheduler compares has every field of a pod."""

import json
import re
from typing import Any

import pytest

from queues.api.check.check import check_documents
from queues.api.names import QUEUE_LABEL
from queues.api.validation.known import Known
from queues.api.validation.pod_fields import pod_types
from queues.api.validation.scheduler_fields import FIELDS, IN_TREE, NOT_ABOUT_NODES, Handling
from queues.api.validation.validation import violations_of
from tests.builders.valid_documents import of_kind

PATHS = [
    field.path.removesuffix("[]").replace("[]", "").split(".") for field in FIELDS if " " not in field.path
]

#: Types whose fields are in the table one by one, and where they are.
PARTS = {
    "PodSpec": "",
    "Affinity": "affinity",
    "NodeAffinity": "affinity.nodeAffinity",
    "PodAffinity": "affinity.podAffinity",
    "PodAntiAffinity": "affinity.podAntiAffinity",
    "PodAffinityTerm": "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "TopologySpreadConstraint": "topologySpreadConstraints",
}


@pytest.mark.parametrize("part", PARTS)
def test_no_field_of_a_pod_is_missing(part: str) -> None:
    at = PARTS[part].split(".") if PARTS[part] else []
    listed = {path[len(at)] for path in PATHS if path[: len(at)] == at and len(path) > len(at)}
    listed |= {"volumes"} if part == "PodSpec" else set()
    beside = NOT_ABOUT_NODES.get(part, frozenset())
    assert listed | beside == set(pod_types()[part])
    assert not listed & beside, "in one place only"


def test_terms_of_anti_affinity_have_the_fields_of_terms_of_affinity() -> None:
    near, apart = (
        {path[-1] for path in PATHS if path[:2] == ["affinity", kind] and path[2].startswith("required")}
        for kind in ("podAffinity", "podAntiAffinity")
    )
    assert near == apart == set(pod_types()["PodAffinityTerm"])


def test_no_kind_of_volume_is_missing() -> None:
    listed = {path[1] for path in PATHS if path[0] == "volumes"}
    assert listed | IN_TREE | NOT_ABOUT_NODES["Volume"] == set(pod_types()["Volume"])


def test_every_row_says_what_it_means() -> None:
    for field in FIELDS:
        assert field.says, field.path
        assert re.fullmatch(r"[A-Za-z, ]+", field.plugin), field.path
        assert field.handling in Handling


POD: dict[str, Any] = {
    "schedulingGroup": {"podGroupName": "g"},
    "schedulerName": "other",
    "volumes": [
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "d", "rbd": {"image": "i", "monitors": ["m"]}},
    ],
    "containers": [{"name": "main", "image": "busybox"}],
    "restartPolicy": "Never",
}
#: What is in the pod, by row of the table; rows about objects that a template does not have in itself.
TOLD = {
    "schedulingGroup": ("schedulingGroup", "a group"),
    "schedulerName": ("schedulerName", "'other'"),
    "volumes[] of in-tree drivers": ("volumes[1].rbd", "a volume of an in-tree driver"),
}
ABOUT_OTHER_OBJECTS = {"volumes[] of drivers with CSIStorageCapacity", "volumes[] of claims with a selector"}

IN_QUEUE: dict[str, Any] = {"name": "train", "namespace": "ns", "labels": {QUEUE_LABEL: "team"}}
TASKS = {"queue": "team", "tasks": [{"name": "w", "replicas": 1, "template": {"spec": POD}}]}
#: Objects with such pods, and where their spec is.
OBJECTS: dict[str, tuple[dict[str, Any], str]] = {
    "Pod": (of_kind("Pod", POD, **IN_QUEUE), "spec"),
    "Job": (of_kind("batch/v1 Job", {"template": {"spec": POD}}, **IN_QUEUE), "spec.template.spec"),
    "Volcano Job": (of_kind("Job", TASKS), "spec.tasks[0].template.spec"),
    "CronJob": (
        of_kind("CronJob", {"schedule": "0 1 * * *", "jobTemplate": {"spec": TASKS}}),
        "spec.jobTemplate.spec.tasks[0].template.spec",
    ),
    "JobTemplate": (of_kind("JobTemplate", TASKS), "spec.tasks[0].template.spec"),
}


def test_every_field_that_is_reported_only_is_told_of_or_is_about_another_object() -> None:
    reported = {field.path for field in FIELDS if field.handling is Handling.REPORTED}
    assert reported == TOLD.keys() | ABOUT_OTHER_OBJECTS


@pytest.mark.parametrize("name", OBJECTS)
def test_webhook_and_check_warn_of_it_in_the_words_of_the_table(name: str) -> None:
    document, at = OBJECTS[name]
    says = {field.path: field.says for field in FIELDS}
    expected = {(f"{at}.{field}", found, f"none: {says[row]}") for row, (field, found) in TOLD.items()}
    warned = [each for each in violations_of(document) if each.tolerable]
    assert expected == {(each.path, each.found, each.expected) for each in warned} & expected
    assert len(warned) == len({each.path for each in warned}), "once each"
    checked = check_documents([("f.yaml", json.dumps(document))])
    assert (
        expected
        == {(each.path, each.found, each.expected) for each in checked if each.severity == "warning"}
        & expected
    )
    assert all(len(each.message) <= 256 for each in warned), "the API server shows no more"


def test_a_pod_outside_of_queues_and_names_of_the_stock_scheduler_are_nothing_to_warn_of() -> None:
    assert not [each for each in violations_of(of_kind("Pod", POD)) if each.tolerable]
    document, at = OBJECTS["Volcano Job"]
    known = Known(schedulers=("other", "volcano"))
    assert [each for each in violations_of(document, known) if each.path == f"{at}.schedulerName"] == []
    whole = {**document, "spec": {**TASKS, "schedulerName": "mine"}}
    assert "spec.schedulerName" in {each.path for each in violations_of(whole)}


@pytest.mark.parametrize("spec", [{}, {"template": None}, {"template": {}}, {"template": {"spec": None}}])
def test_a_job_without_a_template_has_other_violations(spec: dict[str, Any]) -> None:
    found = violations_of(of_kind("batch/v1 Job", spec, **IN_QUEUE))
    assert any(each.path.startswith("spec.template.spec") for each in found)
