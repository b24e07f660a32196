"""Evictions as a real API server answers them: as budgets allow, and only of the pod that is meant."""

import asyncio
import json
from typing import Any

import pytest

from admission.kube.client.client import Client
from admission.kube.client.eviction import evict
from queues.errors import Conflict, EvictionRefused
from tests.kube.support.cluster_objects import becomes, gone, pod


def allowed() -> None:
    return None


def path_of(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


async def runs(api: Client, namespace: str, name: str, node: str) -> str:
    """A pod that is ready, on a simulated node; its uid."""
    document = pod(name, labels={"app": "train"}, nodeName=node)
    made = json.loads(await api.create(f"/api/v1/namespaces/{namespace}/pods", document))

    async def is_ready() -> bool:
        status = json.loads(await api.get(path_of(namespace, name)))["status"]
        return any(
            each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ())
        )

    await becomes(is_ready)
    return str(made["metadata"]["uid"])


async def budget(api: Client, namespace: str, name: str, at_least: int) -> None:
    spec: dict[str, Any] = {"minAvailable": at_least, "selector": {"matchLabels": {"app": "train"}}}
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    await api.create(path, {"metadata": {"name": name}, "spec": spec})

    async def is_worked_out() -> bool:
        found = json.loads(await api.get(f"{path}/{name}"))
        return int(found["status"].get("expectedPods", 0)) == 1

    await becomes(is_worked_out)


async def test_a_pod_is_evicted_as_soon_as_its_budget_allows_it(
    api: Client, nodes: list[str], namespace: str
) -> None:
    uid = await runs(api, namespace, "train-0", nodes[0])
    await budget(api, namespace, "steady", at_least=1)
    path = path_of(namespace, "train-0")
    with pytest.raises(EvictionRefused) as refused:
        await evict(api, path, uid=uid, check_lease=allowed)
    reason = refused.value.facts["reason"]
    assert reason == (
        "pod train-0 is not evicted: The disruption budget steady needs 1 healthy pods and has 1 currently"
    )
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/steady"
    await api.patch(budgets, {"spec": {"minAvailable": 0}})

    async def goes() -> bool:
        await evict(api, path, uid=uid, check_lease=allowed)
        return True

    await becomes(goes, despite=EvictionRefused)  # until the disruption controller has looked at it
    await becomes(lambda: gone(api, path))


async def test_a_pod_under_several_budgets_is_deleted(api: Client, nodes: list[str], namespace: str) -> None:
    uid = await runs(api, namespace, "train-0", nodes[0])
    await asyncio.gather(*(budget(api, namespace, name, at_least=0) for name in ("one", "two")))
    with pytest.raises(Conflict):
        await evict(api, path_of(namespace, "train-0"), uid="of another pod", check_lease=allowed)
    await evict(api, path_of(namespace, "train-0"), uid=uid, check_lease=allowed)
    await becomes(lambda: gone(api, path_of(namespace, "train-0")))
