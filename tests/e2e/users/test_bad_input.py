"""Bad input gets a clear answer, at the API server or on the object, and stops nobody else."""

from pathlib import Path
from typing import Any

import pytest

from deploy.local.stack import LocalCommandFailed, Stack
from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import bare_pod, batch_job, container, volcano_job
from tests.e2e.support.sandbox import GPU, YARD, Yard


def others_go_on(yard: Yard) -> None:
    """A good gang, sent after the bad one, runs."""
    if not yard.nodes:
        yard.add_nodes(1)
    yard.add(volcano_job(yard, "good", 2, 2))
    yard.wait_running("good-", 2)


def refused(yard: Yard, document: Document, *words: str) -> None:
    """The API server says no, in these words."""
    with pytest.raises(ApiError) as error:
        yard.add(document)
    for word in words:
        assert word in str(error.value)


def with_task(job: Document, **fields: Any) -> Document:
    """The same Job with other fields of its first task."""
    task = {**job["spec"]["tasks"][0], **fields}
    return {**job, "spec": {**job["spec"], "tasks": [task]}}


def with_container(job: Document, **fields: Any) -> Document:
    """The same Volcano Job with other fields of its container."""
    spec = job["spec"]["tasks"][0]["template"]["spec"]
    main = {**spec["containers"][0], **fields}
    return with_task(job, template={"spec": {**spec, "containers": [main]}})


def test_a_volcano_job_for_an_unknown_queue_is_refused(yard: Yard) -> None:
    yard.add_queue()
    refused(yard, volcano_job(yard, "lost", 1, queue="nowhere"), "unable to find job queue", "nowhere")
    others_go_on(yard)


def test_a_job_for_an_unknown_queue_says_so_and_goes_when_the_queue_comes(yard: Yard) -> None:
    yard.add_queue()
    job = batch_job(yard, "lost", 1)
    job["metadata"]["labels"]["muster.dev/queue-name"] = f"{yard.name}-late"
    yard.add(job)
    yard.wait_reason("lost", "UnknownQueue")
    yard.wait(lambda: f"{yard.name}-late" in yard.told("batch/v1 Job", "lost"), "the Job to say which queue")
    others_go_on(yard)

    yard.add_queue("late")
    yard.wait_running("lost-", 1)


def test_more_members_than_replicas_are_refused(yard: Yard) -> None:
    yard.add_queue()
    refused(yard, volcano_job(yard, "many", 2, minAvailable=3), "minAvailable", "replicas")
    others_go_on(yard)


@pytest.mark.parametrize("amount", ["-1", "500m", "0.5"])
def test_negative_and_fractional_gpus_are_refused(yard: Yard, amount: str) -> None:
    yard.add_queue()
    refused(yard, volcano_job(yard, "odd", 1, amount), GPU, "greater than" if amount == "-1" else "integer")
    refused(yard, batch_job(yard, "odd", 1, amount), GPU)
    refused(yard, bare_pod(yard, "odd", amount), GPU)
    others_go_on(yard)


def test_circular_parents_disable_these_queues_and_no_others(yard: Yard) -> None:
    yard.add_queue()
    first = yard.add_queue("a")
    second = yard.add_queue("b", parent=first)
    yard.add_nodes(1)
    with pytest.raises(ApiError, match="own ancestor"):
        yard.api.merge(path("Queue", "", first), {"spec": {"parent": second}})
    others_go_on(yard)


def test_invalid_yaml_is_told_with_its_line(yard: Yard, whole_stack: Stack, tmp_path: Path) -> None:
    yard.add_queue()
    file = tmp_path / "broken.yaml"
    file.write_text("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x\nspec: {}\n")
    checked = whole_stack.muster("check", file, check=False)
    assert checked.returncode != 0
    assert f"{file}:4" in checked.stdout + checked.stderr
    assert "Traceback" not in checked.stdout + checked.stderr
    with pytest.raises(LocalCommandFailed, match="error parsing"):
        whole_stack.kubectl("apply", "-f", file)
    others_go_on(yard)


