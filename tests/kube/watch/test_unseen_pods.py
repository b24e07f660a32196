"""Pods of Jobs that give up their seats: asked for, until the watch has told of all of them."""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from admission.containment.repeated_failures import TELL_AFTER
from admission.facts.workloads import WorkloadFact
from admission.kube.client.client import Client
from admission.kube.watch import unseen_pods
from admission.kube.watch.unseen_pods import UnseenPods
from admission.world.world import World
from queues import kind_names
from queues.admissions import Admission
from queues.workload import AdmissionId, WorkloadKey
from tests.builders.facts import (
    JOB,
    NOW,
    VOLCANO,
    admission,
    evicting,
    gone,
    job,
    node,
    released,
    seen,
    world,
)
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.waiting import eventually, in_background

PODS = "/api/v1/namespaces/ns/pods"
ONE = AdmissionId(1)
TAKEN = admission(JOB, "n1 n1", started=True)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen_pods, "FIRST_PAUSE", 0.01)


class Asking:
    """A leader that gives seats back as soon as nothing keeps them."""

    def __init__(self, client: Client, known: World) -> None:
        self.world = known
        # Its Jobs lack pods; how long a sync is waited for is shown elsewhere.
        known.timeouts = replace(known.timeouts, job_sync=0, job_sync_per_pod=0.0)
        self.requeued: list[WorkloadKey] = []
        self.unseen = UnseenPods(client, known, requeue=self.requeued.append)

    def turn(self) -> dict[AdmissionId, frozenset[int]]:
        """One turn; the seats of the Job that end."""
        for key in self.requeued:
            self.world.mark_dirty(key)
        self.unseen.reconcile(self.world.refresh(NOW, self.unseen.of))
        return dict(self.world.states[JOB].ended)

    def asks(self) -> AbstractAsyncContextManager[object]:
        """It asks while the block goes on."""
        return in_background(self.unseen.run())


def running(client: Client, fact: WorkloadFact, taken: Admission = TAKEN) -> Asking:
    """The leader of a Job of which no pod is known."""
    return Asking(client, world([node("n1"), fact], [taken]))


async def made(server: FakeApiServer, name: str, *, of: str = JOB.uid, namespace: str = "ns") -> None:
    """A pod of a Job is made."""
    meta: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "labels": {"batch.kubernetes.io/controller-uid": of},
    }
    await server.put(f"/api/v1/namespaces/{namespace}/pods", {"metadata": meta})


async def test_seats_of_a_job_that_is_gone_are_kept_until_its_pods_were_asked_for(
    server: FakeApiServer, client: Client
) -> None:
    leader = running(client, job(2, directed=ONE))
    leader.world.observe([gone(job(2))])
    assert leader.turn() == {}
    async with leader.asks():
        await eventually(lambda: leader.requeued == [JOB], "an answer")
    assert leader.turn() == {ONE: {0, 1}}
    [asked] = server.seen("LIST")
    assert asked.path == PODS
    assert asked.query == {"labelSelector": f"batch.kubernetes.io/controller-uid in ({JOB.uid})"}
    assert "PartialObjectMetadataList" in asked.headers["Accept"]


