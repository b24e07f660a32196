"""The Jobs that recover and test nodes."""

from copy import deepcopy
from typing import Any, Final

import pytest

from admission.node_recovery.jobs import CreateJob, JobName, job_document, job_of
from admission.node_recovery.state import RecoveryPhase, moment
from queues.workload import NodeName
from tests.unit.admission.node_recovery.recovered_nodes import NODE, RULES, state

CRON_JOB: Final[dict[str, Any]] = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "recover-gpu", "namespace": "ops", "uid": "cron"},
    "spec": {
        "schedule": "0 0 31 2 *",
        "suspend": True,
        "jobTemplate": {
            "metadata": {"labels": {"app": "recovery"}, "annotations": {"team": "ops"}},
            "spec": {
                "backoffLimit": 0,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "nodeSelector": {"zone": "a"},
                        "affinity": {"podAntiAffinity": {}, "nodeAffinity": {"ignored": True}},
                        "tolerations": [{"key": "own", "operator": "Exists"}],
                        "containers": [{"name": "reset", "image": "reset"}],
                    }
                },
            },
        },
    },
}
CREATE = CreateJob(NODE, JobName("ops", "muster-recover-1"), "recover-gpu")


def made(cron_job: dict[str, Any] = CRON_JOB) -> dict[str, Any]:
    return job_document(cron_job, CREATE, node_uid="node-uid")


def test_the_job_is_what_the_template_says_for_one_node(golden: Any) -> None:
    job = made()
    assert job["metadata"] == golden
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["ttlSecondsAfterFinished"] == 604_800
    assert job["spec"]["template"]["metadata"] == {"annotations": {"muster.dev/recovery-node": "gpu-7"}}


def test_its_pods_go_to_the_node_whatever_the_template_says_of_nodes(golden: Any) -> None:
    pod = made()["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-7"]}]}
    assert "podAntiAffinity" in pod["affinity"]
    assert "nodeSelector" not in pod
    assert [each["key"] for each in pod["tolerations"]] == golden


def test_the_template_stays_as_it_is() -> None:
    before = deepcopy(CRON_JOB)
    made()
    assert before == CRON_JOB


@pytest.mark.parametrize(
    "cron_job", [{}, {"spec": {}}, {"spec": {"jobTemplate": {"spec": {"template": {}}}}}]
)
def test_an_empty_template_makes_an_empty_job_that_the_api_server_refuses(cron_job: dict[str, Any]) -> None:
    assert "containers" not in made(cron_job)["spec"]["template"]["spec"]


@pytest.mark.parametrize(("said", "kept_for"), [(3600, 3600), (0, 600)])
def test_a_time_that_the_template_says_is_kept_but_the_end_can_be_seen(said: int, kept_for: int) -> None:
    cron_job = deepcopy(CRON_JOB)
    cron_job["spec"]["jobTemplate"]["spec"] |= {"ttlSecondsAfterFinished": said, "suspend": True}
    spec = made(cron_job)["spec"]
    assert spec["ttlSecondsAfterFinished"] == kept_for
    assert "suspend" not in spec


@pytest.mark.parametrize("node", ["a", "gpu-7.example.com", "x" * 253, "1.2.3.4-" + "y" * 100])
def test_names_are_labels_and_differ_by_node_and_phase(node: str) -> None:
    wanted = [
        job_of(NodeName(each), state(phase, since=moment(9_999_999_999), attempts=99), RULES)
        for each in (node, node + "z")
        for phase in RecoveryPhase
    ]
    jobs = {(create.template, create.job) for create in wanted if create is not None}
    assert [template for template, _ in sorted(jobs)] == ["recover-gpu"] * 2 + ["test-gpu"] * 2
    for _, job in jobs:
        assert len(job.name) <= 63
        assert all(part.isalnum() for part in job.name.split("-"))
