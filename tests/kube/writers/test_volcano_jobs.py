"""Volcano Jobs on a real API server: what Muster makes and removes for them."""

import asyncio
import json
from base64 import b64decode
from dataclasses import replace

from aiohttp import web
from cryptography.hazmat.primitives import serialization

from admission.facts.pods import PodFact, PodPhase, PodShape
from admission.facts.volcano_jobs import JobSpec
from admission.kube.client.client import Client
from admission.volcano_jobs.state import Phase
from deploy.local.cluster import LocalCluster
from queues.resources import Resources
from queues.workload import AdmissionId
from tests import waiting
from tests.builders.volcano_jobs import read_job
from tests.fakes.fake_api_server import FakeApiServer
from tests.kube.support.posted_volcano_jobs import (
    Document,
    Report,
    ReportingWriter,
    admitted,
    eventually,
    fact,
    gang_of_four,
    listed,
    named,
    plain,
    submitted,
    work,
)


async def test_the_gang_of_four_runs_on_its_seats_with_hosts_and_keys(
    local_cluster: LocalCluster, api: Client, namespace: str, jobs: ReportingWriter
) -> None:
    nodes = await asyncio.to_thread(local_cluster.add_nodes, 4, prefix="gang-of-four")
    spec = await submitted(api, namespace, gang_of_four())
    admission = admitted(spec, nodes)

    (report,) = await jobs.reconciled([work(spec, admission, has_group=False)])

    assert (report.created, report.problem) == (4, None)

    async def running() -> list[Document]:
        pods = await listed(api, namespace)
        return pods if all(pod["status"]["phase"] == "Running" for pod in pods) else []

    pods = await eventually(running)
    where = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}
    assert where == {f"pytorch-distributed-worker-{index}": nodes[index] for index in range(4)}
    for pod in pods:
        assert pod["spec"]["schedulerName"] == "default-scheduler"
        assert pod["spec"]["subdomain"] == "pytorch-distributed"
        assert pod["spec"]["hostname"] == pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts["pytorch-distributed-svc"] == "/etc/volcano"
        assert mounts["pytorch-distributed-ssh"] == "/root/.ssh"
        assert [line["name"] for line in container["env"]] == ["VC_WORKER_HOSTS", "VC_WORKER_NUM"]

    hosts = await named(api, namespace, "configmaps", "pytorch-distributed-svc")
    assert hosts["data"]["VC_WORKER_NUM"] == "4"
    service = await named(api, namespace, "services", "pytorch-distributed")
    assert service["spec"]["clusterIP"] == "None"
    await named(api, namespace, "networkpolicies", "pytorch-distributed", "apis/networking.k8s.io/v1")
    secret = (await named(api, namespace, "secrets", f"pytorch-distributed-ssh-{spec.uid}"))["data"]
    private = serialization.load_pem_private_key(b64decode(secret["id_rsa"]), password=None)
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    assert b64decode(secret["authorized_keys"]).strip() == public

    async def group() -> Document:
        return await named(api, namespace, "podgroups", spec.group_name, "apis/scheduling.volcano.sh/v1beta1")

    assert (await eventually(group))["spec"]["minMember"] == 4


async def test_nothing_is_made_twice_neither_by_the_same_nor_by_the_next_leader(
    api: Client, namespace: str, jobs: ReportingWriter, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, gang_of_four())
    todo = work(spec, admitted(spec, nodes))
    (first,) = await jobs.reconciled([todo])
    before = sum(api.counts.values())

    (again,) = await jobs.reconciled([todo])
    assert sum(api.counts.values()) == before

    successor = ReportingWriter(api)
    (later,) = await successor.reconciled([todo])
    await successor.stop()

    assert (first.created, again.created, later.created) == (4, 0, 0)
    assert later.problem is None
    assert len(await listed(api, namespace)) == 4


async def test_a_pod_that_was_seen_and_went_away_is_made_again_at_once(
    api: Client, namespace: str, jobs: ReportingWriter, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, plain())
    admission = admitted(spec, nodes)
    (first,) = await jobs.reconciled([work(spec, admission)])
    pods = await listed(api, namespace)
    await jobs.reconciled([work(spec, admission, pods=tuple(fact(pod) for pod in pods))])
    lost = pods[0]["metadata"]["name"]
    await api.delete(f"/api/v1/namespaces/{namespace}/pods/{lost}", grace=0)

    async def gone() -> bool:
        return lost not in {pod["metadata"]["name"] for pod in await listed(api, namespace)}

    await eventually(gone)
    (second,) = await jobs.reconciled(
        [work(spec, admission, pods=tuple(fact(pod) for pod in pods if pod["metadata"]["name"] != lost))]
    )

    assert (first.created, second.created) == (len(pods), 1)


def two_workers() -> JobSpec:
    """A Job for a server that stores nothing."""
    document = plain(minAvailable=2)
    document["metadata"] |= {"namespace": "team", "uid": "uid-1"}
    document["spec"]["tasks"][0]["replicas"] = 2
    return read_job(json.dumps(document).encode())


