"""How often the API server changes an object for the policies: each time it writes and reads all of it."""

import re
from typing import Final

from queues.api.api_resources import Document
from tests.kube.support.cluster_objects import batch_job, pod
from tests.kube.support.guarded_namespace import QUEUED, GuardedNamespace

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
    guarded: GuardedNamespace, resource: str, document: Document, wanted: dict[str, int]
) -> bool:
    """Whether an object is changed so often. Pods that others make meanwhile count too, but hardly each time."""
    for number in range(5):
        before = await checks(guarded)
        await guarded.create(resource, with_name(document, f"cheap-{number}"))
        if await carried_out(guarded, before) == wanted:
            return True
    return False


def with_name(document: Document, name: str) -> Document:
    return {**document, "metadata": {**document["metadata"], "name": name}}


async def test_a_pod_is_changed_once(guarded: GuardedNamespace) -> None:
    assert await is_ever(guarded, "pods", pod("cheap", labels=QUEUED), {"muster-gate": 1})


async def test_a_job_is_changed_once(guarded: GuardedNamespace) -> None:
    # No pod is made of it meanwhile: it waits.
    assert await is_ever(guarded, "jobs", batch_job("cheap", labels=QUEUED), {"muster-suspend": 1})
