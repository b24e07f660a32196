import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NamespaceFact
from admission.facts.workloads import WorkloadFact
from admission.kube.client.client import Client
from admission.kube.watch.informer import Timing
from admission.kube.watch.informers import Informers
from queues import kind_names
from queues.workload import QueueName
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.waiting import LIMIT, eventually

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
TOPOLOGIES = "/apis/muster.dev/v1alpha1/topologies"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
VOLCANO_JOBS = "/apis/batch.volcano.sh/v1alpha1/jobs"
QUICK = Timing(first_pause=0.01, longest_pause=0.05)


@asynccontextmanager
async def informed(server: FakeApiServer, folder: Path, *, collect: bool = True) -> AsyncIterator[Informers]:
    async with await Client.connect(server.kubeconfig(folder)) as client:
        informers = Informers(client, QUICK)
        try:
            async with asyncio.TaskGroup() as tasks:
                informers.start(tasks, collect=collect)
                await informers.all_synced()
                await eventually(lambda: len(server.seen("WATCH")) >= 10, "ten watches")
                yield informers
                raise _Done
        except* _Done:
            pass


class _Done(Exception):
    """Ends the task group."""


async def next_changes(informers: Informers) -> list[Change]:
    await asyncio.wait_for(informers.changed.wait(), LIMIT)
    return informers.drain()


def group(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "g", "namespace": "ns", "uid": "g1"}, "spec": {"minMember": 2, **spec}}


def workload(change: Change) -> WorkloadFact:
    assert isinstance(change.fact, WorkloadFact)
    return change.fact


async def test_changes_of_all_kinds_come_in_one_list(server: FakeApiServer, tmp_path: Path) -> None:
    await server.put(NODES, {"metadata": {"name": "n1", "uid": "u-n1"}})
    await server.put(GROUPS, group())
    async with informed(server, tmp_path) as informers:
        first = {(change.kind, change.key, change.workload_kind) for change in informers.drain()}
        assert first == {
            (FactKind.NODE, "n1", None),
            (FactKind.WORKLOAD, "g1", kind_names.POD_GROUP),
        }
        assert informers.drain() == []
        assert not informers.changed.is_set()
        await server.put(PODS, {"metadata": {"name": "p", "namespace": "ns", "uid": "p1"}})
        await server.remove(PODS, "p", "ns")
        told: list[Change] = []
        while len(told) < 2:
            told += await next_changes(informers)
        assert [(change.key, change.fact is None) for change in told] == [("p1", False), ("p1", True)]


