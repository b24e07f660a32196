"""How often the API server changes an object for the policies: each time it writes and reads all of it."""

import re
from typing import Final

import pytest

from admission.kube.policies.cel import JOB_CONTROLLER
from queues.api.api_resources import Document
from tests.kube.support.cluster_objects import batch_job, pod
from tests.kube.support.guarded_namespace import MUSTER, QUEUED, GuardedNamespace

_CHECKS: Final = re.compile(
    rb'^apiserver_mutating_admission_policy_check_total\{[^}]*policy="([\w-]+)"[^}]*\} (\d+)',
    re.M,
)


async def checks(guarded: GuardedNamespace) -> dict[str, int]:
    """How often each policy changed an object; one that its conditions leave out is not counted."""
    found: dict[str, int] = {}
    for policy, number in _CHECKS.findall(await (await guarded.as_user("admin")).get("/metrics")):
        found[policy.decode()] = found.get(policy.decode(), 0) + int(number)
    return found


async def carried_out(guarded: GuardedNamespace, before: dict[str, int]) -> dict[str, int]:
    now = await checks(guarded)
    return {
        policy: each - before.get(policy, 0) for policy, each in now.items() if each != before.get(policy)
    }


async def is_ever(
    guarded: GuardedNamespace, resource: str, document: Document, wanted: dict[str, int], by: str = "alice"
) -> bool:
    """Whether an object is changed so often. Pods that others make meanwhile count too, but hardly each time."""
    for number in range(5):
        before = await checks(guarded)
        await guarded.create(resource, with_name(document, f"cheap-{number}"), by=by)
        if await carried_out(guarded, before) == wanted:
            return True
    return False


def with_name(document: Document, name: str) -> Document:
    return {**document, "metadata": {**document["metadata"], "name": name}}


@pytest.mark.parametrize("grace", [30, 0])
async def test_a_pod_is_changed_once(guarded: GuardedNamespace, grace: int) -> None:
    asked = pod("cheap", labels=QUEUED, terminationGracePeriodSeconds=grace)
    assert await is_ever(guarded, "pods", asked, {"muster-gate": 1})


@pytest.mark.parametrize(("grace", "wanted"), [(30, {}), (0, {"muster-gate": 1})])
async def test_a_pod_of_an_admitted_job_is_changed_only_if_it_asks_for_no_grace(
    guarded: GuardedNamespace, grace: int, wanted: dict[str, int]
) -> None:
    released, signed = {"muster.dev/released": "true"}, {"muster.dev/admission-id": "1"}
    copy = pod(
        "cheap", labels={**QUEUED, **released}, annotations=signed, terminationGracePeriodSeconds=grace
    )
    assert await is_ever(guarded, "pods", copy, wanted, by=JOB_CONTROLLER)


async def test_a_pod_that_muster_makes_of_a_volcano_job_is_not_looked_at(guarded: GuardedNamespace) -> None:
    labels = {**QUEUED, "muster.dev/released": "true", "volcano.sh/job-name": "train"}
    made = pod("cheap", labels=labels, terminationGracePeriodSeconds=0)
    assert await is_ever(guarded, "pods", made, {}, by=MUSTER)


async def test_a_job_is_changed_once(guarded: GuardedNamespace) -> None:
    # No pod is made of it meanwhile: it waits.
    assert await is_ever(guarded, "jobs", batch_job("cheap", labels=QUEUED), {"muster-suspend": 1})
