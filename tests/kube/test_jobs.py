"""Volcano Jobs on a real API server: what Muster makes, removes and reports for them."""

import asyncio
import itertools
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest_asyncio
import yaml
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from admission.facts import PodFact, PodPhase
from admission.jobs.job import JobSpec, read_job
from admission.jobs.pods import PodRules
from admission.jobs.state import JobState, Phase
from admission.jobs.view import JobView
from admission.jobs.work import JobWork, work_for
from admission.kube.client import Client
from admission.kube.dismissal import Dismissal
from admission.kube.job_pods import JobReport
from admission.kube.jobs import VolcanoJobs
from admission.kube.objects import Pod
from admission.kube.translate import pod_fact
from deploy.local.cluster import LocalCluster
from queues.errors import ApiError, Conflict, Fenced, NotFound
from queues.resources import Resources
from queues.workload import (
    Admission,
    AdmissionId,
    NodeName,
    QueueName,
    Seat,
    WorkloadKey,
    WorkloadKind,
)
from tests import waiting
from tests.kube.fake_api_server import FakeApiServer

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
_numbers = itertools.count(1)
Document = dict[str, Any]

SEED_002: Document = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "pytorch-distributed"},
    "spec": {
        "minAvailable": 4,
        "schedulerName": "volcano",
        "plugins": {"ssh": [], "svc": []},
        "tasks": [
            {
                "replicas": 4,
                "name": "worker",
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "pytorch",
                                "image": "pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime",
                                "command": ["python", "-m", "torch.distributed.launch", "train.py"],
                                "resources": {"limits": {"nvidia.com/gpu": 8}},
                            }
                        ],
                        "restartPolicy": "OnFailure",
                    }
                },
            }
        ],
    },
}


def plain(name: str = "plain", **spec: Any) -> Document:
    """A Job without plugins."""
    document: Document = json.loads(json.dumps(SEED_002))
    document["metadata"]["name"] = name
    document["spec"] = {**document["spec"], "plugins": {}, **spec}
    return document


@pytest_asyncio.fixture(scope="session")
async def nodes(local_cluster: LocalCluster) -> list[str]:
    def prepare() -> list[str]:
        with local_cluster.client() as api:
            for path in CRDS.glob("*volcano*.yaml"):
                crd = yaml.safe_load(path.read_text())
                try:
                    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
                except ApiError as error:
                    if error.facts["status"] != 409:
                        raise
        return local_cluster.add_nodes(4, prefix="jobs")

    return await asyncio.to_thread(prepare)


@pytest_asyncio.fixture
async def api(local_cluster: LocalCluster, nodes: list[str]) -> AsyncIterator[Client]:
    async with await Client.connect(local_cluster.kubeconfig) as client:
        yield client


@pytest_asyncio.fixture
async def namespace(api: Client) -> AsyncIterator[str]:
    name = f"jobs-{next(_numbers)}"
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    letting_go = asyncio.create_task(let_go(api, name))
    yield name
    await api.delete(f"/api/v1/namespaces/{name}")
    await letting_go


async def let_go(api: Client, namespace: str) -> None:
    """As Muster does it: pods that are deleted are not kept, until the namespace is gone."""
    dismissal = Dismissal(api, lambda: None)

    async def gone() -> bool:
        pods = msgspec.json.decode(await api.get(f"/api/v1/namespaces/{namespace}/pods"), type=_Pods).items
        dismissal.look_at([each for each in map(pod_fact, pods) if each.kept and each.deleting])
        try:
            await api.get(f"/api/v1/namespaces/{namespace}")
        except NotFound:
            return True
        return False

    await eventually(gone, seconds=300)
    await dismissal.stop()


class _Pods(msgspec.Struct):
    items: list[Pod]


@pytest_asyncio.fixture
async def jobs(api: Client) -> AsyncIterator[VolcanoJobs]:
    made = VolcanoJobs(api, lambda: None)
    yield made
    await made.stop()


