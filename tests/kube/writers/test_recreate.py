"""Pods without an owner that go back: stored, deleted, made again; nobody twice, and nobody who is not wanted."""

import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
import pytest_asyncio

from admission.facts.changes import Change
from admission.kube.client.client import Client
from admission.kube.writers.recreate import RecreationWriter
from admission.workloads.inputs import Timeouts
from admission.world.persistence import Unsaved
from admission.world.world import World
from queues import kind_names
from queues.admissions import Recreation, Setbacks
from queues.api import names
from queues.api.node_affinity import pinned
from queues.errors import ApiRefused, ApiUnavailable, Fenced
from queues.workload import AdmissionId, WorkloadKey
from queues.world_rows import WorldRows
from tests.builders.facts import admission, evicting
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_components import preempt, run_pods
from tests.fakes.fake_objects import NAMESPACE
from tests.fakes.fake_pod_api import FakePodApi
from tests.waiting import eventually

NAMES = ("a", "b")


def allowed() -> None:
    return None


class Recreations:
    """A group of two bound pods whose admission is being taken back, the leader that does it, and its Postgres."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.api = FakePodApi(self.cluster)
        self.stored: dict[str, Recreation] = {}
        for node in ("n1", "n2"):
            self.cluster.add_node(node, 4)
        self.group = WorkloadKey(kind_names.POD_GROUP, self.cluster.add_group("gang", "team", 2))
        self.old = [self.cluster.add_member(name, "gang", 1) for name in NAMES]
        for ordinal, uid in enumerate(self.old):
            directives = {names.ADMISSION_ID: "1", names.SEAT: f"m/{ordinal}"}
            spec = {"schedulingGates": None, "affinity": pinned(None, [f"n{ordinal + 1}"])}
            metadata = {"labels": {names.RELEASED: "true"}, "annotations": directives}
            self.cluster.change("pods", uid, {"metadata": metadata, "spec": spec})
        self.lead()

    def lead(self, check_lease: Callable[[], None] = allowed) -> None:
        """A new leader, that knows what Postgres has."""
        taken = evicting(admission(self.group, "n1 n2", pod_set="m"))
        rows = WorldRows(
            admissions=[taken], arrivals={self.group: 1}, recreations=tuple(self.stored.values())
        )
        self.world = World(rows, Timeouts())
        self.world.observe(self.cluster.watch.list_anew(self.cluster.objects))
        self.handed_in: list[Change] = []
        self.recreate = RecreationWriter(
            cast(Client, self.api),
            self.world,
            check_lease,
            hand_in=self.handed_in.append,
            requeue=self.world.mark_dirty,
            failpoint=lambda point: None,
        )

    def turn(self) -> None:
        """See, store, order."""
        world = self.world
        world.observe(self.cluster.watch.deliver())
        world.observe(self.handed_in)
        self.handed_in.clear()
        dirty = world.refresh(self.cluster.now)
        entries = dict(world.recreations.unsaved)
        for uid, entry in entries.items():
            self.stored.pop(uid, None)
            if entry is not None:
                self.stored[uid] = entry
        world.saved(Unsaved(recreations=entries), {}, ())
        self.recreate.reconcile(dirty | world.refresh(self.cluster.now))

    async def turns(self, holds: Callable[[], bool], what: str) -> None:
        """Turns, kubelets and writes until it is so and nothing is under way."""

        def settled() -> bool:
            self.turn()
            run_pods(self.cluster)
            return holds() and not self.recreate.queue.is_busy()

        await eventually(settled, what)

    async def quiet(self) -> None:
        await eventually(lambda: not self.recreate.queue.is_busy(), "all steps")

    def pod(self, name: str) -> dict[str, Any] | None:
        return self.cluster.pod_named(name)

    def again(self, name: str) -> bool:
        """It was made again, and waits."""
        pod = self.pod(name)
        return pod is not None and pod["metadata"]["uid"] not in self.old and "schedulingGates" in pod["spec"]

    def all_again(self) -> bool:
        return all(self.again(name) for name in NAMES) and not self.stored


@pytest_asyncio.fixture
async def recreations() -> AsyncIterator[Recreations]:
    found = Recreations()
    yield found
    await found.recreate.queue.stop()


async def test_pods_are_stored_then_deleted_then_made_again_and_forgotten(recreations: Recreations) -> None:
    recreations.turn()
    await recreations.quiet()
    assert set(recreations.api.requests) == {"GET"}, "nothing is deleted before it is stored"
    await recreations.turns(recreations.all_again, "both pods to be there again")
    assert (recreations.api.requests.count("DELETE"), recreations.api.requests.count("POST")) == (2, 2)
    again = recreations.pod("a")
    assert again is not None
    assert again["metadata"]["annotations"] == {
        names.GROUP_ANNOTATION: "gang",
        names.RECREATED_FROM: recreations.old[0],
    }
    assert "affinity" not in again["spec"]


@pytest.mark.parametrize("deaths", [(), ("kept",), ("deleted",), ("made",), ("kept", "deleted", "made")])
async def test_killed_between_any_two_steps_nothing_is_lost_or_doubled(
    recreations: Recreations, deaths: tuple[str, ...]
) -> None:
    reached: dict[str, Callable[[], bool]] = {
        "kept": lambda: len(recreations.stored) == 2,
        "deleted": lambda: all(recreations.pod(name) is None for name in NAMES),
        "made": lambda: all(recreations.pod(name) is not None and recreations.again(name) for name in NAMES),
    }
    for death in deaths:
        while not reached[death]():
            recreations.turn()
            await recreations.quiet()
        await recreations.recreate.queue.stop()
        recreations.lead()
    await recreations.turns(recreations.all_again, "both pods to be there again")
    assert recreations.api.requests.count("POST") == 2
    assert len(recreations.cluster.objects["pods"]) == 2


async def test_whom_a_user_deletes_himself_is_not_made_again(recreations: Recreations) -> None:
    recreations.turn()
    await recreations.quiet()
    recreations.cluster.delete_pod(recreations.old[0])
    await recreations.turns(
        lambda: recreations.again("b") and not recreations.stored, "the other pod to be there again"
    )
    assert recreations.pod("a") is None


@pytest.mark.parametrize("stored_before", [False, True])
async def test_whom_the_stock_scheduler_preempts_is_made_again(
    recreations: Recreations, stored_before: bool
) -> None:
    if stored_before:
        recreations.turn()
        await recreations.quiet()
    preempt(recreations.cluster, recreations.old[0])
    await recreations.turns(recreations.all_again, "both pods to be there again")


async def test_a_pod_that_changed_meanwhile_is_stored_anew_before_it_is_deleted(
    recreations: Recreations,
) -> None:
    def change() -> None:
        recreations.cluster.change("pods", recreations.old[0], {"metadata": {"labels": {"late": "yes"}}})

    recreations.api.meanwhile = change
    await recreations.turns(recreations.all_again, "both pods to be there again")
    again = recreations.pod("a")
    assert again is not None
    assert again["metadata"]["labels"]["late"] == "yes"
    assert recreations.api.requests.count("DELETE") == 3


@pytest.mark.parametrize("during", [("turns",), ("deletions",), ("turns", "deletions")])
async def test_a_pod_that_changes_all_the_time_is_deleted_and_made_again_as_it_was_once(
    recreations: Recreations, during: tuple[str, ...]
) -> None:
    uid, ticks = recreations.old[0], itertools.count()

    def change() -> None:
        if uid in recreations.cluster.objects["pods"]:
            recreations.cluster.change("pods", uid, {"metadata": {"annotations": {"tick": str(next(ticks))}}})

    change()

    def done() -> bool:
        if "turns" in during:
            change()
        if "deletions" in during:
            recreations.api.meanwhile = change
        return recreations.all_again()

    await recreations.turns(done, "both pods to be there again")
    again = recreations.pod("a")
    assert again is not None
    assert int(again["metadata"]["annotations"]["tick"]) < next(ticks)
    assert recreations.api.requests.count("DELETE") <= 4


async def test_a_pod_that_changes_and_ends_right_before_its_deletion_is_not_made_again(
    recreations: Recreations,
) -> None:
    uid = recreations.old[0]

    def end() -> None:
        recreations.cluster.change("pods", uid, {"status": {"phase": "Succeeded"}})

    def change() -> None:
        recreations.cluster.change("pods", uid, {"metadata": {"labels": {"late": "yes"}}})

    def done() -> bool:
        if uid in recreations.stored and "late" in recreations.stored[uid].manifest:
            recreations.api.meanwhile = end
        return recreations.again("b") and not recreations.stored

    recreations.api.meanwhile = change
    await recreations.turns(done, "the other pod to be there again")
    assert recreations.pod("a") is None


async def test_deletion_whose_answer_was_lost_is_taken_for_done(recreations: Recreations) -> None:
    recreations.api.lost["DELETE"] = ApiUnavailable(method="DELETE", path="a", status=0, reason="cut")
    await recreations.turns(recreations.all_again, "both pods to be there again")


async def test_creation_whose_answer_was_lost_is_found_done(recreations: Recreations) -> None:
    recreations.api.lost["POST"] = ApiUnavailable(method="POST", path="a", status=0, reason="cut")
    await recreations.turns(recreations.all_again, "both pods to be there again")
    assert len(recreations.cluster.objects["pods"]) == 2


async def test_who_took_the_name_meanwhile_keeps_it(recreations: Recreations) -> None:
    while recreations.pod("a") is not None:
        recreations.turn()
        await recreations.quiet()
    theirs = recreations.cluster.add_bare_pod("a", "team", 1)
    await recreations.turns(
        lambda: recreations.again("b") and not recreations.stored, "the other pod to be there again"
    )
    kept = recreations.pod("a")
    assert kept is not None
    assert kept["metadata"]["uid"] == theirs


async def test_what_is_refused_is_told_and_tried_again(recreations: Recreations) -> None:
    recreations.api.failures["POST"] = ApiRefused(
        method="POST", path="a", status=403, reason="exceeded quota"
    )
    told: list[str] = []

    def done() -> bool:
        told.extend(reason.message for reason in recreations.recreate.problems.values())
        return recreations.all_again()

    await recreations.turns(done, "both pods to be there again")
    assert set(told) == {"exceeded quota"}
    assert recreations.recreate.problems == {}


async def test_nobody_is_made_again_in_a_namespace_that_goes(recreations: Recreations) -> None:
    why = f"pods is forbidden: unable to create new content in namespace {NAMESPACE} because it is being terminated"
    recreations.api.failures["POST"] = ApiRefused(method="POST", path="a", status=403, reason=why)
    await recreations.turns(
        lambda: not recreations.stored and not recreations.world.pods.keys() & set(recreations.old),
        "no intent",
    )
    assert [pod["metadata"]["name"] for pod in recreations.cluster.objects["pods"].values()] == ["b"]


async def test_members_of_a_group_that_is_gone_are_not_made_again(recreations: Recreations) -> None:
    while recreations.pod("a") is not None:
        recreations.turn()
        await recreations.quiet()
    recreations.cluster.remove("groups", recreations.group.uid)
    await recreations.turns(lambda: not recreations.stored, "no intent")
    assert recreations.cluster.objects["pods"] == {}


async def test_nothing_is_written_once_the_lease_is_lost(recreations: Recreations) -> None:
    def lost() -> None:
        raise Fenced(term=1, holder="me", reason="lease")

    recreations.lead(lost)
    for _ in range(3):
        recreations.turn()
        await recreations.quiet()
    assert set(recreations.api.requests) == {"GET"}


async def test_a_pod_of_its_own_keeps_its_place_in_line_and_its_wait() -> None:
    cluster = FakeCluster()
    old = WorkloadKey(kind_names.POD, "old")
    intent = Recreation(
        pod_uid="old",
        workload=old,
        namespace=NAMESPACE,
        name="p",
        queue=admission(old, "n1").queue,
        manifest="{}",
    )
    world = World(
        WorldRows(
            arrivals={old: 7}, setbacks={old: Setbacks(not_before=90, rollbacks=2)}, recreations=(intent,)
        ),
        Timeouts(),
    )
    manifest = {
        "metadata": {
            "name": "p",
            "labels": {names.QUEUE_LABEL: "team"},
            "annotations": {names.RECREATED_FROM: "old"},
        },
        "spec": {"containers": [], "schedulingGates": [{"name": names.GATE}]},
    }
    new = WorkloadKey(kind_names.POD, cluster.create_pod(json.dumps(manifest).encode()))
    world.observe(cluster.watch.list_anew(cluster.objects))
    world.refresh(0)
    assert world.recreations.unsaved == {"old": None}
    assert world.recreations.successions == {new: old}
    world.number({new: 7})
    world.recreations.saved({"old": None})
    world.mark_dirty(old)
    world.refresh(0)
    assert world.ledger.setbacks[new] == Setbacks(not_before=90, rollbacks=2)
    assert world.states[new].workload.not_before == 90
    assert old in world.unsaved.departed
    assert world.states[new].workload.arrival == 7
    assert AdmissionId(1) not in world.admissions


async def test_what_is_stored_of_a_preempted_pod_stays_as_it_is(recreations: Recreations) -> None:
    """The next leader knows less of it at first."""
    bound = {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    recreations.cluster.change("pods", recreations.old[0], bound)
    preempt(recreations.cluster, recreations.old[0])
    recreations.turn()
    stored = dict(recreations.stored)
    assert stored[recreations.old[0]].queue == recreations.world.admissions[AdmissionId(1)].queue
    await recreations.recreate.queue.stop()
    recreations.lead()
    assert recreations.old[0] not in recreations.world.unsaved.recreations
