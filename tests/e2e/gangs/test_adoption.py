"""Clusters that were busy before Muster came: with work of Kubernetes' own kinds, and with what Volcano left behind."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.local.stack import LocalCommandFailed, Stack
from queues.api.crd import crds
from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.ledger_queries import LedgerQueries
from tests.e2e.support.manifests import bare_pod, batch_job, grouped, pod, pod_group, pod_spec, volcano_job
from tests.e2e.support.pod_history import PodHistory
from tests.e2e.support.sandbox import GPU, Sandbox

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class BusyCluster:
    """What ran in a cluster, and what waited there, when Muster was installed."""

    #: Work of Kubernetes' own kinds.
    plain: Sandbox
    #: Jobs that Volcano left behind.
    volcanos: Sandbox
    #: Uids of the pods that ran, by name.
    ran: dict[str, str]


@pytest.fixture(scope="module")
def busy_cluster(kubernetes_binaries: dict[str, Path]) -> Iterator[BusyCluster]:
    """Muster comes to a cluster with Volcano's definitions, as Helm leaves them, and nobody who acts on them."""
    with Stack(durable=False) as stack, stack.cluster.client() as api:
        for definition in crds():
            if definition["spec"]["group"].endswith("volcano.sh"):
                definition["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
                definition["metadata"]["annotations"] = {"meta.helm.sh/release-name": "volcano"}
                api.create(DEFINITIONS, definition)
        ledger = LedgerQueries(stack.dsn)
        with PodHistory(stack.cluster.kubeconfig) as history:
            plain, volcanos = (Sandbox(name, stack, api, ledger, history) for name in ("before", "migrated"))
            for sandbox in (plain, volcanos):
                sandbox.open()
                sandbox.add_nodes(2)
            plain.queues.append("default")
            begin_plain(plain)
            begin_volcanos(volcanos)
            ran = {
                each["metadata"]["name"]: each["metadata"]["uid"]
                for sandbox in (plain, volcanos)
                for each in sandbox.pods()
            }
            with pytest.raises(LocalCommandFailed, match="adopt-crds"):
                stack.install()
            adopt(volcanos, **{"muster.dev/queue-name": volcanos.queues[0]})
            stack.install("--adopt-crds")
            plain.add(pod_group(plain, "ring", 2))
            stack.start_muster()
            yield BusyCluster(plain, volcanos, ran)
        ledger.close()


def begin_plain(sandbox: Sandbox) -> None:
    """A Job, a pod of its own, a pod in no queue and two members of a group that there is not yet."""
    sandbox.add(batch_job(sandbox, "train", 2, 3), bare_pod(sandbox, "alone", 1), pod(sandbox, "foreign", 2))
    sandbox.add(*(grouped(sandbox, "ring", f"ring-{index}", 1) for index in range(2)))
    sandbox.wait_running("", 6)


def begin_volcanos(sandbox: Sandbox) -> None:
    """A queue of theirs, with a Job that runs and one that waits."""
    for kind in ("Queue", "PodGroup", "Job"):
        sandbox.wait(lambda kind=kind: served(sandbox, kind), f"Volcano's {kind} to be served")  # type: ignore[misc]
    sandbox.add_queue()
    runs, waits = sandbox.add(volcano_job(sandbox, "runs", 2, 2), volcano_job(sandbox, "waits", 2, 2))
    sandbox.add(volcanos_group(runs, "Running"), volcanos_group(waits, "Pending"))
    sandbox.add(*(volcanos_pod(sandbox, runs, index, node) for index, node in enumerate(sandbox.nodes)))
    for name, phase, version in (("runs", "Running", 1), ("waits", "Pending", 0)):
        status = {"state": {"phase": phase}, "version": version, "retryCount": version, "running": 2}
        sandbox.api.merge(f"{path('Job', sandbox.name, name)}/status", {"status": status})
    sandbox.wait_running("runs-", 2)


def adopt(sandbox: Sandbox, **annotations: str) -> None:
    """Its namespace says that what runs there is adopted."""
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30 * 24 * 3600))
    mode = {"muster.dev/adopt": "true", "muster.dev/adopt-until": until, **annotations}
    sandbox.api.merge(path("Namespace", "", sandbox.name), {"metadata": {"annotations": mode}})


def still_runs(sandbox: Sandbox, ran: dict[str, str]) -> bool:
    """Whether none of the pods that run now was made after Muster came, but those of other names."""
    running = {each["metadata"]["name"]: each["metadata"]["uid"] for each in sandbox.running()}
    return all(ran.get(name, uid) == uid for name, uid in running.items())


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
        "volcano.sh/queue-name": sandbox.queues[0],
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
        "spec": {"minMember": 2, "minTaskMember": {"worker": 2}, "queue": job["spec"]["queue"]},
        "status": {"phase": phase, "running": 2},
    }


def test_pods_that_run_when_muster_is_installed_are_adopted_once_their_namespace_says_so(
    busy_cluster: BusyCluster,
) -> None:
    sandbox = busy_cluster.plain
    # Anybody may write a queue's name on a pod: the queue is not charged for it.
    for name in ("train", "alone", "ring"):
        sandbox.wait_reason(name, "NotGated")
    assert not sandbox.held().get(f"queue default {GPU}")
    adopt(sandbox)
    sandbox.wait(
        lambda: sandbox.held().get(f"queue default {GPU}") == 9_000,
        "six GPUs of train, one of alone, two of ring",
    )
    for name in ("train", "alone", "ring"):
        decided = {kind for kind, _, _ in sandbox.ledger.decisions(sandbox.name, name)}
        assert decided == {"adopt"}
    assert not sandbox.ledger.admissions(sandbox.name, "foreign")
    assert "adopted" in sandbox.explain("job/train")

    # They count like any other: of 16 GPUs 9 are theirs and 2 the foreign pod's.
    sandbox.add(volcano_job(sandbox, "next", 2, 3), volcano_job(sandbox, "small", 1, 2))
    sandbox.wait_running("small-", 1)
    sandbox.wait_reason("next", "NoFit")
    assert len(sandbox.running()) == 7
    assert still_runs(sandbox, busy_cluster.ran)

    finish_all(sandbox, "train-")
    sandbox.wait_running("next-", 2)
    for prefix in ("alone", "ring-", "next-", "small-", "foreign"):
        finish_all(sandbox, prefix)
    sandbox.wait_free()
    assert not [moment for moment in sandbox.history.of(sandbox.name) if moment.kind == "DELETED"]


def test_what_volcano_left_running_is_adopted_and_what_it_left_waiting_is_admitted(
    busy_cluster: BusyCluster,
) -> None:
    sandbox = busy_cluster.volcanos
    sandbox.wait_running("waits-", 2)
    sandbox.wait(
        lambda: sandbox.held().get(f"queue {sandbox.queues[0]} {GPU}") == 8_000,
        "four GPUs of each Job",
    )
    assert {kind for kind, _, _ in sandbox.ledger.decisions(sandbox.name, "runs")} == {"adopt"}
    assert len(sandbox.running("runs-")) == 2
    assert still_runs(sandbox, busy_cluster.ran)
    sandbox.wait_phase("Job", "runs", "Running")

    finish_all(sandbox, "runs-")
    finish_all(sandbox, "waits-")
    for name in ("runs", "waits"):
        sandbox.wait_phase("Job", name, "Completed")
    sandbox.wait_free()
    assert not [moment for moment in sandbox.history.of(sandbox.name) if moment.kind == "DELETED"]
