"""What was accepted once is accepted again, by each client, while its work waits, runs and has ended."""

import copy
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import (
    DEPLOYMENTS,
    HYPERNODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    QUEUES,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    ApiResource,
    Document,
)
from queues.api.node_affinity import REQUIRED, pinned
from queues.errors import ApiError, ApiRefused
from tests.builders.operator_resources import JOB_SETS, PYTORCH_JOBS, RAY_JOBS
from tests.e2e.support.operators import definition
from tests.kube.support.cluster_objects import applied, batch_job, becomes, pod
from tests.kube.support.guarded_namespace import MUSTER
from tests.kube.support.webhook_door import Running
from tests.kube.support.writing_clients import WRITES, Writer

#: Objects without a queue of their own wait in ``young`` here.
PLACE = "again"
OPERATORS = (RAY_JOBS, PYTORCH_JOBS, JOB_SETS)
#: Kubernetes itself lets a field manager change what another one wrote by force only.
_NOT_FORCED = ("apply server-side", "apply server-side as another")
_SERVER_SIDE = [how for how in WRITES if how.startswith("apply server-side")]
#: Kubernetes itself takes no Job without its selector, and no list of a pod's containers without its volumes.
_OF_KUBERNETES = {JOBS: ["apply", *_SERVER_SIDE], PODS: _SERVER_SIDE}
_numbers = itertools.count(1)


def template(**spec: Any) -> Document:
    container = {"name": "main", "image": "a", "resources": {"limits": {"cpu": 1}}}
    return {"spec": {"containers": [container], **spec}}


def task(**fields: Any) -> Document:
    return {"replicas": 4, "template": template(), **fields}


def vcjob(*tasks: Document, **spec: Any) -> Document:
    return {"spec": {"tasks": list(tasks) or [task()], **spec}}


@dataclass(frozen=True)
class File:
    """A file of a user."""

    title: str
    kind: ApiResource
    document: Document

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.title}".replace(" ", "-")

    def named(self, name: str) -> Document:
        document = copy.deepcopy(self.document)
        document["metadata"] = {"name": name, **document.get("metadata", {})}
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, **document}


