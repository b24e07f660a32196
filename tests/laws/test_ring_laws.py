"""The whole ring under random events, with a crash between any two steps: nothing is lost, nothing is doubled.

Real: translation, intake, world, engine, applier, ledger (in Postgres), orders. Fake: the cluster.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from sqlalchemy import text

from admission.volcano_jobs.state import Phase
from queues.admissions import AdmissionState
from queues.api import names
from queues.errors import DatabaseUnavailable, OutcomeUnknown
from queues.resources import GPU
from queues.sql.database import Database
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_components import control_jobs, preempt, run_pods, schedule
from tests.fakes.fake_objects import ENDED, owner_of
from tests.laws.laws.release import no_device_twice, no_two_pods_on_one_seat
from tests.laws.laws.ring import (
    balances_equal_seats,
    deserved_is_stored,
    equals_reloaded,
    no_pod_beyond_its_seat,
)
from tests.laws.worlds.ring import Killed, Ring
from tests.laws.worlds.settings import in_worlds
from tests.node_affinity import pinned_nodes

QUEUES = ("a", "b")
NODES = ("n1", "n2", "n3", "n4")
GPUS_PER_NODE = 4

queues = st.sampled_from(QUEUES)
counts = st.integers(1, 4)
devices = st.sampled_from([1, 1, 2, 4])
which = st.integers(0, 30)
EVENTS = st.sampled_from(["PodFailed", "PodFailed", "PodEvicted", "TaskCompleted", "*"])
ACTIONS = st.sampled_from(
    [
        "RestartJob",
        "RestartJob",
        "RestartTask",
        "RestartPod",
        "RestartPod",
        "AbortJob",
        "CompleteJob",
        "TerminateJob",
    ]
)
COMMANDS = st.sampled_from(["AbortJob", "AbortJob", "ResumeJob", "ResumeJob", "RestartJob", "CompleteJob"])
FAULTS = st.sampled_from(
    [
        *[("", None)] * 3,
        *((point, Killed) for point in ("intake-committed", "decided", "applied", "freeing")),
        ("intake-committed", DatabaseUnavailable),
        ("decided", DatabaseUnavailable),
        ("freeing", DatabaseUnavailable),
        ("applied", OutcomeUnknown),
    ]
)


class RingUnderFaults(RuleBasedStateMachine):
    """One life of a cluster. ``database`` and ``loop`` are set by the test."""

    database: Database
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.names = 0
        self.cluster = FakeCluster()
        self.cluster.put(
            "topologies",
            "racks",
            {
                "metadata": {"name": "racks"},
                "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
            },
        )
        self.cluster.add_queue("root")
        self.cluster.change("queues", "root", {"spec": {"budget": {"hours": {GPU: "1000"}}}})
        for queue in QUEUES:
            self.cluster.add_queue(queue)
        for node in NODES:
            self.cluster.add_node(node, GPUS_PER_NODE)

    def does(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def name(self) -> str:
        self.names += 1
        return f"w{self.names}"

    @initialize()
    def begin(self) -> None:
        self.ring = self.does(Ring.begin(self.database, self.cluster))

    # ── what arrives ────────────────────────────────────────────────────────────────────────────────────────

    @rule(queue=queues, replicas=counts, elastic=st.booleans(), gpus=devices)
    def volcano_job(self, queue: str, replicas: int, elastic: bool, gpus: int) -> None:
        minimum = max(1, replicas - 2) if elastic else replicas
        self.cluster.add_volcano_job(self.name(), queue, replicas, minimum, gpus)

    @rule(queue=queues, replicas=counts, elastic=st.booleans(), gpus=devices, event=EVENTS, action=ACTIONS)
    def volcano_job_with_a_policy(
        self, queue: str, replicas: int, elastic: bool, gpus: int, event: str, action: str
    ) -> None:
        minimum = max(1, replicas - 2) if elastic else replicas
        policy = {"event": event, "action": action}
        self.cluster.add_volcano_job(self.name(), queue, replicas, minimum, gpus, [policy])

    @rule(queue=queues, workers=st.integers(1, 3), gpus=devices)
    def volcano_job_with_a_launcher(self, queue: str, workers: int, gpus: int) -> None:
        self.cluster.add_two_tasks(self.name(), queue, workers, gpus)

    @rule(number=which, action=COMMANDS)
    def command(self, number: int, action: str) -> None:
        if jobs := list(self.cluster.objects["vcjobs"]):
            self.cluster.add_command(self.name(), action, jobs[number % len(jobs)])

    @rule(queue=queues, pods=counts, more=st.sampled_from([0, 0, 2]), indexed=st.booleans(), gpus=devices)
    def job(self, queue: str, pods: int, more: int, indexed: bool, gpus: int) -> None:
        self.cluster.add_job(self.name(), queue, pods, pods + more, indexed=indexed, gpus=gpus)
        control_jobs(self.cluster)

    @rule(queue=queues, minimum=counts, members=st.integers(0, 4), gpus=devices)
    def pod_group(self, queue: str, minimum: int, members: int, gpus: int) -> None:
        name = self.name()
        self.cluster.add_group(name, queue, minimum)
        for _ in range(members):
            self.cluster.add_member(self.name(), name, gpus)

    @rule(number=which, gpus=devices)
    def member(self, number: int, gpus: int) -> None:
        if groups := list(self.cluster.objects["groups"].values()):
            self.cluster.add_member(self.name(), groups[number % len(groups)]["metadata"]["name"], gpus)

    @rule(queue=queues, gpus=devices)
    def bare_pod(self, queue: str, gpus: int) -> None:
        self.cluster.add_bare_pod(self.name(), queue, gpus)

    @rule(node=st.sampled_from(NODES), gpus=devices)
    def foreign_pod(self, node: str, gpus: int) -> None:
        if node in self.cluster.objects["nodes"] and self.cluster.gpus_on(node) + gpus <= GPUS_PER_NODE:
            self.cluster.add_foreign_pod(self.name(), node, gpus)

    @rule(number=which)
    def foreign_pod_takes_a_seat(self, number: int) -> None:
        """Of a pod that was let go and is not bound yet; the scheduler refuses that one for long enough to count."""
        waiting = [
            node
            for pod in self.cluster.objects["pods"].values()
            if "nodeName" not in pod["spec"] and "schedulingGates" not in pod["spec"]
            for node in pinned_nodes(pod["spec"]) & self.cluster.objects["nodes"].keys()
        ]
        node = waiting[number % len(waiting)] if waiting else ""
        if node and (free := GPUS_PER_NODE - self.cluster.gpus_on(node)) > 0:
            self.cluster.add_foreign_pod(self.name(), node, free)
        schedule(self.cluster)
        self.cluster.now += 11

    # ── what goes ───────────────────────────────────────────────────────────────────────────────────────────

    @rule(number=which, gpus=devices)
    def job_is_suspended_or_changed(self, number: int, gpus: int) -> None:
        if jobs := list(self.cluster.objects["jobs"]):
            self.cluster.suspend_or_resize(jobs[number % len(jobs)], gpus)

    @rule(number=which)
    def delete_workload(self, number: int) -> None:
        every = [(kind, uid) for kind in ("vcjobs", "jobs", "groups") for uid in self.cluster.objects[kind]]
        if every:
            kind, uid = every[number % len(every)]
            if kind == "groups":
                self.ring.give_up_group(uid)
            self.cluster.remove(kind, uid)

    @rule(number=which)
    def delete_pod(self, number: int) -> None:
        pods = [
            uid for uid, pod in self.cluster.objects["pods"].items() if pod["status"]["phase"] not in ENDED
        ]
        if pods:
            self.ring.delete_as_user(pods[number % len(pods)])

    @rule(number=which, phase=st.sampled_from(["Succeeded", "Succeeded", "Failed"]))
    def end_pod(self, number: int, phase: str) -> None:
        # Whether a pod that is preempted had ended before, only a leader knows that has watched it.
        running = [uid for uid in self.cluster.running() if uid not in self.cluster.preempted]
        if running:
            self.cluster.end_pod(running[number % len(running)], phase)

    @rule(
        node=st.sampled_from(NODES),
        what=st.sampled_from(["down", "up", "cordon", "uncordon", "gone", "back"]),
    )
    def node(self, node: str, what: str) -> None:
        there = node in self.cluster.objects["nodes"]
        if what == "back" and not there:
            self.cluster.add_node(node, GPUS_PER_NODE)
        if not there:
            return
        if what == "gone":
            self.cluster.remove("nodes", node)
        elif what in ("down", "up"):
            ready = [{"type": "Ready", "status": str(what == "up")}]
            self.cluster.change("nodes", node, {"status": {"conditions": ready}})
        elif what != "back":
            self.cluster.change("nodes", node, {"spec": {"unschedulable": what == "cordon"}})

    @rule(queue=queues, capability=st.sampled_from([None, 2, 8]), paused=st.booleans())
    def quota(self, queue: str, capability: int | None, paused: bool) -> None:
        self.cluster.add_queue(queue, capability, paused=paused)

    @rule(queue=queues, to=queues, units=st.integers(1, 6), seconds=st.sampled_from([1, 11, 60]))
    def loan(self, queue: str, to: str, units: int, seconds: int) -> None:
        self.cluster.lend(queue, to, units, self.cluster.now + seconds)

    # ── what everybody does in between ──────────────────────────────────────────────────────────────────────

    @rule(most=st.sampled_from([1, 1000]))
    def controllers(self, most: int) -> None:
        control_jobs(self.cluster, most)
        self.no_device_is_taken_twice()

    @rule()
    def scheduler(self) -> None:
        schedule(self.cluster)

    @rule(number=which)
    def scheduler_preempts(self, number: int) -> None:
        """A bound pod that Muster released, and that has no owner."""
        found = [
            uid
            for uid, pod in self.cluster.objects["pods"].items()
            if names.ADMISSION_ID in pod["metadata"]["annotations"]
            and pod["spec"].get("nodeName") in self.cluster.objects["nodes"]
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"]["phase"] not in ENDED
            and owner_of(pod) is None
        ]
        if found:
            preempt(self.cluster, found[number % len(found)])

    @rule()
    def kubelets(self) -> None:
        run_pods(self.cluster)

    @rule(seconds=st.sampled_from([1, 11, 60]))
    def later(self, seconds: int) -> None:
        self.cluster.now += seconds

    @rule(
        delivered=st.none() | st.dictionaries(st.sampled_from(["pods", "jobs", "vcjobs", "nodes"]), counts),
        fault=FAULTS,
    )
    def turn(self, delivered: dict[str, int] | None, fault: tuple[str, type[BaseException] | None]) -> None:
        was_ended = self.does(self.ring.turn(delivered, fault))
        self.does(self.no_plan_was_rejected())
        self.does(balances_equal_seats(self.ring))
        if was_ended:  # a leader looks at the loans in its first turn
            self.does(deserved_is_stored(self.ring))
        self.does(equals_reloaded(self.ring))
        no_pod_beyond_its_seat(self.ring)

    @rule(most=st.integers(1, 4) | st.just(1000))
    def writes(self, most: int) -> None:
        self.ring.carry_out(most)
        self.no_device_is_taken_twice()

    @rule(rows=counts)
    def postings_are_summed_up(self, rows: int) -> None:
        self.does(self.ring.sum_up(rows))

    @rule()
    def crash(self) -> None:
        self.does(self.ring.crash())

    @rule(number=which)
    def ended_pod_is_cleaned_up(self, number: int) -> None:
        self.ring.clean_up(number)

    @rule(number=which)
    def write_of_an_old_leader_arrives(self, number: int) -> None:
        self.ring.write_late(number)
        self.no_device_is_taken_twice()

    @rule()
    def old_leader_wakes(self) -> None:
        self.does(self.ring.wake_deposed())

    @rule(times=st.integers(1, 3))
    def all_is_well(self, times: int) -> None:
        for _ in range(times):
            self.beat()

    # ── and in the end ──────────────────────────────────────────────────────────────────────────────────────

    def beat(self) -> None:
        """Everybody gets round to everything once."""
        self.does(self.ring.turn())
        self.ring.carry_out()
        self.no_device_is_taken_twice()
        control_jobs(self.cluster)
        self.no_device_is_taken_twice()
        schedule(self.cluster)
        run_pods(self.cluster)
        self.cluster.now += 1

    def settle(self, what: str, *, finish: bool) -> None:
        """Until nothing changes any more."""
        quiet = 0
        for _ in range(200):
            before = self.cluster.versions
            self.beat()
            if finish:
                for uid in self.cluster.running():
                    self.cluster.end_pod(uid, "Succeeded")
            quiet = quiet + 1 if self.cluster.versions == before else 0
            if quiet == 3:
                # Whoever waits for a time to pass has waited long enough.
                self.cluster.now += 100
            if quiet == 8:
                return
        raise AssertionError(f"no end of changes: {what}")

    def teardown(self) -> None:
        if not hasattr(self, "ring"):
            return
        for node in NODES:
            self.node(node, "back")
            self.node(node, "up")
            self.node(node, "uncordon")
        for queue in QUEUES:
            if self.cluster.objects["queues"][queue]["spec"]:
                self.cluster.add_queue(queue)
        self.settle("a healthy cluster", finish=False)
        self.no_pod_without_admission()
        self.pods_without_an_owner_are_there_as_their_users_want()
        foreign = [uid for uid, pod in self.cluster.objects["pods"].items() if not pod["metadata"]["labels"]]
        for uid in foreign:
            self.cluster.end_pod(uid, "Succeeded")
        self.settle("everything ends", finish=True)
        self.everything_ended()
        self.does(equals_reloaded(self.ring))
        self.nothing_is_held()
        for kind in ("vcjobs", "jobs", "groups", "pods"):
            for uid in list(self.cluster.objects[kind]):
                self.cluster.remove(kind, uid)
        self.settle("everything goes", finish=True)
        self.nothing_is_held()
        self.does(equals_reloaded(self.ring))
        world = self.ring.world
        assert world.recreations.stored == {}
        ledger, jobs = world.ledger, world.volcano_jobs
        assert ledger.arrivals == world.states == jobs.stored == jobs.outcomes == ledger.setbacks == {}

    def no_device_is_taken_twice(self) -> None:
        """Not even by a write of the last term, unless the API server had given that up long before."""
        if not self.ring.came_late:
            no_two_pods_on_one_seat(self.cluster)
            no_device_twice(self.cluster)

    async def no_plan_was_rejected(self) -> None:
        """A plan that is applied to its own snapshot is never refused by the ledger, not even one gang of it."""
        async with self.database.snapshot() as tx:
            found = await tx.execute(text("SELECT code, message FROM decisions WHERE kind = 'reject'"))
            assert found.all() == []

    def no_pod_without_admission(self) -> None:
        """Every live pod that was let go has a seat of an open admission, and no seat has two."""
        world = self.ring.world
        taken = set()
        for state in world.states.values():
            for place in state.seat_maps:
                assert place.admission.state is AdmissionState.OPEN
                assert not place.unseated, place
                taken |= {pod.uid for pod in place.seated.values()}
        for uid, pod in self.cluster.objects["pods"].items():
            mine = pod["metadata"]["labels"]
            waits = "schedulingGates" in pod["spec"]
            if mine and not waits and pod["status"]["phase"] not in ENDED:
                assert uid in taken, pod

    def pods_without_an_owner_are_there_as_their_users_want(self) -> None:
        """Whoever was taken back was made again, unless its group is gone; who was deleted by his user was not."""
        there = {pod["metadata"]["name"] for pod in self.cluster.objects["pods"].values()}
        assert self.cluster.wanted <= there
        assert not self.cluster.unwanted & there

    def everything_ended(self) -> None:
        """Whatever could run has run to its end, each completion once."""
        for uid, job in self.cluster.objects["vcjobs"].items():
            state = self.ring.world.volcano_jobs.stored[uid]
            assert state.is_over() or state.phase is Phase.ABORTED, (job["metadata"]["name"], state)
        for job in self.cluster.objects["jobs"].values():
            assert job["status"].get("succeeded", 0) == job["spec"]["completions"], job
        groups = {group["metadata"]["name"]: group for group in self.cluster.objects["groups"].values()}
        for pod in self.cluster.objects["pods"].values():
            group = pod["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name")
            if pod["status"]["phase"] not in ENDED:
                # Only a group that is gone, or that has too few members left, may still wait.
                assert group is not None, pod
                assert group not in groups or self.too_few(groups[group]), pod

    def too_few(self, group: dict[str, Any]) -> bool:
        name = group["metadata"]["name"]
        members = [
            pod
            for pod in self.cluster.objects["pods"].values()
            if pod["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name") == name
            and pod["status"]["phase"] not in ENDED
        ]
        return len(members) < int(group["spec"]["minMember"])

    def nothing_is_held(self) -> None:
        """The books are exactly zero."""
        assert self.ring.world.admissions == {}
        self.does(balances_equal_seats(self.ring))


def play(database: Database, loop: asyncio.AbstractEventLoop, examples: int, steps: int) -> None:
    RingUnderFaults.database = database
    RingUnderFaults.loop = loop
    run_state_machine_as_test(
        RingUnderFaults,
        settings=settings(
            in_worlds(examples),
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
            database=None,
            report_multiple_bugs=False,
        ),
    )


async def test_nothing_is_lost_or_doubled_whatever_happens_between_two_steps(muster: Database) -> None:
    await asyncio.to_thread(play, muster, asyncio.get_running_loop(), 25, 40)


async def test_what_lost_an_elastic_part_is_remembered_as_the_ledger_tells(muster: Database) -> None:
    RingUnderFaults.database, RingUnderFaults.loop = muster, asyncio.get_running_loop()

    def live() -> None:
        life = RingUnderFaults()
        life.begin()
        life.pod_group(queue="b", minimum=1, members=4, gpus=4)
        life.crash()
        life.volcano_job_with_a_launcher(queue="a", workers=1, gpus=1)
        life.teardown()

    await asyncio.to_thread(live)


@pytest.mark.long
async def test_nothing_is_lost_or_doubled_in_long_histories(muster: Database) -> None:
    await asyncio.to_thread(play, muster, asyncio.get_running_loop(), 300, 60)
