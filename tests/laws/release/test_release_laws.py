"""Writes that are slow, reordered, repeated or lost: no pod runs in a seat that was given back, none in another's.

Real: world, engine, orders, and the writers with their queues, pauses and expectations. Fake: the cluster, and an API
server of which requests and answers arrive when the test says so.
"""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from queues.api import names
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_components import control_jobs, run_pods, schedule
from tests.fakes.fake_objects import ENDED
from tests.fakes.model_api_server import ModelApiServer, ModelLoop
from tests.laws.laws.release import (
    no_device_twice,
    no_pod_is_made_again_twice,
    no_pod_of_a_closed_admission,
    no_two_pods_on_one_seat,
)
from tests.laws.worlds.release import Leader

QUEUES = ("a", "b")
NODES = ("n1", "n2")
GPUS_PER_NODE = 4

queues = st.sampled_from(QUEUES)
counts = st.integers(1, 4)
devices = st.sampled_from([1, 2, 2, 4])
which = st.integers(0, 20)
#: What the line does while a decision is made.
meanwhile = st.lists(
    st.tuples(st.sampled_from(["arrive", "reply", "lose", "arrive_late"]), which), max_size=4
)


class SlowWrites(RuleBasedStateMachine):
    """One term of a leader behind a bad line."""

    def __init__(self) -> None:
        super().__init__()
        self.names = 0
        #: Names of PodGroups that there are, or were.
        self.groups: list[str] = []
        self.cluster = FakeCluster()
        self.cluster.add_queue("root")
        for queue in QUEUES:
            self.cluster.add_queue(queue)
        for queue in self.cluster.objects["queues"].values():
            queue["spec"] = {}
        for node in NODES:
            self.cluster.add_node(node, GPUS_PER_NODE)
        self.loop = ModelLoop(self.cluster)
        self.api = ModelApiServer(self.cluster)
        self.leader = Leader(self.cluster, self.api)

    def name(self) -> str:
        self.names += 1
        return f"w{self.names}"

    def does(self, step: Callable[[], object]) -> None:
        """Something happens, and everything that can follow at once does."""

        async def inside() -> None:
            step()

        self.loop.run_until_complete(inside())
        self.loop.settle()
        no_two_pods_on_one_seat(self.cluster)
        no_device_twice(self.cluster)
        no_pod_is_made_again_twice(self.cluster)

    # ── what comes and goes ─────────────────────────────────────────────────────────────────────────────────────

    @rule(queue=queues, replicas=counts, elastic=st.booleans(), gpus=devices)
    def volcano_job(self, queue: str, replicas: int, elastic: bool, gpus: int) -> None:
        minimum = max(1, replicas - 2) if elastic else replicas
        self.cluster.add_volcano_job(self.name(), queue, replicas, minimum, gpus)

    @rule(queue=queues, pods=counts, more=st.sampled_from([0, 0, 2]), indexed=st.booleans(), gpus=devices)
    def job(self, queue: str, pods: int, more: int, indexed: bool, gpus: int) -> None:
        self.cluster.add_job(self.name(), queue, pods, pods + more, indexed=indexed, gpus=gpus)

    @rule(queue=queues, members=counts, gpus=devices)
    def pod_group(self, queue: str, members: int, gpus: int) -> None:
        name = self.name()
        self.groups.append(name)
        self.cluster.add_group(name, queue, members)
        for _ in range(members):
            self.preemptable(self.cluster.add_member(self.name(), name, gpus))

    @rule(number=which, queue=queues)
    def pod_group_is_made_again(self, number: int, queue: str) -> None:
        there = {group["metadata"]["name"] for group in self.cluster.objects["groups"].values()}
        if gone := [name for name in self.groups if name not in there]:
            self.cluster.add_group(gone[number % len(gone)], queue, 1)

    @rule(number=which, gpus=devices)
    def member(self, number: int, gpus: int) -> None:
        if groups := list(self.cluster.objects["groups"].values()):
            name = groups[number % len(groups)]["metadata"]["name"]
            self.preemptable(self.cluster.add_member(self.name(), name, gpus))

    @rule(queue=queues, gpus=devices)
    def bare_pod(self, queue: str, gpus: int) -> None:
        self.preemptable(self.cluster.add_bare_pod(self.name(), queue, gpus))

    def preemptable(self, uid: str) -> None:
        self.cluster.change("pods", uid, {"metadata": {"annotations": {names.PREEMPTABLE: "true"}}})

    @rule(node=st.sampled_from(NODES), gpus=devices)
    def foreign_pod(self, node: str, gpus: int) -> None:
        if self.cluster.gpus_on(node) + gpus <= GPUS_PER_NODE:
            self.cluster.add_foreign_pod(self.name(), node, gpus)

    @rule(number=which)
    def delete_workload(self, number: int) -> None:
        every = [(kind, uid) for kind in ("vcjobs", "jobs", "groups") for uid in self.cluster.objects[kind]]
        if every:
            self.cluster.remove(*every[number % len(every)])

    @rule(number=which)
    def delete_workload_without_pods(self, number: int) -> None:
        every = [(kind, uid) for kind in ("vcjobs", "jobs") for uid in self.cluster.objects[kind]]
        if every:
            self.cluster.remove_without_pods(*every[number % len(every)])

    @rule(number=which, parallelism=counts)
    def scale_job(self, number: int, parallelism: int) -> None:
        """An Indexed one with its completions, if they are as many. A policy keeps what is released from growing."""
        if jobs := list(self.cluster.objects["jobs"].items()):
            uid, job = jobs[number % len(jobs)]
            before, completions = job["spec"]["parallelism"], job["spec"]["completions"]
            after = parallelism if job["spec"]["suspend"] else min(parallelism, before)
            if job["spec"]["completionMode"] == "Indexed" and completions == before:
                completions = after
            self.cluster.change("jobs", uid, {"spec": {"parallelism": after, "completions": completions}})

    @rule(number=which)
    def delete_pod(self, number: int) -> None:
        pods = [
            uid for uid, pod in self.cluster.objects["pods"].items() if pod["status"]["phase"] not in ENDED
        ]
        if pods:
            self.cluster.delete_pod(pods[number % len(pods)])

    @rule(number=which, phase=st.sampled_from(["Succeeded", "Succeeded", "Failed"]))
    def end_pod(self, number: int, phase: str) -> None:
        if running := self.cluster.running():
            self.cluster.end_pod(running[number % len(running)], phase)

    @rule(queue=queues, capability=st.sampled_from([None, 2]))
    def quota(self, queue: str, capability: int | None) -> None:
        self.cluster.add_queue(queue, capability)
        self.cluster.objects["queues"][queue]["spec"].pop("policy")

    # ── what others do ──────────────────────────────────────────────────────────────────────────────────────────

    @rule(most=st.sampled_from([1, 1000]))
    def controllers(self, most: int) -> None:
        self.does(lambda: control_jobs(self.cluster, most))

    @rule()
    def scheduler(self) -> None:
        self.does(lambda: schedule(self.cluster))

    @rule()
    def kubelets(self) -> None:
        self.does(lambda: run_pods(self.cluster))

    @rule(seconds=st.sampled_from([1, 6, 31, 61]))
    def later(self, seconds: int) -> None:
        self.pass_time(seconds)

    def pass_time(self, seconds: int) -> None:
        self.cluster.now += seconds
        self.does(lambda: None)

    # ── what the leader and the line do ─────────────────────────────────────────────────────────────────────────

    @rule(
        delivered=st.none() | st.dictionaries(st.sampled_from(["pods", "jobs", "vcjobs", "groups"]), counts),
        line=meanwhile,
    )
    def turn(self, delivered: dict[str, int] | None, line: list[tuple[str, int]]) -> None:
        def between() -> None:
            for what, number in line:
                getattr(self.api, what)(number)

        self.does(lambda: self.leader.turn(delivered, between))

    @rule(number=which, times=st.integers(1, 4))
    def arrive(self, number: int, times: int) -> None:
        for _ in range(times):
            self.does(lambda: self.api.arrive(number))

    @rule(number=which, times=st.integers(1, 4))
    def reply(self, number: int, times: int) -> None:
        for _ in range(times):
            self.does(lambda: self.api.reply(number))

    @rule(number=which)
    def lose(self, number: int) -> None:
        self.does(lambda: self.api.lose(number))

    @rule(number=which)
    def reject(self, number: int) -> None:
        self.does(lambda: self.api.reject(number))

    @rule(number=which)
    def arrive_late(self, number: int) -> None:
        self.does(lambda: self.api.arrive_late(number))

    @rule(times=st.integers(1, 3))
    def all_is_well(self, times: int) -> None:
        for _ in range(times):
            self.beat()

    # ── and in the end ──────────────────────────────────────────────────────────────────────────────────────────

    def beat(self) -> None:
        """Everybody gets round to everything once."""
        self.does(lambda: self.leader.turn(None, lambda: None))
        for _ in range(20):
            if self.api.is_quiet:
                break
            self.does(self.api.serve)
        self.does(lambda: control_jobs(self.cluster))
        self.does(lambda: schedule(self.cluster))
        self.does(lambda: run_pods(self.cluster))
        self.pass_time(1)

    def settle(self, what: str, *, finish: bool) -> None:
        """Until nothing changes any more."""
        quiet = 0
        for _ in range(300):
            before = self.cluster.versions
            self.beat()
            if finish:
                for uid in self.cluster.running():
                    self.cluster.end_pod(uid, "Succeeded")
            quiet = quiet + 1 if self.cluster.versions == before and self.leader.is_quiet else 0
            if quiet in (2, 4, 6):
                self.pass_time(100)  # whoever waits for a time to pass has waited long enough
            if quiet == 8:
                return
        raise AssertionError(f"no end of changes: {what}")

    def teardown(self) -> None:
        try:
            self.api.stray.clear()
            for queue in QUEUES:
                self.quota(queue, None)
            self.settle("a good line", finish=False)
            no_pod_of_a_closed_admission(self.cluster, self.leader.ledger)
            foreign = [
                uid for uid, pod in self.cluster.objects["pods"].items() if not pod["metadata"]["labels"]
            ]
            for uid in foreign:
                self.cluster.end_pod(uid, "Succeeded")
            self.settle("everything ends", finish=True)
            for kind in ("vcjobs", "jobs", "groups", "pods"):
                for uid in list(self.cluster.objects[kind]):
                    self.cluster.remove(kind, uid)
            self.settle("everything goes", finish=True)
            assert self.leader.world.admissions == {}, "seats are held"
            assert self.leader.world.states == {}
        finally:
            self.loop.run_until_complete(self.leader.stop())
            self.loop.close()


