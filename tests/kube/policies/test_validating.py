"""The validating admission policies, evaluated by a real API server: who may end the waiting."""

from typing import Any

import pytest

from admission.kube.policies.cel import JOB_CONTROLLER
from queues.errors import ApiRefused
from tests.kube.support.cluster_objects import batch_job, pod
from tests.kube.support.guarded_namespace import (
    GATE,
    MUSTER,
    QUEUED,
    GuardedNamespace,
    pod_of,
)


def _refusal(refused: pytest.ExceptionInfo[ApiRefused]) -> str:
    assert refused.value.facts["status"] in (403, 422)
    return str(refused.value)


async def test_muster_removes_the_gate_and_pins_the_pod_in_one_patch(guarded: GuardedNamespace) -> None:
    made = await guarded.create("pods", pod("a", labels=QUEUED))
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": made["metadata"]["uid"]},
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "muster.dev/admission"},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {"op": "add", "path": "/metadata/labels/muster.dev~1released", "value": "true"},
        {"op": "add", "path": "/metadata/annotations/muster.dev~1admission-id", "value": "7"},
    ]
    released = await guarded.patch("pods", "a", patch, by=MUSTER, kind="json")
    assert "schedulingGates" not in released["spec"]
    assert released["metadata"]["labels"]["muster.dev/released"] == "true"


async def test_a_user_may_still_label_a_pod_that_waits(guarded: GuardedNamespace) -> None:
    await guarded.create("pods", pod("a", labels=QUEUED))
    made = await guarded.patch("pods", "a", {"metadata": {"labels": {"colour": "blue"}}})
    assert made["metadata"]["labels"]["colour"] == "blue"


async def test_pods_that_muster_creates_do_not_wait(guarded: GuardedNamespace) -> None:
    labels = {**QUEUED, "muster.dev/released": "true"}
    signed = pod("a", labels=labels, annotations={"muster.dev/admission-id": "7", "muster.dev/user": "bob"})
    made = await guarded.create("pods", signed, by=MUSTER)
    assert "schedulingGates" not in made["spec"]
    assert made["metadata"]["annotations"]["muster.dev/user"] == "bob"


async def test_a_job_that_waits_may_move_to_another_queue_but_not_leave_all(
    guarded: GuardedNamespace,
) -> None:
    # With no label of its own left, a Job would get its template's back.
    await guarded.create("jobs", batch_job("a", labels={**QUEUED, "colour": "blue"}))
    await guarded.patch("jobs", "a", {"metadata": {"labels": {"muster.dev/queue-name": "team-b"}}})
    made = await guarded.patch("jobs", "a", {"metadata": {"labels": {"muster.dev/queue-name": None}}})
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "team-b"


RELEASED_TEMPLATE = {
    "metadata": {
        "labels": {"muster.dev/released": "true"},
        "annotations": {"muster.dev/admission-id": "1"},
    }
}


async def test_pods_of_a_released_job_do_not_wait_and_others_do(guarded: GuardedNamespace) -> None:
    for name, template in (("directed", RELEASED_TEMPLATE), ("by-pod", {})):
        await guarded.create("jobs", batch_job(name, labels=QUEUED))
        await guarded.patch("jobs", name, {"spec": {"suspend": False, "template": template}}, by=MUSTER)
    directed, by_pod = [await pod_of(guarded, name) for name in ("directed", "by-pod")]
    assert "schedulingGates" not in directed["spec"]
    assert by_pod["spec"]["schedulingGates"] == GATE
    # Inherited from the Job's requester, by way of the template.
    assert directed["metadata"]["annotations"]["muster.dev/user"] == "alice"
    assert by_pod["metadata"]["annotations"]["muster.dev/user"] == "alice"


async def test_pods_whose_template_carries_all_of_it_wait_without_being_changed_again(
    guarded: GuardedNamespace,
) -> None:
    """As Muster resumes a Job whose pods are released one by one: saves the API server a patch per pod."""
    await guarded.create("jobs", batch_job("a", labels=QUEUED))
    template = {"metadata": {"labels": {"muster.dev/released": "false"}}, "spec": {"schedulingGates": GATE}}
    await guarded.patch("jobs", "a", {"spec": {"suspend": False, "template": template}}, by=MUSTER)
    made = await pod_of(guarded, "a")
    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"]["muster.dev/released"] == "false"
    assert made["metadata"]["annotations"]["muster.dev/user"] == "alice"
    with pytest.raises(ApiRefused):
        await guarded.patch("pods", made["metadata"]["name"], {"spec": {"schedulingGates": []}})


async def test_a_released_job_cannot_grow_beyond_its_seats(guarded: GuardedNamespace) -> None:
    await guarded.create("jobs", batch_job("a", labels=QUEUED, parallelism=2))
    await guarded.patch("jobs", "a", {"spec": {"suspend": False, "template": RELEASED_TEMPLATE}}, by=MUSTER)
    with pytest.raises(ApiRefused) as refused:
        await guarded.patch("jobs", "a", {"spec": {"parallelism": 3}})
    assert "spec.parallelism: found 3, expected at most 2" in _refusal(refused)
    assert 'With annotation muster.dev/may-grow: "true" it gets more' in _refusal(refused), "how it could"
    await guarded.patch("jobs", "a", {"spec": {"parallelism": 1}})


