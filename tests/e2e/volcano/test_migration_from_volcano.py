"""A cluster in which Volcano was stopped: Muster takes its definitions over, and what runs goes on."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.stack import LocalCommandFailed, Stack
from queues.api.crd import crds
from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.ledger_queries import LedgerQueries
from tests.e2e.support.manifests import pod_spec, volcano_job
from tests.e2e.support.namespace_history import NamespaceHistory
from tests.e2e.support.sandbox import GPU, Sandbox

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def volcanos_cluster(kubernetes_binaries: dict[str, Path]) -> Iterator[Sandbox]:
    """A cluster with Volcano's definitions, as Helm leaves them, and nobody who acts on them."""
    with Stack(durable=False) as stack, stack.cluster.client() as api:
        for definition in crds():
            if definition["spec"]["group"].endswith("volcano.sh"):
                definition["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
                definition["metadata"]["annotations"] = {"meta.helm.sh/release-name": "volcano"}
                api.create(DEFINITIONS, definition)
        ledger = LedgerQueries(stack.dsn)
        with NamespaceHistory(stack.cluster.kubeconfig) as history:
            sandbox = Sandbox("migrated", stack, api, ledger, history)
            sandbox.open()
            sandbox.add_nodes(2)
            sandbox.queues.append("default")
            yield sandbox
        ledger.close()


def served(sandbox: Sandbox, kind: str) -> bool:
    try:
        sandbox.api.get(path(kind, sandbox.name))
    except ApiError:
        return False
    return True


def volcanos_pod(sandbox: Sandbox, job: Document, index: int, node: str) -> Document:
    """A pod as Volcano's job controller makes it and its scheduler binds it, of a Job that was restarted once."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    common = {
        "volcano.sh/job-name": name,
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": str(index),
    }
    annotations = {
        **common,
        "scheduling.k8s.io/group-name": f"{name}-{uid}",
        "volcano.sh/job-version": "1",
        "volcano.sh/job-retry-count": "1",
        "volcano.sh/template-uid": f"{name}-worker",
    }
    owner = {"apiVersion": job["apiVersion"], "kind": "Job", "name": name, "uid": uid, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-worker-{index}",
            "labels": {**common, "volcano.sh/job-namespace": sandbox.name},
            "annotations": annotations,
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": {**pod_spec(sandbox.name, 2), "schedulerName": "volcano", "nodeName": node},
    }


def volcanos_group(job: Document, phase: str) -> Document:
    """The PodGroup that Volcano makes of a Job."""
    metadata = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": f"{metadata['name']}-{metadata['uid']}",
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"minMember": 2, "minTaskMember": {"worker": 2}, "queue": "default"},
        "status": {"phase": phase, "running": 2},
    }


def test_what_volcano_left_running_is_adopted_and_what_it_left_waiting_is_admitted(
    volcanos_cluster: Sandbox,
) -> None:
    sandbox = volcanos_cluster
    sandbox.wait(lambda: served(sandbox, "Job"), "Volcano's Jobs to be served")
    runs, waits = sandbox.add(volcano_job(sandbox, "runs", 2, 2), volcano_job(sandbox, "waits", 2, 2))
    sandbox.add(volcanos_group(runs, "Running"), volcanos_group(waits, "Pending"))
    sandbox.add(*(volcanos_pod(sandbox, runs, index, node) for index, node in enumerate(sandbox.nodes)))
    for name, phase, version in (("runs", "Running", 1), ("waits", "Pending", 0)):
        status = {"state": {"phase": phase}, "version": version, "retryCount": version, "running": 2}
        sandbox.api.merge(f"{path('Job', sandbox.name, name)}/status", {"status": status})
    sandbox.wait_running("runs-", 2)
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in sandbox.pods("runs-")}

    with pytest.raises(LocalCommandFailed, match="adopt-crds"):
        sandbox.stack.install()
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30 * 24 * 3600))
    mode = {"muster.dev/queue-name": "default", "muster.dev/adopt": "true", "muster.dev/adopt-until": until}
    sandbox.api.merge(path("Namespace", "", sandbox.name), {"metadata": {"annotations": mode}})
    sandbox.stack.install("--adopt-crds")
    sandbox.stack.start_muster()

    sandbox.wait_running("waits-", 2)
    sandbox.wait(
        lambda: sandbox.held().get(f"queue default {GPU}") == 8_000,
        "four GPUs of each Job",
    )
    assert {kind for kind, _, _ in sandbox.ledger.decisions(sandbox.name, "runs")} == {"adopt"}
    assert {each["metadata"]["name"]: each["metadata"]["uid"] for each in sandbox.running("runs-")} == uids
    sandbox.wait_phase("Job", "runs", "Running")

    finish_all(sandbox, "runs-")
    finish_all(sandbox, "waits-")
    for name in ("runs", "waits"):
        sandbox.wait_phase("Job", name, "Completed")
    sandbox.wait_free()
    assert not [moment for moment in sandbox.history.of(sandbox.name) if moment.kind == "DELETED"]