# ── histories that are written down: each brings one mistake to light ───────────────────────────────────────────────


def without_pods() -> dict[str, int]:
    """The watch of pods is behind."""
    return {"jobs": 9, "vcjobs": 9, "groups": 9}


def evicted_while(machine: SlowWrites, what: Callable[[], None], afterwards: Callable[[], None]) -> None:
    """A gang that fills the cluster is evicted for another queue while something is done about its pods."""
    machine.turn(None, [])
    what()
    machine.job("b", 2, 0, False, 2)
    for _ in range(4):
        machine.turn(without_pods(), [])
    afterwards()
    machine.arrive(0, 4)
    machine.controllers(1000)
    machine.all_is_well(3)


def releases_are_under_way(machine: SlowWrites) -> None:
    machine.pod_group("a", 4, 2)
    evicted_while(machine, lambda: None, lambda: None)


def releases_got_no_answer(machine: SlowWrites) -> None:
    def lose_all() -> None:
        for _ in range(4):
            machine.lose(0)

    def arrive_late() -> None:
        for number in range(4):
            machine.arrive_late(number)

    machine.pod_group("a", 4, 2)
    evicted_while(machine, lose_all, arrive_late)


def the_watch_is_behind(machine: SlowWrites) -> None:
    def carry_out() -> None:
        machine.arrive(0, 4)
        machine.reply(0, 4)

    machine.pod_group("a", 4, 2)
    evicted_while(machine, carry_out, lambda: None)