PARTITIONS = {"totalPartitions": 2, "partitionSize": 2, "networkTopology": {"highestTierAllowed": 1}}
VOLUMES = [{"name": "a", "emptyDir": {"sizeLimit": "1024Mi"}}]
FILES = [
    File("without defaults", VOLCANO_JOBS, vcjob()),
    File("without a limit of retries", VOLCANO_JOBS, vcjob(task(maxRetry=0), maxRetry=0, schedulerName="")),
    File("of a network", VOLCANO_JOBS, vcjob(task(template=template(hostNetwork=True)))),
    File("of partitions", VOLCANO_JOBS, vcjob(task(partitionPolicy=PARTITIONS))),
    File("of mpi", VOLCANO_JOBS, vcjob(task(name="master"), task(name="worker"), plugins={"mpi": []})),
    File("of volumes", VOLCANO_JOBS, vcjob(task(template=template(volumes=VOLUMES)))),
    File("of a minimum", VOLCANO_JOBS, vcjob(task(minAvailable=1), minAvailable=2)),
    File("with labels", VOLCANO_JOBS, {"metadata": {"labels": {"a": "b"}}, **vcjob()}),
    File("of nulls", VOLCANO_JOBS, vcjob(task(template=template(volumes=None)), policies=[])),
    File("plain", POD_GROUPS, {"spec": {"minMember": 2}}),
    File("of groups", POD_GROUPS, {"spec": {"minMember": 2, "subGroupPolicy": [{"name": "a"}]}}),
    File("plain", VOLCANO_CRON_JOBS, {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": vcjob()}}),
    File("plain", JOB_TEMPLATES, vcjob()),
    File(
        "plain",
        JOB_FLOWS,
        {"spec": {"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]}},
    ),
    File(
        "plain",
        JOBS,
        {"metadata": {"labels": {"muster.dev/queue-name": "young"}}, "spec": batch_job("")["spec"]},
    ),
    File("of the namespace", JOBS, {"spec": batch_job("")["spec"]}),
    File("for another scheduler", JOBS, {"spec": batch_job("", schedulerName="volcano")["spec"]}),
    File("not suspended", JOBS, {"spec": {**batch_job("")["spec"], "suspend": False}}),
    File("suspended", JOBS, {"spec": {**batch_job("")["spec"], "suspend": True}}),
    File("of the namespace", PODS, {"spec": pod("")["spec"]}),
    File(
        "for another scheduler",
        PODS,
        {"spec": pod("", schedulerName="volcano", terminationGracePeriodSeconds=0)["spec"]},
    ),
    File("of the namespace", RAY_JOBS, {"spec": {"shutdownAfterJobFinishes": True, "rayClusterSpec": {}}}),
    File(
        "with labels",
        RAY_JOBS,
        {"metadata": {"labels": {"a": "b"}}, "spec": {"shutdownAfterJobFinishes": True}},
    ),
    File("of the namespace", PYTORCH_JOBS, {"spec": {"pytorchReplicaSpecs": {}}}),
    File("of the namespace", JOB_SETS, {"spec": {"replicatedJobs": []}}),
    File("not suspended", RAY_JOBS, {"spec": {"shutdownAfterJobFinishes": True, "suspend": False}}),
    File(
        "not suspended", PYTORCH_JOBS, {"spec": {"pytorchReplicaSpecs": {}, "runPolicy": {"suspend": False}}}
    ),
    File("not suspended", JOB_SETS, {"spec": {"replicatedJobs": [], "suspend": False}}),
]
#: Nodes that their owner asks for, besides those that Muster adds.
OWN_NODES = "of nodes of their own"
_TERMS = [
    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}]},
    {
        "matchExpressions": [{"key": "gpu", "operator": "Exists"}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}],
    },
]
_ON_NODES = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": _TERMS}}}
FILES += [
    File(
        "of successors",
        JOBS,
        {"spec": batch_job("")["spec"] | {"podReplacementPolicy": "TerminatingOrFailed"}},
    ),
    File(OWN_NODES, JOBS, {"spec": batch_job("", affinity=_ON_NODES)["spec"]}),
    File(OWN_NODES, PODS, {"spec": pod("", affinity=_ON_NODES)["spec"]}),
]
#: Files in which Muster writes another value in the place of the user's: Kubernetes lets their writer apply them again
#: server-side by force only.
_REWRITTEN = {
    "for another scheduler": _NOT_FORCED[1:],
    "not suspended": _NOT_FORCED[1:],
    "suspended": _NOT_FORCED,
    OWN_NODES: _NOT_FORCED,
    "of successors": _NOT_FORCED,
}
#: What ends it: a status that Muster or an operator writes.
ENDED = {
    VOLCANO_JOBS: {"state": {"phase": "Completed"}},
    POD_GROUPS: {"phase": "Completed"},
    JOB_FLOWS: {"state": {"phase": "Succeed"}},
    RAY_JOBS: {"jobStatus": "SUCCEEDED"},
}
RUNS = {
    VOLCANO_JOBS: {"state": {"phase": "Running"}, "running": 4, "minAvailable": 4},
    POD_GROUPS: {"phase": "Running"},
    JOB_FLOWS: {"state": {"phase": "Running"}},
    RAY_JOBS: {"jobStatus": "RUNNING"},
}


@pytest_asyncio.fixture(scope="module")
async def place(running: Running, door_cluster: LocalCluster) -> AsyncIterator[tuple[Client, Client]]:
    """A user and Muster, and a namespace whose objects wait in a queue."""
    queue = {"scheduling.volcano.sh/queue-name": "young"}
    await running.user.create(QUEUES.path(), QUEUES.document("young"))
    await running.user.create(NAMESPACES.path(), {"metadata": {"name": PLACE, "annotations": queue}})
    for kind in OPERATORS:
        await applied(running.user, definition(kind))

    async def waits(kind: ApiResource) -> bool:
        probe = {"metadata": {"name": "probe"}, "spec": {"shutdownAfterJobFinishes": True}}
        kinds = {"apiVersion": kind.api_version, "kind": kind.kind}
        return b'"suspend":true' in await running.user.create(
            kind.path(PLACE), {**kinds, **probe}, dry_run=True
        )

    for kind in OPERATORS:
        await becomes(partial(waits, kind), despite=ApiError)
    async with await Client.connect(door_cluster.kubeconfig_for(MUSTER, ("system:masters",))) as muster:
        yield running.user, muster


def _released(pod: Document, *nodes: str) -> Document:
    """What Muster writes on a pod, or on the template of a Job, that may use these nodes."""
    marks = {"labels": {"muster.dev/released": "true"}, "annotations": {"muster.dev/admission-id": "7"}}
    return {"metadata": marks, "spec": {"affinity": pinned(pod["spec"].get("affinity"), nodes)}}


