"""What the pods of a Volcano Job that must start together ask for, as its PodGroup says it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.facts.volcano_jobs import JobSpec, TaskSpec
from admission.volcano_jobs.companions import counted_pods, group_of, min_resources
from tests.builders.volcano_jobs import read_job
from tests.tables import named_rows


def task(name: str, replicas: int, least: int | None, cpu: str, priority: str = "") -> dict[str, Any]:
    pod: dict[str, Any] = {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}
    if priority:
        pod["priorityClassName"] = priority
    written: dict[str, Any] = {"name": name, "replicas": replicas, "template": {"spec": pod}}
    return written if least is None else written | {"minAvailable": least}


def job(minimum: int, *tasks: dict[str, Any]) -> JobSpec:
    metadata = {"name": "train", "namespace": "team", "uid": "u"}
    return read_job({"metadata": metadata, "spec": {"minAvailable": minimum, "tasks": list(tasks)}})


CLASSES = {"high": 100, "low": -1}


def two(each: int, least: int, priority: str = "", of_first: str = "") -> list[dict[str, Any]]:
    """Two tasks of so many pods, of one and of ten CPUs; the priority is that of the second."""
    return [task("a", each, least, "1", of_first), task("b", each, least, "10", priority)]


@named_rows(
    ("minimum", "tasks", "cpu", "pods"),
    {
        "all pods": (3, [task("a", 1, None, "1"), task("b", 2, None, "10")], "21", "3"),
        "the sum of the tasks' minimums": (0, [task("a", 2, 1, "1"), task("b", 2, None, "10")], "21", "3"),
        "fewer than the tasks need: the first ones": (2, two(2, 2), "2", "2"),
        "fewer: of the task of higher priority": (2, two(2, 2, "high"), "20", "2"),
        "fewer: then of the next task": (3, two(2, 2, "high"), "21", "3"),
        "a negative priority comes last": (2, two(2, 2, of_first="low"), "20", "2"),
        "a class that does not exist is 0": (2, two(2, 2, "unknown"), "2", "2"),
        "more than the tasks need: filled up in their order": (4, two(3, 1), "13", "4"),
        "more: filled up by priority": (4, two(3, 1, "high"), "31", "4"),
        "more than there are": (9, [task("a", 3, 1, "1")], "3", "3"),
    },
)
def test_the_pods_that_must_start_together_are_counted(
    minimum: int, tasks: list[dict[str, Any]], cpu: str, pods: str
) -> None:
    found = min_resources(job(minimum, *tasks), CLASSES)
    assert (found["cpu"], found["requests.cpu"], found["pods"], found["count/pods"]) == (cpu, cpu, pods, pods)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(-2, 2)), min_size=1, max_size=5),
    st.integers(0, 30),
)
def test_as_many_pods_are_counted_as_the_job_needs_if_there_are_so_many(
    drawn: list[tuple[int, int, int]], minimum: int
) -> None:
    tasks = tuple(
        TaskSpec(name=str(number), replicas=replicas, minimum=min(least, replicas))
        for number, (replicas, least, _) in enumerate(drawn)
    )
    spec = JobSpec(namespace="team", name="train", uid="u", minimum=minimum, tasks=tasks)
    counts = counted_pods(spec, {str(number): rank for number, (_, _, rank) in enumerate(drawn)})
    assert sum(counts.values()) == min(minimum, spec.replicas)
    assert all(0 <= counts[each.name] <= each.replicas for each in tasks)
    if minimum >= sum(each.minimum for each in tasks):
        assert all(counts[each.name] >= each.minimum for each in tasks)


@pytest.mark.parametrize("amount", ["lots", [1]])
def test_a_job_that_cannot_be_read_still_has_a_podgroup(amount: Any) -> None:
    spec = job(1, task("a", 1, None, amount))
    manifest = group_of(spec, {}).manifest
    assert (manifest["spec"]["minMember"], manifest["spec"]["minResources"]) == (1, {})


def test_the_podgroup_says_what_its_pods_ask_for() -> None:
    manifest = group_of(job(2, task("a", 2, None, "1500m")), {}).manifest
    assert manifest["spec"]["minResources"]["cpu"] == "3"
