"""Jobs as users of Kueue have them, unchanged, in a namespace where Kueue's names count."""

from typing import Any

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job, pod
from tests.e2e.support.sandbox import GPU, Sandbox

LOCAL_QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
SIZE = "kueue.x-k8s.io/pod-group-total-count"


def switch_on(sandbox: Sandbox, queue: str) -> None:
    metadata = {
        "labels": {"muster.dev/kueue-names": "true"},
        "annotations": {"local-queue.muster.dev/user-queue": queue},
    }
    sandbox.api.merge(path("Namespace", "", sandbox.name), {"metadata": metadata})
    probe = pod(sandbox, "probe", 1, labels=LOCAL_QUEUE)

    def counts() -> bool:  # the API server notices the label after a moment
        made = sandbox.api.create(f"{path('Pod', sandbox.name)}?dryRun=All", probe)
        return bool(made["metadata"]["labels"].get("muster.dev/queue-name") == queue)

    sandbox.wait(counts, "Kueue's names to count")


def kueues_job(sandbox: Sandbox, name: str, pods: int, gpus: int, **annotations: str) -> Document:
    """A Job as in Kueue's examples: suspended, with the name of a LocalQueue."""
    job = batch_job(sandbox, name, pods, gpus, annotations=annotations, suspend=True)
    job["metadata"]["labels"] = dict(LOCAL_QUEUE)
    return job


def member(sandbox: Sandbox, name: str, size: int, **spec: Any) -> Document:
    labels = {**LOCAL_QUEUE, "kueue.x-k8s.io/pod-group-name": "ring"}
    return pod(sandbox, name, 4, labels=labels, annotations={SIZE: str(size)}, **spec)


def test_kueues_jobs_wait_unchanged_are_admitted_whole_and_run(sandbox: Sandbox) -> None:
    sandbox.add_nodes(4, nodes_per_rack=2)
    queue = sandbox.add_queue(capability={GPU: 16})
    switch_on(sandbox, queue)
    close = {"kueue.x-k8s.io/podset-required-topology": "topology.muster.dev/rack"}
    sandbox.add(kueues_job(sandbox, "first", 4, 4, **close))
    sandbox.wait_running("first-", 4)
    assert len(sandbox.racks(sandbox.nodes_of("first-").values())) == 1
    sandbox.add(kueues_job(sandbox, "second", 3, 4))

    sandbox.wait_reason("second", "QueueLimit")
    assert not sandbox.pods("second-")
    assert sandbox.held().get(f"queue {queue} {GPU}") == 16_000
    finish_all(sandbox, "first-")
    sandbox.wait_running("second-", 3)
    finish_all(sandbox, "second-")
    sandbox.wait(lambda: sandbox.job_is("second", "Complete"), "the Job to be complete")
    sandbox.wait_free()


def test_a_group_of_kueues_pods_that_is_evicted_is_made_again_and_keeps_its_turn(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue()
    switch_on(sandbox, queue)
    high = sandbox.add_priority_class(1000)
    members = [member(sandbox, f"ring-{index}", 2) for index in range(2)]
    for each in members:
        each["metadata"]["annotations"]["volcano.sh/preemptable"] = "true"
    sandbox.add(*members)
    before = {each["metadata"]["uid"] for each in sandbox.wait_running("ring-", 2)}
    group = sandbox.get("PodGroup", "podgroup-pods-ring")["metadata"]["uid"]

    urgent = kueues_job(sandbox, "urgent", 2, 4)
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = high
    sandbox.add(urgent)
    sandbox.wait_running("urgent-", 2)
    sandbox.wait(
        lambda: len({each["metadata"]["uid"] for each in sandbox.pods("ring-")} - before) == 2,
        "the evicted pods to be made again",
    )
    finish_all(sandbox, "urgent-")
    sandbox.wait_running("ring-", 2)
    assert sandbox.get("PodGroup", "podgroup-pods-ring")["metadata"]["uid"] == group
    finish_all(sandbox, "ring-")
    sandbox.wait_free()