def the_watch_is_behind_on_a_volcano_job(machine: SlowWrites) -> None:
    def carry_out() -> None:
        machine.arrive(0, 4)
        machine.reply(0, 4)

    machine.volcano_job("a", 4, False, 2)
    evicted_while(machine, carry_out, lambda: None)


def a_job_on_the_last_node(machine: SlowWrites) -> None:
    """A Job whose pods fill the only node that is left; it is resumed."""
    machine.foreign_pod("n1", GPUS_PER_NODE)
    machine.turn(None, [])
    machine.job("a", 2, 0, False, 2)
    machine.turn(None, [])
    machine.arrive(0, 1)
    machine.reply(0, 1)


def another_for_its_place(machine: SlowWrites, delivered: dict[str, int] | None, seconds: int) -> None:
    """It is deleted, and another one waits for its node; after so many seconds all its pods are there."""
    machine.delete_workload(0)
    machine.job("b", 2, 0, False, 2)
    machine.turn(delivered, [])
    machine.pass_time(seconds)
    for _ in range(3):
        machine.turn(delivered, [])
        machine.arrive(0, 1)
        machine.reply(0, 1)
    machine.controllers(1000)
    machine.all_is_well(3)


def a_job_is_deleted_while_the_watch_is_behind(machine: SlowWrites) -> None:
    a_job_on_the_last_node(machine)
    machine.controllers(1000)
    machine.scheduler()
    machine.kubelets()
    machine.turn(without_pods(), [])
    another_for_its_place(machine, without_pods(), 31)


def a_job_is_deleted_in_the_middle_of_a_sync(machine: SlowWrites) -> None:
    a_job_on_the_last_node(machine)
    machine.controllers(0)
    machine.turn(None, [])
    another_for_its_place(machine, None, 6)