async def test_a_released_job_with_fewer_completions_than_parallelism_cannot_grow_to_it(
    guarded: GuardedNamespace,
) -> None:
    few = batch_job("a", labels=QUEUED, parallelism=4)
    few["spec"] |= {"completions": 2, "completionMode": "Indexed"}
    await guarded.create("jobs", few)
    await guarded.patch("jobs", "a", {"spec": {"suspend": False, "template": RELEASED_TEMPLATE}}, by=MUSTER)
    with pytest.raises(ApiRefused) as refused:
        await guarded.patch("jobs", "a", {"spec": {"completions": 4}})
    assert "spec.completions: found 4, expected at most 2" in _refusal(refused)
    await guarded.patch("jobs", "a", {"spec": {"parallelism": 1, "completions": 1}})


_SIZES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"spec": {"parallelism": 3}}, {"spec": {"parallelism": 6}}),
    ({"spec": {"parallelism": 3, "completions": 3}}, {"spec": {"parallelism": 6, "completions": 6}}),
    ({"metadata": {"labels": QUEUED}}, {"metadata": {"labels": {"muster.dev/queue-name": "team-b"}}}),
]


@pytest.mark.parametrize(("less", "more"), _SIZES, ids=["parallelism", "completions", "queue"])
async def test_what_was_changed_can_be_changed_back_as_the_refusal_says(
    guarded: GuardedNamespace, less: dict[str, Any], more: dict[str, Any]
) -> None:
    """A Job that runs was made smaller, or was moved while it waited; then its file is applied again."""
    job = batch_job("a", labels=QUEUED, parallelism=6)
    if "completions" in less.get("spec", {}):
        job["spec"] |= {"completions": 6, "completionMode": "Indexed"}
    await guarded.create("jobs", job)
    release = {"spec": {"suspend": False, "template": RELEASED_TEMPLATE}}
    if "spec" in less:
        await guarded.patch("jobs", "a", release, by=MUSTER)
        await guarded.patch("jobs", "a", less)
    else:
        await guarded.patch("jobs", "a", less)
        await guarded.patch("jobs", "a", release, by=MUSTER)
    with pytest.raises(ApiRefused) as refused:
        await guarded.patch("jobs", "a", more)
    assert "Suspend the Job first (spec.suspend: true)" in _refusal(refused)
    await guarded.patch("jobs", "a", {"spec": {"suspend": True}})
    await guarded.patch("jobs", "a", more)
    waits = await guarded.patch("jobs", "a", {"spec": {"suspend": False}})
    assert waits["spec"]["suspend"] is True, "only Muster resumes it"
    await guarded.patch("jobs", "a", release, by=MUSTER)
    changed_again = await guarded.patch("jobs", "a", more)
    assert changed_again["spec"]["suspend"] is False


async def test_no_other_controller_may_declare_its_pods_released(guarded: GuardedNamespace) -> None:
    labels, annotations = {"muster.dev/released": "true"}, {"muster.dev/admission-id": "1"}
    released = pod("a", labels=labels, annotations=annotations)
    controller = "system:serviceaccount:kube-system:replicaset-controller"
    with pytest.raises(ApiRefused, match=f'found "true", created by {controller}'):
        await guarded.create("pods", released, by=controller)
    await guarded.create("pods", released, by=JOB_CONTROLLER)


@pytest.mark.parametrize("annotations", [{}, {"muster.dev/admission-id": ""}, {"muster.dev/seat": "a/0"}])
async def test_the_job_controller_is_believed_only_for_pods_that_name_an_admission(
    guarded: GuardedNamespace, annotations: dict[str, str]
) -> None:
    released = pod("a", labels={"muster.dev/released": "true"}, annotations=annotations)
    with pytest.raises(ApiRefused, match=f'found "true", created by {JOB_CONTROLLER}'):
        await guarded.create("pods", released, by=JOB_CONTROLLER)


async def test_a_controller_manager_with_one_credential_is_believed_for_pods_of_jobs(
    guarded: GuardedNamespace,
) -> None:
    labels, annotations = {"muster.dev/released": "true"}, {"muster.dev/admission-id": "1"}
    released = pod("a", labels=labels, annotations=annotations)
    with pytest.raises(ApiRefused, match='found "true", created by system:kube-controller-manager'):
        await guarded.create("pods", released, by="system:kube-controller-manager")
    released["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    ]
    await guarded.create("pods", released, by="system:kube-controller-manager")


async def test_no_job_in_a_queue_passes_its_pods_off_as_those_of_a_volcano_job(
    guarded: GuardedNamespace,
) -> None:
    """Policies leave those out, for Muster writes them as they should be."""
    label = {"volcano.sh/job-name": "train"}
    wanted = 'Label volcano.sh/job-name of the pod template: found "train", expected none'
    with pytest.raises(ApiRefused) as refused:
        await guarded.create("jobs", batch_job("a", labels=QUEUED, template_labels=label))
    assert wanted in _refusal(refused)

    await guarded.create("jobs", batch_job("b", labels=QUEUED))
    with pytest.raises(ApiRefused) as refused:
        await guarded.patch("jobs", "b", {"spec": {"template": {"metadata": {"labels": label}}}})
    assert wanted in _refusal(refused)

    later = batch_job("c", template_labels=label)
    later["spec"]["suspend"] = True
    await guarded.create("jobs", later)
    with pytest.raises(ApiRefused) as refused:
        await guarded.patch("jobs", "c", {"metadata": {"labels": QUEUED}})
    assert wanted in _refusal(refused)
