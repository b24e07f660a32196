"""The examples of the OpenAPI document: what the read API answers for the small cluster of the fakes.

    python -m tests.fakes.read_api.examples && python -m deploy.reference_pages

writes them anew; a test compares them.
"""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import aiohttp

from admission.web.openapi.operations import BASE
from tests.fakes.fake_reader import FakeReader, served

FILE: Final = Path(__file__).parents[3] / "admission/web/openapi/examples.json"
#: What is asked for each operation that has an example.
QUESTIONS: Final = {
    "listQueues": "/queues",
    "listQueueVersions": "/queues/team-a/versions?limit=2",
    "getQuotaAt": "/queues/team-a/quota?at=2026-11-21T09:00:00Z",
    "listPending": "/pending?namespace=ml&limit=2",
    "listWorkloads": "/workloads?queue=dev&since=2026-11-21T00:00:00Z",
    "listUsers": "/users?queue=team-a&limit=2",
    "listDecisions": "/decisions?limit=1",
    "listNodes": "/nodes?limit=2",
    "getUsage": "/usage?from=2026-11-01&by=queue,user&resource=nvidia.com/gpu&limit=2",
    "getTimeSeries": "/timeseries?from=2026-11-21T06:00:00Z&step=3600&limit=1",
    "explainWorkload": "/namespaces/ml/workloads/tune-3?kind=job",
    "getOutlook": "/namespaces/ml/workloads/tune-3/outlook?kind=job",
}


async def examples() -> dict[str, Any]:
    """The answers, by operation."""
    found = {}
    async with served(FakeReader()) as url, aiohttp.ClientSession() as session:
        for name, path in QUESTIONS.items():
            async with session.get(url + BASE + path) as answer:
                assert answer.status == 200, await answer.text()
                found[name] = await answer.json()
    return found


def text(found: dict[str, Any]) -> str:
    """The file's content."""
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(asyncio.run(examples())), encoding="utf-8")
