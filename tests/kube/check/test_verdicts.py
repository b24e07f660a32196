"""``muster check`` says of a manifest what an API server with Muster's policies and webhook does with it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import JOB_SETS, NAMESPACES
from tests.e2e.support.operators import definition
from tests.kube.support.cluster_objects import applied, becomes, exists
from tests.kube.support.verdicts import FOREIGN, disagreement, findings_of, verdict_of
from tests.kube.support.webhook_door import Running

Document = dict[str, Any]
CASES: Final = yaml.safe_load((Path(__file__).parent / "verdict_cases.yaml").read_text())["cases"]


@pytest_asyncio.fixture(scope="module")
async def judge(running: Running, door_cluster: LocalCluster) -> AsyncIterator[LocalCluster]:
    """A control plane with Muster that serves all kinds that are tried."""
    async with await Client.connect(door_cluster.kubeconfig) as client:
        for kind in FOREIGN:
            await applied(client, definition(kind))

        async def waits() -> bool:
            probe = {
                "apiVersion": JOB_SETS.api_version,
                "kind": JOB_SETS.kind,
                "metadata": {"name": "probe", "labels": {"muster.dev/queue-name": "team-a"}},
                "spec": {},
            }
            try:
                made = await client.create(JOB_SETS.path("default"), probe, dry_run=True)
            except Exception:
                return False
            return b'"suspend":true' in made

        await becomes(waits)
        for document in (each for case in CASES for each in case["documents"][:-1]):
            if document["kind"] == NAMESPACES.kind and not await exists(
                client, NAMESPACES.path(name=document["metadata"]["name"])
            ):
                await client.create(NAMESPACES.path(), document)
    yield door_cluster


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
async def test_check_says_what_becomes_of_it(judge: LocalCluster, case: Document) -> None:
    findings = findings_of(case["documents"])

    def asked() -> str:
        with judge.client() as api:
            verdict = verdict_of(api, case["documents"][-1])
        difference = disagreement(verdict, findings)
        return difference or ("" if verdict.word == case["is"] else f"{verdict.word}: {verdict}")

    assert await asyncio.to_thread(asked) == ""