async def eventually(look: Callable[[], Awaitable[Any]], seconds: float = 20.0) -> Any:
    """The first answer that is true."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                found = await look()
            except (NotFound, Conflict):
                found = None
            if found:
                return found
            await asyncio.sleep(0.05)


async def submitted(api: Client, namespace: str, document: Document) -> JobSpec:
    path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"

    async def create() -> bytes:
        # Right after its definition is made, a kind may not be served yet.
        return await api.create(path, document)

    return read_job(await eventually(create))


def admitted(spec: JobSpec, nodes: list[str], number: int = 7) -> Admission:
    seats = [(task.name, index) for task in spec.tasks for index in range(task.replicas)]
    return Admission(
        id=AdmissionId(number),
        workload=WorkloadKey(WorkloadKind.VOLCANO_JOB, spec.uid),
        namespace=spec.namespace,
        name=spec.name,
        queue=QueueName("default"),
        priority=0,
        seats=tuple(
            Seat(
                pod_set=task,
                ordinal=index,
                node=NodeName(nodes[position % len(nodes)]),
                takes=Resources({"pods": 1}),
            )
            for position, (task, index) in enumerate(seats)
        ),
        opened_at=0,
    )


def work(
    spec: JobSpec,
    *admissions: Admission,
    pods: tuple[PodFact, ...] = (),
    phase: Phase = Phase.PENDING,
    **more: Any,
) -> JobWork:
    key = WorkloadKey(WorkloadKind.VOLCANO_JOB, spec.uid)
    view = JobView(spec=spec, pods=pods, admissions=admissions)
    return work_for(key, JobState(uid=spec.uid, phase=phase), view, 100, rules=PodRules(), **more)


async def listed(api: Client, namespace: str, what: str = "pods", group: str = "api/v1") -> list[Document]:
    found: list[Document] = json.loads(await api.get(f"/{group}/namespaces/{namespace}/{what}"))["items"]
    return found


async def named(api: Client, namespace: str, what: str, name: str, group: str = "api/v1") -> Document:
    found: Document = json.loads(await api.get(f"/{group}/namespaces/{namespace}/{what}/{name}"))
    return found


def fact(pod: Document, admission: int | None = None) -> PodFact:
    task, index = pod["metadata"]["annotations"]["muster.dev/seat"].split("/")
    return PodFact(
        uid=pod["metadata"]["uid"],
        namespace=pod["metadata"]["namespace"],
        name=pod["metadata"]["name"],
        phase=PodPhase(pod["status"]["phase"]),
        takes=Resources({"pods": 1}),
        task=task,
        index=int(index),
        admission=AdmissionId(admission or int(pod["metadata"]["annotations"]["muster.dev/admission-id"])),
    )


async def test_the_gang_of_four_runs_on_its_seats_with_hosts_and_keys(
    api: Client, namespace: str, jobs: VolcanoJobs, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, SEED_002)
    admission = admitted(spec, nodes)

    (report,) = await jobs.reconcile([work(spec, admission, has_group=False)])

    assert (report.created, report.companions, report.problem) == (4, 4, None)

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
    secret = (await named(api, namespace, "secrets", "pytorch-distributed-ssh"))["data"]
    private = serialization.load_pem_private_key(b64decode(secret["id_rsa"]), password=None)
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    assert b64decode(secret["authorized_keys"]).strip() == public

    async def group() -> Document:
        return await named(api, namespace, "podgroups", spec.group_name, "apis/scheduling.volcano.sh/v1beta1")

    assert (await eventually(group))["spec"]["minMember"] == 4


async def test_nothing_is_made_twice_neither_by_the_same_nor_by_the_next_leader(
    api: Client, namespace: str, jobs: VolcanoJobs, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, SEED_002)
    todo = work(spec, admitted(spec, nodes))
    (first,) = await jobs.reconcile([todo])
    before = sum(api.counts.values())

    (again,) = await jobs.reconcile([todo])
    assert sum(api.counts.values()) == before

    successor = VolcanoJobs(api, lambda: None)
    (later,) = await successor.reconcile([todo])
    await successor.stop()

    assert (first.created, again.created, later.created, later.found) == (4, 0, 0, 4)
    assert later.problem is None
    assert len(await listed(api, namespace)) == 4


async def test_a_pod_that_was_seen_and_went_away_is_made_again_at_once(
    api: Client, namespace: str, jobs: VolcanoJobs, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, plain())
    admission = admitted(spec, nodes)
    (first,) = await jobs.reconcile([work(spec, admission)])
    pods = await listed(api, namespace)
    await jobs.reconcile([work(spec, admission, pods=tuple(fact(pod) for pod in pods))])
    lost = pods[0]["metadata"]["name"]
    await api.delete(f"/api/v1/namespaces/{namespace}/pods/{lost}", grace=0)

    async def gone() -> bool:
        return lost not in {pod["metadata"]["name"] for pod in await listed(api, namespace)}

    await eventually(gone)
    (second,) = await jobs.reconcile(
        [work(spec, admission, pods=tuple(fact(pod) for pod in pods if pod["metadata"]["name"] != lost))]
    )

    assert (first.created, second.created) == (len(pods), 1)


async def test_a_pod_that_came_and_went_while_others_are_made_is_made_again_at_once(tmp_path: Path) -> None:
    """The watch shows it, and then that it is gone, while the Job is worked on all the time."""
    go_on = asyncio.Event()

    async def slow(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        if (await request.json())["metadata"]["name"] != made.name:
            await go_on.wait()
        return web.json_response({})

    document = plain(minAvailable=2)
    document["metadata"] |= {"namespace": "team", "uid": "uid-1"}
    document["spec"]["tasks"][0]["replicas"] = 2
    spec = read_job(json.dumps(document).encode())
    everything = work(spec, admitted(spec, ["n1"]))
    made = PodFact(
        uid="a",
        namespace="team",
        name=spec.pod_name("worker", 0),
        phase=PodPhase.RUNNING,
        takes=Resources({"pods": 1}),
        task="worker",
        index=0,
        admission=AdmissionId(7),
    )
    server = FakeApiServer()
    await server.start()
    server.once("POST", slow, times=2)
    points: list[str] = []
    async with await Client.connect(server.kubeconfig(tmp_path)) as client:
        jobs = VolcanoJobs(client, lambda: None, pause=points.append)
        jobs.look_at([everything])
        await waiting.eventually(lambda: bool(points), "the first pod to be made")
        jobs.look_at([work(spec, admitted(spec, ["n1"]), pods=(made,))])
        go_on.set()
        await jobs.reconcile([everything])
        await jobs.reconcile([everything])
        await jobs.stop()
    await server.stop()
    names = [request.body["metadata"]["name"] for request in server.seen("POST")]
    assert names.count(made.name) == 2, names


async def test_a_stray_of_an_earlier_admission_makes_way(
    api: Client, namespace: str, jobs: VolcanoJobs, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, plain())
    await jobs.reconcile([work(spec, admitted(spec, nodes, 7))])
    new = work(spec, admitted(spec, nodes, 8))
    successor = VolcanoJobs(api, lambda: None)

    async def replaced() -> bool:
        await successor.reconcile([new])
        pods = await listed(api, namespace)
        return [pod["metadata"]["annotations"]["muster.dev/admission-id"] for pod in pods] == ["8"] * 4

    await eventually(replaced)
    await successor.stop()


async def test_pods_of_a_closed_admission_are_removed_and_only_those(
    api: Client, namespace: str, jobs: VolcanoJobs, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, plain())
    admission = admitted(spec, nodes)
    await jobs.reconcile([work(spec, admission)])
    pods = [fact(pod) for pod in await listed(api, namespace)]
    reborn = replace(pods[0], uid="of-a-pod-that-had-this-name-before", admission=AdmissionId(3))
    stray = replace(pods[1], admission=AdmissionId(3))

    (report,) = await jobs.reconcile([work(spec, admission, pods=(reborn, stray, *pods[2:]))])

    async def three() -> bool:
        return {pod["metadata"]["uid"] for pod in await listed(api, namespace)} == {
            pod.uid for pod in pods if pod.uid != stray.uid
        }

    assert report.deleted == 1
    await eventually(three)


async def test_somebody_elses_pod_under_our_name_is_a_reason_and_stops_no_other(
    api: Client, namespace: str, jobs: VolcanoJobs, nodes: list[str]
) -> None:
    squatter = {
        "metadata": {"name": "plain-worker-2"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": nodes[0]},
    }
    await api.create(f"/api/v1/namespaces/{namespace}/pods", squatter)
    spec = await submitted(api, namespace, plain())

    (report,) = await jobs.reconcile([work(spec, admitted(spec, nodes))])

    assert report.created == 3
    assert report.problem is not None
    assert (report.problem.code, "plain-worker-2" in report.problem.message) == ("NameTaken", True)
    assert jobs.problems[report.workload] == report.problem


async def test_a_quota_that_refuses_is_a_reason_until_it_no_longer_does(
    api: Client, namespace: str, nodes: list[str]
) -> None:
    await api.create(
        f"/api/v1/namespaces/{namespace}/resourcequotas",
        {"metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}},
    )

    async def counted() -> bool:
        return bool((await named(api, namespace, "resourcequotas", "two"))["status"].get("hard"))

    await eventually(counted)
    spec = await submitted(api, namespace, plain())
    todo = work(spec, admitted(spec, nodes))
    reports: list[JobReport] = []
    jobs = VolcanoJobs(api, lambda: None, report=reports.append, again=lambda _: jobs.look_at([todo]))

    (first,) = await jobs.reconcile([todo])
    assert first.created == 2
    assert first.problem is not None
    assert first.problem.code == "PodRefused"
    assert "exceeded quota" in first.problem.message

    await api.delete(f"/api/v1/namespaces/{namespace}/resourcequotas/two")

    async def whole() -> bool:
        return len(await listed(api, namespace)) == 4 and not jobs.problems

    await eventually(whole)
    await jobs.stop()


async def test_an_invalid_template_is_a_reason_and_stops_no_other_job(
    api: Client, namespace: str, jobs: VolcanoJobs, nodes: list[str]
) -> None:
    template = {"spec": {"containers": [{"name": "Not A Name", "image": "i"}]}}
    bad = await submitted(
        api, namespace, plain("bad", tasks=[{"name": "w", "replicas": 500, "template": template}])
    )
    good = await submitted(api, namespace, plain("good"))
    refused_before = api.counts["POST", "pods", 422]

    bad_report, good_report = await jobs.reconcile(
        [work(bad, admitted(bad, nodes)), work(good, admitted(good, nodes))]
    )

    assert bad_report.problem is not None
    assert "Not A Name" in bad_report.problem.message
    assert (good_report.created, good_report.problem) == (4, None)
    assert api.counts["POST", "pods", 422] - refused_before <= 64


async def test_a_leader_whose_lease_is_over_writes_nothing(
    api: Client, namespace: str, nodes: list[str]
) -> None:
    def over() -> None:
        raise Fenced(term=1, holder="me", reason="its lease ran out")

    spec = await submitted(api, namespace, SEED_002)
    deposed = VolcanoJobs(api, over)

    (report,) = await deposed.reconcile([work(spec, admitted(spec, nodes), has_group=False)])
    await deposed.stop()

    assert report.created == 0
    assert await listed(api, namespace) == []
    assert await listed(api, namespace, "secrets") == []


async def test_a_job_goes_when_its_time_after_the_end_is_over(
    api: Client, namespace: str, jobs: VolcanoJobs, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, plain(ttlSecondsAfterFinished=0))
    await jobs.reconcile([work(spec, admitted(spec, nodes))])

    await jobs.reconcile([work(spec, phase=Phase.COMPLETED)])

    left = await listed(api, namespace, "jobs", "apis/batch.volcano.sh/v1alpha1")
    # Its pods go first; the garbage collector sees to that.
    assert all("foregroundDeletion" in job["metadata"]["finalizers"] for job in left)
    assert all("deletionTimestamp" in job["metadata"] for job in left)


async def test_scaling_a_task_tells_the_others_of_the_new_hosts(
    api: Client, namespace: str, nodes: list[str]
) -> None:
    spec = await submitted(api, namespace, SEED_002)
    jobs = VolcanoJobs(api, lambda: None)
    await jobs.reconcile([work(spec, admitted(spec, nodes))])
    scaled = replace(spec, tasks=(replace(spec.tasks[0], replicas=5),), generation=2)
    pods = tuple(fact(pod) for pod in await listed(api, namespace))

    (report,) = await jobs.reconcile([work(scaled, admitted(scaled, nodes), pods=pods)])
    await jobs.stop()

    hosts = (await named(api, namespace, "configmaps", "pytorch-distributed-svc"))["data"]
    assert (report.created, hosts["VC_WORKER_NUM"]) == (1, "5")
