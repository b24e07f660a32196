"""Queues converted from Kueue's, and a namespace that is switched over: what runs there is charged to them."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.stack import Stack
from queues.api.convert.convert import convert_documents
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.ledger_queries import LedgerQueries
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.namespace_history import NamespaceHistory
from tests.e2e.support.sandbox import GPU, Sandbox

NAMESPACE = "switched"
KUEUE = f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: any}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: vision}}
spec:
  cohortName: research
  namespaceSelector: {{}}
  resourceGroups:
    - coveredResources: [{GPU}]
      flavors: [{{name: any, resources: [{{name: {GPU}, nominalQuota: 8, borrowingLimit: 0}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: language}}
spec:
  cohortName: research
  namespaceSelector: {{}}
  resourceGroups:
    - coveredResources: [{GPU}]
      flavors: [{{name: any, resources: [{{name: {GPU}, nominalQuota: 8}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: gpus, namespace: {NAMESPACE}}}
spec: {{clusterQueue: vision}}
"""


@pytest.fixture(scope="module")
def kueues_cluster(kubernetes_binaries: dict[str, Path]) -> Iterator[Sandbox]:
    """A namespace and two nodes in a cluster that knows nothing of Muster."""
    with Stack(durable=False) as stack, stack.cluster.client() as api:
        ledger = LedgerQueries(stack.dsn)
        with NamespaceHistory(stack.cluster.kubeconfig) as history:
            sandbox = Sandbox(NAMESPACE, stack, api, ledger, history)
            sandbox.open()
            sandbox.add_nodes(2)
            sandbox.queues.append("vision")
            yield sandbox
        ledger.close()


def kueues_job(sandbox: Sandbox, name: str) -> Document:
    """A Job that Kueue has admitted: it has Kueue's label alone, and is not suspended."""
    job = batch_job(sandbox, name, 2, 2)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
    return job


@pytest.mark.long
def test_converted_queues_hold_what_kueue_left_running_and_admit_up_to_its_quota(
    kueues_cluster: Sandbox, tmp_path: Path
) -> None:
    sandbox = kueues_cluster
    sandbox.add(kueues_job(sandbox, "left"))
    sandbox.wait_running("left-", 2)

    sandbox.stack.install()
    file = tmp_path / "muster.yaml"
    file.write_text(convert_documents([("kueue.yaml", KUEUE)]).as_yaml(), encoding="utf-8")
    sandbox.stack.kubectl("apply", "--server-side", "-f", file)
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30 * 24 * 3600))
    mode = {"muster.dev/adopt": "true", "muster.dev/adopt-until": until}
    sandbox.api.merge(path("Namespace", "", NAMESPACE), {"metadata": {"annotations": mode}})
    sandbox.stack.start_muster()
    sandbox.wait(lambda: sandbox.held().get(f"queue vision {GPU}") == 4_000, "the GPUs of what Kueue left")

    # The nodes have 12 GPUs left, and the ClusterQueue's quota 4.
    sandbox.add(batch_job(sandbox, "fits", 1, 4))
    sandbox.wait_running("fits-", 1)
    sandbox.add(batch_job(sandbox, "waits", 1, 2))
    sandbox.wait_reason("waits", "QueueLimit")
    assert sandbox.held().get(f"queue vision {GPU}") == 8_000
    finish_all(sandbox, "left-")
    sandbox.wait_running("waits-", 1)

    # The namespace stays open: what names no queue runs at once, as with Kueue.
    job = batch_job(sandbox, "unnamed", 1, 1)
    job["metadata"].pop("labels")
    sandbox.api.merge(
        path("Namespace", "", NAMESPACE), {"metadata": {"annotations": {"muster.dev/adopt": None}}}
    )
    sandbox.add(job)
    sandbox.wait_running("unnamed-", 1)
    for prefix in ("fits-", "waits-", "unnamed-"):
        finish_all(sandbox, prefix)
    sandbox.wait_free()