async def test_a_pod_that_came_and_went_while_others_are_made_is_made_again_at_once(
    server: FakeApiServer, client: Client
) -> None:
    """The watch shows it, and then that it is gone, while the Job is worked on all the time."""
    go_on = asyncio.Event()

    async def slow(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        if (await request.json())["metadata"]["name"] != made.name:
            await go_on.wait()
        return web.json_response({})

    spec = two_workers()
    everything = work(spec, admitted(spec, ["n1"]))
    made = PodFact(
        uid="a",
        namespace="team",
        name=spec.pod_name("worker", 0),
        phase=PodPhase.RUNNING,
        shape=PodShape(takes=Resources({"pods": 1})),
        task="worker",
        index=0,
        admission=AdmissionId(7),
    )
    server.once("POST", slow, times=2)
    points: list[str] = []
    jobs = ReportingWriter(client, failpoint=points.append)
    jobs.reconcile([everything])
    await waiting.eventually(lambda: bool(points), "the first pod to be made")
    jobs.reconcile([work(spec, admitted(spec, ["n1"]), pods=(made,))])
    go_on.set()
    await jobs.reconciled([everything])
    await jobs.reconciled([everything])
    await jobs.stop()
    names = [request.body["metadata"]["name"] for request in server.seen("POST")]
    assert names.count(made.name) == 2, names


async def test_a_creation_that_a_defect_cuts_off_on_its_way_may_still_bring_its_pod(
    server: FakeApiServer, client: Client
) -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def one_is_held_up(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        if (await request.json())["metadata"]["name"] == spec.pod_name("worker", 0):
            await arrived.wait()
        else:
            arrived.set()
            await go_on.wait()
        return web.json_response({})

    def defect(point: str) -> None:
        raise ValueError(point)

    spec = two_workers()
    server.once("POST", one_is_held_up, times=2)
    jobs = ReportingWriter(client, failpoint=defect)
    (report,) = await jobs.reconciled([work(spec, admitted(spec, ["n1"]))])
    assert jobs.queue.is_backing_off(report.workload)
    assert jobs.awaited.of(report.workload) == {AdmissionId(7): {0, 1}}
    go_on.set()
    await jobs.stop()


async def test_a_stray_of_an_earlier_admission_makes_way(
    api: Client, namespace: str, jobs: ReportingWriter, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, plain())
    await jobs.reconciled([work(spec, admitted(spec, nodes, 7))])
    new = work(spec, admitted(spec, nodes, 8))
    successor = ReportingWriter(api)

    async def replaced() -> bool:
        await successor.reconciled([new])
        pods = await listed(api, namespace)
        return [pod["metadata"]["annotations"]["muster.dev/admission-id"] for pod in pods] == ["8"] * 4

    await eventually(replaced)
    await successor.stop()


async def test_pods_of_a_closed_admission_are_removed_and_only_those(
    api: Client, namespace: str, jobs: ReportingWriter, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, plain())
    admission = admitted(spec, nodes)
    await jobs.reconciled([work(spec, admission)])
    pods = [fact(pod) for pod in await listed(api, namespace)]
    reborn = replace(pods[0], uid="of-a-pod-that-had-this-name-before", admission=AdmissionId(3))
    stray = replace(pods[1], admission=AdmissionId(3))

    (report,) = await jobs.reconciled([work(spec, admission, pods=(reborn, stray, *pods[2:]))])

    async def three() -> bool:
        return {pod["metadata"]["uid"] for pod in await listed(api, namespace)} == {
            pod.uid for pod in pods if pod.uid != stray.uid
        }

    assert report.deleted == 1
    await eventually(three)


async def test_a_job_goes_when_its_time_after_the_end_is_over(
    api: Client, namespace: str, jobs: ReportingWriter, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, plain(ttlSecondsAfterFinished=0))
    await jobs.reconciled([work(spec, admitted(spec, nodes))])

    await jobs.reconciled([work(spec, phase=Phase.COMPLETED)])

    left = await listed(api, namespace, "jobs", "apis/batch.volcano.sh/v1alpha1")
    # Its pods go first; the garbage collector sees to that.
    assert all("foregroundDeletion" in job["metadata"]["finalizers"] for job in left)
    assert all("deletionTimestamp" in job["metadata"] for job in left)


async def test_scaling_a_task_tells_the_others_of_the_new_hosts(
    api: Client, namespace: str, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, gang_of_four())
    jobs = ReportingWriter(api)
    await jobs.reconciled([work(spec, admitted(spec, nodes))])

    async def scaled_to(replicas: int) -> tuple[Report, str]:
        changed = replace(spec, tasks=(replace(spec.tasks[0], replicas=replicas),), generation=replicas)
        pods = tuple(fact(pod) for pod in await listed(api, namespace))
        (report,) = await jobs.reconciled([work(changed, admitted(changed, nodes), pods=pods)])
        hosts = (await named(api, namespace, "configmaps", "pytorch-distributed-svc"))["data"]
        return report, hosts["VC_WORKER_NUM"]

    report, hosts = await scaled_to(5)
    assert (report.created, hosts) == (1, "5")
    report, hosts = await scaled_to(3)
    assert (report.deleted, hosts) == (2, "3"), "though no pod is made"
    await jobs.stop()


async def test_the_podgroup_of_a_job_follows_its_minimums_and_what_they_ask_for(
    api: Client, namespace: str, jobs: ReportingWriter, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, gang_of_four())

    async def minimums() -> tuple[int, dict[str, int], str, str]:
        found = await named(
            api, namespace, "podgroups", spec.group_name, "apis/scheduling.volcano.sh/v1beta1"
        )
        asked = found["spec"]["minResources"]
        return (
            found["spec"]["minMember"],
            found["spec"]["minTaskMember"],
            asked["pods"],
            asked["nvidia.com/gpu"],
        )

    async def scaled_to(number: int) -> None:
        task = replace(spec.tasks[0], replicas=number, minimum=number)
        scaled = replace(spec, tasks=(task,), minimum=number, generation=number)
        await jobs.reconciled([work(scaled, admitted(scaled, nodes), has_group=False)])

        async def follows() -> bool:
            return await minimums() == (number, {"worker": number}, str(number), str(8 * number))

        await eventually(follows)

    await scaled_to(4)
    await scaled_to(2)