async def admitted(muster: Client, kind: ApiResource, name: str) -> None:
    """What Muster writes when the object may run."""
    path = kind.path(PLACE, name)
    if kind in (RAY_JOBS, JOB_SETS):
        await muster.patch(path, {"spec": {"suspend": False}})
    if kind is JOBS:
        live = await Writer(muster, kind, PLACE).live(name)
        template = _released(live["spec"]["template"], "n1", "n2")
        spec = {"suspend": False, "template": template, "podReplacementPolicy": "Failed"}
        await muster.patch(path, {"spec": spec})
    if kind is PODS:
        released = _released(await Writer(muster, kind, PLACE).live(name), "n1")
        released["spec"]["schedulingGates"] = None
        await muster.patch(path, released)
    if kind is PYTORCH_JOBS:
        await muster.patch(path, {"spec": {"runPolicy": {"suspend": False}}})
    if kind in RUNS:
        subresource = "/status" if kind is not RAY_JOBS else ""
        await muster.patch(f"{path}{subresource}", {"status": RUNS[kind]})


async def ended(muster: Client, kind: ApiResource, name: str) -> None:
    """What is written when the object has ended."""
    if kind in ENDED:
        subresource = "/status" if kind is not RAY_JOBS else ""
        await muster.patch(f"{kind.path(PLACE, name)}{subresource}", {"status": ENDED[kind]})


@pytest.mark.parametrize("file", FILES, ids=str)
@pytest.mark.parametrize("how", WRITES)
async def test_a_file_is_written_again_while_its_work_waits_runs_and_has_ended(
    place: tuple[Client, Client], file: File, how: str
) -> None:
    user, muster = place
    if file.kind in _OF_KUBERNETES and how not in _OF_KUBERNETES[file.kind]:
        return
    if how in _REWRITTEN.get(file.title, ()):
        return
    name = f"a{next(_numbers)}"
    writer, document = Writer(user, file.kind, PLACE), file.named(name)
    # Programs and replacements find what somebody has applied.
    first = how if how in WRITES and how not in ("replace", "read and write in Go") else "apply"
    if first.startswith("apply server-side"):
        first = "apply server-side"
    made = await WRITES[first](writer, document)
    user_name = made["metadata"].get("annotations", {}).get("muster.dev/user")
    for step in (None, admitted, ended):
        if step is not None:
            await step(muster, file.kind, name)
        before = await writer.live(name)
        again = await WRITES[how](writer, document)
        assert again["metadata"].get("annotations", {}).get("muster.dev/user") == user_name
        assert again["spec"].get("queue") == before["spec"].get("queue") == made["spec"].get("queue")
        if how in ("apply", "apply server-side") and file.title != "of nulls":
            assert again["spec"] == before["spec"]
            assert again["metadata"]["generation"] == before["metadata"]["generation"]
    assert file.kind is JOB_TEMPLATES or user_name == "alice"


@pytest.mark.parametrize("how", [how for how in WRITES if how not in _NOT_FORCED])
async def test_a_gang_without_a_minimum_of_its_own_follows_its_replicas(
    place: tuple[Client, Client], how: str
) -> None:
    writer, name = Writer(place[0], VOLCANO_JOBS, PLACE), f"a{next(_numbers)}"
    await writer.apply(File("", VOLCANO_JOBS, vcjob(task(replicas=4))).named(name))
    for replicas in (2, 6, 0, 4):

        def scale(live: Document, replicas: int = replicas) -> None:
            live["spec"]["tasks"][0]["replicas"] = replicas

        document = File("", VOLCANO_JOBS, vcjob(task(replicas=replicas))).named(name)
        await (writer.update(name, scale) if how == "read and write in Go" else WRITES[how](writer, document))
        live = await writer.live(name)
        assert live["spec"]["tasks"][0].get("replicas", 0) == replicas
        assert "minAvailable" not in live["spec"]
        assert "minAvailable" not in live["spec"]["tasks"][0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda s: s["tasks"][0].update(replicas=10),
            "totalPartitions times partitionSize equal to the task's 10",
        ),
        (lambda s: s.update(minAvailable=9), "spec.minAvailable: found 9, expected at most"),
        (
            lambda s: s["tasks"][0].update(minAvailable=5),
            "spec.tasks[0].minAvailable: found 5, expected at most",
        ),
        (
            lambda s: s["tasks"].append(task(name="more")),
            "job updates may not add or remove tasks: found 2 tasks",
        ),
        (
            lambda s: s["tasks"][0]["template"]["spec"]["containers"][0].update(image="b"),
            'spec.tasks[0].template.spec.containers[0].image: found "b", expected "a"',
        ),
        (lambda s: s.update(queue="default2"), 'spec.queue: found "default2", expected "young"'),
        (lambda s: s.update(maxRetry=4), "spec.maxRetry: found 4, expected 3"),
    ],
)
async def test_a_change_is_judged_as_the_object_would_be_and_the_refusal_names_the_field(
    place: tuple[Client, Client], change: Callable[[Document], None], words: str
) -> None:
    writer, name = Writer(place[0], VOLCANO_JOBS, PLACE), f"a{next(_numbers)}"
    document = File("", VOLCANO_JOBS, vcjob(task(partitionPolicy=PARTITIONS))).named(name)
    await writer.apply(document)
    change(document["spec"])
    for write in (writer.apply, writer.replace):
        with pytest.raises(ApiRefused) as refused:
            await write(document)
        assert words in str(refused.value)


