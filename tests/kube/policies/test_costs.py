"""How often the API server changes an object for the policies: each time it writes and reads all of it."""

import re
from collections import Counter
from typing import Final

import pytest

from admission.kube.policies.cel import JOB_CONTROLLER
from queues.api.api_resources import Document
from tests.kube.support.cluster_objects import batch_job, pod
from tests.kube.support.guarded_namespace import GATE, MUSTER, QUEUED, GuardedNamespace, priority_class

#: How often each policy changed an object, and how often its conditions left out one that it was given.
_CHANGES: Final = re.compile(
    rb'^apiserver_mutating_admission_policy_check_total\{[^}]*policy="([\w-]+)"[^}]*\} (\d+)', re.M
)
_LOOKS: Final = re.compile(
    rb'^apiserver_admission_match_condition_evaluation_seconds_count\{[^}]*name="([\w-]+)",'
    rb'operation="(?:CREATE|UPDATE)"[^}]*\} (\d+)',
    re.M,
)


async def counts(guarded: GuardedNamespace, counted: re.Pattern[bytes]) -> Counter[str]:
    found: Counter[str] = Counter()
    for policy, number in counted.findall(await (await guarded.as_user("admin")).get("/metrics")):
        found[policy.decode()] += int(number)
    return found


async def is_ever(
    guarded: GuardedNamespace,
    resource: str,
    document: Document,
    wanted: dict[str, int],
    *,
    by: str = "alice",
    counted: re.Pattern[bytes] = _CHANGES,
    patch: Document | None = None,
) -> bool:
    """Whether an object is changed, or looked at, so often when it is created, or when it is patched. Pods that others
    make meanwhile count too, but hardly each time."""
    for number in range(5):
        name = f"{document['metadata']['name']}-{number}"
        before = await counts(guarded, counted)
        await guarded.create(resource, with_name(document, name), by=by)
        if patch is not None:
            before = await counts(guarded, counted)
            await guarded.patch(resource, name, patch, by=by)
        if await counts(guarded, counted) - before == wanted:
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


async def test_a_pod_outside_all_queues_is_looked_at_by_one_policy_and_not_changed(
    guarded: GuardedNamespace,
) -> None:
    """Also one of a class, as most pods of services are."""
    high = await priority_class(guarded)
    for number, made in enumerate((pod("plain"), pod("high", priorityClassName=high))):
        assert await is_ever(guarded, "pods", made, {"muster-gate": 1}, counted=_LOOKS), number
    assert await is_ever(guarded, "pods", pod("other", priorityClassName=high), {})


async def test_a_pod_that_muster_makes_of_a_volcano_job_is_looked_at_by_its_guard_alone(
    guarded: GuardedNamespace,
) -> None:
    labels = {**QUEUED, "muster.dev/released": "true", "volcano.sh/job-name": "train"}
    made = pod("cheap", labels=labels, terminationGracePeriodSeconds=0)
    colour = {"metadata": {"labels": {"colour": "blue"}}}
    for patch in (None, colour):
        wanted = {"muster-guard-pods": 1}
        assert await is_ever(guarded, "pods", made, wanted, by=MUSTER, counted=_LOOKS, patch=patch), patch
        made = with_name(made, "changed")


async def test_a_pod_of_a_job_that_is_released_pod_by_pod_is_not_changed(guarded: GuardedNamespace) -> None:
    labels = {**QUEUED, "muster.dev/released": "false"}
    copy = pod("cheap", labels=labels, annotations={"muster.dev/user": "bob"}, schedulingGates=GATE)
    assert await is_ever(guarded, "pods", copy, {}, by=JOB_CONTROLLER)


async def test_a_job_is_changed_once(guarded: GuardedNamespace) -> None:
    # No pod is made of it meanwhile: it waits.
    assert await is_ever(guarded, "jobs", batch_job("cheap", labels=QUEUED), {"muster-suspend": 1})
