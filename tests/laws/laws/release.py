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


def no_device_twice(cluster: FakeCluster) -> None:
    """Live pods that were let go fit on their nodes together, those that are not bound yet among them."""
    taken: Counter[str] = Counter()
    for pod in let_go(cluster):
        spec = pod["spec"]
        nodes = {spec["nodeName"]} if "nodeName" in spec else pinned_nodes(spec)
        if len(nodes) == 1:
            taken[nodes.pop()] += gpus_of(spec)
    for node, gpus in taken.items():
        if node not in cluster.objects["nodes"]:
            continue  # it was removed: nothing runs there
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
    """Once all is settled: every live pod that was let go has a seat that is held, or was adopted since."""
    adopted = {
        uid for each in ledger.values() if each.state is AdmissionState.OPEN for uid in each.adopted or ()
    }
    for pod in let_go(cluster):
        if pod["metadata"]["uid"] in adopted:
            continue
        admission = ledger[AdmissionId(int(pod["metadata"]["annotations"][names.ADMISSION_ID]))]
        assert admission.state is AdmissionState.OPEN, pod
        seat = pod["metadata"]["annotations"].get(names.SEAT)
        held = {f"{each.pod_set}/{each.ordinal}" for each in admission.holding()}
        assert seat is None or seat in held, pod
