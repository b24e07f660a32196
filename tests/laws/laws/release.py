"""What holds of pods that were let go, whatever the API server's answers do: on the cluster as it really is."""

from collections import Counter

from queues.admissions import Admission, AdmissionState
from queues.api import names
from queues.workload import AdmissionId
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_objects import ENDED, GPU, Document, gpus_of
from tests.node_affinity import pinned_nodes


def let_go(cluster: FakeCluster) -> list[Document]:
    """Live pods of Muster's that may run."""
    return [
        pod
        for pod in cluster.objects["pods"].values()
        if names.ADMISSION_ID in pod["metadata"]["annotations"]
        and "schedulingGates" not in pod["spec"]
        and pod["status"]["phase"] not in ENDED
    ]


def no_two_pods_on_one_seat(cluster: FakeCluster) -> None:
    """Live pods that were let go have seats of their own."""
    seats = Counter(
        (pod["metadata"]["annotations"][names.ADMISSION_ID], seat)
        for pod in let_go(cluster)
        if (seat := pod["metadata"]["annotations"].get(names.SEAT)) is not None
    )
    assert not [seat for seat, pods in seats.items() if pods > 1]


def no_device_twice(cluster: FakeCluster, ledger: dict[AdmissionId, Admission]) -> None:
    """Live pods that were let go fit on their nodes together, those that are not bound yet among them.

    Of a Job whose template names its nodes no more than its seats count: its controller makes a pod while the one that
    it replaces is still ending.
    """
    taken: Counter[str] = Counter()
    by_job: Counter[tuple[str, AdmissionId]] = Counter()
    for pod in let_go(cluster):
        annotations, spec = pod["metadata"]["annotations"], pod["spec"]
        nodes = {spec["nodeName"]} if "nodeName" in spec else pinned_nodes(spec)
        if len(nodes) > 1:
            continue
        if names.SEAT in annotations:
            taken[nodes.pop()] += gpus_of(spec)
        else:
            by_job[nodes.pop(), AdmissionId(int(annotations[names.ADMISSION_ID]))] += gpus_of(spec)
    for (node, id_), gpus in by_job.items():
        seats = sum(seat.takes[GPU] // 1000 for seat in ledger[id_].seats if seat.node == node)
        taken[node] += min(gpus, seats)
    for node, gpus in taken.items():
        assert gpus <= int(cluster.objects["nodes"][node]["status"]["allocatable"][GPU]), (node, gpus)


def no_pod_is_made_again_twice(cluster: FakeCluster) -> None:
    """A pod without an owner has one successor."""
    successors = Counter(
        predecessor
        for pod in cluster.objects["pods"].values()
        if (predecessor := pod["metadata"]["annotations"].get(names.RECREATED_FROM)) is not None
    )
    assert not [uid for uid, pods in successors.items() if pods > 1]


def no_pod_of_a_closed_admission(cluster: FakeCluster, ledger: dict[AdmissionId, Admission]) -> None:
    """Once all is settled: every live pod that was let go has a seat that is held."""
    for pod in let_go(cluster):
        admission = ledger[AdmissionId(int(pod["metadata"]["annotations"][names.ADMISSION_ID]))]
        assert admission.state is AdmissionState.OPEN, pod
        seat = pod["metadata"]["annotations"].get(names.SEAT)
        held = {f"{each.pod_set}/{each.ordinal}" for each in admission.holding()}
        assert seat is None or seat in held, pod
