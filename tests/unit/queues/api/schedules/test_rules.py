"""Rules for CronJobs, JobFlows and JobTemplates, each with field, found and expected."""

from typing import Any

from queues.api.check.check import check_documents
from queues.api.validation.known import Known
from queues.api.validation.validation import violations_of
from tests.builders.valid_documents import of_kind
from tests.tables import with_rows

Document = dict[str, Any]
TASK: Document = {
    "name": "worker",
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train"}]}},
}


def cron_job(name: str = "nightly", **spec: Any) -> Document:
    template = {"spec": {"tasks": [TASK], **spec.pop("job", {})}, **spec.pop("template", {})}
    return of_kind("CronJob", {"schedule": "0 2 * * *", "jobTemplate": template, **spec}, name)


def flow(*flows: Document, **spec: Any) -> Document:
    return of_kind("JobFlow", {"flows": list(flows), **spec}, "ring")


def after(name: str, *targets: str, **probe: list[Document]) -> Document:
    """A flow after others; ``probe``: what is looked at of them, by the field of the probe."""
    return {"name": name, "dependsOn": {"targets": list(targets), **({"probe": probe} if probe else {})}}


def messages(document: Document) -> list[str]:
    return [each.message.strip() for each in violations_of(document) if not each.tolerable]


def test_what_volcano_accepts_is_accepted() -> None:
    assert messages(cron_job(timeZone="Europe/Berlin", startingDeadlineSeconds=60)) == []
    ready = after("b", "a", httpGetList=[{"taskName": "worker", "path": "/ready", "port": 80}])
    assert messages(flow({"name": "a"}, ready, jobRetainPolicy="delete")) == []


@with_rows("kind", "given", "message")
def test_what_cannot_work_is_refused(kind: str, given: Document, message: str) -> None:
    found = messages(cron_job(**given) if kind == "CronJob" else of_kind(kind, given, "ring"))
    assert any(message in each for each in found), found


def test_a_template_is_judged_as_a_job_is() -> None:
    spec = {"tasks": [{**TASK, "template": {"spec": {"nodeName": "n1", "containers": []}}}]}
    found = messages(of_kind("JobTemplate", spec))
    assert any("nodeName: found 'n1', expected none: Muster chooses the node" in each for each in found)
    assert any("at least one container" in each for each in found)


def test_a_queue_that_is_missing_is_a_warning_for_a_schedule() -> None:
    found = violations_of(cron_job(job={"queue": "later"}), Known(queues={}))
    assert [(each.path, each.tolerable) for each in found] == [("spec.jobTemplate.spec.queue", True)]


def test_a_flow_without_jobs_is_a_warning_as_volcano_accepts_it() -> None:
    assert [(each.path, each.tolerable) for each in violations_of(flow())] == [("spec.flows", True)]


def test_a_schedule_that_never_comes_up_is_a_warning() -> None:
    found = violations_of(cron_job(schedule="0 0 31 2 *"))
    assert ["never starts a Job" in each.message for each in found] == [True]
    assert found[0].tolerable


def test_check_names_templates_that_a_flow_misses_and_fields_that_do_nothing() -> None:
    text = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: a}
spec: {tasks: [{name: w, topologyPolicy: restricted, template: {spec: {containers: [{name: c, image: i}]}}}]}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: ring}
spec: {flows: [{name: a}, {name: b}]}
"""
    told = [f"{each.path}: {each.expected}" for each in check_documents([("f", text)])]
    assert (
        "spec.tasks[0].topologyPolicy: nothing: Muster accepts and keeps it, and does not act on it" in told
    )
    assert "spec.flows[1].name: the name of a JobTemplate: it is not among these documents" in told