async def test_who_starts_from_everything_need_not_be_told_of_each_object_before(
    server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(NODES, {"metadata": {"name": "n1", "uid": "u-n1"}})
    await server.put(CLASSES, {"metadata": {"name": "high", "uid": "c1"}, "value": 7})
    await server.put(GROUPS, group(priorityClassName="high"))
    async with informed(server, tmp_path, collect=False) as informers:
        assert informers.drain() == []
        found = {change.key: change.fact for change in informers.everything()}
        assert found.keys() == {"n1", "g1"}
        fact = found["g1"]
        assert isinstance(fact, WorkloadFact)
        assert fact.priority == 7
        await server.put(PODS, {"metadata": {"name": "p", "namespace": "ns", "uid": "p1"}})
        assert [change.key for change in await next_changes(informers)] == ["p1"]


async def test_a_new_priority_class_changes_the_facts_that_name_it(
    server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(GROUPS, group(priorityClassName="high"))
    async with informed(server, tmp_path) as informers:
        (first,) = informers.drain()
        assert workload(first).obstacle is not None
        await server.put(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        (second,) = await next_changes(informers)
        assert (workload(second).priority, workload(second).obstacle) == (1000, None)
        await server.put(CLASSES, {"metadata": {"name": "other"}, "value": 1})
        await eventually(lambda: "other" in informers.context.priorities, "the other class")
        assert informers.drain() == []


async def test_a_new_default_queue_changes_the_facts_of_its_namespace(
    server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(GROUPS, group())
    async with informed(server, tmp_path) as informers:
        assert workload(informers.drain()[0]).queue == "default"
        annotations = {"scheduling.volcano.sh/queue-name": "team"}
        await server.put(NAMESPACES, {"metadata": {"name": "ns", "annotations": annotations}})
        namespace_change, group_change = await next_changes(informers)
        assert workload(group_change).queue == "team"
        assert namespace_change.fact == NamespaceFact(name="ns", queue=QueueName("team"))
        await server.put(NAMESPACES, {"metadata": {"name": "ns", "labels": {"tier": "gold"}}})
        namespace_change, group_change = await next_changes(informers)
        assert workload(group_change).queue == "default"
        assert namespace_change.fact == NamespaceFact(name="ns", labels={"tier": "gold"})


async def test_a_class_that_never_preempts_is_told_of_workloads_that_name_it(
    server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(GROUPS, {**group(), "spec": {"priorityClassName": "calm"}})
    calm = {"metadata": {"name": "calm"}, "value": 9, "preemptionPolicy": "Never"}
    await server.put(CLASSES, calm)
    async with informed(server, tmp_path) as informers:
        (change,) = informers.drain()
        assert (workload(change).priority, workload(change).preempts) == (9, False)
        await server.put(CLASSES, {**calm, "preemptionPolicy": "PreemptLowerPriority"})
        (change,) = await next_changes(informers)
        assert workload(change).preempts


async def test_a_topology_gives_tiers_their_levels(server: FakeApiServer, tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "c"}]}}
    spec = {"tasks": [{"name": "w", "template": template}], "networkTopology": {"highestTierAllowed": 1}}
    await server.put(VOLCANO_JOBS, {"metadata": {"name": "v", "namespace": "ns", "uid": "v1"}, "spec": spec})
    async with informed(server, tmp_path) as informers:
        assert workload(informers.drain()[0]).pod_sets[0].required_topology is None
        levels = [{"nodeLabel": "rack"}, {"nodeLabel": "host"}]
        await server.put(TOPOLOGIES, {"metadata": {"name": "t"}, "spec": {"levels": levels}})
        changes = await next_changes(informers)
        (job,) = (change for change in changes if change.kind is FactKind.WORKLOAD)
        assert workload(job).pod_sets[0].required_topology == "rack"


async def test_a_job_without_the_form_of_a_job_is_a_fact_with_an_obstacle(
    server: FakeApiServer, tmp_path: Path
) -> None:
    bad = {"metadata": {"name": "v", "namespace": "ns", "uid": "v1"}, "spec": {"tasks": "many"}}
    await server.put(VOLCANO_JOBS, bad)
    async with informed(server, tmp_path) as informers:
        (change,) = informers.drain()
        obstacle = workload(change).obstacle
        assert obstacle is not None
        assert obstacle.code == "InvalidSpec"
        assert "spec.tasks" in obstacle.message


async def test_everything_known_can_be_told_again(server: FakeApiServer, tmp_path: Path) -> None:
    await server.put(NODES, {"metadata": {"name": "n1", "uid": "u-n1"}})
    await server.put(GROUPS, group())
    async with informed(server, tmp_path) as informers:
        told = informers.drain()
        assert sorted(informers.everything(), key=lambda change: change.key) == sorted(
            told, key=lambda change: change.key
        )


async def test_readiness_tells_which_kind_is_not_heard_and_why(server: FakeApiServer, tmp_path: Path) -> None:
    async with await Client.connect(server.kubeconfig(tmp_path)) as client:
        server.once("LIST", answers(403, "forbidden by policy"), times=10_000)
        informers = Informers(client, QUICK)
        task = asyncio.create_task(next(iter(informers.by_name.values())).run())
        await eventually(
            lambda: any(hearing.problem for hearing in informers.hearings().values()), "a problem"
        )
        (hearing,) = (found for found in informers.hearings().values() if found.problem)
        assert "forbidden by policy" in str(hearing.problem)
        assert not all(informer.synced.is_set() for informer in informers.by_name.values())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