def a_request_that_was_given_up_is_carried_out_twice(machine: SlowWrites) -> None:
    """It makes a pod of a gang that fills a node, which is deleted then; a Job waits for its place."""
    machine.foreign_pod("n1", GPUS_PER_NODE)
    machine.volcano_job("a", 4, False, 1)
    machine.turn(None, [])
    machine.lose(0)
    machine.arrive(0, 4)
    machine.arrive_late(0)
    a_job_comes_for_the_place_of_a_gang(machine)


def a_request_is_given_up_after_its_pod_was_seen(machine: SlowWrites) -> None:
    """And is carried out a second time when the gang is gone and others wait for its place."""
    machine.foreign_pod("n1", GPUS_PER_NODE)
    machine.volcano_job("a", 4, False, 1)
    machine.turn(None, [])
    machine.arrive(0, 4)
    machine.turn(None, [])
    machine.lose(0)
    a_job_comes_for_the_place_of_a_gang(machine)


def a_job_comes_for_the_place_of_a_gang(machine: SlowWrites) -> None:
    """Which is deleted once all is answered; a request that nobody waits for arrives afterwards."""
    machine.reply(0, 4)
    machine.job("a", 4, 0, False, 1)
    machine.delete_workload(0)
    machine.all_is_well(2)
    machine.arrive_late(0)
    machine.all_is_well(1)


def a_group_is_made_again_before_its_member_is_bound(machine: SlowWrites) -> None:
    """Which was let go for the one before; another pod waits for its place."""
    machine.foreign_pod("n1", GPUS_PER_NODE)
    machine.pod_group("a", 1, 4)
    machine.turn(None, [])
    machine.arrive(0, 1)
    machine.reply(0, 1)
    machine.turn(None, [])
    machine.delete_workload(0)
    machine.pod_group_is_made_again(0, "b")
    machine.bare_pod("b", 4)
    for _ in range(3):
        machine.turn(None, [])
        machine.arrive(1, 1)
        machine.reply(0, 1)


def a_member_is_released_for_another_group_of_the_same_name(machine: SlowWrites) -> None:
    """Its release for the first one got no answer, and was not carried out."""
    machine.pod_group("a", 2, 1)
    machine.turn(None, [])
    machine.lose(0)
    machine.delete_pod(1)
    machine.delete_workload(0)
    machine.pod_group_is_made_again(0, "a")


def a_job_is_deleted_without_its_pods(machine: SlowWrites) -> None:
    """Which are not bound yet; others wait for their place."""
    a_job_on_the_last_node(machine)
    machine.controllers(1000)
    machine.turn(None, [])
    machine.delete_workload_without_pods(0)
    machine.job("b", 2, 0, False, 2)
    machine.turn(None, [])
    machine.pass_time(31)
    for _ in range(3):
        machine.turn(None, [])
        machine.arrive(2, 1)
        machine.reply(0, 1)
    machine.controllers(1000)


def a_job_is_made_smaller_in_the_middle_of_a_sync(machine: SlowWrites) -> None:
    """Which goes on to make pods for all seats; others wait for those that are not wanted any more."""
    machine.foreign_pod("n1", GPUS_PER_NODE)
    machine.job("a", 4, 0, False, 1)
    machine.turn(None, [])
    machine.arrive(0, 1)
    machine.reply(0, 1)
    machine.controllers(1)
    machine.scale_job(0, 1)
    machine.bare_pod("b", 3)
    for _ in range(3):
        machine.turn(None, [])
        machine.arrive(0, 4)
        machine.reply(0, 4)
    machine.controllers(1000)
    machine.all_is_well(3)


def tell(history: Callable[[SlowWrites], None]) -> None:
    """Raises where the history breaks the law."""
    machine = SlowWrites()
    try:
        history(machine)
    finally:
        machine.teardown()


@pytest.mark.parametrize(
    "history",
    [
        releases_are_under_way,
        releases_got_no_answer,
        the_watch_is_behind,
        the_watch_is_behind_on_a_volcano_job,
        a_job_is_deleted_while_the_watch_is_behind,
        a_job_is_deleted_in_the_middle_of_a_sync,
        a_request_that_was_given_up_is_carried_out_twice,
        a_request_is_given_up_after_its_pod_was_seen,
        a_group_is_made_again_before_its_member_is_bound,
        a_member_is_released_for_another_group_of_the_same_name,
        a_job_is_deleted_without_its_pods,
        a_job_is_made_smaller_in_the_middle_of_a_sync,
    ],
)
def test_a_gang_that_leaves_while_it_is_released_keeps_its_seats(
    history: Callable[[SlowWrites], None],
) -> None:
    tell(history)


def play(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        SlowWrites,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
            database=None,
            report_multiple_bugs=False,
        ),
    )


def test_no_seat_is_given_back_while_a_pod_may_still_come_for_it() -> None:
    play(20, 40)


@pytest.mark.long
def test_no_seat_is_given_back_in_long_histories() -> None:
    play(2000, 80)
