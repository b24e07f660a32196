"""Bad input gets a clear answer, at the API server or on the object, and stops nobody else."""

import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.local.stack import LocalCommandFailed, Stack
from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import bare_pod, batch_job, container, volcano_job
from tests.e2e.support.sandbox import GPU, SANDBOX, Sandbox


def others_go_on(sandbox: Sandbox) -> None:
    """A good gang, sent after the bad one, runs."""
    if not sandbox.nodes:
        sandbox.add_nodes(1)
    sandbox.add(volcano_job(sandbox, "good", 2, 2))
    sandbox.wait_running("good-", 2)


def refused(sandbox: Sandbox, document: Document, *words: str) -> None:
    """The API server says no, in these words."""
    with pytest.raises(ApiError) as error:
        sandbox.add(document)
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


def test_a_volcano_job_for_an_unknown_queue_is_refused(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    refused(
        sandbox, volcano_job(sandbox, "lost", 1, queue="nowhere"), "expected the name of a Queue", "nowhere"
    )
    others_go_on(sandbox)


def test_a_run_time_that_cannot_be_read_is_told_once_and_keeps_nobody_from_running(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    job = batch_job(sandbox, "hurried", 1)
    job["metadata"]["annotations"] = {"muster.dev/run-time": "3 hourz"}
    who = sandbox.somebody(f"alice-{sandbox.name}")
    sandbox.add(job)

    def told() -> list[Document]:
        events = sandbox.api.get(path("Event", sandbox.name))["items"]
        return [each for each in events if each["reason"] == "IgnoredValue"]

    sandbox.wait(lambda: bool(told()), "an event about the value")
    said = "muster.dev/run-time: found '3 hourz', expected a duration such as 90s, 30m or 2h"

    def asked(*words: str) -> list[str]:
        command = [sys.executable, "-m", "admission.cli.kubectl_muster", *words, "-n", sandbox.name]
        return [*command, "--kubeconfig", str(who)]

    def pending_tells() -> bool:
        return said in sandbox.stack.run(asked("pending"), check=False).stderr

    sandbox.wait(pending_tells, "the list of what waits to tell of it")
    others_go_on(sandbox)
    sandbox.wait_running("hurried-", 1)
    explained = sandbox.stack.run(asked("explain", "job/hurried"), check=False).stdout
    assert said in explained
    (event,) = told()
    assert event["note"].startswith(said)
    assert event["regarding"]["name"] == "hurried"


def test_a_job_for_an_unknown_queue_says_so_and_goes_when_the_queue_comes(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    job = batch_job(sandbox, "lost", 1)
    job["metadata"]["labels"]["muster.dev/queue-name"] = f"{sandbox.name}-late"
    sandbox.add(job)
    sandbox.wait_reason("lost", "UnknownQueue")
    sandbox.wait(
        lambda: f"{sandbox.name}-late" in sandbox.told("batch/v1 Job", "lost"), "the Job to say which queue"
    )
    others_go_on(sandbox)

    sandbox.add_queue("late")
    sandbox.wait_running("lost-", 1)


def test_more_members_than_replicas_are_refused(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    refused(sandbox, volcano_job(sandbox, "many", 2, minAvailable=3), "minAvailable", "replicas")
    others_go_on(sandbox)


@pytest.mark.parametrize("amount", ["-1", "500m", "0.5"])
def test_negative_and_fractional_gpus_are_refused(sandbox: Sandbox, amount: str) -> None:
    sandbox.add_queue()
    refused(
        sandbox, volcano_job(sandbox, "odd", 1, amount), GPU, "greater than" if amount == "-1" else "integer"
    )
    refused(sandbox, batch_job(sandbox, "odd", 1, amount), GPU)
    refused(sandbox, bare_pod(sandbox, "odd", amount), GPU)
    others_go_on(sandbox)


def test_parents_in_a_circle_are_refused_and_others_go_on(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    first = sandbox.add_queue("a")
    second = sandbox.add_queue("b", parent=first)
    sandbox.add_nodes(1)
    with pytest.raises(ApiError, match="own ancestor"):
        sandbox.api.merge(path("Queue", "", first), {"spec": {"parent": second}})
    others_go_on(sandbox)


def test_invalid_yaml_is_told_with_its_line(sandbox: Sandbox, whole_stack: Stack, tmp_path: Path) -> None:
    sandbox.add_queue()
    file = tmp_path / "broken.yaml"
    file.write_text("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x\nspec: {}\n")
    checked = whole_stack.muster("check", file, check=False)
    assert checked.returncode != 0
    assert f"{file}:4" in checked.stdout + checked.stderr
    assert "Traceback" not in checked.stdout + checked.stderr
    with pytest.raises(LocalCommandFailed, match="error parsing"):
        whole_stack.kubectl("apply", "-f", file)
    others_go_on(sandbox)


@pytest.mark.parametrize(
    ("name", "task"),
    [("x" * 60, "worker"), ("train", "Worker"), ("train", "w" * 64)],
    ids=["long", "upper case", "long task"],
)
def test_a_name_that_would_make_an_invalid_pod_name_is_refused(
    sandbox: Sandbox, name: str, task: str
) -> None:
    sandbox.add_queue()
    refused(sandbox, with_task(volcano_job(sandbox, name, 1), name=task), "name")
    others_go_on(sandbox)


def test_a_name_that_would_make_an_invalid_host_name_is_refused_where_host_names_count(
    sandbox: Sandbox,
) -> None:
    sandbox.add_queue()
    sandbox.add_nodes(1)
    refused(
        sandbox, volcano_job(sandbox, "train.v2", 1, plugins={"svc": []}), "train.v2-worker-0", "RFC 1123"
    )
    sandbox.add(volcano_job(sandbox, "train.v2", 1))
    sandbox.wait_running("train.v2-", 1)
    others_go_on(sandbox)


def test_a_resource_that_nobody_has_is_told_on_the_object(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    sandbox.add_nodes(1)
    odd = {"requests": {"example.com/fpga": "1"}, "limits": {"example.com/fpga": "1"}}
    sandbox.add(with_container(volcano_job(sandbox, "fpga", 1), resources=odd))
    pod = bare_pod(sandbox, "fpga-pod")
    pod["spec"]["containers"][0]["resources"] = odd
    sandbox.add(pod)
    sandbox.wait_reason("fpga", "UnknownResource")
    sandbox.wait(lambda: "example.com/fpga" in sandbox.told("Job", "fpga"), "the Job to say which resource")
    sandbox.wait(
        lambda: "example.com/fpga" in sandbox.told("Pod", "fpga-pod"), "the pod to say which resource"
    )
    others_go_on(sandbox)


def megabytes(amount: float) -> list[str]:
    """Arguments of so many MiB; no single one above what Linux takes."""
    return ["a" * 2**16] * int(amount * 16)


def test_a_document_above_the_size_limit_is_refused(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    for amount, words in ((2, "expected at most 1310720"), (4, "larg")):
        refused(sandbox, with_container(volcano_job(sandbox, "huge", 1), args=megabytes(amount)), words)
    others_go_on(sandbox)


def test_jobs_of_one_mebibyte_work(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    sandbox.add_nodes(2)
    sandbox.add(with_container(volcano_job(sandbox, "large", 2, 2), args=megabytes(1)))
    sandbox.wait_running("large-", 2)
    batch = batch_job(sandbox, "plain", 2, 2)
    batch["spec"]["template"]["spec"]["containers"] = [{**container(2), "args": megabytes(1)}]
    sandbox.add(batch)
    sandbox.wait_running("plain-", 2)
    assert len("".join(sandbox.pods("plain-")[0]["spec"]["containers"][0]["args"])) == 2**20
    others_go_on(sandbox)


def test_an_unreadable_quantity_in_a_queue_is_refused(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    for limit, words in (({GPU: "many"}, "quantit"), ({GPU: "-8"}, GPU)):
        with pytest.raises(ApiError, match=words):
            sandbox.add_queue("odd", capability=limit)
    others_go_on(sandbox)


def test_a_topology_level_that_does_not_exist_is_told_on_the_object(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    sandbox.add_nodes(1)
    somewhere = {"muster.dev/required-topology": "example.com/galaxy"}
    sandbox.add(batch_job(sandbox, "far", 2, annotations=somewhere))
    sandbox.wait_reason("far", "UnknownLevel")
    sandbox.wait(
        lambda: "example.com/galaxy" in sandbox.told("batch/v1 Job", "far"), "the Job to say which level"
    )
    others_go_on(sandbox)


def test_a_job_that_selects_no_node_says_how_many_there_are(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    sandbox.add_nodes(1)
    job = volcano_job(sandbox, "picky", 1)
    job["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = {SANDBOX: "elsewhere"}
    sandbox.add(job)
    message = sandbox.wait_reason("picky", "NeverFits")
    assert "nodes" in message
    others_go_on(sandbox)