async def test_a_job_cannot_grow_to_pods_whose_names_are_too_long(place: tuple[Client, Client]) -> None:
    writer, name = Writer(place[0], VOLCANO_JOBS, PLACE), "n" * 59
    document = File("", VOLCANO_JOBS, vcjob(task(name="w", replicas=10), plugins={"svc": []})).named(name)
    await writer.apply(document)
    document["spec"]["tasks"][0]["replicas"] = 11
    with pytest.raises(ApiRefused, match="at most 63 characters"):
        await writer.apply(document)


async def test_labels_that_a_file_does_not_have_any_more_go_and_those_of_muster_stay(
    place: tuple[Client, Client],
) -> None:
    for kind, spec in ((RAY_JOBS, {"shutdownAfterJobFinishes": True}), (JOBS, batch_job("")["spec"])):
        writer, name = Writer(place[0], kind, PLACE), f"a{next(_numbers)}"
        document = File("", kind, {"metadata": {"labels": {"a": "b"}}, "spec": spec}).named(name)
        await writer.apply(document)
        del document["metadata"]["labels"]
        live = await writer.apply(document)
        assert "a" not in live["metadata"]["labels"]
        assert live["metadata"]["labels"]["muster.dev/queue-name"] == "young"
        patch = {"metadata": {"labels": {"muster.dev/queue-name": None, "c": "d"}}}
        live = await writer.patch(name, patch)
        assert live["metadata"]["labels"]["muster.dev/queue-name"] == "young"


async def test_only_another_user_is_refused(place: tuple[Client, Client]) -> None:
    for kind, document in (
        (VOLCANO_JOBS, vcjob()),
        (POD_GROUPS, {"spec": {"minMember": 1}}),
        (RAY_JOBS, {"spec": {"shutdownAfterJobFinishes": True}}),
    ):
        writer, name = Writer(place[0], kind, PLACE), f"a{next(_numbers)}"
        file = File("", kind, document).named(name)
        await writer.apply(file)
        file["metadata"]["annotations"] = {"muster.dev/user": "bob"}
        for write in (writer.apply, writer.replace):
            with pytest.raises(ApiRefused, match="only Muster writes"):
                await write(file)


async def test_a_deployment_and_a_hypernode_are_written_again(place: tuple[Client, Client]) -> None:
    labels = {"app": "a"}
    container = {"name": "main", "image": "a", "resources": {"limits": {"cpu": "1"}}}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": pods}
    owner = {"metadata": {"labels": {"muster.dev/queue-name": "young"}}, "spec": spec}
    hypernode = {"spec": {"tier": 1, "members": [{"selector": {"exactMatch": {"name": "n1"}}}]}}
    for kind, document, namespace in ((DEPLOYMENTS, owner, PLACE), (HYPERNODES, hypernode, None)):
        writer, file = Writer(place[0], kind, namespace), File("", kind, document).named("again")
        await WRITES["apply server-side"](writer, file)
        for write in WRITES.values():
            await write(writer, file)


@pytest.mark.parametrize("kind", [JOBS, PODS], ids=lambda kind: str(kind.kind))
@pytest.mark.parametrize(
    "change",
    [
        lambda terms: terms.pop(),
        lambda terms: terms.reverse(),
        lambda terms: terms[0]["matchExpressions"][0]["values"].pop(),
        lambda terms: terms[1].pop("matchFields"),
        lambda terms: terms.append({"matchExpressions": [{"key": "other", "operator": "Exists"}]}),
    ],
    ids=["fewer", "others first", "fewer values", "without a field", "more"],
)
async def test_other_nodes_in_the_file_of_what_runs_are_a_change(
    place: tuple[Client, Client], kind: ApiResource, change: Callable[[list[Document]], object]
) -> None:
    """Kubernetes says that they may not change."""
    user, muster = place
    [file] = [each for each in FILES if each.kind is kind and each.title == OWN_NODES]
    writer, name = Writer(user, kind, PLACE), f"a{next(_numbers)}"
    document = file.named(name)
    await writer.apply_as(document, "kubectl")
    await admitted(muster, kind, name)
    spec = document["spec"] if kind is PODS else document["spec"]["template"]["spec"]
    change(spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"])
    with pytest.raises(ApiRefused):
        await writer.apply_as(document, "kubectl", force=True)
