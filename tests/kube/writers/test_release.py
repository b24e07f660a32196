"""Orders carried out: each once, what failed again after a pause, and nothing once the lease is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from admission.facts.workloads import JobRevision, WorkloadFact
from admission.kube.client.client import Client
from admission.kube.writers import awaited_seats, work_queue
from admission.kube.writers import release as release_module
from admission.kube.writers.release import ReleaseWriter
from admission.reconcile.release import Order, Promised, orders_for
from admission.workloads.inputs import Timeouts
from admission.workloads.pod_shapes import shape_name
from admission.workloads.state import WorkloadState
from admission.world.nodes import NodeInventory
from admission.world.world import World
from queues.admissions import AdmissionState
from queues.errors import Fenced
from queues.workload import AdmissionId, WorkloadKey
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    admission,
    evicting,
    gated,
    gone,
    gpus,
    group,
    job,
    node,
    released,
    seen,
    world,
)
from tests.fakes.fake_api_server import FakeApiServer, answers, breaks_before_answering, hangs
from tests.waiting import LIMIT, eventually

MEMBER = shape_name(gated("any"))


@pytest_asyncio.fixture
async def client_of_one(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    """It sends one request at a time."""
    made = await Client.connect(server.kubeconfig(tmp_path), concurrency=1, request_timeout=LIMIT)
    yield made
    await made.close()


def gang(*names: str) -> World:
    """A group of gated pods, admitted."""
    members = [gated(name, group="gang") for name in names]
    seats = " ".join(["n1"] * len(names))
    return world([node("n1"), group(len(names)), *members], [admission(GROUP, seats, pod_set=MEMBER)])


MakeWriter = Callable[..., ReleaseWriter]


@pytest_asyncio.fixture
async def writer(client: Client) -> AsyncIterator[MakeWriter]:
    """Makes the writer of a world; its lease holds, unless another check of it is given."""
    made: list[ReleaseWriter] = []

    def make(
        known: World,
        requeue: Callable[[WorkloadKey], None] = lambda key: None,
        *,
        check_lease: Callable[[], None] = lambda: None,
        by: Client = client,
    ) -> ReleaseWriter:
        made.append(ReleaseWriter(by, known, check_lease, requeue=requeue, failpoint=lambda point: None))
        return made[-1]

    yield make
    for each in made:
        await each.queue.stop()


async def quiet(release: ReleaseWriter) -> None:
    await eventually(lambda: not release.queue.is_busy(), "all orders")


async def test_every_pod_of_a_gang_is_let_go_once(server: FakeApiServer, writer: MakeWriter) -> None:
    release = writer(gang("a", "b", "c"))
    for _ in range(3):
        release.reconcile([GROUP])
    await quiet(release)
    release.reconcile([GROUP])
    await quiet(release)
    assert sorted(request.path.rpartition("/")[2] for request in server.seen("PATCH")) == ["a", "b", "c"]
    seats = {
        operation["value"]
        for request in server.seen("PATCH")
        for operation in request.body
        if operation["path"].endswith("muster.dev~1seat")
    }
    assert len(seats) == 3


async def test_a_pod_that_appears_while_others_are_let_go_gets_none_of_their_seats(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    known = gang("b", "c")
    release = writer(known)
    release.reconcile([GROUP])
    await quiet(release)
    known.observe([seen(gated("a", group="gang"))])
    known.refresh(0)
    release.reconcile([GROUP])
    await quiet(release)
    assert sorted(request.path.rpartition("/")[2] for request in server.seen("PATCH")) == ["b", "c"]


async def test_what_the_server_could_not_do_is_done_later_without_being_asked(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    server.once("PATCH", answers(503, "overloaded"))
    release = writer(gang("a"))
    release.reconcile([GROUP])
    await eventually(lambda: len(server.seen("PATCH")) == 2, "a second try")


async def test_an_answer_that_was_lost_means_the_same_write_again(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    server.once("PATCH", breaks_before_answering)
    release = writer(gang("a", "b"))
    release.reconcile([GROUP])
    await eventually(lambda: len(server.seen("PATCH")) == 3, "a third write")
    told = [(request.path, str(request.body)) for request in server.seen("PATCH")]
    assert len(set(told)) == 2


async def test_many_failures_of_one_workload_are_one_look_later(
    server: FakeApiServer, writer: MakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "FIRST_PAUSE", 60.0)
    server.once("PATCH", answers(500, "broken"), times=3)
    release = writer(gang("a", "b", "c"))
    release.reconcile([GROUP])
    await quiet(release)
    release.reconcile([GROUP])
    assert not release.queue.is_busy(), "the pause lasts"
    assert len(release.queue) == 1


async def test_what_the_server_refuses_is_told_until_it_does_not(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    told: list[WorkloadKey] = []
    server.once("PATCH", answers(422, "spec: Forbidden"))
    release = writer(gang("a"), told.append)
    release.reconcile([GROUP])
    await eventually(lambda: told == [GROUP, GROUP], "the problem and its end")
    assert release.problems == {}


async def test_nothing_is_written_once_the_lease_is_lost(server: FakeApiServer, writer: MakeWriter) -> None:
    def check_lease() -> None:
        raise Fenced(term=1, holder="me", reason="its lease ran out unrenewed")

    release = writer(gang("a"), check_lease=check_lease)
    release.reconcile([GROUP])
    await quiet(release)
    assert server.seen("PATCH") == []
    assert len(release.queue) == 0


async def test_stopping_leaves_no_task_and_no_timer_behind(server: FakeApiServer, writer: MakeWriter) -> None:
    server.once("PATCH", hangs)
    server.once("PATCH", answers(503, "overloaded"), times=100)
    release = writer(gang("a", "b"))
    release.reconcile([GROUP])
    await eventually(lambda: len(server.seen("PATCH")) >= 2, "two writes")
    await release.queue.stop()
    assert not release.queue.is_busy()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("patch pod")]
    assert len(release.queue) == 0


async def test_members_of_a_gang_that_goes_back_are_deleted_by_uid(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    member = released("a", f"{MEMBER}/0", "n1", group="gang", uid="uid-a")
    known = world([node("n1"), group(1), member], [evicting(admission(GROUP, "n1", pod_set=MEMBER))])
    release = writer(known)
    release.reconcile([GROUP])
    await quiet(release)
    (request,) = server.seen("DELETE")
    assert request.body["preconditions"] == {"uid": "uid-a"}


async def _kept_by_a_budget(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
    causes = [{"reason": "DisruptionBudget", "message": "The disruption budget steady needs 1 …"}]
    status = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"causes": causes}}
    return web.json_response(status, status=429)


async def test_a_pod_that_a_budget_keeps_is_told_and_evicted_once_the_budget_allows_it(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    member = released("a", f"{MEMBER}/0", "n1", group="gang", uid="uid-a")
    leaving = evicting(admission(GROUP, "n1", pod_set=MEMBER, started=True))
    known = world([node("n1"), group(1), member], [leaving], arrivals={GROUP: 1})
    told = []

    def requeue(key: WorkloadKey) -> None:
        known.mark_dirty(key)
        known.refresh(NOW)
        obstacle = known.states[key].workload.obstacle
        told.append(None if obstacle is None else str(obstacle.code))

    server.once("POST", _kept_by_a_budget)
    release = writer(known, requeue)
    known.refusals = release.problems
    release.reconcile([GROUP])
    await eventually(lambda: told == ["EvictionRefused", "Evicting"], "the refusal and its end")
    assert [request.path.rpartition("/pods/")[2] for request in server.seen("POST")] == ["a/eviction"] * 2
    assert server.seen("POST")[1].body["deleteOptions"] == {"preconditions": {"uid": "uid-a"}}
    assert server.seen("DELETE") == []
    assert known.admissions[leaving.id].holding(), "its seats stay booked"


async def test_a_refusal_is_forgotten_when_the_pod_has_gone_by_itself(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    member = released("a", f"{MEMBER}/0", "n1", group="gang")
    leaving = evicting(admission(GROUP, "n1", pod_set=MEMBER, started=True))
    known = world([node("n1"), group(1), member], [leaving], arrivals={GROUP: 1})
    server.once("POST", _kept_by_a_budget, times=100)
    release = writer(known)
    release.reconcile([GROUP])
    await eventually(lambda: GROUP in release.problems, "the refusal")
    known.observe([gone(member)])
    known.refresh(NOW)
    release.reconcile([GROUP])
    assert release.problems == {}


async def test_a_job_is_resumed_in_one_write(server: FakeApiServer, writer: MakeWriter) -> None:
    known = world([node("n1"), job(1, suspended=True)], [admission(JOB, "n1")])
    release = writer(known)
    release.reconcile([JOB])
    await quiet(release)
    (request,) = server.seen("PATCH")
    assert request.body["spec"]["suspend"] is False
    assert request.body["metadata"]["uid"] == JOB.uid


async def test_a_job_that_its_user_suspends_is_resumed_again_at_once(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    waits = job(1, suspended=True)
    known = world([node("n1"), waits], [admission(JOB, "n1")])
    release = writer(known)

    async def look(fact: WorkloadFact) -> int:
        known.observe([seen(fact)])
        known.refresh(0)
        release.reconcile([JOB])
        await quiet(release)
        return len(server.seen("PATCH"))

    assert await look(waits) == 1
    assert await look(waits) == 1, "the watch has not shown it yet"
    assert await look(replace(waits, suspended=False, directed=AdmissionId(1))) == 1
    assert await look(waits) == 2


async def test_a_workload_that_is_gone_is_forgotten(server: FakeApiServer, writer: MakeWriter) -> None:
    known = gang("a")
    server.once("PATCH", answers(422, "no"), times=100)
    release = writer(known)
    release.reconcile([GROUP])
    await eventually(lambda: GROUP in release.problems, "the problem")
    known.observe([gone(gated("a")), gone(group(1))])
    known.put_admissions([])
    known.states.clear()
    release.reconcile([GROUP])
    assert release.problems == {}


async def test_a_defect_in_one_workloads_orders_stops_nobody_else(
    server: FakeApiServer, writer: MakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(
        state: WorkloadState,
        fact: WorkloadFact | None,
        nodes: NodeInventory,
        timeouts: Timeouts,
        promised: Mapping[str, Promised],
        **options: Any,
    ) -> list[Order]:
        if state.key == JOB:
            raise ZeroDivisionError
        return orders_for(state, fact, nodes, timeouts, promised, **options)

    monkeypatch.setattr(release_module, "orders_for", breaks)
    known = world(
        [node("n1"), job(1, suspended=True), group(1), gated("a", group="gang")],
        [admission(JOB, "n1"), admission(GROUP, "n1", number=2, pod_set=MEMBER)],
    )
    release = writer(known)
    release.reconcile([JOB, GROUP])
    await quiet(release)
    assert len(server.seen("PATCH")) == 1


async def test_a_job_that_asks_something_else_by_now_is_not_resumed_before_that_is_looked_at(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    """As long as turns are put off, what is known of an object is newer than what was made of it."""
    suspended = job(1, suspended=True, revision=JobRevision(1, frozenset()))
    known = world([node("n1"), suspended], [admission(JOB, "n1")])
    larger = tuple(replace(pods, takes=gpus(2)) for pods in suspended.pod_sets)
    known.observe([seen(replace(suspended, pod_sets=larger, revision=JobRevision(2, frozenset())))])
    release = writer(known)
    release.reconcile([JOB])
    await quiet(release)
    assert server.seen("PATCH") == []

    known.refresh(NOW)
    release.reconcile([JOB])
    await quiet(release)
    assert server.seen("PATCH") == []
    assert list(known.states[JOB].evictable) == [1]

    known.observe([seen(replace(suspended, revision=JobRevision(3, frozenset())))])
    known.refresh(NOW)
    release.reconcile([JOB])
    await quiet(release)
    assert len(server.seen("PATCH")) == 1


# ── seats for which a pod may still come ────────────────────────────────────────────────────────────────────────────


def evict_now(known: World, **changes: Any) -> None:
    """The gang is evicted, as an applied plan has it."""
    (taken,) = known.admission_index.of(GROUP)
    known.put_admissions([replace(taken, state=AdmissionState.EVICTING, **changes)])


async def held(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
    """Does what it is asked once ``go_on`` is set."""
    await go_on.wait()
    return web.json_response({})


go_on = asyncio.Event()


@pytest.fixture
def slow(server: FakeApiServer) -> Iterator[asyncio.Event]:
    """Patches that are answered when it is set."""
    server.once("PATCH", held, times=100)
    go_on.clear()
    yield go_on
    go_on.set()


async def test_seats_of_pods_that_are_being_released_are_not_given_back(
    server: FakeApiServer, writer: MakeWriter, slow: asyncio.Event
) -> None:
    known = gang("a", "b")
    release = writer(known, known.mark_dirty)
    release.reconcile([GROUP])
    await eventually(lambda: len(server.seen("PATCH")) == 2, "both releases")
    evict_now(known)
    known.refresh(NOW, release.awaited.of)
    release.reconcile([GROUP])
    assert known.states[GROUP].ended == {}, "the requests are under way"
    slow.set()
    await quiet(release)
    known.refresh(NOW, release.awaited.of)
    assert known.states[GROUP].ended == {}, "the informer does not show the pods"
    known.observe([seen(replace(known.pods["a"], gated=False, deleting=True)), gone(known.pods["b"])])
    known.refresh(NOW, release.awaited.of)
    assert known.states[GROUP].ended == {AdmissionId(1): frozenset({0, 1})}


async def test_a_state_is_derived_again_only_if_it_gives_back_seats_that_are_being_released(
    server: FakeApiServer, writer: MakeWriter, slow: asyncio.Event
) -> None:
    scaled = job(1, suspended=True)
    known = world(
        [node("n1"), group(1), gated("a", group="gang"), scaled],
        [admission(GROUP, "n1", pod_set=MEMBER), admission(JOB, "n1 n1", number=2)],
    )
    assert known.states[JOB].ended == {AdmissionId(2): frozenset({1})}
    release = writer(known)
    release.reconcile([GROUP, JOB])
    assert known.refresh(NOW, release.awaited.of) == {JOB}
    assert known.states[JOB].ended == {}, "the Job may have made both pods before it was scaled"


async def test_releases_that_are_not_wanted_any_more_are_not_sent(
    server: FakeApiServer, client_of_one: Client, writer: MakeWriter, slow: asyncio.Event
) -> None:
    known = gang("a", "b", "c")
    release = writer(known, known.mark_dirty, by=client_of_one)
    release.reconcile([GROUP])
    await eventually(lambda: len(server.seen("PATCH")) == 1, "the first release")
    evict_now(known)
    known.refresh(NOW, release.awaited.of)
    release.reconcile([GROUP])
    known.refresh(NOW, release.awaited.of)
    assert known.states[GROUP].ended == {AdmissionId(1): frozenset({1, 2})}
    slow.set()
    await quiet(release)
    assert len(server.seen("PATCH")) == 1


async def test_the_admission_is_looked_at_right_before_a_release_is_sent(
    server: FakeApiServer, client_of_one: Client, writer: MakeWriter, slow: asyncio.Event
) -> None:
    known = gang("a", "b", "c")
    release = writer(known, known.mark_dirty, by=client_of_one)
    release.reconcile([GROUP])
    await eventually(lambda: len(server.seen("PATCH")) == 1, "the first release")
    evict_now(known)
    slow.set()
    await quiet(release)
    assert len(server.seen("PATCH")) == 1


async def test_a_release_without_an_answer_is_asked_for_before_its_seat_is_given_back(
    server: FakeApiServer, writer: MakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited_seats, "ASKED_AFTER", 0.05)
    server.once("PATCH", breaks_before_answering)
    server.once("LIST", says_it_is_not_there)
    known = gang("a")
    release = writer(known, known.mark_dirty)
    release.reconcile([GROUP])
    await eventually(lambda: not release.queue.is_busy(), "the end of the request")
    evict_now(known)
    known.refresh(NOW, release.awaited.of)
    release.reconcile([GROUP])
    assert known.states[GROUP].ended == {}, "it may have been carried out"
    await eventually(lambda: not release.awaited.of(GROUP), "the answer")
    known.refresh(NOW, release.awaited.of)
    assert known.states[GROUP].ended == {AdmissionId(1): frozenset({0})}


async def says_it_is_not_there(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
    return await answers(404, "not found", "NotFound")(server, request)


async def test_a_pod_without_labels_or_annotations_is_let_go_too(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    bare = {
        "metadata": {"uid": "a", "labels": {}},
        "spec": {"schedulingGates": [{"name": "muster.dev/admission"}]},
    }

    async def shows(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        return web.json_response(bare)

    server.once("PATCH", answers(422, "the server rejected our request due to an error in our request"))
    server.once("LIST", shows)
    release = writer(gang("a"))
    release.reconcile([GROUP])
    await eventually(lambda: len(server.seen("PATCH")) == 2, "a second patch")
    await quiet(release)
    paths = [operation["path"] for operation in server.seen("PATCH")[1].body]
    assert "/metadata/annotations" in paths
    assert "/metadata/labels" not in paths
    assert release.problems == {}


async def test_pods_are_not_removed_for_a_node_that_is_there_again(
    server: FakeApiServer, writer: MakeWriter
) -> None:
    """The watch of nodes is behind, and a removal without grace is for ever."""
    nodes = "/api/v1/nodes"
    await server.put(nodes, {"metadata": {"name": "n9"}})
    member = released("a", f"{MEMBER}/0", "n9", group="gang")
    known = world([group(1), member], [admission(GROUP, "n9", pod_set=MEMBER, started=True)])
    release = writer(known)
    release.reconcile([GROUP])
    await eventually(lambda: bool(server.seen("LIST")), "the question")
    await quiet(release)
    assert server.seen("DELETE") == []
    await server.remove(nodes, "n9")
    await eventually(lambda: bool(server.seen("DELETE")), "the removal")
