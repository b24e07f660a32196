"""``python -m tests.manifest_verdicts DIR…``: other projects' manifests, judged by check and by an API server.

Each DIR is a folder with manifests, such as a checkout. Every object of a kind that can be tried is created in a dry
run on a control plane with Muster's policies and webhook, as it is and once more with a queue; where ``muster check``
says something else of it, that is printed. Operators' kinds are served without their schemas.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import QUEUES
from queues.api.check.document import documents_of
from queues.api.names import QUEUE_LABEL
from tests.e2e.support.operators import definition
from tests.kube.support.cluster_objects import applied
from tests.kube.support.verdicts import FOREIGN, TRIED, disagreement, findings_of, verdict_of
from tests.kube.support.webhook_door import running_door

Document = dict[str, Any]
#: Seconds until the API server's policies know the kinds.
_SETTLES: Final = 15


def main() -> int:
    """Exit code 0 if ``muster check`` and the API server say the same of every object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    return asyncio.run(_judge(parser.parse_args().folders))


async def _judge(folders: list[Path]) -> int:
    tried = differing = 0
    with LocalCluster() as cluster:
        async with await Client.connect(cluster.kubeconfig) as client:
            for kind in FOREIGN:
                await applied(client, definition(kind))
        async for _ in running_door(cluster):
            await asyncio.sleep(_SETTLES)
            for place, document in _objects(folders):
                tried += 1
                difference = await asyncio.to_thread(_difference, cluster, document)
                if difference:
                    differing += 1
                    print(f"{place}: {difference}")
    print(f"{tried} objects: {differing} of another verdict")
    return int(bool(differing))


def _difference(cluster: LocalCluster, document: Document) -> str:
    with cluster.client() as api:
        return disagreement(verdict_of(api, document), findings_of([document]))


def _objects(folders: list[Path]) -> Iterator[tuple[str, Document]]:
    """Objects of all files, in namespace default: as they are, and with a queue."""
    files = [file for folder in folders for file in sorted(folder.resolve().rglob("*.y*ml"))]
    for file in files:
        for document in documents_of(file.read_text(errors="replace")):
            value = document.value
            if not isinstance(value, dict) or (value.get("apiVersion"), value.get("kind")) not in TRIED:
                continue
            place = f"{file}:{document.line}"
            written = deepcopy(value)
            metadata = written.setdefault("metadata", {})
            if not isinstance(metadata, dict):
                continue
            metadata.pop("namespace", None)
            yield place, written
            if written["kind"] != QUEUES.kind:
                queued = deepcopy(written)
                queued["metadata"]["labels"] = {**(metadata.get("labels") or {}), QUEUE_LABEL: "team-a"}
                yield f"{place} in a queue", queued


if __name__ == "__main__":
    sys.exit(main())