@pytest.mark.parametrize(
    ("name", "task"),
    [("x" * 60, "worker"), ("train", "Worker"), ("train", "w" * 64)],
    ids=["long", "upper case", "long task"],
)
def test_a_name_that_would_make_an_invalid_pod_name_is_refused(yard: Yard, name: str, task: str) -> None:
    yard.add_queue()
    refused(yard, with_task(volcano_job(yard, name, 1), name=task), "name")
    others_go_on(yard)


def test_a_name_that_would_make_an_invalid_host_name_is_refused_where_host_names_count(yard: Yard) -> None:
    yard.add_queue()
    yard.add_nodes(1)
    refused(yard, volcano_job(yard, "train.v2", 1, plugins={"svc": []}), "train.v2-worker-0", "RFC 1123")
    yard.add(volcano_job(yard, "train.v2", 1))
    yard.wait_running("train.v2-", 1)
    others_go_on(yard)


def test_a_resource_that_nobody_has_is_told_on_the_object(yard: Yard) -> None:
    yard.add_queue()
    yard.add_nodes(1)
    odd = {"requests": {"example.com/fpga": "1"}, "limits": {"example.com/fpga": "1"}}
    yard.add(with_container(volcano_job(yard, "fpga", 1), resources=odd))
    pod = bare_pod(yard, "fpga-pod")
    pod["spec"]["containers"][0]["resources"] = odd
    yard.add(pod)
    yard.wait_reason("fpga", "UnknownResource")
    yard.wait(lambda: "example.com/fpga" in yard.told("Job", "fpga"), "the Job to say which resource")
    yard.wait(lambda: "example.com/fpga" in yard.told("Pod", "fpga-pod"), "the pod to say which resource")
    others_go_on(yard)


def megabytes(amount: float) -> list[str]:
    """Arguments of so many MiB; no single one above what Linux takes."""
    return ["a" * 2**16] * int(amount * 16)


def test_a_document_above_the_size_limit_is_refused_by_the_api_server(yard: Yard) -> None:
    yard.add_queue()
    for amount in (2, 4):
        refused(yard, with_container(volcano_job(yard, "huge", 1), args=megabytes(amount)), "larg")
    others_go_on(yard)


def test_jobs_of_one_mebibyte_work(yard: Yard) -> None:
    yard.add_queue()
    yard.add_nodes(2)
    yard.add(with_container(volcano_job(yard, "large", 2, 2), args=megabytes(1)))
    yard.wait_running("large-", 2, seconds=60)
    batch = batch_job(yard, "plain", 2, 2)
    batch["spec"]["template"]["spec"]["containers"] = [{**container(2), "args": megabytes(1)}]
    yard.add(batch)
    yard.wait_running("plain-", 2, seconds=60)
    assert len("".join(yard.pods("plain-")[0]["spec"]["containers"][0]["args"])) == 2**20
    others_go_on(yard)


def test_an_unreadable_quantity_in_a_queue_is_refused(yard: Yard) -> None:
    yard.add_queue()
    for limit, words in (({GPU: "many"}, "quantit"), ({GPU: "-8"}, GPU)):
        with pytest.raises(ApiError, match=words):
            yard.add_queue("odd", capability=limit)
    others_go_on(yard)


def test_a_topology_level_that_does_not_exist_is_told_on_the_object(yard: Yard) -> None:
    yard.add_queue()
    yard.add_nodes(1)
    somewhere = {"muster.dev/required-topology": "example.com/galaxy"}
    yard.add(batch_job(yard, "far", 2, annotations=somewhere))
    yard.wait_reason("far", "UnknownLevel")
    yard.wait(lambda: "example.com/galaxy" in yard.told("batch/v1 Job", "far"), "the Job to say which level")
    others_go_on(yard)


def test_a_job_that_selects_no_node_says_how_many_there_are(yard: Yard) -> None:
    yard.add_queue()
    yard.add_nodes(1)
    job = volcano_job(yard, "picky", 1)
    job["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = {YARD: "elsewhere"}
    yard.add(job)
    message = yard.wait_reason("picky", "NoFit")
    assert "nodes" in message
    others_go_on(yard)
