"""``muster check`` says of a manifest what an API server with Muster's policies and webhook does with it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import NAMESPACES
from queues.api.metadata_keys import KNOWN_KEYS, KeyUse
from queues.errors import ApiError
from tests.builders.operator_resources import JOB_SETS
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
            return b'"suspend":true' in await client.create(JOB_SETS.path("default"), probe, dry_run=True)

        await becomes(waits, despite=ApiError)
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


_POD: Final = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
_QUEUED: Final = {"muster.dev/queue-name": "team-a"}
_TASKS: Final = {"queue": "team-a", "tasks": [{"name": "w", "replicas": 1, "template": {"spec": _POD}}]}
#: Objects by kind, with the places of metadata in them.
_WITH_METADATA: Final = [
    ("v1", "Pod", _QUEUED, _POD, ("",)),
    ("v1", "Pod", {}, _POD, ("",)),
    ("batch/v1", "Job", _QUEUED, {"template": {"spec": _POD}}, ("", "spec.template")),
    ("batch/v1", "Job", {}, {"template": {"spec": _POD}}, ("", "spec.template")),
    ("batch.volcano.sh/v1alpha1", "Job", {}, _TASKS, ("", "spec.tasks.0.template")),
    (
        "batch.volcano.sh/v1alpha1",
        "CronJob",
        {},
        {"schedule": "@daily", "jobTemplate": {"spec": _TASKS}},
        ("", "spec.jobTemplate", "spec.jobTemplate.spec.tasks.0.template"),
    ),
    ("flow.volcano.sh/v1alpha1", "JobTemplate", {}, _TASKS, ("", "spec.tasks.0.template")),
    ("flow.volcano.sh/v1alpha1", "JobFlow", {}, {"flows": [{"name": "b"}]}, ("",)),
    ("scheduling.volcano.sh/v1beta1", "PodGroup", {}, {"queue": "team-a", "minMember": 1}, ("",)),
    ("scheduling.volcano.sh/v1beta1", "Queue", {}, {}, ("",)),
    (
        "batch/v1",
        "CronJob",
        _QUEUED,
        {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": _POD}}}},
        ("", "spec.jobTemplate", "spec.jobTemplate.spec.template"),
    ),
    (
        "apps/v1",
        "Deployment",
        _QUEUED,
        {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
        },
        ("", "spec.template"),
    ),
    (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        _QUEUED,
        {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": {"spec": _POD}}}}]},
        ("", "spec.replicatedJobs.0.template", "spec.replicatedJobs.0.template.spec.template"),
    ),
]


def _own_names(version: str, kind: str, labels: Document, spec: Document, place: str) -> Iterator[Document]:
    """Objects with one of the names that only Muster writes, at a place."""
    for key, row in KNOWN_KEYS.items():
        if row.use is not KeyUse.OWN:
            continue
        for field in ("labels", "annotations"):
            metadata = {"name": "a", "labels": dict(labels)}
            document = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": deepcopy(spec)}
            holder: Any = document
            for step in place.split(".") if place else ():
                holder = holder[int(step)] if step.isdecimal() else holder[step]
            holder.setdefault("metadata", {}).setdefault(field, {})[key] = "true"
            yield document


@pytest.mark.parametrize(
    ("version", "kind", "labels", "spec", "place"),
    [(*each, place) for *each, places in _WITH_METADATA for place in places],
)
async def test_check_agrees_about_names_that_only_muster_writes(
    judge: LocalCluster, version: str, kind: str, labels: Document, spec: Document, place: str
) -> None:
    def asked() -> list[str]:
        found = []
        with judge.client() as api:
            for document in _own_names(version, kind, labels, spec, place):
                difference = disagreement(verdict_of(api, document), findings_of([document]))
                found += [f"{document}: {difference}"] if difference else []
        return found

    assert await asyncio.to_thread(asked) == []