async def test_a_list_without_items_is_an_answer(server: FakeApiServer, client: Client) -> None:
    """A real API server says null instead of an empty list where only metadata is asked for."""
    leader = running(client, job(2, directed=ONE))

    async def null(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": None})

    server.once("LIST", null)
    leader.world.observe([gone(job(2))])
    leader.turn()
    async with leader.asks():
        await eventually(lambda: leader.requeued == [JOB], "an answer")
    assert len(server.seen("LIST")) == 1


async def test_while_the_watch_has_not_told_of_a_pod_its_seat_is_kept(
    server: FakeApiServer, client: Client
) -> None:
    leader = running(client, job(2, directed=ONE))
    await made(server, "late")
    leader.world.observe([gone(job(2))])
    leader.turn()
    async with leader.asks():
        await eventually(lambda: len(server.seen("LIST")) > 2, "questions")
        assert (leader.requeued, leader.turn()) == ([], {})
        leader.world.observe([seen(released("late", None, "n1", owner=JOB))])
        await eventually(lambda: leader.requeued == [JOB], "an answer")
    assert leader.turn() == {ONE: {1}}


@pytest.mark.parametrize(
    "pod", [{"of": "another"}, {"namespace": "elsewhere"}], ids=lambda pod: next(iter(pod))
)
async def test_pods_of_others_keep_no_seat(
    server: FakeApiServer, client: Client, pod: dict[str, str]
) -> None:
    leader = running(client, job(2, directed=ONE))
    await made(server, "theirs", **pod)
    leader.world.observe([gone(job(2))])
    leader.turn()
    async with leader.asks():
        await eventually(lambda: leader.requeued == [JOB], "an answer")


@pytest.mark.parametrize(
    ("fact", "taken"),
    [
        (job(2, directed=ONE, deleting=True), TAKEN),
        (job(2, directed=ONE, suspended=True, suspended_at=NOW), evicting(TAKEN)),
    ],
    ids=["being deleted", "evicted"],
)
async def test_a_job_that_leaves_in_another_way_is_asked_about_too(
    server: FakeApiServer, client: Client, fact: WorkloadFact, taken: Admission
) -> None:
    leader = running(client, fact, taken)
    leader.world.mark_dirty(JOB)
    assert leader.turn() == {}
    async with leader.asks():
        await eventually(lambda: leader.requeued == [JOB], "an answer")
    assert leader.turn() == {ONE: {0, 1}}


@pytest.mark.parametrize(
    ("fact", "taken"),
    [
        (job(2, directed=ONE), TAKEN),
        (job(2, directed=ONE), evicting(TAKEN)),
        (job(2, directed=ONE, finished=True), TAKEN),
    ],
    ids=["runs", "is not suspended yet", "has finished"],
)
async def test_nobody_asks_about_other_jobs(client: Client, fact: WorkloadFact, taken: Admission) -> None:
    leader = running(client, fact, taken)
    leader.world.mark_dirty(JOB)
    leader.turn()
    assert not leader.unseen.is_busy


async def test_a_finished_job_gives_its_seats_back_at_once(client: Client) -> None:
    leader = running(client, job(2, directed=ONE, finished=True))
    leader.world.mark_dirty(JOB)
    assert leader.turn() == {ONE: {0, 1}}


async def test_a_job_that_was_resumed_again_meanwhile_is_asked_about_anew(
    server: FakeApiServer, client: Client
) -> None:
    stopped = job(2, directed=ONE, suspended=True, suspended_at=NOW)
    leader = running(client, stopped, evicting(TAKEN))
    leader.world.mark_dirty(JOB)
    leader.turn()
    async with leader.asks():
        await eventually(lambda: leader.requeued == [JOB], "an answer")
        leader.world.observe([seen(replace(stopped, active=1))])
        leader.turn()
        leader.world.observe([seen(stopped)])
        assert leader.turn() == {}
        await eventually(lambda: len(leader.requeued) == 2, "another answer")
    assert leader.turn() == {ONE: {0, 1}}


async def test_one_request_asks_about_many_and_a_failure_is_asked_again(
    server: FakeApiServer, client: Client
) -> None:
    leader, keys = leaving(client, ["ns"] * 300)
    server.once("LIST", answers(403, "not now", "Forbidden"))
    leave(leader, keys)
    async with leader.asks():
        await eventually(lambda: len(leader.requeued) == 300, "answers")
    assert sorted(leader.requeued) == sorted(keys)
    assert len(server.seen("LIST")) == 3


def leaving(client: Client, namespaces: Iterable[str]) -> tuple[Asking, list[WorkloadKey]]:
    """The leader of Jobs that are gone, one in each of these namespaces."""
    keys = [WorkloadKey(kind_names.JOB, f"uid-{number}") for number, _ in enumerate(namespaces)]
    taken = [
        replace(admission(key, "n1", number=number, started=True), namespace=namespace)
        for number, (key, namespace) in enumerate(zip(keys, namespaces, strict=True), 1)
    ]
    return Asking(client, world([node("n1", count=len(keys))], taken)), keys


def leave(leader: Asking, keys: Iterable[WorkloadKey]) -> None:
    """These Jobs are seen to be gone."""
    for key in keys:
        leader.world.mark_dirty(key)
    leader.unseen.reconcile(sorted(leader.world.refresh(NOW, leader.unseen.of)))


async def test_each_namespace_is_asked_for_its_own_jobs(server: FakeApiServer, client: Client) -> None:
    leader, keys = leaving(client, ["blue", "green", "blue"])
    leave(leader, keys)
    async with leader.asks():
        await eventually(lambda: len(leader.requeued) == 3, "answers")
    asked = {each.path.split("/")[-2]: each.query["labelSelector"] for each in server.seen("LIST")}
    assert len(server.seen("LIST")) == 2
    assert {namespace: text.count("uid-") for namespace, text in asked.items()} == {"blue": 2, "green": 1}


async def test_jobs_that_leave_one_after_another_are_asked_about_together(
    server: FakeApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unseen_pods, "FIRST_PAUSE", 0.3)
    leader, keys = leaving(client, ["ns"] * 9)
    loop, requeue = asyncio.get_running_loop(), leader.requeued.append

    def answered(key: WorkloadKey) -> None:
        requeue(key)
        if key == keys[0]:
            for number, other in enumerate(keys[1:]):
                loop.call_later(number / 100, leave, leader, [other])

    leader.unseen = UnseenPods(client, leader.world, requeue=answered)
    leave(leader, keys[:1])
    async with leader.asks():
        await eventually(lambda: len(leader.requeued) == 9, "answers")
    assert len(server.seen("LIST")) == 2


async def test_a_namespace_that_cannot_be_listed_does_not_keep_the_seats_of_others(
    server: FakeApiServer, client: Client
) -> None:
    leader, keys = leaving(client, ["blue", "green"])
    server.once("LIST", answers(403, "not now", "Forbidden"))
    leave(leader, keys)
    async with leader.asks():
        await eventually(lambda: len(leader.requeued) == 2, "answers")
    assert [each.path.split("/")[-2] for each in server.seen("LIST")] == ["blue", "green", "blue"]


async def test_an_administrator_is_told_of_lists_that_fail_again_and_again(
    server: FakeApiServer, client: Client
) -> None:
    leader, keys = leaving(client, ["ns"])
    for _ in range(TELL_AFTER):
        server.once("LIST", answers(403, "not now", "Forbidden"))
    leave(leader, keys)
    assert (leader.unseen.problem(), leader.unseen.unlisted) == (None, 1)
    async with leader.asks():
        await eventually(lambda: leader.unseen.problem() is not None, "the problem")
        problem = leader.unseen.problem()
        assert problem is not None
        assert problem.message.startswith(
            "5 lists of the pods of Jobs in a row ended with the same error, and seats of Jobs that are gone or "
            "evicted are kept: "
        )
        assert "not now" in problem.message
        assert leader.requeued == keys, "the status of root is written"
        await eventually(lambda: leader.unseen.unlisted == 0, "an answer")
    assert leader.unseen.problem() is None


def test_only_pods_that_others_make_are_asked_for(client: Client) -> None:
    known = world([node("n1")], [admission(VOLCANO, "n1")])
    assert UnseenPods(client, known, requeue=lambda key: None).of(VOLCANO) == {}
